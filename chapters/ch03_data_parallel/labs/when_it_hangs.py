"""A training loop in which one rank falls out of step, and PyTorch's own tools to find out why.

torchrun --nproc-per-node 4 labs/when_it_hangs.py        prints each rank's view of three mistakes
"""

import contextlib
import faulthandler
import json
import os
import random
import re
import tempfile
import time
import timeit
from datetime import timedelta
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

LEFT, OPERATION, SHAPE = MISTAKES = ("it left", "another operation", "another shape")
STEPS, WRONG_STEP = 6, 3  # steps count from 0
SECONDS = 1.5  # for which a rank waits for the others
RIDDLE = 6  # seed of the draw when this file runs as a program
NO_CALL = "no call"


# ---- A loop with a mistake ---------------------------------------------------------------------


def draw_ranks(world_size, seed=None) -> dict[str, int]:
    """Draw the rank that makes each mistake, never rank 0. The same seed draws the same ranks."""
    chance = random.Random(seed)
    return {mistake: chance.randrange(1, world_size) for mistake in MISTAKES}


def train(group, mistake="", guilty=2):
    """Train for six steps on drawn samples; in step 3, the guilty rank makes the mistake.

    In every step, each rank makes two calls: one sums gradients, and the other sums two counts.
    """
    model = nn.Linear(16, 4)
    for step in range(STEPS):
        is_wrong = step == WRONG_STEP and dist.get_rank(group) == guilty
        if is_wrong and mistake == LEFT:
            return  # its part of the data has one batch fewer
        if is_wrong and mistake == OPERATION:
            dist.barrier(group=group)  # only this rank saves a file, and it waits for the others
        inputs, labels = torch.randn(32, 16), torch.randint(4, (32,))
        outputs = model(inputs)
        slopes = torch.autograd.grad(F.cross_entropy(outputs, labels), [*model.parameters()])
        dist.all_reduce(torch.cat([slope.flatten() for slope in slopes]), group=group)
        counts = [(outputs.argmax(1) == labels).sum(), torch.tensor(len(labels))]
        if is_wrong and mistake == SHAPE:
            counts.append(torch.tensor(0))  # it also counts skipped samples
        dist.all_reduce(torch.stack(counts).float(), group=group)


def new_group(seconds=SECONDS, is_checked=False):
    """Make a group of all ranks; is_checked adds the checks of TORCH_DISTRIBUTED_DEBUG=DETAIL."""
    level = dist.get_debug_level()
    dist.set_debug_level(dist.DebugLevel.DETAIL if is_checked else dist.DebugLevel.OFF)
    group = dist.new_group(timeout=timedelta(seconds=seconds))
    dist.set_debug_level(level)
    return group


def observe_mistake(mistake, guilty=2, is_checked=False) -> dict:
    """Return this rank's view of a mistake: seconds to its error, the error, and its last calls.

    `calls` are those of the group, as from `read_flight_recorder`; `record` is the whole record.
    """
    group, began = new_group(is_checked=is_checked), time.perf_counter()
    error = error_of(train, group, mistake, guilty)
    seconds = time.perf_counter() - began
    found = {"calls": read_flight_recorder(group), "record": read_record()}
    dist.barrier()  # of the world, which is in step: no rank leaves before all have looked
    return {"seconds": seconds, "error": error} | found


def add_unequal(odd=2, tries=3) -> list[str]:
    """Return this rank's results of all-reduces of [1, 10], if rank `odd` brings [1, 10, 100]."""
    told = []
    for _ in range(tries):
        group = new_group(0.5)
        x = torch.tensor([1.0, 10.0, 100.0] if dist.get_rank() == odd else [1.0, 10.0])
        error = error_of(dist.all_reduce, x, group=group)
        told.append(f"{x[:2].int().tolist()}{', error' if error else ''}")
        dist.barrier()  # of the world: no rank goes on before all are done
    return told


def error_of(call, *args, **options) -> str:
    """Return PyTorch's message if this call fails, and an empty string if it does not."""
    try:
        with silence_stderr():
            call(*args, **options)
    except RuntimeError as error:
        return str(error)
    return ""


@contextlib.contextmanager
def silence_stderr():
    """Silence stderr, where PyTorch's log would show its errors a second time."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def meet(absent, seconds=1.0) -> str:
    """Return a monitored barrier's report to this rank if the `absent` ranks do not join."""
    if dist.get_rank() in absent:
        return "it did not come"
    wait = {"timeout": timedelta(seconds=seconds), "wait_all_ranks": True}
    error = error_of(dist.monitored_barrier, **wait)
    return shorten_error(error, 78) if error else "all have come"


# ---- The flight recorder -----------------------------------------------------------------------


def read_flight_recorder(group) -> list[dict]:
    """Return this rank's last calls in the group from PyTorch's flight recorder, oldest first.

    Each is {"number": 7, "name": "all_reduce", "shape": [68]}, where the number counts the group's
    calls from 1. The recorder keeps the last ones, as many as TORCH_FR_BUFFER_SIZE says.
    Source  torch.distributed's flight recorder; this way to read it is no public interface
    """
    return [
        {
            "number": entry["collective_seq_id"],
            "name": entry["profiling_name"].partition(":")[2],
            "shape": next(iter(entry["input_sizes"]), []),
        }
        for entry in all_recorded()
        if entry["process_group"][0] == group.group_name
    ]


def read_record() -> dict:
    """Return all that the flight recorder of this rank holds; its calls are the `entries`."""
    return json.loads(torch._C._distributed_c10d._dump_fr_trace_json())


def all_recorded() -> list[dict]:
    return read_record()["entries"]


