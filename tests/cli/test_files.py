"""Jobs described by files: YAML, batch scripts, scripts."""

from __future__ import annotations

import stat
from pathlib import Path

from typed_box import Box


def _file(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_yaml_file_is_submitted_and_options_go_before_it(box: Box, tmp_path: Path) -> None:
    text = "name: from-file\nrun: echo $WHO $PWD\nworkdir: sub\nenvs: {WHO: file}\npriority: 2\n"
    path = _file(tmp_path, "job.yaml", text)
    (tmp_path / "sub").mkdir()
    job = box.submit("--priority", 9, "--env", "WHO=option", path, cwd=tmp_path)
    box.well("wait", job)
    row = box.json("show", job)
    assert (row["name"], row["priority"]) == ("from-file", 9)
    assert box.well("logs", job) == f"option {tmp_path}/sub\n"


def test_a_mistake_in_a_yaml_file_is_told_with_its_line(box: Box, tmp_path: Path) -> None:
    path = _file(tmp_path, "bad.yaml", "name: x\nrun: true\npriority: high\n")
    said = box("submit", path)
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith(f"dovetail: {path}, line 3: priority: ")


def test_a_batch_script_is_understood(box: Box, tmp_path: Path) -> None:
    script = (
        "#!/bin/bash\n#SBATCH --job-name=slurmy --gres=gpu:1 --time=10\n#SBATCH -p fast\n"
        "echo $SLURM_JOB_NAME $1 $SLURM_ARRAY_TASK_ID\n"
    )
    path = _file(tmp_path, "train.sbatch", script)
    said = box("submit", "-q", path, "--lr")
    assert said.code == 0
    assert said.err == f"dovetail: {path}: not used: --partition=fast; there is one queue\n"
    job = said.out.strip()
    box.well("wait", job)
    assert box.well("logs", job) == "slurmy --lr\n"
    row = box.json("show", job)
    assert (row["gpus"], row["time_limit_s"]) == (1, 600)


def test_any_script_is_run_by_what_its_first_line_names(box: Box, tmp_path: Path) -> None:
    path = _file(tmp_path, "tell", "#!/usr/bin/env python3\nimport sys\nprint(sys.argv[1:])\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    job = box.submit(path, "a", "-b")
    box.well("wait", job)
    assert box.well("logs", job) == "['a', '-b']\n"
    row = box.json("show", job)
    assert (row["name"], row["gpus"]) == ("tell", 1)


def test_a_python_file_is_told_how_to_be_run(box: Box, tmp_path: Path) -> None:
    path = _file(tmp_path, "train.py", "print(1)\n")
    assert f"dovetail submit -- python {path}" in box("submit", path).err
