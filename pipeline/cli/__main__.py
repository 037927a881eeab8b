"""`python -m pipeline.cli` is `pairlog`."""

from pipeline.cli import main

main()
