"""The right results for broken_zero.py, and the results of known mistakes."""

from torch import nn

from .broken_zero import OPTIMIZERS

MIXES = {  # {mistake: a part's gradient, from its owner and each rank's gradient}
    "the ranks' gradients are summed up; asked is their mean": lambda owner, of: sum(of),
    "the mean of the gradients is divided by the number of ranks once more":
        lambda owner, of: sum(of) / len(of) ** 2,
    "each part has its owner's own gradient: those of the others are to count, too":
        lambda owner, of: of[owner],
    "each part has its owner's own gradient, divided by n: nothing has been added to it. A sum is "
    "in the tensor that the call was given for it, and in no copy made before":
        lambda owner, of: of[owner] / len(of),
    "the owner's own gradient is divided by n, and those of the others come whole: divide the sum":
        lambda owner, of: sum(of) - of[owner] + of[owner] / len(of),
    "all have rank 0's gradient: those of the others are to count, too": lambda owner, of: of[0],
}  # fmt: skip

FRESH = (
    "each step begins with a new optimizer, without the state of the steps before: make one before "
    "the loop, or keep it for the next step"
)


def train_alone(start, slopes, n, steps, optimizer, mix=lambda owner, of: sum(of) / len(of),
                unused=lambda parameter: None, fresh=False):  # fmt: skip
    """Train in one process and return the final parameters; parameter k belongs to rank k % n.

    start   the initial parameters
    slopes  takes a rank, the parameters and a step; returns the gradient of each parameter, or None
    mix     see MIXES
    unused  returns the gradient of a parameter that has no part in a step
    fresh   whether each step has a new optimizer
    """
    parameters = [nn.Parameter(x.clone()) for x in start]
    stepper = OPTIMIZERS[optimizer](parameters)
    for step in range(steps):
        of_ranks = zip(*(slopes(rank, parameters, step) for rank in range(n)))
        for number, (p, of) in enumerate(zip(parameters, of_ranks)):
            p.grad = unused(p) if of[0] is None else mix(number % n, of)
        stepper = OPTIMIZERS[optimizer](parameters) if fresh else stepper
        stepper.step()
    return [p.detach() for p in parameters]
