"""The program that tells one message: from its input, with the rights that are said there."""

import json
import os
import select
import signal
import sys
import threading

sys.path.append(os.path.dirname(os.path.dirname(__file__)))
__package__ = "notify"  # under its full name all of Dovetail would be imported on the way to it

# All of it before the change of user, who may not be able to read it.
from . import message, telling


def end_with_who_asked() -> None:
    """However that one ended: the next daemon tells the message again."""
    asked = select.poll()
    asked.register(sys.stdout, 0)  # told all the same: nobody reads it any more
    asked.poll()
    os.killpg(os.getpid(), signal.SIGKILL)  # with what was started for it


given = json.load(sys.stdin)
threading.Thread(target=end_with_who_asked, daemon=True).start()
os.chdir("/")
telling.become(given["account"])
troubles = telling.told(message.message_of(given["message"]), given["again_after_s"])
print("; ".join(troubles), file=sys.stderr)
sys.exit(1 if troubles else 0)
