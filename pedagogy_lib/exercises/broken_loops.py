"""The programs with a bug of chapter 03: what `check` tries, and what `hint` says.

The truth is one process that takes the samples of all ranks. A wrong repair is recognised by what
one process gets that has the same misconception.
"""

import itertools
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import Dataset

from ..checking import Exercise, Wrong, try_on_ranks
from ..errors import HangError
from ..instruments import measure
from .accumulation import merged, recognise
from .servers import warm_up
from .trials import near

RATE = 0.01
FEATURES, HIDDEN = 4, 3
LARGE = 400  # features and hidden units, where bytes are compared with a formula
CLOSE = {"rtol": 1e-12, "atol": 1e-12}
HANGS = "every rank has to do as many forwards and backwards as the others, in the same order"


# ---- Models, data, and one process -----------------------------------------------------------


def model_of(seed=0, features=FEATURES, hidden=HIDDEN):
    """A small model, whose weights depend on the seed alone."""
    model = nn.Sequential(nn.Linear(features, hidden), nn.Tanh(), nn.Linear(hidden, 1)).double()
    source = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5, generator=source)
    return model


def batch_of(rank, step, piece=0, size=4, features=FEATURES):
    """Inputs and targets, others for each rank, step and micro-batch."""
    source = torch.Generator().manual_seed(10_000 * rank + 100 * step + piece)
    draw = lambda *shape: torch.randn(*shape, generator=source, dtype=torch.float64)  # noqa: E731
    return draw(size, features), draw(size, 1) + 3


def flat(tensors):
    return torch.cat([tensor.detach().double().flatten() for tensor in tensors])


def gradients_in(model):
    """What is in `.grad`, as one flat tensor; None counts as zeros."""
    return flat(torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters())


def slopes(model, batch):
    """The gradients of a batch as one flat tensor, without any `.grad`."""
    inputs, targets = batch
    loss = F.mse_loss(model(inputs), targets)
    return flat(torch.autograd.grad(loss, [p for p in model.parameters() if p.requires_grad]))


def note_gradients(optimizer, model):
    """A list that gets the gradients that each step of the optimizer finds."""
    found = []
    optimizer.register_step_pre_hook(lambda *_: found.append(gradients_in(model)))
    return found


def train_alone(batches, optimizer_type=torch.optim.SGD, keep=False, factor=1.0):
    """One process: the weights after each step, and the gradients that each has found.

    keep    whether nothing sets gradients back
    factor  of each loss
    """
    model, weights = model_of(), []
    optimizer = optimizer_type(model.parameters(), lr=RATE)
    found = note_gradients(optimizer, model)
    for inputs, targets in batches:
        if not keep:
            optimizer.zero_grad()
        (factor * F.mse_loss(model(inputs), targets)).backward()
        optimizer.step()
        weights.append(flat(model.parameters()))
    return weights, found


def why_raised(known, hang, error) -> str:
    """What an error of a launch means.

    known  {words of a message: what they mean}
    hang   what it means that ranks hang
    """
    if isinstance(error, HangError):
        return hang
    return next((why for words, why in known.items() if words in str(error)), "")


def close(a, b) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, **CLOSE)


def gap(a, b) -> str:
    return f"{(a - b).abs().max():.2g}"


def need_replicas(case, weights, why):
    """Raise `Wrong` unless all ranks have the same weights."""
    for rank, mine in enumerate(weights):
        if not close(mine, weights[0]):
            what = f"the weights of ranks 0 and {rank} differ by up to {gap(mine, weights[0])}"
            raise Wrong(case, what, why)


def need_one_exchange(case, run, why):
    """Raise `Wrong` unless "answer" has sent what an all-reduce of a large model's gradients does.

    why  takes how many all-reduces it has sent instead
    """
    n = run.world_size
    one = 2 * (n - 1) / n * flat(large_model().parameters()).nbytes
    sent = max(run["answer"].sent_bytes)
    if not near(sent, one):
        what = f"a rank sends {sent:,} bytes; one all-reduce of all gradients is {one:,.0f}"
        raise Wrong(case, what, why(sent / one))


def large_model():
    """Two large layers, so that it shows if one of them travels twice."""
    wide = model_of(0, LARGE, LARGE)
    return nn.Sequential(nn.Linear(LARGE, LARGE).double(), nn.Tanh(), *wide)


# ---- 3.8: who reads what ---------------------------------------------------------------------

