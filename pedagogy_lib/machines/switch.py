"""The process that holds a network of machines: a switch, and a card for each machine.

It runs as a script (`python switch.py CONTROL_FD COUNT`), and its namespaces end with it. Each
machine has a process of its own, whose only task is to be there; ranks enter its network.
The notebook writes a wish in a line of JSON, and gets a line back: `{"ok": …}` or
`{"refused": sentence}`. When the socket closes, everything ends. Ranks may wish, too, for what a
plan foresees: by a socket that the notebook has it open (`listen`).
"""

import ctypes
import errno
import json
import os
import selectors
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from pyroute2 import IPRoute  # noqa: E402
from pyroute2.netlink.exceptions import NetlinkError  # noqa: E402

from pedagogy_lib.machines import namespaces  # noqa: E402

SWITCH, OTHER_SWITCH = "switch", "other"
FRAME_BYTES = 9000  # "jumbo frames", as clusters use them: headers are less than 1 %
BURST_SECONDS = 0.0005  # that a card may be ahead of its speed
SMALLEST_BURST_BYTES = 1 << 17  # two of the kernel's largest segments
LONG_QUEUE = 1 << 14  # messages under way
QUEUE_BYTES = 1 << 24  # that wait at a card; what comes on top is dropped
LOOK_SECONDS, MOST_LOOKS = 0.005, 10_000  # at what the cards carry
PR_SET_PDEATHSIG = 1


class Refused(Exception):
    """A wish that cannot be fulfilled; says why."""


def die_with_parent(parent):
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


class Shaper:
    """Limits the speed of one end of a cable: `index` is the interface's number here."""

    def __init__(self, ip, index):
        self.ip, self.index, self.now = ip, index, None

    def set(self, bytes_per_second, latency_seconds=0.0):
        """None for bytes_per_second: as fast as it goes."""
        wanted = bytes_per_second, latency_seconds
        if wanted == self.now:
            return
        self.now = None
        limited = {"handle": "2:"}
        if latency_seconds:
            self.queue("netem", handle="1:", delay=round(1e6 * latency_seconds), limit=LONG_QUEUE)
            limited = {"handle": "2:", "parent": "1:1"}
        elif not bytes_per_second:
            self.queue("pfifo", handle="3:", limit=LONG_QUEUE)
        if bytes_per_second:
            burst = max(SMALLEST_BURST_BYTES, round(BURST_SECONDS * bytes_per_second))
            self.queue(
                "tbf", rate=round(bytes_per_second), burst=burst, limit=QUEUE_BYTES, **limited
            )
        self.now = wanted

    def queue(self, kind, **settings):
        """What a card's messages wait in, in place of what was there."""
        try:
            self.ip.tc("replace", kind, self.index, **settings)
        except NetlinkError as error:
            if error.code != errno.ENOENT:
                raise
            raise Refused(MISSING[kind]) from None


MISSING = {
    "netem": "this kernel cannot delay messages: it has no netem, so leave latency_seconds out",
    "tbf": "this kernel cannot limit the speed of a card: it has no tbf",
    "pfifo": "this kernel has no queue for a card",
}


class Machine:
    """A machine, seen from the switch: its process, and the switch's port for its cable."""

    def __init__(self, number, ip, switch):
        self.number, self.ip = number, ip
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            ours.close()
            with suppress(BaseException):
                be_machine(number, theirs.makefile("rw"), parent)
            os._exit(1)
        theirs.close()
        self.line = ours.makefile("rw")
        self.hear()
        port = f"port{number}"
        card = {"ifname": namespaces.CARD, "net_ns_pid": self.pid, "mtu": FRAME_BYTES}
        ip.link("add", ifname=port, kind="veth", mtu=FRAME_BYTES, peer=card)
        (self.port,) = ip.link_lookup(ifname=port)
        self.plug_into(switch)
        self.state("up")
        self.shaper = Shaper(ip, self.port)
        self.ask(start=True)

    def hear(self):
        answer = json.loads(self.line.readline() or '{"refused": "it has ended"}')
        if "refused" in answer:
            raise Refused(f"machine {self.number}: {answer['refused']}")
        return answer

    def ask(self, **wish):
        self.line.write(json.dumps(wish) + "\n")
        self.line.flush()
        return self.hear()

    def plug_into(self, switch):
        self.ip.link("set", index=self.port, master=switch)

    def state(self, state):
        self.ip.link("set", index=self.port, state=state)

    def limit(self, bytes_per_second, latency_seconds):
        self.shaper.set(bytes_per_second)
        self.ask(speed=[bytes_per_second, latency_seconds])


