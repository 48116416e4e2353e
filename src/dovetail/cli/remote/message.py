"""What one end of ssh tells the other: the words of a command, as one word that no shell can misread."""

from __future__ import annotations

import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from dovetail.core.errors import BadInput


@dataclass(frozen=True, slots=True)
class CarriedCommand:
    words: Sequence[str] = ()
    folder: str = ""  # the one it was typed in: entered, if there is one of that name there
    typed: str = ""  # how the command is typed here, for messages that tell what to type next
    interrupt: str = ""  # instead of words: the message whose command gets a Ctrl-C
    nonce: str = ""

    def as_word(self) -> str:
        told = {**asdict(self), "nonce": secrets.token_hex(8)}
        return urlsafe_b64encode(json.dumps(told).encode()).decode()


def carried_in(word: str) -> CarriedCommand:
    try:
        told = json.loads(urlsafe_b64decode(word.encode("ascii")))
        return CarriedCommand(**told)
    except (Error, ValueError, TypeError, UnicodeEncodeError):
        raise BadInput(
            "this command is for the other end of `dovetail --host`, not to be typed"
        ) from None
