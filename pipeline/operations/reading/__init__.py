"""What is read from a store: where everything stands, the rows, and what they answer. No provider is called."""
