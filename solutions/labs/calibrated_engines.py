# Built from chapters/ch10_choosing_a_strategy/labs/calibrated_engines.py by `make build`.
"""Engines calibrated on all published runs of a software, and how far off they are on others.

labs/engine_errors.py has calibrated them.

python labs/calibrated_engines.py
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cost_model import Engine, Plan

ANY = "any"  # software of which no run is published here
SHARES_COMPUTING = 0.25, 0.5, 0.7  # between kinds of plans: of a step, what computes


def find_published(name) -> Path:
    """Return the path of a file in labs/published/ of the course in which this lab lies."""
    folders = Path(__file__).resolve().parents
    return next(path for folder in folders
                if (path := folder / "labs" / "published" / name).exists())  # fmt: skip


@dataclass(frozen=True)
class Calibrated:
    """An engine, and how published times compare with predictions that had not seen their group.

    runs     that calibrated it; largest: number of GPUs of one
    ratios   {kind of plan: two quantiles of published / predicted, and the number of runs}
    first    how many of the fastest plans to try, to have the best one in 90 % of the jobs
    apart    the ratio of two predictions from which on 90 % of the pairs are in the right order
    """

    engine: Engine
    runs: int
    largest: int
    ratios: dict
    first: int
    apart: float

    def interval(self, plan: Plan, causes: dict) -> tuple[float, float] | None:
        """Return between which seconds 80 % of unseen runs of this kind of plan took.

        causes  the predicted seconds of a step
        Returns None if no run had half as many GPUs
        """
        low, high, _ = self.ratios.get(kind_of(plan, causes), self.ratios["all"])
        total = causes["total"]
        return (total * low, total * high) if plan.ranks <= 2 * self.largest else None


def kind_of(plan: Plan, causes: dict) -> str:
    """Return a kind of plans whose predictions are about equally far off.

    Computing is predicted best. What depends most on software is the rest.
    """
    share = (causes["compute"] + causes["recompute"]) / causes["total"]
    ends = [0, *SHARES_COMPUTING, 1]
    number = int(np.searchsorted(SHARES_COMPUTING, share, side="right"))
    low, high = (f"{end:.0%}" for end in ends[number : number + 2])
    return f"{low} to {high} computing" + ", stages" * int(plan.pp > 1)


def known_engines(path=None) -> dict[str, Calibrated]:
    """Read {software: Calibrated} from the course's file, or from another one."""
    told = json.loads((path or find_published("engines.json")).read_text())
    return {
        name: Calibrated(**one | {"engine": Engine(**one["engine"])}) for name, one in told.items()
    }


def main():
    for name, one in known_engines().items():
        best = f"; the best of a job was among the first {one.first} in 9 of 10" * (one.first > 0)
        print(f"{name}: {one.runs:,} runs{best}")
        for kind, (low, high, count) in one.ratios.items():
            print(f"  {kind}: 80 % of {count} runs took {low:.2f} to {high:.2f} times as predicted")


if __name__ == "__main__":
    main()
