"""Policies that promise deadlines: ElasticFlow, Chronus and GENIE."""
