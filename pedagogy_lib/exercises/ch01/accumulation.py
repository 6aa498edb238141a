"""What the checks of the gradient accumulation lab try: gradients, loss and memory, on a rank.

The truth is the whole batch at once. A misconception is a factor for each row, which is a sample
or a sentence: the gradients that it leads to are those of the rows' losses, times these factors.
"""

import math
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

from ...basics.closeness import THROUGH_FLOAT32, close_in_float32, gaps
from ...course.checking import Wrong, try_on_ranks
from ...measuring.recorder import mark, measure
from ..kit.answers import recognise

PADDING = -100
STALE = 0.25  # what every gradient holds beforehand, in some cases
FEATURES, HIDDEN, CLASSES, WORDS = 6, 16, 3, 7
NOTHING_COUNTS = (
    "nan is 0/0: the mean over a micro-batch in which no token counts. Sum its losses with "
    'reduction="sum", and divide by the tokens of the whole batch'
)
UNFLATTENED = "flatten: logits (n, vocabulary), targets (n)"
SHAPES = ("Expected target size", "multi-target not supported", "to match target batch_size")
LATE = (
    "the gradients are right, but more than one graph is alive at a time: call backward() on each "
    "micro-batch's own loss, in the loop. On their sum, or on all of them put together, it comes "
    "when every graph is there. Asked is one backward for each micro-batch"
)


def merged(pieces):
    """Several (inputs, targets) as one."""
    return tuple(torch.cat(parts) for parts in zip(*pieces))


# ---- What an answer is tried on ----------------------------------------------------------------

# The first of them tells the misconceptions apart.
SAMPLES = {
    "micro-batches of 8 8 3 samples": [8, 8, 3],
    "of 4 4 4 4": [4, 4, 4, 4],
    "of 9 and a single one": [9, 1],
    "a single micro-batch": [6],
    "of 5 2, with gradients of an earlier step still there": [5, 2],
}
SENTENCES = {
    "sentences of 7 1 4, of 3, of 2 2 tokens": [[7, 1, 4], [3], [2, 2]],
    "no padding": [[4, 4], [4, 4]],
    "a single micro-batch, with padding": [[6, 2, 3]],
    "long sentences, then short ones": [[9, 8], [2, 1]],
    "a micro-batch of padding only": [[5, 3], [0, 0]],
    "two of them, with gradients of an earlier step still there": [[5, 1], [2]],
}


def examine_samples(answer):
    make = lambda: model_of(nn.Linear(FEATURES, HIDDEN), CLASSES)  # noqa: E731
    tries = {case: samples_of(sizes) for case, sizes in SAMPLES.items()}
    yield from examine(answer, make, (mean_loss,), tries, samples_of([8] * 8), why_samples)


def examine_memory_of_samples(answer):
    make = lambda: model_of(nn.Linear(FEATURES, HIDDEN), CLASSES)  # noqa: E731
    yield from examine_memory(answer, make, (mean_loss,), samples_of([8] * 8))


def examine_tokens(answer):
    make = lambda: model_of(nn.Embedding(WORDS, HIDDEN), WORDS)  # noqa: E731
    tries = {case: sentences_of(lengths) for case, lengths in SENTENCES.items()}
    yield from examine(answer, make, (), tries, sentences_of([[9, 9]] * 8), why_tokens)


def mean_loss(outputs, targets):
    return F.cross_entropy(outputs, targets)


def model_of(first, outputs):
    torch.manual_seed(3)
    for parameter in first.parameters():
        nn.init.normal_(parameter, std=0.7)
    return nn.Sequential(first, nn.Tanh(), nn.Linear(HIDDEN, outputs)).double()


def samples_of(sizes):
    source = torch.Generator().manual_seed(sum(sizes))
    return [
        (
            torch.randn(size, FEATURES, generator=source, dtype=torch.float64),
            torch.randint(CLASSES, (size,), generator=source),
        )
        for size in sizes
    ]


def sentences_of(lengths):
    source = torch.Generator().manual_seed(len(lengths))
    return [rectangle(some, source) for some in lengths]


def rectangle(lengths, source):
    """Sentences padded to the longest, at least 2; the padded tokens are 0, their targets −100."""
    shape = len(lengths), max(*lengths, 2)
    tokens, targets = (torch.randint(WORDS, shape, generator=source) for _ in range(2))
    for row, length in enumerate(lengths):
        tokens[row, length:], targets[row, length:] = 0, PADDING
    return tokens, targets


# ---- Trying ------------------------------------------------------------------------------------


