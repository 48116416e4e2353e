"""Services: declared, scaled, put to sleep and woken; their replicas are jobs like all others."""
