"""A real Kubernetes for tests: built from Debian's source, run on this machine, gone afterwards."""
