"""ElasticFlow's own simulator, played again: its events, slots and restart costs around our shares.

Only what decides an outcome is here. The program counts some things as nobody would who did not want
its figures (docs/allocation.md names them), so nothing outside this folder uses it.
"""
