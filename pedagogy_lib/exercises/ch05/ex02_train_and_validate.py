"""Graphs that validation keeps, beside a training."""

import gc
import warnings
from functools import cache
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

from ...basics.closeness import close
from ...course.checking import Wrong
from ...measuring.recorder import mark
from ..kit import Equals, Holds, never
from ..kit.alone import Alone, WarmExercise, alone, most_bytes, on_our_rank
from ..kit.one_process import RATE, flat, gradients_in, note_gradients
from ..kit.values import NO_RETURN
from .kept_graphs import why_graphs

FINDS_A_BUG = True

SAMPLES, FEATURES, WIDTH = 128, 8, 64
A_BIT = 0.1  # of a graph: a number for each batch is no graph
TRAININGS = {  # steps, validation batches, optimizer
    "3 steps, 2 validation batches": (3, 2, torch.optim.SGD),
    "7 steps, 2 validation batches": (7, 2, torch.optim.SGD),
    "3 steps, 6 validation batches, Adam": (3, 6, torch.optim.Adam),
}
LASTS = {
    "torch.is_grad_enabled()": "autograd is still switched off. `with torch.no_grad():` switches "
    "it on again",
    "model.training": "model.eval() lasts: after validation, model.train() belongs to it. Without, "
    "the next step has no dropout, for example",
    "a parameter's requires_grad": "what validation freezes has to be trained again, and what was "
    "frozen before has to stay so",
}


