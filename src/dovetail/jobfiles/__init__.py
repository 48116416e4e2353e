"""What a user writes to describe a job: YAML files, `#SBATCH` lines, JSON sent to the daemon.

`sbatch` needs the standard library only and `yaml_files` PyYAML, so that a submission starts fast. The
model needs pydantic, and so do `jobs`, `launch` and `schema`: import them where they are used.
"""
