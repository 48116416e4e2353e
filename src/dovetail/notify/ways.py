"""How a message is told. No text of it is ever a part of a command, a header or a piece of markup."""

from __future__ import annotations

import html
import json
import os
import shutil
import smtplib
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from email.message import EmailMessage

from .message import COMMAND, DESKTOP, HOOK, MAIL, WEBHOOK, Message
from .settings import MailSettings, NotifySettings

PATIENCE_S = 20.0
_LONGEST_TITLE, _LONGEST_TEXT = 200, 4000
_PORTS = {"starttls": 587, "tls": 465, "none": 25}
_MENTIONS = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})  # as Slack wants them


class CannotTell(Exception):
    """Why not, in one line. `for_good`: another attempt would not help."""

    def __init__(self, line: str, for_good: bool = False) -> None:
        super().__init__(line)
        self.for_good = for_good


def tell(way: str, message: Message, settings: NotifySettings) -> None:
    """By one way, in one attempt."""
    kind, _, rest = way.partition(":")
    try:
        if kind in ("http", "https"):
            _by_webhook(way, message)
        elif kind == WEBHOOK:
            _by_webhook(settings.webhook, message)
        elif kind == MAIL:
            _by_mail(rest or settings.mail.to, message, settings.mail)
        elif kind == DESKTOP:
            _by_desktop(message)
        elif kind == COMMAND:
            _by_command(settings.command, message)
        elif kind == HOOK:
            _by_command((rest,), message)
        else:
            raise CannotTell(f"{way!r} is no way to tell anybody", for_good=True)
    except (OSError, ValueError, smtplib.SMTPException, subprocess.SubprocessError) as error:
        raise CannotTell(f"{kind}: {_line(str(error) or type(error).__name__)}") from None


def _line(text: str, longest: int = _LONGEST_TITLE) -> str:
    """On one line, without signs that a terminal or a header would obey."""
    return "".join(own if own.isprintable() else " " for own in text)[:longest]


def _lines(text: str) -> str:
    return "\n".join(_line(own, _LONGEST_TEXT) for own in text[:_LONGEST_TEXT].split("\n"))


def _by_webhook(url: str, message: Message) -> None:
    if not url.startswith(("http://", "https://")):
        raise CannotTell(
            "webhook: no address is set; see dovetail config: notify.webhook", for_good=True
        )
    title, text = _line(message.title), _lines(message.text)
    body = {"text": f"*{title.replace('*', '')}*\n{text}".translate(_MENTIONS)}
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S):
            pass
    except urllib.error.HTTPError as error:
        for_good = 400 <= error.code < 500 and error.code not in (408, 429)
        raise CannotTell(f"webhook: it answered {error.code}", for_good) from None


def _by_mail(to: str, message: Message, settings: MailSettings) -> None:
    mail = EmailMessage()
    mail["Subject"] = f"[dovetail] {_line(message.title)}"
    mail["To"] = _line(to or message.user or "root")
    mail["From"] = _line(settings.sender or to or f"{message.user}@{os.uname().nodename}")
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(f"{_lines(message.title)}\n\n{_lines(message.text)}\n")
    if not settings.server:
        _by_sendmail(mail)
        return
    port = settings.port or _PORTS[settings.security]
    secure = ssl.create_default_context()
    me = os.uname().nodename  # else it would look for a longer one, which may take a minute
    if settings.security == "tls":
        server: smtplib.SMTP = smtplib.SMTP_SSL(
            settings.server, port, me, timeout=PATIENCE_S, context=secure
        )
    else:
        server = smtplib.SMTP(settings.server, port, me, timeout=PATIENCE_S)
    try:
        if settings.security == "starttls":
            server.starttls(context=secure)
        if settings.user:
            server.login(settings.user, settings.secret())
        server.send_message(mail)
        with suppress(OSError, smtplib.SMTPException):  # it was taken: never send it twice
            server.quit()
    finally:
        server.close()


def sendmail() -> str | None:
    return shutil.which("sendmail", path="/usr/sbin:/usr/lib:/usr/bin")


def _by_sendmail(mail: EmailMessage) -> None:
    program = sendmail()
    if program is None:
        raise CannotTell(
            "mail: no server is set (dovetail config: notify.mail.server) and there is no sendmail",
            for_good=True,
        )
    _run([program, "-t", "-oi"], bytes(mail), {})


def _by_desktop(message: Message) -> None:
    program = shutil.which("notify-send")
    if program is None:
        raise CannotTell("desktop: notify-send is not installed here", for_good=True)
    words = ["--app-name=dovetail", "--", _line(message.title), html.escape(_lines(message.text))]
    _run([program, *words], b"", {})


def _by_command(command: tuple[str, ...], message: Message) -> None:
    """The message is in its environment and, as JSON, its input: never among its words."""
    if not command or not command[0]:
        raise CannotTell("command: none is set; see dovetail config: notify.command", for_good=True)
    told = {
        "DOVETAIL_EVENT": message.event,
        "DOVETAIL_TITLE": _line(message.title),
        "DOVETAIL_TEXT": _lines(message.text),
        "DOVETAIL_JOB_ID": message.job_id,
        "DOVETAIL_JOB_NAME": _line(message.name),
        "DOVETAIL_PHASE": message.phase,
        "DOVETAIL_EXIT_CODE": "" if message.exit_code is None else str(message.exit_code),
    }
    _run(list(command), message.to_json().encode(), told)


def _run(words: list[str], given: bytes, variables: Mapping[str, str]) -> None:
    try:
        done = subprocess.run(
            words,
            input=given,
            env={**os.environ, **variables},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=PATIENCE_S,
            check=False,
        )
    except (FileNotFoundError, PermissionError) as error:
        raise CannotTell(f"{words[0]}: {error.strerror}", for_good=True) from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise CannotTell(
            f"{os.path.basename(words[0])} ended with {done.returncode}: {_line(said)}"
        )
