"""Forecasts: when jobs start and end, why a job waits, what would happen if."""
