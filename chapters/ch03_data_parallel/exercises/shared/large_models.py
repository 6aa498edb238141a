"""The cost of an answer with large tensors, whose bytes are compared with a formula.

Bytes alone do not tell whether all of a tensor was averaged, so a summary of its values is checked,
too. The tensors are float32, so an answer that sends them as float64 sends twice the bytes.
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from coursekit.kit import measure_answer
from coursekit.kit.reference_training import LARGE, batch_of, large_model


def cost_of_large(call, after, group=None) -> dict:
    """Measure the sends of the answer for a large model; return a summary of its tensors.

    call   calls the answer
    after  returns {name: the answer's result}
    """
    dist.barrier(group)
    with measure_answer():
        call()
    return {"large": summarise_tensors(after())}


def cost_of_layers(call, place, number=1, prepare=None, after=None) -> dict:
    """Measure the sends for two large layers; return a summary of their mean gradient.

    call     takes a model and its micro-batches and calls the answer
    prepare  takes the model and a batch and returns the object that `call` gets instead
    after    returns {name: gradient} if the gradients are not in `.grad` at the end
    """
    model, pieces = layers_of(place, number)
    parameters = dict(model.named_parameters())
    given = prepare(model, pieces[0]) if prepare else model
    after = after or (lambda: {name: parameter.grad for name, parameter in parameters.items()})
    return cost_of_large(lambda: call(given, pieces), after)


def layers_of(place, number) -> tuple:
    """Return two large layers, equal on all ranks, and a rank's micro-batches."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        model = large_model().float()
    return model, [tuple(x.float() for x in batch_of(place, 0, piece, features=LARGE))
                   for piece in range(number)]  # fmt: skip


def make_rebuilt_ddp(model, batch):
    """Return a DDP after its second backward, in which it sends some bytes to agree on buckets."""
    ddp = DistributedDataParallel(model)
    for _ in range(2):
        ddp(batch[0]).sum().backward()
    ddp.zero_grad()
    return ddp


def summarise_tensors(tensors) -> dict[str, torch.Tensor]:
    """Return two float64 sums of each tensor; the sums of a mean are the means of the sums."""
    return {name: None if x is None else two_sums(x.detach().double().flatten())
            for name, x in tensors.items()}  # fmt: skip


def two_sums(x):
    weights = torch.rand(len(x), generator=torch.Generator().manual_seed(1), dtype=x.dtype)
    return torch.stack([x.sum(), x @ (weights + 0.5)])
