"""Requests from `files` and made by chance (`made_up`): streams, in order of time."""
