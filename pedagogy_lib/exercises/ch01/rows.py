"""Accumulated gradients of samples (1.4) and of tokens (1.5): what is tried, and what is right.

The truth is the whole batch at once. A misconception is a factor for each row, which is a sample
or a sentence: the gradients that it leads to are those of the rows' losses, times these factors.
"""

import math
from dataclasses import dataclass
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

from ...basics.closeness import close_in_float32
from ...measuring.recorder import mark, measure, peak_in
from ..kit import Equals, Holds, never

PADDING = -100
STALE = 0.25  # what every gradient holds beforehand, in some cases
FEATURES, HIDDEN, CLASSES, WORDS = 6, 16, 3, 7


@dataclass(frozen=True)
class Case:
    """Micro-batches: of so many samples, or of sentences with so many tokens."""

    title: str
    pieces: tuple
    is_stale: bool = False  # whether gradients of an earlier step are still there
    with_memory: bool = False  # whether memory is looked at, and nothing else

    ranks = (0,)
    is_group = False

    def __str__(self):
        return self.title + ", with gradients of an earlier step still there" * self.is_stale

    def model(self):
        torch.manual_seed(3)
        are_sentences = self.pieces[0][0].dim() == 2 and not self.pieces[0][0].is_floating_point()
        first = nn.Embedding(WORDS, HIDDEN) if are_sentences else nn.Linear(FEATURES, HIDDEN)
        for parameter in first.parameters():
            nn.init.normal_(parameter, std=0.7)
        outputs = WORDS if are_sentences else CLASSES
        return nn.Sequential(first, nn.Tanh(), nn.Linear(HIDDEN, outputs)).double()


def samples_of(sizes):
    source = torch.Generator().manual_seed(sum(sizes))
    return tuple(
        (
            torch.randn(size, FEATURES, generator=source, dtype=torch.float64),
            torch.randint(CLASSES, (size,), generator=source),
        )
        for size in sizes
    )


def sentences_of(lengths):
    """Padded to the longest of their micro-batch; the padded tokens are 0, their targets −100."""
    source = torch.Generator().manual_seed(len(lengths))
    return tuple(rectangle(some, source) for some in lengths)


def rectangle(lengths, source):
    shape = len(lengths), max(*lengths, 2)
    tokens, targets = (torch.randint(WORDS, shape, generator=source) for _ in range(2))
    for row, length in enumerate(lengths):
        tokens[row, length:], targets[row, length:] = 0, PADDING
    return tokens, targets


def mean_loss(outputs, targets):
    return F.cross_entropy(outputs, targets)


def merged(pieces):
    """Several (inputs, targets) as one."""
    return tuple(torch.cat(parts) for parts in zip(*pieces))


# ---- On a rank ---


def trying(*arguments):
    """What tries an answer: answer(model, *arguments, micro-batches)."""

    def work(answer, group, case):
        if case.with_memory:
            return memory_of(answer, case.model(), arguments, case.pieces)
        model = case.model()
        for parameter in model.parameters() if case.is_stale else ():
            parameter.grad = torch.full_like(parameter, STALE)
        loss = answer(model, *arguments, list(case.pieces))
        graph = isinstance(loss, torch.Tensor) and loss.requires_grad
        gradients = {name: p.grad for name, p in model.named_parameters()}
        return {"loss": number(loss), "graph": graph, "gradients": gradients}

    return work


def number(loss):
    try:
        return float(loss)
    except (TypeError, ValueError, RuntimeError):
        return None


def memory_of(answer, model, arguments, pieces):
    """Bytes of activations: of an answer, of one micro-batch, and of all as one."""
    whole = merged(pieces)
    for tensor in (tensor for piece in [whole, *pieces] for tensor in piece):
        mark(tensor, "other")  # data is no activation
    with measure("answer"):
        answer(model, *arguments, list(pieces))
    for label, (inputs, targets) in {"alone": pieces[0], "whole": whole}.items():
        with measure(label):
            mean_loss(model(inputs).flatten(0, -2), targets.flatten()).backward()
    labels = ("answer", "alone", "whole")
    return {"memory": {label: peak_in(label)["activations"] for label in labels}}


# ---- What is right, and what is not ---


