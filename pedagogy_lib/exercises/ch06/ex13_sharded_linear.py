"""Layers whose weight is in parts: a program of stage 3 with a bug.

The truth is one process that has all weights, for each rank's own input.
"""

import torch
import torch.distributed as dist

from ...measuring.bytes_of_calls import tensors_in
from ..kit import At, Equals, RankExercise, World, never
from ..kit.alone import bytes_alive
from ..kit.refused import Refused

FINDS_A_BUG = True

ONE, THREE = (1, 4, 6), (3, 6, 6)  # layers, outputs, inputs


def weights_of(network):
    """Their first halves are equal: rank 0 does not see in its own part which layer's is there."""
    source = torch.Generator().manual_seed(1)
    draw = torch.randn(*network, generator=source, dtype=torch.float64)
    draw[:, : network[1] // 2] = draw[0, : network[1] // 2].clone()
    return [weight.requires_grad_() for weight in draw]


def input_of(rank, network):
    source = torch.Generator().manual_seed(100 + rank)
    return torch.randn(5, network[2], generator=source, dtype=torch.float64).requires_grad_()


def backward_of(layer, leaves, x):
    """Outputs of layers in a row, and the gradients of x and of each layer's weight or shard."""
    outputs = x
    for k in range(len(leaves)):
        outputs = torch.tanh(layer(outputs, k))
    return outputs.detach(), *torch.autograd.grad((outputs**2).mean(), [x, *leaves])


# ---- On a rank ---


def try_layers(answer, group, case):
    if not (isinstance(answer, type) and issubclass(answer, torch.autograd.Function)):
        raise Refused(
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
    kept = kept_bytes(layer, input_of(rank, network), shards[0], buffer)
    return {"outputs": outputs, "gradients": named(*gradients), "kept": kept}


def named(x, *shards):
    return {f"layer {k}'s shard": shard for k, shard in enumerate(shards, 1)} | {"x": x}


def kept_bytes(layer, x, *known) -> int:
    """What the graph of a layer keeps besides x, what else is known, and its outputs."""
    before = bytes_alive()
    outputs = layer(x, 0)
    more = bytes_alive() - before - outputs.nbytes  # in the graph, or anywhere else
    node = outputs.grad_fn  # the learner's `ctx`
    kept = tensors_in([list(node.saved_tensors), list(vars(node).values())])
    sizes = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in kept}
    known = {t.untyped_storage().data_ptr() for t in (x, outputs, *known)}
    return max(more, sum(size for place, size in sizes.items() if place not in known))


# ---- What is right, and what is not ---


def alone(trial, through=lambda k: k, weight_of=lambda weight: weight):
    """What each rank gets from one process that has all weights.

    through    of which layer's weight the slopes of x pass through a layer in the backward
    weight_of  what they find there of it
    """
    (network,) = trial.case.args
    weights = weights_of(network)

    def layer(x, k):
        behind = weight_of(weights[through(k)].detach())
        return x.detach() @ weights[k].T + (x - x.detach()) @ behind.T

    return [backward_of(layer, weights, input_of(rank, network)) for rank in range(trial.n)]


def gradients(trial, place, of_weight=lambda g: g.mean(0), of_x=None, part=None, **how):
    """What a rank has, if of a weight's gradients (ranks, elements), and of x's, this is made."""
    _, x, *weights = map(torch.stack, zip(*alone(trial, **how)))
    k = place if part is None else part
    shards = [of_weight(weight.flatten(1)).chunk(trial.n)[k] for weight in weights]
    return named(of_x(x) if of_x else x[place], *shards)


def mistakes(trial, place):
    n, network = trial.n, trial.case.args[0]
    layers = network[0]
    if layers > 1:
        return {
            f"they come out as if the slopes of all layers passed through the weight of layer "
            f"{layers}": gradients(trial, place, through=lambda k: layers - 1),
            "they come out as if the slopes passed through the weight of the layer behind, for "
            "each layer but the last: what the backward needs is there too late":
                gradients(trial, place, through=lambda k: min(k + 1, layers - 1)),
        }  # fmt: skip
    turned = lambda weight: torch.cat(weight.view(-1).chunk(n)[::-1]).view_as(weight)  # noqa: E731
    of_x = "x belongs to this rank, and so does its loss: "
    return {
        "the shard's gradient is the sum over the ranks; asked is the mean":
            gradients(trial, place, lambda g: g.sum(0)),
        "the shard's gradient is divided by the number of ranks twice":
            gradients(trial, place, lambda g: g.mean(0) / n),
        "the shard's gradient is half of the sum, however many ranks there are":
            gradients(trial, place, lambda g: g.sum(0) / 2),
        "the shard has the gradient of this rank's own loss: those of the others are to count, too":
            gradients(trial, place, lambda g: g[place]),
        "the shard has the gradient of this rank's own loss, divided by n: nothing has been added "
        "to it": gradients(trial, place, lambda g: g[place] / n),
        "these are the right numbers in another order: the weight is (outputs, inputs), and so is "
        "its gradient, before it is made flat":
            gradients(trial, place, lambda g: g.mean(0).view(network[1:]).T.flatten()),
        "all shards have the gradient of the first part: rank k has part k":
            gradients(trial, place, part=0),
        "the shard has the gradient of another rank's part: the parts are in the order of the "
        "ranks": gradients(trial, place, part=n - 1 - place),
        of_x + "its gradient is not to be divided by n":
            gradients(trial, place, of_x=lambda g: g[place] / n),
        of_x + "its gradient is not to be added up over the ranks":
            gradients(trial, place, of_x=lambda g: g.sum(0)),
        of_x + "its gradient is not to be averaged":
            gradients(trial, place, of_x=lambda g: g.mean(0)),
        "the backward puts the parts of the weight together in another order than the forward":
            gradients(trial, place, weight_of=turned),
    }  # fmt: skip


EXERCISE = RankExercise(
    "6.13",
    "ShardedLinear",
    cases=[
        At(World(n), (network,), f", {what}")
        for n in (2, 3)
        for network, what in ((ONE, "one layer"), (THREE, "three layers"))
    ],
    work=try_layers,
    facts=[
        Equals("outputs", lambda trial, place: alone(trial)[place][0], called="the output",
               otherwise="the forward was right as it was"),
        Equals("gradients", gradients, mistakes, "the gradient"),
        never("kept", "a layer keeps {} bytes more than x and its shard",
              "all gradients are right, but now each layer keeps its weight until its backward: "
              "stage 3 splits the weights so that nobody has to. What can be had again need not be "
              "kept"),
    ],
    told="gradients of one process; the graph keeps x and the shard alone",
    errors={
        "modified by an inplace operation": "save_for_backward() has kept the buffer itself, not "
        "its numbers, and watches over it: the forward of another layer has written into it",
        "invalid gradient": "a gradient has the shape of its argument: x's is as x, the shard's is "
        "a part as long as the shard",
        "incorrect number of gradients": "backward returns one for each argument of forward, None "
        "for buffer",
        "invalid tensor size": "the shard is flat: it goes into flat parts of the buffer, "
        "buffer.view(-1).chunk(n)",
        "not have been used in the graph": "backward returns None for x or shard: they have "
        "gradients",
        "Backward' object has no attribute": "ctx has what forward has put there, and nothing else",
    },
    lost="every rank has to make the same calls, in the same order, in the backward as well",
    hints=(
        "With one layer all is right. With three in a row, what is in the buffer when the "
        "first backward begins? And the second?",
        "The forward of the last layer has filled the buffer, for all. Each backward needs the "
        "weight of its own layer. To keep a copy for each would cost what stage 3 saves.",
        "In backward, before `gradient @ ctx.buffer`, gather the weight again, as forward does.",
    ),
)  # fmt: skip
