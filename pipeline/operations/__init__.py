"""What a person or an orchestrator can ask for, as operations on the log.

Every one reads, decides, announces, acts and records; done twice, it does nothing the second time. `worker` holds
what they share; the command line and the Dagster assets call nothing below this package.
"""
