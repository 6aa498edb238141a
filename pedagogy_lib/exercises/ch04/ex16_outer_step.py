"""DiLoCo's outer step: the mean of what workers have gone, and one step of the outer optimizer."""

import torch
import torch.distributed as dist

from ..kit import GROUP, At, Equals, RankExercise, Refused, Sends, World, answering
from ..kit.requests import Requests
from ..kit.trials import LARGE

SHAPES = ((3, 4), (5,), ())  # of the weights
LARGE_SHAPES = ((LARGE,),)
ROUNDS = 3

ASCENDS = (
    "the sign is the other way round: an optimizer goes against its gradient. So the outer "
    "gradient is whole - mine, and a step of SGD with rate 1 leads to where the workers are"
)
SUM = "this is with the sum over the workers: the outer gradient is their mean"
BY_WORLD = "the mean is over the workers of the group: divide by dist.get_world_size(group)"
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
REBOUND = "mine[k] = … changes the list alone. The model has the tensors: copy into them, in place"
ONE_TENSOR = (
    "`mine` and `whole` share their memory now: what a worker does in its next inner steps would "
    "change the common weights, too. Copy the numbers"
)
HALF = (
    "an all-reduce has failed, as somebody died, and the weights have changed already, some or "
    "all of them. First all sums, then the step: so who is left can take it again"
)
SWALLOWED = (
    "an all-reduce has failed, and nobody is told of it: do not catch the error, as those who call "
    "have to meet again"
)
ALL_WEIGHTS = (
    "everybody gets everybody's weights here. Their sum is enough, and an all-reduce moves less"
)


# ---- On a rank ---


def weights_of(shapes) -> list[torch.Tensor]:
    chance = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=chance, dtype=torch.float64) for shape in shapes]


def way_of(place, turn, shapes) -> list[torch.Tensor]:
    """How a worker changes its weights in a round."""
    chance = torch.Generator().manual_seed(100 * turn + place + 1)
    return [torch.randn(shape, generator=chance, dtype=torch.float64) for shape in shapes]


def train(answer, group, case):
    """case.args: shapes, learning rate, momentum, Nesterov, and which call fails in round 1."""
    shapes, rate, momentum, nesterov, fails_at = case.args
    whole = weights_of(shapes)
    mine = [weights.clone() for weights in whole]
    optimizer = torch.optim.SGD(whole, lr=rate, momentum=momentum, nesterov=nesterov)
    args, rounds = (whole, mine, optimizer, group), []
    for turn in range(1 if shapes == LARGE_SHAPES else ROUNDS):
        for own, way in zip(mine, way_of(dist.get_rank(group), turn, shapes)):
            own += way
        if not (turn == 1 and fails_at and goes_on(answer, args, fails_at)):
            step(answer, *args)
        rounds.append({name: [x.clone() for x in weights]
                       for name, weights in (("whole", whole), ("mine", mine))})  # fmt: skip
    return {"rounds": rounds} if shapes == SHAPES else {}


def step(answer, whole, mine, optimizer, group):
    """Call the answer, with lists of its own: what counts is what is in the tensors then."""
    given = list(whole), list(mine)
    with answering():
        answer(*given, optimizer, group)
    if any(a is not b for a, b in zip([*whole, *mine], [*given[0], *given[1]])):
        raise Refused("a list has another tensor now", REBOUND)
    if any(own.data_ptr() == common.data_ptr() for own, common in zip(mine, whole)):
        raise Refused("a tensor of `mine` lies where that of `whole` lies", ONE_TENSOR)


def goes_on(answer, args, fails_at) -> bool:
    """Have a call fail; whether the answer has been right without that many."""
    before = [weights.clone() for weights in [*args[0], *args[1]]]
    with Failing(fails_at) as calls:
        try:
            step(answer, *args)
        except RuntimeError:
            if calls.so_far < fails_at:
                raise
        else:
            if calls.so_far < fails_at:
                return True
            raise Refused(f"call number {fails_at} has failed, and the function returns", SWALLOWED)
    if not all(map(torch.equal, before, [*args[0], *args[1]])):
        raise Refused(f"call number {fails_at} has failed, and weights have changed", HALF)
    return False


class Failing(Requests):
    """One of the calls of communication fails, on all ranks: somebody has died."""

    def __init__(self, fails_at):
        super().__init__()
        self.fails_at, self.so_far = fails_at, 0

    def judge(self, call, args):
        self.so_far += 1
        if self.so_far == self.fails_at:
            raise RuntimeError("[gloo] Connection closed by peer")


# ---- In one process -------------------------------------------------------------------------


def mean_gone(gone, k):
    return [sum(parts) / len(gone) for parts in zip(*gone)]


class Play:
    """All workers of a trial, in one process; with a mistake, if one is named.

    gradient  takes how far all workers have gone, and the number of one: its outer gradient
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
            self.mine[k] = list(map(torch.add, mine, way_of(k, turn, self.shapes)))
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
        """One weight's step of SGD, from its formula."""
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
    def scaled(by):
        return Play(trial, lambda gone, k: [by * mean for mean in mean_gone(gone, k)])

    plays = {
        ASCENDS: scaled(-1),
        SUM: scaled(trial.n),
        BY_WORLD: scaled(trial.n / trial.case.world.size),
        ALONE: Play(trial, lambda gone, k: gone[k]),
        MINE_LEFT: Play(trial, is_left=True),
    }
    by_name = (NO_OPTIMIZER, NO_MOMENTUM, ADDED_UP, IN_LOOP, NOT_TAKEN)
    plays |= {mistake: Play(trial, mistake=mistake) for mistake in by_name}
    return {mistake: play.rounds(place) for mistake, play in plays.items()}


def most_bytes(trial, place):
    shapes = trial.case.args[0]
    return 2 * (1 - 1 / trial.n) * 8 * LARGE if shapes == LARGE_SHAPES else None


def told(trial) -> str:
    return f"{ROUNDS} rounds" if trial.of("rounds") else "one round, with many weights"


PAPER = 0.7, 0.9, True

EXERCISE = RankExercise(
    "4.16",
    "outer_step",
    lab="diloco",
    cases=[
        At(World(3), (SHAPES, *PAPER, 0)),
        At(World(2), (SHAPES, 0.5, 0.8, False, 0), ", another outer optimizer"),
        At(World(1), (SHAPES, *PAPER, 0)),
        At(World(3), (SHAPES, *PAPER, 1), ", the first all-reduce of round 1 fails"),
        At(World(3), (SHAPES, *PAPER, 2), ", the second all-reduce of round 1 fails"),
        At(World(2), (SHAPES, *PAPER, 3), ", the third all-reduce of round 1 fails"),
        At(GROUP, (SHAPES, *PAPER, 0)),
        At(World(3), (LARGE_SHAPES, *PAPER, 0), ", many weights"),
    ],
    work=train,
    facts=[
        Equals("rounds", truth, mistakes, "round", otherwise=SEE_ORDER),
        Sends(most_bytes, "an all-reduce sends", {"gather": ALL_WEIGHTS}),
    ],
    told=told,
    warm=True,
    hints=(
        "How far has this worker gone from the common weights? And all of them, on average? That "
        "is the gradient of the outer optimizer, which takes it with a minus.",
        "common.grad = common - own, for each pair; sum it over the ranks, and divide. When all "
        "gradients are there, one optimizer.step().",
        "Then own.copy_(common), under torch.no_grad().",
    ),
)  # fmt: skip
