"""What a rank's share is worth (3.3), what a step's parts take (3.6), who reads what (3.7)."""

import contextlib
import time
from collections import Counter
from dataclasses import dataclass
from types import SimpleNamespace
from unittest import mock

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

from ...basics.closeness import close_in_float32, gaps
from ...basics.units import counted
from ...course.checking import Wrong, try_on_ranks
from ..kit.answers import numbers_of, recognise
from ..kit.outcomes import number_from, whole_numbers
from ..kit.warming import warm_up

# ---- 3.3: unequal shares ---------------------------------------------------------------------

SHARES = [[3, 1, 4, 2], [4, 4, 4], [1, 7], [8, 8, 8, 5], [6]]  # how many samples each rank has


def examine_loss_factor(answer):
    for sizes in SHARES:
        case = f"ranks with {' '.join(map(str, sizes))} samples"
        n, total = len(sizes), sum(sizes)
        factors = [
            number_from(f"{case}, rank {rank}", answer, size, total, n)
            for rank, size in enumerate(sizes)
        ]
        got, wanted = averaged_gradient(sizes, factors), gradient_of_all(sizes)
        if not close_in_float32(got, wanted):
            at = gaps(got, wanted).argmax()
            what = (
                f"the factors {[round(f, 6) for f in factors]} lead to a gradient of {got[at]:.6f} "
                f"for weight {at}; that of all {total} samples is {wanted[at]:.6f}"
            )
            raise Wrong(case, what, recognise(factors, wrong_factors(sizes)))
        yield f"{case}: the gradient of the mean over all {total}"


def shards_of(sizes):
    source = torch.Generator().manual_seed(sum(sizes))
    draw = lambda *shape: torch.randn(*shape, generator=source, dtype=torch.float64)  # noqa: E731
    return [(draw(size, 5), draw(size)) for size in sizes]


def averaged_gradient(sizes, factors):
    """What DDP leaves on every rank if each multiplies its own mean loss by its factor."""
    weights = torch.ones(5, dtype=torch.float64, requires_grad=True)
    losses = [f * F.mse_loss(x @ weights, y) for f, (x, y) in zip(factors, shards_of(sizes))]
    return sum(torch.autograd.grad(loss, weights)[0] for loss in losses) / len(sizes)


def gradient_of_all(sizes):
    weights = torch.ones(5, dtype=torch.float64, requires_grad=True)
    x, y = (torch.cat(parts) for parts in zip(*shards_of(sizes)))
    return torch.autograd.grad(F.mse_loss(x @ weights, y), weights)[0]


