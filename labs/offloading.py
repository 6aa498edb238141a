# Built from chapters/ch05_memory/labs/offloading.py by `make build`.
"""Activation offloading: tensors that autograd saves go to another memory until the backward.

torchrun --nproc-per-node 1 labs/offloading.py
"""

from contextlib import nullcontext
from weakref import WeakValueDictionary

import torch
from language_model import Transformer, draw_batch, mean_loss, standard_library
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef

WAYS = ("kept", "everything moved", "activations moved once")


class Host:
    """A memory of its own for saved tensors: their bytes lie in arrays that are no tensors.

    Only the graph holds these arrays, so each is free again once the backward has used it. Under
    autocast the casts of weights are tensors with a memory of their own, and move as well.

    model     only activations move, each memory once: weights stay, and tensors that share a memory
              are stored together. None: each saved tensor moves each time
    smallest  smaller memories stay as well; in bytes
    moved_out, moved_back  bytes that have moved
    """

    def __init__(self, model=None, smallest=0):
        self.model, self.smallest = model, smallest  # a freed model could lose its addresses
        self.weights = {p.untyped_storage().data_ptr() for p in model.parameters()} if model else ()
        self.stored = WeakValueDictionary()  # {identity of a memory: its bytes}
        self.moved_out = self.moved_back = 0

    def store(self, tensor):
        """Return what is saved in place of a tensor: itself, or its bytes on the host."""
        tensor = tensor.detach().resolve_conj().resolve_neg()  # no memory has these two bits
        if self.model is None:
            tensor = tensor.clone(memory_format=torch.contiguous_format)
        storage = tensor.untyped_storage()
        if storage.data_ptr() in self.weights or storage.nbytes() < self.smallest:
            return tensor
        # As long as the reference exists, no other memory has its identity.
        key = StorageWeakRef(storage), tensor._version
        saved = self.stored.get(key)
        if saved is None:
            saved = self.stored[key] = self.copy(storage, tensor.device)
        view = tensor.storage_offset(), tensor.shape, tensor.stride()
        return saved, tensor.device, tensor.dtype, view

    def copy(self, storage, device):
        self.moved_out += storage.nbytes()
        return torch.empty(0, dtype=torch.uint8, device=device).set_(storage).cpu().numpy().copy()

    def load(self, saved) -> Tensor:
        """Return the tensor again, in a new memory of its device."""
        if torch.is_tensor(saved):
            return saved
        numbers, device, dtype, view = saved
        self.moved_back += numbers.nbytes
        memory = torch.from_numpy(numbers.copy()).to(device).untyped_storage()
        return torch.empty(0, dtype=dtype, device=device).set_(memory, *view)

    def hooks(self):
        return saved_tensors_hooks(self.store, self.load)


def step_in(way, text, width, layers, samples) -> tuple[Tensor, int, int]:
    """Take a forward and a backward, measured as the way, and "way: after" between the two.

    Returns  all gradients, and the bytes moved out and back
    """
    from pedagogy_lib import measure

    torch.manual_seed(0)
    model, (inputs, targets) = Transformer(width, layers), draw_batch(text, samples, 0)
    host = Host(model if way == WAYS[2] else None, smallest=1024 if way == WAYS[2] else 0)
    with measure(f"{way}: before"):
        pass
    with measure(way):
        with nullcontext() if way == WAYS[0] else host.hooks():
            loss = mean_loss(model(inputs), targets)
        with measure(f"{way}: after"):
            pass
        loss.backward()
    gradients = torch.cat([p.grad.flatten() for p in model.parameters()])
    return gradients, host.moved_out, host.moved_back


def left_on_device(run, way) -> int:
    """Return the bytes that the forward of a way has left on the device for its backward."""
    before, after = (run[f"{way}: {when}"].peak_bytes[0]["total"] for when in ("before", "after"))
    return after - before


# ---- The program ---------------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library(20_000)
    for way in WAYS:
        run = launch(step_in, way, text, 64, 2, 8, world_size=1)
        _, out, back = run.values[0]
        print(f"{way}: {left_on_device(run, way):,} bytes left, {out:,} out, {back:,} back")


if __name__ == "__main__":
    main()
