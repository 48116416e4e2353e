"""Job descriptions in YAML files: as people write them, and as they should not."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from dovetail.core.errors import BadInput
from dovetail.jobfiles.job_model import JobSpec, dump, read
from dovetail.jobfiles.yaml_files import parse_yaml, text_of, unchecked

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(path: str) -> JobSpec:
    return parse_yaml(text_of(path), "standard input" if path == "-" else path)


def complaint(text: str) -> str:
    begun = time.process_time()
    with pytest.raises(BadInput) as caught:
        parse_yaml(text, "job.yaml")
    told = str(caught.value)
    assert "\n" not in told
    assert told.isprintable()
    assert len(told) < 500
    assert time.process_time() - begun < 10
    return told


def test_the_example_says_what_it_seems_to_say() -> None:
    job = load(str(EXAMPLES / "job.yaml"))
    assert (job.name, job.gpus, job.resources.kinds) == ("fine-tune", 2, ("H100",))
    assert (job.time_limit, job.deadline, job.checkpoint.grace) == (9000, "+28800", 90)
    assert job.envs == {"EPOCHS": "3"}


def test_values_are_taken_as_they_are_written() -> None:
    job = parse_yaml(
        """
        name: 010
        run: x
        envs: {LR: 1e-4, NORWAY: no, FLAG: true, OCTAL: 0o17, WHEN: 2026-12-01, EMPTY: ''}
        after: [7.10, 8]
        time_limit: 1:30:00
        deadline: 2026-12-01 18:00:00+00:00
        slurm: yes
        preemptible: false
        """
    )
    assert job.name == "010"
    assert list(job.envs.values()) == ["1e-4", "no", "true", "0o17", "2026-12-01", ""]
    assert job.after == ("7.10", "8")
    assert (job.time_limit, job.deadline) == (5400, "2026-12-01T18:00:00+00:00")
    assert (job.slurm, job.preemptible) == (True, False)


def test_words_of_a_command_are_taken_as_they_are_written() -> None:
    job = parse_yaml("command: [python, train.py, --lr, 1e-4, --resume, no]")
    assert job.command[3:] == ("1e-4", "--resume", "no")


def test_an_empty_field_counts_as_left_out() -> None:
    assert dump(parse_yaml("run: x\nname:\nenvs: ~\nresources:\n  gpus: null\n")) == {"run": "x"}


def test_json_is_yaml_too() -> None:
    job = parse_yaml('{"run": "echo \\ud83d\\ude80", "resources": {"gpus": 2}}')
    assert (job.run, job.gpus) == ("echo 🚀", 2)


def test_the_line_of_a_mistake_is_told() -> None:
    told = complaint("run: x\nresources:\n  gpus: 2\n  memory: lots\n")
    assert told == (
        "job.yaml, line 4: resources.memory: 'lots' is not a size; write 20GB, 16GiB or 512MB"
    )
    assert complaint("run: x\n\nprio: 3\n").startswith("job.yaml, line 3: prio: there is no such")
    assert complaint("command:\n- a\n- [b]\n").startswith("job.yaml, line 3: command[1]: ")
    assert complaint("run: x\nenvs:\n  A: 1\n  B:\n").startswith("job.yaml, line 4: envs.B: ")
    assert complaint("run: x\nelastic:\n  max: 1\n  min: 2").startswith("job.yaml, line 4: elastic")
    assert complaint("run: x\nresources: {gpus: 2, share: 0.5}").startswith("job.yaml, line 2: ")


def test_the_first_mistake_of_the_file_is_the_one_told() -> None:
    assert complaint("retries: x\npriority: y\nrun: x").startswith("job.yaml, line 1: retries")


def test_a_field_given_twice_is_refused() -> None:
    assert complaint("run: x\nrun: y") == "job.yaml, line 2: 'run' is there twice; remove one"
    assert "line 2: 'A' is there twice" in complaint("run: x\nenvs: {A: 1, A: 2}")


@pytest.mark.parametrize(
    "text",
    ["run: [x\nname: y", "run: x\nname: a: b", "run: 'x", "\tx", "run: *none", "a: b\n---\n"],
)
def test_what_is_not_yaml_is_said_with_its_line(text: str) -> None:
    assert ": this is not YAML: " in complaint(text)


@pytest.mark.parametrize("text", ["", "# nothing\n"])
def test_an_empty_file_is_refused(text: str) -> None:
    assert "it is empty" in complaint(text)


@pytest.mark.parametrize("text", ["- run: x", "python train.py", "3", "~", "[]", "---\n...\n"])
def test_a_file_that_is_no_table_is_refused(text: str) -> None:
    assert "a table of fields is needed" in complaint(text)


@pytest.mark.parametrize(
    "tag",
    [
        "!!python/object/apply:os.system",
        "!!python/name:os.system",
        "!!binary",
        "!!int",
        "!!timestamp",
        "!mine",
        "!<tag:yaml.org,2002:python/object/new:os.system>",
    ],
)
def test_tags_are_refused_and_nothing_is_made_of_them(tag: str) -> None:
    assert "is not understood; leave it out" in complaint(f"run: {tag} 'true'")
    assert "is not understood; leave it out" in complaint(f"{tag} run: 'true'")


def test_aliases_work_and_bombs_do_not() -> None:
    assert parse_yaml("run: x\nenvs: {A: &a 1, B: *a}").envs == {"A": "1", "B": "1"}
    bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{new}: &{new} [{','.join([f'*{old}'] * 10)}]\n"
        for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert "unfold to more than a job can hold" in complaint(bomb)
    long = f"a: &a {'x' * 100_000}\nargs: [{','.join(['*a'] * 1000)}]"
    assert "unfold to more than a job can hold" in complaint(long)


def test_a_value_that_contains_itself_is_refused() -> None:
    assert "unfold to more" in complaint("envs: &a {A: *a}")


@pytest.mark.parametrize("opening", ["[", "{", "- ", "? ", "[{a: ", "&a ["])
def test_endless_nesting_is_refused(opening: str) -> None:
    complaint(opening * 100_000)


def test_more_values_than_a_job_can_use_are_refused() -> None:
    assert "more than 20,000 values" in complaint("args: [" + "1," * 500_000 + "]")
    assert "more than 20,000 values" in complaint("envs:\n" + " a:\n" * 100_000)


def test_fields_need_plain_names() -> None:
    assert "must be a plain text" in complaint("? [a]\n: b")
    assert "cannot be the name of a variable" in complaint("run: x\nenvs: {'': 1}")


def test_merging_is_refused_by_name() -> None:
    assert "merging is not understood" in complaint("<<: {name: x}\nrun: x")


def test_control_characters_are_told_by_their_number() -> None:
    assert "line 2: the character U+0007 cannot stand in YAML" in complaint("run: x\nname: \x07")
    assert "cannot be printed" in complaint('run: x\nname: "\\x07"')
    assert "holds a NUL" in complaint('run: "a\\0b"')


def test_large_files_are_refused() -> None:
    assert "more than 2,000,000 characters" in complaint("#" * 2_000_001)
    assert "less than 1,000,000 is needed" in complaint("run: |\n" + "  echo hello\n" * 100_000)


def test_secrets_do_not_show_in_messages() -> None:
    assert "hunter2" not in complaint("run: x\nenvs: hunter2")
    assert "hunter2" not in complaint("run: x\nenvs: {A: [hunter2]}")


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"run: \xff")
    (tmp_path / "large.yaml").write_text("ü" * 2_000_000)
    for name, reason in [
        ("none.yaml", "No such file"),
        (".", "Is a directory"),
        ("latin.yaml", "not UTF-8"),
        ("large.yaml", "more than 2,000,000 bytes"),
        ("\0", "null"),
    ]:
        with pytest.raises(BadInput, match=reason):
            load(str(tmp_path / name))


def test_windows_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(b"\xef\xbb\xbfname: x\r\nrun: y\r\n")
    assert load(str(path)) == JobSpec.model_validate({"name": "x", "run": "y"})


def test_a_description_may_come_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"run: x")))
    assert load("-").run == "x"


def test_a_file_may_be_sent_unchecked_and_checked_elsewhere() -> None:
    path = str(EXAMPLES / "job.yaml")
    assert read(unchecked(text_of(path))) == load(path)


def test_sending_a_file_unchecked_does_not_load_pydantic() -> None:
    code = (
        "import sys; from dovetail.jobfiles.yaml_files import unchecked; unchecked('run: x');"
        "print([m for m in ('pydantic', 'dovetail.traces') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
