"""Pairlog's library: pairwise LLM-judge studies on an append-only event log.

It knows no Dagster; `assets` tells Dagster about it. People in a notebook begin with `pipeline.notebook`.
"""
