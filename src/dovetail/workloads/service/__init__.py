"""Services: replicas of one server, kept as many as the load needs."""
