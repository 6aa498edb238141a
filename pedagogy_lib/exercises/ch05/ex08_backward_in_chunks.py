"""A loss whose logits are there a chunk at a time.

The truth comes from all logits at once: minus the logarithm of the softmax at each target.
"""

import warnings

import torch

from ...basics.closeness import close_in_float32
from ..kit import Equals, Holds, never
from ..kit.alone import Alone, WarmExercise, alone, most_bytes
from ..kit.facts import ROUNDED
from ..kit.values import NO_RETURN
from .chunked_losses import Problem, Rows, at_once, wrong_ones

STALE = 0.25
POSITIONS, WIDTH, VOCABULARY, SIZE = 480, 4, 2000, 12  # where memory is measured
CHUNKS = POSITIONS // SIZE


TRIALS = {  # positions, width, vocabulary, size, tied, gradients from before
    "6 positions in chunks of 2": (6, 3, 5, 2),
    "7 positions in chunks of 3": (7, 4, 5, 3),
    "all in one chunk": (5, 4, 6, 8),
    "one position at a time, weights tied": (6, 4, 7, 1, True),
    "a gradient of an earlier micro-batch still there": (7, 3, 5, 2, False, STALE),
}


# ---- On a rank ---


def compare(answer, positions, width, vocabulary, size, *how):
    warnings.filterwarnings("ignore", "The .grad attribute of a Tensor that is not a leaf")
    problem = Problem(positions, width, vocabulary, *how)
    hidden = problem.hidden()
    before = [x.detach().clone() for x in (hidden, problem.weight, problem.targets)]
    with Rows(vocabulary, width) as rows:
        loss = answer(hidden, problem.weight, problem.targets, size)
    after = [x.detach() for x in (hidden, problem.weight, problem.targets)]
    names = ("hidden", "weight", "targets")
    return {
        "loss": number_of(loss),
        "keeps_graph": isinstance(loss, torch.Tensor) and loss.requires_grad,
        "gradients": problem.gradients(),
        "times_back": problem.times_back,
        "rows": (max(rows.found, default=size), min(size, positions)),
        "changed": [n for n, a, b in zip(names, after, before) if not torch.equal(a, b)],
    }


def known_of(case, place) -> dict:
    if case.work is not compare:
        return {}
    with torch.random.fork_rng(devices=[]):
        right = at_once(*case.args)
        return {"right": right, "wrong": wrong_ones(right, *case.args)}


