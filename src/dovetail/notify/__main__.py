"""The program that tells one message: from its input, with the rights that are said there."""

import json
import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(__file__)))
__package__ = "notify"  # under its full name all of Dovetail would be imported on the way to it

# All of it before the change of user, who may not be able to read it.
from . import message, telling

given = json.load(sys.stdin)
os.chdir("/")
telling.become(given["account"])
troubles = telling.told(message.message_of(given["message"]), given["again_after_s"])
print("; ".join(troubles), file=sys.stderr)
sys.exit(1 if troubles else 0)
