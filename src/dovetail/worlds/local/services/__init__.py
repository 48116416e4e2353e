"""Services on this machine: ports, and gateways as processes."""
