"""The local world: real processes on this machine."""
