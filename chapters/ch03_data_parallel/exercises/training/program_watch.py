"""A rank's view of a program that trains, evaluates, saves, is broken off and goes on."""

import contextlib
import io
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import torch
import torch.distributed as dist

from coursekit.kit import measure_answer
from coursekit.kit.rank_trials import make_shared_folder
from coursekit.kit.reference_training import flat

from . import one_program as one
from .save_watch import calls_of_save, what_happens_to

NAME = "checkpoint.pt"


def keep_promises(answer, group, case):
    """Train, evaluate, save, break off while saving and go on from the file."""
    parts, most, *precision = case.args
    if precision:
        return try_precision(answer, options_with(parts, most, precision[0]))
    return train_in_folder(make_shared_folder(), answer, parts, most)


def train_in_folder(folder, answer, parts, most):
    own = folder / f"of-{dist.get_rank()}"
    own.mkdir()
    training = answer(one.data_of(), options_with(parts, most, file=own / NAME))
    found = {"start": flat(training.model.parameters()), "weights": [], "losses": []}
    sizes, returned = sizes_of(training.model), watch_backward_returns(training)
    kept = count_pending_forwards(training.model)
    for epoch in range(one.EPOCHS):
        with measure_answer() if epoch == 1 else contextlib.nullcontext():
            found["losses"].append(number(training.train_epoch()))
        found["weights"].append(flat(training.model.parameters()))
    found["most"] = max(size for size, *_ in sizes) - one.BATCH // dist.get_world_size() // parts
    found["together"] = max(kept) - 1
    found["kinds"] = sorted({kind for kind, _ in returned} - {"Tensor"})
    found["kept"] = any(has_graph for _, has_graph in returned)
    found["bytes"] = flat(training.model.parameters()).nbytes
    found |= try_evaluation(training, sizes) | try_saving(training, own)
    writes = [None] * dist.get_world_size()
    dist.all_gather_object(writes, found["writes"])
    one_writes = not any(writes[1:])  # otherwise reported already, and they would race
    return found | (went_on(training, answer, folder) if one_writes else {})


def number(value):
    return value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value


def options_with(parts, most, precision="float64", file=""):
    return SimpleNamespace(epochs=one.EPOCHS, batch=one.BATCH, parts=parts, clip=most,
                           precision=precision, file=str(file))  # fmt: skip


def sizes_of(model) -> list:
    """Return a list that gets (samples, autograd is on, model trains) of each forward."""
    found = []
    model.register_forward_pre_hook(
        lambda _, x: found.append((len(x[0]), torch.is_grad_enabled(), model.training))
    )
    return found


def count_pending_forwards(model) -> list:
    """Return a list that gets, at each forward, the number of forwards without a backward yet."""
    found, to_come = [0], [0]

    def forward(*_):
        to_come[0] += 1
        found.append(to_come[0])

    def backward(_):
        to_come[0] -= 1

    model.register_forward_pre_hook(forward)
    next(model.parameters()).register_post_accumulate_grad_hook(backward)
    return found


def watch_backward_returns(training) -> list:
    """Return a list that gets (type, has a graph) of the value that each backward() returns."""
    found, backward = [], training.backward

    def note_loss(images, labels):
        loss = backward(images, labels)
        found.append((type(loss).__name__, isinstance(loss, torch.Tensor) and loss.requires_grad))
        return loss

    training.backward = note_loss
    return found


def try_precision(answer, options):
    """Return the dtypes of the logits and the loss, and whether the backward is under autocast."""
    training, logits, inside = answer(one.data_of(), options), [], []
    training.model.register_forward_hook(lambda *args: logits.append(str(args[2].dtype)))
    for p in training.model.parameters():
        p.register_post_accumulate_grad_hook(
            lambda _: inside.append(torch.is_autocast_enabled("cpu"))
        )
    share = one.BATCH // dist.get_world_size()
    images, labels, *_ = one.data_of()
    loss = training.backward(images[:share].float(), labels[:share])
    return {
        "logits": logits[0],
        "loss_in": str(getattr(loss, "dtype", None)),
        "inside": any(inside),
    }


def try_evaluation(training, sizes):
    """Evaluate on eleven test images, whose labels are chosen so that seven are right."""
    with torch.no_grad():
        labels = training.model(training.tests).argmax(1)
    labels[list(one.WRONG)] += 1
    training.test_labels = labels % 10
    sizes.clear()
    wrapped = sizes_of(training.ddp)
    before = flat(training.model.parameters())
    share = number(training.evaluate())
    return {
        "share": share,
        "seen": [size for size, *_ in sizes],
        "graph": any(noted for _, noted, _ in sizes),
        "trains": any(trains for *_, trains in sizes),
        "wrapped": bool(wrapped),
        "left": not training.model.training,
        "moved": not torch.equal(before, flat(training.model.parameters())),
    }


class BrokenOff(Exception):
    """An error that stands for a kill of the program while it saves."""


def half_of(save, state, file, *args, **kwargs):
    whole = io.BytesIO()
    save(state, whole, *args, **kwargs)
    data = whole.getvalue()[: whole.tell() // 2]
    if hasattr(file, "write"):
        file.write(data)
        file.flush()
    else:
        Path(file).write_bytes(data)
    raise BrokenOff


def try_saving(training, own):
    """Return a rank's files, the epoch in the checkpoint, and the one after a broken save.

    The second save is watched: the old file has to stay until the new one takes its name.
    """
    with calls_of_save() as calls:
        training.save()
    files, epochs = sorted(path.name for path in own.iterdir()), []
    with what_happens_to(own / NAME) as harms:
        training.save()
    if NAME in files and dist.get_rank() == 0:
        epochs.append(epoch_in(own / NAME))
        with (
            mock.patch.object(torch, "save", partial(half_of, torch.save)),
            mock.patch.object(dist, "barrier", lambda *args, **kwargs: None),
            contextlib.suppress(BrokenOff),
        ):
            training.save()
        epochs.append(epoch_in(own / NAME))
    return {"files": files, "epochs": epochs, "writes": bool(files or calls), "harms": harms}


def epoch_in(path):
    """Return the epoch in a checkpoint, or a description of the error if it cannot be read."""
    try:
        state = torch.load(path)
        return state["epoch"] if set(state) == {"model", "optimizer", "epoch"} else "other keys"
    except Exception as error:
        return f"{type(error).__name__}"


def went_on(training, answer, folder):
    """Return the weights after one more epoch that begins from the file."""
    training.options.file = str(folder / NAME)
    training.save()
    dist.barrier()
    if not isinstance(epoch_in(training.options.file), int):  # reported already
        return {}
    again = answer(one.data_of(), training.options)
    again.resume()
    again.train_epoch()
    return {"again": flat(again.model.parameters())}
