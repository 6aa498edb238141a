"""Faults in the network of a launch: pulled cables, slow cards, a split network, dead machines.

The same methods make a plan (`Machines(2).unplug(1, after_seconds=0.5)`) and, while a launch runs
in the background, act at once (`running.unplug(1)`).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from ..basics.errors import need
from ..basics.units import brief, format_bytes, format_count, format_seconds
from .amounts import is_count, is_positive, is_real, need_rate

LATEST_SECONDS = 24 * 3600  # no launch takes longer
SAY_WHEN = (
    'say when: after_seconds=0.5, or at_block="step" and nth=3 for the third time that a block '
    "with this label begins"
)


class Wish(NamedTuple):
    """A task for the switch: the name of one of its methods, and the arguments."""

    name: str
    arguments: tuple


class PlanEntry(NamedTuple):
    """A wish and its time: seconds after all ranks have met, or the start of a block on a rank.

    A wish planned for 0 s is fulfilled before ranks meet, and all seconds then count from there.

    machine  the machine on whose first rank blocks are counted
    """

    wish: Wish
    after_seconds: float | None
    at_block: str | None
    nth: int
    machine: int

    def why_not(self) -> str:
        """Explain why the planned wish has not been fulfilled."""
        if self.at_block is None:
            return f"the launch ended less than {format_seconds(self.after_seconds)} after it began"
        times = format_count(self.nth, "time")
        return f"no block {self.at_block!r} has begun {times} on machine {self.machine}"


class Faults(ABC):
    """Base class of things that faults can happen to: machines with a plan, or a running launch."""

    @abstractmethod
    def wish(self, wish, machine, when):
        """Plan or fulfil a wish about `machine`; `when` holds its time as fields of `PlanEntry`."""

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of machines."""

    def unplug(self, machine, **when):
        """Pull the cables of a machine's network cards; everything sent over them is lost."""
        return self.wish(Wish("unplug", (self.need_machine(machine),)), machine, when)

    def plug(self, machine, **when):
        """Plug the cables in again; data that was lost on the way is sent again after a while."""
        return self.wish(Wish("plug", (self.need_machine(machine),)), machine, when)

    def slow(self, machine, bytes_per_second, **when):
        """Limit the network cards of one machine to another speed; latency and loss stay."""
        need_rate(bytes_per_second)
        arguments = self.need_machine(machine), bytes_per_second
        return self.wish(Wish("slow", arguments), machine, when)

    def split(self, machines, **when):
        """Cut the network into two halves, these machines and all others; `join` undoes the cut."""
        is_list = isinstance(machines, Sequence) and not isinstance(machines, str)
        sentence = f"split() takes a list of some of the {self.count} machines"
        need(is_list and 0 < len(set(machines)) < self.count, f"{sentence}, not {brief(machines)}")
        others = sorted({self.need_machine(machine) for machine in machines})
        return self.wish(Wish("split", (others,)), others[0], when)

    def join(self, **when):
        """Join the two halves of the network again."""
        return self.wish(Wish("split", ([],)), 0, when)

    def kill(self, machine, **when):
        """Kill a machine, with all processes on it, as a power cut does."""
        return self.wish(Wish("kill", (self.need_machine(machine),)), machine, when)

    def revive(self, machine, **when):
        """Start a killed machine again, with nothing running on it."""
        return self.wish(Wish("revive", (self.need_machine(machine),)), machine, when)

    def need_machine(self, machine) -> int:
        last = f"the last of {format_count(self.count, 'machine')} is number {self.count - 1}"
        is_known = is_count(machine) and machine < self.count
        need(is_known, f"there is no machine {brief(machine)}: {last}")
        return int(machine)


def words_of(name, *arguments) -> str:
    """Describe a fulfilled wish in the words that pictures use."""
    if name == "split":
        (others,) = arguments
        return f"cut off: {', '.join(map(str, others))}" if others else "joined"
    machine, *speed = arguments
    return f"{name} {machine}" + (f" to {format_bytes(speed[0])}/s" if any(speed[:1]) else "")


def plan_wish(wish, machine, when) -> PlanEntry:
    """Return a wish with its time; raise LaunchError unless the time makes sense."""
    unknown = [name for name in when if name not in ("after_seconds", "at_block", "nth")]
    need(not unknown, f"{wish.name}() has no {unknown[:1] and unknown[0]!r}; {SAY_WHEN}")
    seconds, block, nth = when.get("after_seconds"), when.get("at_block"), when.get("nth", 1)
    need((seconds is None) != (block is None), f"{wish.name}(): {SAY_WHEN}")
    need(seconds is None or (is_real(seconds) and 0 <= seconds <= LATEST_SECONDS),
         f"after_seconds is a number of seconds from 0 to {LATEST_SECONDS:,}, "
         f"not {brief(seconds)}")  # fmt: skip
    need(block is None or isinstance(block, str),
         f"at_block is the label of a `measure` block, not {brief(block)}")  # fmt: skip
    need(is_positive(nth), f"nth is 1 for the first time, 2 for the second, not {brief(nth)}")
    return PlanEntry(wish, seconds, block, int(nth), machine)
