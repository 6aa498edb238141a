"""What a rank sees of a whole program: it trains, evaluates, saves, is broken off, and goes on."""

import contextlib
import io
import shutil
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import torch
import torch.distributed as dist

from ..kit import answering
from ..kit.one_process import flat
from . import one_program as one

NAME = "checkpoint.pt"


def keep_promises(answer, group, case):
    """Train, evaluate, save, break off while saving, and go on from the file."""
    parts, most = case.args
    folder = [tempfile.mkdtemp(prefix="train-") if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)
    try:
        return trained_in(Path(folder[0]), answer, parts, most)
    finally:
        dist.barrier()
        if dist.get_rank() == 0:
            shutil.rmtree(folder[0], ignore_errors=True)


def trained_in(folder, answer, parts, most):
    own = folder / f"of-{dist.get_rank()}"
    own.mkdir()
    options = SimpleNamespace(epochs=one.EPOCHS, batch=one.BATCH, parts=parts, clip=most,
                              precision="float64", file=str(own / NAME))  # fmt: skip
    training = answer(one.data_of(), options)
    found = {"start": flat(training.model.parameters()), "weights": [], "losses": []}
    sizes, graphs = sizes_of(training.model), graphs_of(training)
    for epoch in range(one.EPOCHS):
        with answering() if epoch == 1 else contextlib.nullcontext():
            found["losses"].append(number(training.train_epoch()))
        found["weights"].append(flat(training.model.parameters()))
    found["most"] = max(size for size, _ in sizes) - one.BATCH // dist.get_world_size() // parts
    found["kept"] = any(graphs)
    found["bytes"] = flat(training.model.parameters()).nbytes
    return (
        found
        | evaluated(training, sizes)
        | saved(training, own)
        | went_on(training, answer, folder)
    )


def number(value):
    return value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value


def sizes_of(model) -> list:
    """Gets (samples, whether autograd notes) of each forward of a model."""
    found = []
    model.register_forward_pre_hook(
        lambda _, inputs: found.append((len(inputs[0]), torch.is_grad_enabled()))
    )
    return found


def graphs_of(training) -> list:
    """Gets whether what backward() returns still has its graph, for each call."""
    found, backward = [], training.backward

    def noted(images, labels):
        loss = backward(images, labels)
        found.append(isinstance(loss, torch.Tensor) and loss.requires_grad)
        return loss

    training.backward = noted
    return found


def evaluated(training, sizes):
    """Of eleven test images, seven are right: the labels are chosen so."""
    with torch.no_grad():
        labels = training.model(training.tests).argmax(1)
    labels[list(one.WRONG)] += 1
    training.test_labels = labels % 10
    sizes.clear()
    before = flat(training.model.parameters())
    share = number(training.evaluate())
    return {
        "share": share,
        "seen": [size for size, _ in sizes],
        "graph": any(noted for _, noted in sizes),
        "left": not training.model.training,
        "moved": not torch.equal(before, flat(training.model.parameters())),
    }


class BrokenOff(Exception):
    """The machine is switched off while it saves."""


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


def saved(training, own):
    """Which files a rank has written, what is in the checkpoint, and after a broken second save."""
    training.save()
    files, epochs = sorted(path.name for path in own.iterdir()), []
    if NAME in files and dist.get_rank() == 0:
        epochs.append(epoch_in(own / NAME))
        with (
            mock.patch.object(torch, "save", partial(half_of, torch.save)),
            mock.patch.object(dist, "barrier", lambda *args, **kwargs: None),
            contextlib.suppress(BrokenOff),
        ):
            training.save()
        epochs.append(epoch_in(own / NAME))
    return {"files": files, "epochs": epochs}


def epoch_in(path):
    """The number of the epoch in a checkpoint; what is wrong with it, if it cannot be read."""
    try:
        state = torch.load(path)
        return state["epoch"] if set(state) == {"model", "optimizer", "epoch"} else "other keys"
    except Exception as error:
        return f"{type(error).__name__}"


def went_on(training, answer, folder):
    """The weights after one more epoch, without a break and from the file."""
    training.options.file = str(folder / NAME)
    training.save()
    dist.barrier()
    if not isinstance(epoch_in(training.options.file), int):  # told already
        return {}
    again = answer(one.data_of(), training.options)
    again.resume()
    for each in (training, again):
        each.train_epoch()
    return {"one_more": flat(training.model.parameters()), "again": flat(again.model.parameters())}
