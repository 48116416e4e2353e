"""The answers of the daemon, one dataclass each: for the daemon, its schema and its clients."""
