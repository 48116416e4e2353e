"""The pages by which a browser on another machine gets in: a token becomes a cookie."""

from __future__ import annotations

from html import escape
from string import Template
from typing import Final
from urllib.parse import parse_qs

from starlette.responses import HTMLResponse, RedirectResponse, Response

from dovetail.daemon.http.network_access import Denied, FirstLook, NetworkAccess
from dovetail.dashboard import files

LOGIN: Final = "/page/login"
LOGOUT: Final = "/page/logout"
FIRST_PAGE: Final = "/page/"
STATIC: Final = "/page/static/"  # our own files, the same for everybody
_MOST_FIELDS: Final = 10


async def login_answer(asked: FirstLook, form: bytes, network: NetworkAccess) -> Response | None:
    """None: this is no page about who somebody is."""
    if asked.path == LOGIN and asked.method == "GET":
        return login_page()
    try:
        if asked.path == LOGIN and asked.method == "POST":
            network.check_site(asked)
            return _to(FIRST_PAGE, network.log_in(_token_in(form), asked))
        if asked.path == LOGOUT and asked.method == "POST":
            return _to(LOGIN, network.log_out(asked))
    except Denied as why:
        return login_page(str(why), why.status)
    return None


def turned_to_login(asked: FirstLook, why: Denied) -> Response | None:
    """Somebody who looks at a page, not a program that asks."""
    is_page = asked.method == "GET" and "text/html" in asked.headers.get("accept", "")
    return RedirectResponse(LOGIN, 303) if is_page and why.status == 401 else None


def login_page(message: str = "", status: int = 200) -> Response:
    styles = [
        f'<link rel="stylesheet" href="{files.address(name)}">\n'
        for name in ("style.css", "dashboard.css")
    ]
    text = Template(files.text_of("login.html")).substitute(
        styles="".join(styles), message=escape(message), hidden="" if message else " hidden"
    )
    return HTMLResponse(text, status)


def _to(page: str, cookie: str) -> Response:
    return RedirectResponse(page, 303, {"set-cookie": cookie})


def _token_in(form: bytes) -> str:
    try:
        fields = parse_qs(form.decode("utf-8", "replace"), max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise Denied(400, "the form has too many fields: it needs the token alone") from None
    return fields.get("token", [""])[0]
