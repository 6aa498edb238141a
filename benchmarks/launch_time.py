"""The time to start ranks, compared with other launchers, and the memory that a rank takes."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median

import psutil
from peers import NEEDS, is_installed
from rows import Measurement, Row, mb, seconds

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
# {(way, world size): the least that its time may be, as a multiple of ours}
LIMITS = {("spawn", 4): 25.0, ("elastic", 4): 4.0, ("notebook_launcher", 4): 2.0}


class Program:
    """A process of peers.py that runs one way; the folder with its files is deleted with it."""

    def __init__(self, way):
        self.folder = tempfile.TemporaryDirectory()
        own = {"TMPDIR": self.folder.name, "IPYTHONDIR": self.folder.name}
        self.errors = Path(self.folder.name, "errors")
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, HERE / "peers.py", way],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=ENVIRON | own,
                text=True,
                bufsize=1,
                start_new_session=True,  # Ctrl-C is for us, and we end it
            )

    def read(self) -> str:
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(self.errors.read_text()[-2000:])
        return line

    def time(self, world_size) -> dict:
        print(world_size, file=self.process.stdin)
        return json.loads(self.read())

    def __enter__(self):
        try:
            self.read()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind, error, trace):
        if kind:
            end_family(self.process)
        self.process.communicate()
        self.folder.cleanup()


def end_family(process):
    """End a process and all its descendants, with SIGTERM first: they may have files to remove."""
    root = psutil.Process(process.pid)
    root.suspend()  # so that it starts no more children
    family = [*root.children(recursive=True), root]
    tell(family, psutil.Process.terminate)
    tell([root], psutil.Process.resume)
    _, family = psutil.wait_procs(family, timeout=3)
    tell(family, psutil.Process.kill)
    psutil.wait_procs(family, timeout=3)


def tell(family, what):
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            what(member)


def repeats(way, world_size) -> int:
    """Return the number of repetitions, half as many for 8 ranks as for 2 or 4."""
    return max(1, REPEATS[way] * 4 // max(4, world_size))


def compare_launcher(way):
    """Time a way and ours in turns, so that a busy moment affects both."""
    if not is_installed(way):
        yield Row(f"{NAMES[way]}: {NEEDS[way]} is not installed")
        return
    with Program("launch") as ours, contextlib.ExitStack() as stack:
        theirs = None if way == "notebook_launcher" else stack.enter_context(Program(way))
        for n in WORLD_SIZES:
            times = {"launch": [], way: []}
            for turn in range(max(repeats("launch", n), repeats(way, n))):
                yield f"{n} ranks, turn {turn + 1}"
                if turn < repeats("launch", n):
                    times["launch"].append(ours.time(n))
                if turn < repeats(way, n):
                    times[way].append(theirs.time(n) if theirs else once(way, n))
            yield from rows_of(way, n, times)


def once(way, world_size) -> dict:
    """Time one launch in its own process."""
    with Program(way) as program:
        return program.time(world_size)


def rows_of(way, n, times):
    ours, theirs = (median(one["seconds"] for one in times[who]) for who in ("launch", way))
    ratio, limit = theirs / ours, LIMITS.get((way, n))
    yield Row(
        f"{n} ranks, call to values, beside {NAMES[way]}",
        seconds(ours), seconds(theirs), f"{ratio:.1f}x",
        f">= {limit:g}x" if limit else "", bool(limit) and ratio >= limit,
        {"ours_seconds": ours, "peer_seconds": theirs},
    )  # fmt: skip
    if way == "ipyparallel" and n == 4:
        theirs = median(one["warm_seconds"] for one in times[way])
        yield Row(
            "4 ranks, new ones of ours beside engines that wait",
            seconds(ours), seconds(theirs), f"{theirs / ours:.2f}x",
            raw={"ours_seconds": ours, "peer_seconds": theirs},
        )  # fmt: skip


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
# {name: (what the program imports first, the most seconds that it may then take)}
FIRST_CASES = {"torch imported before": ("import torch", 2.5), "torch too": ("", None)}


def first_launch(name, before, limit):
    """Time a launch that has to start the fork server, from our import to the values of 4 ranks."""
    times = []
    for turn in range(3):
        yield f"turn {turn + 1} of 3"
        program = [sys.executable, "-c", FIRST.format(before=before)]
        done = subprocess.run(program, env=ENVIRON, capture_output=True, check=True, text=True)
        times.append(float(done.stdout))
    yield Row(
        f"first launch, import to values ({name})",
        seconds(median(times)),
        limit=f"<= {limit} s" if limit else "",
        holds=bool(limit) and median(times) <= limit,
        raw={"ours_seconds": median(times)},
    )


def private_bytes():
    """Return the bytes of memory that this rank shares with no other process."""
    with open("/proc/self/smaps_rollup") as file:
        lines = [line.split() for line in file]
    return sum(1024 * int(line[1]) for line in lines if line[0].startswith("Private_"))


def many_ranks(n):
    from pedagogy_lib import launch

    launch(private_bytes, world_size=2)
    runs = [launch(private_bytes, world_size=n) for _ in range(3)]
    time, weight = median(run.seconds for run in runs), max(runs[-1].values)
    limited = n == 64
    yield Row(
        f"{n} ranks, call to values",
        seconds(time),
        limit="<= 4 s" if limited else "",
        holds=limited and time <= 4,
        raw={"ours_seconds": time},
    )
    yield Row(
        f"{n} ranks, private memory of the largest",
        mb(weight),
        limit="<= 10 MB" if limited else "",
        holds=limited and weight <= 10e6,
        raw={"ours_bytes": weight},
    )


def measurements() -> list[Measurement]:
    return [
        *(Measurement(f"beside {NAMES[way]}", partial(compare_launcher, way)) for way in NAMES),
        *(
            Measurement(f"first launch, {name}", partial(first_launch, name, *case))
            for name, case in FIRST_CASES.items()
        ),
        *(Measurement(f"{n} ranks", partial(many_ranks, n)) for n in (16, 32, 64)),
    ]
