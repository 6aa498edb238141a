"""Compare the bench with its peers, and what is written by hand with engines: one table, one run.

Usage: python benchmarks/run.py [--json FILE] [--only PART]

Parts: starting, measuring, collectives, data_parallel, zero, tensor, pipeline

Figures are medians; those of one line were taken in turns. accelerate and ipyparallel are
compared where they are installed.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import cloudpickle  # noqa: E402
import collectives  # noqa: E402
import data_parallel  # noqa: E402
import measuring  # noqa: E402
import pipeline  # noqa: E402
import starting  # noqa: E402
import tensor  # noqa: E402
import torch  # noqa: E402
import zero  # noqa: E402
from rows import HEADS  # noqa: E402

from pedagogy_lib.table import Table  # noqa: E402

PARTS = {
    "starting": [starting.compare_launchers, starting.first_launch, starting.many_ranks],
    "measuring": [
        measuring.overhead,
        measuring.beside_other_trackers,
        measuring.cost_of_small_things,
    ],
    "collectives": [collectives.beside_gloo],
    "data_parallel": [data_parallel.beside_torch],
    "zero": [zero.beside_engines],
    "tensor": [tensor.beside_dtensor],
    "pipeline": [pipeline.beside_torch, pipeline.bubbles],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="also write the figures to this file")
    parser.add_argument("--only", choices=PARTS)
    options = parser.parse_args()
    for module in (
        measuring,
        starting,
        collectives,
        data_parallel,
        zero,
        tensor,
        pipeline,
    ):  # functions for ranks that cannot import them
        cloudpickle.register_pickle_by_value(module)
    began = time.perf_counter()
    parts = [PARTS[options.only]] if options.only else PARTS.values()
    rows = [row for part in parts for compare in part for row in compare()]
    title = f"{os.cpu_count()} cores, torch {torch.__version__}"
    note = f"taken in {time.perf_counter() - began:.0f} s; load average {os.getloadavg()[0]:.1f}"
    print(Table(HEADS, [row.cells() for row in rows], title=title, note=note))
    if options.json:
        figures = {"machine": title, "rows": [row.as_json() for row in rows]}
        Path(options.json).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
