"""Requests to services, simulated one by one: rules of batching and dispatch, replicas over time.

The loop has the shape of the scheduler's, at the level of requests: `engine` (time), `fleet` (which
servers there are), a controller made by a rule of `rules/` (who is served where and when), `tally`
(what became of it). Requests are streamed, never held.
"""
