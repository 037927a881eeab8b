"""What is done to the batches of a run, step by step: planned and sent, settled, fetched, published, tidied up.

Each step looks at what is due, announces what costs money before it does it, and records what came of it.
"""