def be_machine(number, line, parent):
    """In a process of its own: have a network, and do what the switch wishes there."""
    die_with_parent(parent)
    namespaces.own_network_only()
    print('{"ok": true}', file=line, flush=True)
    shaper = None
    for wish in map(json.loads, line):
        answer = {"ok": True}
        try:
            if "start" in wish:
                shaper = start_card(number)
            else:
                shaper.set(*wish["speed"])
        except (Refused, NetlinkError) as error:
            answer = {"refused": str(error)}
        print(json.dumps(answer), file=line, flush=True)
    os._exit(0)


def start_card(number) -> Shaper:
    # Else what a killed rank had still to send would keep its machine's network for minutes.
    with suppress(OSError):
        Path("/proc/sys/net/ipv4/tcp_orphan_retries").write_text("1")
    ip = IPRoute()
    (loopback,), (card,) = ip.link_lookup(ifname="lo"), ip.link_lookup(ifname=namespaces.CARD)
    ip.link("set", index=loopback, state="up")
    ip.addr("add", index=card, address=namespaces.address_of(number), prefixlen=16)
    ip.link("set", index=card, state="up")
    return Shaper(ip, card)


class Network:
    """The switch with its machines, and what can be wished for."""

    def __init__(self, count):
        self.in_user_namespace = namespaces.have_own_network()
        self.ip = IPRoute()
        self.switches = [self.add_switch(name) for name in (SWITCH, OTHER_SWITCH)]
        self.machines = [Machine(number, self.ip, self.switches[0]) for number in range(count)]
        self.killed, self.history, self.selector = set(), None, selectors.DefaultSelector()
        self.door = None  # for ranks

    def add_switch(self, name) -> int:
        self.ip.link("add", ifname=name, kind="bridge")
        (index,) = self.ip.link_lookup(ifname=name)
        self.ip.link("set", index=index, state="up")
        return index

    def whole(self, speeds):
        """All cables in one switch and up, each card at its speed: [bytes per second, latency]."""
        self.unplugged, self.others, self.killed, self.speeds = set(), [], set(), speeds
        for machine, speed in zip(self.machines, speeds, strict=True):
            machine.plug_into(self.switches[0])
            machine.state("up")
            machine.limit(*speed)

    def unplug(self, machine):
        self.machines[machine].state("down")
        self.unplugged.add(machine)

    def plug(self, machine):
        self.machines[machine].state("up")
        self.unplugged.discard(machine)

    def slow(self, machine, bytes_per_second, latency_seconds):
        self.machines[machine].limit(bytes_per_second, latency_seconds)

    def split(self, others):
        """Two halves that do not hear each other: these machines, and the rest."""
        for number, machine in enumerate(self.machines):
            machine.plug_into(self.switches[number in others])
        self.others = others

    def state(self) -> dict:
        """What is not as it was at the start."""
        return {"unplugged": sorted(self.unplugged), "others": self.others,
                "killed": sorted(self.killed)}  # fmt: skip

    def watch(self):
        """Begin to note what the cards carry, over time."""
        self.history = History(self.machines)

    def watched(self) -> dict:
        history, self.history = self.history, None
        return history.as_lists() if history else {}

    def listen(self, path):
        """Let ranks wish by the socket `path`, in place of that of the launch before."""
        if self.door is not None:
            self.selector.unregister(self.door)
            self.door.close()
        self.door = socket.socket(socket.AF_UNIX)
        self.door.bind(path)
        self.door.listen()
        self.selector.register(self.door, selectors.EVENT_READ, self.hear_rank)

    def hear_rank(self):
        visitor, _ = self.door.accept()
        with suppress(OSError), visitor, visitor.makefile("rw") as line:  # it may be killed by now
            self.answer(line)

    def answer(self, line) -> bool:
        """Fulfil one wish, and say so; False where there is none any more."""
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
        """Fulfil wishes until the notebook has gone."""
        line = control.makefile("rw")
        self.selector.register(control, selectors.EVENT_READ)
        while True:
            for key, _ in self.selector.select(self.history and self.history.until_next()):
                if key.data:
                    key.data()
                elif not self.answer(line):
                    return
            if self.history:
                self.history.look()

    def kill(self, machine):
        """End a machine as a power cut does: the others hear nothing of it, not even a goodbye."""
        self.machines[machine].state("down")
        self.killed.add(machine)
        pid = self.machines[machine].pid
        network = f"/proc/{pid}/ns/net"
        while others := [other for other in namespaces.members(network) if other != pid]:
            for other in others:
                with suppress(ProcessLookupError):
                    os.kill(other, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self.ip.link("del", index=self.machines[machine].port)

    def revive(self, machine):
        """Start a machine again, with a new card in the old place."""
        if machine not in self.killed:
            return
        started = Machine(machine, self.ip, self.switches[machine in self.others])
        started.limit(*self.speeds[machine])
        self.machines[machine] = started
        self.unplugged.discard(machine)
        self.killed.discard(machine)

    def paths(self) -> dict:
        """The ways into the machines; None for one that has been killed."""
        user = f"/proc/{os.getpid()}/ns/user" if self.in_user_namespace else None
        alive = [machine.number not in self.killed for machine in self.machines]
        networks = [f"/proc/{machine.pid}/ns/net" if lives else None
                    for machine, lives in zip(self.machines, alive, strict=True)]  # fmt: skip
        return {"user": user, "networks": networks}


FAULTS = ("unplug", "plug", "slow", "split", "kill", "revive")
WISHES = ("whole", "state", "watch", "watched", "listen", "paths")


class History:
    """What every card has sent and received, read again and again at the switch's ports."""

    def __init__(self, machines):
        self.ports = {f"port{machine.number}": machine.number for machine in machines}
        self.times, self.sent, self.received, self.events = [], [], [], []
        self.period = LOOK_SECONDS
        self.last, self.before = {}, {}  # a card that replaces another one counts from 0
        self.look()

    def until_next(self) -> float:
        return max(0.0, self.times[-1] + self.period - time.perf_counter())

    def look(self):
        now = time.perf_counter()
        if self.times and now < self.times[-1] + self.period:
            return
        sent, received = ([*looks[-1]] if looks else [0] * len(self.ports)
                          for looks in (self.sent, self.received))  # fmt: skip
        with open("/proc/self/net/dev") as file:
            for line in file:
                name, _, counts = line.partition(":")
                number = self.ports.get(name.strip())
                if number is not None:  # what comes into the switch, the machine has sent
                    into, out = (int(counts.split()[column]) for column in (0, 8))
                    sent[number] = self.continued("sent", number, into)
                    received[number] = self.continued("received", number, out)
        self.times.append(now)
        self.sent.append(sent)
        self.received.append(received)
        if len(self.times) > MOST_LOOKS:
            self.period *= 2
            for looks in (self.times, self.sent, self.received):
                del looks[1:-1:2]

    def continued(self, way, number, count) -> int:
        key = way, number
        if count < self.last.get(key, 0):
            self.before[key] = self.before.get(key, 0) + self.last[key]
        self.last[key] = count
        return self.before.get(key, 0) + count

    def as_lists(self) -> dict:
        self.period = 0.0
        self.look()
        return {"times": self.times, "sent": self.sent, "received": self.received,
                "events": self.events}  # fmt: skip


def main():
    control, count = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    try:
        network = Network(count)
        answer = {"ok": network.paths()}
    except Exception as error:
        network, answer = None, {"refused": str(error), "errno": getattr(error, "errno", None)}
    control.sendall((json.dumps(answer) + "\n").encode())
    if network:
        network.serve(control)


if __name__ == "__main__":
    main()