EPOCHS = 3
READ_ERRORS = {  # words of an error: what they mean here
    "local variable 'labels'": "`labels` is used before anything has given it a value. The loop "
    "gives one thing, `batch`: what does a DataLoader make of samples that are pairs?",
    "must be Tensor, not list": "`batch` is a list of two tensors, inputs and labels; a model "
    "takes the inputs",
    "mutually exclusive": "who shuffles? A DataLoader that is given a sampler reads in the "
    "sampler's order, so it is the sampler's task",
    "no attribute 'set_epoch'": "the one who draws the order has to know the epoch: that is the "
    "sampler, not the one that you tell it to",
}
UNEVEN = (
    "some ranks have a batch more than others, and wait in its backward for ranks that are done. "
    "All have to take equally many samples, also where their number is no multiple of the ranks: "
    "some samples are then read twice, or left out"
)
WHOLE = (
    "every rank goes through the whole dataset, so an epoch costs each rank as much as one process "
    "alone. A DataLoader knows nothing of ranks"
)
SAME_ORDER = " They even take the same samples at the same time: all ranks compute one gradient."
SAME_PART = "all ranks take the same part: which part it is has to depend on the rank"
LEFT_OUT = (
    "samples are left out, and more than equal shares make necessary. If the last batch of a rank "
    "is smaller, it belongs to the epoch all the same"
)
NO_AGREEMENT = (
    "the ranks do not agree on the order that they divide up: each shuffles for itself. One order "
    "for all needs one seed for all"
)
ONE_ORDER = (
    "the order is shuffled, and the same in each epoch: who draws it has to be told the number of "
    "the epoch"
)
NOT_SHUFFLED = "nothing shuffles: each epoch goes through the dataset from its beginning to its end"
TOO_LATE = (
    "epoch 1 repeats epoch 0, and then the order changes: the number of the epoch comes too late. "
    "An order is drawn when the loop over batches begins"
)
SIZES = "`samples` is what each rank takes in a step; over all ranks that is n times as many"
THROWN_AWAY = (
    "each rank reads the others' samples, too, and throws them away: it reads as much as one "
    "process alone"
)
NO_EXCHANGE = (
    "each rank has trained on its own: were gradients exchanged? DistributedDataParallel does it "
    "only for a forward through the wrapped model"
)
UNMOVED = "the model that was given is as it was: train it, and no copy of it"


class Samples(Dataset):
    """A dataset that counts how many samples are read."""

    def __init__(self, length):
        self.inputs, self.labels = batch_of(0, 0, size=length)
        self.read = 0

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        labels = self.labels[index]
        self.read += labels.numel()
        return self.inputs[index], labels


class NotingLoss:
    """The mean squared error; notes which samples it is computed for."""

    def __init__(self, dataset):
        self.dataset, self.batches = dataset, []

    def __call__(self, outputs, labels):
        distances = labels.detach().reshape(-1, 1) - self.dataset.labels.view(1, -1)
        self.batches.append(distances.abs().argmin(1).tolist())
        return F.mse_loss(outputs, labels)


def try_reading(answer, length, samples):
    """On a rank: the samples of each step, how many were read, and the weights in the end."""
    model, dataset = model_of(dist.get_rank()), Samples(length)
    loss_fn = NotingLoss(dataset)
    answer(model, dataset, loss_fn, EPOCHS, samples)
    return loss_fn.batches, dataset.read, flat(model.parameters())


def joined(lists):
    return list(itertools.chain.from_iterable(lists))


@dataclass
class Reading:
    """What came of 3.8: for each rank the samples of each of its steps, and so on."""

    length: int
    samples: int
    batches: list[list[list[int]]]
    read: list[int]
    weights: list[torch.Tensor]

    @property
    def n(self) -> int:
        return len(self.batches)

    def epoch(self, number) -> list[list[list[int]]]:
        """For each rank, its batches in an epoch."""
        each = len(self.batches[0]) // EPOCHS
        return [batches[number * each : (number + 1) * each] for batches in self.batches]

    def order(self, number) -> list[list[int]]:
        """For each rank, its samples in an epoch."""
        return [joined(batches) for batches in self.epoch(number)]


def examine_reading(answer):
    warm_up()
    for n, length, samples in ((2, 24, 5), (3, 25, 4)):
        case = f"{n} ranks, {length} samples, {samples} at a time, {EPOCHS} epochs"
        explain = partial(why_raised, READ_ERRORS, UNEVEN if length % n else HANGS)
        run = try_on_ranks(case, try_reading, answer, length, samples, world_size=n,
                           explain=explain)  # fmt: skip
        trial = Reading(length, samples, *map(list, zip(*run.values)))
        for need in (need_equal_work, need_division, need_new_orders, need_sizes, need_reading,
                     need_union_weights):  # fmt: skip
            need(case, trial)
        taken = len(trial.order(0)[0])
        yield f"{case}: each rank takes {taken} in an epoch, and the weights are one process's"


