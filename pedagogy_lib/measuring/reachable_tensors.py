"""A search for every tensor and optimizer that Python can reach; only the first takes long."""

import functools
import gc
import itertools
import weakref

import torch

from ..basics.torch_private import tensors_saved_by


class Reachable:
    """The tensors and optimizers that the garbage collector knows.

    The collector keeps young objects apart. Those that it is about to call old are remembered here
    by weak references, so that a search goes only through the few hundred young ones.
    """

    def __init__(self):
        self.old: list[weakref.ref] | None = None

    def find(self) -> list:
        if self.old is None:
            self.old = []
            gc.callbacks.append(self.remember_young)
            for generation in (1, 2):
                self.remember(gc.get_objects(generation=generation))
        # The young ones first: asking for them may itself make them old.
        young = tensors_and_optimizers_in(gc.get_objects(generation=0))
        self.old = [ref for ref in self.old if ref() is not None]
        return young + [thing for ref in self.old if (thing := ref()) is not None]

    def remember_young(self, phase, info):
        if phase == "start":
            self.remember(gc.get_objects(generation=0))

    def remember(self, objects):
        self.old += map(weakref.ref, tensors_and_optimizers_in(objects))


@functools.cache
def is_wanted(kind) -> bool:
    return issubclass(kind, (torch.Tensor, torch.optim.Optimizer))


def tensors_and_optimizers_in(objects):
    """Return the tensors and optimizers among `objects`, which may hold tensor memory."""
    kinds = {kind for kind in set(map(type, objects)) if is_wanted(kind)}
    return list(itertools.compress(objects, map(kinds.__contains__, map(type, objects))))


def find_saved_tensors(things):
    """Yield tensors saved by autograd graphs that were recorded outside measured blocks."""
    tensors = [thing for thing in things if isinstance(thing, torch.Tensor)]
    nodes = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    seen = set()
    while nodes:
        node = nodes.pop()
        if node in seen:
            continue
        seen.add(node)
        nodes += [following for following, _ in node.next_functions if following is not None]
        yield from tensors_saved_by(node)
