"""How narrow the comparisons of a test session were: a summary below pytest's own,
with -v or if one was too narrow.

Every verdict of `close` goes through `closeness.is_rounding`. Noted are the largest gap that still
counted as rounding and the smallest that did not, both as multiples of what is allowed. Where they
come too near to each other, the session fails. Not seen are comparisons inside of ranks, those as
far as float32 does, and those of a gap with `rounding()`.
"""

import os

import pytest

from pedagogy_lib.basics import closeness

OWN_TESTS = "test_closeness"  # of the comparison itself, which are narrow
ROOM = 1 / 4  # of what is allowed: another machine may round worse than this one
APART = 1000  # times what is allowed: a mistake is no rounding


class Margins:
    """The narrowest comparisons, each as (multiple of what is allowed, test)."""

    def __init__(self):
        self.count, self.accepted, self.refused = 0, (0.0, "none"), (float("inf"), "none")
        self.too_near: dict[str, float] = {}  # {test: multiple}, of those that are not APART

    def note(self, gap, tolerance):
        test = os.environ.get("PYTEST_CURRENT_TEST", "?")
        if OWN_TESTS in test:
            return
        self.count += 1
        found = gap / tolerance, test
        if gap <= tolerance:
            self.accepted = max(self.accepted, found)
        else:
            self.refused = min(self.refused, found)
            if found[0] < APART:
                self.too_near[test] = min(found[0], self.too_near.get(test, APART))

    def merge(self, other):
        self.count += other["count"]
        self.accepted = max(self.accepted, tuple(other["accepted"]))
        self.refused = min(self.refused, tuple(other["refused"]))
        self.too_near |= other["too_near"]

    def lines(self):
        (share, accepted), (times, refused) = self.accepted, self.refused
        yield f"{self.count:,} comparisons of numbers"
        yield f"largest that counts as rounding: {share:.2g} of what is allowed, {accepted}"
        yield f"smallest that does not: {times:.2g} times what is allowed, {refused}"
        if not self.are_wide:
            yield f"FAILED: asked are at most {ROOM} and at least {APART} times"
            for test, times in sorted(self.too_near.items(), key=lambda pair: pair[1]):
                yield f"  {times:.2g} times: {test}"

    @property
    def are_wide(self) -> bool:
        return self.accepted[0] <= ROOM and self.refused[0] >= APART


class Plugin:
    """Notes every comparison of this process, and collects what pytest-xdist's workers noted."""

    def __init__(self):
        self.margins = Margins()
        self.decide = closeness.is_rounding

    def pytest_sessionstart(self):
        closeness.is_rounding = self.note_comparison

    def note_comparison(self, gap, tolerance):
        self.margins.note(gap, tolerance)
        return self.decide(gap, tolerance)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        closeness.is_rounding = self.decide
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["margins"] = vars(self.margins)
        elif not self.margins.are_wide:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        if "margins" in getattr(node, "workeroutput", {}):
            self.margins.merge(node.workeroutput["margins"])

    def pytest_terminal_summary(self, terminalreporter):
        is_asked = terminalreporter.config.option.verbose > 0
        if self.margins.count and (is_asked or not self.margins.are_wide):
            terminalreporter.section("margins")
            for line in self.margins.lines():
                terminalreporter.line(line)
