"""Commands about simulation, as `dovetail --help` lists them."""
