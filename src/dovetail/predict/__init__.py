"""What we believe about jobs before they have ended."""
