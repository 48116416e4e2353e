"""Whether the job is asked to make room: the file `$DOVETAIL_STOP` is there, or SIGTERM came."""

from __future__ import annotations

import os
from time import monotonic

from dovetail.sdk.reports import announce_cooperation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

EXIT_REQUEUE = 85  # "I have saved; start me again": HTCondor's number for the same
LOOK_EVERY_S = 0.01


def should_stop() -> bool:
    """True once Dovetail asks the job to save its work and leave. Cheap: call it at every step.

    The first call tells Dovetail that the job saves itself, and takes SIGTERM as a request too,
    unless the script has a handler of its own. Always False outside Dovetail.
    """
    if not _request.path or _request.came:
        return _request.came
    if not _request.listening:
        _request.listen()
    return _request.look()


def stop_if_asked(save: Callable[[], object]) -> None:
    """If the job is asked to stop: `save()`, then leave with the code that means "start me again"."""
    if should_stop():
        save()
        raise SystemExit(EXIT_REQUEUE)


class StopRequest:
    """The request to stop, as far as this process knows of it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.came = False
        self.listening = False
        self._next_look = 0.0
        self._deferring = False

    def look(self) -> bool:
        now = monotonic()
        if now >= self._next_look and not self.came:
            self._next_look = now + LOOK_EVERY_S
            self.came = os.access(self.path, os.F_OK)
        return self.came

    def listen(self) -> None:
        """In a thread other than the main one there is no handler yet; the main one asks again."""
        announce_cooperation()
        import signal

        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            self.listening = True
            return
        try:
            signal.signal(signal.SIGTERM, self._on_signal)
        except ValueError:  # not the main thread
            return
        self.listening = True
        os.register_at_fork(
            before=self._defer, after_in_parent=self._defer_no_more, after_in_child=self._forget
        )

    def _on_signal(self, number: int, frame: object) -> None:
        self.came = True

    # A child that swallowed SIGTERM because of us could not be ended by `Process.terminate()`: it
    # forgets our handler. The signal is held back meanwhile, since Python drops one that comes to
    # a child while it is being forked.

    def _defer(self) -> None:
        import signal

        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        self._deferring = signal.SIGTERM not in before

    def _defer_no_more(self) -> None:
        import signal

        if self._deferring:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})

    def _forget(self) -> None:
        import signal

        if signal.getsignal(signal.SIGTERM) == self._on_signal:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self.listening = False  # a child that calls should_stop() itself listens again
        self._defer_no_more()


_request = StopRequest(os.environ.get("DOVETAIL_STOP", ""))
