"""A watch on the backwards of Zero2, with its diagnoses."""

import weakref
from functools import partial

from coursekit.kit import Rejection

NOTHING = (
    "no unit is reduced. is_ready strikes the parameter off self.missing[unit], and reduces with "
    "self.reduce(unit) what is complete; end_backward reduces the others"
)

ONLY_ONCE = (
    "the first backward was right. For the next one self.left has to be None again at the end, so "
    "that its first gradient begins anew"
)

NOT_SEEN = (
    "the gradients are gone, but self.reduce(unit) was not called. In stage 2 it is "
    "reduce_gradients; stage 3 has another one, and builds on these methods"
)

TOO_EARLY = (
    "a unit is reduced before its last gradient is there. It is complete when nothing is left in "
    "self.missing[unit]"
)

PASSED_OVER = (
    "what is left over is reduced too, with or without gradients: other ranks may have them, and "
    "here they count as zeros. A unit that is passed over on one rank alone puts all ranks out of "
    "turn"
)


class UnitWatch:
    """A watch on ready gradients and reduced units; a mistake raises `Rejection`."""

    def __init__(self, model):
        self.model, self.backwards, self.memory = model, 0, {}
        self.begin()
        for name, p in model.named_parameters():  # these hooks run before those of Zero2
            if p.requires_grad:
                p.register_post_accumulate_grad_hook(partial(self.note_gradient, name))

    def begin(self):
        self.ready, self.is_over = [], False  # names of parameters with ready gradients, in order
        self.order, self.when = [], []  # units reduced, and how many gradients were ready then

    def follow(self, zero):
        names = {p: name for name, p in self.model.named_parameters()}
        self.units = list(zero.units.values())
        self.names = [{names[p] for p in unit.parameters} for unit in self.units]
        zero.reduce = partial(self.reduce, zero.reduce)
        zero.end_backward = partial(self.end, zero.end_backward)

    def note_gradient(self, name, parameter):
        """Note a ready gradient; raise `Rejection` if its unit has been reduced already."""
        for number in self.order:
            if name in self.names[number]:
                what = f"unit {number} is reduced before its gradient of {name} is there"
                raise Rejection(what, TOO_EARLY)
        self.need_freed()
        self.ready.append(name)
        self.memory[name] = weakref.ref(parameter.grad.untyped_storage())

    def need_freed(self):
        """Raise `Rejection` if a gradient of a unit that has been reduced is still in memory."""
        for number in self.order:
            for name in self.names[number] & self.memory.keys():
                if self.memory[name]() is not None and self.model.get_parameter(name).grad is None:
                    raise Rejection(
                        f"unit {number} is reduced, and its gradient of {name} is in memory",
                        "units are reduced in time, but something still holds their gradients: a "
                        "list, an attribute, or a view into the flat tensor",
                    )

    def reduce(self, reduce, unit):
        number = next((k for k, own in enumerate(self.units) if own is unit), None)
        if number is None:
            raise Rejection(f"self.reduce gets a {type(unit).__name__}", "it takes a unit")
        wanted = len(self.units) - 1 - len(self.order)
        if number != wanted:
            turn = f"it is unit {wanted}'s turn" if wanted >= 0 else "all are reduced"
            skipped = range(number + 1, wanted + 1)
            why = NOT_SEEN if self.is_gone(skipped) else self.why_turn(number, skipped)
            raise Rejection(f"unit {number} is reduced when {turn}", why)
        reduce(unit)
        self.order.append(number)
        self.when.append(len(self.ready))

    def why_turn(self, number, skipped) -> str:
        if number in self.order:
            return (
                "this unit is reduced already. Take a unit out of self.left when it is reduced: "
                "self.left.pop()"
            )
        complete = [k for k in skipped if self.names[k] <= set(self.ready)]
        if self.is_over and number and not complete:  # pop(0) would start with unit 0
            return PASSED_OVER
        if self.is_over and self.order:
            return (
                "what is left over has to come from the last one to the first, too: another rank "
                "may have reduced it in its backward, in that order"
            )
        if not self.is_over and self.names[number] <= set(self.ready):
            return (
                "units are reduced in the order in which they became ready. On another rank that "
                "may be another order, and messages are matched by their turn alone: gradients of "
                "different units would be mixed up. Whichever unit is ready, the next one is "
                "self.left[-1], on every rank"
            )
        if not self.is_over and (number or self.ready[-1] in self.names[0]):
            return TOO_EARLY
        return (
            "the units come from the last one to the first, as a backward does, and so does what "
            "is left over: self.left[-1] is next, and self.left.pop() takes it. pop(0) takes the "
            "first"
        )

    def end(self, end):
        self.is_over = True
        end()

    def is_gone(self, numbers) -> bool:
        """Return whether gradients of these units were ready, and all of them are gone."""
        names = [name for k in numbers for name in self.names[k] & set(self.ready)]
        return names != [] and all(self.model.get_parameter(name).grad is None for name in names)

    def end_backward(self, where):
        """Raise `Rejection` unless each unit was reduced as soon as it could be."""
        self.backwards += 1
        if why := self.fault():
            what = (
                f"after {self.when} gradients are ready, expected after "
                f"{self.find_reduction_times()}"
            )
            what = f"units are reduced {what}" if self.order else "no unit is reduced"
            raise Rejection(f"{where}: {what}", why)
        self.need_freed()
        self.begin()

    def fault(self) -> str:
        """Return the misconception that a backward shows, or "" if it is right."""
        wanted, missing = self.find_reduction_times(), set(range(len(self.units))) - set(self.order)
        if self.is_gone(missing):
            return NOT_SEEN
        if not self.order:
            return NOTHING if self.backwards == 1 else ONLY_ONCE
        if any(early < right for early, right in zip(self.when, wanted)):
            return TOO_EARLY
        if missing:
            return (
                "a parameter may have had no part in the loss, perhaps on this rank alone: then "
                "its unit, and all that come after it, are left over when the backward ends. "
                "end_backward reduces them"
            )
        if self.when == wanted:
            return ""
        if min(self.when) == len(self.ready):
            return (
                "all gradients are there at the same time, as in stage 1: is_ready is to reduce a "
                "unit as soon as it is complete, while the backward goes on"
            )
        return (
            "a unit that could be reduced is kept back. Those after it may have been complete "
            "for long, and have only waited for their turn: go on as long as the next one is "
            "complete (while, not if)"
        )

    def find_reduction_times(self) -> list[int]:
        """Return after how many gradients each unit can be reduced, the last unit first."""
        found, ready, units = [], set(), self.names[::-1]
        for count, name in enumerate(self.ready, 1):
            ready.add(name)
            while len(found) < len(units) and units[len(found)] <= ready:
                found.append(count)
        return found + [len(self.ready)] * (len(units) - len(found))
