"""`dovetail install` and `uninstall`: a daemon that starts with the machine."""
