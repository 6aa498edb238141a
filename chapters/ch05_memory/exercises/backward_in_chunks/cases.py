"""The cases, and the code that runs next to the answer."""

import warnings

import torch

from coursekit.kit.single_rank import most_bytes

from .chunked_losses import Problem, Rows

STALE = 0.25

POSITIONS, WIDTH, VOCABULARY, SIZE = 480, 4, 2000, 12  # for the memory trial

CHUNKS = POSITIONS // SIZE

TRIALS = {  # positions, width, vocabulary, size, tied, gradients from before
    "6 positions in chunks of 2": (6, 3, 5, 2),
    "7 positions in chunks of 3": (7, 4, 5, 3),
    "all in one chunk": (5, 4, 6, 8),
    "one position at a time, weights tied": (6, 4, 7, 1, True),
    "a gradient of an earlier micro-batch still there": (7, 3, 5, 2, False, STALE),
}


def compare(answer, positions, width, vocabulary, size, *how):
    warnings.filterwarnings("ignore", "The .grad attribute of a Tensor that is not a leaf")
    problem = Problem(positions, width, vocabulary, *how)
    hidden = problem.compute_hidden()
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


def number_of(value):
    """Return a tensor of float64 if the value is one number; otherwise None or a text."""
    try:
        return torch.tensor(float(value), dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        return value if value is None else f"{value!r:.60}"


def measure_chunks(answer):
    """Return the peak bytes besides the gradients, as a multiple of one chunk's logits."""
    problem = Problem(POSITIONS, WIDTH, VOCABULARY)
    hidden = problem.compute_hidden()
    before = most_bytes()["total"]
    most = most_bytes(lambda: answer(hidden, problem.weight, problem.targets, SIZE))["total"]
    gradients = 2 * problem.weight.nbytes + 3 * hidden.nbytes + problem.layer.weight.nbytes
    return {"at_most": (most - before - gradients) / (8 * SIZE * VOCABULARY)}
