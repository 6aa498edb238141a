"""The cases, and the code that runs next to the answer."""

import torch
import torch.distributed as dist

from coursekit.kit import RankCase, Rejection, World, measure_answer
from coursekit.kit.collective_exercise import LARGE
from coursekit.kit.observed_calls import AllRequests

from .fault_injector import Fault, goes_on, need_heard

SHAPES = ((3, 4), (5,), ())  # of the weights

LARGE_SHAPES = ((LARGE,),)

ROUNDS = 3

REBOUND = "mine[k] = … changes the list alone. The model has the tensors: copy into them, in place"

ONE_TENSOR = (
    "`mine` and `whole` share their memory now: what a worker does in its next inner steps would "
    "change the common weights, too. Copy the numbers"
)

MOVED = (
    "this tensor has other memory now. A model, an optimizer or a view that had its numbers before "
    "still has the old ones: write into the memory that is there"
)


def weights_of(shapes) -> list[torch.Tensor]:
    chance = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=chance, dtype=torch.float64) for shape in shapes]


def draw_worker_change(place, turn, shapes) -> list[torch.Tensor]:
    """Return the change that a worker makes to its weights in a round."""
    chance = torch.Generator().manual_seed(100 * turn + place + 1)
    return [torch.randn(shape, generator=chance, dtype=torch.float64) for shape in shapes]


def train(answer, group, case):
    """Run a case of shapes, learning rate, momentum, Nesterov, and a fault in round 1, if any."""
    shapes, rate, momentum, nesterov, fault = case.args
    whole = weights_of(shapes)
    mine = [weights.clone() for weights in whole]
    optimizer = torch.optim.SGD(whole, lr=rate, momentum=momentum, nesterov=nesterov)
    args, rounds = (whole, mine, optimizer, group), []
    call = lambda: answer(list(whole), list(mine), optimizer, group)  # noqa: E731
    state = lambda: [*whole, *mine, *momenta_of(optimizer)]  # noqa: E731
    for turn in range(1 if shapes == LARGE_SHAPES else ROUNDS):
        for own, change in zip(mine, draw_worker_change(dist.get_rank(group), turn, shapes)):
            own += change
        fails = turn == 1 and fault and fault.what != "step"
        if not (fails and goes_on(call, fault, state)):
            step(answer, *args)
        rounds.append({name: [x.clone() for x in weights]
                       for name, weights in (("whole", whole), ("mine", mine))})  # fmt: skip
    if fault and fault.what == "step":  # at the end, as no round goes on from its state
        need_heard(call, optimizer)
    return {"rounds": rounds} if shapes == SHAPES else {}


def momenta_of(optimizer) -> list[torch.Tensor]:
    kept = (x for of_weight in optimizer.state.values() for x in of_weight.values())
    return [x for x in kept if x is not None]


def step(answer, whole, mine, optimizer, group):
    """Call the answer with copies of the lists, since only the tensors' contents count."""
    given, memory = (list(whole), list(mine)), [x.detach() for x in [*whole, *mine]]
    with measure_answer(), AllRequests() as requests:
        answer(*given, optimizer, group)
    requests.need_waited()
    if any(a is not b for a, b in zip([*whole, *mine], [*given[0], *given[1]])):
        raise Rejection("a list has another tensor now", REBOUND)
    if any(own.data_ptr() == common.data_ptr() for own, common in zip(mine, whole)):
        raise Rejection("a tensor of `mine` lies where that of `whole` lies", ONE_TENSOR)
    for k, (x, before) in enumerate(zip([*whole, *mine], memory)):
        if x.data_ptr() != before.data_ptr():
            name = f"whole[{k}]" if k < len(whole) else f"mine[{k - len(whole)}]"
            raise Rejection(f"{name} lies elsewhere in memory now", MOVED)


def describe_trial(trial) -> str:
    return f"{ROUNDS} rounds" if trial.collect_values("rounds") else "one round, with many weights"


PAPER = 0.7, 0.9, True


def make_fault_case(n, what, number, told) -> RankCase:
    return RankCase(World(n), (SHAPES, *PAPER, Fault(what, number)), f", {told}")
