"""The right results, and the results of known mistakes."""

import torch

from .cases import FIRST, SECOND, make_inputs

LISTS = (
    "torch.autograd.backward takes a list of outputs, and then a list of their gradients: "
    "([a, b], [gradient of a, gradient of b])"
)


class Parts:
    """One graph of both slices: the gradients of x1 and x2 for any gradients of y1, key and y2."""

    def __init__(self, case):
        self.of = make_inputs(case)
        self.x1, self.x2 = (x.clone().requires_grad_() for x in (self.of.x1, self.of.x2))
        self.y1, self.made = FIRST[case.first][1](self.x1)
        self.y2 = SECOND[case.second][1](self.x2, self.made)

    def output(self, gradient):
        return self.grad(self.y1, self.x1, gradient)

    def key(self, gradient):
        return self.grad(self.made, self.x1, gradient)

    def second(self, gradient):
        """Return the gradients of the key and of x2, given the gradient of y2."""
        return self.grad(self.y2, self.made, gradient), self.grad(self.y2, self.x2, gradient)

    def grad(self, y, x, gradient):
        like = gradient if gradient.shape == y.shape else gradient.sum().expand(y.shape)
        return torch.autograd.grad(y, [x], like, retain_graph=True)[0]


def truth(trial, place):
    at = Parts(trial.case)
    total = (at.y1 * at.of.slope1).sum() + (at.y2 * at.of.slope2).sum()
    return dict(zip(("x1", "x2"), torch.autograd.grad(total, [at.x1, at.x2])))


def mistakes(trial, place):
    at = Parts(trial.case)
    slope1, slope2 = at.of.slope1, at.of.slope2
    output, (arrived, of_x2) = at.output(slope1), at.second(slope2)
    ones, through = torch.ones_like(slope1), at.key(arrived)
    of_ones, of_slope1 = at.second(torch.ones_like(slope2)), at.second(slope1)

    def pair(x1, x2=of_x2):
        return {"x1": x1, "x2": x2}

    not_its_slope = (
        "the key goes back with the slope of an output. What arrived at the key is in seen.grad"
    )
    no_slopes = (
        "an output goes back with a gradient of 1, as in y.sum().backward(). How the loss depends "
        "on it the next stage has sent: slope1 for y1, slope2 for y2"
    )
    return {
        "x1 has the gradient through its output alone. The second slice has looked at the key, and "
        "what it has left in seen.grad has to go on from `key` to x1": pair(output),
        "x1 has the gradient through its key alone: its output y1 goes back as well":
            pair(through),
        "the output of the first slice goes back twice: y1 is one of two outputs of one backward":
            pair(2 * output + through),
        "what comes through the key is there twice: the second slice has sent it once":
            pair(output + 2 * through),
        "the key goes back with a gradient of 1. What arrived at it is in seen.grad, once the "
        "second slice has gone back: that one comes first": pair(output + at.key(ones)),
        not_its_slope: pair(output + at.key(slope1)),
        f"{not_its_slope}, not in slope2": pair(output + at.key(slope2)),
        "the key goes back with x2.grad. What arrived at the key is in seen.grad":
            pair(output + at.key(of_x2)),
        "what arrived at the key is added as it is. It has to go back through `first`, from `key` "
        "to x1": pair(output + arrived),
        "what arrived at the key goes back from y1. It belongs to `key`, the other output":
            pair(output + at.output(arrived)),
        no_slopes: pair(at.output(ones) + through),
        f"{no_slopes}. Here it is y2": pair(output + at.key(of_ones[0]), of_ones[1]),
        f"{no_slopes}. Here it is both": pair(at.output(ones) + at.key(of_ones[0]), of_ones[1]),
        "the slopes are swapped: slope1 belongs to y1, slope2 to y2":
            pair(at.output(slope2) + at.key(of_slope1[0]), of_slope1[1]),
        "the two are swapped: first the gradient of x1": pair(of_x2, output + through),
        "seen.grad is the gradient of the key; asked is that of x2, in x2.grad":
            pair(output + through, arrived),
        "this is the gradient of the key. It goes on from `key` to x1": pair(arrived),
        "these are the inputs; asked are their gradients, x1.grad and x2.grad":
            pair(at.of.x1, at.of.x2),
    }  # fmt: skip
