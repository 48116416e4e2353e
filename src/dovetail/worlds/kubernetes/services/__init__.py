"""Services on a cluster: replicas at the addresses of their pods, gateways as pods behind Services."""
