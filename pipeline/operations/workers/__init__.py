"""What every operation works with: a worker at a store, the runs in its hands, and their samples and requests."""