def wrong_factors(sizes):
    """{sentence: the factor of each rank}."""
    n, total = len(sizes), sum(sizes)
    of_each = lambda make: [make(size) for size in sizes]  # noqa: E731
    return {
        "each rank counts the same here: a sample on a rank with few of them then counts more "
        "than the others.": of_each(lambda s: 1),
        f"these are the shares, so the gradient is {n} times too small: DDP divides the sum of "
        "the gradients by n once more.": of_each(lambda s: s / total),
        "upside down: more samples have to count more.": of_each(lambda s: total / s),
        "upside down: a rank with more samples than the mean has to count more than 1.":
            of_each(lambda s: total / n / s),
        "upside down, and n is on the wrong side.": of_each(lambda s: n * total / s),
        "this undoes the division by the number of samples the wrong way: a mean loss has been "
        "divided by `samples`, so multiply by it.": of_each(lambda s: 1 / s),
        "these lead to the sum over all samples, divided by n: divide by how many samples there "
        "are.": of_each(lambda s: s),
        "these lead to the sum over all samples, not the mean: divide by how many they are.":
            of_each(lambda s: n * s),
        "n undoes the division by n; each rank still counts the same: how many samples has "
        "it?": of_each(lambda s: n),
        "this is the same on every rank: a rank with more samples has to count more.":
            of_each(lambda s: n / total),
        "this is the same on every rank, and n times too small: a rank with more samples has to "
        "count more.": of_each(lambda s: 1 / total),
        "DDP divides by n already; and a rank with more samples has to count more.":
            of_each(lambda s: 1 / n),
        "DDP divides by n already: undo that, do not do it twice.":
            of_each(lambda s: s / total / n),
        "you compare with the number of ranks: what part of all samples has this rank?":
            of_each(lambda s: s / n),
        "// cuts the fraction off; / keeps it.": of_each(lambda s: n * s // total),
        "// cuts the fraction off, from what part of all samples a rank has; / keeps it.":
            of_each(lambda s: s // total),
        "the mean number of samples need not be whole: // cuts its fraction off; / keeps it.":
            of_each(lambda s: s / (total // n)),
        "the difference to the mean is no factor: how many times as many samples as the mean "
        "has this rank?": of_each(lambda s: s - total / n),
    }  # fmt: skip


# ---- 3.6: the parts of a step ----------------------------------------------------------------

START = 1e6  # what the clock shows at first, in seconds
PARTS = ("forward", "backward", "communication")
THREE = "return three numbers, in the order forward, backward, communication."


@dataclass(frozen=True)
class Step:
    """How long the parts of a step take, on a clock that nothing else moves.

    behind_the_back  whether calls return before their work is done, as on a GPU
    """

    model: float
    loss: float
    backward_of_loss: float
    backward_of_model: float
    communication: float
    behind_the_back: bool = False

    @property
    def forward(self) -> float:
        return self.model + self.loss

    @property
    def backward(self) -> float:
        return self.backward_of_loss + self.backward_of_model

    def __str__(self):
        where = ", as on a GPU" if self.behind_the_back else ""
        return (
            f"model {self.model:g} s, loss {self.loss:g} s, backward {self.backward:g} s, "
            f"communication {self.communication:g} s{where}"
        )


STEPS = [
    Step(2, 0.25, 0.5, 5, 11),
    Step(3, 1.5, 0.25, 4, 0.125),
    Step(1, 0.5, 0.25, 2, 7, behind_the_back=True),
]


def examine_time_step(answer):
    warm_up()
    run = try_on_ranks("on one rank", time_all, answer, world_size=1, explain=why_it_raised)
    for step, (result, calls) in zip(STEPS, run.values[0]):
        got = numbers_of(str(step), result, PARTS, THREE)
        for name, mine in zip(PARTS, got):
            right = getattr(step, name)
            if not close_in_float32(mine, right):
                what = f"{name}: expected {right:g} s, got {mine:g} s"
                raise Wrong(str(step), what, why_wrong_times(step, got, calls))
        need_two_of_each(step, calls)
        yield f"{step}: told apart"


def why_it_raised(error) -> str:
    text = str(error)
    if "context manager" in text or "__enter__" in text:
        return "no_sync is a method: `with ddp.no_sync():`"
    if "cross_entropy" in text or "loss_fn(" in text:
        return "loss_fn takes what the model gives, and then the targets: (outputs, targets)."
    if "second time" in text:
        return "a backward frees its graph: each backward needs a forward of its own."
    return ""


# ---- On the rank ---


def time_all(answer):
    return [time_one(answer, step) for step in STEPS]


def time_one(answer, step):
    """The answer's three numbers, and how often each thing has been done."""
    clock = Clock(step.behind_the_back)
    ddp = Watched(SlowModel(clock, step))
    ddp.clock = clock
    ddp.register_comm_hook((clock, step.communication), communicate)

    def loss_fn(outputs, targets):
        loss = F.cross_entropy(outputs, targets)
        return Spend.apply(loss, clock, "loss", step.loss, step.backward_of_loss)

    with clock.instead_of_the_real_one():
        result = answer(ddp, loss_fn, torch.ones(3, 4), torch.tensor([0, 1, 1]))
    return result, clock.calls


class Clock:
    """A clock that only work moves on; behind_the_back, when somebody waits for the work."""

    def __init__(self, behind_the_back):
        self.seconds, self.pending, self.behind_the_back = START, 0.0, behind_the_back
        self.calls = Counter()

    def spend(self, what, seconds):
        self.calls[what] += 1
        self.pending += seconds
        if not self.behind_the_back:
            self.synchronize()

    def synchronize(self, device=None):
        self.seconds, self.pending = self.seconds + self.pending, 0.0

    @contextlib.contextmanager
    def instead_of_the_real_one(self):
        """For the program it is the time, and a GPU that is at work or none."""
        with contextlib.ExitStack() as stack:
            put = lambda *what: stack.enter_context(mock.patch.object(*what))  # noqa: E731
            for name in ("perf_counter", "time", "monotonic"):
                put(time, name, lambda: self.seconds)
                put(time, f"{name}_ns", lambda: round(self.seconds * 1e9))
            put(torch.cuda, "is_available", lambda: self.behind_the_back)
            put(torch.cuda, "synchronize", self.synchronize)
            yield


class Spend(torch.autograd.Function):
    """What it is given, after some seconds; and again on the way back."""

    @staticmethod
    def forward(ctx, x, clock, what, there_seconds, back_seconds):
        ctx.how = clock, f"backward of the {what}", back_seconds
        clock.spend(what, there_seconds)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        clock, what, seconds = ctx.how
        clock.spend(what, seconds)
        return gradient, None, None, None, None


class SlowModel(nn.Module):
    def __init__(self, clock, step):
        super().__init__()
        self.linear = nn.Linear(4, 2)
        self.how = clock, "model", step.model, step.backward_of_model

    def forward(self, x):
        return Spend.apply(self.linear(x), *self.how)


class Watched(DistributedDataParallel):
    """The real one, which tells whether its no_sync was used."""

    def no_sync(self):
        self.clock.calls["no_sync"] += 1
        return super().no_sync()


def communicate(how, bucket):
    """In place of an all-reduce. With one bucket it is called once for each backward."""
    clock, seconds = how
    clock.spend("communication", seconds)
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


# ---- Judging ---


def why_wrong_times(step, got, calls) -> str:
    if all(abs(x) < 1e-9 for x in got) and step.behind_the_back:
        return (
            "on a GPU a call returns before its work is done. Read the clock with now(), which "
            "waits for all that has begun."
        )
    if any(x > START / 2 for x in got):
        return "these are readings of the clock; a duration is the difference of two."
    if not calls["backward of the model"]:
        return "no backward has run."
    if calls["model"] == 1:
        return (
            "there is one forward for both backwards. DDP decides in the forward whether its "
            "backward communicates: each backward needs a forward of its own."
        )
    if all(abs(x) < 0.1 for x in got):
        return "read the clock with now(), before and after what you time."
    return recognise(got, wrong_times(step, calls["no_sync"]))


def wrong_times(step, used) -> dict:
    """{sentence: what it gives}.

    used  whether no_sync was
    """
    f, b, c = step.forward, step.backward, step.communication
    never = "both backwards communicate, so they differ by nothing. "
    never += (
        "DDP decides in the forward: put the forward under no_sync as well, not the backward alone."
        if used else "Run one of them, with its forward, under ddp.no_sync()."
    )  # fmt: skip
    return wrong_differences(f, b, c) | wrong_borders(step) | {
        never: (f, b + c, 0),
        "neither backward communicates: the second forward and backward are run outside of "
        "no_sync.": (f, b, 0),
        "right, but in another order: forward, backward, communication.": (f, c, b),
        "right, but in another order: forward comes first.": (b, f, c),
        "right, but in another order: forward first, communication last.": (c, b, f),
        "right, but in another order: communication comes last.": (c, f, b),
        "right, but in another order: forward, then backward, then communication.": (b, c, f),
        "these are milliseconds; seconds are asked for.": (1e3 * f, 1e3 * b, 1e3 * c),
        "these are microseconds; seconds are asked for.": (1e6 * f, 1e6 * b, 1e6 * c),
        "these are nanoseconds; seconds are asked for.": (1e9 * f, 1e9 * b, 1e9 * c),
    }  # fmt: skip


def wrong_differences(f, b, c):
    """Mistakes about what communication adds."""
    ratio = "this is a ratio; the seconds that communication adds are asked for."
    sign = "the sign is turned round: the backward with communication, minus the one without."
    return {
        "backward is that of the one which communicates; the computing alone is asked for, which "
        "is the one under no_sync.": (f, b + c, c),
        "the third is the whole backward with communication; subtract the backward without it.":
            (f, b, b + c),
        "the second forward is in it: read the clock again between forward and backward.":
            (f, b, f + c),
        "the third is the whole second step; subtract what the first one took, forward and "
        "backward.": (f, b, f + b + c),
        sign: (f, b, -c),
        f"{sign} And the computing alone is the backward under no_sync.": (f, b + c, -c),
        f"{ratio} Leave out the division.": (f, b, c / b),
        f"{ratio} Subtract the backward alone.": (f, b, c / (f + b)),
        f"{ratio} Subtract, and do not divide.": (f, b, (b + c) / b),
        f"{ratio} Subtract only.": (f, b, c / (b + c)),
    }  # fmt: skip


def wrong_borders(step):
    """Mistakes about where a part begins and ends."""
    m, l, f, b, c = step.model, step.loss, step.forward, step.backward, step.communication  # noqa: E741
    out = "the loss is part of the forward: read the clock after loss_fn."
    return {
        f"{out} It is in no part here.": (m, b, c),
        f"{out} Here it is in the backward.": (m, l + b, c),
        f"{out} Here it is in the backward, and in what communication adds.": (m, l + b, l + c),
        f"{out} Here it is in what communication adds.": (m, b, l + c),
        "backward begins when the forward is done: read the clock between them, too.": (
            f,
            f + b,
            c,
        ),
        "backward is timed from the beginning of the forward, and communication with it.": (
            f,
            f + b,
            b + c,
        ),
        "the forward ends before loss.backward(): read the clock between them.": (f + b, b, c),
        "both forwards are in it; the time of one is asked for.": (2 * f, b, c),
    }


def need_two_of_each(step, calls):
    for what in ("model", "loss", "backward of the loss", "backward of the model"):
        if calls[what] != 2:
            name = {"model": "forward", "loss": "loss"}.get(what, what)
            why = (
                "the times are right, and two forwards and two backwards are enough: one of each "
                "under no_sync, one of each outside of it."
            )
            raise Wrong(str(step), f"{name}: run {calls[what]} times, not 2", why)


# ---- 3.7: who reads what ---------------------------------------------------------------------

READERS = [  # length, n, epoch, seed
    (12, 3, 2, 7), (12, 3, 1, 0), (10, 4, 3, 0), (11, 2, 0, 5), (3, 4, 1, 0), (2, 5, 1, 3),
    (7, 1, 2, 0),
]  # fmt: skip


def examine_samples_of_rank(answer):
    for length, n, epoch, seed in READERS:
        case = f"{length} samples, {counted(n, 'rank')}, epoch {epoch}, seed {seed}"
        before = torch.get_rng_state()
        try:
            got = read_by_all(case, answer, length, epoch, n, seed)
            untouched = torch.equal(before, torch.get_rng_state())
        finally:
            torch.set_rng_state(before)
        wanted = [list(sampler_of(length, epoch, rank, n, seed)) for rank in range(n)]
        if got != wanted:
            rank = next(r for r in range(n) if got[r] != wanted[r])
            what = f"rank {rank} reads {got[rank]}, expected {wanted[rank]}"
            raise Wrong(case, what, why_wrong_samples(got, wanted, length, epoch, seed))
        if not untouched:
            raise Wrong(case, "the samples are right, but the global generator is not as it was",
                        GLOBAL_GENERATOR)  # fmt: skip
        yield f"{case}: {len(wanted[0])} each, as DistributedSampler"


GLOBAL_GENERATOR = (
    "torch.manual_seed sets the generator that everything else draws from, too: after it, dropout "
    "would be the same on all ranks. torch.Generator().manual_seed(…) is one of its own."
)


def read_by_all(case, answer, length, epoch, n, seed) -> list[list[int]]:
    seeds = {"seed": seed} if seed else {}
    return [
        whole_numbers(f"{case}, rank {rank}", "what it returned",
                      answer(length, epoch, rank, n, **seeds), "the samples that the rank reads")
        for rank in range(n)
    ]  # fmt: skip


def sampler_of(length, epoch, rank, n, seed):
    sampler = DistributedSampler(range(length), n, rank, seed=seed)
    sampler.set_epoch(epoch)
    return sampler


def shuffled(length, seed) -> list[int]:
    return torch.randperm(length, generator=torch.Generator().manual_seed(seed)).tolist()


def why_wrong_samples(got, wanted, length, epoch, seed) -> str:
    case = SimpleNamespace(n=len(wanted), each=len(wanted[0]), length=length)
    guesses = wrong_orders(case, epoch, seed) | wrong_ends(case, shuffled(length, seed + epoch))
    known = next((why for why, wrong in guesses.items() if got == wrong), "")
    return known or why_by_counting(got, wanted, case)


def in_turns(order, n) -> list[list[int]]:
    return [order[rank::n] for rank in range(n)]


def in_blocks(order, n) -> list[list[int]]:
    each = len(order) // n
    return [order[rank * each : (rank + 1) * each] for rank in range(n)]


def filled(order, case) -> list[int]:
    return (order * case.n * case.each)[: case.n * case.each]


def wrong_orders(case, epoch, seed):
    """{sentence: what all ranks then read} for another order than the right one."""
    n, length = case.n, case.length
    straight, right = list(range(length)), shuffled(length, seed + epoch)
    turns = lambda order: in_turns(filled(order, case), n)  # noqa: E731
    alone = [turns(shuffled(length, seed + epoch + rank))[rank] for rank in range(n)]
    by_rank = [turns(shuffled(length, seed + rank))[rank] for rank in range(n)]
    only_rank = [turns(shuffled(length, rank))[rank] for rank in range(n)]
    parts = turns(straight)
    mixed = [[part[i] for i in shuffled(len(part), seed + epoch)] for part in parts]
    own_order = (
        "each rank shuffles in an order of its own: then some samples are read by several ranks, "
        "and others by nobody. The seed has to be the same on all ranks"
    )
    return {
        "nothing is shuffled.": turns(straight),
        "nothing is shuffled, and a rank gets a block instead of every n-th sample.":
            in_blocks(filled(straight, case), n),
        "a rank reads every n-th sample of the order; you take a block of it.":
            in_blocks(filled(right, case), n),
        f"{own_order}.": alone,
        f"{own_order}, and differ in each epoch.": by_rank,
        f"{own_order}: seed + epoch.": only_rank,
        "each epoch has the same order: seed the generator with seed + epoch.":
            turns(shuffled(length, seed)),
        "seed is ignored: seed the generator with seed + epoch.": turns(shuffled(length, epoch)),
        "the seed is seed * epoch; it should be the sum.": turns(shuffled(length, seed * epoch)),
        "first all samples are shuffled, and then dealt out; you deal out first, and shuffle what "
        "each rank got: a rank would read the same samples in every epoch.": mixed,
        "these are the right samples of each rank, but sorted: keep the order.":
            [sorted(samples) for samples in turns(right)],
        "every rank reads everything: take every n-th, beginning with the rank's own number.":
            [right] * n,
    }  # fmt: skip


def wrong_ends(case, order):
    """{sentence: what all ranks then read} if length is no multiple of n."""
    n, each, length = case.n, case.each, case.length
    missing = n * each - length
    fewer = order[: length // n * n]
    repeat = "the order is to be continued with its own beginning"
    return {
        "some ranks read one sample less than others: continue the order with its own beginning, "
        "before you deal it out.": in_turns(order, n),
        "what is left over is dropped, so some samples are never read: continue the order with "
        "its own beginning instead.": in_turns(fewer, n),
        "its beginning is too short to fill what is missing: repeat it as often as is needed.":
            in_turns(order + order[:missing], n),
        f"{repeat}; you continue it with its end.": in_turns(order + order[-missing:], n),
        f"{repeat}; you repeat its last sample.": in_turns(order + order[-1:] * missing, n),
        f"{repeat}; you repeat its first sample.": in_turns(order + order[:1] * missing, n),
        f"{repeat}; you add samples 0, 1, … of the data.":
            in_turns(order + [i % length for i in range(missing)], n),
        f"{repeat}; you continue it backwards.": in_turns(order + order[::-1][:missing], n),
        "a whole round too many: if length is a multiple of n, nothing is missing.":
            in_turns((order * (n + 1))[: (length // n + 1) * n], n),
        "each rank fills up its own part, with the beginning of that: continue the order itself, "
        "before you deal it out.":
            [(part * each)[:each] if part else part for part in in_turns(order, n)],
    }  # fmt: skip


def why_by_counting(got, wanted, case) -> str:
    if any(len(samples) != case.each for samples in got):
        return f"everybody reads equally many: {case.each}, which is length / n, rounded up."
    read = Counter(sample for samples in got for sample in samples)
    if set(read) - set(range(case.length)):
        return "samples have the numbers from 0 to length - 1."
    if len(read) < case.length:
        never = min(set(range(case.length)) - set(read))
        return f"nobody reads sample {never}: all ranks have to deal out the same order."
    if all(sorted(a) == sorted(b) for a, b in zip(got, wanted)):
        return "the samples of each rank are right, but in another order."
    return (
        "the order is torch.randperm(length, generator=…) with a generator that is seeded with "
        "seed + epoch; rank r reads it from place r on, in steps of n."
    )
