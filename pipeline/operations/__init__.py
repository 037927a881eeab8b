"""What a person or an orchestrator can ask for, as operations on the log.

Every one reads, decides, announces, acts and records; done twice, it does nothing the second time. The modules here are
whole operations. They stand on `studies` (from a file to open runs), `reading` (what is read from a store), `batches`
(what is done to a batch, step by step) and `workers` (a worker and its runs), each on those behind it.

The command line, the notebook and the Dagster assets open a store by its address and hand it to a worker; whatever else
of theirs reaches a store or a provider goes through this package. Values and pure functions of the core they use as
they need.
"""
