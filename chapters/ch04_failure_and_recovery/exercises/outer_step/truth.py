"""The right results, and the results of known mistakes."""

import torch

from coursekit.kit.collective_exercise import LARGE

from .cases import LARGE_SHAPES, ROUNDS, draw_worker_change, weights_of

ASCENDS = (
    "the sign is the other way round: an optimizer goes against its gradient. So the outer "
    "gradient is whole - mine, and a step of SGD with rate 1 leads to where the workers are"
)

SUM = "this is with the sum over the workers: the outer gradient is their mean"

BY_WORLD = "the mean is over the workers of the group: divide by their number, not by the world's"

ALONE = "each worker has taken its own outer gradient: it is averaged over all of them first"

NO_OPTIMIZER = (
    "this is the mean of the workers' weights. The outer optimizer takes a step with the outer "
    "gradient: its rate and its momentum make another thing of it"
)

NO_MOMENTUM = (
    "the first round is right, and later ones are as if there were no momentum: `optimizer` keeps "
    "it from round to round, so use this one, and make no new one"
)

ADDED_UP = (
    "gradients of the rounds before are still in it: a new outer gradient takes the place of the "
    "old one, in common.grad = …"
)

IN_LOOP = (
    "optimizer.step() takes a step with all weights that have a gradient. Called for each tensor, "
    "some take several: one call, when all gradients are there"
)

SEE_ORDER = (
    "in this order: gradients of all, summed and divided; one optimizer step; copies to `mine`"
)

NOT_TAKEN = "the common weights are as they were before: who takes the step is optimizer.step()"

MINE_LEFT = (
    "`mine` is still what this worker had made of the weights. All begin the next round at the "
    "result: copy it into these tensors. (`own = common` only gives the name to another tensor)"
)

ALL_WEIGHTS = (
    "everybody gets everybody's weights here. Their sum is enough, and an all-reduce moves less"
)


def mean_gone(gone, k):
    return [sum(parts) / len(gone) for parts in zip(*gone)]


class Play:
    """A simulation of all workers of a trial in one process, with a mistake if one is named.

    gradient  takes all workers' changes and the index of one, returns its outer gradient
    """

    def __init__(self, trial, gradient=mean_gone, is_left=False, mistake=""):
        self.trial, self.gradient, self.is_left, self.mistake = trial, gradient, is_left, mistake
        self.shapes, self.rate, self.momentum, self.nesterov, _ = trial.case.args
        self.whole = [weights_of(self.shapes) for _ in range(trial.n)]
        self.mine = [weights_of(self.shapes) for _ in range(trial.n)]
        self.moving = [[None] * len(self.shapes) for _ in range(trial.n)]
        self.kept = [[None] * len(self.shapes) for _ in range(trial.n)]  # gradients

    def rounds(self, place) -> list[dict]:
        return [self.round(turn, place) for turn in range(ROUNDS)]

    def round(self, turn, place) -> dict:
        for k, mine in enumerate(self.mine):
            self.mine[k] = list(map(torch.add, mine, draw_worker_change(k, turn, self.shapes)))
        gone = [list(map(torch.sub, *pair)) for pair in zip(self.whole, self.mine)]
        means = mean_gone([*self.mine], 0)
        for k in range(self.trial.n):
            self.step(k, self.gradient(gone, k), means)
            if not self.is_left:
                self.mine[k] = list(self.whole[k])
        return {"whole": list(self.whole[place]), "mine": self.mine[place]}

    def step(self, k, gradients, means):
        for number, gradient in enumerate(gradients):
            if self.mistake == ADDED_UP and self.kept[k][number] is not None:
                gradient = gradient + self.kept[k][number]
            self.kept[k][number] = gradient
            if self.mistake == IN_LOOP:
                for other in range(len(gradients)):
                    self.move(k, other)
        for number in range(len(gradients)):
            if self.mistake == NO_OPTIMIZER:
                self.whole[k][number] = means[number]
            elif self.mistake not in (NOT_TAKEN, IN_LOOP):
                self.move(k, number)

    def move(self, k, number):
        """Take one weight's step of SGD, from its formula."""
        gradient, moving = self.kept[k][number], self.moving[k][number]
        if gradient is None:
            return
        if moving is None or self.mistake == NO_MOMENTUM:
            moving = gradient
        else:
            moving = self.momentum * moving + gradient
        self.moving[k][number] = moving
        by = gradient + self.momentum * moving if self.nesterov else moving
        self.whole[k][number] = self.whole[k][number] - self.rate * by


def truth(trial, place):
    return Play(trial).rounds(place)


def mistakes(trial, place):
    def scale_means(by):
        return Play(trial, lambda gone, k: [by * mean for mean in mean_gone(gone, k)])

    plays = {
        ASCENDS: scale_means(-1),
        SUM: scale_means(trial.n),
        BY_WORLD: scale_means(trial.n / trial.case.world.size),
        ALONE: Play(trial, lambda gone, k: gone[k]),
        MINE_LEFT: Play(trial, is_left=True),
    }
    by_name = (NO_OPTIMIZER, NO_MOMENTUM, ADDED_UP, IN_LOOP, NOT_TAKEN)
    plays |= {mistake: Play(trial, mistake=mistake) for mistake in by_name}
    return {mistake: play.rounds(place) for mistake, play in plays.items()}


def most_bytes(trial, place):
    shapes = trial.case.args[0]
    return 2 * (1 - 1 / trial.n) * 8 * LARGE if shapes == LARGE_SHAPES else None
