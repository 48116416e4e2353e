"""Telling people what became of their jobs: by desktop, mail, webhook, or a command of theirs.

`python __main__.py` is a program of its own, which the daemon starts for every message and which takes
on the rights of the job's user before it looks at anything of theirs. It imports nothing else of ours.
"""
