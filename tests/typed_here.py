"""Commands run in this process, as the shell would run them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from dovetail.cli.main import main


class Said(NamedTuple):
    code: int
    out: str
    err: str


Type = Callable[..., Said]


def typing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Type:
    def run(*words: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["dovetail", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return run
