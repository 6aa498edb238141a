"""Notices of what a training program does: data, forward, backward, optimizer, checkpoints.

Each instrument replaces one function of torch, calls it, and notes when it began and ended.
"""

import functools
import zlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.data import DistributedSampler
from torch.utils.data.dataloader import _BaseDataLoaderIter

from ..measuring.bytes_of_calls import tensors_in
from .trace import safely

LEAVES = 64  # elements of a batch that are compared


class Phases:
    """The instruments for the phases of a training step."""

    def __init__(self, trace, collectives, replicas):
        self.trace, self.collectives, self.replicas = trace, collectives, replicas
        self.epochs = {}  # {sampler: epochs that it has shuffled for}
        self.modules = {}  # {DDP module: whether its last forward was to be synchronised}

    def start(self):
        self.replace(torch.autograd, "backward", self.backward)
        self.replace(torch, "save", self.save)
        for module in (torch.nn.utils, torch.nn.utils.clip_grad):
            for name in ("clip_grad_norm_", "clip_grad_value_"):
                self.replace(module, name, self.clip)
        self.replace(_BaseDataLoaderIter, "__next__", self.load)
        self.replace(DistributedSampler, "__iter__", self.shuffle)
        self.replace(DistributedDataParallel, "__init__", self.wrap_module)
        self.replace(DistributedDataParallel, "forward", self.forward)
        register_optimizer_step_pre_hook(self.before_step)
        register_optimizer_step_post_hook(self.after_step)

    def replace(self, owner, name, instrument):
        """Replace a function by one that calls `instrument(original, *args, **kwargs)`."""
        original = getattr(owner, name)

        @functools.wraps(original)
        def replaced(*args, **kwargs):
            return instrument(original, *args, **kwargs)

        setattr(owner, name, replaced)

    def backward(self, original, tensors, *args, **kwargs):
        with self.trace.costing():
            self.note_modules()
            self.note_loss(tensors)
        with self.trace.span("backward"):
            result = original(tensors, *args, **kwargs)
        with self.trace.costing():
            self.collectives.end_sample()
            self.collectives.look()
            self.replicas.note_values("raw")
        return result

    @safely
    def note_loss(self, tensors):
        loss = tensors[0] if isinstance(tensors, (tuple, list)) else tensors
        value = loss.detach().item() if loss.numel() == 1 and loss.device.type == "cpu" else None
        node = loss.grad_fn
        mean = getattr(node, "_saved_reduction", None) == 1 or "Mean" in type(node).__name__
        self.trace.add("loss", self.trace.step, value, type(node).__name__, mean)
        self.trace.add("random", self.trace.step, "backward", random_state())

    @safely
    def note_modules(self):
        """Note a no_sync that began only after the forward, which decides on the collectives."""
        for module, was_synchronised in self.modules.items():
            if was_synchronised and not module.require_backward_grad_sync:
                self.trace.add_once("fact", "no_sync after the forward", "", self.trace.line())

    def save(self, original, obj, file, *args, **kwargs):
        with self.trace.span("save"):
            result = original(obj, file, *args, **kwargs)
        self.note_save(file)
        return result

    @safely
    def note_save(self, file):
        import os

        if isinstance(file, (str, os.PathLike)):
            self.trace.add("fact", "saved", os.path.realpath(file), self.trace.line())

    def clip(self, original, *args, **kwargs):
        with self.trace.span("clip"):
            return original(*args, **kwargs)

    def load(self, original, iterator):
        with self.trace.span("data"):
            batch = original(iterator)
        with self.trace.costing():
            self.note_batch(batch)
        return batch

    @safely
    def note_batch(self, batch):
        tensors = [tensor for tensor in tensors_in(list(leaves(batch))) if tensor.dim()]
        if tensors:
            numbers = tuple(digest_sample(tensor) for tensor in tensors[:4])
            rows = tensors[0].shape[0]
            self.trace.add("batch", self.trace.step, rows, hash(numbers), self.trace.line())

    def shuffle(self, original, sampler):
        with self.trace.costing():
            self.note_epoch(sampler)
        return original(sampler)

    @safely
    def note_epoch(self, sampler):
        epochs = self.epochs.setdefault(id(sampler), [])
        if sampler.shuffle and sampler.epoch in epochs:
            self.trace.add_once("fact", "epoch repeated", sampler.epoch, self.trace.line())
        epochs.append(sampler.epoch)

    def wrap_module(self, original, module, *args, **kwargs):
        original(module, *args, **kwargs)
        with self.trace.costing():
            self.note_module(module)

    @safely
    def note_module(self, module):
        self.modules[module] = False
        self.replicas.know_module(module.module, dist.get_process_group_ranks(module.process_group))
        ignored = module.parameters_to_ignore
        buffers = sum(one.nbytes for name, one in module.module.named_buffers()
                      if name not in ignored)  # fmt: skip
        self.trace.add("fact", "ddp", {
            "ranks": tuple(dist.get_process_group_ranks(module.process_group)),
            "find_unused": module.find_unused_parameters,
            "buffers": buffers * bool(module.broadcast_buffers),
            "bytes": sum(one.nbytes for one in module.parameters() if one.requires_grad),
        }, self.trace.line())  # fmt: skip

    def forward(self, original, module, *args, **kwargs):
        with self.trace.costing():
            self.note_forward(module, args, kwargs)
        with self.trace.span("forward"):
            return original(module, *args, **kwargs)

    @safely
    def note_forward(self, module, args, kwargs):
        is_trained = module.training and torch.is_grad_enabled()
        self.modules[module] = module.require_backward_grad_sync and is_trained
        if is_trained:
            tensors = [one for one in leaves([args, kwargs]) if isinstance(one, torch.Tensor)]
            numbers = tuple(digest_sample(one) for one in tensors[:4])
            rows = tensors[0].shape[0] if tensors and tensors[0].dim() else 0
            self.trace.add("input", self.trace.step, rows, hash(numbers), self.trace.line())
            self.trace.add("random", self.trace.step, "forward", random_state())

    def before_step(self, optimizer, args, kwargs):
        self.step_begin, self.step_line = self.trace.now(), self.trace.line()
        with self.trace.costing():
            self.replicas.note_gradients(optimizer)

    def after_step(self, optimizer, args, kwargs):
        trace = self.trace
        trace.add("span", "optimizer", self.step_begin, trace.now(), self.step_line)
        with trace.costing():
            self.replicas.note_parameters(optimizer)
            self.collectives.note_wire()
            rates = [group.get("lr") for group in optimizer.param_groups]
        trace.add("step", trace.step, trace.now(), [float(rate) for rate in rates], self.step_line)
        trace.step += 1
        trace.add("cost", trace.step, trace.cost)


def leaves(value):
    """Yield the values in nested lists, tuples and dicts, and the tensors of such objects."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from leaves(one)
    else:
        yield value


def digest_sample(tensor) -> int:
    """Return a number that differs where some of a tensor's elements differ."""
    flat = tensor.detach().reshape(-1)
    sample = flat[:: max(1, flat.numel() // LEAVES)][: 2 * LEAVES]
    return zlib.crc32(sample.cpu().contiguous().view(torch.uint8).numpy().tobytes())


def random_state() -> int:
    """Return a number for the state of the generator that dropout draws from."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return zlib.crc32(torch.cuda.get_rng_state().numpy().tobytes())
    return zlib.crc32(torch.get_rng_state().numpy().tobytes())
