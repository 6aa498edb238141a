"""Notices of the collectives that a rank begins, also those that torch's C++ code makes.

Every collective and message passes torch's dispatcher as an operator of the namespace c10d. A
kernel for the key BackendSelect sees it there on any device, with or without gradients, costs
nothing to other operators, and passes it on. Private: redispatch and the functions for keys.
"""

import contextlib
import os
from collections import Counter

import torch
import torch.distributed as dist
from torch._C import DispatchKey, _dispatch_keyset_full_after

from ..measuring.bytes_of_calls import RULES, calls_of, group_of, tensors_in
from ..measuring.connections import Connections
from ..measuring.wire_bytes import kernel_counts, wire_bytes
from .trace import is_main_thread, safely

BELOW = _dispatch_keyset_full_after(DispatchKey.BackendSelect)
IN_PLACE = ("all_reduce", "broadcast", "reduce", "scatter")  # wrong over Gloo if not dense
TO_GATHER = ("all_gather", "all_to_all", "gather")
_kept = []  # libraries, with which their kernels would be forgotten
SAMPLED = 8  # collectives of a line whose own bytes are measured


class Collectives:
    """The instrument that notes collectives, when they end, and how long the rank waits."""

    def __init__(self, trace):
        self.trace = trace
        self.numbers = Counter()  # collectives of each group so far
        self.groups = {}
        self.flying = []  # (group, number, request) of those that have not ended
        self.sampled = Counter()  # collectives whose own bytes were measured, by line
        self.sample = None  # the counters before a collective that is being measured
        self.connections = Connections() if kernel_counts() else None

    def start(self):
        for namespace, names in (("c10d", (*RULES["c10d"], "barrier")),
                                 ("_c10d_functional", ("wait_tensor",))):  # fmt: skip
            library = torch.library.Library(namespace, "IMPL")
            _kept.append(library)
            for name in names:
                packet = getattr(getattr(torch.ops, namespace), name, None)
                add_kernel(library, packet, self.waits if name == "wait_tensor" else self.begins)
        for name in ("wait", "synchronize"):
            setattr(dist.Work, name, self.wrap_wait(getattr(dist.Work, name)))

    def begins(self, operator, arguments, call):
        with self.trace.costing():
            noted = self.note(operator, arguments)
        result = call()
        with self.trace.costing():
            self.follow(noted, result)
        return result

    @safely
    def note(self, operator, arguments):
        """Note a collective that begins; return its group and number."""
        name = operator.overloadpacket.__name__
        tensors, group, what = self.describe(operator, name, arguments)
        if name == "barrier":
            told = ("barrier", 0, 0)
        else:
            (counted,) = calls_of(operator, arguments)
            told = counted.name, counted.tensor_bytes, counted.sent_bytes
        self.know(group)
        line = self.trace.line()
        number = self.numbers[group.group_name] = self.numbers[group.group_name] + 1
        first = tensors[0] if tensors else None
        shape = tuple(first.shape) if first is not None else ()
        dtype = str(first.dtype).removeprefix("torch.") if first is not None else ""
        self.trace.add("call", self.trace.now(), told[0], group.group_name, number, dtype, shape,
                       told[1], told[2], line, what)  # fmt: skip
        self.judge(told[0], tensors, group, line)
        self.begin_sample(line, group.group_name, number)
        return group.group_name, number

    def describe(self, operator, name, arguments):
        rule = RULES["c10d"].get(name)
        group = group_of(arguments[1 if rule is None else rule.group])
        tensors = [] if rule is None else list(tensors_in(arguments[rule.tensor]))
        what = next((argument.op() for argument in arguments if hasattr(argument, "op")), None)
        return tensors, group, what

    def know(self, group):
        name = group.group_name
        if name not in self.groups:
            ranks = tuple(dist.get_process_group_ranks(group))
            self.groups[name] = ranks
            label = group.group_desc.removeprefix("mesh_")
            self.trace.add("group", name, label if label != "undefined" else name, ranks)

    def judge(self, name, tensors, group, line):
        """Note what is wrong with the tensors of one call."""
        for tensor in tensors:
            if name in IN_PLACE and tensor.device.type == "cpu" and has_holes(tensor):
                self.trace.add_once("fact", "strided", name, line)
            if name in TO_GATHER and tensor.requires_grad and torch.is_grad_enabled():
                self.trace.add_once("fact", "gathered without gradient", name, line)

    @safely
    def follow(self, noted, result):
        """Remember the request of a collective, to see when it ends."""
        if noted is None:
            return
        request = result[-1] if isinstance(result, (tuple, list)) else result
        self.flying.append((*noted, dist.Work.unbox(request)))

    def look(self):
        """Note which collectives have ended; called again and again by the watcher's thread."""
        with contextlib.suppress(Exception):  # a request may be of a group that has gone
            for item in list(self.flying):
                if item[2].is_completed():
                    self.trace.add("done", *item[:2], self.trace.now())
                    self.flying.remove(item)

    def waits(self, operator, arguments, call):
        begin = self.trace.now()
        try:
            return call()
        finally:
            self.note_wait(begin)

    def note_wait(self, begin):
        """Note that the main thread has waited since `begin`."""
        if is_main_thread():
            self.trace.add("wait", begin, self.trace.now())
            with self.trace.costing():
                self.end_sample()
                self.look()

    def wrap_wait(self, original):
        def wait(request, *args, **kwargs):
            begin = self.trace.now()
            try:
                return original(request, *args, **kwargs)
            finally:
                self.note_wait(begin)

        return wait

    def read_wire(self) -> dict[str, tuple[int, int]]:
        """Return the bytes (sent, received) of all connections of each group so far."""
        sums = {}
        if self.connections is not None:
            counts = wire_bytes((int(os.environ["MASTER_PORT"]),))
            if not counts.keys() <= self.connections.known.keys():
                self.connections.note("")
            for cookie, (sent, received) in counts.items():
                group = (
                    self.connections.known[cookie][2] if cookie in self.connections.known else ""
                )
                before = sums.get(group, (0, 0))
                sums[group] = before[0] + sent, before[1] + received
        return sums

    @safely
    def note_wire(self):
        self.trace.add("wire", self.trace.now(), self.read_wire())

    @safely
    def begin_sample(self, line, *call):
        """Read the counters before a collective that is alone, of a line seen for the first times.

        Its bytes are known once somebody has waited for it, if no other has begun until then.
        """
        self.look()
        self.sample = None
        if self.connections is not None and not self.flying and self.sampled[line] < SAMPLED:
            self.sampled[line] += 1
            self.sample = call, self.read_wire()

    @safely
    def end_sample(self):
        """Note the bytes of the last collective, for which the rank has just waited."""
        sample, self.sample = self.sample, None
        if sample is not None:
            call, before = sample
            after = self.read_wire()
            self.trace.add("bytes", *call, *(
                sum(now[side] for now in after.values()) - sum(was[side] for was in before.values())
                for side in (0, 1)
            ))  # fmt: skip


def notice_collectives(notice):
    """Call `notice()` before each collective and message; return what keeps that going."""
    library = torch.library.Library("c10d", "IMPL")

    def noticed(operator, arguments, call):
        notice()
        return call()

    for name in (*RULES["c10d"], "barrier"):
        add_kernel(library, getattr(torch.ops.c10d, name, None), noticed)
    _kept.append(library)


def add_kernel(library, packet, instrument):
    if packet is not None:  # some are of later versions of torch
        kernel = make_kernel(packet.default, instrument)
        name = packet.__name__
        library.impl(name, kernel, "BackendSelect", with_keyset=True)


def make_kernel(operator, instrument):
    def kernel(keys, *arguments):
        return instrument(
            operator, arguments, lambda: operator.redispatch(keys & BELOW, *arguments)
        )

    return kernel


def has_holes(tensor) -> bool:
    """Return whether a tensor's elements are not the whole of one stretch of memory."""
    if tensor.is_contiguous():
        return False
    dims = sorted((stride, size) for size, stride in zip(tensor.shape, tensor.stride()) if size > 1)
    expected = 1
    for stride, size in dims:
        if stride != expected:
            return True
        expected *= size
    return False