def need_equal_work(case, trial):
    steps = [len(batches) for batches in trial.batches]
    if not all(steps):
        raise Wrong(case, f"no loss was computed on rank {steps.index(0)}", "is there a loop?")
    taken = [sum(map(len, batches)) for batches in trial.batches]
    if len(set(steps)) > 1 or len(set(taken)) > 1:
        what = f"steps of each rank: {steps}; samples that each has taken: {taken}"
        raise Wrong(case, what, UNEVEN)
    if steps[0] % EPOCHS or taken[0] * trial.n < 2 * trial.length:
        what = f"{steps[0]} steps and {taken[0]} samples on each rank in {EPOCHS} epochs"
        raise Wrong(case, what, "is the loop over batches run in each epoch, from its beginning?")


def need_division(case, trial):
    """Each sample on one rank, but for what makes the ranks' shares equal."""
    for epoch in range(EPOCHS):
        order = trial.order(epoch)
        times = Counter(i for taken in order for i in taken)
        off = sum(abs(times[i] - 1) for i in range(trial.length))
        if off > (trial.n - 1 if trial.length % trial.n else 0):
            by_ranks = [sum(i in set(taken) for taken in order) for i in range(trial.length)]
            what = f"epoch {epoch}: of {trial.length} samples, {told_readers(by_ranks)}"
            raise Wrong(case, what, why_division(order, trial))


def told_readers(by_ranks) -> str:
    """`12 are taken by 2 ranks and 12 are taken by nobody`."""
    words = {0: "nobody", 1: "one rank"}
    return " and ".join(
        f"{number} {'is' if number == 1 else 'are'} taken by {words.get(ranks, f'{ranks} ranks')}"
        for ranks, number in sorted(Counter(by_ranks).items(), reverse=True)
    )


def why_division(order, trial) -> str:
    sets = [set(taken) for taken in order]
    if any(len(s) < len(taken) for s, taken in zip(sets, order)):
        return "a rank takes the same sample several times in an epoch"
    if all(len(s) == trial.length for s in sets):
        return WHOLE + ("." + SAME_ORDER if order[0] == order[1] else "")
    if all(s == sets[0] for s in sets):
        return SAME_PART
    if len(set.union(*sets)) == sum(map(len, sets)):
        return LEFT_OUT
    return NO_AGREEMENT


