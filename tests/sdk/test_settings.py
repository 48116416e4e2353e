"""A trial finds its settings; outside a study it has the usual ones."""

from __future__ import annotations

import pytest

from dovetail import sdk


def test_outside_a_study_there_are_the_usual_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOVETAIL_SETTINGS", raising=False)
    assert sdk.settings() == {}
    assert sdk.settings(lr=0.1) == {"lr": 0.1}


def test_what_the_study_has_chosen_goes_before_the_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOVETAIL_SETTINGS", '{"lr": 0.5, "optimizer": "adam"}')
    assert sdk.settings() == {"lr": 0.5, "optimizer": "adam"}
    assert sdk.settings(lr=0.1, units=64) == {"lr": 0.5, "optimizer": "adam", "units": 64}