def rows_of(case):
    """For each row: its summed loss, how many targets count, how many there are, whose it is."""
    model, losses, counted, positions, above_0 = case.model(), [], [], [], 0
    for inputs, targets in case.pieces:
        outputs = model(inputs).flatten(0, -2)
        every = F.cross_entropy(outputs, targets.flatten(), reduction="none")
        losses.append(every.view(len(targets), -1).sum(1))
        counted.append((targets != PADDING).view(len(targets), -1).sum(1))
        above_0 += (targets > 0).sum()
        positions.append(torch.full((len(targets),), targets[0].numel()))
    piece = torch.arange(len(counted)).repeat_interleave(torch.tensor([len(c) for c in counted]))
    in_piece = torch.stack([c.sum() for c in counted])[piece].clamp(min=1)
    return SimpleNamespace(
        model=model, losses=torch.cat(losses), counted=torch.cat(counted), in_piece=in_piece,
        positions=torch.cat(positions), above_0=above_0, pieces=len(counted),
        in_rows=torch.bincount(piece)[piece].double(), last=(piece == len(counted) - 1).double(),
        ones=torch.ones(len(piece), dtype=torch.float64),
    )  # fmt: skip


def gradients_of(rows, factors):
    loss = (factors * rows.losses).sum()
    slopes = torch.autograd.grad(loss, list(rows.model.parameters()), retain_graph=True)
    return dict(zip(dict(rows.model.named_parameters()), slopes))


def whole_batch(case):
    """The truth: the loss of everything at once, and its gradients."""
    model = case.model()
    outputs = torch.cat([model(inputs).flatten(0, -2) for inputs, _ in case.pieces])
    loss = mean_loss(outputs, torch.cat([targets.flatten() for _, targets in case.pieces]))
    slopes = torch.autograd.grad(loss, list(model.parameters()))
    return loss.item(), dict(zip(dict(model.named_parameters()), slopes))


def facts(misconceptions):
    """misconceptions  takes the rows of a case, and gives {sentence: a factor for each row}"""

    def gradients_by_mistake(trial, place):
        rows = rows_of(trial.case)
        found = {why: gradients_of(rows, f) for why, f in misconceptions(rows).items()}
        if trial.case.is_stale:
            right = whole_batch(trial.case)[1]
            found[AN_EARLIER_STEP] = {name: g + STALE for name, g in right.items()}
        return found

    def losses_by_mistake(trial, place):
        rows = rows_of(trial.case)
        returned = {
            "you return the last term; add them up": rows.last / rows.counted.sum(),
            "you return the mean loss of the last micro-batch; add up what each one contributes":
                rows.last / rows.in_piece,
        }  # fmt: skip
        factors = returned | misconceptions(rows)
        return {why: (f * rows.losses).sum().item() for why, f in factors.items()}

    return [
        Holds("gradients", has_come, "no gradient has come to any parameter",
              "nothing calls backward()"),
        Holds("gradients", is_number, "the gradients are nan", NOTHING_COUNTS),
        Equals("gradients", lambda trial, _: whole_batch(trial.case)[1], gradients_by_mistake,
               "the gradient", same=close_in_float32),
        Holds("loss", lambda loss: loss is None or not math.isnan(loss),
              "the gradients are right, but it returned {}", NOTHING_COUNTS),
        Equals("loss", lambda trial, _: whole_batch(trial.case)[0], losses_by_mistake,
               "the gradients are right, but the loss", "return the mean loss, as a number",
               same=close_in_float32),
        never("graph", "gradients and loss are right, but the loss is a tensor that keeps its "
              "graph", "return a number: add up loss.item()"),
        Holds("memory", lambda bytes_: bytes_["answer"] <= 1.5 * bytes_["alone"],
              lambda bytes_: "{answer:,} bytes of activations at once; one micro-batch has "
              "{alone:,}".format(**bytes_), LATE),
    ]  # fmt: skip


def has_come(gradients) -> bool:
    is_stale = lambda g: g is None or bool((g == STALE).all())  # noqa: E731
    return not all(map(is_stale, gradients.values()))


def is_number(gradients) -> bool:
    return not any(g is not None and g.isnan().any() for g in gradients.values())


def told(trial) -> str:
    if trial.case.with_memory:
        return "{answer:,} bytes of activations; as one batch {whole:,}".format(**trial[0].memory)
    return "gradients and loss of the whole batch"


AN_EARLIER_STEP = "gradients of an earlier step are still in it: set them back before you begin"
NOTHING_COUNTS = (
    "nan is 0/0: the mean over a micro-batch in which no token counts. Sum its losses with "
    'reduction="sum", and divide by the tokens of the whole batch'
)
LATE = (
    "the gradients are right, but more than one graph is alive at a time: call backward() on each "
    "micro-batch's own loss, in the loop. On their sum, or on all of them put together, it comes "
    "when every graph is there. Asked is one backward for each micro-batch"
)
