"""The code that runs next to the answer, and the right results."""

import torch
import torch.distributed as dist

from coursekit.kit import Rejection
from coursekit.kit.single_rank import bytes_alive
from pedagogy_lib.measuring.bytes_of_calls import tensors_in

ONE, THREE = (1, 4, 6), (3, 6, 6)  # layers, outputs, inputs


def weights_of(network):
    """Return weights with equal first halves, so that rank 0's part is the same in all layers."""
    source = torch.Generator().manual_seed(1)
    draw = torch.randn(*network, generator=source, dtype=torch.float64)
    draw[:, : network[1] // 2] = draw[0, : network[1] // 2].clone()
    return [weight.requires_grad_() for weight in draw]


def input_of(rank, network):
    source = torch.Generator().manual_seed(100 + rank)
    return torch.randn(5, network[2], generator=source, dtype=torch.float64).requires_grad_()


def backward_of(layer, leaves, x):
    """Return the outputs of layers in a row, and the gradients of x and of each weight or shard."""
    outputs = x
    for k in range(len(leaves)):
        outputs = torch.tanh(layer(outputs, k))
    return outputs.detach(), *torch.autograd.grad((outputs**2).mean(), [x, *leaves])


def try_layers(answer, group, case):
    if not (isinstance(answer, type) and issubclass(answer, torch.autograd.Function)):
        raise Rejection(
            f"check() was given {answer!r:.60}",
            "it is to remain a class ShardedLinear(torch.autograd.Function), with forward and "
            "backward; give check() the class itself",
        )
    (network,), rank, n = case.args, dist.get_rank(), dist.get_world_size()
    shards = [w.detach().view(-1).chunk(n)[rank].clone().requires_grad_()
              for w in weights_of(network)]  # fmt: skip
    buffer = torch.zeros(network[1:], dtype=torch.float64)
    layer = lambda x, k: answer.apply(x, shards[k], buffer)  # noqa: E731
    outputs, *gradients = backward_of(layer, shards, input_of(rank, network))
    kept = count_saved_bytes(layer, input_of(rank, network), shards[0], buffer)
    return {"outputs": outputs, "gradients": name_tensors(*gradients), "kept": kept}


def name_tensors(x, *shards):
    return {f"layer {k}'s shard": shard for k, shard in enumerate(shards, 1)} | {"x": x}


def count_saved_bytes(layer, x, *known) -> int:
    """Return the bytes that a layer's graph keeps besides x, its outputs and `known` tensors."""
    before = bytes_alive()
    outputs = layer(x, 0)
    more = bytes_alive() - before - outputs.nbytes  # in the graph, or anywhere else
    node = outputs.grad_fn  # the learner's `ctx`
    kept = tensors_in([list(node.saved_tensors), list(vars(node).values())])
    sizes = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in kept}
    known = {t.untyped_storage().data_ptr() for t in (x, outputs, *known)}
    return max(more, sum(size for place, size in sizes.items() if place not in known))


def alone(trial, through=lambda k: k, weight_of=lambda weight: weight):
    """Return the results of each rank, computed by one process that has all weights.

    through    takes a layer's index; returns that of the layer whose weight its backward uses for x
    weight_of  takes this weight; returns the tensor that is used in its place
    """
    (network,) = trial.case.args
    weights = weights_of(network)

    def layer(x, k):
        behind = weight_of(weights[through(k)].detach())
        return x.detach() @ weights[k].T + (x - x.detach()) @ behind.T

    return [backward_of(layer, weights, input_of(rank, network)) for rank in range(trial.n)]


def gradients(trial, place, of_weight=lambda g: g.mean(0), of_x=None, part=None, **how):
    """Return the gradients of a rank, made from those of all ranks.

    of_weight  takes a weight's gradients, (ranks, elements)
    of_x       takes the gradients of x of all ranks; by default, x has the rank's own
    part       index of the part that the shards get; by default, the rank's place
    """
    _, x, *weights = map(torch.stack, zip(*alone(trial, **how)))
    k = place if part is None else part
    shards = [of_weight(weight.flatten(1)).chunk(trial.n)[k] for weight in weights]
    return name_tensors(of_x(x) if of_x else x[place], *shards)
