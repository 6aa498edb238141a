# Built from chapters/ch04_failure_and_recovery/labs/checkpoints.py by `make build`.
"""Checkpoints: the state of a training run, and files that are whole, whatever happens.

torchrun --nproc-per-node 2 labs/checkpoints.py
"""

import hashlib
import io
import json
import os
import random
import re
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from data_parallel import samples_of_rank
from gradient_accumulation import digits
from simple_ddp import average_gradients, start_equal
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

# ---- The state of a training run ------------------------------------------------------------


class Training:
    """Exercise 4.1. A training run that can be saved and resumed bit for bit.

    It has what real ones have: a model with dropout, AdamW, a learning-rate schedule, a loss scaler
    (products are computed in float16), samples that are shuffled anew in each epoch, and images
    that are shifted by a pixel at random. The next step depends on all of it.

    All ranks have the same seed until the model is built, and seed + rank afterwards (chapter 03).

    model       nn.Module; dropout draws from torch's generator
    optimizer, schedule, scaler   PyTorch's own; all three have state_dict() and load_state_dict()
    epoch       the number of this pass over the samples, from 0
    position    how many samples this rank has read in it
    steps       how many steps have been taken
    seed        the same on all ranks
    next_batch  draws the shift of the images from Python's `random`
    """

    BATCH = 16  # samples per rank

    def __init__(self, data=None, dtype=torch.float32, seed=0):
        self.rank, self.n = dist.get_rank(), dist.get_world_size()
        torch.manual_seed(seed)  # all ranks draw the same weights
        images, self.labels, *_ = data or digits()
        self.images = images.to(dtype)
        layers = nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10)
        self.model = nn.Sequential(*layers).to(dtype)
        start_equal(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=5e-3)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, learning_rate)
        device = torch.get_default_device().type
        self.scaler = torch.amp.GradScaler(device, init_scale=2.0**12, growth_interval=8)
        self.epoch = self.position = self.steps = 0
        torch.manual_seed(seed + self.rank)  # and from here on masks and shifts of their own
        random.seed(seed + self.rank)

    def step(self) -> float:
        """Take one step; return this rank's loss."""
        images, labels = self.next_batch()
        with torch.autocast(images.device.type, torch.float16):
            loss = F.cross_entropy(self.model(images), labels)
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        average_gradients(self.model)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.schedule.step()
        self.steps += 1
        return loss.item()

    def next_batch(self) -> tuple[Tensor, Tensor]:
        """Return this rank's next images and labels; after an epoch's last, begin the next one."""
        mine = samples_of_rank(len(self.labels), self.epoch, self.rank, self.n)
        chosen = mine[self.position : self.position + self.BATCH]
        self.position += len(chosen)
        if self.position == len(mine):
            self.epoch, self.position = self.epoch + 1, 0
        device = torch.get_default_device()
        images = shift_by(random.choice((-1, 0, 1)), self.images[chosen])
        return images.to(device), self.labels[chosen].to(device)

    def state_dict(self) -> dict:
        """Return everything that the next step depends on and that a fresh Training does not have.

        Under "model", "optimizer", "schedule" and "scaler" is the state_dict() of each; all else
        that is needed is under names of your own. It holds only tensors, numbers, and dicts, lists
        and tuples of them, because torch.load reads nothing else unasked. Like a module's, it may
        share memory with the training.
        """
        ### BEGIN SOLUTION
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "scaler": self.scaler.state_dict(),
            "place in the data": (self.epoch, self.position),
            "steps": self.steps,
            "torch's generator": torch.get_rng_state(),
            "Python's generator": random.getstate(),
        }
        ### END SOLUTION

    def load_state_dict(self, state: dict):
        """Give this training run the state that another one has saved."""
        ### BEGIN SOLUTION
        for part in ("model", "optimizer", "schedule", "scaler"):
            getattr(self, part).load_state_dict(state[part])
        self.epoch, self.position = state["place in the data"]
        self.steps = state["steps"]
        torch.set_rng_state(state["torch's generator"])
        random.setstate(state["Python's generator"])
        ### END SOLUTION


def learning_rate(step) -> float:
    """Return the rate as a share of the highest one: it rises for 17 steps, then falls."""
    return min((step + 1) / 20, 0.99**step)


