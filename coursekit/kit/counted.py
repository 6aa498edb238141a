"""What a rank sends, counted by its calls: for tensors so small that headers would show."""

from collections.abc import Callable
from dataclasses import dataclass

from ..protocol import Wrong


@dataclass(frozen=True)
class Counted:
    """A rank sends no more than it has to.

    most   takes a trial, and gives bytes; None where they are not looked at
    what   sends as much
    why    what it has misunderstood; or takes a trial and the bytes sent, and says so
    calls  under what name they are found; those in the block `answering()` if there is none
    """

    most: Callable
    what: str
    why: str | Callable
    calls: str = ""

    def __call__(self, trial):
        most, found = self.most(trial), trial.of(self.calls) if self.calls else trial.calls
        if most is None or not found:
            return ""
        for place, calls in enumerate(found):
            sent = sum(call.sent_bytes for call in calls)
            if sent > most:
                what = f"{trial.who(place)} sends {sent:,} bytes; {self.what} {most:,.0f}"
                why = self.why(trial, sent) if callable(self.why) else self.why
                raise Wrong(f"cost, {trial.case}", what, f"the numbers are right, but {why}")
        return f"cost, {trial.case}: a rank sends {sent:,} bytes" if most else ""
