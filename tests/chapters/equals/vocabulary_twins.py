"""What chapter 07 does with logits that are cut over ranks, next to all logits in one process."""

import torch
import torch.nn.functional as F
from helpers import load_solved_lab
from layer_conditions import LAYERS, OF_GROUPS, ONCE, TWICE, Case, mode, prepare
from torch import nn
from twins import EQUAL, Twin

PARALLEL, DECODING = map(load_solved_lab, ("tensor_parallel", "decoding"))
IGNORED = -100


class Loss(nn.Module):
    """A loss with its targets; `loss` takes logits and targets."""

    def __init__(self, loss, targets):
        super().__init__()
        self.loss, self.targets = loss, targets

    def forward(self, logits):
        return self.loss(logits, self.targets)


def cross_entropy(logits, targets):
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))  # as the docstring says
    return F.cross_entropy(torch.atleast_2d(logits).flatten(0, -2), targets.flatten())


class Logits(Case):
    """The mean cross-entropy of logits of which each rank has some tokens'."""

    width = 7  # tokens

    def __init__(self, condition):
        super().__init__(condition)
        self.width = self.n - 1 if condition == "fewer than ranks" else 7

    def input(self):
        if self.condition == "fewer than ranks":
            return self.draw(0, self.width)
        x = super().input()
        for place, number in NUMBERS.get(self.condition, []):
            x[place] = number
        return x

    def targets(self):
        shape = self.input().shape[:-1]
        targets = torch.randint(0, max(self.width, 1), shape, generator=self.chance)
        if self.condition == "ignored targets":
            targets[0, 1:] = IGNORED
        if self.condition == "unknown target":
            targets[0, 0] = self.width
        return targets.fill_(IGNORED) if self.condition == "all targets ignored" else targets

    def whole(self):
        self.asked = self.targets()
        known = self.asked.clamp(max=self.width - 1)
        return Loss(cross_entropy, known)

    def split(self, whole):
        return Loss(self.loss, self.asked)

    def loss(self, logits, targets):
        return PARALLEL.split_cross_entropy(logits, targets, self.group, self.width)

    def part_of_input(self, x):
        return self.cut(x, -1)

    def parts_of_gradients(self, gradients):
        return []


NUMBERS = {  # [(samples and tokens, what their logits are)]
    "a token at minus infinity": [((..., 0), -torch.inf)],
    "three tokens at minus infinity": [((..., slice(3)), -torch.inf)],
    "all tokens at minus infinity": [((0, 0), -torch.inf)],
    "an infinite logit": [((0, 0, 0), torch.inf)],
    "a logit that is not a number": [((0, 0, 0), torch.nan)],
    "logits of 10,000": [((0, 0, 0), 1e4), ((0, 1, 6), -1e4)],
    "logits that are all the same": [((...,), 3.0)],
    "the highest on two ranks": [((..., slice(None, None, 6)), 9.0)],
}
WITHOUT = ("frozen", "dropout", "changed in place")  # which a loss cannot have
LOSSES = {k: v for k, v in LAYERS.items() if k not in WITHOUT} | dict.fromkeys(
    (*NUMBERS, "ignored targets", "all targets ignored"), EQUAL
)
LOSSES |= {"unknown target": "but a vocabulary of", "fewer than ranks": "cannot be cut into",
           TWICE: ONCE}  # fmt: skip


def choose(condition):
    """Prepare the comparison of the tokens with the highest logits."""
    case = Logits(condition)
    x = case.input().requires_grad_(condition == "with gradients")
    first = torch.arange(case.width).tensor_split(case.n)[case.rank][0].item()

    def ours():
        with mode(condition):
            return [DECODING.likeliest(case.part_of_input(x), first, case.group)]

    return ours, lambda: [x.argmax(-1)]


CHOICES = dict.fromkeys(
    ("float64", "float32", "bfloat16", "float16", "empty", "one dimension", "several dimensions",
     "not contiguous", "expanded", "with gradients", "no_grad", "inference mode", *OF_GROUPS,
     *NUMBERS), EQUAL
)  # fmt: skip
TWINS = [
    Twin("tensor_parallel.split_cross_entropy", LOSSES, prepare(Logits)),
    Twin("decoding.likeliest", CHOICES, choose),
]
