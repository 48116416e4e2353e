"""Commands about jobs, as `dovetail --help` lists them."""
