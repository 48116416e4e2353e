"""Clusters of several GPU kinds."""
