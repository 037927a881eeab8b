"""What the wires share whose providers took OpenAI's chat completions over: a dialect, its lines, its live route.

A wire of this kind says in a `Dialect` what it knows beyond OpenAI and how it counts, and in `Rows` how its result
lines look. Routes for batches and files are the wire's own, or OpenAI's with another prefix.
"""
