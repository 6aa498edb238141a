"""The process that holds a network of machines: a switch, and cards for each machine.

It runs as a script (`python switch.py CONTROL_FD COUNT CARDS`), and its namespaces end with it.
Each machine has a separate process that holds a network, which ranks enter. The notebook writes a
wish as a line of JSON and gets a line back: `{"ok": …}` or `{"refused": sentence}`. When the socket
closes, everything ends. Ranks ask for planned faults over another socket, which the switch opens
when the notebook wishes for it (`listen`).
"""

import json
import os
import selectors
import signal
import socket
import sys
import time
from contextlib import suppress

sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from pyroute2 import IPRoute  # noqa: E402

from pedagogy_lib.machines import namespaces  # noqa: E402
from pedagogy_lib.machines.amounts import Link  # noqa: E402
from pedagogy_lib.machines.fault_triggers import short_path  # noqa: E402
from pedagogy_lib.machines.history import History  # noqa: E402
from pedagogy_lib.machines.machine import Machine  # noqa: E402

SWITCH, OTHER_SWITCH = "switch", "other"


class SwitchedNetwork:
    """The switch with its machines; the wishes are names of its methods."""

    def __init__(self, count, cards):
        self.cards = cards  # per machine
        self.in_user_namespace = namespaces.have_own_network()
        self.ip = IPRoute()
        self.switches = [self.add_switch(name) for name in (SWITCH, OTHER_SWITCH)]
        self.machines = [Machine(number, count, cards, self.ip, self.switches[0])
                         for number in range(count)]  # fmt: skip
        self.killed, self.revived = set(), set()
        self.history, self.selector = None, selectors.DefaultSelector()
        self.door = None  # the socket for wishes of ranks

    def add_switch(self, name) -> int:
        self.ip.link("add", ifname=name, kind="bridge")
        (index,) = self.ip.link_lookup(ifname=name)
        self.ip.link("set", index=index, state="up")
        return index

    def whole(self, link) -> dict:
        """Connect all cables to one switch, bring them up and set each card to the `Link`.

        Returns  the paths into the machines, which differ after a machine has been revived
        """
        self.unplugged, self.others, self.link = set(), [], Link(*link)
        self.killed, self.revived = set(), set()
        for machine in self.machines:
            machine.plug_into(self.switches[0])
            machine.state("up")
            machine.limit(self.link)
        return self.paths()

    def unplug(self, machine):
        self.machines[machine].state("down")
        self.unplugged.add(machine)

    def plug(self, machine):
        self.machines[machine].state("up")
        self.unplugged.discard(machine)

    def slow(self, machine, bytes_per_second):
        self.machines[machine].limit(self.link._replace(bytes_per_second=bytes_per_second))

    def split(self, others):
        """Split the network into halves that cannot hear each other: `others`, and the rest."""
        for number, machine in enumerate(self.machines):
            machine.plug_into(self.switches[number in others])
        self.others = others

    def state(self) -> dict:
        """Return the changes since the start, as keyword arguments of `State`."""
        return {"unplugged": sorted(self.unplugged), "others": self.others,
                "killed": sorted(self.killed), "revived": sorted(self.revived)}  # fmt: skip

    def all_there(self) -> bool:
        """Return whether no machine has been killed, neither by a wish nor from outside."""
        return not self.killed and not any(machine.has_ended() for machine in self.machines)

    def watch(self):
        """Begin to record the bytes that the cards carry over time."""
        self.history = History(self.machines)

    def take_history(self) -> dict:
        history, self.history = self.history, None
        return history.export_lists() if history else {}

    def listen(self, path):
        """Let ranks make wishes over the socket `path`, instead of the previous launch's socket."""
        if self.door is not None:
            self.selector.unregister(self.door)
            self.door.close()
        self.door = socket.socket(socket.AF_UNIX)
        with short_path(path) as short:
            self.door.bind(short)
        self.door.listen()
        self.selector.register(self.door, selectors.EVENT_READ, self.hear_rank)

    def hear_rank(self):
        visitor, _ = self.door.accept()
        with suppress(OSError), visitor, visitor.makefile("rw") as line:  # it may be dead by now
            self.answer(line)

    def answer(self, line) -> bool:
        """Read a wish, fulfil it and reply; return False if there are no more wishes."""
        text = line.readline()
        if not text:
            return False
        name, *arguments = json.loads(text)
        try:
            assert name in WISHES or name in FAULTS
            if name in FAULTS and self.history:
                self.history.events.append((time.perf_counter(), name, *arguments))
            answer = {"ok": getattr(self, name)(*arguments)}
        except Exception as error:
            answer = {"refused": str(error) or type(error).__name__}
        with suppress(OSError):  # a rank that has just been killed
            print(json.dumps(answer), file=line, flush=True)
        return True

    def serve(self, control):
        """Serve wishes until the notebook has closed its socket."""
        line = control.makefile("rw")
        self.selector.register(control, selectors.EVENT_READ)
        while True:
            for key, _ in self.selector.select(self.history and self.history.compute_timeout()):
                if key.data:
                    key.data()
                elif not self.answer(line):
                    return
            if self.history:
                self.history.look()

    def kill(self, machine):
        """Kill a machine as a power cut does: the others are not even told that connections end."""
        self.machines[machine].state("down")
        self.killed.add(machine)
        pid = self.machines[machine].pid
        network = f"/proc/{pid}/ns/net"
        # Stop all processes first, as no process on a machine without power sees another one end.
        stopped = set()
        while others := {*namespaces.members(network)} - {pid} - stopped:
            signal_all(others, signal.SIGSTOP)
            stopped |= others
        while others := {*namespaces.members(network)} - {pid}:
            signal_all(others, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self.machines[machine].unplug_for_good()

    def end(self):
        """Kill all machines that are left, with the processes on them."""
        for machine in self.machines:
            if machine.number not in self.killed:
                self.kill(machine.number)

    def revive(self, machine):
        """Start a killed machine again, with new cards in the old places."""
        if machine not in self.killed:
            return
        switch = self.switches[machine in self.others]
        started = Machine(machine, len(self.machines), self.cards, self.ip, switch)
        started.limit(self.link)
        self.machines[machine] = started
        self.unplugged.discard(machine)
        self.killed.discard(machine)
        self.revived.add(machine)

    def paths(self) -> dict:
        """Return the paths into the machines' networks; None for a killed machine."""
        user = f"/proc/{os.getpid()}/ns/user" if self.in_user_namespace else None
        alive = [machine.number not in self.killed for machine in self.machines]
        networks = [f"/proc/{machine.pid}/ns/net" if lives else None
                    for machine, lives in zip(self.machines, alive, strict=True)]  # fmt: skip
        return {"user": user, "networks": networks}


def signal_all(pids, number):
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


FAULTS = ("unplug", "plug", "slow", "split", "kill", "revive")
WISHES = ("whole", "state", "all_there", "watch", "take_history", "listen", "paths")


def main():
    control, count, cards = socket.socket(fileno=int(sys.argv[1])), *map(int, sys.argv[2:4])
    try:
        network = SwitchedNetwork(count, cards)
        answer = {"ok": network.paths()}
    except Exception as error:
        network, answer = None, {"refused": str(error), "errno": getattr(error, "errno", None)}
    control.sendall((json.dumps(answer) + "\n").encode())
    if network:
        network.serve(control)
        network.end()


if __name__ == "__main__":
    main()
