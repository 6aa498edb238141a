"""A count of the forwards of a model that hold their activations at the same time."""

import weakref

from torch.autograd.graph import saved_tensors_hooks


class SavedTensor:
    """A tensor that autograd saves in a forward, alive until autograd frees it."""

    def __init__(self, tensor):
        self.tensor = tensor


def count_held_forwards(module) -> list[int]:
    """Return a list that gets, at each forward, how many are held then, including itself.

    Tensors that autograd saves are wrapped. A backward frees them, unless it retains the graph.
    """
    found, forwards, open_ = [], [], []

    def begin(*_):
        kept = weakref.WeakSet()

        def keep(tensor):
            one = SavedTensor(tensor)
            kept.add(one)
            return one

        found.append(1 + sum(len(other) > 0 for other in forwards))
        forwards.append(kept)
        open_.append(saved_tensors_hooks(keep, lambda one: one.tensor))
        open_[-1].__enter__()

    module.register_forward_pre_hook(begin)
    module.register_forward_hook(lambda *_: open_.pop().__exit__(None, None, None))
    return found
