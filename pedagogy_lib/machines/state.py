"""The faults that have happened to the machines of a launch, in words."""

from dataclasses import dataclass

from ..basics.rank_texts import ranks_text


@dataclass(frozen=True)
class State:
    """The changes to the machines since the launch began.

    ranks      the ranks on each machine
    unplugged  machines whose cables are pulled
    others     machines of one half, if the network is split
    killed     machines that have been killed
    revived    machines that have been killed and started again without their ranks
    """

    ranks: list[list[int]]
    unplugged: tuple[int, ...] = ()
    others: tuple[int, ...] = ()
    killed: tuple[int, ...] = ()
    revived: tuple[int, ...] = ()
    has_ended: bool = False  # the network itself: the process that holds it was killed

    def find_killed_machine(self, rank) -> int | None:
        """Return the machine that a rank was killed with; None if it was not."""
        killed = (*self.killed, *self.revived)
        return next((m for m in killed if rank in self.ranks[m]), None)

    def describe(self) -> str:
        """Describe which machines are dead or cut off; empty if all machines hear each other."""
        if self.has_ended:
            return "The network of the machines has ended: run the cell again."
        said = [f"Machine {m} was killed, with {ranks_text(self.ranks[m])}." for m in self.killed]
        said += [
            f"Machine {m} was killed, with {ranks_text(self.ranks[m])}, and started again, without."
            for m in self.revived
        ]
        said += [
            f"Machine {m} is unplugged: {self.who([m])} cannot hear the other machines, and they "
            f"cannot hear {self.who([m])}."
            for m in self.unplugged
        ]
        if self.others:
            rest = [m for m in range(len(self.ranks)) if m not in self.others]
            said.append(
                f"The network is in two halves that cannot hear each other: {machines_text(rest)} "
                f"with {self.who(rest)}, and {machines_text(self.others)} with "
                f"{self.who(self.others)}."
            )
        return " ".join(said)

    def who(self, machines) -> str:
        return ranks_text([rank for machine in machines for rank in self.ranks[machine]])


def machines_text(machines) -> str:
    return ("machine " if len(machines) == 1 else "machines ") + ", ".join(map(str, machines))
