"""Waiting for several connections at once, for as long as that makes sense."""

import selectors
import time

LISTEN_SECONDS = 0.25  # at a time, if nothing arrives
LOOK_SECONDS = 0.5  # between two looks at whether something moves


class Listener:
    """Handles what arrives on the connections that are registered with its selector.

    Each is registered with a function, which gets the events that have come, and returns those to
    wait for from then on.
    """

    def __init__(self):
        self.selector = None
        self.looked_at = 0.0
        self.waited = 0.0  # seconds, when listen_while_moving() returned False

    def open(self):
        self.selector = selectors.DefaultSelector()

    def work_done(self):
        """How far everybody has come, for `has_moved`."""
        raise NotImplementedError

    def has_moved(self, before) -> bool:
        raise NotImplementedError

    def look_around(self):
        """Called a few times a second while it listens."""
        raise NotImplementedError

    def listen_while_moving(self, condition, least, most) -> bool:
        """Listen for `least` seconds; from then on while something moves, up to `most`."""
        began = time.perf_counter()
        self.listen_until(condition, max(0, least - LOOK_SECONDS))
        while not condition():
            before = self.work_done()
            since = time.perf_counter() - began
            end = most if since >= least else least
            self.listen_until(condition, min(LOOK_SECONDS, end - since))
            self.waited = time.perf_counter() - began
            over = self.waited >= least and not self.has_moved(before)
            if not condition() and (over or self.waited >= most):
                return False
        return True

    def listen_until(self, condition, seconds, look=LISTEN_SECONDS) -> bool:
        """Handle what arrives until `condition()` holds; False if `seconds` pass first."""
        deadline = time.perf_counter() + seconds
        while not condition():
            left = deadline - time.perf_counter()
            if left <= 0:  # this process may have slept: what has come meanwhile counts
                self.hear_all(0)
                return condition()
            self.hear_all(min(left, look))
            self.look()
        return True

    def look(self):
        now = time.perf_counter()
        if now - self.looked_at >= LISTEN_SECONDS:
            self.looked_at = now
            self.look_around()

    def hear_all(self, seconds):
        """Handle what has arrived; if that is nothing, wait at most `seconds` for something."""
        for key, events in self.selector.select(seconds):
            wanted = key.data(events)
            if not wanted:
                self.selector.unregister(key.fileobj)
            elif wanted != key.events:
                self.selector.modify(key.fileobj, wanted, key.data)
