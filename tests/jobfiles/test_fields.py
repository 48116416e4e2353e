"""Every field of a job description: what may be written, what is kept, what is refused and how."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.errors import BadInput
from dovetail.jobfiles.job_model import Checkpoint, JobSpec, Resources, dump, read
from dovetail.jobfiles.quantities import moment


def spec(**fields: Any) -> JobSpec:
    return read({"run": "true", **fields})


def complaint(**fields: Any) -> str:
    with pytest.raises(BadInput) as caught:
        spec(**fields)
    told = str(caught.value)
    assert "\n" not in told
    assert len(told) < 500
    assert told.isprintable()
    return told


def asking(**resources: Any) -> JobSpec:
    return spec(resources=resources)


def test_a_script_is_all_a_job_needs() -> None:
    job = read({"run": "python train.py"})
    assert (job.gpus, job.priority, job.preemptible, job.checkpoint.grace) == (1, 0, True, 60)
    assert dump(job) == {"run": "python train.py"}


def test_a_job_that_runs_nothing_is_refused() -> None:
    with pytest.raises(BadInput, match="nothing to run: write the shell script in run"):
        read({"name": "idle"})
    with pytest.raises(BadInput, match="nothing to run"):
        read({"command": []})
    with pytest.raises(BadInput, match="run: '  ' is empty"):
        read({"run": "  "})
    with pytest.raises(BadInput, match="the program, is empty"):
        read({"command": ["", "x"]})


def test_a_job_runs_a_script_or_a_command_but_not_both() -> None:
    assert complaint(command=["true"]) == "run and command: give one of them, not both"


def test_arguments_go_with_a_script() -> None:
    assert spec(args=["a", 2]).args == ("a", "2")
    with pytest.raises(BadInput, match="args: they go with run"):
        read({"command": ["true"], "args": ["a"]})


def test_a_command_is_a_list_of_words_and_numbers() -> None:
    job = read({"command": ["python", "train.py", "--lr", 0.1, "--steps", 30]})
    assert job.command == ("python", "train.py", "--lr", "0.1", "--steps", "30")
    with pytest.raises(BadInput, match="command: 'python x' is not a list"):
        read({"command": "python x"})
    with pytest.raises(BadInput, match=r"command\[1\]: a list is not a text"):
        read({"command": ["python", ["x"]]})


@pytest.mark.parametrize(
    ("accelerators", "gpus", "kinds"),
    [
        ("H100:2", 2, ("H100",)),
        ("H100", 1, ("H100",)),
        ({"H100": 2}, 2, ("H100",)),
        ({"H100": "2", "A100": 2}, 2, ("H100", "A100")),
        ({"H100": None}, 1, ("H100",)),
        (["H100:4", "A100:4"], 4, ("H100", "A100")),
        ([{"accelerators": "H100:4"}], 4, ("H100",)),
        (2, 2, ()),
        ("2", 2, ()),
        (0, 0, ()),
        ("NVIDIA H100 80GB HBM3:2", 2, ("NVIDIA H100 80GB HBM3",)),
    ],
)
def test_accelerators_are_written_in_many_ways(
    accelerators: Any, gpus: int, kinds: tuple[str, ...]
) -> None:
    job = asking(accelerators=accelerators)
    assert (job.gpus, job.resources.kinds) == (gpus, kinds)


@pytest.mark.parametrize(
    "accelerators", ["H100:x", "H100:0.5", ":2", "a:b:2", "H100:-1", "H100:0", True, [True], ["\n"]]
)
def test_accelerators_that_make_no_sense_are_refused(accelerators: Any) -> None:
    told = complaint(resources={"accelerators": accelerators})
    assert "is not a kind and a number, such as H100:2 or 2" in told


def test_kinds_and_their_number_may_be_said_apart() -> None:
    job = asking(any_of=["H100", {"accelerators": "A100"}], gpus=2)
    assert (job.gpus, job.resources.kinds) == (2, ("H100", "A100"))


def test_a_job_has_one_number_of_gpus_whatever_the_kind() -> None:
    assert "asks for another number" in complaint(resources={"accelerators": "H100:2", "gpus": 3})
    assert "asks for another number" in complaint(
        resources={"accelerators": {"H100": 2, "A100": 4}}
    )


@pytest.mark.parametrize(
    ("written", "part"),
    [(0.25, 0.25), ("0.25", 0.25), (250, 0.25), ("250", 0.25), ("25%", 0.25), (1, 1), (1000, 1)],
)
def test_a_share_is_a_part_or_thousandths(written: Any, part: float) -> None:
    assert asking(share=written).resources.share == part


@pytest.mark.parametrize("written", [0, -0.5, 1.5, 1001, "0.0001", "101%", "x", True, []])
def test_a_share_of_nothing_or_of_more_than_a_gpu_is_refused(written: Any) -> None:
    assert complaint(resources={"share": written}).startswith("resources.share: ")


def test_a_share_goes_with_one_gpu() -> None:
    told = complaint(resources={"share": 0.5, "gpus": 2})
    assert told == "resources.share: 0.5 of 2 GPUs cannot be had; a share goes with one GPU"


@pytest.mark.parametrize(
    ("written", "gigabytes"),
    [
        ("20GB", 20),
        ("20 gb", 20),
        ("20G", 20),
        (20, 20),
        ("20", 20),
        ("1.5TB", 1500),
        ("500MB", 0.5),
        ("32+", 32),
        ("1GiB", 1.073741824),
        ("1024MiB", 1.073741824),
    ],
)
def test_sizes_have_units(written: Any, gigabytes: float) -> None:
    assert asking(gpu_memory=written).resources.gpu_memory == pytest.approx(gigabytes)
    assert asking(memory=written).resources.memory == pytest.approx(gigabytes)


@pytest.mark.parametrize(
    "written",
    ["lots", "20 parsecs", "-5GB", "iB", "5i", "", "nan", "inf", "1e400", 1e300, True, []],
)
def test_sizes_without_sense_are_refused(written: Any) -> None:
    assert complaint(resources={"memory": written}).startswith("resources.memory: ")


def test_cpus_may_be_written_as_at_least() -> None:
    assert asking(cpus="4+").resources.cpus == asking(cpus=4).resources.cpus == 4


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("2h30m", 9000), ("1-12:00:00", 129_600), (90, 90), ("90", 90), ("1:30:00", 5400), (0.5, 0.5)],
)
def test_time_limits_and_estimates_are_durations(written: Any, seconds: float) -> None:
    assert spec(time_limit=written).time_limit == seconds
    assert spec(estimate=written).estimate == seconds


@pytest.mark.parametrize(
    "written", [0, -1, "0s", "soon", "1:30", "nan", "1e13", float("inf"), True, [], 10**400]
)
def test_durations_without_sense_are_refused(written: Any) -> None:
    assert complaint(time_limit=written).startswith("time_limit: ")


def test_an_ambiguous_duration_is_told_what_it_could_be() -> None:
    assert "could be minutes:seconds or hours:minutes" in complaint(time_limit="1:30")


def test_the_grace_may_be_none_at_all() -> None:
    assert spec(checkpoint={"grace": 0}).checkpoint.grace == 0
    assert spec(checkpoint={"grace": "2m"}).checkpoint.grace == 120
    assert "checkpoint.grace: false" in complaint(checkpoint={"grace": False})


def test_that_a_job_saves_by_itself_is_kept_even_if_it_says_no_more() -> None:
    for checkpoint in ({}, {"grace": 60}):
        assert dump(spec(checkpoint=checkpoint)) == {"run": "true", "checkpoint": {}}
    assert dump(read(dump(spec(checkpoint={})))) == {"run": "true", "checkpoint": {}}


def test_a_deadline_is_a_time_or_a_while_from_now() -> None:
    assert spec(deadline="+2h").deadline == "+7200"
    assert spec(deadline="2026-12-01T18:00:00Z").deadline == "2026-12-01T18:00:00+00:00"
    local = spec(deadline="2026-12-01 18:00").deadline
    assert local is not None
    assert local.startswith("2026-12-01T18:00:00")
    assert local[19] in "+-"  # with the time zone of whoever wrote it


@pytest.mark.parametrize(
    "written",
    ["+", "+0", "soon", "", "fr", "24:00", 1_800_000_000, True, "9999-13-01 00:00", "+nan"],
)
def test_a_deadline_that_is_no_time_is_refused(written: Any) -> None:
    assert complaint(deadline=written).startswith("deadline: ")


WEDNESDAY = datetime(2026, 11, 18, 12, 0).astimezone()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("18:00", "2026-11-18 18:00"),  # the next one
        ("9:00", "2026-11-19 09:00"),
        ("9:05:10", "2026-11-19 09:05:10"),
        ("friday", "2026-11-21 00:00"),  # a day alone is meant to its end
        ("FRI 18:00", "2026-11-20 18:00"),
        ("wednesday", "2026-11-19 00:00"),
        ("wed 13:00", "2026-11-18 13:00"),
        ("wed 11:00", "2026-11-25 11:00"),
        ("today", "2026-11-19 00:00"),
        ("tomorrow 9:00", "2026-11-19 09:00"),
        ("2026-12-01", "2026-12-02 00:00"),
        ("2026-12-01t18:00", "2026-12-01 18:00"),
    ],
)
def test_points_in_time_are_read_as_people_say_them(written: str, meant: str) -> None:
    assert moment(written, WEDNESDAY) == datetime.fromisoformat(meant).astimezone()


def test_the_first_and_the_last_day_of_the_calendar_do_no_harm() -> None:
    for written in ("0001-01-01 00:00", "9999-12-31 23:59"):
        with suppress(BadInput):  # which it is depends on the time zone of this machine
            spec(deadline=written)


@pytest.mark.parametrize(
    ("written", "kept"),
    [(True, True), (False, False), ("restart", "restart"), ("no", False), ("True", True)],
)
def test_preemptible_is_yes_no_or_restart(written: Any, kept: Any) -> None:
    assert spec(preemptible=written).preemptible == kept


@pytest.mark.parametrize("written", ["maybe", 1, 0, "", []])
def test_preemptible_is_nothing_else(written: Any) -> None:
    assert "is not true, false or restart" in complaint(preemptible=written)


def test_an_elastic_job_asks_for_its_least_unless_it_says_more() -> None:
    assert spec(elastic={"min": 2, "max": 8}).gpus == 2
    assert spec(elastic={"min": 2, "max": 8}, resources={"gpus": 4}).gpus == 4


def test_an_elastic_range_must_hold_together() -> None:
    assert complaint(elastic={"min": 2}) == "elastic.max: this field is needed"
    assert complaint(elastic={"min": 3, "max": 2}) == "elastic: min 3 is more than max 2"
    told = complaint(elastic={"min": 2, "max": 4}, resources={"gpus": 8})
    assert told == "elastic: 8 GPUs are outside its range 2 to 4"


def test_dependencies_are_job_ids() -> None:
    assert spec(after=12).after == ("12",)
    assert spec(after=["12", "7.10", 3]).after == ("12", "7.10", "3")


@pytest.mark.parametrize("written", ["x", "1..2", -1, True, 7.1, [[1]], "1" * 30])
def test_dependencies_are_nothing_else(written: Any) -> None:
    assert "is not a job id" in complaint(after=written)


@pytest.mark.parametrize("written", [True, "many", 1.5, -1, 4097, "4097", [], {}, float("nan")])
def test_a_number_of_gpus_is_whole_and_not_a_truth_value(written: Any) -> None:
    assert complaint(resources={"gpus": written}).startswith("resources.gpus: ")


def test_numbers_may_come_as_texts() -> None:
    job = spec(resources={"gpus": "2"}, priority="-3.5", retries="4")
    assert (job.gpus, job.priority, job.retries) == (2, -3.5, 4)


@pytest.mark.parametrize("written", [float("nan"), float("inf"), "nan", "-inf", 10**400, True, "x"])
def test_a_priority_is_finite(written: Any) -> None:
    assert complaint(priority=written).startswith("priority: ")


def test_variables_are_texts_numbers_or_truth_values() -> None:
    job = spec(envs={"LR": 0.1, "N": 3, "FLAG": True, "EMPTY": "", "ß": "ü\n\x1b"})
    assert job.envs == {"LR": "0.1", "N": "3", "FLAG": "true", "EMPTY": "", "ß": "ü\n\x1b"}


@pytest.mark.parametrize("name", ["", "A=B", "A\0", "A\nB"])
def test_a_variable_needs_a_proper_name(name: str) -> None:
    assert "cannot be the name of a variable" in complaint(envs={name: "x"})


SECRET = "hunter2"


@pytest.mark.parametrize(
    "envs", [SECRET, [SECRET], {"A": [SECRET]}, {"A": f"{SECRET}\0"}, {"A": SECRET * 100_000}]
)
def test_no_message_shows_the_value_of_a_variable(envs: Any) -> None:
    assert SECRET not in complaint(envs=envs)
    assert SECRET not in complaint(env=envs)


def test_the_variables_do_not_show_where_a_description_is_printed() -> None:
    assert SECRET not in repr(spec(envs={"PASSWORD": SECRET}))


@pytest.mark.parametrize(
    ("field", "hint"),
    [
        ("priorty", "did you mean 'priority'?"),
        ("gpus", "did you mean 'resources.gpus'?"),
        ("accelerators", "did you mean 'resources.accelerators'?"),
        ("grace", "did you mean 'checkpoint.grace'?"),
        ("Env", "did you mean 'envs'?"),
        ("secrets", "use 'envs'"),
        ("num_nodes", "did you mean 'nodes'?"),
        ("depends_on", "did you mean 'after'?"),
        ("zork", "known are name, run, command"),
    ],
)
def test_an_unknown_field_is_told_what_was_meant(field: str, hint: str) -> None:
    assert complaint(**{field: 1}).startswith(f"{field}: there is no such field; {hint}")


def test_an_unknown_field_of_a_table_is_told_its_siblings() -> None:
    assert "did you mean 'resources.gpu_memory'?" in complaint(resources={"gpu_mem": 3})
    assert "known are grace, dir" in complaint(checkpoint={"zork": 3})


def test_of_several_mistakes_one_is_told_and_the_rest_counted() -> None:
    assert complaint(priority="x", retries="y").endswith("(1 more to mend)")


def test_a_null_counts_as_left_out() -> None:
    fields = {"name": None, "resources": {"gpus": None}, "envs": None, "array": None}
    assert read({"run": "true", **fields}) == read({"run": "true"})


@pytest.mark.parametrize("given", [None, [], "run: x", 3, True])
def test_a_description_is_a_table(given: Any) -> None:
    with pytest.raises(BadInput, match="a table of fields is needed"):
        read(given)


@pytest.mark.parametrize("field", ["resources", "checkpoint", "elastic", "envs"])
def test_a_table_cannot_be_a_number(field: str) -> None:
    assert complaint(**{field: 3}).startswith(f"{field}: ")


NAMES = ["a\nb", "a\x1b[31mb", "a\0b", "a\u202eb", "x" * 201, 3, True, [], "\ud800"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_one_short_printable_line(name: Any) -> None:
    for field in ("name", "tenant", "group"):
        assert complaint(**{field: name}).startswith(f"{field}: ")


def test_names_may_be_in_any_language() -> None:
    assert spec(name=" Träning 训练 🚀 ").name == "Träning 训练 🚀"


def test_scripts_may_hold_anything_but_nul_and_broken_text() -> None:
    assert spec(run="printf '\x1b[31m\t\r\n'").run == "printf '\x1b[31m\t\r\n'"
    assert "holds a NUL" in complaint(run="a\0b")
    assert "not UTF-8" in complaint(run="\udcff")


def test_paths_have_a_limit() -> None:
    assert "a path has 4,096 at most" in complaint(workdir="ü" * 3000)
    assert complaint(checkpoint={"dir": "\0"}).startswith("checkpoint.dir: ")


MEGABYTE = "x" * 1_000_000


@pytest.mark.parametrize(
    "fields",
    [
        {"run": MEGABYTE},
        {"setup": MEGABYTE},
        {"args": [MEGABYTE]},
        {"args": ["x" * 100_000] * 10},
        {"envs": {MEGABYTE: ""}},
        {"envs": {"A": MEGABYTE}},
        {"envs": {f"A{n}": "x" * 100_000 for n in range(10)}},
        {"args": ["x"] * 100_001},
        {"after": ["1"] * 1001},
        {"name": MEGABYTE},
        {"array": MEGABYTE},
        {"array": "1," * 500_000},
        {"deadline": MEGABYTE},
        {"time_limit": "9" * 1_000_000},
        {"priority": "9" * 1_000_000},
        {"resources": {"memory": "9" * 1_000_000}},
        {"resources": {"accelerators": MEGABYTE}},
        {"resources": {"any_of": ["A100"] * 1001}},
        {MEGABYTE: 1},
        {"after": MEGABYTE},
        {"preemptible": MEGABYTE},
        {"resources": MEGABYTE},
    ],
)
def test_enormous_values_are_refused_in_one_short_line(fields: dict[str, Any]) -> None:
    complaint(**fields)


def test_just_under_the_limit_is_accepted() -> None:
    assert spec(run="x" * 999_999).run == "x" * 999_999
    assert spec(args=["ü" * 65_535]).args


def test_deep_nesting_in_any_field_is_refused() -> None:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    for field in [*JobSpec.model_fields]:
        if field != "run":
            complaint(**{field: deep})


def test_what_is_kept_is_plain_json() -> None:
    job = spec(resources={"accelerators": "H100:2"}, after=[1, 2], deadline="+1h", envs={"A": 1})
    assert read(json.loads(json.dumps(dump(job)))) == job


SCALARS = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    st.sampled_from(
        ["1", "1-5", "2h", "+1h", "H100:2", "25%", "4GB", "restart", 10**400, "\ud800"]
    ),
)
FIELDS = st.sampled_from(
    [*JobSpec.model_fields, *Resources.model_fields, *Checkpoint.model_fields, "min", "max", "\n"]
)
VALUES = st.recursive(
    SCALARS, lambda own: st.lists(own, max_size=3) | st.dictionaries(FIELDS, own, max_size=3)
)


@given(st.dictionaries(FIELDS, VALUES, max_size=4))
def test_anything_is_a_description_or_one_clear_line(fields: dict[str, Any]) -> None:
    try:
        job = read(fields)
    except BadInput as error:
        told = str(error)
    else:
        told = job.model_dump_json()
    assert told.isprintable()