def start(optimizer_type):
    """A model in float64, of which the first bias is frozen, and its optimizer."""
    torch.manual_seed(5)
    model = nn.Sequential(
        nn.Linear(FEATURES, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(),
        nn.Linear(WIDTH, 1),
    ).double()  # fmt: skip
    model[0].bias.requires_grad_(False)
    return model, optimizer_type(model.parameters(), lr=RATE)


def make_batches(count, salt, last=SAMPLES):
    """last: the samples of the last one"""
    source = torch.Generator().manual_seed(salt)
    draw = lambda *shape: torch.randn(*shape, generator=source, dtype=torch.float64)  # noqa: E731
    sizes = [SAMPLES] * (count - 1) + [last]
    return [(draw(size, FEATURES), draw(size, 1) + 1) for size in sizes]


def train(model, loss_fn, batches, validation, optimizer, after_step=lambda loss: None, keep=False):
    """Without validation. keep: whether nothing sets gradients back."""
    for inputs, targets in batches:
        loss = loss_fn(model(inputs), targets)
        if not keep:
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        after_step(loss.item())


# ---- On a rank ---


def try_training(answer, steps, validations, optimizer_type):
    batches, validation = make_batches(steps, 1), make_batches(validations, 2, SAMPLES // 4)
    model, optimizer = start(optimizer_type)
    flags, gradients = flags_of(model), note_gradients(optimizer, model)
    warnings.filterwarnings("ignore", "Converting a tensor")  # the verdict says it better
    with torch.enable_grad():  # which undoes what an answer sets
        means = answer(model, F.mse_loss, batches, validation, optimizer)
        after = flags_of(model)
    is_list = isinstance(means, (list, tuple)) and all(isinstance(mean, float) for mean in means)
    return {
        "changed": [what for what in flags if after[what] != flags[what]],
        "steps": (len(gradients), steps),
        "gradients": [*gradients, flat(model.parameters())],
        "left": gradients_in(model),
        "means": list(means) if is_list else None if means is None else f"{means!r:.60}",
    }


# ---- What is known of it ---


def known_of(case, place) -> dict:
    return known_of_all()[case.args] if case.work is try_training else {}


@cache
def known_of_all() -> dict:
    return on_our_rank(train_by_ourselves)


def train_by_ourselves() -> dict:
    found = {}
    for steps, validations, optimizer_type in TRAININGS.values():
        batches, validation = make_batches(steps, 1), make_batches(validations, 2, SAMPLES // 4)
        never = train_alone(batches, validation, optimizer_type, keep=True).gradients
        right = train_alone(batches, validation, optimizer_type)
        found[steps, validations, optimizer_type] = {"right": right, "never_set_back": never}
    return found


def flags_of(model) -> dict:
    are_training = [module.training for module in model.modules()]
    are_trained = [p.requires_grad for p in model.parameters()]
    return dict(zip(LASTS, [torch.is_grad_enabled(), are_training, are_trained]))


def train_alone(batches, validation, optimizer_type, keep=False) -> SimpleNamespace:
    """The truth.

    gradients   that each step finds; and the weights in the end
    validation  losses before the first step, and after each: (1 + steps, batches)
    samples     of each validation batch
    """
    model, optimizer = start(optimizer_type)
    losses, seen, gradients = [], [], note_gradients(optimizer, model)

    def note(loss):
        losses.append(loss)
        seen.append(losses_on(model, validation))

    note(None)
    train(model, F.mse_loss, batches, None, optimizer, note, keep)
    return SimpleNamespace(
        losses=losses[1:], validation=torch.stack(seen),
        samples=torch.tensor([len(x) for x, _ in validation]),
        gradients=[*gradients, flat(model.parameters())], left=gradients_in(model),
    )  # fmt: skip


@torch.no_grad()
def losses_on(model, batches):
    return torch.stack([F.mse_loss(model(x), y) for x, y in batches])


def measure_trainings(answer):
    return {"needs": [need_of(answer, *sizes) for sizes in TRAININGS.values()]}


def need_of(answer, steps, validations, optimizer_type) -> SimpleNamespace:
    """Bytes beside those that are there at the start; `graphs`: how many there are too many."""
    batches, validation = make_batches(steps, 1), make_batches(validations, 2)
    for x in (x for batch in [*batches, *validation] for x in batch):
        mark(x, "other")  # data is no activation
    alone, graph = bytes_of(train, batches, None, optimizer_type)
    mine, in_graphs = bytes_of(answer, batches, validation, optimizer_type)
    return SimpleNamespace(
        alone=alone, mine=mine, graph=graph, graphs=(mine - alone) / graph, in_graphs=in_graphs
    )


def bytes_of(function, batches, validation, optimizer_type) -> tuple[int, int]:
    model, optimizer = start(optimizer_type)
    gc.collect()
    before = most_bytes()["total"]
    most = most_bytes(lambda: function(model, F.mse_loss, batches, validation, optimizer))
    return most["total"] - before, most["activations"]


# ---- What is not right ---


def what_may_be_left(trial, place):
    """The gradients of the last step, or none."""
    left, right = trial[place].left, trial[place].right.left
    return right if left.any() else torch.zeros_like(right)


def wrong_gradients(trial, place):
    got, right = trial[place].gradients, trial[place].right.gradients
    other = (
        "the first step is right, and a later one finds other gradients: validation has added its "
        "own to `.grad`, or changed weights. It is to leave both alone"
        if close(got[0], right[0])
        else "training is to stay as it was: the first step finds other gradients already"
    )
    back = "nothing sets the gradients back: each step follows those of all steps before it"
    return {back: trial[place].never_set_back} | ({} if close(got, right) else {other: got})


def wrong_means(trial, place):
    right, found = trial[place].right, trial[place].means
    shares = right.samples.double() / right.samples.sum()
    before, each = right.validation[:-1], right.validation[1:]
    mean = each.mean(1)
    wrong = {
        "these are the losses of training; asked are those on `validation`": right.losses,
        "this is the model before the step: validate after optimizer.step()": before.mean(1),
        "all of these are of the model as it is in the end: validate after each step":
            mean[-1].expand(len(mean)),
        "these are sums over the validation batches: divide by how many they are": each.sum(1),
        "these are sums over the validation batches, divided by how many batches the training has":
            each.sum(1) / len(mean),
        "each validation batch counts by its samples; the numbers were right, and they are means "
        "over batches": each @ shares,
        "only the last validation batch counts": each[:, -1],
        "only the last validation batch counts, divided by the number of all":
            each[:, -1] / each.shape[1],
        "only the first validation batch counts": each[:, 0],
        "losses of earlier steps are still in the list: begin a new one after each step":
            mean.cumsum(0) / torch.arange(1, len(mean) + 1),
    }  # fmt: skip
    if len(found) != len(mean):
        wrong["one mean after each step: append it in the loop over `batches`"] = found
    return {why: torch.as_tensor(x, dtype=torch.float64).tolist() for why, x in wrong.items()}


def no_graph_is_kept(trial):
    for case, need in zip(TRAININGS, trial[0].needs):
        if need.graphs > A_BIT:
            what = (
                f"beside model and data it takes up to {need.mine:,} bytes; training alone "
                f"{need.alone:,}, of which {need.graph:,} are the graph of a forward"
            )
            raise Wrong(f"{trial.case}, {case}", what, why_graphs(*trial[0].needs))


def told(trial) -> str:
    if not trial.of("needs"):
        return "trained as without validation, and the means are right"
    most = [f"{need.mine:,} bytes ({need.alone:,})" for need in trial[0].needs]
    return f"at most {', '.join(most)}; in brackets training alone"


EXERCISE = WarmExercise(
    "5.2",
    "train_and_validate",
    cases=[
        *(Alone(name, try_training, sizes) for name, sizes in TRAININGS.items()),
        Alone("memory", measure_trainings),
    ],
    work=alone,
    known=known_of,
    found=lambda case: (
        ("gradients", "means", "left") if case.work is try_training else ("needs",)
    ),
    facts=[
        never("changed", lambda what: f"afterwards {what[0]} is not as it was",
              lambda trial, place: LASTS[trial[place].changed[0]]),
        Holds("steps", lambda steps: steps[0] == steps[1],
              lambda steps: f"expected {steps[1]} optimizer steps, got {steps[0]}",
              "each batch has one step; validation has none: it only looks"),
        Equals("gradients", lambda trial, place: trial[place].right.gradients, wrong_gradients,
               "gradients"),
        Holds("means", lambda means: isinstance(means, list), "it returned {}",
              lambda trial, place: NO_RETURN if trial[place].means is None else
              "return a list of floats: loss.item() is one, and keeps nothing else alive"),
        Equals("means", lambda trial, place: trial[place].right.validation[1:].mean(1).tolist(),
               wrong_means),
        Equals("left", what_may_be_left,
               called="what `.grad` has in the end",
               otherwise="validation has left gradients of its own. It needs no backward: a graph "
               "is freed as soon as nobody holds it"),
        lambda trial: no_graph_is_kept(trial) if trial.of("needs") else "",
    ],
    told=told,
    errors={
        "does not require grad": "the backward finds no graph: no_grad() covers the training, "
        "too, or the model has stayed frozen. Only validation goes without",
        "Inference tensors cannot": "inference_mode() covers more than validation",
        "second time": "a backward goes through a graph that another has gone through already. "
        "Validation needs no backward at all",
    },
    hints=(
        "How long does the graph of a validation loss live? As long as somebody holds the "
        "loss, or a sum that it went into. Who holds it, in this program?",
        "Two lists hold tensors with graphs: `losses` for one round, and `means` to the end.",
        "For the first, let autograd record nothing: with torch.no_grad(): around validation. "
        "For the second, append numbers: .item().",
    ),
)  # fmt: skip