def number_of(value):
    """As a tensor of float64, if it is one number."""
    try:
        return torch.tensor(float(value), dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        return value if value is None else f"{value!r:.60}"


def measure_chunks(answer):
    """The most bytes beside gradients, in times the logits of one chunk."""
    problem = Problem(POSITIONS, WIDTH, VOCABULARY)
    hidden = problem.hidden()
    before = most_bytes()["total"]
    most = most_bytes(lambda: answer(hidden, problem.weight, problem.targets, SIZE))["total"]
    gradients = 2 * problem.weight.nbytes + 3 * hidden.nbytes + problem.layer.weight.nbytes
    return {"at_most": (most - before - gradients) / (8 * SIZE * VOCABULARY)}


# ---- What is not right ---


def of_wrong(name):
    return lambda trial, place: {
        why: each[name] for why, each in trial[place].wrong.items() if why in distinct(trial, name)
    }


def distinct(trial, name) -> list:
    """Mistakes that show in this value, and in no other way: the loss of some is right."""
    wrong, right = trial[0].wrong, trial[0].right[name]
    return [why for why, each in wrong.items() if differs(each[name], right)]


def differs(a, b) -> bool:
    if isinstance(a, dict):
        return any(differs(a[key], b[key]) for key in b)
    return a is None or b is None or not torch.allclose(a, b)


KEPT = (
    "the logits of all chunks are there at once, or what cross_entropy has made of them: the graph "
    "of a chunk keeps it until its backward. Go back through each chunk before the next one is "
    "computed"
)


def why_other_rows(trial, place) -> str:
    """What to say of chunks of another size."""
    if trial[place].rows[0] == trial.case.args[0]:
        return f"these are all positions. {KEPT[0].upper()}{KEPT[1:]}"
    return "`size` is how many positions a chunk has; it is not the number of chunks"


def why_no_loss(trial) -> str:
    """What to say of a loss that no mistake gives."""
    got, right = trial[0].loss, trial[0].right["loss"]
    if got is None:
        return NO_RETURN
    if not isinstance(got, torch.Tensor):
        return "one number is asked: the mean loss"
    if close_in_float32(got, right):
        return ROUNDED
    return "the loss is the mean over all positions, whatever chunk they are in"


EXERCISE = WarmExercise(
    "5.8",
    "backward_in_chunks",
    lab="large_vocabulary",
    cases=[
        *(Alone(name, compare, trial) for name, trial in TRIALS.items()),
        Alone(f"memory, {CHUNKS} chunks", measure_chunks),
    ],
    work=alone,
    known=known_of,
    found=lambda case: ("loss", "gradients") if case.work is compare else ("at_most",),
    facts=[
        never("changed", lambda names: f"{names[0]} has changed",
              "`hidden`, `weight` and `targets` belong to the caller: only gradients change"),
        Equals("loss", lambda trial, place: trial[place].right["loss"], of_wrong("loss"),
               "the loss", why_no_loss),
        never("keeps_graph", "the loss that is returned has a graph",
              "the backward is over, and the graph with what it keeps can go: return "
              "loss.detach(), or a sum of such"),
        Equals("gradients", lambda trial, place: trial[place].right["gradients"],
               of_wrong("gradients"), ".grad"),
        Holds("times_back", lambda times: times == 1,
              "the numbers are right, but the backward goes through the layers before `hidden` "
              "{} times",
              "collect the gradient of `hidden` first. These layers may be a whole model: their "
              "backward runs once"),
        Holds("rows", lambda rows: rows[0] == rows[1],
              lambda rows: "logits of {} positions are made at a time, expected {}".format(*rows),
              why_other_rows),
        Holds("at_most", lambda times: times < 6.5,
              f"beside gradients there is {{:.1f}} times as much as the logits of one chunk; "
              f"all logits would be {CHUNKS} times", KEPT),
    ],
    told=lambda trial: (
        f"at most {trial[0].at_most:.1f} times the logits of one chunk, beside gradients"
        if trial.of("at_most") else "loss and gradients are those of all logits at once"
    ),
    errors={
        "through the graph a second time": "each chunk's backward goes on into the layers before "
        "`hidden`, whose graph can be used only once. Cut `hidden` off from it with detach(), "
        "collect its gradient, and go on into these layers once, in the end",
        "only for scalar outputs": "`hidden` has many numbers, so its backward has to be told the "
        "gradient of each: hidden.backward(gradient)",
        "does not require grad": "what the logits are computed from has no gradient: after "
        "detach() it needs requires_grad_()",
        "NoneType": "a chunk that is cut out of a tensor which requires a gradient is no leaf, and "
        "its .grad stays None. Look at the .grad of the tensor that requires_grad_() was said to",
        "Mismatch in shape": "the gradient of `hidden` has its shape, (positions, width). The last "
        "chunk may be shorter, and belongs to it",
        "size mismatch": "logits are (positions, width) times the transpose of `weight`, which is "
        "(vocabulary, width)",
        "cannot be multiplied": "logits are (positions, width) times the transpose of `weight`, "
        "which is (vocabulary, width)",
        "leaf Variable that requires grad": "the total is computed in place on a tensor of the "
        "graph: add up losses that are detached",
    },
    hints=(
        "Cut `hidden` off from its graph: hidden.detach(). Each chunk of it gets requires_grad_(), "
        "and then its own logits, loss and backward().",
        'F.cross_entropy(…, reduction="sum") / len(targets): then all chunks together give the '
        "mean. Each backward adds to weight.grad by itself.",
        "The chunks' gradients, one after another, are the gradient of `hidden`: "
        "hidden.backward(torch.cat(gradients)). That goes back through the layers before, once.",
    ),
)  # fmt: skip
