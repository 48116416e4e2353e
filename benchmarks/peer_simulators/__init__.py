"""Public simulators of serving, run on our requests and our latencies: never part of this repository."""
