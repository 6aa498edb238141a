"""Programs of chapter 03 with a bug in their loop: what `check` tries, and what `hint` says.

The truth is one process that takes the samples of all ranks. A wrong repair is recognised by what
one process gets that has the same misconception.
"""

import time
from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ...basics.closeness import close, relative_gap, told_gap
from ...course.checking import Wrong, try_on_ranks
from ...measuring.recorder import measure
from ..ch01.accumulation import merged
from ..kit.answers import recognise
from ..kit.one_process import (
    HANGS,
    HIDDEN,
    LARGE,
    NO_EXCHANGE,
    RATE,
    batch_of,
    ends_of_wrong_loops,
    flat,
    gradients_in,
    large_model,
    model_of,
    need_one_exchange,
    need_replicas,
    note_gradients,
    slopes,
    train_alone,
    why_raised,
)
from ..kit.warming import warm_up

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
    guesses |= {
        f"this makes a number of the outputs, their {name}, and it is not the loss: that depends "
        "on the targets": train_alone(batches, optimizer_type, loss_fn=loss_fn)[0][-1]
        for name, loss_fn in {
            "sum": lambda outputs, _: outputs.sum() / n,
            "mean": lambda outputs, _: outputs.mean(),
        }.items()
    }
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
SHARED = (
    "most are right. Autograd may hand one tensor on to several parameters as their gradient, and "
    "a hook on each of them changes it again: change no argument of register_hook() in place"
)
NEVER_SUMMED = "this rank's own gradient is divided, and nothing has been added to it"
OWN = (
    "each rank still has its own gradient. What a hook does to a copy, or to a name, does not "
    "reach `.grad`; if register_hook has registered it, what it returns does"
)
BACKWARDS = ("first backward", "second backward, a step later", "third, which adds to the second")


class TwoBiases(nn.Module):
    """Adds two biases; autograd passes one tensor on to both as their gradient."""

    def __init__(self):
        super().__init__()
        self.first, self.second = (
            nn.Parameter(torch.zeros(HIDDEN, dtype=torch.float64)) for _ in range(2)
        )

    def forward(self, x):
        return x + (self.first + self.second)


def own_model(rank, frozen):
    """Other weights on each rank, so that it shows if they travel."""
    model = model_of(rank + 1).insert(1, TwoBiases())
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
            off = told_gap(before, after)
            what = f"rank {rank}: the backward has changed weights by up to {off}"
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


def in_slice(x, part):
    inside = torch.zeros(len(x), dtype=torch.bool)
    inside[part] = True
    return inside


def why_hooks(own, got, late, expected, kept, n) -> str:
    if not close(got, late):
        return ASYNCHRONOUS
    if close(got[-1:], expected[-1:]) and close(got[:-1], (kept + own)[:-1]):
        return LAST_ONLY
    shared = slice(-3 * HIDDEN - 1, -HIDDEN - 1)  # before the last layer's weights and bias
    if close(torch.where(in_slice(got, shared), expected, got), expected):
        return SHARED
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
        what = told_apart(after, wanted[step], step)
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


def told_apart(after, wanted, step) -> str:
    """How far the replicas are from each other; if they agree, how far from one process."""
    apart = [rank for rank, mine in enumerate(after) if not close(mine, after[0])]
    if apart:
        who = f"the weights of ranks 0 and {apart[0]} differ"
        return f"after step {step} {who} by up to {told_gap(after[0], after[apart[0]])}"
    off = told_gap(after[0], wanted)
    return f"after step {step} the weights are off by up to {off} on every rank"


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
            apart = max(found, key=lambda mine: relative_gap(mine, found[0]))
            what = f"rank {rank}, `.grad` has norm {got.norm():.4f}, expected {wanted.norm():.4f}"
            if not close(apart, found[0]):
                what += f"; the ranks' gradients differ by up to {told_gap(apart, found[0])}"
            raise Wrong(case, what, why_share(got, rank, table))


def why_no_sync_bytes(exchanges, number) -> str:
    if round(exchanges) == number:
        return (
            f"the gradients are right, and all {number} backwards have sent theirs: either nothing "
            "tells DistributedDataParallel to be silent, or no_sync() comes too late. When does it "
            "prepare for what a backward has to send?"
        )
    return (
        f"the gradients are right, and {exchanges:.2f} times the bytes of one all-reduce are sent: "
        "all micro-batches but the last have to do without"
    )
