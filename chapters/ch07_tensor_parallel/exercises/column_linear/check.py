"""Some of a linear layer's columns on each rank: exercise ColumnLinear."""

import torch
import torch.nn.functional as F

from ..shared.split_layers_truth import COLUMNS, split_layer


def mistakes(trial, place, all_of, y, gradients):
    n = trial.n
    of, scaled = all_of[place], {name: n * x for name, x in gradients.items() if x is not None}
    x, product = gradients["x"], F.linear(of.x, of.weight)
    columns = [F.linear(of.x, each.weight) + each.bias for each in all_of]
    in_y = {
        "the bias is missing": product,
        "x goes in n times, as a sum over all ranks. All have the same x: what it goes through on "
        "its way in is `enter`, which adds up in the backward": y + (n - 1) * product,
        "these are all columns: the output stays split, the next layer takes it so":
            torch.cat(columns, -1),
    }  # fmt: skip
    in_gradients = {
        "this is what comes through this rank's columns alone; x went into all columns, on all "
        "ranks. self.enter adds up in the backward": gradients | {"x": of.y @ of.weight},
        "the mean, not the sum: x went into all ranks' columns": gradients | {"x": x / n},
        "added up twice, so it is n times too much": gradients | {"x": n * x},
        "x gets no gradient: was it detached, or was the layer computed under no_grad?":
            gradients | {"x": None},
        "n times too much: it is for x alone that gradients are added up":
            gradients | scaled | {"x": x},
    }  # fmt: skip
    if trial.case.length == 6:  # parts of other lengths cannot be added up
        in_y[
            "each rank has other columns of the output: they are not added up. The output stays "
            "split, the next layer takes it so"
        ] = sum(columns)
        slope = sum(each.y for each in all_of)
        in_gradients[
            "what you gave to enter is cut already: its gradients belong to different features on "
            "each rank. f stands before the columns, on x"
        ] = {
            "x": slope @ of.weight,
            "weight": slope.flatten(0, -2).T @ of.x.flatten(0, -2),
            "bias": slope.flatten(0, -2).sum(0),
        }
    return in_y, in_gradients


EXERCISE = split_layer(
    "ColumnLinear", COLUMNS, mistakes, needs=("cut", "copy"),
    hints=(
        "part_of makes this rank's part of a parameter, frozen or not, and notes how it was "
        "cut. Along which dim of linear.weight are A's columns?",
        "Dim 0, in groups: self.weight = part_of(linear.weight, 0, group, together). The bias has "
        "one number for each column; it may be None.",
        "forward: what has to happen to x, so that its gradient will be added up? "
        "self.enter(x, self.group). Then F.linear, and nothing more.",
    ),
)  # fmt: skip
