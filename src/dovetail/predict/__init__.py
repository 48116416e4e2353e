"""Beliefs about jobs before they have ended."""
