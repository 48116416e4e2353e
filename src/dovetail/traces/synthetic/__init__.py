"""Traces made by chance."""
