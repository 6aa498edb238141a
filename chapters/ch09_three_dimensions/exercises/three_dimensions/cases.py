"""The code that runs next to the answer, and its inputs."""

from functools import partial

import torch

from coursekit.kit import Rejection, measure_answer
from coursekit.kit.results import NO_RETURN

SIZES = {"width": 8, "heads": 2, "layers": 2, "context": 6}

STEPS, SAMPLES = 2, 4  # SAMPLES of each copy

SHORT, LONG = 0.3, 1e3  # limits on the norm: all gradients exceed SHORT, none LONG

sgd = partial(torch.optim.SGD, lr=0.5)

SHARES = (
    "each copy computes with its own share of the batch, in one call of the pipeline's step with "
    "all "
    "its micro-batches"
)


def batch_of(number, dp):
    chance = torch.Generator().manual_seed(number)
    letters = torch.randint(128, (SAMPLES * dp, SIZES["context"] + 1), generator=chance)
    return letters[:, :-1], letters[:, 1:]


def train(answer, group, case):
    (sizes, longest), lab = case.args, answer.lab
    torch.set_default_dtype(torch.float64)
    try:
        mesh, model = lab.Mesh(sizes, lab.JOINT), lab.whole_model(**SIZES)
        engine, losses, changed = answer(model, mesh, 2, sgd, longest), [], False
        for number in range(STEPS):
            batch = batch_of(number, sizes["dp"])
            with measure_answer():
                losses.append(engine.step(*batch))
            changed |= not all(map(torch.equal, batch, batch_of(number, sizes["dp"])))
        if None in losses:
            raise Rejection("step() returned None", NO_RETURN)
        seen = sum(map(len, engine.pipeline.inputs))
        if seen != SAMPLES:
            what = f"the pipeline went through {seen} samples, of a share of {SAMPLES}"
            raise Rejection(what, SHARES)
        mine = {id(p) for p in engine.parameters}
        weights = {
            name: lab.whole(p, mesh["tp"]).clone()
            for name, p in model.named_parameters() if id(p) in mine
        }  # fmt: skip
    finally:
        torch.set_default_dtype(torch.float32)
    return {
        "weights": weights,
        "changed": changed,
        "losses": [float(loss) for loss in losses],
    }
