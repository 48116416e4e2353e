"""`dovetail serve simulate`, typed: the table, the JSON, and what is wrong with the input in a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from dovetail.core.errors import BadInput

SERVICES = """\
services:
  - {name: chat, slo_ms: 20, max_batch: 8, replicas: 2, latency: {fixed_ms: 4, per_item_ms: 2}}
  - {name: image, slo_ms: 40, latency: [{batch: 1, ms: 6}, {batch: 16, ms: 20}]}
"""
KEYS = [
    *("policy", "requests", "served", "dropped", "slo_attainment", "goodput_per_s"),
    *("mean_latency_s", "p50_latency_s", "p99_latency_s", "gpu_hours", "cost"),
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(SERVICES)
    return tmp_path


def typed(*words: str, cluster: str = "1x4", policies: str = "static") -> Result:
    fixed = ("--services", "s.yaml", "--cluster", cluster, "--policies", policies)
    return CliRunner().invoke(cli, ["serve", "simulate", *words, *fixed])


def complaint(*words: str, **more: str) -> str:
    found = typed(*words, **more)
    assert isinstance(found.exception, BadInput), found.output
    return str(found.exception)


def test_every_policy_has_a_row_of_one_table(here: Path) -> None:
    every = "static,clipper,nexus,clockwork,shepherd,symphony"
    found = typed("bursty:rate=200:seconds=5", policies=every)
    lines = found.output.splitlines()
    assert [line.split()[0] for line in lines[2:]] == every.split(",")
    assert max(map(len, lines)) <= 100


def test_json_is_a_list_with_the_promised_keys(here: Path) -> None:
    found = typed("poisson:rate=50:seconds=5", "--json", policies="static,clockwork")
    rows = json.loads(found.stdout)
    assert [row["policy"] for row in rows] == ["static", "clockwork"]
    for row in rows:
        assert list(row)[: len(KEYS)] == KEYS
        assert row["requests"] == row["served"] + row["dropped"] > 0
    again = typed("poisson:rate=50:seconds=5", "--json", policies="static,clockwork")
    assert again.stdout == found.stdout
    other = typed("poisson:rate=50:seconds=5", "--json", "--seed", "2", policies="static,clockwork")
    assert other.stdout != found.stdout


def test_the_price_of_a_gpu_hour_makes_the_cost(here: Path) -> None:
    (row,) = json.loads(typed("poisson:rate=9:seconds=9", "--json", "--gpu-price", "2.5").stdout)
    assert row["cost"] == pytest.approx(2.5 * row["gpu_hours"])
    (row,) = json.loads(typed("poisson:rate=9:seconds=9", "--json", "--gpu-price", "gpu=3").stdout)
    assert row["cost"] == pytest.approx(3 * row["gpu_hours"])


def test_our_requests_may_have_an_slo_of_their_own(here: Path) -> None:
    (here / "r.csv").write_text(
        "arrival_s,service,slo_s,prompt_tokens,output_tokens\n0,chat,,3,4\n1,chat,0.001,,\n"
    )
    (row,) = json.loads(typed("r.csv", "--json").stdout)
    assert (row["requests"], row["slo_attainment"]) == (2, 0.5)


def test_a_trace_of_azure_is_read_as_it_is(here: Path) -> None:
    (here / "s.yaml").write_text("services: [{name: a, latency: {fixed_ms: 10}}]")
    (here / "azure.csv").write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
    )
    (row,) = json.loads(typed("azure.csv", "--json").stdout)
    assert row["requests"] == 2
    assert row["gpu_hours"] * 3600 == pytest.approx(4.314579 + 0.01, abs=1e-5)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("0,chat\n1,talk\n", "r.csv:3: there is no service 'talk' in the services file; it has ch"),
        ("0,chat\nsoon,chat\n", "r.csv:3: column 'arrival_s': 'soon' is not a number"),
        ("3,chat\n1,chat\n", "r.csv:3: the request comes at 1 s, before the one above it; sort"),
        ("nan,chat\n", "r.csv:2: the request comes at nan s, which is no time"),
        ("-inf,chat\n", "r.csv:2: the request comes at -inf s, which is no time"),
        ("-1e300,chat\n", "r.csv:2: the request comes at -1e+300 s, which is no time"),
        ("0\n", "r.csv:2: the row has too few cells"),
        ("", "r.csv has no requests below its header"),
        ('0,"chat\n', "r.csv:2: unexpected end of data"),
    ],
)
def test_a_bad_row_is_one_line_that_names_it(here: Path, rows: str, told: str) -> None:
    (here / "r.csv").write_text(f"arrival_s,service\n{rows}")
    assert complaint("r.csv").startswith(told)


@pytest.mark.parametrize(
    ("service", "told"),
    [
        (
            "{name: a, slo_ms: 5, latency: {fixed_ms: 4, per_item_ms: 2}}",
            "service 'a': no configuration keeps its SLO of 5 ms: one request alone takes 6 ms on a "
            "GPU; what would: an SLO of 6 ms",
        ),
        (
            "{name: a, slo_ms: 8, share: 500, latency: {fixed_ms: 4, per_item_ms: 2}}",
            "service 'a': no configuration keeps its SLO of 8 ms: one request alone takes 12 ms on "
            "50% of a GPU; what would: an SLO of 12 ms or the whole of a GPU (6 ms)",
        ),
        (
            "{name: a, kind: A100, latency: {fixed_ms: 4}}",
            "service 'a' needs GPUs of kind 'A100'; the cluster has gpu",
        ),
        (
            "{name: a, latency: [{batch: 1, ms: 1, kind: A100}]}",
            "service 'a': latency: nothing is known for GPUs of kind 'gpu'; there is A100",
        ),
        (
            "{name: a, replicas: 5, latency: {fixed_ms: 4}}",
            "the replicas of the services need 5 GPUs, the cluster has 4 GPUs; give fewer replicas "
            "or a larger --cluster",
        ),
        (
            "{name: a, latency: {fixed_ms: 1e300}}",
            "s.yaml, line 1: latency: 1e+300 ms is too long; give at most 1e+09",
        ),
        (
            "{name: a, latency: [{batch: 1, ms: 1}, {batch: 1, ms: 2}]}",
            "s.yaml, line 1: latency: batch 1 is there twice; keep one of them",
        ),
        (
            "{name: a, latency: {fixed_ms: 4}, accuracy: 0.5, least_accuracy: 0.9}",
            "s.yaml: service 'a': least_accuracy: 0.9 is more than any variant has; the best has 0.5",
        ),
        (
            "{name: a, latency: {profile: }}",
            "s.yaml, line 1: latency: profile names no file; write {profile: FILE.csv}",
        ),
        (
            "{name: a, max_batches: 2, latency: {fixed_ms: 4}}",
            "s.yaml, line 1: services[0].max_batches: there is no such field; did you mean "
            "'services.max_batch'?",
        ),
    ],
)
def test_a_service_that_cannot_be_is_told_at_once(here: Path, service: str, told: str) -> None:
    (here / "s.yaml").write_text(f"services: [{service}]")
    assert complaint("poisson:rate=9:seconds=9") == told


def test_an_empty_file_of_services_is_told_with_what_one_has(here: Path) -> None:
    (here / "s.yaml").write_text("")
    assert complaint("poisson:rate=9").startswith(
        "s.yaml: it is empty; write at least 'services: ["
    )


def test_a_column_that_stands_twice_is_refused(here: Path) -> None:
    (here / "r.csv").write_text("arrival_s,service,arrival_s\n5,chat,1\n")
    assert complaint("r.csv") == "r.csv: column 'arrival_s' appears twice; rename or remove one"


def test_numbers_of_tokens_may_have_spaces_around_but_not_be_endless(here: Path) -> None:
    (here / "r.csv").write_text(
        "arrival_s,service,prompt_tokens\n0,chat,               5\n1,chat, \n"
    )
    assert typed("r.csv").exit_code == 0
    for cell in ("0" * 30 + "9" * 30, "0" * 5000, "-1", "1.5"):
        (here / "r.csv").write_text(f"arrival_s,service,prompt_tokens\n0,chat,{cell}\n")
        assert complaint("r.csv") == f"r.csv:2: {cell[:60]!r} is not a number of tokens"


def test_without_an_slo_every_policy_serves_all(here: Path) -> None:
    (here / "s.yaml").write_text("services: [{name: a, max_batch: 4, latency: {fixed_ms: 4}}]")
    every = "nexus,clockwork,shepherd,symphony,gpulet,igniter,infaas,mark,inferline,alpaserve"
    for row in json.loads(typed("poisson:rate=50:seconds=5", "--json", policies=every).stdout):
        assert (row["policy"], row["dropped"]) == (row["policy"], 0)


def test_a_service_that_a_policy_leaves_without_an_answer_is_told(here: Path) -> None:
    (here / "s.yaml").write_text(
        "services:\n  - {name: tight, slo_ms: 5, latency: {fixed_ms: 4}}\n"
        "  - {name: easy, slo_ms: 90, latency: {fixed_ms: 4}}\n"
    )
    (here / "r.csv").write_text("arrival_s,service\n0,tight\n1,easy\n2,tight\n")
    told = (
        "gpulet: none of 2 requests to 'tight' was answered; take another policy, a longer slo_ms "
        "or more GPUs"
    )
    found = typed("r.csv", policies="clockwork,gpulet")
    assert found.output.splitlines()[-1] == told
    assert told in typed("r.csv", "--json", policies="gpulet").stderr


def test_traffic_without_a_single_request_is_told(here: Path) -> None:
    told = complaint("poisson:rate=1e-9:seconds=1")
    assert told.endswith("not one request comes; give a higher rate or more seconds")


def test_what_is_unknown_is_told_with_what_there_is(here: Path) -> None:
    assert "did you mean 'static'?" in complaint("poisson:rate=9", policies="statik")
    assert "has no parameter 'rat'; it has rate" in complaint("poisson:rat=9")
    assert complaint("gone.csv") == "cannot read 'gone.csv': there is no such file"


ROOT = Path(__file__).parents[2]


def test_the_page_of_the_howto_shows_what_is_printed(here: Path) -> None:
    page = (ROOT / "docs" / "howto" / "simulate-services.md").read_text()
    (here / "s.yaml").write_text((ROOT / "examples" / "services" / "two.yaml").read_text())
    found = typed("bursty:rate=400:seconds=60", policies="static,nexus,clockwork,symphony")
    assert found.output in page


def test_training_has_a_table_of_its_own(here: Path) -> None:
    (here / "jobs.csv").write_text("job_id,submit_s,duration_s,gpus\na,0,3,1\nb,0,900,2\n")
    found = typed("poisson:rate=50:seconds=20", "--training", "jobs.csv", cluster="1x6")
    head = found.output.splitlines()[4]
    assert head.split("  ")[0] == "policy"
    assert "trained GPU-h" in head
    wrong = complaint("poisson:rate=9", "--training", "jobs.csv", "--interruption-cost", "x")
    assert wrong == "--interruption-cost 'x': give seconds, such as 30 or 5/20"


def test_options_that_would_change_nothing_are_refused(here: Path) -> None:
    wrong = complaint("poisson:rate=9", "--interruption-cost", "5")
    assert wrong == "--interruption-cost is of training jobs; give them with --training TRACE"
    wrong = complaint("poisson:rate=9", "--gpu-price", "T4=1")
    assert wrong == "--gpu-price 'T4=1': the cluster has no T4; it has gpu"


def test_a_training_job_that_can_never_start_is_told(here: Path) -> None:
    (here / "jobs.csv").write_text("job_id,submit_s,duration_s,gpus\na,0,3,1\nb,0,900,9\n")
    found = typed("poisson:rate=50:seconds=5", "--training", "jobs.csv")
    assert "job 'b' can never start: it needs 9 GPUs, and the cluster has 4" in found.output
    quiet = typed("poisson:rate=50:seconds=5", "--training", "jobs.csv", "--json")
    assert "job 'b' can never start" in quiet.stderr
    json.loads(quiet.stdout)
