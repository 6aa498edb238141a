"""The right results, and the results of known mistakes."""

from coursekit.kit import complains
from coursekit.kit.reference_training import WRONG_LOSSES, ends_of_wrong_loops, uneven_loss
from pedagogy_lib.basics.closeness import close

from .cases import alone, union_of


def mistakes(trial, place):
    outputs_only = (
        "this makes a number of the outputs, their {}, and it is not the loss: that depends on the "
        "targets"
    )
    return {
        **ends_of_wrong_loops(union_of(trial), trial.n, trial.case.args[0], uneven_loss),
        **{why: alone(trial, loss_fn=loss_fn)[0][-1] for why, loss_fn in WRONG_LOSSES.items()},
        outputs_only.format("sum"):
            alone(trial, loss_fn=lambda outputs, _: outputs.sum() / trial.n)[0][-1],
        outputs_only.format("mean"): alone(trial, loss_fn=lambda outputs, _: outputs.mean())[0][-1],
    }  # fmt: skip


@complains
def steps_have_gradients(trial):
    """Complain of wrong weights if steps are missing or run without the right gradient."""
    found, (_, steps) = trial[0].followed, trial.case.args
    if all(close(of.weights, alone(trial)[0][-1]) for of in trial):
        return
    if found and not any(gradient.any() for gradient in found):
        yield describe_norms(trial, 0), (
            "the steps find no gradient: it is cleared after backward() has put it there, and "
            "before the step that needs it"
        )  # fmt: skip
    if not found:
        yield f"expected {steps} steps of the optimizer that was given, got none", (
            "that optimizer has to take the steps: its learning rate and its state are part of "
            "the training. Changing weights by hand, or with another optimizer, is not the same"
        )  # fmt: skip
    if len(found) != steps:
        what = f"expected {steps} optimizer steps, got {len(found)}"
        yield what, "each batch has its backward and then its step: both belong into the loop"
    if not found[0].any():
        yield describe_norms(trial, 0), (
            "the step comes before the backward of its batch: it follows the gradient of the batch "
            "before, and the first step none"
        )  # fmt: skip


def describe_norms(trial, place) -> str:
    found, right = (norms(followed) for followed in (trial[place].followed, alone(trial)[1]))
    return f"gradients that steps follow have norms {found}; in one process {right}"


def norms(gradients) -> str:
    return ", ".join(f"{gradient.norm():.2f}" for gradient in gradients)
