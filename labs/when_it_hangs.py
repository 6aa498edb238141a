"""A training loop in which one rank falls out of step, and what PyTorch's own tools tell of it.

torchrun --nproc-per-node 4 labs/when_it_hangs.py        what each rank sees of three mistakes
"""

import contextlib
import datetime
import faulthandler
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

LEFT, OPERATION, SHAPE = MISTAKES = ("it left", "another operation", "another shape")
STEPS, WRONG_STEP = 6, 3  # steps count from 0
SECONDS = 1.0  # that a rank waits for the others
NO_CALL = "no call"
COLORS = re.compile(r"\x1b\[\d*m")  # of a terminal


# ---- A loop with a mistake ---------------------------------------------------------------------


def train(group, mistake="", guilty=2):
    """Six steps of training on drawn samples; in step 3, the guilty rank makes the mistake.

    In every step, each rank makes two calls: it sums gradients, and two counts.
    """
    model = nn.Linear(16, 4)
    for step in range(STEPS):
        is_wrong = step == WRONG_STEP and dist.get_rank(group) == guilty
        if is_wrong and mistake == LEFT:
            return  # its part of the data has one batch fewer
        if is_wrong and mistake == OPERATION:
            dist.barrier(group=group)  # it alone saves a file, and waits for the others to do so
        inputs, labels = torch.randn(32, 16), torch.randint(4, (32,))
        outputs = model(inputs)
        slopes = torch.autograd.grad(F.cross_entropy(outputs, labels), [*model.parameters()])
        dist.all_reduce(torch.cat([slope.flatten() for slope in slopes]), group=group)
        counts = [(outputs.argmax(1) == labels).sum(), torch.tensor(len(labels))]
        if is_wrong and mistake == SHAPE:
            counts.append(torch.tensor(0))  # it also counts how many were skipped
        dist.all_reduce(torch.stack(counts).float(), group=group)


def new_group(seconds=SECONDS, is_checked=False):
    """All ranks, with a timeout of their own; checked as by TORCH_DISTRIBUTED_DEBUG=DETAIL."""
    level = dist.get_debug_level()
    dist.set_debug_level(dist.DebugLevel.DETAIL if is_checked else dist.DebugLevel.OFF)
    group = dist.new_group(timeout=datetime.timedelta(seconds=seconds))
    dist.set_debug_level(level)
    return group


def out_of_step(mistake, guilty=2, is_checked=False) -> dict:
    """What this rank sees of a mistake: seconds until its error, the error, its recorded calls."""
    group, error = new_group(is_checked=is_checked), ""
    began = time.perf_counter()
    try:
        with without_log():
            train(group, mistake, guilty)
    except RuntimeError as raised:
        error = str(raised)
    seconds = time.perf_counter() - began
    calls = recorded_calls(group)
    dist.barrier()  # of the world, which is not out of step: nobody leaves before all have looked
    return {"seconds": seconds, "error": error, "calls": calls}


@contextlib.contextmanager
def without_log():
    """PyTorch writes such errors into its log, too, which is stderr: they would come twice."""
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
    """What a monitored barrier tells this rank if the `absent` ones do not come."""
    told = "it did not come"
    if dist.get_rank() not in absent:
        wait = datetime.timedelta(seconds=seconds)
        try:
            with without_log():
                dist.monitored_barrier(timeout=wait, wait_all_ranks=True)
            told = "all have come"
        except RuntimeError as error:
            told = in_short(str(error), 70)
    return told


# ---- The flight recorder -----------------------------------------------------------------------


def recorded_calls(group) -> list[dict]:
    """This rank's last calls in the group, oldest first, as PyTorch's flight recorder has them.

    Each is {"number": 7, "name": "all_reduce", "shape": [68]}: the number counts the group's calls
    from 1. The recorder keeps the last ones, as many as TORCH_FR_BUFFER_SIZE says.
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


def all_recorded() -> list[dict]:
    """All that this process's recorder has, in the order of the calls."""
    return json.loads(torch._C._distributed_c10d._dump_fr_trace_json())["entries"]


def find_guilty(dumps):
    """Exercise 3.21. Which rank fell out of step, at which call, and how.

    dumps   for each rank, a list of its recorded calls, as from `recorded_calls`
    Returns (rank, number of the call, one of MISTAKES)
    """
    ...  # your code here


