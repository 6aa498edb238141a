"""The right results for chunked_losses.py, and the results of known mistakes."""

import torch

from .chunked_losses import BEFORE, WEIGHT, Problem


def compute_loss_and_gradients(positions, width, vocabulary, size, *how, weights=None) -> dict:
    """Return loss and gradients of a weighted sum over positions.

    weights  weight of each position, (positions,); 1 / positions unless given
    """
    problem = Problem(positions, width, vocabulary, *how)
    if weights is None:
        weights = torch.full((positions,), 1 / positions, dtype=torch.float64)
    logs = torch.log_softmax(problem.compute_hidden() @ problem.weight.T, -1)
    loss = -(weights * logs[torch.arange(positions), problem.targets]).sum()
    loss.backward()
    return {"loss": loss.detach(), "gradients": problem.gradients()}


MEANS = (
    "this is the mean of the chunks' means. The last chunk is shorter, and its positions count for "
    "more then: divide the sum of each chunk by the number of all positions"
)

SUMMED = (
    "the means of the chunks are added up: that is too large by the number of chunks. Divide the "
    "sum of each chunk by the number of all positions"
)

BY_SIZE = (
    "each chunk's mean counts as `size` positions; the last chunk has fewer, and counts for less"
)

NO_WEIGHT = "`weight` gets no gradient from the logits: it is a factor of them, as `hidden` is"

ONES = (
    "the layers before `hidden` are told a gradient of ones. The gradient of `hidden` is what the "
    "chunks have collected"
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
    """Return {mistake: the weight that it gives each position, (positions,)}."""
    of = torch.arange(positions) // size
    lengths = torch.bincount(of)[of].double()
    chunks = -(-positions // size)
    ones = torch.ones(positions, dtype=torch.float64)
    is_last, is_whole = (of == chunks - 1).double(), (of < positions // size).double()
    return {
        MEANS: 1 / lengths / chunks,
        SUMMED: 1 / lengths,
        TOTAL: ones,
        BY_SIZE: size / lengths / positions,
        SHORTER: is_whole / positions,
        LAST: is_last / positions,
    }


def wrong_ones(right, positions, width, vocabulary, size, tied=False, stale=None) -> dict:
    """Return {mistake: {"loss": …, "gradients": …}}."""
    sizes = positions, width, vocabulary, size
    found = {
        why: compute_loss_and_gradients(*sizes, tied, stale, weights=weights)
        for why, weights in weights_of(positions, size).items()
    }
    gradients = right["gradients"]
    base = stale or 0.0

    def but(**changed):
        return {"loss": right["loss"], "gradients": gradients | changed}

    nothing = torch.full_like(gradients[BEFORE], base) if stale is not None else None
    found[NO_BEFORE] = but(**{BEFORE: nothing})
    of_ones = Problem(*sizes[:3], tied, stale)
    of_ones.compute_hidden().backward(torch.ones(positions, width, dtype=torch.float64))
    found[ONES] = but(**{BEFORE: of_ones.gradients()[BEFORE]})
    found[NO_WEIGHT] = but(**{WEIGHT: nothing})
    if stale is not None:
        found[NO_WEIGHT] = but(**{WEIGHT: torch.full_like(gradients[WEIGHT], stale)})
    found[TWICE] = but(**{BEFORE: 2 * gradients[BEFORE] - base})
    if stale is not None:
        found[LOST] = but(**{WEIGHT: gradients[WEIGHT] - base})
        found[f"{LOST} (here: that of the layers before)"] = but(
            **{BEFORE: gradients[BEFORE] - base}
        )
    if tied:
        found[NO_TIED] = but(**{WEIGHT: compute_logits_gradient(sizes)})
        found[NO_BEFORE] = but(**{BEFORE: None, WEIGHT: compute_logits_gradient(sizes)})
    return found


def compute_logits_gradient(sizes) -> torch.Tensor:
    """Return the gradient of a tied weight without the embedding's contribution."""
    problem = Problem(*sizes[:3], True)
    logs = torch.log_softmax(problem.compute_hidden().detach() @ problem.weight.T, -1)
    (-logs[torch.arange(sizes[0]), problem.targets].mean()).backward()
    return problem.weight.grad
