"""Who is at the other end of a connection, and for which process group it was made.

Gloo connects the ranks of a group when it makes it. So what is new afterwards belongs to it.
"""

import contextlib
from typing import NamedTuple

from ..basics.torch_private import watch_new_groups
from .bytes_of_calls import WORLD, group_name
from .wire_bytes import connections_here, ends_of


class Flow(NamedTuple):
    """What one rank has sent through one connection.

    here, there  the addresses of both ends: the other rank knows them the other way round
    group        what its process group is for; "" if it belongs to none
    """

    here: tuple
    there: tuple
    group: str
    sent_bytes: int


class Connections:
    """Those of this process, each with its ends and its group, as far as they are known."""

    def __init__(self):
        self.known = {}  # {the kernel's name of it: (here, there, group)}
        self.note(WORLD)
        watch_new_groups(self.watch_group)

    @contextlib.contextmanager
    def watch_group(self, description):
        self.note("")
        yield
        self.note(group_name(description))

    def note(self, group):
        """Remember those that are new as the group's."""
        for cookie, fd in connections_here().items():
            if cookie not in self.known:
                with contextlib.suppress(OSError):  # closed meanwhile, by another thread
                    self.known[cookie] = *ends_of(fd), group

    def flows(self, before, after) -> list[Flow]:
        """Of those that have carried something from one count of `wire_bytes` to a later one."""
        used = {cookie: now for cookie, now in after.items() if now != before.get(cookie, (0, 0))}
        if not used.keys() <= self.known.keys():
            self.note("")
        return [
            Flow(*self.known[cookie], sent - before.get(cookie, (0, 0))[0])
            for cookie, (sent, _) in used.items()
            if cookie in self.known
        ]


# ---- In the notebook ------------------------------------------------------------------------


def traffic_of(uses, wire, places, group=None) -> list[list[int]]:
    """Bytes that each rank has sent to each other one: [from][to].

    uses    of one label, for each rank
    wire    "measured": from the connections; "counted": from the calls
    places  the machine of each rank
    group   through groups of this name alone
    """
    matrix = [[0] * len(uses) for _ in uses]
    flows = yield_measured_flows(uses, places) if wire == "measured" else yield_counted_flows(uses)
    for rank, peer, name, sent in flows:
        if group in (None, name):
            matrix[rank][peer] += sent
    return matrix


def groups_of(uses, wire) -> list[str]:
    """The names of the groups that have sent something, in the order of their first use."""
    of_uses = [use for rank in uses for use in rank]
    if wire == "measured":
        names = [flow.group for use in of_uses for flow in use.flows]
    else:
        names = [call.group for use in of_uses for call in use.calls]
    return [name for name in dict.fromkeys(names) if name]


def yield_measured_flows(uses, places):
    """Yield (from, to, group, bytes): the other end of a flow is the rank that has it as its own.

    Two machines may have loopbacks of the same address; what crosses machines has others.
    """
    owners = {}
    for rank, of_rank in enumerate(uses):
        for flow in (flow for use in of_rank for flow in use.flows):
            owners[places[rank], flow.here, flow.there] = rank
            owners[None, flow.here, flow.there] = rank
    for rank, of_rank in enumerate(uses):
        for flow in (flow for use in of_rank for flow in use.flows):
            ends = flow.there, flow.here
            peer = owners.get((places[rank], *ends), owners.get((None, *ends)))
            if peer is not None:
                yield rank, peer, flow.group, flow.sent_bytes


def yield_counted_flows(uses):
    """Yield the same from the calls, each of which shares out evenly what it sends."""
    for rank, of_rank in enumerate(uses):
        for call in (call for use in of_rank for call in use.calls):
            for peer in call.to:
                yield rank, peer, call.group, call.sent_bytes // len(call.to)
