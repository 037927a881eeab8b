"""From an experiment file to open runs: what it asks for, whether it may grow into that, and where texts come from."""
