"""The right results for accumulation.py, and the results of known mistakes."""

from types import SimpleNamespace

import torch
import torch.nn.functional as F

from coursekit.kit import Equals, Holds, never
from coursekit.kit.results import NOT_ITS_OWN
from pedagogy_lib.basics.closeness import close_in_float32

from .accumulation import CALLERS, PADDING, accumulate

STALE = 0.25  # the value of every gradient before the answer runs, in some cases

NOTHING_COUNTS = (
    "nan is 0/0: the mean over a micro-batch in which no token counts. Sum its losses with "
    'reduction="sum", and divide by the tokens of the whole batch'
)

UNTIL_THEN = (
    "the first micro-batches count too much: each is divided by what has been seen until then. All "
    "have to be divided by the same number"
)


def compute_known(why, case, place) -> dict:
    """Compute right and wrong gradients and losses; `why(rows)` returns {misconception: loss}."""
    if case.work is not accumulate:
        return {}
    make, arguments, pieces, *stale = case.args
    with torch.random.fork_rng(devices=()):
        model = make()
    rows = rows_of(model, pieces, CALLERS if arguments else 1.0)
    parameters = dict(model.named_parameters())
    whole = rows.losses.sum() / rows.counted.sum()
    right = compute_named_gradients(parameters, whole)
    wrong = {
        sentence: compute_named_gradients(parameters, of) for sentence, of in why(rows).items()
    }
    return {
        "right": right,
        "wrong": wrong
        | (add_stale_gradients(right, *stale) if stale else {})
        | divide_shared_twice(model, right, rows.counted.sum()),
        "right_loss": whole.item(),
        "wrong_losses": {s: of.item() for s, of in (why_loss(rows) | why(rows)).items()},
    }


def list_found(case):
    return ("gradients", "loss") if case.work is accumulate else ("activations",)


def add_stale_gradients(right, stale) -> dict:
    """Return {misconception: gradients} of an answer that adds to the old values in `.grad`."""
    told = "gradients of an earlier step are still in it: clear them before you begin"
    return {told: {name: gradient + stale for name, gradient in right.items()}}


def divide_shared_twice(model, right, count) -> dict:
    """Return {misconception: gradients} of dividing by module, if two modules share a weight."""
    parameters = dict(model.named_parameters())
    by_module = [id(p) for module in model.modules() for p in module.parameters(recurse=False)]
    told = (
        "a weight that two modules share is one parameter, with one `.grad`. Go through "
        "model.parameters(), which has it once; by modules it is divided twice"
    )
    divided = {
        name: right[name] / count ** (by_module.count(id(p)) - 1) for name, p in parameters.items()
    }
    return {told: divided} if len(by_module) > len(parameters) else {}


def compute_named_gradients(parameters, loss) -> dict:
    slopes = torch.autograd.grad(loss, list(parameters.values()), retain_graph=True)
    return dict(zip(parameters, slopes))


def rows_of(model, pieces, factor) -> SimpleNamespace:
    """Return each row's summed loss, counted targets and micro-batch, with sizes of that batch."""
    every = [
        factor * F.cross_entropy(model(inputs).flatten(0, -2), targets.flatten(), reduction="none")
        for inputs, targets in pieces
    ]
    targets = [targets.view(len(targets), -1) for _, targets in pieces]
    counted = [(of != PADDING).sum(1) for of in targets]
    piece = torch.arange(len(pieces)).repeat_interleave(torch.tensor([len(of) for of in targets]))
    return SimpleNamespace(
        model=model, pieces=pieces, piece=piece, last=(piece == len(pieces) - 1).double(),
        losses=torch.cat([x.view(of.shape).sum(1) for x, of in zip(every, targets)]),
        counted=torch.cat(counted),
        in_piece=torch.stack([c.sum() for c in counted])[piece].clamp(min=1),
        until_then=torch.stack([c.sum() for c in counted]).cumsum(0)[piece].clamp(min=1),
        positions=sum(of.numel() for of in targets), in_rows=torch.bincount(piece)[piece].double(),
    )  # fmt: skip


