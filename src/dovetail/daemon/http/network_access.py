"""Over the network: by a token in each request, or by the session of a browser that has shown one."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import replace
from time import monotonic
from typing import Final, NamedTuple

from dovetail.api.token_text import ADMIN, PREFIX, digest_of
from dovetail.bridge.same_site import cookie, cookies_in, foreign
from dovetail.daemon.http.access import Peer, SocketAccess
from dovetail.daemon.http.sessions import SESSION_S, Sessions
from dovetail.daemon.users import system_accounts as accounts
from dovetail.daemon.users.callers import Caller
from dovetail.daemon.users.tokens import Tokens
from dovetail.gateway.guesses import Guesses, network_of

_BEARER: Final = "bearer "
_KNOWN_FOR_S: Final = 5.0  # a user's groups, before they are looked up again
_NO_TOKEN: Final = "show the token: Authorization: Bearer …"


class Denied(Exception):
    """With the status that says whose turn it is."""

    def __init__(self, status: int, sentence: str, wait_s: float = 0.0) -> None:
        super().__init__(sentence)
        self.status: Final = status
        self.wait_s: Final = wait_s


class FirstLook(NamedTuple):
    """What is looked at of a request before anything else. Names of headers are in small letters."""

    method: str
    path: str
    headers: Mapping[str, str]
    host: str  # the address it comes from


class NetworkAccess:
    def __init__(self, access: SocketAccess, tokens: Tokens, secure: bool) -> None:
        self._access: Final = access
        self._tokens: Final = tokens
        self._guesses: Final = Guesses()
        self._sessions: Final = Sessions(access.token or "")
        self._secure: Final = secure
        self._known: Final[dict[int, tuple[float, Caller | None]]] = {}
        self.cookie_name: Final = "__Host-dovetail" if secure else "dovetail-session"

    def caller(self, asked: FirstLook) -> Caller:
        authorization = asked.headers.get("authorization", "")
        if authorization[: len(_BEARER)].lower() == _BEARER:
            return self._by_token(authorization[len(_BEARER) :].strip(), asked)
        if session := cookies_in(asked.headers.get("cookie", "")).get(self.cookie_name):
            return self._by_session(session, asked)
        raise Denied(401, _NO_TOKEN)

    def is_still(self, caller: Caller) -> bool:
        """May they go on with what has begun?"""
        return caller.token in ("", ADMIN) or self._user(caller.token) is not None

    def hold_for_services(self) -> dict[str, tuple[str, float | None]]:
        """Tokens by id, as digests, and when they are over: of users who may ask now. The daemon's own
        is root's on a box for several people, and is to be shown to no user's service."""
        found = {
            own.id: (own.digest, own.expires_at)
            for own in self._tokens.all()
            if self._user(own.id) is not None
        }
        if self._access.token is not None and not self._access.shared:
            found[ADMIN] = (digest_of(self._access.token), None)
        return found

    # --------------------------------------------------------------------------------------- tokens

    def _by_token(self, text: str, asked: FirstLook) -> Caller:
        if self._access.token is None:
            raise Denied(401, _NO_TOKEN)
        address, meant = network_of(asked.host), self._meant(text)
        if (wait_s := self._guesses.wait_s(address, meant)) > 0:
            raise Denied(429, f"too many wrong tokens; try again in {wait_s:.0f} s", wait_s)
        found = self._admin(text) or self._of_user(text)
        if found is None:
            self._guesses.wrong(address, meant)
            raise Denied(401, "this is no token of this daemon, or it was revoked or is over")
        return found

    def _meant(self, text: str) -> str:
        """The id of the token; "": there is none of the name, whoever guesses."""
        if not text.startswith(PREFIX):
            return ADMIN
        claimed = text.removeprefix(PREFIX).partition("_")[0]
        return claimed if self._tokens.get(claimed) is not None else ""

    def _admin(self, text: str) -> Caller | None:
        """The daemon's own token lies in its files, so whoever shows it counts as its user."""
        own = self._access.token or ""
        if not hmac.compare_digest(text.encode(errors="replace"), own.encode()):
            return None
        return self._daemon_user()

    def _daemon_user(self) -> Caller | None:
        found = self._access.of_peer(Peer(self._access.daemon_uid, 0))
        return None if found is None else replace(found, groups=(), token=ADMIN)

    def _of_user(self, text: str) -> Caller | None:
        token = self._tokens.of(text) if text.startswith(PREFIX) else None
        return None if token is None else self._user(token.id)

    def _user(self, token_id: str) -> Caller | None:
        """With the rights they have now. None: the token is no more, or its user may not ask."""
        token = self._tokens.get(token_id)
        if token is None:
            return None
        until, found = self._known.get(token.uid, (0.0, None))
        if monotonic() > until:
            found = self._looked_up(token.uid)
            self._known[token.uid] = (monotonic() + _KNOWN_FOR_S, found)
        if found is None or found.name != token.user:  # the number may be another person's by now
            return None
        return replace(found, token=token_id)

    def _looked_up(self, uid: int) -> Caller | None:
        person = accounts.person(uid)
        if person is None:
            return None
        groups = accounts.groups_of(person)
        may_connect = uid in (0, self._access.daemon_uid) or self._access.group in groups
        if self._access.shared and not may_connect:
            return None
        return self._access.of_peer(Peer(uid, person.gid, groups))

    # ------------------------------------------------------------------------------------- sessions

    def _by_session(self, value: str, asked: FirstLook) -> Caller:
        if why := foreign(asked.method, asked.headers, None):
            raise Denied(403, f"refused: {why}")
        token_id = self._sessions.token_in(value)
        digest = None if token_id is None else self._digest(token_id)
        host = asked.headers.get("host", "")
        if token_id is None or digest is None or not self._sessions.holds(value, digest, host):
            raise Denied(401, "you are no longer logged in: open /page/login")
        found = self._daemon_user() if token_id == ADMIN else self._user(token_id)
        if found is None:
            raise Denied(401, "you may not use this daemon any more")
        return found

    def _digest(self, token_id: str) -> str | None:
        if token_id == ADMIN:
            return digest_of(self._access.token or "")
        token = self._tokens.get(token_id)
        return None if token is None else token.digest

    def check_site(self, asked: FirstLook) -> None:
        """Only our own pages may log somebody in or out."""
        if why := foreign(asked.method, asked.headers, None):
            raise Denied(403, f"refused: {why}")

    def log_in(self, text: str, asked: FirstLook) -> str:
        """The cookie for who has shown a token on the page for it, which is one of ours."""
        caller = self._by_token(text.strip(), asked)
        digest = self._digest(caller.token) or ""
        value = self._sessions.value(caller.token, digest, asked.headers.get("host", ""))
        return cookie(self.cookie_name, value, self._secure, SESSION_S)

    def log_out(self, asked: FirstLook) -> str:
        self.check_site(asked)
        return cookie(self.cookie_name, "", self._secure, 0)
