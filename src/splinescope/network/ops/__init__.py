"""The one table of operations: what each torch operation is, whoever asks (tracing, watching, bounds).

Imports `program` and `patches`. An operation is one entry: see `registry`.
"""