def why_loss(rows) -> dict:
    """Return {misconception: loss} of answers that return a wrong loss."""
    return {
        "you return the last term; add them up":
            (rows.last * rows.losses).sum() / rows.counted.sum(),
        "you return the mean loss of the last micro-batch; add up what each one contributes":
            (rows.last * rows.losses / rows.in_piece).sum(),
        "you return e to the power of the mean loss, the perplexity; asked is the mean loss":
            (rows.losses.sum() / rows.counted.sum()).exp(),
    }  # fmt: skip


CHANGED = never("changed", "what the function was given is not what it was: a part is gone, or a "
                "number in it is another one", NOT_ITS_OWN)  # fmt: skip


def one_each(name) -> Holds:
    """Return the fact of at most as many forwards, and backwards, as micro-batches."""
    return Holds(
        name, lambda passes: max(passes[:2]) <= passes[2],
        "all is right, but there are {0[0]} forwards and {0[1]} backwards for {0[2]} micro-batches",
        "asked is one forward and one backward for each micro-batch: they are what costs time",
    )  # fmt: skip


def why_no_gradient(trial, place) -> str:
    if trial[place].no_gradient > 1:
        return "backward() has run, and then `.grad` was cleared: clear before it, not at the end"
    return "nothing calls backward()"


ACCUMULATED = [
    CHANGED,
    never("moved", "the parameters have changed", "asked are the gradients and the loss: nobody "
          "takes a step here"),
    Holds("no_gradient", lambda backwards: not backwards, "no gradient has come to any parameter",
          why_no_gradient),
    never("is_nan", "a gradient is nan", NOTHING_COUNTS),
    Equals("gradients", lambda trial, place: trial[place].right,
           lambda trial, place: trial[place].wrong, ".grad", same=close_in_float32),
    never("is_text", "the gradients are right, but it returned a text",
          "return the number itself: others compute with it"),
    Holds("loss", lambda loss: loss == loss,
          "the gradients are right, but it returned {}", NOTHING_COUNTS),
    Holds("loss", lambda loss: loss, "the gradients are right, but it returned {}",
          "return the mean loss, as a number"),
    Equals("loss", lambda trial, place: trial[place].right_loss,
           lambda trial, place: trial[place].wrong_losses, "the gradients are right, but the loss",
           same=close_in_float32),
    never("has_graph", "all is right, but the loss is a tensor that keeps its graph",
          "return a number: a sum of losses holds their graphs, a sum of loss.detach() does not"),
    never("is_eval", "all is right, but the model is left in eval mode",
          "dropout and BatchNorm behave otherwise there: leave the model as it was"),
    Holds("samples", lambda counts: counts[0] <= counts[1],
          "all is right, but {0[0]} samples go through the model; there are {0[1]}",
          "asked is one forward for each micro-batch: what it gives is enough for backward and "
          "loss"),
    one_each("passes"),
    Holds("activations", lambda of: of["answer"] <= 1.5 * of["one"],
          "{0[answer]:,} bytes of activations at once; one micro-batch has {0[one]:,}",
          lambda trial, place: why_so_many_graphs(trial[place].goes_back_each_time)),
]  # fmt: skip


def why_so_many_graphs(goes_back_each_time) -> str:
    alive = "the gradients are right, but more than one graph is alive at a time"
    if goes_back_each_time:
        return (
            f"{alive}. There is a backward for each micro-batch, but its graph lives on: without "
            "retain_graph=True a backward frees it. A sum of losses, or a list of them, holds "
            "their graphs as well: add up loss.detach()"
        )
    return (
        f"{alive}: call backward() on each micro-batch's own loss, in the loop. On their sum, or "
        "on all of them put together, it comes when every graph is there. Asked is one backward "
        "for each micro-batch"
    )


def describe_trial(trial) -> str:
    if not trial.collect_values("activations"):
        return "gradients and loss of the whole batch"
    return "{answer:,} bytes of activations; as one batch {whole:,}".format(**trial[0].activations)
