"""Shares of GPU kinds over time, and rounds that give them: Gavel, AlloX, Gandiva_fair."""
