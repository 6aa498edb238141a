"""A loss whose logits are there a chunk at a time.

The truth comes from all logits at once: minus the logarithm of the softmax at each target.
"""

import warnings

import torch
from torch import nn

from ..kit import Equals, Holds, never
from ..kit.alone import Alone, WarmExercise, alone, most_bytes

STALE = 0.25
POSITIONS, WIDTH, VOCABULARY, SIZE = 480, 8, 2000, 40  # where memory is measured
CHUNKS = POSITIONS // SIZE
WEIGHT, BEFORE = "weight", "the layer before"


class Problem:
    """A layer, an embedding if weights are tied, the last matrix, and targets; in float64."""

    def __init__(self, positions, width, vocabulary, tied=False, stale=None):
        chance = torch.Generator().manual_seed(3)

        def draw(*shape):
            return torch.randn(*shape, generator=chance, dtype=torch.float64)

        self.layer = nn.Linear(width, width, bias=False)
        self.layer.weight = nn.Parameter(draw(width, width))
        self.weight = nn.Parameter(draw(vocabulary, width))
        self.tokens = torch.randint(vocabulary, (positions,), generator=chance)
        self.inputs, self.tied = draw(positions, width), tied
        self.targets = torch.randint(vocabulary, (positions,), generator=chance)
        if stale is not None:
            for p in (self.weight, self.layer.weight):
                p.grad = torch.full_like(p, stale)

    def hidden(self):
        inputs = self.weight[self.tokens] if self.tied else self.inputs
        return torch.tanh(self.layer(inputs))

    def gradients(self) -> dict:
        return {WEIGHT: self.weight.grad, BEFORE: self.layer.weight.grad}


