"""The gateway: the one address of a service, a process of its own that outlives the daemon."""