def need_new_orders(case, trial):
    orders = [trial.order(epoch) for epoch in range(EPOCHS)]
    same = [(a, b) for b in range(EPOCHS) for a in range(b) if orders[a] == orders[b]]
    if not same:
        return
    what = " and ".join(f"epoch {b} has the order of epoch {a}" for a, b in same if a == same[0][0])
    if same == [(0, 1)]:
        raise Wrong(case, what, TOO_LATE)
    without_padding = [taken[: trial.length // trial.n] for taken in orders[0]]
    is_sorted = all(taken == sorted(taken) for taken in without_padding)
    raise Wrong(case, what, NOT_SHUFFLED if is_sorted else ONE_ORDER)


def need_sizes(case, trial):
    for rank, batches in enumerate(trial.epoch(0)):
        sizes = [len(batch) for batch in batches]
        full, rest = divmod(sum(sizes), trial.samples)
        wanted = [trial.samples] * full + [rest] * bool(rest)
        if sizes != wanted:
            what = f"rank {rank} takes {sizes} samples in the steps of an epoch, expected {wanted}"
            raise Wrong(case, what, SIZES)


def need_reading(case, trial):
    for rank, (read, batches) in enumerate(zip(trial.read, trial.batches)):
        trained = sum(map(len, batches))
        if read >= trial.n * trained:
            what = f"rank {rank} reads {read} samples, and trains on {trained}"
            raise Wrong(case, what, THROWN_AWAY)


def need_union_weights(case, trial):
    starts = [flat(model_of(rank).parameters()) for rank in range(trial.n)]
    if all(map(close, trial.weights, starts)):
        raise Wrong(case, "the weights are what they were", UNMOVED)
    need_replicas(case, trial.weights, NO_EXCHANGE)
    dataset = Samples(trial.length)
    batches = [dataset[joined(pieces)] for pieces in zip(*trial.batches)]
    wanted, got = train_alone(batches)[0][-1], trial.weights[0]
    if not close(got, wanted):
        guesses = ends_of_wrong_loops(batches, trial.n)
        what = f"the weights are off by up to {gap(got, wanted)} from one process's, lr {RATE}"
        raise Wrong(case, what, recognise(got, guesses))


def ends_of_wrong_loops(batches, n, optimizer_type=torch.optim.SGD):
    """{sentence: the weights in the end}, for loops with DistributedDataParallel."""
    again = "DistributedDataParallel has divided by it already, and a mean loss by the samples"
    arguments = {
        "nothing sets the gradients back: backward() adds to what is in `.grad`, so each step "
        "follows the gradients of all steps before it as well": {"keep": True},
        f"the gradient is divided by the number of ranks once more: {again}": {"factor": 1 / n},
        f"the gradient is {n} times too large: the ranks' gradients are to be averaged, and "
        "DistributedDataParallel does that": {"factor": n},
    }
    return {why: train_alone(batches, optimizer_type, **how)[0][-1]
            for why, how in arguments.items()}  # fmt: skip


# ---- 3.9: exactly like one process? ----------------------------------------------------------

STEP_ERRORS = {
    "must be Tensor, not": "`batch` is a pair: inputs, and the targets that they should give. A "
    "model takes the inputs",
    "takes 2 positional arguments": "the model takes the inputs alone: targets are for the loss",
    "implicitly created only for scalar": "what a model gives are outputs, one for each sample. "
    "What is to become smaller is one number: who computes it, from outputs and targets?",
    "modified by an inplace operation": "a step between the forward and the backward of a batch "
    "changes the weights that this backward needs as they were",
    "does not require grad": "the loss has no graph: it has to be computed from ddp's outputs",
}
CLEARED = (
    "the steps find no gradient: it is cleared after backward() has put it there, and before the "
    "step that needs it"
)
STEPS = "each batch has its backward and then its step: both belong into the loop"
BEFORE = (
    "the step comes before the backward of its batch: it follows the gradient of the batch before, "
    "and the first step none"
)


def try_steps(answer, optimizer_type, batches):
    """On a rank: the weights in the end, and the gradients that each step has found."""
    ddp = DistributedDataParallel(model_of(dist.get_rank()))
    optimizer = optimizer_type(ddp.parameters(), lr=RATE)
    found = note_gradients(optimizer, ddp)
    answer(ddp, F.mse_loss, optimizer, batches[dist.get_rank()])
    return flat(ddp.parameters()), found


def examine_steps(answer):
    warm_up()
    for n, steps, optimizer_type in ((2, 5, torch.optim.SGD), (3, 4, torch.optim.AdamW)):
        case = f"{n} ranks, {steps} batches, {optimizer_type.__name__}"
        batches = [[batch_of(rank, step) for step in range(steps)] for rank in range(n)]
        run = try_on_ranks(case, try_steps, answer, optimizer_type, batches, world_size=n,
                           explain=partial(why_raised, STEP_ERRORS, HANGS))  # fmt: skip
        weights, found = zip(*run.values)
        union = [merged(of_step) for of_step in zip(*batches)]
        judge_steps(case, weights, found[0], union, n, optimizer_type)
        yield f"{case}: the weights of one process"


def judge_steps(case, weights, found, batches, n, optimizer_type):
    wanted, right = train_alone(batches, optimizer_type)
    if all(close(mine, wanted[-1]) for mine in weights):
        return
    what = f"gradients that steps follow have norms {norms(found)}; in one process {norms(right)}"
    if found and not any(gradient.any() for gradient in found):
        raise Wrong(case, what, CLEARED)
    if len(found) != len(batches):
        what = f"expected {len(batches)} optimizer steps, got {len(found)}"
        raise Wrong(case, what, STEPS)
    need_replicas(case, weights, NO_EXCHANGE)
    guesses = ends_of_wrong_loops(batches, n, optimizer_type)
    raise Wrong(case, what, recognise(weights[0], guesses) if found[0].any() else BEFORE)


def norms(gradients) -> str:
    return ", ".join(f"{gradient.norm():.2f}" for gradient in gradients)


# ---- 3.13: averages by hooks -----------------------------------------------------------------

EARLY = (
    "a hook runs when its own gradient is there, and this one finds None in a `.grad`. Either it "
    "looks into another parameter's: a name that a loop changes has its last value by then. Or it "
    "runs too soon: one of register_hook runs before `.grad` is filled, and gets the gradient as "
    "its argument"
)
HOOK_ERRORS = {
    "doesn't require gradient": "a parameter that is frozen (requires_grad is False) never gets a "
    "gradient, and takes no hook",
    "NoneType": EARLY,
}
HOOK_HANG = "every rank has to make the same calls in the same order: also in hooks"
WEIGHTS_TOO = "the gradients are right; the weights are not to be averaged, and not in a backward"
WEIGHTS = (
    "what travels is the parameter itself. A backward leaves the weights alone; only what it "
    "computes has to be averaged"
)
SUMMED = "this is the sum over the ranks: divide by their number"
DIVIDED_TWICE = "this is the mean, divided by the number of ranks once more"
ASYNCHRONOUS = (
    "it is right a little later: backward() has returned before the exchange was over. What "
    "async_op=True begins has to be waited for"
)
LAST_ONLY = (
    "only the last parameter is averaged: a name that a loop changes is looked up when the hook "
    "runs, and has its last value by then. Each hook needs its own parameter"
)
NEVER_SUMMED = "this rank's own gradient is divided, and nothing has been added to it"
OWN = (
    "each rank still has its own gradient. What a hook does to a copy, or to a name, does not "
    "reach `.grad`; if register_hook has registered it, what it returns does"
)
BACKWARDS = ("first backward", "second backward, a step later", "third, which adds to the second")


def own_model(rank, frozen):
    """Other weights on each rank, so that it shows if they travel."""
    model = model_of(rank + 1)
    model[0].weight.requires_grad_(not frozen)
    return model


def try_hooks(answer, frozen):
    """On a rank, for each backward: weights before and after it, and gradients.

    These are the rank's own, what is in `.grad` at once, and a little later.
    """
    rank = dist.get_rank()
    model, twin, seen = own_model(rank, frozen), own_model(rank, frozen), []
    answer(model)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=RATE)
    for number in range(len(BACKWARDS)):
        twin.load_state_dict(model.state_dict())
        inputs, targets = batch_of(rank, number)
        before = flat(model.parameters())
        dist.barrier()
        time.sleep(0.2 if rank and number == 0 else 0.0)  # who does not wait for the others shows
        F.mse_loss(model(inputs), targets).backward()
        after, got = flat(model.parameters()), trained_gradients(model)
        own = slopes(twin, (inputs, targets))
        dist.barrier()
        time.sleep(0.02)
        seen.append((before, after, own, got, trained_gradients(model)))
        if number == 0:
            optimizer.step()
            optimizer.zero_grad()
    return seen


def trained_gradients(model):
    return gradients_in(nn.ParameterList(p for p in model.parameters() if p.requires_grad))


def try_hooks_bytes(answer):
    model = large_model()
    answer(model)
    inputs, targets = batch_of(dist.get_rank(), 0, features=LARGE)
    loss = F.mse_loss(model(inputs), targets)
    with measure("answer", memory=False):
        loss.backward()
        dist.barrier()


def examine_hooks(answer):
    warm_up()
    for n, frozen in ((2, False), (3, True)):
        case = f"{n} ranks" + (", the first weight frozen" if frozen else "")
        run = try_on_ranks(case, try_hooks, answer, frozen, world_size=n,
                           explain=partial(why_raised, HOOK_ERRORS, HOOK_HANG))  # fmt: skip
        expected = 0.0
        for number, name in enumerate(BACKWARDS):
            seen = [of_rank[number] for of_rank in run.values]
            kept = expected if number == 2 else 0.0
            expected = kept + sum(own for _, _, own, _, _ in seen) / n
            judge_hooks(f"{case}, {name}", seen, expected, kept)
        yield f"{case}: the mean gradient after {len(BACKWARDS)} backwards, one without zero_grad()"
    case = f"bytes, {n} ranks"
    run = try_on_ranks(case, try_hooks_bytes, answer, world_size=n)
    need_one_exchange(case, run, why_hooks_bytes)
    yield f"{case}: each gradient travels once"


def why_hooks_bytes(exchanges) -> str:
    return (
        f"the gradients are right, and sent {exchanges:.1f} times: a hook runs for one parameter, "
        "and has one gradient to average"
    )


def judge_hooks(case, seen, expected, kept):
    for rank, (before, after, _, got, _) in enumerate(seen):
        is_right = close(got, expected)
        if not close(before, after):
            what = f"rank {rank}: the backward has changed weights by up to {gap(before, after)}"
            what += "" if is_right else ", and `.grad` is not the mean over the ranks"
            raise Wrong(case, what, WEIGHTS_TOO if is_right else WEIGHTS)
    for rank, (_, _, own, got, late) in enumerate(seen):
        if not close(got, expected):
            what = f"rank {rank}, .grad: {told_norms(got, expected, own)}"
            raise Wrong(case, what, why_hooks(own, got, late, expected, kept, len(seen)))


def told_norms(got, expected, own) -> str:
    return (
        f"norm {got.norm():.4f}, expected {expected.norm():.4f}, the mean over the ranks; this "
        f"rank's own is {own.norm():.4f}"
    )


def why_hooks(own, got, late, expected, kept, n) -> str:
    if not close(got, late):
        return ASYNCHRONOUS
    if close(got[-1:], expected[-1:]) and close(got[:-1], (kept + own)[:-1]):
        return LAST_ONLY
    mean = expected - kept
    return recognise(got, {
        SUMMED: kept + n * mean,
        DIVIDED_TWICE: kept + mean / n,
        NEVER_SUMMED: kept + own / n,
        OWN: kept + own,
    })  # fmt: skip


# ---- 3.15 and 3.16: accumulated gradients ----------------------------------------------------

AVERAGED_WEIGHTS = (
    "the replicas agree, and each step has followed the rank's own gradients: the weights are "
    "averaged instead. With plain SGD that comes to the same, and with most optimizers it does not"
)
BROADCAST = "all ranks follow rank 0's gradient: the samples of the others count nothing"
STEP_COUNT = "a call is one step: optimizer.step() once, after the last micro-batch"
NOT_BY_STEP = (
    "the gradients that optimizer.step() finds are right, and something else changes the weights"
)
STALE = (
    "gradients of the step before are still in it: set them back, or put new ones in their place"
)


def shares(n, pieces):
    """{sentence: how much the gradient of each rank's micro-batches counts}.

    Shapes  (n, pieces), the rank's own first
    """
    even, own = torch.ones(n, pieces).double() / pieces, torch.zeros(n, pieces).double()
    own[0] = 1 / pieces
    first, last = torch.zeros(pieces).double(), torch.zeros(pieces).double()
    first[0] = last[-1] = 1
    mean, running = even / n, n ** torch.arange(pieces).flip(0).double()
    return {
        "only the last micro-batch is averaged over the ranks; of the others, each rank has its "
        "own sum: so each steps another way": own * (1 - last) + mean * last,
        "only the first micro-batch is averaged over the ranks; of the others, each rank has its "
        "own sum": own * (1 - first) + mean * first,
        "nothing is averaged over the ranks: each has the mean over its own micro-batches": own,
        "nothing is averaged over the ranks, and nothing divided by the number of micro-batches":
            own * pieces,
        "this is the sum over the ranks: divide by their number": even,
        "this is the sum over the micro-batches: divide by their number": mean * pieces,
        "this is the sum over all ranks and micro-batches; asked is the mean": even * pieces,
        "this is divided by the number of micro-batches twice": mean / pieces,
        "this is divided by the number of ranks twice": mean / n,
        "only the last micro-batch counts: what the others gave is overwritten, or set back":
            mean * last,
        "only the last micro-batch counts, as if it were all: what the others gave is overwritten, "
        "or set back": mean * pieces * last,
        "what the ranks have summed is summed again in each round: the first micro-batch counts "
        "most": even * running,
        "what the ranks have summed is summed again in each round, and divided once: the first "
        "micro-batch counts most": mean * running,
    }  # fmt: skip


def why_share(got, rank, table, earlier=None) -> str:
    """What a wrong gradient of a rank says; for the arguments see why_step."""
    if earlier is not None and close(got, table.mean((0, 1)) + earlier):
        return STALE
    own_first = table.roll(-rank, 0)
    guesses = {why: torch.einsum("rm,rmp->p", share, own_first)
               for why, share in shares(*table.shape[:2]).items()}  # fmt: skip
    return recognise(got, guesses)


def table_of(model, pieces):
    """Gradients of each rank's micro-batches: (ranks, micro-batches, parameters)."""
    return torch.stack([torch.stack([slopes(model, piece) for piece in own]) for own in pieces])


def pieces_of(n, step, number):
    """For each rank its micro-batches in a step."""
    return [[batch_of(rank, step, piece) for piece in range(number)] for rank in range(n)]


def try_accumulated_steps(answer, optimizer_type, steps):
    """On a rank, for each step: the weights after it, and the gradients that it has found."""
    model, weights = model_of(), []
    optimizer = optimizer_type(model.parameters(), lr=RATE)
    found = note_gradients(optimizer, model)
    for pieces in steps:
        answer(model, F.mse_loss, pieces[dist.get_rank()], optimizer)
        weights.append(flat(model.parameters()))
    return weights, found


def try_step_bytes(answer, number):
    model, rank = large_model(), dist.get_rank()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    pieces = [batch_of(rank, 0, piece, features=LARGE) for piece in range(number)]
    with measure("answer", memory=False):
        answer(model, F.mse_loss, pieces, optimizer)


def examine_accumulated_steps(answer):
    warm_up()
    for n, number, optimizer_type in ((2, 4, torch.optim.SGD), (3, 2, torch.optim.Adam)):
        case = f"{n} ranks, {number} micro-batches each, {optimizer_type.__name__}"
        steps = [pieces_of(n, step, number) for step in range(3)]
        run = try_on_ranks(case, try_accumulated_steps, answer, optimizer_type, steps,
                           world_size=n, explain=partial(why_raised, {}, HANGS))  # fmt: skip
        judge_accumulated_steps(case, run.values, steps, optimizer_type)
        yield f"{case}: after 3 steps the weights of one process, on every rank"
    case = f"bytes, {n} ranks, 4 micro-batches"
    run = try_on_ranks(case, try_step_bytes, answer, 4, world_size=n)
    need_one_exchange(case, run, lambda exchanges: why_step_bytes(exchanges, 4))
    yield f"{case}: what one all-reduce sends"


def judge_accumulated_steps(case, values, steps, optimizer_type):
    """Raise `Wrong` at the first step after which a rank's weights are off."""
    batches = [merged(piece for own in pieces for piece in own) for pieces in steps]
    wanted, right = train_alone(batches, optimizer_type)
    weights, found = zip(*values)
    for step, pieces in enumerate(steps):
        after = [of_rank[step] for of_rank in weights]
        off = [rank for rank, mine in enumerate(after) if not close(mine, wanted[step])]
        if not off:
            continue
        what = told_gap(after, wanted[step], step)
        if len(found[0]) != len(steps):
            what = f"expected {len(steps)} optimizer steps in as many calls, got {len(found[0])}"
            raise Wrong(case, what, STEP_COUNT)
        model = with_weights(wanted[step - 1] if step else flat(model_of().parameters()))
        followed = [of_rank[step] for of_rank in found]
        earlier = right[step - 1] if step else None
        raise Wrong(case, what, why_step(off[0], after, followed, table_of(model, pieces), earlier))


def with_weights(weights):
    model = model_of()
    nn.utils.vector_to_parameters(weights, model.parameters())
    return model


def told_gap(after, wanted, step) -> str:
    """How far the replicas are from each other; if they agree, how far from one process."""
    apart = [rank for rank, mine in enumerate(after) if not close(mine, after[0])]
    if apart:
        who = f"the weights of ranks 0 and {apart[0]} differ"
        return f"after step {step} {who} by up to {gap(after[0], after[apart[0]])}"
    return f"after step {step} the weights are off by up to {gap(after[0], wanted)} on every rank"


def why_step(rank, after, followed, table, earlier) -> str:
    """Why a step has gone wrong on a rank.

    after     the weights on each rank
    followed  the gradients that the optimizer has found there
    table     the gradients of micro-batches, see table_of
    earlier   the right gradient of the step before, if there was one
    """
    agree = all(close(mine, after[0]) for mine in after)
    same_gradients = all(close(mine, followed[0]) for mine in followed)
    if agree and not same_gradients:
        return AVERAGED_WEIGHTS
    if same_gradients and close(followed[0], table[0].mean(0)):
        return BROADCAST
    if close(followed[rank], table.mean((0, 1))):
        return NOT_BY_STEP
    return why_share(followed[rank], rank, table, earlier)


def why_step_bytes(exchanges, number) -> str:
    if round(exchanges) == number:
        return (
            f"the weights are right, and the gradients are sent {number} times: once for each "
            "micro-batch. A mean of sums is the sum of means: which of them is cheaper to send?"
        )
    return (
        f"the weights are right, and {exchanges:.2f} times the bytes of one all-reduce are sent. "
        "Accumulate first; then each gradient has to travel once"
    )


# ---- 3.16: no_sync ---------------------------------------------------------------------------

CALLS = (4, 1, 2)  # micro-batches of each


def try_no_sync(answer, calls):
    """On a rank: the gradients after each call."""
    ddp, found = DistributedDataParallel(model_of(dist.get_rank())), []
    for pieces in calls:
        ddp.zero_grad()
        answer(ddp, F.mse_loss, pieces[dist.get_rank()])
        found.append(gradients_in(ddp))
    return found


def try_no_sync_bytes(answer, number):
    ddp, rank = DistributedDataParallel(large_model()), dist.get_rank()
    pieces = [batch_of(rank, 0, piece, features=LARGE) for piece in range(number)]
    for _ in range(2):  # the second backward agrees on buckets, and sends some bytes for that
        F.mse_loss(ddp(pieces[0][0]), pieces[0][1]).backward()
    ddp.zero_grad()
    with measure("answer", memory=False):
        answer(ddp, F.mse_loss, pieces)


def examine_no_sync(answer):
    warm_up()
    for n in (2, 3):
        calls = [pieces_of(n, step, number) for step, number in enumerate(CALLS)]
        case = f"{n} ranks"
        run = try_on_ranks(case, try_no_sync, answer, calls, world_size=n,
                           explain=partial(why_raised, {}, HANGS))  # fmt: skip
        for step, (pieces, number) in enumerate(zip(calls, CALLS)):
            here = f"{case}, {told_pieces(number)} each"
            judge_gradients(here, [of_rank[step] for of_rank in run.values], pieces)
            yield f"{here}: the gradients of one process"
    case = f"bytes, {n} ranks, 4 micro-batches"
    run = try_on_ranks(case, try_no_sync_bytes, answer, 4, world_size=n)
    need_one_exchange(case, run, lambda exchanges: why_no_sync_bytes(exchanges, 4))
    yield f"{case}: what one all-reduce sends"


def told_pieces(number) -> str:
    return f"{number} micro-batch" + ("" if number == 1 else "es")


def judge_gradients(case, found, pieces):
    table = table_of(model_of(), pieces)
    wanted = table.mean((0, 1))
    for rank, got in enumerate(found):
        if not close(got, wanted):
            apart = max((mine - found[0]).abs().max().item() for mine in found)
            what = f"rank {rank}, `.grad` has norm {got.norm():.4f}, expected {wanted.norm():.4f}"
            what += f"; the ranks' gradients differ by up to {apart:.2g}" if apart > 1e-12 else ""
            raise Wrong(case, what, why_share(got, rank, table))


def why_no_sync_bytes(exchanges, number) -> str:
    if round(exchanges) == number:
        return (
            f"the gradients are right, and all {number} backwards have sent theirs: no_sync() is "
            "too late. When does DistributedDataParallel prepare for what a backward has to send?"
        )
    return (
        f"the gradients are right, and {exchanges:.2f} times the bytes of one all-reduce are sent: "
        "all micro-batches but the last have to do without"
    )


EXERCISES = [
    Exercise(
        "3.8", "train_epochs", examine_reading,
        (
            "Which name had no value, in which line? And what does a DataLoader make of samples "
            "that are pairs?",
            "Who tells a rank's DataLoader which samples are its own? A DistributedSampler knows "
            "the rank and the number of ranks. (The DataLoader then must not shuffle.)",
            "A DistributedSampler shuffles by its seed + the number of the epoch, and learns that "
            "number from sampler.set_epoch(epoch), before the loop over batches begins.",
        ),
    ),
    Exercise(
        "3.9", "train_steps", examine_steps,
        (
            "Three things that a loop on one process has are missing. What is `batch`, and what "
            "does a model give for it?",
            "backward() needs one number: loss_fn(outputs, targets).",
            "backward() adds to what is in `.grad`, and zero_grad() sets it back: in each round, "
            "anywhere but between backward() and step().",
        ),
    ),
    Exercise(
        "3.13", "average_in_backward", examine_hooks,
        (
            "Look at what travels. What does autograd give to a post-accumulate hook as its "
            "argument: a gradient, or a parameter?",
            "When the hook runs, parameter.grad is filled. Frozen parameters take no hook.",
            "Sum up parameter.grad over the ranks, in place, then divide it.",
        ),
    ),
    Exercise(
        "3.15", "accumulate_step", examine_accumulated_steps,
        (
            "After the step, do all ranks have the same weights? Write down what is in `total` on "
            "each rank after the last micro-batch.",
            "The gradients of the first micro-batches never travel. Averaging each of them would "
            "be right, and dear. What could travel once?",
            "Accumulate all micro-batches on each rank; average `total` after the loop.",
        ),
    ),
    Exercise(
        "3.16", "accumulate_ddp", examine_no_sync,
        (
            "The gradients are right. Measure the bytes: how often do they travel?",
            "DistributedDataParallel prepares for a backward's communication in the forward before "
            "it.",
            "For all micro-batches but the last, the forward has to be under no_sync(), too.",
        ),
    ),
]  # fmt: skip
