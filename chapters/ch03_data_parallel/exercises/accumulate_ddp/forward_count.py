"""How many forwards of a model hold their activations at the same time."""

import weakref

from torch.autograd.graph import saved_tensors_hooks


class SavedTensor:
    """What autograd keeps of a forward, until it lets go of it."""

    def __init__(self, tensor):
        self.tensor = tensor


def count_held_forwards(module) -> list[int]:
    """Gets at each forward how many of them are held then, itself among them.

    What autograd saves is wrapped. A backward lets go of it, unless it retains the graph.
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
