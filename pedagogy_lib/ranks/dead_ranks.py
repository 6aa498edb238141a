"""Ranks that die while the others go on, and processes that take their place."""

from typing import NamedTuple

from ..basics.errors import LaunchError, describe_death
from ..basics.units import format_seconds
from .messages import JOINED


class DeadRank(NamedTuple):
    """A rank that has died.

    seconds  since the launch began
    what     how it ended
    """

    rank: int
    seconds: float
    what: str
    was_replaced: bool

    def __str__(self):
        replaced = ", and was replaced" if self.was_replaced else ""
        return f"rank {self.rank} {self.what} after {format_seconds(self.seconds)}{replaced}"


class Losses:
    """Of one launch: who has died, and who takes their place.

    replacements  how many may still be replaced; None: a rank that dies ends the launch
    former        handles of ranks that were replaced
    """

    def __init__(self, launch, replacements):
        self.launch, self.replacements = launch, replacements
        self.dead, self.former, self.waiting = [], [], []

    def has(self, handle) -> bool:
        """Whether the others go on without it: it has died by itself, after all had met."""
        has_died = handle.status is not None and handle.report is None and handle.error is None
        return self.replacements is not None and has_died and handle.has_come_to(JOINED)

    def settle(self):
        """Note who has died, and replace them: all that has arrived is read by now.

        A rank's end may be heard before its last words, which tell how far it had come.
        """
        dead = list(filter(self.has, self.launch.ended))
        for handle in dead:
            self.launch.ended.remove(handle)
        self.dead += dead
        self.waiting += dead
        if dead:
            self.replace()

    def replace(self):
        """Start a process for each rank that waits for one, if its machine is there."""
        for handle in list(self.waiting):
            if self.replacements and self.has_a_place(handle.rank):
                self.replacements -= 1
                self.waiting.remove(handle)
                self.start_anew(handle)

    def has_a_place(self, rank) -> bool:
        """Whether there is a machine for it: one that was killed may come back."""
        network = self.launch.network
        if network is None:
            return True
        try:
            network.know_ways(**network.ask("paths"))
        except LaunchError:
            return False
        return network.networks[self.launch.places[rank]] is not None

    def start_anew(self, handle):
        """In the place of a rank that has died."""
        rank = handle.rank
        self.former.append(handle)
        times = sum(one.rank == rank for one in self.former)
        new = self.launch.ranks[rank] = self.launch.fork(rank, f"-{times}")
        self.launch.hand_over(new, self.launch.setup_of(rank) | {"replaces": times})

    def output(self) -> list[str]:
        """What each rank has printed, with those that it has replaced."""
        return [
            "".join(one.output.text for one in [*self.former, handle] if one.rank == handle.rank)
            for handle in self.launch.ranks
        ]

    def advice(self) -> str:
        """What to say of a hang; empty if nobody has died."""
        lost = "; ".join(map(str, self.list_dead_ranks()))
        return lost and (
            f"{lost[:1].upper()}{lost[1:]}. Who waits for a rank that has died, or for one that no "
            "longer takes part because of it, waits for ever."
        )

    def list_dead_ranks(self) -> list[DeadRank]:
        began, state = self.launch.began, self.launch.state()
        return [
            DeadRank(handle.rank, handle.died_at - began, how_it_died(handle, state),
                 handle in self.former)
            for handle in self.dead
        ]  # fmt: skip


def how_it_died(handle, state) -> str:
    machine = state.find_killed_machine(handle.rank)
    if machine is not None:
        return f"was killed with all of machine {machine}"
    return describe_death(handle.status, guesses=False)
