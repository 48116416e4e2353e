"""The daemon's part of studies: opened, asked for settings, shown, archived."""
