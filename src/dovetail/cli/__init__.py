"""The commands of the live mode. Each module is loaded when its command is called, and loads little."""
