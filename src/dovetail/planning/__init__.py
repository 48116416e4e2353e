"""One decision on request: the JSON of the ANDREAS optimiser in, its answer out, by any policy."""
