"""Machines as the switch sees them: a process whose network ranks enter, and its cables."""

import ctypes
import json
import os
import signal
import socket
from contextlib import suppress
from pathlib import Path

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from . import namespaces
from .amounts import Link
from .cards import FRAME_BYTES, Shaper, WishError

PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15
PERMANENT = 0x80  # NUD_PERMANENT of rtnetlink(7)
# Settings of a machine's network. The congestion control replaces the choice of this computer's
# administrator, so that transfers fill a card alike everywhere; cubic applies where it exists.
SETTINGS = (
    ("tcp_congestion_control", "reno"),
    ("tcp_congestion_control", "cubic"),
    ("tcp_slow_start_after_idle", "0"),  # so that a step's first messages are as fast as its last
    # Otherwise the unsent data of a killed rank would keep its machine's network for minutes.
    ("tcp_orphan_retries", "1"),
)


def die_with_parent(parent):
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


class Machine:
    """A machine as the switch sees it: its process, and the switch's ports for its cables."""

    def __init__(self, number, count, cards, ip, switch):
        self.number, self.ip = number, ip
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            ours.close()
            with suppress(BaseException):
                be_machine(number, count, cards, theirs.makefile("rw"), parent)
            os._exit(1)
        theirs.close()
        self.line = ours.makefile("rw")
        self.hear()
        self.ports = [self.add_card(card) for card in range(cards)]
        self.plug_into(switch)
        self.state("up")
        self.shapers = [Shaper(ip, port) for port in self.ports]
        self.ask(start=True)

    def add_card(self, card) -> int:
        """Add a card with a cable from the switch; return the index of the switch's port."""
        port = port_name(self.number, card)
        there = {
            "ifname": namespaces.card_name(card),
            "net_ns_pid": self.pid,
            "mtu": FRAME_BYTES,
        }
        self.ip.link("add", ifname=port, kind="veth", mtu=FRAME_BYTES, peer=there)
        (index,) = self.ip.link_lookup(ifname=port)
        return index

    def has_ended(self) -> bool:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def hear(self) -> dict:
        """Return the next answer of the machine's process; raise WishError if it is a refusal."""
        answer = json.loads(self.line.readline() or '{"refused": "it has ended"}')
        if "refused" in answer:
            raise WishError(answer["refused"])
        return answer

    def ask(self, **wish) -> dict:
        """Make a wish and return the answer once it is fulfilled; raise WishError on refusal."""
        self.line.write(json.dumps(wish) + "\n")
        self.line.flush()
        return self.hear()

    def plug_into(self, switch):
        for port in self.ports:
            self.ip.link("set", index=port, master=switch)

    def state(self, state):
        for port in self.ports:
            self.ip.link("set", index=port, state=state)

    def limit(self, link):
        """Limit the speed in both directions; latency and loss apply only to outgoing packets."""
        for shaper in self.shapers:
            shaper.set(Link(link.bytes_per_second))
        self.ask(link=link)

    def unplug_for_good(self):
        for port in self.ports:
            self.ip.link("del", index=port)


def port_name(number, card) -> str:
    """Return the name of the switch's port for a card of a machine."""
    return f"port{number}.{card}"


def be_machine(number, count, cards, line, parent):
    """Run a machine's process: have a separate network and fulfil the switch's wishes there."""
    die_with_parent(parent)
    ctypes.CDLL(None).prctl(PR_SET_NAME, f"machine {number}".encode())
    namespaces.own_network_only()
    print('{"ok": true}', file=line, flush=True)
    shapers = []
    for wish in map(json.loads, line):
        answer = {"ok": True}
        try:
            if "start" in wish:
                shapers = start_cards(number, count, cards)
            for shaper in shapers if "link" in wish else ():
                shaper.set(Link(*wish["link"]))
        except (WishError, NetlinkError) as error:
            answer = {"refused": str(error)}
        print(json.dumps(answer), file=line, flush=True)
    os._exit(0)


def start_cards(number, count, cards) -> list[Shaper]:
    for name, value in SETTINGS:
        with suppress(OSError):  # this kernel lacks the setting, or does not allow a change
            Path("/proc/sys/net/ipv4", name).write_text(value)
    ip = IPRoute()
    (loopback,) = ip.link_lookup(ifname="lo")
    ip.link("set", index=loopback, state="up")
    return [start_card(ip, number, count, card) for card in range(cards)]


def start_card(ip, number, count, card) -> Shaper:
    (index,) = ip.link_lookup(ifname=namespaces.card_name(card))
    ip.addr("add", index=index, address=namespaces.address_of(number, card), prefixlen=16)
    ip.link("set", index=index, address=namespaces.hardware_address_of(number, card))
    ip.link("set", index=index, state="up")
    for other in {*range(count)} - {number}:
        know(ip, index, other, card)
    return Shaper(ip, index)


def know(ip, index, other, card):
    """Store the hardware address of another machine's card for good.

    Otherwise a cable that is plugged in again waits for the address, up to a second or two.
    """
    there = {
        "dst": namespaces.address_of(other, card),
        "lladdr": namespaces.hardware_address_of(other, card),
    }
    ip.neigh("replace", ifindex=index, state=PERMANENT, **there)
