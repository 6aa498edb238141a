"""What is wrong with a program, and what makes it slow, from the traces of all its ranks.

Each function below looks for one mistake and returns the `Finding`s that it is certain of. A
program that computes something else than one process would is told of before one that is slow.
"""

from typing import NamedTuple

from ..basics.source_lines import SourceLine
from .rank_trace import ProgramTrace

WRONG, SLOW, NOTE = "wrong", "slow", "note"


class Finding(NamedTuple):
    """One sentence on what a program does, with its line, and what to do instead.

    name    of the mistake, for tables
    kind    WRONG: it computes something else than one process; SLOW; NOTE: what may be intended
    share   of the time of a step, for what is slow
    """

    name: str
    kind: str
    what: str
    remedy: str
    line: SourceLine | None = None
    share: float = 0.0

    def __str__(self):
        where = f"\n  at {self.line}" if self.line is not None else ""
        return f"{self.what}{where}\n  {self.remedy}"


def find_all(trace: ProgramTrace) -> list[Finding]:
    """Return everything that is found of a program, the most important first."""
    from . import slow_findings, wrong_findings

    found = []
    for look in (*wrong_findings.ALL, *slow_findings.ALL):
        found += look(trace)
    known = {}
    for finding in found:  # the first of a name, because ranks and lines repeat each other
        known.setdefault((finding.name, finding.line), finding)
    order = (WRONG, SLOW, NOTE)
    return sorted(known.values(), key=lambda one: (order.index(one.kind), -one.share))
