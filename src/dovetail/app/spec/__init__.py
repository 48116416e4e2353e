"""What a user writes to describe a job: YAML files, `#SBATCH` lines, JSON sent to the daemon.

`sbatch` needs the standard library only, so that a plain submission starts fast. The model needs
pydantic, `yaml_files` needs PyYAML too: import those modules where they are used.
"""
