"""What an answer costs with large tensors, whose bytes are compared with a formula.

Bytes alone do not tell whether all of a tensor was averaged, so its values are looked at, too: in
short. And they are of float32: who sends everything as float64 sends twice the bytes.
"""

from functools import cache

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ...basics.closeness import relative_gap
from ...course.checking import Wrong
from ..kit import Equals, answering
from ..kit.costs import TOLERANCE
from ..kit.one_process import LARGE, batch_of, large_model

NOT_ALL = 1e-3  # what is skipped, cut or mixed up is off by more; rounding in float32 by far less
NOT_THE_LARGE = (
    "with small tensors it was right, and with large ones it is not: are some of them passed over, "
    "is only a part of a tensor averaged, or is it rounded on its way?"
)
PAST_THE_RANKS = (
    "the numbers have come another way, such as a file. Machines need not share their disks: "
    "everything has to travel through torch.distributed"
)


def cost_of_large(call, after, group=None) -> dict:
    """What becomes of a large model's tensors, in short, while it is measured what is sent.

    call   calls the answer
    after  gives {name: what the answer has made of it}
    """
    dist.barrier(group)
    with answering():
        call()
    return {"large": in_short(after())}


def cost_of_layers(call, place, number=1, prepare=None, after=None) -> dict:
    """The same of two large layers, and the mean gradient of some micro-batches.

    call     takes a model and its micro-batches, and calls the answer
    prepare  takes the model and a batch, and gives what `call` gets in the model's place
    after    gives {name: gradient}, if that is not what is in `.grad` in the end
    """
    model, pieces = layers_of(place, number)
    parameters = dict(model.named_parameters())
    given = prepare(model, pieces[0]) if prepare else model
    after = after or (lambda: {name: parameter.grad for name, parameter in parameters.items()})
    return cost_of_large(lambda: call(given, pieces), after)


def layers_of(place, number) -> tuple:
    """Two large layers, equal on all ranks, and a rank's micro-batches."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        model = large_model().float()
    return model, [tuple(x.float() for x in batch_of(place, 0, piece, features=LARGE))
                   for piece in range(number)]  # fmt: skip


@cache
def known_of_layers(place, loss_fn, number=1) -> dict:
    """Of `cost_of_layers`: what the right answer is made of; see `known` of RankExercise."""
    model, pieces = layers_of(place, number)
    names, parameters = zip(*model.named_parameters())
    loss = sum(loss_fn(model(inputs), targets) for inputs, targets in pieces) / number
    own = dict(zip(names, torch.autograd.grad(loss, parameters)))
    return {"large_bytes": sum(p.nbytes for p in parameters), "large_own": in_short(own)}


def with_agreed_buckets(model, batch):
    """A DDP. Its second backward agrees on buckets, and sends some bytes for that."""
    ddp = DistributedDataParallel(model)
    for _ in range(2):
        ddp(batch[0]).sum().backward()
    ddp.zero_grad()
    return ddp


def in_short(tensors) -> dict[str, torch.Tensor]:
    """Two sums of each tensor, in float64. Those of a mean are the means of the sums."""
    return {name: None if x is None else two_sums(x.detach().double().flatten())
            for name, x in tensors.items()}  # fmt: skip


def two_sums(x):
    weights = torch.rand(len(x), generator=torch.Generator().manual_seed(1), dtype=x.dtype)
    return torch.stack([x.sum(), x @ (weights + 0.5)])


def nearly(got, wanted) -> bool:
    """Of two sums, or of all of them by name."""
    if isinstance(wanted, dict):
        return got.keys() == wanted.keys() and all(nearly(got[k], wanted[k]) for k in wanted)
    if got is None or wanted is None:
        return got is wanted
    return relative_gap(got, wanted) <= NOT_ALL


def mean_of_large(trial, place):
    """The mean of what all ranks have had."""
    own = trial.of("large_own")
    return {name: x if x is None else sum(of[name] for of in own) / trial.n
            for name, x in own[0].items()}  # fmt: skip


def right_if_large(truth=mean_of_large, what="`.grad`") -> Equals:
    def told(trial, place):
        wanted, found = truth(trial, place), trial[place].large
        wrong = next(name for name in wanted if not nearly(found.get(name), wanted[name]))
        return f"{trial.who(place)}, a large model: {what} of {wrong} is wrong"

    return Equals("large", truth, otherwise=NOT_THE_LARGE, same=nearly, tells=told)


class Travels:
    """A fact: ranks send at least this in all, so what they get has not come another way.

    least  takes a trial and a place, and gives bytes
    """

    def __init__(self, least):
        self.least = least

    def __call__(self, trial):
        if trial.of("large") is None:
            return
        least = [self.least(trial, place) for place in range(trial.n)]
        sent, needed = sum(trial.sent_bytes), sum(least)
        if sent < needed * (1 - TOLERANCE):
            what = f"all ranks together send {sent:,} bytes; for that, {needed:,.0f} have to travel"
            raise Wrong(f"cost, {trial.case}", f"the numbers are right, but {what}", PAST_THE_RANKS)
