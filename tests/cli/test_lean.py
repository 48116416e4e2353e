"""What every command waits for: its imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

from typed_box import Box

HEAVY = (
    "pydantic",
    "yaml",
    "fastapi",
    "uvicorn",
    "numpy",
    "asyncio",
    "http.client",
    "ssl",
    "sqlite3",
)
_TYPE = """
import sys
from dovetail.cli.main import main
sys.argv = ["dovetail", *sys.argv[1:]]
try:
    main()
finally:
    print("LOADED", *(name for name in {heavy!r} if name in sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "words",
    [
        ["queue"],
        ["submit", "--", "true"],
        ["nodes"],
        ["history"],
        ["cancel", "--mine"],
        ["whatif", "--", "true"],
    ],
)
def test_commands_load_nothing_heavy(box: Box, words: list[str]) -> None:
    script = _TYPE.format(heavy=HEAVY)
    typed = [sys.executable, "-c", script, "--home", str(box.home), *words]
    done = subprocess.run(typed, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert done.stderr.splitlines()[-1].strip() == "LOADED"
