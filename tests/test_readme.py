"""What the README shows is what happens."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _example() -> tuple[str, list[str], str]:
    """The CSV, the arguments of the command and the table it prints."""
    block = re.search(r"\$ cat jobs\.csv\n(.*?)```", README, re.DOTALL)
    assert block is not None
    csv, _, rest = block[1].partition("$ ")
    command, _, output = rest.partition("\n")
    return csv, shlex.split(command)[1:], output.partition("\n\n")[0]


def test_the_example_prints_what_the_readme_shows(tmp_path: Path) -> None:
    csv, arguments, table = _example()
    (tmp_path / "jobs.csv").write_text(csv, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "dovetail.cli.main", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(table)
    assert (tmp_path / "results" / "report.html").exists()


def test_every_policy_is_named() -> None:
    from dovetail.policies.registry import BUILTIN

    assert [name for name in BUILTIN if f"`{name}`" not in README] == []
    assert f"**{len(BUILTIN)} policies**" in README


def test_every_link_leads_somewhere() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