def shift_by(pixels, images: Tensor) -> Tensor:
    """Shift images of 8 x 8 pixels to the right; pixels that leave come in again at the left."""
    return images.view(-1, 8, 8).roll(pixels, dims=-1).flatten(1)


def resume_without(data, before, after) -> dict[str, tuple[list, Tensor]]:
    """Train, save, and resume: with all that was saved, and without one part of it at a time.

    A part that is left out is replaced by that of a fresh training run.

    before, after  steps before and after the save
    Returns        {the part left out: (losses, all weights at the end)}; first come "not saved at
                   all", the training run that was not interrupted, and "nothing"
    """
    training = Training(data)
    fresh = copy_of(training.state_dict())
    for _ in range(before):
        training.step()
    state = copy_of(training.state_dict())
    found = {"not saved at all": go_on(training, after)}
    for name in (None, *state):
        training = Training(data)
        training.load_state_dict(copy_of(state if name is None else state | {name: fresh[name]}))
        found[name or "nothing"] = go_on(training, after)
    return found


def go_on(training, steps) -> tuple[list[float], Tensor]:
    losses = [training.step() for _ in range(steps)]
    return losses, parameters_to_vector(training.model.parameters()).detach()


# ---- Files that are whole -------------------------------------------------------------------


def write_whole(path, data: bytes):
    """Exercise 4.2. Write a file so that at every moment the old or the new one exists.

    It may be killed at any moment, the disk may be full, and the power may fail. The data is
    therefore written under another name in the same folder, brought to the disk (os.fsync), and
    renamed (os.replace) when all of it is written. If the file cannot be written, for example
    because the disk is full, the unfinished one is removed, the error is raised, and the old file
    stays as it was. The next call for this file overwrites what a killed process has left behind.

    When it returns, the new file will also survive a power cut, because the folder, which knows its
    name, has been brought to the disk, too.

    path    a str or a Path; the file may exist already
    Raises  OSError
    """
    ### BEGIN SOLUTION
    path = Path(path)
    unfinished = path.with_name(f"{path.name}.unfinished")
    try:
        with open(unfinished, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
    ### END SOLUTION


def sync_folder(path):
    """Bring the names in a folder to the disk."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


# ---- A checkpoint: one file per rank, and a list of them ------------------------------------
#
# checkpoints/step-000050/rank-0.pt, rank-1.pt, …   what each rank has saved
#                         files.json                their sizes and checksums
#
# The folder gets this name when it has all files. Until then it is called "unfinished".

LIST, UNFINISHED = "files.json", "unfinished"


def serialize_state(state) -> bytes:
    """Return a state as the bytes that torch.save writes."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def note_of(data: bytes) -> dict:
    """Return the size and the checksum by which a file is known to be whole."""
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def save(folder, step: int, state: dict, keep=2, group=None) -> str:
    """Write a checkpoint together, each rank its own state, and keep the last `keep` whole ones.

    It counts when every rank has written its part, in a folder that all ranks see. If one rank
    cannot, or rank 0 does not see a part, none counts.

    Returns  "", or what went wrong, the same on all ranks: "rank 1: No space left on device"
    Raises   RuntimeError on all ranks if torch.save cannot write the state of one of them
    Cost     before rank 0 removes a checkpoint, it reads the older ones that stay: are they whole?
    """
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    unfinished = Path(folder, UNFINISHED)
    data, mistake, cause, problem = b"", "", None, ""
    if rank == 0:  # what a save that was killed has left must not pass for a part of this one
        shutil.rmtree(unfinished, ignore_errors=True)
    dist.barrier(group)
    try:
        data = serialize_state(state)
    except Exception as error:  # raised below, on all ranks, because the others wait there
        mistake, cause = f"rank {rank}: {error}", error
    try:
        unfinished.mkdir(parents=True, exist_ok=True)
        write_whole(unfinished / f"rank-{rank}.pt", data)
    except OSError as error:
        problem = f"rank {rank}: {error.strerror}"
    said = [None] * n
    dist.all_gather_object(said, (mistake, problem, note_of(data)), group)
    mistakes, problems, notes = zip(*said)
    if any(mistakes):
        raise RuntimeError(next(filter(None, mistakes))) from cause
    problem = [next(filter(None, problems), "")]
    if rank == 0:
        files = {f"rank-{other}.pt": note for other, note in enumerate(notes)}
        problem[0] = problem[0] or finish(unfinished, step, files, keep)
        if problem[0]:  # now, before any rank writes the next one
            shutil.rmtree(unfinished, ignore_errors=True)
    dist.broadcast_object_list(problem, group_src=0, group=group)
    return problem[0]


def finish(unfinished: Path, step: int, files: dict, keep: int) -> str:
    """Make a checkpoint, on rank 0, of files that are all written; return what went wrong."""
    place = unfinished.with_name(f"step-{step:06}")
    if is_whole(place):
        return f"rank 0: {place.name} exists already, and is whole"
    try:
        if place.exists():
            need_readable(place)  # and so damaged; what cannot be read may be whole
        for name, note in files.items():
            path = unfinished / name
            if not path.exists() or path.stat().st_size != note["bytes"]:
                return f"rank 0 does not see {name}: all ranks have to save in the same folder"
        write_whole(unfinished / LIST, json.dumps({"step": step, "files": files}).encode())
        shutil.rmtree(place, ignore_errors=True)
        os.replace(unfinished, place)
        sync_folder(place.parent)
        remove_old(place, keep)
    except OSError as error:
        return f"rank 0: {error.strerror}"
    return ""


def remove_old(newest: Path, keep: int):
    """Remove all checkpoints that are older than `keep` whole ones; `newest`, just written, stays.

    One that is not whole does not count, so that it never takes the place of one that is.
    """
    others, count = [path for path in oldest_first(newest.parent) if path != newest], 1
    if len(others) < keep:  # none is too many: they need not be read
        return
    for checkpoint in reversed(others):
        if count >= keep:
            shutil.rmtree(checkpoint, ignore_errors=True)
        elif is_whole(checkpoint):
            count += 1


def is_whole(checkpoint: Path) -> bool:
    """Exercise 4.3. Return whether a checkpoint has all files of its list, as written.

    Files may be missing, cut off, or changed, and the list may hold anything; in these cases it is
    not whole. No error is raised. Files that are not in the list do not matter.

    checkpoint  its folder; files.json has {"files": {name: {"bytes": …, "sha256": …}, …}, …}
    """
    ### BEGIN SOLUTION
    try:
        files = json.loads((checkpoint / LIST).read_text())["files"]
        return all(
            note_of((checkpoint / name).read_bytes()) == note for name, note in files.items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
    ### END SOLUTION


def newest_whole(folder) -> Path | None:
    """Return the newest checkpoint that is whole; None if the folder has no checkpoints.

    Raises  OSError if a newer one cannot be read, because it may be whole all the same; ValueError
            if there are checkpoints, but none is whole: training must not begin anew unasked
    """
    checkpoints = oldest_first(Path(folder))
    for checkpoint in reversed(checkpoints):
        if is_whole(checkpoint):
            return checkpoint
        need_readable(checkpoint)
    if checkpoints:
        raise ValueError(
            f"{folder} has checkpoints, but none is whole: move them away to begin anew"
        )
    return None


def list_files(checkpoint: Path) -> list[Path]:
    """Return the files of a whole checkpoint, in the order of the ranks that saved them."""
    names = json.loads((checkpoint / LIST).read_text())["files"]
    return [checkpoint / f"rank-{rank}.pt" for rank in range(len(names))]


def need_readable(checkpoint: Path):
    """Raise the error of a disk that cannot read a file: the file need not be damaged."""
    for path in checkpoint.iterdir():
        if path.is_file():
            path.read_bytes()


def oldest_first(folder: Path) -> list[Path]:
    """Return all finished checkpoints in the order of their steps.

    Raises  OSError if the folder exists and cannot be read
    """
    paths = folder.iterdir() if folder.exists() else ()
    found = (path for path in paths if re.fullmatch(r"step-\d+", path.name))  # no copy beside it
    return sorted(found, key=lambda path: int(path.name[5:]))


def find_newest(folder, group=None) -> Path | None:
    """Return the newest whole checkpoint, the same on all ranks; None if there is none at all.

    Rank 0 looks for it. What newest_whole raises there is raised on all ranks.
    """
    found = [None, None]
    if dist.get_rank(group) == 0:
        try:
            found[0] = newest_whole(folder)
        except (OSError, ValueError) as error:
            found[1] = error
    dist.broadcast_object_list(found, group_src=0, group=group)
    if found[1] is not None:
        raise found[1]
    return found[0]


def load_newest(folder, group=None) -> dict | None:
    """Return this rank's state in the newest whole checkpoint; None if there is no checkpoint.

    Raises  ValueError if it was saved by another number of ranks, or if none is whole; OSError
    """
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    found = find_newest(folder, group)
    if found is None:
        return None
    files = list_files(found)
    if len(files) != n:
        raise ValueError(
            f"{found} was saved by {len(files)} ranks, and these are {n}: the states of random "
            "generators and the places in the data belong to those ranks and cannot be restored"
        )
    return torch.load(found / f"rank-{rank}.pt")


# ---- Saving in the background ---------------------------------------------------------------


class InBackground:
    """Exercise 4.4. A thread that saves while training goes on.

    Training changes its tensors in place. `begin` therefore copies the state, and this copy is
    saved, so that training waits for a copy in memory but not for the disk. Saves run one after
    another: while the previous one is still running, `begin` waits for its end.

    save   called with the copy, in a thread; what it returns is lost if nobody waits for it, so
           let it raise what went wrong
    """

    def __init__(self, save):
        self.save, self.thread, self.running = save, ThreadPoolExecutor(1), None

    def begin(self, state: dict):
        """Begin to save this state, as it is now.

        Raises  the previous save's error, if nobody has waited for it; then nothing begins
        """
        ### BEGIN SOLUTION
        self.wait()
        self.running = self.thread.submit(self.save, copy_of(state))
        ### END SOLUTION

    def wait(self):
        """Wait for the end of what was begun; return what `save` returned, or raise its error.

        Return None if nothing has been begun, or if you have already waited for it.
        """
        ### BEGIN SOLUTION
        if self.running is None:
            return None
        running, self.running = self.running, None
        return running.result()
        ### END SOLUTION


def copy_of(state):
    """Return the same state with separate tensors, on the CPU."""
    if isinstance(state, Tensor):
        return state.detach().to("cpu", copy=True)
    if isinstance(state, dict):
        return {name: copy_of(part) for name, part in state.items()}
    if isinstance(state, list | tuple):
        return type(state)(map(copy_of, state))
    return state


# ---- The program ----------------------------------------------------------------------------


def train_on(folder, steps, every=10, data=None, step=lambda training: training.step()) -> Training:
    """Train up to so many steps, from the newest checkpoint that is whole, if there is one."""
    training = Training(data)
    state = load_newest(folder)
    if state is not None:
        training.load_state_dict(state)
    while training.steps < steps:
        step(training)
        if training.steps % every == 0:
            problem = save(folder, training.steps, training.state_dict())
            if problem and training.rank == 0:
                print(f"step {training.steps} is not saved: {problem}")
    return training


def program(data, steps=40) -> tuple[float, list[str]]:
    """Return how far resumed weights are from uninterrupted ones, and the checkpoints kept."""
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)
    in_one_go = train_on(Path(folder[0], "one go"), steps, data=data)
    train_on(Path(folder[0], "two"), steps // 2, data=data)
    in_two = train_on(Path(folder[0], "two"), steps, data=data)
    weights = [parameters_to_vector(one.model.parameters()) for one in (in_one_go, in_two)]
    gap = (weights[0] - weights[1]).abs().max().item()
    kept = sorted(path.name for path in Path(folder[0], "two").iterdir())
    dist.barrier()
    shutil.rmtree(folder[0], ignore_errors=True)
    return gap, kept


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(program, digits(), world_size=2)
    if run.rank == 0:
        gap, kept = run.values[0]
        print(f"40 steps, in one go and resumed: weights differ by {gap}")
        print(f"checkpoints kept: {', '.join(kept)}")


if __name__ == "__main__":
    main()
