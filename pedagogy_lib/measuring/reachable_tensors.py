"""A search for every tensor and optimizer that Python can reach; only the first takes long."""

import functools
import gc
import itertools
import weakref

import torch

from ..basics.torch_private import call_before_swaps, tensors_saved_by


class Reachable:
    """The tensors and optimizers that the garbage collector knows.

    The collector keeps young objects apart. Those that it is about to call old are remembered here
    by weak references, so that a search goes only through the few hundred young ones.
    """

    def __init__(self):
        self.old: dict[int, weakref.ref] | None = None  # by the thing's id

    def find(self) -> list:
        if self.old is None:
            self.old = {}
            gc.callbacks.append(self.remember_young)
            call_before_swaps(self.forget)
            for generation in (1, 2):
                self.remember(gc.get_objects(generation=generation))
        # The young ones first: asking for them may itself make them old.
        young = tensors_and_optimizers_in(gc.get_objects(generation=0))
        old = [(key, ref, ref()) for key, ref in self.old.copy().items()]  # collecting may add some
        for key, ref, thing in old:
            if thing is None and self.old.get(key) is ref:
                del self.old[key]
        return young + [thing for _, _, thing in old if thing is not None]

    def remember_young(self, phase, info):
        if phase == "start":
            self.remember(gc.get_objects(generation=0))

    def remember(self, objects):
        self.old.update((id(one), weakref.ref(one)) for one in tensors_and_optimizers_in(objects))

    def forget(self, things):
        """Drop the references to some things; return a function that remembers them again."""
        for thing in things:
            self.old.pop(id(thing), None)
        return lambda: self.remember(things)


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
