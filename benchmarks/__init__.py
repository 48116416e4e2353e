"""Benchmarks: ratios within one run, because machines are noisy. Run with `make bench`."""
