"""An answer in the exam, whose actions are recorded in the exam's store."""

import os
import time

import torch
import torch.distributed as dist

from .chaos_plans import TWO_KILLS

LATE_SECONDS = 8.0  # at most, until the others have gone on without it
FEWEST = 3  # ranks that can tell which one is wrong
SAVED, FEW = "saved", "few"  # keys of the records


def sit(answer, plan, place, disk, steps, name):
    """Run the exam in one of its processes."""

    def keep_going(training, crew, *args):
        note_saves(training, getattr(answer.lab, answer.__name__).__globals__)
        note_few(training)
        type(training).gradients_of.__globals__["HAPPENS"]["wrong weights"] = flip_a_bit
        if name == TWO_KILLS and int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)):
            come_late(crew)
        return answer(training, crew, *args)

    return answer.lab.sit_exam(keep_going, plan, place, disk, None, steps)


def come_late(crew):
    """Wait, like a process that starts slowly, until the others have met again without it."""
    until = time.monotonic() + LATE_SECONDS
    while crew.last_meeting() < 2 and time.monotonic() < until:
        time.sleep(0.02)


def flip_a_bit(training):
    """Flip the top bit of a weight's fraction; the lab's bit is hardly more than rounding here.

    The weight's pixel is always black, so no gradient shows it.
    """
    weights = training.model[0].weight.detach().flatten()
    weights.view(torch.int64)[len(weights) // 2] ^= 1 << 51


def note(training, what, number):
    training.store.append(what, f"{training.rank},{os.getpid()},{number};")


def note_saves(training, scope):
    """Record who saves and after which step; `scope` is where the answer finds save_alone."""
    save = scope["save_alone"]

    def save_alone(folder, step, *args, **kwargs):
        note(training, SAVED, step)
        return save(folder, step, *args, **kwargs)

    scope["save_alone"] = save_alone


def note_few(training):
    """Record who takes a step in too small a group."""
    exposed = type(training)
    update = exposed.update

    def update_and_note(self, whole):
        n = dist.get_world_size() if dist.is_initialized() else 1
        if n < FEWEST:
            note(self, FEW, n)
        update(self, whole)

    exposed.update = update_and_note


def parse_notes(chaos, place, what) -> list[tuple[int, int, str]]:
    """Return [(rank, pid, number), …]."""
    return [
        (int(rank), int(pid), number) for rank, pid, number in chaos.read_store_lines(place, what)
    ]
