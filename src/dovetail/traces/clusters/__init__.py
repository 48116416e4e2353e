"""Clusters, tenants, costs, speeds and node failures, read from files."""
