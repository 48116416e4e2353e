"""`python -m tools.docs_site stage FOLDER`, then `check FOLDER`; mkdocs builds in between."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.docs_site.links import troubles
from tools.docs_site.staging import stage


def main(verb: str, folder: Path) -> int:
    if verb == "stage":
        print(f"{stage(folder)} pages in {folder}")
        return 0
    found = troubles(folder)
    for trouble in found:
        print(trouble, file=sys.stderr)
    print(f"{len(list(folder.rglob('*.html')))} pages, {len(found)} links that lead nowhere or out")
    return 1 if found else 0


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("stage", "check"):
        sys.exit("usage: python -m tools.docs_site stage|check FOLDER")
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
