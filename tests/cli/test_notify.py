"""People are told what became of their jobs: real processes, a real mail server, a real webhook."""

from __future__ import annotations

import json
import os
import socketserver
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from dovetail import notify
from dovetail.notify.ways import sendmail
from own_certificate import certificate, needs_openssl
from typed_box import Box
from waiting import until


class Webhook:
    """Takes messages; the first `refuses` of them it does not."""

    def __init__(self, refuses: int = 0) -> None:
        self.taken: list[dict[str, Any]] = []
        self.asked_at: list[float] = []
        webhook = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                webhook.asked_at.append(time.monotonic())
                refused = len(webhook.asked_at) <= refuses
                if not refused:
                    webhook.taken.append(body)
                self.send_response(503 if refused else 200)
                self.end_headers()

            def log_message(self, *words: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@contextmanager
def webhook(refuses: int = 0) -> Iterator[Webhook]:
    made = Webhook(refuses)
    yield made
    made.close()


class MailServer(socketserver.ThreadingTCPServer):
    """Speaks as much SMTP as is needed, and keeps what it gets."""

    daemon_threads = True

    def __init__(self, tls: tuple[Path, Path] | None = None) -> None:
        self.mails: list[str] = []
        self.refused = 0  # by who came
        super().__init__(("127.0.0.1", 0), _Smtp)
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def was_asked(self) -> bool:
        return bool(self.mails or self.refused)

    def get_request(self) -> Any:
        try:
            return super().get_request()
        except ssl.SSLError:
            self.refused += 1
            raise


class _Smtp(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        while line := self.rfile.readline():
            if line.upper().startswith(b"DATA"):
                self.wfile.write(b"354 go on\r\n")
                text = b""
                while (piece := self.rfile.readline()) != b".\r\n":
                    text += piece
                assert isinstance(self.server, MailServer)
                self.server.mails.append(text.decode())
            self.wfile.write(b"250 well\r\n")
            if line.upper().startswith(b"QUIT"):
                return


_NOTE = """#!/usr/bin/env python3
import json, sys
print(json.dumps(sys.argv[1:]), file=open("{seen}", "a"))
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("config")
    (folder / "dovetail").mkdir()
    return folder


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory, config: Path) -> Iterator[Box]:
    box = Box(tmp_path_factory.mktemp("home"))
    programs = tmp_path_factory.mktemp("bin")
    (programs / "notify-send").write_text(_NOTE.format(seen=config / "notes"))
    (programs / "notify-send").chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    trusted = str(config / "cert.pem")  # that a test may put there
    box.well("up", "--slots", 2, XDG_CONFIG_HOME=str(config), PATH=path, SSL_CERT_FILE=trusted)
    yield box
    box.well("down", "--cancel")


def test_a_webhook_is_told_of_starts_and_ends(box: Box) -> None:
    with webhook() as hook:
        job = box.sh("exit 3", "--notify", hook.url, "--notify-on", "start,end", "--name", "net")
        until(lambda: len(hook.taken) == 2)
        start, end = [own["text"].split("\n") for own in hook.taken]
        assert start[0] == f"*Job {job} (net) has started*"
        assert end[0] == f"*Job {job} (net) has failed*"
        assert "Exit code 3." in end[1]
        assert end[2] == f"Machine {os.uname().nodename}."


def test_a_note_on_the_screen_has_texts_and_no_options_of_ours(box: Box, config: Path) -> None:
    notes = config / "notes"
    job = box.sh("exit 7", "--notify", "desktop", "--name", "--icon=<b>x</b>")
    until(lambda: notes.exists() and notes.read_text().endswith("\n"))
    app, end, title, text = json.loads(notes.read_text())
    assert (app, end) == ("--app-name=dovetail", "--")
    assert title == f"Job {job} (--icon=<b>x</b>) has failed"
    assert "Exit code 7." in text


def test_who_wants_failures_hears_of_nothing_else(box: Box) -> None:
    with webhook() as hook:
        wishes = ("--notify", hook.url, "--notify-on", "failure")
        good, bad = box.sh("true", *wishes), box.sh("false", *wishes)
        box.in_phase(good, "finished")
        until(lambda: len(hook.taken) == 1)
        assert f"Job {bad} " in hook.taken[0]["text"]


def test_what_could_not_be_told_is_tried_again_and_holds_up_nobody(box: Box) -> None:
    with webhook(refuses=1) as hook:
        box.sh("true", "--notify", hook.url)
        until(lambda: len(hook.asked_at) == 1)
        box.in_phase(box.sh("true"), "finished")  # meanwhile everything goes on
        until(lambda: len(hook.taken) == 1)
        assert hook.asked_at[1] - hook.asked_at[0] >= 0.9


def test_names_are_texts_wherever_they_arrive(box: Box, config: Path, tmp_path: Path) -> None:
    name = "<!channel> $(touch hacked) `id` ' \" & -x --exec"
    taken, server = tmp_path / "taken.json", MailServer()
    port = server.server_address[1]
    (config / "dovetail" / "config.toml").write_text(
        f"[notify]\ncommand = ['sh', '-c', 'cat > {taken}.new; printenv DOVETAIL_TITLE >> "
        f"{taken}.new; mv {taken}.new {taken}']\n"
        f"[notify.mail]\nserver = '127.0.0.1'\nport = {port}\nsecurity = 'none'\n"
    )
    with webhook() as hook:
        words = ("--notify", hook.url, "--notify", "command", "--notify", "mail:ann@example.org")
        job = box.submit(*words, "--name", name, "--", "true", cwd=tmp_path)
        until(lambda: hook.taken and taken.exists() and server.mails)
        assert "&lt;!channel&gt;" in hook.taken[0]["text"]
        assert "<!channel>" not in hook.taken[0]["text"]
        told, title = taken.read_text().split("}")
        assert json.loads(told + "}")["name"] == name
        assert title.strip() == f"Job {job} ({name}) has finished"
        assert "To: ann@example.org\n" in server.mails[0].replace("\r", "")
        assert not list(tmp_path.glob("hacked"))
    server.shutdown()
    server.server_close()


_SHUT = """
import importlib.abc, os, sys
sys.path.append({package!r})
from notify import message, telling
class Shut(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Shut())
os.environ.update(HOME="/", XDG_CONFIG_HOME={config!r})
told = message.Message("end", {ways!r}, "Job 1 (größe) has finished", "größe " * 99, "1")
print(telling.told(told, ()))
"""


def test_nothing_is_loaded_after_the_change_of_user(tmp_path: Path) -> None:
    """Who may not be able to read the Python that root runs."""
    server = MailServer()
    settings = tmp_path / "dovetail" / "config.toml"
    settings.parent.mkdir()
    settings.write_text(
        f"[notify.mail]\nserver = '127.0.0.1'\nport = {server.server_address[1]}\n"
        "security = 'none'\n"
    )
    package = str(Path(notify.__file__).parent.parent)
    with webhook() as hook:
        ways = ("mail:ann@example.org", hook.url, "http://größe.invalid/")
        program = _SHUT.format(package=package, config=str(tmp_path), ways=ways)
        words = [sys.executable, "-I", "-S", "-X", "utf8", "-c", program]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (done.stderr, len(server.mails), len(hook.taken)) == ("", 1, 1)
    assert done.stdout.startswith("['http: ")
    server.shutdown()
    server.server_close()


def test_lines_of_a_batch_script_ask_for_mail(box: Box, config: Path, tmp_path: Path) -> None:
    server = MailServer()
    (config / "dovetail" / "config.toml").write_text(
        f"[notify.mail]\nserver = '127.0.0.1'\nport = {server.server_address[1]}\n"
        "security = 'none'\nsender = 'box@example.org'\n"
    )
    script = tmp_path / "job.sh"
    script.write_text(
        "#!/bin/sh\n#SBATCH --mail-type=END,FAIL --mail-user=bob@example.org\nexit 1\n"
    )
    job = box.submit(script)
    until(lambda: server.mails)
    mail = server.mails[0].replace("\r", "")
    assert "To: bob@example.org\n" in mail
    assert "From: box@example.org\n" in mail
    assert f"Subject: [dovetail] Job {job} (job) has failed\n" in mail or f"Job {job}" in mail
    server.shutdown()
    server.server_close()


def test_a_users_settings_hold_for_jobs_that_say_nothing(box: Box, config: Path) -> None:
    with webhook() as hook:
        settings = config / "dovetail" / "config.toml"
        settings.write_text(f'[notify]\nhow = ["webhook"]\nwebhook = "{hook.url}"\n')
        job = box.well("submit", "-q", "--", "true", XDG_CONFIG_HOME=str(config)).strip()
        until(lambda: hook.taken)
        assert f"Job {job} " in hook.taken[0]["text"]
        settings.write_text("[notify]\nhwo = 1\n")
        said = box("submit", "--", "true", XDG_CONFIG_HOME=str(config))
        assert (said.code, said.err.count("\n")) == (1, 1)
        assert "there is no hwo; command, how, mail, on, webhook are known" in said.err
        settings.write_text('[notify]\nhow = ["webhook"]\non = ["failed"]\n')
        said = box("submit", "--", "true", XDG_CONFIG_HOME=str(config))
        assert said.code == 1
        assert f"{settings}:3: notify: on: 'failed' is none of start, end, failure" in said.err
        settings.unlink()


def test_who_asks_later_is_told_as_well_and_may_take_it_back(box: Box) -> None:
    with webhook() as hook:
        job, other = box.sh("true", "--hold", "--name", "later"), box.sh("true", "--hold")
        array = box.submit("--array", "0-1", "--hold", "--", "true")
        told = box.well("notify", job, other, hook.url)
        assert told == f"You will be told of jobs {job} and {other}: end, by {hook.url}.\n"
        assert box.well("notify", other, "none") == f"You will not be told of job {other}.\n"
        box.well("notify", f"{array}.1", hook.url, "--on", "start")
        box.well("resume", job, other, array)
        until(lambda: len(hook.taken) == 2)
        heads = {own["text"].split("\n")[0] for own in hook.taken}
        assert heads == {
            f"*Job {job} (later) has finished*",
            f"*Job {array}.1 (true) has started*",
        }
        said = box("notify", job, hook.url)
        assert (said.code, "finished already" in said.err) == (1, True)


def test_how_somebody_is_told_comes_last(box: Box) -> None:
    job = box.sh("true", "--hold")
    said = box("notify", job)
    assert (said.code, "say of which jobs, then how" in said.err) == (2, True)
    said = box("notify", job, "pigeon")
    assert "notify: 'pigeon' is none of desktop, mail, webhook" in said.err
    box.well("cancel", job)


def test_who_asks_later_hears_where_it_will_be_told(box: Box, config: Path) -> None:
    job, settings = box.sh("true", "--hold"), config / "dovetail" / "config.toml"
    settings.write_text("[notify.mail]\nserver = '127.0.0.1'\nto = 'ann@example.org'\n")
    told = box.well("notify", job, "mail", XDG_CONFIG_HOME=str(config))
    assert told == f"You will be told of job {job}: end, by mail to ann@example.org.\n"
    assert "of end, by mail (as your settings say)" in box.well("show", job)
    for way in ("webhook", "command"):
        said = box("notify", job, way, XDG_CONFIG_HOME=str(config))
        assert (said.code, said.err.count("\n")) == (1, 1)
        assert f"{way}: notify.{way} is not set in {settings}, so nobody would be told" in said.err
    settings.write_text("[notify.mail]\nserver = '127.0.0.1'\n")
    assert "notify.mail.to is not set" in box.well(
        "notify", job, "mail", XDG_CONFIG_HOME=str(config)
    )
    settings.unlink()
    said = box("notify", job, "mail:bob@example.org", XDG_CONFIG_HOME=str(config))
    assert (said.code == 0) == (sendmail() is not None)
    assert said.code == 0 or f"notify.mail.server is not set in {settings} and" in said.err
    box.well("cancel", job)


@pytest.mark.skipif(sendmail() is not None, reason="this machine can send mail")
def test_who_would_not_be_told_is_said_when_a_job_is_handed_in(
    box: Box, config: Path, tmp_path: Path
) -> None:
    settings, script = config / "dovetail" / "config.toml", tmp_path / "job.sh"
    script.write_text(
        "#!/bin/sh\n#SBATCH --gres=gpu:1 --mail-type=END --mail-user=ann@example.org\ntrue\n"
    )
    mail = f"notify.mail.server is not set in {settings} and this machine has no sendmail"
    missing = "notify-send is not installed here (on Debian: apt-get install libnotify-bin)"
    for words, told in (
        (("--notify", "mail", "--", "true"), f"mail: {mail}"),
        ((str(script),), f"mail:ann@example.org: {mail}"),
        (
            ("--notify", "command", "--", "true"),
            f"command: notify.command is not set in {settings}",
        ),
        (("--notify", "desktop", "--", "true"), f"desktop: {missing}"),
    ):
        said = box("submit", *words, XDG_CONFIG_HOME=str(config), PATH="/nowhere")
        assert said.code == 0
        assert said.err == f"dovetail: warning: {told}, so nobody would be told\n"
    settings.write_text("[notify.mail]\nserver = '127.0.0.1'\n")
    said = box("submit", "--notify", "mail", "--", "true", XDG_CONFIG_HOME=str(config))
    settings.unlink()
    assert said.err == ""


def test_many_messages_come_as_few(box: Box) -> None:
    with webhook() as hook:
        box.well("submit", "--array", "0-39", "--notify", hook.url, "--", "true")
        until(lambda: sum(_jobs_in(own["text"]) for own in hook.taken) == 40)
        assert len(hook.taken) < 40


def _jobs_in(text: str) -> int:
    first = text.removeprefix("*").split()
    return int(first[0]) if first[0].isdigit() else 1


def test_ways_and_events_that_are_none_are_refused(box: Box) -> None:
    said = box("submit", "--notify", "pigeon", "--", "true")
    told = "notify: 'pigeon' is none of desktop, mail, webhook, command, mail:ADDRESS or https://…"
    assert told in said.err
    said = box("submit", "--notify", "mail", "--notify-on", "lunch", "--", "true")
    assert "notify_on: 'lunch' is none of start, end, failure, best" in said.err


def test_hooks_run_before_and_after_each_job_as_its_user(box: Box, tmp_path: Path) -> None:
    hooks = box.home / "hooks"
    hooks.mkdir()
    before, after = hooks / "before-start", hooks / "after-end"
    seen = tmp_path / "seen"
    before.write_text(
        f'#!/bin/sh\n[ "$DOVETAIL_JOB_NAME" != bad ] || exit 9\necho before >> {seen}\n'
    )
    after.write_text(f"#!/bin/sh\necho after $DOVETAIL_JOB_ID $DOVETAIL_PHASE >> {seen}\n")
    for path in (before, after):
        path.chmod(0o755)
    try:
        job = box.sh(f"echo job >> {seen}", "--name", "good")
        until(lambda: seen.exists() and seen.read_text().count("\n") == 3)
        assert seen.read_text() == f"before\njob\nafter {job} finished\n"
        refused = box.sh(f"echo job >> {seen}", "--name", "bad")
        assert box.in_phase(refused, "failed")["exit_code"] == 9
        before.chmod(0o777)  # now others could change it
        box.in_phase(box.sh("true", "--name", "bad"), "finished")
    finally:
        before.unlink()
        after.unlink()


def test_a_study_tells_of_its_best_trials_and_its_end(box: Box, tmp_path: Path) -> None:
    with webhook() as hook:
        study = tmp_path / "study.yaml"
        study.write_text(
            "name: told\nrun: |\n  for i in 1 2; do echo '{{\"step\": '$i', \"loss\": {x}}}'; done\n"
            f"space: {{x: {{choice: [1, 2]}}}}\nmetric: loss\nsteps: 2\ntrials: 2\n"
            f"sampler: grid\nnotify: {hook.url}\nnotify_on: [best, end]\n"
        )
        box.well("tune", study, "--detach")
        until(lambda: any("has ended" in own["text"] for own in hook.taken))
        assert any("Study told has a new best trial" in own["text"] for own in hook.taken)
        assert not any("Job" in own["text"] for own in hook.taken)


def test_who_tells_ends_with_the_daemon_and_what_was_not_told_is_told_by_the_next(
    tmp_path: Path,
) -> None:
    """Once: a program that went on would tell it beside that of the next daemon."""
    own = Box(tmp_path / "home")
    settings = {"XDG_CONFIG_HOME": str(tmp_path)}
    (tmp_path / "dovetail").mkdir()
    begun = tmp_path / "begun"
    (tmp_path / "dovetail" / "config.toml").write_text(
        f"[notify]\ncommand = ['sh', '-c', 'echo $$ >> {begun}; exec sleep 19']\n"
    )
    own.well("up", "--slots", 1, **settings)
    own.sh("true", "--notify", "command")
    until(lambda: begun.exists() and begun.read_text().endswith("\n"))
    own.well("down")
    down_at = time.monotonic()
    until(lambda: not _lives(begun.read_text().split()[0]))
    assert time.monotonic() - down_at < 10  # by itself it takes 19
    own.well("up", "--slots", 1, **settings)
    until(lambda: begun.read_text().count("\n") == 2)
    own.well("down", "--cancel")
    until(lambda: not _lives(begun.read_text().split()[1]))


def test_a_last_message_is_told_before_the_daemon_is_down(tmp_path: Path) -> None:
    own = Box(tmp_path / "home")
    with webhook() as hook:
        own.well("up", "--slots", 1)
        own.sh("sleep 600", "--notify", hook.url)
        own.well("down", "--cancel")
        assert len(hook.taken) == 1
        assert not list((own.home / "outbox").iterdir())


def _lives(process: str) -> bool:
    return Path("/proc", process).exists()


@needs_openssl
def test_mail_goes_by_tls_to_a_server_that_is_trusted_and_to_no_other(
    box: Box, config: Path, tmp_path: Path
) -> None:
    """The last one: who is not trusted is tried for a minute and a half."""
    trusted, strange = MailServer(certificate(config)), MailServer(certificate(tmp_path))
    for server in (trusted, strange):
        (config / "dovetail" / "config.toml").write_text(
            f"[notify.mail]\nserver = 'localhost'\nport = {server.server_address[1]}\n"
            "security = 'tls'\n"
        )
        box.in_phase(box.sh("true", "--notify", "mail:ann@example.org"), "finished")
        until(server.was_asked)
    assert (len(trusted.mails), trusted.refused) == (1, 0)
    assert strange.mails == []
    assert strange.refused >= 1
    for server in (strange, trusted):
        server.shutdown()
        server.server_close()
