"""The cases, and the code that runs next to the answer."""

import io
import pickle
import random

import torch
import torch.distributed as dist

from coursekit.kit import Rejection

SAMPLES = 160

# {part of the state on which the next step depends: diagnosis}, in the order of the reports.
WHY = {
    "weights": "the weights are those of a fresh model: self.model has a state_dict()",
    "moments": "AdamW keeps two moments for each weight, and counts steps. Without them it begins "
    "as if there had been none: self.optimizer has a state_dict()",
    "learning rate": "the learning rate is in the optimizer's state: self.optimizer has a "
    "state_dict()",
    "schedule": "the schedule counts its own steps. What the optimizer keeps is only the rate of "
    "now; the next ones come from that count: self.schedule has a state_dict()",
    "scale": "the scaler has grown: with the factor of a fresh one, small gradients vanish or "
    "large ones overflow at other steps. self.scaler has a state_dict()",
    "epoch": "the samples of each epoch are shuffled in their own order: with another epoch, other "
    "samples come next",
    "position": "the epoch is read from its beginning again: some samples count twice, and all "
    "later ones come at another step",
    "steps": "the numbers go on rightly, but nobody knows at which step: the next checkpoint gets "
    "a wrong name, and training ends too late",
    "torch's generator": "dropout draws from torch's generator: torch.get_rng_state(), on each "
    "rank its own",
    "Python's generator": "images are moved by what Python's `random` draws: random.getstate()",
}

PARTS = {"model": "weights", "optimizer": "moments", "schedule": "schedule", "scaler": "scale"}

READABLE = (
    "torch.load reads tensors, numbers, texts, and dicts, lists and tuples of them; all else could "
    "run a program when it is read. Take what state_dict() and the generators give"
)


def data_of(samples=SAMPLES):
    """Return images and labels, the same on every rank."""
    chance = torch.Generator().manual_seed(0)
    images = torch.rand(samples, 64, generator=chance)
    return images, torch.randint(10, (samples,), generator=chance)


def look_at(training) -> dict:
    """Return all that the next step depends on, as it is now: {name: comparable value}."""
    optimizer, scaler = training.optimizer.state_dict(), training.scaler.state_dict()
    return {
        "weights": serialise_value([p.detach() for p in training.model.parameters()]),
        "moments": serialise_value(optimizer["state"]),
        "learning rate": [group["lr"] for group in optimizer["param_groups"]],
        "schedule": training.schedule.last_epoch,
        "scale": (scaler["scale"], scaler["_growth_tracker"]),
        "epoch": training.epoch,
        "position": training.position,
        "steps": training.steps,
        "torch's generator": serialise_value(torch.get_rng_state()),
        "Python's generator": random.getstate(),
    }


def serialise_value(value) -> bytes:
    """Return bytes that are equal for equal values, wherever tensors lie in memory."""
    if isinstance(value, torch.Tensor):
        return value.contiguous().numpy().tobytes()
    if isinstance(value, dict):
        return b"".join(pickle.dumps(key) + serialise_value(part) for key, part in value.items())
    if isinstance(value, list | tuple):
        return b"".join(map(serialise_value, value))
    return pickle.dumps(value)


def there_and_back(state):
    """Save and load a state, as a file would store it."""
    buffer = io.BytesIO()
    try:
        torch.save(state, buffer)
        buffer.seek(0)
        return torch.load(buffer)
    except Exception as error:
        first = str(error).strip().splitlines()[0]
        raise Rejection(f"torch.load cannot read what was saved: {first:.120}", READABLE) from None


def resume(answer, group, case):
    before, after, dtype = case.args
    training = answer(data_of(), dtype)
    for _ in range(before):
        training.step()
    saved = look_at(training)
    state, looked = there_and_back(training.state_dict()), look_at(training)
    need_parts(state)
    losses = [training.step() for _ in range(after)]
    torch.manual_seed(1000 + dist.get_rank())  # a new process begins with other seeds
    random.seed(1000 + dist.get_rank())
    fresh = answer(data_of(), dtype)
    fresh.load_state_dict(state)
    loaded = look_at(fresh)
    again = [fresh.step() for _ in range(after)]
    return {"saved": saved, "looked": looked, "loaded": loaded, "losses": losses, "again": again}


def need_parts(state):
    if not isinstance(state, dict):
        raise Rejection(f"state_dict() returned {state!r:.40}", "it returns a dict")
    for name, about in PARTS.items():
        if name not in state:
            raise Rejection(f'the dict has nothing called "{name}"', WHY[about])