def examine(answer, make, arguments, tries, many, misconceptions):
    """Compare an answer with the whole batch, and then its memory with one micro-batch's."""
    for case, pieces in tries.items():
        stale = STALE if "still there" in case else None
        run = try_on_ranks(case, try_gradients, answer, make, arguments, pieces, stale,
                           world_size=1, explain=explain)  # fmt: skip
        judge(case, *run.values[0], make(), pieces, stale, misconceptions)
        yield f"{case}: gradients and loss of the whole batch"
    yield from examine_memory(answer, make, arguments, many)


def explain(error) -> str:
    return UNFLATTENED if any(words in str(error) for words in SHAPES) else ""


def examine_memory(answer, make, arguments, many):
    case = f"memory, {len(many)} micro-batches"
    run = try_on_ranks(case, try_memory, answer, make, arguments, many, world_size=1)
    needed, alone, whole = (
        run[label].peak_bytes[0]["activations"] for label in ("answer", "alone", "whole")
    )
    if needed > 1.5 * alone:
        what = f"{needed:,} bytes of activations at once; one micro-batch has {alone:,}"
        raise Wrong(case, what, LATE)
    yield f"{case}: {needed:,} bytes of activations; as one batch {whole:,}"


def try_gradients(answer, make, arguments, pieces, stale):
    """On a rank: the answer's loss, whether a graph hangs on it, and its gradients."""
    model = make()
    for parameter in model.parameters() if stale else ():
        parameter.grad = torch.full_like(parameter, stale)
    loss = answer(model, *arguments, pieces)
    graph = isinstance(loss, torch.Tensor) and loss.requires_grad
    loss = loss.detach() if isinstance(loss, torch.Tensor) else loss
    return loss, graph, [parameter.grad for parameter in model.parameters()]


def try_memory(answer, make, arguments, pieces):
    """On a rank: the activations of an answer, of one micro-batch, and of all as one."""
    model = make()
    whole = merged(pieces)
    for tensor in (tensor for piece in [whole, *pieces] for tensor in piece):
        mark(tensor, "other")  # data is no activation
    with measure("answer"):
        answer(model, *arguments, pieces)
    for label, (inputs, targets) in {"alone": pieces[0], "whole": whole}.items():
        with measure(label):
            mean_loss(model(inputs).flatten(0, -2), targets.flatten()).backward()


# ---- Judging -----------------------------------------------------------------------------------


def judge(case, loss, graph, got, model, pieces, stale, misconceptions):
    """Raise `Wrong` at the first gradient that is off, or for a wrong loss.

    A count divided by a count is a float32 in PyTorch. As a factor it is no misconception.
    """
    rows = rows_of(model, pieces)
    wanted_loss, wanted = whole_batch(model, pieces)
    if all(gradient is None or (stale and (gradient == stale).all()) for gradient in got):
        raise Wrong(case, "no gradient has come to any parameter", "nothing calls backward()")
    for place, (mine, right) in enumerate(zip(got, wanted)):
        if mine is None or not close_in_float32(mine, right):
            why = why_wrong(got, wanted, rows, stale, misconceptions(rows))
            raise Wrong(case, first_wrong(place, mine, right), why)
    try:
        mine = float(loss)
    except (TypeError, ValueError, RuntimeError):
        mine = None
    if mine is None or not close_in_float32(mine, wanted_loss):
        guesses = {why: (f * rows.losses).sum() for why, f in why_loss(rows).items()}
        guesses |= {why: (f * rows.losses).sum() for why, f in misconceptions(rows).items()}
        why = recognise(mine, guesses) if mine else "return the mean loss, as a number"
        why = NOTHING_COUNTS if mine is not None and math.isnan(mine) else why
        what = f"the gradients are right, but it returned {loss!r}; expected {wanted_loss:.6f}"
        raise Wrong(case, what, why)
    if graph:
        what = "gradients and loss are right, but the loss is a tensor that keeps its graph"
        raise Wrong(case, what, "return a number: add up loss.item()")


def whole_batch(model, pieces):
    """The truth: loss and gradients of everything at once."""
    outputs = torch.cat([model(inputs).flatten(0, -2) for inputs, _ in pieces])
    loss = mean_loss(outputs, torch.cat([targets.flatten() for _, targets in pieces]))
    return loss.item(), torch.autograd.grad(loss, list(model.parameters()))


