"""Digests of gradients and parameters, by which ranks that should hold the same are compared.

A digest is one number for each parameter, made from some of its elements: replicas that differ
differ nearly everywhere. In the first steps everything is noted, later only while it is cheap.
"""

import time
import zlib

import torch

from .trace import safely

ELEMENTS = 32  # of each tensor
FIRST = 5  # steps of which everything is noted, however long it takes
SHARE = 0.015  # of the time, for later steps


class Replicas:
    """The instrument that notes digests, around each step of an optimizer."""

    def __init__(self, trace):
        self.trace = trace
        self.names = {}  # {id of a parameter: its name}
        self.order = []  # the parameters, in the order of digests
        self.known = set()  # ids of these
        self.began, self.spent = time.perf_counter(), 0.0

    def know_module(self, module, ranks=None):
        """Learn the names of a module's parameters; `ranks` hold equal copies of them."""
        for name, parameter in module.named_parameters():
            self.names.setdefault(id(parameter), name)
        if ranks is not None:
            names = [name for name, _ in module.named_parameters()]
            self.trace.add("replicas", names, tuple(ranks))

    def find_names(self):
        """Learn the names in all modules that there are, once an optimizer has others' parameters."""
        import gc

        modules = [one for one in gc.get_objects() if isinstance(one, torch.nn.Module)]
        inner = {id(child) for module in modules for child in module.children()}
        for module in modules:
            if id(module) not in inner:
                self.know_module(module)

    def learn(self, optimizer):
        parameters = [one for group in optimizer.param_groups for one in group["params"]]
        new = [one for one in parameters if id(one) not in self.known]
        if not new:
            return
        if any(id(one) not in self.names for one in new):
            self.find_names()
        for parameter in new:
            self.known.add(id(parameter))
            self.order.append(parameter)
        self.trace.add("names", [
            (self.names.get(id(one), f"parameter {index}"), tuple(one.shape), str(one.dtype),
             one.requires_grad, is_sharded(one))
            for index, one in enumerate(self.order)
        ])  # fmt: skip

    def is_affordable(self) -> bool:
        elapsed = time.perf_counter() - self.began
        return self.trace.step < FIRST or self.spent < SHARE * elapsed

    @safely
    def note_values(self, kind):
        """Note some numbers of a few gradients, to see how ranks' gradients become one."""
        if self.trace.step < FIRST:
            chosen = [one for one in self.order if one.grad is not None and not is_sharded(one)]
            values = [sample_of(one.grad)[:8].double().tolist() for one in chosen[-3:]]
            self.trace.add("values", self.trace.step, kind, values)

    @safely
    def note_gradients(self, optimizer):
        self.note_values("final")
        self.learn(optimizer)
        self.is_noted = self.is_affordable()
        if self.is_noted:
            self.note("gradients", [one.grad for one in self.order])
        if self.trace.step == 0:
            self.note("first parameters", self.order)

    @safely
    def note_parameters(self, optimizer):
        if self.is_noted:
            self.note("parameters", self.order)

    def note(self, kind, tensors):
        began = time.perf_counter()
        self.trace.add("digest", self.trace.step, kind, digests_of(tensors))
        self.spent += time.perf_counter() - began


def is_sharded(parameter) -> bool:
    """Return whether a parameter is a DTensor of which each rank holds a part."""
    return any(not placement.is_replicate() for placement in getattr(parameter, "placements", ()))


def digests_of(tensors) -> list[int]:
    """Return a number for each tensor; 0 for None, and for one that has no plain memory."""
    samples = [sample_of(tensor) for tensor in tensors]
    found = [0] * len(samples)
    for dtype in {sample.dtype for sample in samples if sample is not None}:
        here = [i for i, one in enumerate(samples) if one is not None and one.dtype == dtype]
        joined = torch.cat([samples[i] for i in here]).cpu().view(torch.uint8).numpy().tobytes()
        start = 0
        for i in here:
            end = start + samples[i].numel() * dtype.itemsize
            found[i] = zlib.crc32(joined[start:end]) or 1
            start = end
    return found


def sample_of(tensor):
    if tensor is None or tensor.layout is not torch.strided or tensor.numel() == 0:
        return None
    tensor = getattr(tensor, "_local_tensor", tensor).detach()
    flat = tensor.reshape(-1) if tensor.is_contiguous() else tensor.flatten()
    return flat[:: max(1, flat.numel() // ELEMENTS)][:ELEMENTS]
