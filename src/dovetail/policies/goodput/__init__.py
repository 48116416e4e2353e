"""Policies that share out GPUs by how fast jobs learn with them.

`genetic` is Pollux' search and `program` Sia's integer program, both pure functions of tables.
"""