def squares(dumps, numbers) -> dict:
    """For a picture: for each rank and call (operation, shape, whether most others differ)."""
    table = [{call["number"]: call for call in dump} for dump in dumps]
    rows = {f"rank {rank}": {} for rank in range(len(dumps))}
    for number in numbers:
        kinds = [kind_of(of_rank.get(number)) for of_rank in table]
        for row, (name, shape) in zip(rows.values(), kinds, strict=True):
            is_odd = 2 * kinds.count((name, shape)) <= len(kinds)
            row[number] = name, "none" if is_odd and name == NO_CALL else shape, is_odd
    return rows


def kind_of(call) -> tuple[str, str]:
    return (call["name"], "×".join(map(str, call["shape"]))) if call else (NO_CALL, "")


# ---- Where a rank stands -----------------------------------------------------------------------


def stack_while_waiting(guilty=2, seconds=0.5) -> str:
    """Where this rank stands in Python `seconds` after it began to train; the guilty one leaves.

    The same two lines at the start of a program tell it of every program that hangs.
    """
    group = new_group(seconds=4 * seconds)
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback_later(seconds, file=file)
        with contextlib.suppress(RuntimeError):
            train(group, LEFT, guilty)
        faulthandler.cancel_dump_traceback_later()
        dist.barrier()
        file.seek(0)
        mine = file.read().partition("\n\nThread")[2]  # this thread's: it comes last
        places = re.findall(rf"({Path(__file__).name})\", line (\d+) in (\w+)", mine)
        return " ← ".join(f"{name}:{line} in {function}" for name, line, function in places)


def py_spy(pid) -> str:
    """What py-spy tells of the main thread of another process; or why it cannot be asked."""
    beside = Path(sys.executable).with_name("py-spy")
    program = str(beside) if beside.exists() else shutil.which("py-spy")
    if program is None:
        return "py-spy is not installed: pip install py-spy"
    done = subprocess.run(
        [program, "dump", "--pid", str(pid)], capture_output=True, text=True, check=False,
        env=os.environ | {"NO_COLOR": "1"},
    )  # fmt: skip
    if done.returncode:
        return f"py-spy may not look into process {pid}: {done.stderr.strip().splitlines()[-1]}"
    stack = COLORS.sub("", done.stdout)
    return "\n".join(stack[stack.index('"MainThread"') :].splitlines()[:4])


# ---- What it costs to be checked ---------------------------------------------------------------


def price_of_checks(calls=20, rounds=5) -> dict:
    """Small all-reduces, `"without"` checks and `"with"`: seconds of one, and what it is made of.

    Returns {"without": (seconds, [names of the recorded calls]), "with": (…)}; the seconds are
            those of the quickest round
    """
    prices = {}
    for name, is_checked in {"without": False, "with": True}.items():
        group, x = new_group(60.0, is_checked), torch.ones(4)
        dist.all_reduce(x, group=group)
        before = len(all_recorded())
        dist.all_reduce(x, group=group)
        parts = [entry["profiling_name"].partition(":")[2] for entry in all_recorded()[before:]]
        seconds = []
        for _ in range(rounds):
            dist.barrier()
            began = time.perf_counter()
            for _ in range(calls):
                dist.all_reduce(x, group=group)
            seconds.append((time.perf_counter() - began) / calls)
        prices[name] = (min(seconds), parts)
    return prices


# ---- Words -------------------------------------------------------------------------------------


def in_short(error, length=110) -> str:
    """An error without the place in PyTorch's source, at most so long."""
    if "mismatch" in error:
        return ", but ".join(fingerprint(part) for part in error.split(", but ")[:2])
    said = error.partition("] ")[2] if error.startswith("[/") else error
    said = " ".join((said or "no error").split())
    return said if len(said) <= length else f"{said[:length]}…"


def fingerprint(part) -> str:
    """`rank 0 calls ALLREDUCE of [68]`, from one half of a message on calls that differ."""
    rank, name = re.search(r"Rank (\d+).*?OpType=(\w+)", part).groups()
    shape = re.search(r"TensorShape=(\[[\d, ]*\])", part)
    return f"rank {rank} calls {name}{f' of {shape[1]}' if shape else ''}"


# ---- As a program ------------------------------------------------------------------------------


def main():
    dist.init_process_group("gloo")
    for mistake in MISTAKES:
        seen = out_of_step(mistake, guilty=min(2, dist.get_world_size() - 1))
        last = ", ".join(f"{c['number']} {c['name']} {c['shape']}" for c in seen["calls"][-2:])
        dist.barrier()
        say(f"{mistake}, rank {dist.get_rank()}: {last}; {in_short(seen['error'], 12)}")
        dist.barrier()
    dist.destroy_process_group()


def say(line):
    """In one piece: all ranks write into the same pipe."""
    os.write(1, f"{line}\n".encode())


if __name__ == "__main__":
    main()
