"""`throttle`, which slows down the links over which ranks send each other messages.

Each rank has one link to the network, which it uses in both directions at once, each at full speed.
A message of b bytes occupies its sender's link for b / bytes_per_second, one message after another.
Its first byte arrives `latency_seconds` after it left, and it occupies the receiver's link for as
long again, at the same time if that one is free.

With nodes, a rank has two links: one to the ranks of its node, and one to all others.

The bytes themselves travel as usual. Only `wait` lasts longer: for a sender until its link is free
again, for a receiver until the last byte would have arrived. Ranks tell each other in a shared file
when a message began to leave, so that nothing is added to the wire.
"""

import contextlib
import os
import time
from collections import Counter

import numpy as np
import torch.distributed as dist

from ..basics.errors import LaunchError
from ..basics.torch_private import sender_of
from ..basics.units import format_bytes, format_seconds
from . import recorder
from .replaced_calls import replace_calls

SLOTS = 4096  # messages in flight from one rank to another

_uses = Counter()  # how many links this process has opened; all ranks number them alike


@contextlib.contextmanager
def throttle(
    bytes_per_second: float,
    latency_seconds: float = 0.0,
    node_size: int | None = None,
    between_nodes: tuple[float, float] | None = None,
):
    """Slow down what ranks send each other, inside a function that `launch` runs.

    Every rank has to enter and leave the block. It slows `send`, `recv`, `isend`, `irecv` and
    `batch_isend_irecv`, and so everything written with them; collectives of a backend keep their
    speed. Pictures of blocks measured in it say so.

    bytes_per_second  the speed of each rank's link, in each direction
    latency_seconds   the time from a message's departure to its arrival
    node_size         ranks on a node; ranks 0 to node_size - 1 are on the first one
    between_nodes     the same two numbers for messages from node to node
    Raises            LaunchError outside a launch, or if a number makes no sense
    """
    folder = os.environ.get("PEDAGOGY_FOLDER")
    if folder is None:
        raise LaunchError("throttle() works inside a function that launch() runs")
    no_nodes = node_size is None and between_nodes is None
    if not no_nodes and not (node_size and between_nodes and node_size > 0):
        raise LaunchError(
            "throttle() with nodes takes both: node_size=, ranks on a node, and between_nodes=, "
            "bytes per second and latency from node to node"
        )
    inside = (bytes_per_second, latency_seconds)
    speeds = [inside, between_nodes or inside]
    if not all(rate > 0 and latency >= 0 for rate, latency in speeds):
        raise LaunchError(
            "throttle() takes a positive number of bytes per second, and a latency from 0 on"
        )
    _uses["links"] += 1
    link = RankLinks(f"{folder}/link-{_uses['links']}", speeds, node_size or dist.get_world_size())
    dist.barrier()
    with recorder.note_slowdown(link.text()), replace_calls(isend=link.isend, irecv=link.irecv):
        yield
        dist.barrier()


class RankLinks:
    """The links of this rank to the network, and when each one is free in each direction.

    speeds  (bytes per second, latency in seconds) inside a node, and between nodes
    """

    def __init__(self, path, speeds, node_size):
        self.speeds, self.node_size = speeds, node_size
        self.rank, n = dist.get_rank(), dist.get_world_size()
        with open(path, "ab") as file:
            file.truncate(n * n * SLOTS * 8)
        # [sender, receiver, number of the message]: when it began to leave
        self.began = np.memmap(path, dtype=np.float64, mode="r+", shape=(n, n, SLOTS))
        self.sent, self.received = Counter(), Counter()
        self.free_to_send, self.free_to_receive = [0.0, 0.0], [0.0, 0.0]
        self.real_isend, self.real_irecv = dist.isend, dist.irecv

    def text(self) -> str:
        inside, between = map(speed_text, self.speeds)
        if inside == between:
            return f"links throttled to {inside}"
        return f"links throttled to {inside} inside of a node, {between} between nodes"

    def way_to(self, peer) -> int:
        """Return 0 for a rank of the same node, 1 for another one."""
        return int(peer // self.node_size != self.rank // self.node_size)

    def isend(self, tensor, dst=None, group=None, tag=0, group_dst=None):
        receiver = dst if group_dst is None else global_rank(group, group_dst)
        way = self.way_to(receiver)
        began = max(time.perf_counter(), self.free_to_send[way])
        self.began[self.rank, receiver, self.sent[receiver] % SLOTS] = began
        self.sent[receiver] += 1
        has_left = began + tensor.nbytes / self.speeds[way][0]
        self.free_to_send[way] = has_left
        work = self.real_isend(tensor, dst, group, tag, group_dst)
        return SlowRequest(work, lambda: has_left)

    def irecv(self, tensor, src=None, group=None, tag=0, group_src=None):
        work = self.real_irecv(tensor, src, group, tag, group_src)
        sender = src if group_src is None else global_rank(group, group_src)
        number = None if sender is None else self.next_from(sender)
        return SlowRequest(work, lambda: self.arrival(work, tensor.nbytes, sender, number, group))

    def next_from(self, sender) -> int:
        self.received[sender] += 1
        return self.received[sender] - 1

    def arrival(self, work, nbytes, sender, number, group) -> float:
        """Return when the last byte of a message that has really arrived would have arrived."""
        if sender is None:  # received from any rank
            sender = global_rank(group, sender_of(work))
            number = self.next_from(sender)
        way = self.way_to(sender)
        bytes_per_second, latency_seconds = self.speeds[way]
        first_byte = self.began[sender, self.rank, number % SLOTS] + latency_seconds
        arrived = max(first_byte, self.free_to_receive[way]) + nbytes / bytes_per_second
        self.free_to_receive[way] = arrived
        return arrived


def speed_text(speed) -> str:
    bytes_per_second, latency_seconds = speed
    latency = f" + {format_seconds(latency_seconds)}" if latency_seconds else ""
    return f"{format_bytes(bytes_per_second)}/s{latency}"


class SlowRequest:
    """The request of isend or irecv, whose `wait` lasts until the link is done with the message.

    until  a function that returns this time, by `time.perf_counter()`; called after the message has
           travelled

    `wait` takes a `timeout` because callers may give one, and waits without a limit.
    """

    def __init__(self, work, until):
        self.work, self.until = work, until
        self.done_at = None

    def wait(self, timeout=None) -> bool:
        self.work.wait()
        time.sleep(max(0.0, self.end() - time.perf_counter()))
        return True

    def is_completed(self) -> bool:
        return self.work.is_completed() and time.perf_counter() >= self.end()

    def end(self) -> float:
        """Return when the link is done; the message has really been sent or received before."""
        if self.done_at is None:
            self.done_at = self.until()
        return self.done_at

    def __getattr__(self, name):
        return getattr(self.work, name)


def global_rank(group, rank) -> int:
    return rank if group is None else dist.get_global_rank(group, rank)
