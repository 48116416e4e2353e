"""Commands about studies, as `dovetail --help` lists them."""