def rows_of(model, pieces):
    """For each row: its summed loss, how many targets count, how many there are, whose it is."""
    losses, counted, positions, above_0 = [], [], [], 0
    for inputs, targets in pieces:
        outputs = model(inputs).flatten(0, -2)
        every = F.cross_entropy(outputs, targets.flatten(), reduction="none")
        losses.append(every.view(len(targets), -1).sum(1))
        counted.append((targets != PADDING).view(len(targets), -1).sum(1))
        above_0 += (targets > 0).sum()
        positions.append(torch.full((len(targets),), targets[0].numel()))
    piece = torch.arange(len(pieces)).repeat_interleave(torch.tensor([len(c) for c in counted]))
    in_piece = torch.stack([c.sum() for c in counted])[piece].clamp(min=1)
    return SimpleNamespace(
        model=model, piece=piece, pieces=len(pieces), losses=torch.cat(losses),
        counted=torch.cat(counted), positions=torch.cat(positions), in_piece=in_piece,
        in_rows=torch.bincount(piece)[piece].double(), above_0=above_0,
    )  # fmt: skip


def gradients_of(rows, factors):
    loss = (factors * rows.losses).sum()
    return torch.autograd.grad(loss, list(rows.model.parameters()), retain_graph=True)


def why_wrong(got, wanted, rows, stale, guesses) -> str:
    if any(gradient is None for gradient in got):
        return ""
    if any(gradient.isnan().any() for gradient in got):
        return NOTHING_COUNTS
    got = flat(got)
    if stale and close_in_float32(got, flat(wanted) + stale):
        return "gradients of an earlier step are still in it: set them back before you begin"
    return recognise(got, {why: flat(gradients_of(rows, f)) for why, f in guesses.items()})


def flat(tensors):
    return torch.cat([tensor.flatten() for tensor in tensors])


def first_wrong(place, mine, right) -> str:
    if mine is None:
        return f"parameter {place}: .grad is None"
    if mine.shape != right.shape:
        return f"parameter {place}: .grad is {list(mine.shape)}, expected {list(right.shape)}"
    at = tuple((gaps(mine, right) > THROUGH_FLOAT32).nonzero()[0].tolist())
    return f"parameter {place}, .grad{list(at)}: expected {right[at]:.6f}, got {mine[at]:.6f}"


def why_loss(rows):
    """The same for what is returned: {sentence: factor of each row}."""
    last = (rows.piece == rows.pieces - 1).double()
    return {
        "you return the last term; add them up": last / rows.counted.sum(),
        "you return the mean loss of the last micro-batch; add up what each one contributes":
            last / rows.in_piece,
    }  # fmt: skip


def why_samples(rows):
    """{sentence: factor of each sample}."""
    ones, last = torch.ones_like(rows.losses), rows.piece == rows.pieces - 1
    return {
        "each micro-batch counts the same, instead of each sample: a mean of means. A sample of "
        "a small micro-batch then counts too much": ones / rows.pieces / rows.in_piece,
        "the means of the micro-batches are summed: that is larger than their mean, about as "
        "many times as there are micro-batches": ones / rows.in_piece,
        "this is the gradient of the sum over all samples; divide by how many they are": ones,
        "you divide by the number of micro-batches where the number of samples belongs":
            ones / rows.pieces,
        "only the last micro-batch has counted: the gradients are set back in each round":
            last * ones / rows.in_piece,
        "only the last micro-batch has counted, with its right share: the gradients are set back "
        "in each round": last * ones / len(ones),
        "you take all micro-batches to be as large as the first; count all samples":
            ones / rows.in_piece[0] / rows.pieces,
        "all is divided by the size of the last micro-batch": ones / rows.in_piece[-1],
        "all is divided by the size of the first micro-batch": ones / rows.in_piece[0],
    }  # fmt: skip


def why_tokens(rows):
    """{sentence: factor of each sentence's summed loss}."""
    ones, last = torch.ones_like(rows.losses), rows.piece == rows.pieces - 1
    number = len(ones)
    return {
        "each micro-batch counts the same: a mean of means. A token among few then counts more "
        "than a token among many": ones / rows.pieces / rows.in_piece,
        "micro-batches count by their number of sentences, as in exercise 1.4; tokens are to "
        "count the same, so count tokens": rows.in_rows / number / rows.in_piece,
        "each sentence counts the same: tokens of a short one then count more":
            ones / number / rows.counted.clamp(min=1),
        "you divide by all positions, padding included; only targets that are not PADDING count":
            ones / rows.positions.sum(),
        "you count targets above 0; 0 is a token too, and only PADDING does not count":
            ones / rows.above_0,
        "you divide by the number of sentences; divide by the number of tokens that count":
            ones / number,
        "this is the gradient of the sum over all tokens; divide by how many count": ones,
        "the means of the micro-batches are summed": ones / rows.in_piece,
        "only the last micro-batch has counted: the gradients are set back in each round":
            last * ones / rows.in_piece,
        "only the last micro-batch has counted, with its right share: the gradients are set back "
        "in each round": last * ones / rows.counted.sum(),
    }  # fmt: skip
