"""Chance for generated input, from a seed.

`st.randoms` asks Hypothesis for every single number, which takes five times as long as what is tried
with them. A seed costs nothing; what fails under it is named by it, and the worlds are small.
"""

from __future__ import annotations

from random import Random

from hypothesis import strategies as st

CHANCES = st.integers(0, 2**32 - 1).map(Random)
