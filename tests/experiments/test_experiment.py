"""The parts of a simulation that no command shows by itself."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from dovetail.experiments.experiment import quick_texts


@given(times=st.lists(st.floats(0.0, allow_infinity=False, allow_nan=False), min_size=1))
@example(times=[0.0, 1e-5, 5e-324, 0.1 + 0.2, 1e15, 1e16, 1e22, 1.7976931348623157e308])
def test_the_text_of_every_time_reads_back_as_it_was(times: list[float]) -> None:
    assert [float(text) for text in quick_texts(times)] == times
