"""What every answer says to a browser: nothing of it is a script of somebody else's making.

Names, logs and metrics are texts of users. Pages escape them; should one be forgotten, the policy of
the page still runs no script but our own files, sends nothing elsewhere and lies in nobody's frame.
"""

from __future__ import annotations

from typing import Final

from dovetail.daemon.http.gate import App, Message, Receive, Scope, Send

PAGE_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_ALL: Final = {
    b"x-content-type-options": b"nosniff",  # a log is text, whatever stands in it
    b"cross-origin-resource-policy": b"same-origin",
    # With "no-referrer" a browser says of the form of our own login that it came from nowhere ("null").
    b"referrer-policy": b"same-origin",
}
_OF_PAGES: Final = {
    b"content-security-policy": PAGE_POLICY.encode(),
    b"cross-origin-opener-policy": b"same-origin",
    b"x-frame-options": b"DENY",
    b"cache-control": b"no-store",
}


class PageHeaders:
    """Around all endpoints."""

    def __init__(self, app: App) -> None:
        self._app: Final = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = _with_ours(list(message.get("headers", ())))
            await send(message)

        await self._app(scope, receive, answer)


def _with_ours(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Those that an answer has of its own stay."""
    told = {name.lower(): value for name, value in headers}
    is_page = told.get(b"content-type", b"").startswith(b"text/html")
    ours = {**_ALL, **(_OF_PAGES if is_page else {})}
    return [*headers, *((name, value) for name, value in ours.items() if name not in told)]
