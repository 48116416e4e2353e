"""Commands about the daemon, as `dovetail --help` lists them."""
