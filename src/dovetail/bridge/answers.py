"""The few pages that a bridge has of its own."""

from __future__ import annotations

from html import escape
from http import HTTPStatus
from typing import Final

FIRST_PAGE: Final = "/page/"
_POLICY: Final = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'"


def plain_page(status: int, sentence: str, **headers: str) -> bytes:
    """The bytes of an answer with one sentence, which also a command understands."""
    title = "Dovetail"
    text = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<h1>{title}</h1><p>{escape(sentence)}</p></html>\n"
    )
    return _answer(status, text, headers)


def welcome(cookie: str) -> bytes:
    """Sets the cookie, and goes on from a page of ours: a redirect would still count as the step of the
    page where the link was, and such steps carry no cookie."""
    text = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Dovetail</title>'
        f'<p>Dovetail: <a href="{FIRST_PAGE}">go on</a></p></html>\n'
    )
    return _answer(200, text, {"Set-Cookie": cookie, "Refresh": f"0; url={FIRST_PAGE}"})


def onward() -> bytes:
    return _answer(303, "", {"Location": FIRST_PAGE})


def _answer(status: int, text: str, headers: dict[str, str]) -> bytes:
    body = text.encode()
    own = {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Length": str(len(body)),
        "Connection": "close",
        "Cache-Control": "no-store",
        "Content-Security-Policy": _POLICY,
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
        **headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in own.items())
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{head}\r\n".encode() + body
