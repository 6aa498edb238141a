"""Faults that a program on one of the machines causes at once."""

import os

from ..basics.errors import LaunchError, need
from .fault_triggers import ask_switch
from .faults import Faults


def machines_around() -> "MachinesAround":
    """Return the machines that this program runs among: `machines_around().kill(1)` acts at once.

    A call that kills the program's own machine does not return. The other methods are `revive`,
    `unplug`, `plug`, `slow`, `split` and `join`.

    Raises  LaunchError if the program is on no such machine
    """
    door = os.path.join(os.environ.get("PEDAGOGY_FOLDER", ""), "switch")
    if not os.path.exists(door):
        raise LaunchError("machines_around() is for programs and ranks that are on `Machines`")
    return MachinesAround(door)


class MachinesAround(Faults):
    """The machines that this program runs among; `door` is the path of the switch's socket."""

    def __init__(self, door):
        self.door = door

    @property
    def count(self) -> int:
        return len(ask_switch(self.door, "paths")["networks"])

    def wish(self, wish, machine, when):
        need(not when, f"{wish.name}() acts at once here; a plan belongs to Machines()")
        ask_switch(self.door, wish.name, *wish.arguments)
