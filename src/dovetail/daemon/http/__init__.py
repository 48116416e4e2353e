"""What is asked of the daemon and answered, over its socket or the network."""
