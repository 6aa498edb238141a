"""How long it takes to start ranks, beside other launchers; and what a rank weighs."""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from peers import NEEDS, WAYS, is_installed
from rows import Row, mb, seconds

HERE = Path(__file__).parent
ENVIRON = os.environ | {"PYTHONPATH": str(HERE.parent)}
WORLD_SIZES = [2, 4, 8]
REPEATS = {"launch": 9, "spawn": 2, "elastic": 5, "notebook_launcher": 3, "ipyparallel": 2}
NAMES = {
    "spawn": "torch.multiprocessing.spawn",
    "elastic": "elastic_launch, forkserver",
    "notebook_launcher": "accelerate.notebook_launcher",
    "ipyparallel": "ipyparallel, new engines",
}
# (way, world size): how many times as long as we it should take at least.
TARGETS = {("spawn", 4): 25.0, ("notebook_launcher", 4): 2.0}


class Program:
    """peers.py, running one way."""

    def __init__(self, way):
        self.process = subprocess.Popen(
            [sys.executable, HERE / "peers.py", way],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=ENVIRON,
            text=True,
            bufsize=1,
        )
        self.read()

    def read(self) -> str:
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(self.process.communicate()[1])
        return line

    def time(self, world_size) -> dict:
        print(world_size, file=self.process.stdin)
        return json.loads(self.read())

    def close(self):
        self.process.communicate()


def repeats(way, world_size) -> int:
    """Half as many of the long ones."""
    return max(1, REPEATS[way] * 4 // max(4, world_size))


def compare_launchers() -> list[Row]:
    """All of them take turns, so that a busy moment hits every one."""
    ways = [way for way in WAYS if is_installed(way)]
    programs = {way: Program(way) for way in ways if way != "notebook_launcher"}
    times = {(way, n): [] for way in WAYS for n in WORLD_SIZES}
    for turn in range(max(REPEATS.values())):
        for way, n in ((way, n) for way in ways for n in WORLD_SIZES if turn < repeats(way, n)):
            program = programs.get(way) or Program(way)
            times[way, n].append(program.time(n))
            if way not in programs:
                program.close()
    for program in programs.values():
        program.close()
    return [row for way in NAMES for row in rows_of(way, times)]


def rows_of(way, times):
    if not is_installed(way):
        yield Row(f"{NAMES[way]}: {NEEDS[way]} is not installed")
        return
    for n in WORLD_SIZES:
        ours = median(one["seconds"] for one in times["launch", n])
        theirs = median(one["seconds"] for one in times[way, n])
        ratio, target = theirs / ours, TARGETS.get((way, n))
        yield Row(
            f"{n} ranks, call to values, beside {NAMES[way]}",
            seconds(ours),
            seconds(theirs),
            f"{ratio:.1f}x",
            target and f">= {target:g}x",
            target and ratio >= target,
            {"ours_seconds": ours, "peer_seconds": theirs},
        )
    if way == "ipyparallel":
        ours = median(one["seconds"] for one in times["launch", 4])
        theirs = median(one["warm_seconds"] for one in times[way, 4])
        yield Row(
            "4 ranks, new ones of ours beside engines that wait",
            seconds(ours),
            seconds(theirs),
            f"{theirs / ours:.2f}x",
            raw={"ours_seconds": ours, "peer_seconds": theirs},
        )


FIRST = """
import time
{before}
began = time.perf_counter()
from pedagogy_lib import launch
import torch.distributed as dist
values = launch(dist.get_rank, world_size=4).values
print(time.perf_counter() - began)
assert values == [0, 1, 2, 3]
"""


def first_launch() -> list[Row]:
    """A launch that has to start the fork server: import of this package to values, 4 ranks."""
    cases = {"torch imported before": ("import torch", 2.5), "torch too": ("", None)}
    times = {name: [] for name in cases}
    for _ in range(3):
        for name, (before, _) in cases.items():
            program = [sys.executable, "-c", FIRST.format(before=before)]
            done = subprocess.run(program, env=ENVIRON, capture_output=True, check=True, text=True)
            times[name].append(float(done.stdout))
    return [
        Row(
            f"first launch, import to values ({name})",
            seconds(median(times[name])),
            target=target and f"<= {target} s",
            met=target and median(times[name]) <= target,
            raw={"ours_seconds": median(times[name])},
        )
        for name, (_, target) in cases.items()
    ]


def private_bytes():
    """Memory that this rank alone pays for."""
    with open("/proc/self/smaps_rollup") as file:
        lines = [line.split() for line in file]
    return sum(1024 * int(line[1]) for line in lines if line[0].startswith("Private_"))


def many_ranks() -> list[Row]:
    from pedagogy_lib import launch

    rows = []
    launch(private_bytes, world_size=2)
    for n in (16, 32, 64):
        runs = [launch(private_bytes, world_size=n) for _ in range(3)]
        time, weight = median(run.seconds for run in runs), max(runs[-1].values)
        goal = n == 64
        rows.append(
            Row(
                f"{n} ranks, call to values",
                seconds(time),
                target=goal and "<= 4 s",
                met=goal and time <= 4,
                raw={"ours_seconds": time},
            )
        )
        rows.append(
            Row(
                f"{n} ranks, private memory of the largest",
                mb(weight),
                target=goal and "<= 10 MB",
                met=goal and weight <= 10e6,
                raw={"ours_bytes": weight},
            )
        )
    return rows
