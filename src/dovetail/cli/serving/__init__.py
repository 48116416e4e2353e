"""Commands about inference services."""
