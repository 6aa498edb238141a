"""Compare the bench with its peers, and code written by hand with engines, in one run.

Rows appear as they are measured. Figures are medians, and those of one row were taken in turns.
accelerate, ipyparallel and DeepSpeed are compared where they are installed.
"""

import argparse
import importlib
import json
import os
import sys
from contextlib import closing
from pathlib import Path

from rows import HEADS, Row, Screen

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

PARTS = {  # files in this folder: `measurements()` lists what each measures
    "launch_time": "how long ranks take to start, beside other launchers",
    "machines": "ranks on machines of their own: launches, cards, collectives",
    "measure_overhead": "what measure() costs, beside other trackers of memory",
    "checkpoints": "how often to save, beside the formula",
    "failure_detection": "who has failed, and how long until all know",
    "keep_training": "a replica that is lost, and one that comes",
    "restart": "restarts under torchrun that succeed",
    "collectives": "collectives by hand, beside Gloo's",
    "data_parallel": "DDP by hand, beside PyTorch's",
    "zero": "ZeRO by hand, beside FSDP2 and DeepSpeed",
    "tensor": "tensor parallel by hand, beside DTensor",
    "pipeline": "pipelines by hand, beside PyTorch's",
    "three_dimensions": "a step on three axes by hand, beside PyTorch's engines",
    "long_contexts": "attention in a ring, beside attention with all keys",
    "planning": "plans that are predicted, and then run",
}


class Benchmark:
    """A run of parts, one after the other, and all that they have found so far."""

    def __init__(self, screen, match=""):
        self.screen, self.match = screen, match
        self.rows: list[Row] = []
        self.failures: list[str] = []
        self.begun = 0  # measurements

    def run(self, names):
        for number, name in enumerate(names, 1):
            self.screen.line(f"\nPart {number} of {len(names)}, {name}: {PARTS[name]}")
            chosen = [m for m in load(name).measurements() if self.match in m.what]
            self.begun += len(chosen)
            self.screen.row(HEADS)
            for index, measurement in enumerate(chosen, 1):
                where = f"{name}, measurement {index} of {len(chosen)}"
                self.screen.begin_measurement(f"{where}: {measurement.what}")
                self.take(measurement)

    def take(self, measurement):
        """Print what a measurement yields; if it fails, the others still run."""
        try:
            with closing(iter(measurement.take())) as found:
                for one in found:
                    self.add(one)
        except Exception as error:
            self.failures.append(measurement.what)
            self.screen.line(f"FAILED: {measurement.what}: {type(error).__name__}: {error}")

    def add(self, found):
        if isinstance(found, Row):
            self.rows.append(found)
            self.screen.row(found.cells())
        else:
            self.screen.note = found

    def summary(self) -> list[str]:
        missed = [row for row in self.rows if row.limit and not row.holds]
        limits = sum(bool(row.limit) for row in self.rows)
        load = os.getloadavg()[0]
        return [
            f"\nTaken in {self.screen.seconds():.0f} s on {machine()}; load average {load:.1f}.",
            f"{limits - len(missed)} of {limits} limits hold{'.' if not missed else '; not:'}",
            *[f"  {row.what}: {row.ratio or row.ours}, limit {row.limit}" for row in missed],
            *[f"FAILED: {what}" for what in self.failures],
        ]


def load(name):
    """Import the module of a part."""
    import cloudpickle

    module = importlib.import_module(name)
    cloudpickle.register_pickle_by_value(module)  # functions for ranks that cannot import it
    return module


def machine() -> str:
    from importlib.metadata import version

    return f"{os.cpu_count()} cores with torch {version('torch')}"


def read_options(words):
    parser = argparse.ArgumentParser(
        prog="make bench", description=__doc__.splitlines()[0],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"  {name:17} {what}" for name, what in PARTS.items()),
    )  # fmt: skip
    parser.add_argument("parts", nargs="*", metavar="PART", help="all of those below, if none")
    parser.add_argument("--match", metavar="TEXT", default="", help="only measurements with it")
    parser.add_argument("--json", metavar="FILE", help="also write the figures to this file")
    options = parser.parse_args(words)
    for name in options.parts:
        if name not in PARTS:
            parser.error(f"there is no part {name!r}; the parts are {', '.join(PARTS)}")
    return options


def main(words=None) -> int:
    """Run the parts; return 0, or 1 if a measurement failed, or 130 after Ctrl-C.

    A limit that does not hold leaves it 0; 2 says that the words make no sense.
    """
    options = read_options(words)
    names = options.parts or list(PARTS)
    screen = Screen(sys.stdout)
    screen.line(f"To measure: {', '.join(names)}. Ctrl-C ends it and keeps the rows so far.")
    benchmark, interrupted = Benchmark(screen, options.match), False
    try:
        with screen.watch_output():
            benchmark.run(names)
    except KeyboardInterrupt:
        interrupted = True
    screen.line("\n".join(benchmark.summary()))
    if options.json:
        write_json(options.json, benchmark.rows)
    if interrupted:
        screen.line("Interrupted: the rows above are complete, others are missing.")
        return 130
    if not benchmark.begun:
        screen.line(f"No measurement of these parts has {options.match!r} in its name.")
        return 2
    return int(bool(benchmark.failures))


def write_json(path, rows):
    figures = {"machine": machine(), "rows": [row.json_dict() for row in rows]}
    Path(path).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
