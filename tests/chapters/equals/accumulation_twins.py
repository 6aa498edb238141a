"""Losses that go backward in pieces, or on several ranks, next to the same loss at once."""

import copy
from contextlib import nullcontext, suppress
from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from gradient_twins import NETS, make_model, spoil
from helpers import load_solved_lab
from torch import nn
from twins import EQUAL, Excluded, Twin

PIECES, CHUNKS, SIMPLE = map(
    load_solved_lab, ("gradient_accumulation", "large_vocabulary", "simple_ddp")
)
CLASSES, LENGTH, WORDS, IGNORED = 3, 2, 7, -100
SIZES = {  # samples of each piece
    "a single piece": (5,),
    "one sample each": (1, 1, 1),
    "an empty piece": (3, 0, 2),
    "no samples": (0,),
    "thousands of samples": (22_000, 400),
    "many chunks": (400,),
}
DTYPES = {"thousands of samples": "float16", "many chunks": "bfloat16"}
IN_16_BITS = {"bfloat16", "float16", "autocast", *DTYPES}
SAMPLES = dict.fromkeys((*SIZES, "gradients of before", "a backward that raised"), EQUAL)
del SAMPLES["thousands of samples"], SAMPLES["many chunks"]
TOKENS = dict.fromkeys(("some ignored", "a piece ignored", "all ignored"), EQUAL)


def sizes_of(condition) -> tuple[int, ...]:
    rank = dist.get_rank()
    if condition == "a rank without samples" and rank:
        return ()
    return (4, 3, 1)[: 1 + rank] if condition == "uneven" else SIZES.get(condition, (4, 3, 1))


def make_pieces(condition):
    """Return this rank's pieces: (samples, targets); a sample has LENGTH tokens of 5 numbers."""
    chance, pieces = torch.Generator().manual_seed(dist.get_rank()), []
    for number, size in enumerate(sizes_of(condition)):
        x = torch.randn(size, LENGTH, 5, generator=chance, dtype=torch.float64)
        targets = torch.randint(CLASSES, (size, LENGTH), generator=chance)
        ignored = {"some ignored": targets == 1, "a piece ignored": number == 0}
        if condition in TOKENS:
            targets[ignored.get(condition, ...)] = IGNORED
        pieces.append((x, targets))
    return pieces


class Sentences(nn.Module):
    """A model of gradient_twins for each token of samples."""

    def __init__(self, condition):
        super().__init__()
        self.net = make_model(DTYPES.get(condition, condition))

    def forward(self, x):
        return self.net(x.flatten(0, 1)).unflatten(0, x.shape[:2])


def fail(gradient):
    raise MemoryError("out of memory")


def prepare(ours, theirs, condition, make=Sentences):
    """Return ours, theirs, and theirs in float64 where numbers have 16 bits.

    ours, theirs  (model, pieces) -> the loss, whose gradients they add to `.grad`
    """
    model, pieces = make(condition), make_pieces(condition)
    SIMPLE.start_equal(model)
    dtype = next(model.parameters()).dtype
    if condition == "not finite":
        model.net.output.bias.register_hook(spoil)

    def run(function, dtype, with_errors=False):
        own = copy.deepcopy(model).to(dtype) if dtype else copy.deepcopy(model)
        given = [(x.to(dtype), targets) for x, targets in pieces] if dtype else pieces
        if condition == "gradients of before":
            own(given[0][0]).sum().backward()
        if condition == "a backward that raised" and with_errors:
            hook = own.net.output.weight.register_hook(fail)
            with suppress(MemoryError):
                function(own, given)
            hook.remove()
            own.zero_grad()
        torch.manual_seed(5)
        is_auto = condition == "autocast" and dtype != torch.float64
        with torch.autocast("cpu", torch.bfloat16) if is_auto else nullcontext():
            loss = function(own, given)
        return read(own, loss, condition)

    given = None if condition == "two dtypes" else dtype
    ways = [partial(run, ours, given, with_errors=True), partial(run, theirs, given)]
    exact = [partial(run, theirs, torch.float64)] if condition in IN_16_BITS else []
    return *ways, *exact


def read(model, loss, condition):
    """Return the loss, all gradients in one tensor, and which of them there are."""
    there = [p.grad is not None for p in model.parameters()]
    found = torch.cat(
        [p.grad.to_dense().flatten() for p in model.parameters() if p.grad is not None]
    )
    found = found.float() if condition == "two dtypes" else found
    return [torch.as_tensor(x, dtype=found.dtype).detach() for x in (loss, found, there)]


def whole(pieces):
    return [torch.cat(parts) for parts in zip(*pieces, strict=True)]


# ---- In pieces --------------------------------------------------------------------------------


def mean_loss(outputs, targets):
    outputs, targets = outputs.flatten(0, -2), targets.flatten()
    if len(targets) > 10_000:  # of which PyTorch's cross-entropy would overflow in float16
        return F.mse_loss(outputs, 4 * F.one_hot(targets).to(outputs.dtype))
    return F.cross_entropy(outputs, targets, ignore_index=IGNORED)


