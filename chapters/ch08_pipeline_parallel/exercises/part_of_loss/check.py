"""The part of a batch's loss that a micro-batch adds.

The truth is one process that computes the mean loss of the whole batch.
"""

from functools import partial

import torch

from coursekit.kit import Formula
from coursekit.kit.diagnoses import ratio
from coursekit.kit.tables import KnownValues
from pedagogy_lib.basics.closeness import close_in_float32

from .cases import NO_GRAPH, batch, mean_loss
from .truth import MISTAKES, truth

FINDS_A_BUG = True

ONE_NUMBER = "what a micro-batch adds is one number: a mean over its tokens, times its share"


def run_whole_batch(*sizes) -> list[float]:
    return batch(lambda logits, targets, samples: mean_loss(logits, targets), sum(sizes))


def differs(call, wanted, got) -> str:
    factor = ratio(torch.tensor(got[1:]), torch.tensor(wanted[1:]))
    told = f"{factor:.4g} times those of one process" if factor else "not those of one process"
    told = "right" if factor and close_in_float32(factor, 1.0) else told
    return f"the loss is {got[0]:.8g}, expected {wanted[0]:.8g}; the gradients are {told}"


def report_loss(calls, values) -> str:
    return f"the gradients and the loss of one process, {values[0][0]:.4f}"


class BatchFormula(Formula):
    """A formula for each micro-batch, judged by the loss and the gradients of a whole batch."""

    def build_case_formula(self):
        if isinstance(self.truth, KnownValues):  # its calls have the arguments of cases
            return Formula(**vars(self))
        mistakes = [(why, partial(batch, function)) for why, function in self.mistakes]
        return Formula(**vars(self) | {"truth": run_whole_batch, "mistakes": mistakes})

    def examine(self, answer):
        return self.build_case_formula().examine(partial(batch, answer))


SIZES = [(2, 2, 2, 2), (4, 3, 1), (3,)]

EXERCISE = BatchFormula(
    "part_of_loss",
    cases={f"micro-batches of {' '.join(map(str, of))} samples": [of] for of in SIZES},
    truth=truth,
    right=report_loss,
    differs=differs,
    errors={
        "float": NO_GRAPH,
        "does not have a grad_fn": NO_GRAPH,
        "'NoneType'": "it returned None: a function without `return` does",
        "implicitly created only for scalar": ONE_NUMBER,
        "'tuple'": ONE_NUMBER,
        "a second time": "the loss goes back elsewhere, once for each micro-batch: return it, and "
        "call no backward() here",
        "modified by an inplace operation": "logits and targets belong to the caller: look at what "
        "the function is given, and leave it as it is",
        "'mean_loss' is not defined": "run the cell that defines mean_loss first",
        "input batch_size": "mean_loss takes logits (samples, context, characters) and targets "
        "(samples, context) as they are",
    },
    mistakes=MISTAKES,
    hints=(
        "Gradients of micro-batches are added up. What has to be added up, so that the sum is "
        "the mean over the whole batch?",
        "A micro-batch's mean is a sum divided by its own samples; it should have been divided "
        "by those of the batch.",
        "So multiply the mean by len(targets) / batch_samples. With 1/m it is right only as "
        "long as all micro-batches are equally large.",
    ),
)  # fmt: skip
