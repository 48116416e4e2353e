"""Hyper-parameter studies: spaces, samplers, and the rules that say which trial matters most."""
