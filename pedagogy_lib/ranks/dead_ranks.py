"""Ranks that die while the others go on, and the processes that replace them."""

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


class DeadRanks:
    """The dead ranks of one launch, and the processes that replace them.

    replacements  how many ranks may still be replaced; None if a rank's death ends the launch
    former        handles of ranks that were replaced
    """

    def __init__(self, launch, replacements):
        self.launch, self.replacements = launch, replacements
        self.dead, self.former, self.waiting = [], [], []

    def has(self, handle) -> bool:
        """Return whether the others go on without a rank that died by itself after all had met."""
        has_died = handle.status is not None and handle.report is None and handle.error is None
        return self.replacements is not None and has_died and handle.has_come_to(JOINED)

    def settle(self):
        """Note and replace the ranks that have died, once all that has arrived is read.

        A rank's exit may be heard before its last reports, which say how far it had come.
        """
        dead = list(filter(self.has, self.launch.ended))
        for handle in dead:
            self.launch.ended.remove(handle)
        self.dead += dead
        self.waiting += dead
        if dead:
            self.replace()

    def replace(self):
        """Start a process for each dead rank that waits for one, if its machine is alive."""
        for handle in list(self.waiting):
            if self.replacements and self.has_a_place(handle.rank):
                self.replacements -= 1
                self.waiting.remove(handle)
                self.start_anew(handle)

    def has_a_place(self, rank) -> bool:
        """Return whether a rank's machine is alive; one that was killed may come back."""
        network = self.launch.network
        if network is None:
            return True
        try:
            network.know_ways(**network.ask("paths"))
        except LaunchError:
            return False
        return network.networks[self.launch.places[rank]] is not None

    def start_anew(self, handle):
        """Start a process in the place of a rank that has died."""
        rank = handle.rank
        self.former.append(handle)
        times = sum(one.rank == rank for one in self.former)
        new = self.launch.ranks[rank] = self.launch.fork(rank, f"-{times}")
        self.launch.hand_over(new, self.launch.setup_of(rank) | {"replaces": times})

    def output(self) -> list[str]:
        """Return what each rank has printed, including the processes that it has replaced."""
        return [
            "".join(one.output.text for one in [*self.former, handle] if one.rank == handle.rank)
            for handle in self.launch.ranks
        ]

    def advice(self) -> str:
        """Return the explanation of a hang by dead ranks; empty if no rank has died."""
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
