"""The results of known mistakes."""

import torch

from .cases import gradients


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
