"""Messages on Gloo in NCCL's order, according to NCCL's documentation and torch's source.

A message outside a batch waits for its turn: the messages between two ranks run one after another,
in the order of the calls, for both directions together. A send ends when it is received. There are
no tags. A batch runs as one. If torch has made NCCL's communicator at the start (`device_id`), all
messages of a rank in a group have one order.
"""

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch.distributed as dist

from .replaced_calls import replace_calls

PAUSE = 2e-4  # seconds between two checks


class Request:
    def __init__(self, future):
        self.future = future

    def wait(self, timeout=None):
        __tracebackhide__ = True  # a hang is reported at the line that calls it
        while not self.future.done():
            time.sleep(PAUSE)
        self.future.result()
        return True

    def is_completed(self):
        return self.future.done()


class NcclOrder:
    """Replacements of torch.distributed's calls for messages, which run in NCCL's order.

    one_order  whether a rank has one order for all peers in a group
    """

    def __init__(self, one_order):
        self.one_order, self.threads = one_order, {}
        self.real_isend, self.real_irecv = dist.isend, dist.irecv

    def begin(self, group, peer, *messages) -> Request:
        key = (group or dist.group.WORLD).group_name, None if self.one_order else peer
        if key not in self.threads:
            self.threads[key] = ThreadPoolExecutor(1)
        return Request(self.threads[key].submit(run_together, messages))

    def isend(self, tensor, dst=None, group=None, tag=0, group_dst=None):
        peer = peer_in(group, dst, group_dst)
        return self.begin(group, peer, partial(self.real_isend, tensor, None, group, 0, peer))

    def irecv(self, tensor, src=None, group=None, tag=0, group_src=None):
        peer = peer_in(group, src, group_src)
        return self.begin(group, peer, partial(self.real_irecv, tensor, None, group, 0, peer))

    def send(self, *args, **kwargs):
        __tracebackhide__ = True
        self.isend(*args, **kwargs).wait()

    def recv(self, tensor, src=None, *args, **kwargs):
        __tracebackhide__ = True
        self.irecv(tensor, src, *args, **kwargs).wait()
        return src

    def batch_isend_irecv(self, messages):
        real = {"isend": self.real_isend, "irecv": self.real_irecv}
        begun = [
            partial(real[m.op.__name__], m.tensor, None, m.group, 0, m.group_peer) for m in messages
        ]
        return [self.begin(messages[0].group, "batches", *begun)]


def run_together(messages):
    for request in [begin() for begin in messages]:
        request.wait()


def peer_in(group, peer, group_peer) -> int:
    if group_peer is not None:
        return group_peer
    if peer is None:
        raise ValueError("NCCL receives from a certain rank alone")
    return dist.get_group_rank(group or dist.group.WORLD, peer)


NAMES = ("isend", "irecv", "send", "recv", "batch_isend_irecv")


@contextlib.contextmanager
def messages_in_turn(one_order=False, **others):
    """Make messages of a rank on Gloo wait for their turn, as on NCCL, inside the `with` block.

    one_order  whether a rank has one order for all peers in a group
    others     further functions that replace torch.distributed's
    """
    order = NcclOrder(one_order)
    with replace_calls(**{name: getattr(order, name) for name in NAMES}, **others):
        yield