def find_guilty(dumps):
    """Exercise {{find_guilty}}. Find the rank that fell out of step, at which call, and how.

    dumps   for each rank, a list of its recorded calls, as from `read_flight_recorder`
    Returns (rank, number of the first call at which it differs from most others, mistake), where
            the mistake is LEFT, OPERATION or SHAPE, which are names in this file
    """
    ### BEGIN SOLUTION
    calls = [{call["number"]: (call["name"], call["shape"]) for call in dump} for dump in dumps]
    first = max(min(of_rank, default=1) for of_rank in calls)
    last = max(max(of_rank, default=0) for of_rank in calls)
    for number in range(first, last + 1):
        seen = [of_rank.get(number) for of_rank in calls]
        if seen.count(seen[0]) < len(seen):
            break
    rank = next(rank for rank, one in enumerate(seen) if seen.count(one) == 1)
    usual = seen[rank - 1]
    if seen[rank] is None:
        return rank, number, LEFT
    return rank, number, OPERATION if seen[rank][0] != usual[0] else SHAPE
    ### END SOLUTION


def squares(dumps, numbers) -> dict:
    """Return (operation, shape, whether most others differ) of each rank's calls, for a picture."""
    table = [{call["number"]: call for call in dump} for dump in dumps]
    rows = {f"rank {rank}": {} for rank in range(len(dumps))}
    for number in numbers:
        kinds = [kind_of(of_rank.get(number)) for of_rank in table]
        for row, (name, shape) in zip(rows.values(), kinds, strict=True):
            is_odd = 2 * kinds.count((name, shape)) < len(kinds)
            row[number] = name, "none" if is_odd and name == NO_CALL else shape, is_odd
    return rows


def kind_of(call) -> tuple[str, str]:
    return (call["name"], "×".join(map(str, call["shape"]))) if call else (NO_CALL, "")


# ---- Where a rank waits ------------------------------------------------------------------------


def stack_while_waiting(guilty=2, seconds=0.5) -> str:
    """Return this rank's Python stack `seconds` after training begins; the guilty rank leaves."""
    group = new_group(seconds=4 * seconds)
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback_later(seconds, file=file)
        with contextlib.suppress(RuntimeError):
            train(group, LEFT, guilty)
        faulthandler.cancel_dump_traceback_later()
        dist.barrier()
        file.seek(0)
        mine = file.read().partition("\n\nThread")[2]  # this thread's part, the last one
        places = re.findall(rf"({Path(__file__).name})\", line (\d+) in (\w+)", mine)
        return " ← ".join(f"{name}:{line} in {function}" for name, line, function in places)


# ---- The cost of checks ------------------------------------------------------------------------


def price_of_checks(calls=20, rounds=5) -> dict:
    """Return {"without": (seconds, [recorded calls]), "with": …} of one small all-reduce, without
    checks and with them; the seconds are those of the fastest round."""
    prices = {}
    for name, is_checked in {"without": False, "with": True}.items():
        group, x = new_group(60.0, is_checked), torch.ones(4)
        dist.all_reduce(x, group=group)
        before = len(all_recorded())
        dist.all_reduce(x, group=group)
        parts = [entry["profiling_name"].partition(":")[2] for entry in all_recorded()[before:]]
        seconds = timeit.repeat(partial(dist.all_reduce, x, group=group), number=calls,
                                repeat=rounds)  # fmt: skip
        prices[name] = (min(seconds) / calls, parts)
    return prices


# ---- Texts -------------------------------------------------------------------------------------


def shorten_error(error, length=110) -> str:
    """Shorten an error to `length` characters, without the place in PyTorch's source."""
    if "mismatch" in error:
        return ", but ".join(fingerprint(part) for part in error.split(", but ")[:2])
    said = error.partition("] ")[2] if error.startswith("[/") else error or "no error"
    said = " ".join(said.split())
    return said if len(said) <= length else f"{said[:length]}…"


def rows_of(runs) -> list[list]:
    """Return a table's rows: the view of every rank in each run, {mistake: [view of each rank]}."""
    return [[mistake, rank, f"{one['seconds']:.1f} s", shorten_error(one["error"])]
            for mistake, ranks in runs.items() for rank, one in enumerate(ranks)]  # fmt: skip


def find_blamed_ranks(errors) -> list[int]:
    """Return the ranks that all errors of DETAIL's checks name, or those that rank 0 misses."""
    if missing := re.search(r"Ranks ([\d, ]+) failed to pass", errors[0]):
        return [int(rank) for rank in missing[1].split(",")]
    named = [set(re.findall(r"Rank (\d+) is running", e)) for e in errors if "mismatch" in e]
    return sorted(map(int, set.intersection(*named))) if named else []


def fingerprint(part) -> str:
    """Return `rank 0 calls ALLREDUCE of [68]`, from one half of a message on calls that differ."""
    rank, name = re.search(r"Rank (\d+).*?OpType=(\w+)", part).groups()
    shape = re.search(r"TensorShape=(\[[\d, ]*\])", part)
    return f"rank {rank} calls {name}{f' of {shape[1]}' if shape else ''}"


# ---- As a program ------------------------------------------------------------------------------


def main():
    dist.init_process_group("gloo")
    for mistake, guilty in draw_ranks(dist.get_world_size(), RIDDLE).items():
        seen = observe_mistake(mistake, guilty)
        last = ", ".join(f"{c['number']} {c['name']} {c['shape']}" for c in seen["calls"][-2:])
        ended = "timed out" if "Timed out" in seen["error"] else shorten_error(seen["error"], 10)
        dist.barrier()
        say(f"{mistake}, rank {dist.get_rank()}: {last}   ({ended})")
        dist.barrier()
    dist.destroy_process_group()


def say(line):
    os.write(1, f"{line}\n".encode())  # in one piece, as all ranks write into the same pipe


if __name__ == "__main__":
    main()