def accumulate_at_once(model, pieces):
    x, targets = whole(pieces)
    model.zero_grad()
    loss = mean_loss(model(x), targets)
    loss.backward()
    return loss


def accumulate_tokens_at_once(model, pieces):
    model.zero_grad()
    logits = torch.cat([model(x).flatten(0, 1) for x, _ in pieces])
    loss = mean_loss(logits, whole(pieces)[1])
    loss.backward()
    return loss


# ---- In chunks of a large vocabulary ----------------------------------------------------------


class Words(Sentences):
    """Such a model with a vocabulary."""

    def __init__(self, condition):
        super().__init__(condition)
        self.condition = condition
        self.words = nn.Parameter(torch.randn(WORDS, CLASSES).to(next(self.parameters()).dtype))
        if condition == "frozen layers":
            self.net.requires_grad_(False)
        if condition == "a frozen vocabulary":
            self.words.requires_grad_(False)

    def hidden(self, x):
        found = super().forward(x).flatten(0, 1)
        if self.condition == "two dtypes":
            found = found.to(self.words.dtype)
        if self.condition == "a vocabulary with other uses":
            found = found + self.words[(x[..., 0] > 0).long().flatten()]
        return found.t().contiguous().t() if self.condition == "not contiguous" else found

    def forward(self, x):
        return self.hidden(x) @ self.words.T


SIZES_OF_CHUNKS = {"one position each": 1, "more than all": 100, "many chunks": 1}


def in_chunks(model, pieces):
    x, targets = whole(pieces)
    size = SIZES_OF_CHUNKS.get(model.condition, 3)
    return CHUNKS.backward_in_chunks(model.hidden(x), model.words, targets.flatten(), size)


def chunks_at_once(model, pieces):
    x, targets = whole(pieces)
    loss = mean_loss(model(x), targets)
    loss.backward()
    return loss


# ---- Over ranks -------------------------------------------------------------------------------


def over_ranks(model, pieces):
    """Average the gradients of what each rank has, if it has any."""
    loss, count = 0, sum(len(targets) for _, targets in pieces)
    if count:
        loss = accumulate_at_once(model, pieces)
    PIECES.average_over_ranks(model, count)
    return PIECES.mean_over_ranks(float(loss), count)


def over_ranks_at_once(model, pieces):
    """Add up the gradients of all ranks' samples, each with its share in the mean over all."""
    x, targets = whole(pieces) if pieces else (None, torch.empty(0))
    count = torch.tensor(len(targets))
    dist.all_reduce(count)
    model.zero_grad()
    loss = mean_loss(model(x), targets) * (len(targets) / count.item()) if pieces else None
    if pieces:
        loss.backward()
    everything = [None] * dist.get_world_size()
    mine = float(loss or 0), [p.grad for p in model.parameters()]
    dist.all_gather_object(everything, mine)
    for p, *gradients in zip(model.parameters(), *(own for _, own in everything), strict=True):
        if p.requires_grad:
            p.grad = sum((x.to_dense() for x in gradients if x is not None), torch.zeros_like(p))
    return sum(loss for loss, _ in everything)


MODELS = NETS | SAMPLES
PIECES_OF_SAMPLES = (
    MODELS
    | {"thousands of samples": EQUAL, "batch norm": Excluded("as in BatchNorm"),
       "dropout": Excluded("as in dropout")}
    | dict.fromkeys(("an empty piece", "no samples"), Excluded("none of them empty"))
    | dict.fromkeys(TOKENS, Excluded("each of which counts"))
)  # fmt: skip
LARGE = (
    MODELS
    | TOKENS
    | dict.fromkeys(("a vocabulary with other uses", "not contiguous"), EQUAL)
    | dict.fromkeys(SIZES_OF_CHUNKS, EQUAL)
    | dict.fromkeys(("frozen layers", "a frozen vocabulary"), "does not require grad")
)
RANKS = NETS | dict.fromkeys(
    ("thousands of samples", "uneven", "a rank without samples", "unused on some ranks",
     "not finite"), EQUAL
) | {"no samples": Excluded("of which there is at least one")}  # fmt: skip
TWINS = [
    Twin("gradient_accumulation.accumulate", PIECES_OF_SAMPLES,
         partial(prepare, lambda model, pieces: PIECES.accumulate(model, mean_loss, pieces),
                 accumulate_at_once), sizes=(1,)),
    Twin("gradient_accumulation.accumulate_tokens", MODELS | TOKENS,
         partial(prepare, PIECES.accumulate_tokens, accumulate_tokens_at_once), sizes=(1,)),
    Twin("gradient_accumulation.average_over_ranks", RANKS,
         partial(prepare, over_ranks, over_ranks_at_once)),
    Twin("large_vocabulary.backward_in_chunks", LARGE,
         partial(prepare, in_chunks, chunks_at_once, make=Words), sizes=(1,)),
]  # fmt: skip
