"""The right results, and the results of known mistakes."""

from functools import cache
from types import SimpleNamespace

import torch
import torch.nn.functional as F

from coursekit.kit import Wrong
from coursekit.kit.reference_training import flat, gradients_in, note_gradients
from coursekit.kit.single_rank import run_on_one_rank
from pedagogy_lib.basics.closeness import close

from .cases import SAMPLES, TRAININGS, make_batches, start, train, try_training
from .kept_graphs import why_graphs

A_BIT = 0.1  # as a share of a graph; a number per batch is less


def compute_known_values(case, place) -> dict:
    return compute_all_known_values()[case.args] if case.work is try_training else {}


@cache
def compute_all_known_values() -> dict:
    return run_on_one_rank(train_by_ourselves)


def train_by_ourselves() -> dict:
    found = {}
    for steps, validations, optimizer_type in TRAININGS.values():
        batches, validation = make_batches(steps, 1), make_batches(validations, 2, SAMPLES // 4)
        never = train_alone(batches, validation, optimizer_type, keep=True).gradients
        right = train_alone(batches, validation, optimizer_type)
        found[steps, validations, optimizer_type] = {"right": right, "never_set_back": never}
    return found


def train_alone(batches, validation, optimizer_type, keep=False) -> SimpleNamespace:
    """Train without the answer and return the right values.

    gradients   those that each step finds, followed by the weights after the last step
    validation  losses before the first step and after each step, (1 + steps, batches)
    samples     number of samples of each validation batch
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


def what_may_be_left(trial, place):
    """Return the gradients of the last step, or zeros if the answer has left none."""
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


def describe_result(trial) -> str:
    if not trial.collect_values("needs"):
        return "trained as without validation, and the means are right"
    most = [f"{need.mine:,} bytes ({need.alone:,})" for need in trial[0].needs]
    return f"at most {', '.join(most)}; in brackets training alone"
