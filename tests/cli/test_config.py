"""The configuration file of a daemon: what it says holds unless something else is typed, and what is
wrong with it is told with its line."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from dovetail.cli.daemon.up import up
from dovetail.cli.daemon.up_settings import options_of, schema
from dovetail.config_file import read_config
from dovetail.core.errors import BadInput
from dovetail.home import home_in, system_home, user_home
from dovetail.notify.settings import NotifySettings
from gpu_stand_in import FOLDER, two_gpus
from two_users import as_root
from typed_box import Box

ROOT = Path(__file__).parents[2]


def written(folder: Path, text: str) -> Box:
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(text)
    return Box(folder)


def test_what_stands_in_the_file_holds_and_what_is_typed_wins(
    tmp_path: Path, make_box: Callable[[Path], Box]
) -> None:
    box = make_box(tmp_path / "home")
    written(box.home, '[up]\nslots = 3\npolicy = "srtf"\nkeep = ["runs=90d"]\n')
    told = box.well("up", "--policy", "las")
    assert "3 processor slots, policy las" in told
    rows = {row["setting"]: (row["value"], row["source"]) for row in config(box)}
    here = box.home / "config.toml"
    assert rows["slots"] == ("3", f"{here}:2")
    assert rows["policy"] == ("las", f"typed; {here}:3 says srtf")
    assert rows["keep"] == ("runs=90d", f"{here}:4")
    assert rows["world"] == ("local", "last time")
    assert rows["listen"] == ("", "usual")


def config(box: Box) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(box.well("config", "show", "--json"))
    return found


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ('[up]\nslots = "3"\n', 2, "slots: '3' is not a whole number"),
        ("[up]\n\nslost = 3\n", 3, "[up] has no 'slost'; did you mean slots?"),
        ("[up]\nslots = 0\n", 2, "slots: 0 is not in the range 1<=x<=4096"),
        ("[up]\nwithout-tls = 1\n", 2, "1 is not true or false"),
        ("[up]\nkeep = 'runs=1d'\n", 2, "a list of texts is needed"),
        ("[up]\nsystem = true\n", 2, "[up] has no 'system'"),
        ("[up]\npolicy = srtf\n", 2, "this is no TOML"),
        ('[up]\npolicy = "nope"\n', 2, "policy: there is no policy 'nope'"),
        ("[ups]\n", 1, "the file has no 'ups'; did you mean up?"),
        ("up = 3\n", 1, "up is a table: write [up]"),
        ('[up]\npolicy = "srtf:predictor=nope"\n', 2, "policy: there is no predictor 'nope'"),
        ('[up]\npredictor = "mixture"\n', 2, "predictor: goes with --policy"),
        ('[up]\nkeep = ["runs=soon"]\n', 2, "keep: runs=soon: of runs say days"),
        ('[up]\nfree-memory = "lots"\n', 2, "free-memory: lots: write a part"),
        ('[up]\ngpus = "x"\n', 2, "gpus: x: there is no GPU here"),
        ('[up]\ncosts = "gone.toml"\n', 2, "gone.toml"),
        ('[up]\nspeed-table = "gone.csv"\n', 2, "gone.csv"),
        ('[up]\npower-table = ["V100=gone.csv"]\n', 2, "gone.csv"),
        ('[up]\nlisten = "7733"\n', 2, "listen: cannot listen at '7733'; write HOST:PORT"),
        ('[up]\nlisten = "0.0.0.0:7733"\n', 2, "listen: who listens on the way to 0.0.0.0"),
        ('[up]\ntls-cert = "gone.pem"\n', 2, "tls-cert: goes with --listen"),
        ('[up]\nlisten = "127.0.0.1:1"\ntls-cert = "gone.pem"\n', 2, "cannot read the certifi"),
        ('[up]\ngroup = "staff"\n', 2, "group: goes with --system"),
        ('[up]\ncontext = "there"\n', 2, "context: goes with --world kubernetes"),
        ("[notify]\nnope = 1\n", 2, "notify: there is no nope"),
        ('[notify]\nhow = "desktop"\non = ["failed"]\n', 3, "on: 'failed' is none of start, end"),
        ('[notify]\nhow = ["pigeon"]\n', 2, "how: 'pigeon' is none of desktop, mail"),
        ("[notify]\nmail = 3\n", 2, "mail: a table is needed"),
        ("[notify.mail]\n\nport = true\n", 3, "mail.port: True is not what is needed there"),
    ],
)
def test_what_is_wrong_is_one_line_with_its_place(
    tmp_path: Path, text: str, line: int, told: str
) -> None:
    box = written(tmp_path / "home", text)
    said = box("config", "check")
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert f"{box.home}/config.toml:{line}: " in said.err
    assert told in said.err


def test_a_policy_is_checked_with_the_speeds_that_the_file_names(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for policy in ("gavel:speeds=similar", "gavel:speeds=measured"):
        box = written(home, f'[up]\npolicy = "{policy}"\nspeed-table = "speeds.csv"\n')
        (home / "speeds.csv").write_text("model,kind,gpus,steps_per_s\nresnet,V100,1,10\n")
        assert "is right" in box.well("config", "check")
    box = written(home, '[up]\npolicy = "gavel:speeds=similar"\nspeed-table = "none"\n')
    assert "policy: speed predictor 'similar' needs a table" in box("config", "check").err


def test_prices_that_a_daemon_cannot_use_are_refused_before_it_starts(tmp_path: Path) -> None:
    box = written(tmp_path / "home", '[up]\ncosts = "costs.toml"\n')
    (box.home / "costs.toml").write_text('price = "price.csv"\n')
    (box.home / "price.csv").write_text("hour,price\n0,0.1\n1,0.2\n")
    said = box("config", "check")
    assert "config.toml:2: costs: the price table " in said.err
    assert "price.csv has 2 hours; a daemon may run for ever" in said.err


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("box = 1", "config.toml:2: write a table: [hosts.box]"),
        ("box.ssh = 1", "config.toml:2: 1 is not what is needed there"),
        ("box.sshh = 'ann@box'", "config.toml:2: [hosts.box] has no 'sshh'; did you mean ssh?"),
        ("[hosts.box]", "hosts.box: say either ssh or url"),
        ("box.url = 'ftp://box'", "'ftp://box' is no address of a daemon; write https://box:7733"),
    ],
)
def test_hosts_that_could_not_be_used_are_told_by_the_check(
    tmp_path: Path, host: str, told: str
) -> None:
    box = written(tmp_path / "home", f"[hosts]\n{host}\n")
    assert told in box("config", "check").err


def test_a_right_file_and_none_at_all_are_said_to_be_so(tmp_path: Path) -> None:
    box = written(tmp_path / "home", '[up]\npolicy = "srtf"\n\n[hosts.box]\nssh = "ann@box"\n')
    assert "is right: 1 setting of up" in box.well("config", "check")
    assert "There is no" in Box(tmp_path / "other").well("config", "check")


@pytest.mark.parametrize("page", ["configure.md", "be-told.md"])
def test_the_files_that_the_pages_show_are_right(
    tmp_path: Path, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "docs" / "howto" / page).read_text()
    shown = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert shown
    two_gpus(tmp_path, monkeypatch)
    path = os.pathsep.join([str(FOLDER), os.environ.get("PYTHONPATH", "")])
    for number, example in enumerate(shown):
        box = written(tmp_path / f"home{number}", example)
        (box.home / "costs.toml").write_text("price = 0.3\n")
        assert "is right" in box.well("config", "check", PYTHONPATH=path)


def test_how_one_is_told_stands_in_the_file_of_the_user(tmp_path: Path) -> None:
    box, own = written(tmp_path / "home", "[notify]\ncommand = ['here']\n"), tmp_path / "own"
    (own / "dovetail").mkdir(parents=True)
    file = own / "dovetail" / "config.toml"
    file.write_text(
        '[notify]\nhow = ["mail"]\nwebhook = "https://hooks.example.org/secret"\n'
        '[notify.mail]\npassword = "secret"\n'
    )
    told = box.well("config", "check", XDG_CONFIG_HOME=str(own))
    assert f"[notify] is read from {file}, of whoever hands a job in, not here." in told
    told = box.well("config", "show", "--json", XDG_CONFIG_HOME=str(own))
    rows = {row["setting"]: (row["value"], row["source"]) for row in json.loads(told)}
    assert rows["notify.how"] == ("mail", f"{file}:2")
    assert rows["notify.webhook"] == ("https://hooks.example.org/…", f"{file}:3")
    assert rows["notify.mail.password"] == ("(set)", f"{file}:5")
    assert rows["notify.command"] == ("", "usual")
    assert "secret" not in told


def test_paths_count_from_the_folder_of_the_file(tmp_path: Path) -> None:
    box = written(tmp_path / "home", '[up]\ncosts = "costs.toml"\nspeed-table = "none"\n')
    rows = {row["setting"]: row["value"] for row in config(box)}
    assert rows["costs"] == str(box.home / "costs.toml")
    assert rows["speed-table"] == "none"


def test_each_daemon_has_a_file_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert user_home().config == tmp_path / "dovetail" / "config.toml"
    assert system_home().config == Path("/etc/dovetail/config.toml")
    assert home_in(tmp_path / "x").config == tmp_path / "x" / "config.toml"


@as_root
def test_everybodys_daemon_heeds_no_file_that_others_can_change(open_folder: Path) -> None:
    box = written(open_folder / "home", "[up]\nslots = 1\n")
    (box.home / "config.toml").chmod(0o666)
    said = box("up", "--system", "--group", "nogroup")
    assert said.code == 1
    assert "can be changed by others than root" in said.err


def test_the_schema_has_every_option_and_is_published() -> None:
    """`dovetail config schema > docs/config.schema.json` writes it anew."""
    found = schema(up)
    assert set(found["properties"]["up"]["properties"]) == set(options_of(up))
    notify = found["properties"]["notify"]["properties"]
    assert set(notify) == {item.name for item in fields(NotifySettings)}
    assert json.loads((ROOT / "docs" / "config.schema.json").read_text()) == found


def test_the_line_of_a_key_is_found_under_its_table(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[hosts.box]\nssh = "a"\n[hosts."the box"]\n ssh = "b"\nup.slots = 1\n')
    file = read_config(path)
    assert file.at("hosts", "the box", "ssh") == f"{path}:4"
    assert file.at("hosts", "box", "token") == f"{path}:1"
    path.write_bytes(b"x\n")
    with pytest.raises(BadInput, match="this is no TOML"):
        read_config(path)
