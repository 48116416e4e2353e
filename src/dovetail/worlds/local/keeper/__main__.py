"""The keeper as a program: it imports nothing but its own folder."""

import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(__file__)))
__package__ = "keeper"  # under its full name all of Dovetail would be imported on the way to it

from .keeping import main

main(sys.argv[1])
