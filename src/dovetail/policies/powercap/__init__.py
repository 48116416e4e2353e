"""Elastic jobs under a cap on power or energy: `steps` is the rule as a pure function."""
