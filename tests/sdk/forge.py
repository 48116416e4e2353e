"""Starts training scripts as processes of their own, forked from one that has imported PyTorch.

Importing it takes seconds, and the tests start dozens. Reads a request a line on stdin (its words,
its environment, how many bytes of reports to wait for before SIGTERM) and answers with exit codes.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy
import torch._dynamo  # optimizers would import it, for seconds, in every start
import torch.utils.data

IMPORTED = numpy, torch.utils.data


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        children = [start(request, rank) for rank in range(request["ranks"])]
        if request["term_after_bytes"] is not None:
            interrupt(children[0], Path(request["env"]["DOVETAIL_REPORT"]), request)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        print(json.dumps(codes), flush=True)


def start(request: dict[str, Any], rank: int) -> int:
    if child := os.fork():
        return child
    code = 1
    try:
        os.environ.update(request["env"], RANK=str(rank))
        os.chdir(request["folder"])
        os.dup2(2, 1)  # what the script prints is no answer of ours
        sys.argv = request["words"]
        runpy.run_path(sys.argv[0], run_name="__main__")
        code = 0
    except SystemExit as leaving:
        code = int(leaving.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def interrupt(child: int, file: Path, request: dict[str, Any]) -> None:
    """SIGTERM once the file is long enough, unless the child is done before."""
    while not file.exists() or file.stat().st_size < request["term_after_bytes"]:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return
        time.sleep(0.002)
    os.kill(child, signal.SIGTERM)


if __name__ == "__main__":
    main()
