"""What has happened to the machines of a launch, in words."""

from dataclasses import dataclass

from ..basics.hang_diagnosis import ranks_text


@dataclass(frozen=True)
class State:
    """What is not as it was when the launch began.

    ranks      of each machine
    unplugged  machines whose cable is out
    others     machines of one half, if the network is in two
    killed     machines that have been killed
    revived    machines that have been killed, and started again without their ranks
    """

    ranks: list[list[int]]
    unplugged: tuple[int, ...] = ()
    others: tuple[int, ...] = ()
    killed: tuple[int, ...] = ()
    revived: tuple[int, ...] = ()
    has_ended: bool = False  # the network itself: somebody has killed the process that holds it

    def find_killed_machine(self, rank) -> int | None:
        """The machine that a rank was killed with, if it was."""
        killed = (*self.killed, *self.revived)
        return next((m for m in killed if rank in self.ranks[m]), None)

    def describe(self) -> str:
        """Who cannot hear whom; empty if all machines hear each other."""
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
