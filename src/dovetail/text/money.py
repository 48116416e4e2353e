"""Amounts of money as people write them."""

from __future__ import annotations


def money_text(amount: float, currency: str = "") -> str:
    """`10.30 €`, `0.12`; of small amounts two digits."""
    told = f"{amount:,.2f}" if abs(amount) >= 1 or not amount else f"{amount:.2g}"
    return f"{told} {currency}".rstrip()
