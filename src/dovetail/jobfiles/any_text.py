"""A job file whose text alone is at hand: YAML, a script for Slurm, any script."""

from __future__ import annotations

from dovetail.jobfiles.job_model import JobSpec, read
from dovetail.jobfiles.sbatch_lines import MARK, is_script


def spec_in(text: str) -> JobSpec:
    if not is_script(text):
        from dovetail.jobfiles.yaml_files import parse_yaml

        return parse_yaml(text, "the job file")
    if f"\n{MARK}" not in f"\n{text}":
        return read({"run": text}, "the script")
    from dovetail.jobfiles.sbatch import parse_sbatch

    return read(parse_sbatch(text, (), "the script")[0], "the script")
