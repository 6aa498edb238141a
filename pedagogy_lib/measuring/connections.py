"""The peer at the other end of each connection, and the process group it was made for.

Gloo connects the ranks of a group when it makes the group, so that connections that are new
afterwards belong to it.
"""

import contextlib
from typing import NamedTuple

from ..basics.torch_private import watch_new_groups
from .bytes_of_calls import WORLD, group_name
from .wire_bytes import connections_here, ends_of


class Flow(NamedTuple):
    """The bytes that one rank has sent through one connection.

    here, there  the addresses of both ends, which are swapped for the other rank
    group        the name of its process group; "" if it belongs to none
    """

    here: tuple
    there: tuple
    group: str
    sent_bytes: int


class Connections:
    """The connections of this process, each with its ends and its group, if they are known."""

    def __init__(self):
        self.known = {}  # {the kernel's cookie of it: (here, there, group)}
        self.note(WORLD)
        watch_new_groups(self.watch_group)

    @contextlib.contextmanager
    def watch_group(self, description):
        self.note("")
        yield
        self.note(group_name(description))

    def note(self, group):
        """Note the connections that are new as the group's."""
        for cookie, fd in connections_here().items():
            if cookie not in self.known:
                with contextlib.suppress(OSError):  # closed meanwhile, by another thread
                    self.known[cookie] = *ends_of(fd), group

    def flows(self, before, after) -> list[Flow]:
        """Return a flow for each known connection that has sent or received between two counts.

        before, after  what `wire_bytes` returned
        """
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
    """Return the bytes that each rank has sent to each other one, as [from][to].

    uses    each rank's uses of one label
    wire    "measured": from the connections; "counted": from the calls
    places  the machine of each rank
    group   the name of the groups that count; None for all
    """
    matrix = [[0] * len(uses) for _ in uses]
    flows = yield_measured_flows(uses, places) if wire == "measured" else yield_counted_flows(uses)
    for rank, peer, name, sent in flows:
        if group in (None, name):
            matrix[rank][peer] += sent
    return matrix


def groups_of(uses, wire) -> list[str]:
    """Return the names of the groups that have sent something, in the order of their first use.

    wire  "measured": those of the connections; "counted": those of the calls
    """
    of_uses = [use for rank in uses for use in rank]
    if wire == "measured":
        names = [flow.group for use in of_uses for flow in use.flows]
    else:
        names = [call.group for use in of_uses for call in use.calls]
    return [name for name in dict.fromkeys(names) if name]


def yield_measured_flows(uses, places):
    """Yield (from, to, group, bytes) of each flow, to the rank that has the same ends swapped.

    Two machines may have loopbacks of the same address, but connections between machines do not.
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
    """Yield (from, to, group, bytes) of each call, which divides the bytes it sends evenly."""
    for rank, of_rank in enumerate(uses):
        for call in (call for use in of_rank for call in use.calls):
            for peer in () if call.not_counted else call.to:
                yield rank, peer, call.group, call.sent_bytes // len(call.to)
