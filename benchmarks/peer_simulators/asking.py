"""Others' simulators are asked as programs of their own, with a Python that has what they need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
MOST_S = 900


class Peer(NamedTuple):
    """A simulator: DOVETAIL_NAME is the folder of its checkout, DOVETAIL_NAME_PYTHON its Python."""

    name: str
    driver: str

    @property
    def checkout(self) -> str:
        return os.environ.get(f"DOVETAIL_{self.name}", "")

    def is_here(self) -> bool:
        if not self.checkout:
            print(f"     {self.name} is not here (DOVETAIL_{self.name}=FOLDER): left out")
        return bool(self.checkout)

    def answer(self, asked: dict[str, Any]) -> Any:
        python = os.environ.get(f"DOVETAIL_{self.name}_PYTHON", sys.executable)
        command = [python, "-W", "ignore", str(HERE / self.driver), self.checkout]
        done = subprocess.run(
            command, input=json.dumps(asked), capture_output=True, text=True, check=False,
            timeout=MOST_S, cwd=HERE,
        )  # fmt: skip
        found = [line for line in done.stdout.splitlines() if line.startswith("ANSWER ")]
        if done.returncode or not found:
            last = (done.stderr.strip() or "it printed no answer").splitlines()[-1]
            raise SystemExit(f"{self.name} did not run with {python}: {last}")
        return json.loads(found[0].removeprefix("ANSWER "))
