"""DiLoCo's outer step: the mean of what workers have gone, and one step of the outer optimizer."""

import torch
import torch.distributed as dist

from ..kit import GROUP, At, Equals, RankExercise, Refused, Sends, World, answering
from ..kit.requests import AllRequests
from ..kit.trials import LARGE
from .failing_calls import Fault, goes_on, need_heard

SHAPES = ((3, 4), (5,), ())  # of the weights
LARGE_SHAPES = ((LARGE,),)
ROUNDS = 3

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
REBOUND = "mine[k] = … changes the list alone. The model has the tensors: copy into them, in place"
ONE_TENSOR = (
    "`mine` and `whole` share their memory now: what a worker does in its next inner steps would "
    "change the common weights, too. Copy the numbers"
)
MOVED = (
    "this tensor has other memory now. A model, an optimizer or a view that had its numbers before "
    "still has the old ones: write into the memory that is there"
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
    """case.args: shapes, learning rate, momentum, Nesterov, and what fails in round 1, if any."""
    shapes, rate, momentum, nesterov, fault = case.args
    whole = weights_of(shapes)
    mine = [weights.clone() for weights in whole]
    optimizer = torch.optim.SGD(whole, lr=rate, momentum=momentum, nesterov=nesterov)
    args, rounds = (whole, mine, optimizer, group), []
    call = lambda: answer(list(whole), list(mine), optimizer, group)  # noqa: E731
    state = lambda: [*whole, *mine, *momenta_of(optimizer)]  # noqa: E731
    for turn in range(1 if shapes == LARGE_SHAPES else ROUNDS):
        for own, way in zip(mine, way_of(dist.get_rank(group), turn, shapes)):
            own += way
        fails = turn == 1 and fault and fault.what != "step"
        if not (fails and goes_on(call, fault, state)):
            step(answer, *args)
        rounds.append({name: [x.clone() for x in weights]
                       for name, weights in (("whole", whole), ("mine", mine))})  # fmt: skip
    if fault and fault.what == "step":  # at the end: what it leaves behind, nobody goes on with
        need_heard(call, optimizer)
    return {"rounds": rounds} if shapes == SHAPES else {}


def momenta_of(optimizer) -> list[torch.Tensor]:
    kept = (x for of_weight in optimizer.state.values() for x in of_weight.values())
    return [x for x in kept if x is not None]


def step(answer, whole, mine, optimizer, group):
    """Call the answer, with lists of its own: what counts is what is in the tensors then."""
    given, memory = (list(whole), list(mine)), [x.detach() for x in [*whole, *mine]]
    with answering(), AllRequests() as requests:
        answer(*given, optimizer, group)
    requests.need_waited()
    if any(a is not b for a, b in zip([*whole, *mine], [*given[0], *given[1]])):
        raise Refused("a list has another tensor now", REBOUND)
    if any(own.data_ptr() == common.data_ptr() for own, common in zip(mine, whole)):
        raise Refused("a tensor of `mine` lies where that of `whole` lies", ONE_TENSOR)
    for k, (x, before) in enumerate(zip([*whole, *mine], memory)):
        if x.data_ptr() != before.data_ptr():
            name = f"whole[{k}]" if k < len(whole) else f"mine[{k - len(whole)}]"
            raise Refused(f"{name} lies elsewhere in memory now", MOVED)


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


def failing(n, what, number, told) -> At:
    return At(World(n), (SHAPES, *PAPER, Fault(what, number)), f", {told}")


EXERCISE = RankExercise(
    "4.16",
    "outer_step",
    lab="diloco",
    cases=[
        At(World(3), (SHAPES, *PAPER, None)),
        At(World(2), (SHAPES, 0.5, 0.8, False, None), ", another outer optimizer"),
        At(World(1), (SHAPES, *PAPER, None)),
        failing(3, "call", 1, "the first all-reduce of round 1 fails"),
        failing(3, "call", 2, "the second all-reduce of round 1 fails"),
        failing(2, "call", 3, "the third all-reduce of round 1 fails"),
        failing(2, "call", 4, "a fourth call in round 1 would fail"),
        failing(3, "wait", 1, "the first all-reduce of round 1 fails when it is waited for"),
        failing(2, "wait", 2, "the second all-reduce of round 1 fails when it is waited for"),
        failing(2, "step", 1, "a step of the optimizer fails"),
        At(GROUP, (SHAPES, *PAPER, None)),
        At(World(3), (LARGE_SHAPES, *PAPER, None), ", many weights"),
    ],
    work=train,
    found=lambda case: ("rounds",) if case.args[0] == SHAPES else (),
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
