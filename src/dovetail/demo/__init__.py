"""`dovetail demo`: real training jobs under two policies, on this machine; or a simulated busy day."""
