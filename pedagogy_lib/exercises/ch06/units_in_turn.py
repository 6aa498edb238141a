"""Gradients that are reduced within the backward, unit by unit: what the check of 6.7 watches.

When a unit is reduced is seen, not timed. What is wrong is refused on the rank that does it, before
the ranks wait for each other.
"""

from ..kit.refused import Refused
from .sharded_training import Watch

NOTHING = (
    "no unit is reduced. is_ready strikes the parameter off self.missing[unit], and reduces with "
    "self.reduce(unit) what is complete; end_backward reduces the others"
)
ONLY_ONCE = (
    "the first backward was right. For the next one self.left has to be None again at the end, so "
    "that its first gradient begins anew"
)
DIRECT = (
    "the gradients are gone, but self.reduce(unit) was not called. In stage 2 it is "
    "reduce_gradients(unit); stage 3 has another one, and builds on these methods"
)
LEFT_OVER = (
    "a parameter may have had no part in the loss, perhaps on this rank alone: then its unit, and "
    "all that come after it, are left over when the backward ends. end_backward reduces them"
)
AGAIN = (
    "this unit is reduced already. Take a unit out of self.left when it is reduced: self.left.pop()"
)
FROM_FIRST = (
    "the units come from the last one to the first, as a backward does: self.left[-1] is next, "
    "and self.left.pop() takes it. pop(0) takes the first"
)
READY_ORDER = (
    "units are reduced in the order in which they became ready. On another rank that may be "
    "another order, and messages are matched by their turn alone: gradients of different units "
    "would be mixed up. Whichever unit is ready, the next one is self.left[-1], on every rank"
)
LEFT_ORDER = (
    "what is left over has to come from the last one to the first, too: another rank may have "
    "reduced it in its backward, in that order"
)
AT_THE_END = (
    "all gradients are there at the same time, as in stage 1: is_ready is to reduce a unit as soon "
    "as it is complete, while the backward goes on"
)
TOO_EARLY = (
    "a unit is reduced before its last gradient is there. It is complete when nothing is left in "
    "self.missing[unit]"
)
KEPT_BACK = (
    "a unit that could be reduced is kept back. Those after it may have been complete for long, "
    "and have only waited for their turn: go on as long as the next one is complete (while, not if)"
)


class WatchUnits(Watch):
    """Sees when gradients are ready, and when units are reduced; refuses what is wrong."""

    def __init__(self, model):
        super().__init__(model)
        self.backwards = 0
        self.begin()
        for name, p in model.named_parameters():  # before those of Zero2, so noted first
            if p.requires_grad:
                p.register_post_accumulate_grad_hook(lambda _, name=name: self.is_ready(name))

    def begin(self):
        self.ready, self.is_over = [], False  # whose gradients are ready, in turn
        self.order, self.when = [], []  # units reduced, and how many gradients were ready then

    def follow(self, zero):
        names = {id(p): name for name, p in self.model.named_parameters()}
        self.units = list(zero.units.values())
        self.names = [{names[id(p)] for p in unit.parameters} for unit in self.units]
        reduce, end = zero.reduce, zero.end_backward
        zero.reduce = lambda unit: self.reduce(reduce, unit)
        zero.end_backward = lambda: self.end(end)

    def is_ready(self, name):
        """Raise `Refused` if its unit is reduced already: before the answer gets confused by it."""
        for number in self.order:
            if name in self.names[number]:
                what = f"unit {number} is reduced before its gradient of {name} is there"
                raise Refused(what, TOO_EARLY)
        self.ready.append(name)

    def reduce(self, reduce, unit):
        number = next((k for k, own in enumerate(self.units) if own is unit), None)
        if number is None:
            raise Refused(f"self.reduce gets a {type(unit).__name__}", "it takes a unit")
        wanted = len(self.units) - 1 - len(self.order)
        if number != wanted:
            turn = f"it is unit {wanted}'s turn" if wanted >= 0 else "all are reduced"
            raise Refused(f"unit {number} is reduced when {turn}", self.why_turn(number))
        self.order.append(number)
        self.when.append(len(self.ready))
        reduce(unit)

    def why_turn(self, number) -> str:
        if number in self.order:
            return AGAIN
        if self.is_over:
            return LEFT_ORDER
        if self.names[number] <= set(self.ready):
            return READY_ORDER
        return TOO_EARLY if number else FROM_FIRST

    def end(self, end):
        self.is_over = True
        end()

    def end_backward(self, where):
        """Raise `Refused` unless all units are reduced, each when it could be."""
        self.backwards += 1
        fault = self.fault()
        if fault:
            what, why = fault
            raise Refused(f"{where}: {what}", why)
        self.begin()

    def fault(self) -> tuple[str, str] | None:
        """What is wrong with a backward, and which misconception that is."""
        wanted, left = self.wanted(), len(self.units) - len(self.order)
        kept = [name for name, p in self.model.named_parameters() if p.grad is not None]
        when = (
            f"units are reduced after {told(self.when)} gradients are ready, expected after "
            f"{told(wanted)}"
        )
        if not self.order:
            return "no unit is reduced", self.why_none(kept)
        if any(early < right for early, right in zip(self.when, wanted)):
            return when, TOO_EARLY
        if left:
            return f"{left} of {len(self.units)} units are not reduced", LEFT_OVER
        if self.when != wanted:
            return when, KEPT_BACK if min(self.when) < len(self.ready) else AT_THE_END
        return (f"{kept[0]} still has a gradient", 'first: check("6.3")') if kept else None

    def why_none(self, kept) -> str:
        if not kept:
            return DIRECT
        return NOTHING if self.backwards == 1 else ONLY_ONCE

    def wanted(self) -> list[int]:
        """After how many gradients each unit can be reduced, the last one first."""
        found, ready, units = [], set(), self.names[::-1]
        for count, name in enumerate(self.ready, 1):
            ready.add(name)
            while len(found) < len(units) and units[len(found)] <= ready:
                found.append(count)
        return found + [len(self.ready)] * (len(units) - len(found))


def told(counts) -> str:
    return " ".join(map(str, counts))
