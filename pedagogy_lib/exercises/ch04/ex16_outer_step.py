"""DiLoCo's outer step: the mean of what workers have gone, and one step of the outer optimizer."""

import torch
import torch.distributed as dist

from ..kit import GROUP, At, Equals, RankExercise, Refused, Sends, World, answering, never
from ..kit.trials import LARGE
from .failing import failing_at

SHAPES = ((3, 4), (5,), ())  # of the weights
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
TWICE = "two optimizer steps were taken in a round: one is enough, when all gradients are there"
NOT_TAKEN = "the common weights are as they were before: who takes the step is optimizer.step()"
MINE_LEFT = (
    "`mine` is still what this worker had made of the weights. All begin the next round at the "
    "result: own.copy_(common)"
)
REBOUND = (
    "`own = common` only gives another name to a tensor, and mine[k] = … changes the list alone: "
    "the model has the tensors. own.copy_(common) writes into them"
)
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
    """case.args: shapes, learning rate, momentum, Nesterov; at which call a first round fails."""
    shapes, rate, momentum, nesterov, fails_at = case.args
    place = dist.get_rank(group)
    whole = weights_of(shapes)
    mine = [weights.clone() for weights in whole]
    optimizer = torch.optim.SGD(whole, lr=rate, momentum=momentum, nesterov=nesterov)
    rounds = []
    for turn in range(1 if shapes[0] == (LARGE,) else ROUNDS):
        for own, way in zip(mine, way_of(place, turn, shapes)):
            own += way
        if fails_at and turn == 1:
            try_to_fail(answer, (whole, mine, optimizer, group), fails_at)
        given = list(whole), list(mine)
        with answering():
            answer(*given, optimizer, group)
        need_in_place(whole, mine, *given)
        rounds.append(noted(whole, mine))
    return {"large" if shapes[0] == (LARGE,) else "rounds": rounds}


def try_to_fail(answer, args, fails_at):
    whole, mine, optimizer, group = args
    before = [weights.clone() for weights in [*whole, *mine]]
    with failing_at(fails_at) as failure:
        try:
            answer(list(whole), list(mine), optimizer, group)
        except RuntimeError:
            if not failure.has_failed:
                raise
        else:
            if failure.has_failed:
                raise Refused("the function returns as if nothing had been", SWALLOWED)
            raise Refused("no call", "") if failure.calls == 0 else NotFailed
    if not all(map(torch.equal, before, [*whole, *mine])):
        raise Refused(f"all-reduce number {fails_at} fails, and weights have changed", HALF)
