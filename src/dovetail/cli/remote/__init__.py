"""Commands for a daemon on another machine: carried out there by ssh, or here over the network."""
