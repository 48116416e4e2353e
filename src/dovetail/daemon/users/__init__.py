"""Users of a shared machine: who they are, what they own, how much they may have."""
