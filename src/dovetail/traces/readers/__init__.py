"""Readers of traces: our own format and third-party formats."""
