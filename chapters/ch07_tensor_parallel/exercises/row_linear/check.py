"""Some of a linear layer's rows on each rank: exercise RowLinear."""

import torch.nn.functional as F

from ..shared.split_layers_truth import ROWS, split_layer


def mistakes(trial, place, all_of, y, gradients):
    n = trial.n
    of, plain = all_of[place], y - all_of[place].bias
    summand, x = F.linear(of.x, of.weight), gradients["x"]
    weight, bias = gradients["weight"], gradients.get("bias")
    in_y = {
        "the bias is added on every rank before the sum, so it is there n times: add it to the "
        "sum": plain + n * of.bias,
        "only one rank has added the bias to the sum. The output is the same on all ranks: each of "
        "them adds it": plain + (place == 0) * of.bias,
        "each rank has its own summand still: self.leave adds them up": summand + of.bias,
        "each rank has its own summand, without bias": summand,
        "added up twice: the sum of sums is n times too large. self.leave is called once": n * plain
        + of.bias,
        "the bias is missing": plain,
        "the mean, not the sum: each rank has a summand": plain / n + of.bias,
    }
    in_gradients = {
        "n times too much: the backward adds up, too. Behind the sum all ranks compute the same: "
        "self.leave is all that is needed":
            gradients | {"x": n * x, "weight": None if weight is None else n * weight},
        "there is no gradient: was it detached, or was the layer computed under no_grad?":
            gradients | {"x": None},
    }  # fmt: skip
    if bias is not None:
        in_gradients |= {why: gradients | {"bias": wrong} for why, wrong in {
            "1/n of the bias on every rank gives the right sum, and each rank 1/n of its gradient: "
            "it would learn n times too slowly. Add all of it, once, after the sum": bias / n,
            "only one rank has added the bias, so all others have no gradient for it, and their "
            "bias stays as it is. Add it on every rank, after the sum": None if place else bias,
            "the bias's gradient is zero on all ranks but one: their bias stays as it is. Add it "
            "on every rank, after the sum": (place == 0) * bias,
            "n times too much: is the bias added before the sum, or the backward adding up, too?":
                n * bias,
        }.items()}  # fmt: skip
    if trial.case.length == 6:  # parts of other lengths cannot be added up
        in_y[
            "each rank has other inputs: they are not added up, but what each rank makes of them, "
            "F.linear(x, self.weight)"
        ] = F.linear(sum(each.x for each in all_of), of.weight) + of.bias
        in_gradients[
            "a row layer needs no f: x is cut already, and its gradients belong to different "
            "features on each rank"
        ] = gradients | {"x": sum(of.y @ each.weight for each in all_of)}
    return in_y, in_gradients


EXERCISE = split_layer(
    "RowLinear", ROWS, mistakes, needs=("cut", "all_reduce"),
    hints=(
        "A's rows are dim 1 of linear.weight. How often is the bias added in one process, and "
        "what does every rank need to add it?",
        "self.weight = part_of(linear.weight, 1, group, together); self.bias = linear.bias, which "
        "may be None.",
        "forward: F.linear(x, self.weight) is this rank's summand. self.leave(…, self.group) "
        "adds them up; then comes the bias.",
    ),
)  # fmt: skip