TRIALS = {  # positions, width, vocabulary, size, tied, gradients from before
    "6 positions in chunks of 2": (6, 3, 5, 2),
    "7 positions in chunks of 3": (7, 3, 5, 3),
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
    loss = answer(hidden, problem.weight, problem.targets, size)
    after = [x.detach() for x in (hidden, problem.weight, problem.targets)]
    names = ("hidden", "weight", "targets")
    right = at_once(positions, width, vocabulary, size, *how)
    return {
        "loss": number_of(loss),
        "keeps_graph": isinstance(loss, torch.Tensor) and loss.requires_grad,
        "gradients": problem.gradients(),
        "changed": [n for n, a, b in zip(names, after, before) if not torch.equal(a, b)],
        "right": right,
        "wrong": wrong_ones(right, positions, width, vocabulary, size, *how),
    }


def number_of(value):
    """As a tensor of float64, if it is one number."""
    try:
        return torch.tensor(float(value), dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        return value if value is None else f"{value!r:.60}"


def at_once(positions, width, vocabulary, size, *how, weights=None) -> dict:
    """Loss and gradients of a sum over positions, each with its weight: 1 / positions unless given.

    weights  (positions,)
    """
    problem = Problem(positions, width, vocabulary, *how)
    if weights is None:
        weights = torch.full((positions,), 1 / positions, dtype=torch.float64)
    logs = torch.log_softmax(problem.hidden() @ problem.weight.T, -1)
    loss = -(weights * logs[torch.arange(positions), problem.targets]).sum()
    loss.backward()
    return {"loss": loss.detach(), "gradients": problem.gradients()}


def measure_chunks(answer):
    """The most bytes beside gradients, in times the logits of one chunk."""
    problem = Problem(POSITIONS, WIDTH, VOCABULARY)
    hidden = problem.hidden()
    before = most_bytes()["total"]
    most = most_bytes(lambda: answer(hidden, problem.weight, problem.targets, SIZE))["total"]
    gradients = 2 * problem.weight.nbytes + 3 * hidden.nbytes + problem.layer.weight.nbytes
    return {"at_most": (most - before - gradients) / (8 * SIZE * VOCABULARY)}


# ---- What is not right ---


MEANS = (
    "this is the mean of the chunks' means. The last chunk is shorter, and its positions count for "
    "more then: divide the sum of each chunk by the number of all positions"
)
SUMMED = (
    "the means of the chunks are added up: that is too large by the number of chunks. Divide the "
    "sum of each chunk by the number of all positions"
)
TOTAL = "this is the sum over all positions; asked is the mean"
SHORTER = "the last chunk is missing: it is shorter than the others, and counts all the same"
LAST = "this is the last chunk alone: every chunk adds its part"
LOST = (
    "a gradient that was in .grad already is gone: a backward adds to it, and so is this one to do"
)
NO_BEFORE = (
    "the layers before `hidden` get no gradient. Cut off from its graph, `hidden` has to be told "
    "its gradient in the end: hidden.backward(gradient)"
)
TWICE = "the layers before `hidden` get their gradient twice"
NO_TIED = (
    "`weight` has two uses here: `hidden` was computed from it, too. What comes from there is "
    "added to its gradient, and does not replace it"
)


def weights_of(positions, size) -> dict:
    """{mistake: how much each position counts for it}"""
    of = torch.arange(positions) // size
    lengths = torch.bincount(of)[of].double()
    chunks = -(-positions // size)
    ones = torch.ones(positions, dtype=torch.float64)
    is_last, is_whole = (of == chunks - 1).double(), (of < positions // size).double()
    return {
        MEANS: 1 / lengths / chunks,
        SUMMED: 1 / lengths,
        TOTAL: ones,
        SHORTER: is_whole / positions,
        LAST: is_last / positions,
    }


def wrong_ones(right, positions, width, vocabulary, size, tied=False, stale=None) -> dict:
    """{mistake: {"loss": …, "gradients": …}}"""
    sizes = positions, width, vocabulary, size
    found = {
        why: at_once(*sizes, tied, stale, weights=weights)
        for why, weights in weights_of(positions, size).items()
    }
    gradients = right["gradients"]
    base = stale or 0.0

    def but(**changed):
        return {"loss": right["loss"], "gradients": gradients | changed}

    nothing = torch.full_like(gradients[BEFORE], base) if stale is not None else None
    found[NO_BEFORE] = but(**{BEFORE: nothing})
    found[TWICE] = but(**{BEFORE: 2 * gradients[BEFORE] - base})
    if stale is not None:
        found[LOST] = but(**{WEIGHT: gradients[WEIGHT] - base})
        found[f"{LOST} (here: that of the layers before)"] = but(
            **{BEFORE: gradients[BEFORE] - base}
        )
    if tied:
        found[NO_TIED] = but(**{WEIGHT: of_logits_alone(sizes)})
        found[NO_BEFORE] = but(**{BEFORE: None, WEIGHT: of_logits_alone(sizes)})
    return found


def of_logits_alone(sizes) -> torch.Tensor:
    """The gradient of a tied weight, but for what comes from the embedding."""
    problem = Problem(*sizes[:3], True)
    logs = torch.log_softmax(problem.hidden().detach() @ problem.weight.T, -1)
    (-logs[torch.arange(sizes[0]), problem.targets].mean()).backward()
    return problem.weight.grad


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
EXERCISE = WarmExercise(
    "5.8",
    "backward_in_chunks",
    lab="large_vocabulary",
    cases=[
        *(Alone(name, compare, trial) for name, trial in TRIALS.items()),
        Alone(f"memory, {CHUNKS} chunks", measure_chunks),
    ],
    work=alone,
    facts=[
        never("changed", lambda names: f"{names[0]} has changed",
              "`hidden`, `weight` and `targets` belong to the caller: only gradients change"),
        Equals("loss", lambda trial, place: trial[place].right["loss"], of_wrong("loss"),
               "the loss", "the loss is the mean over all positions, whatever chunk they are in"),
        never("keeps_graph", "the loss that is returned has a graph",
              "the backward is over, and the graph with what it keeps can go: return "
              "loss.detach(), or a sum of such"),
        Equals("gradients", lambda trial, place: trial[place].right["gradients"],
               of_wrong("gradients"), ".grad"),
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
        "Mismatch in shape": "The gradient of `hidden` has its shape, (positions, width)",
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
