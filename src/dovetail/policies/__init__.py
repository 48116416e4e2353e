"""Policies: who runs next, where, and who gives way. One file is one family."""
