"""The Dagster code location: tells Dagster about `pipeline`, and nothing else."""
