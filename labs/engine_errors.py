# Built from chapters/ch10_choosing_a_strategy/labs/engine_errors.py by `make build`.
"""Engines are calibrated on published runs, and judged by runs that had no part in it.

python labs/engine_errors.py         calibrates all engines, in less than a minute
python labs/engine_errors.py FILE    writes them, too: see labs/calibrated_engines.py
"""

import json
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from calibrated_engines import ANY, Calibrated, kind_of
from cost_model import Engine
from cost_seconds import seconds
from published_runs import (
    OF_TIME,
    SHARES,
    STARTS,
    Runs,
    bounded,
    calibrate_engine,
    cross_validated_predictions,
    find_stalled,
    predict_seconds,
    runs_with,
    unbounded,
)

OF_CLUSTER = "across", "stall", "crowd"  # numbers of the network that a software's runs had
LOW, HIGH = 0.1, 0.9  # quantiles between which 80 % of the runs lie
SEVERAL = 5  # plans for the same job that are worth putting in order
FEW = 10  # runs of a kind; fewer say little about its quantiles
SPEEDS = "products", "attention", "inside"  # numbers by which an engine's times are divided
TIMES = set(OF_TIME) - {*SPEEDS, *SHARES, *OF_CLUSTER, "ragged", "straggle"}

# ---- How far off ----------------------------------------------------------------------------


def quantiles_by_kind(ratios, kinds, weights=None) -> dict:
    """Return {kind: [low, high, runs]} of published / predicted; "all" has all kinds."""
    weights = np.ones(len(ratios)) if weights is None else weights
    found = {}
    for kind in ["all", *np.unique(kinds).tolist()]:
        these = (kinds == kind) | (kind == "all")
        if these.sum() >= FEW:
            ends = np.quantile(ratios[these], [LOW, HIGH], weights=weights[these],
                               method="inverted_cdf")  # fmt: skip
            found[kind] = [*ends.round(4).tolist(), int(these.sum())]
    return found


def kinds_of(runs: Runs, engine: Engine) -> np.ndarray:
    causes = seconds(replace(runs.job, engine=engine), runs.plan)
    columns = zip(*(np.broadcast_to(x, len(runs)) for x in causes.values()))
    return np.array([kind_of(plan, dict(zip(causes, column)))
                     for plan, column in zip(runs.plan.each(), columns)])  # fmt: skip


def jobs_of(runs: Runs) -> list[np.ndarray]:
    """Return the places of runs that did the same job: one model, GPUs, batch and context."""
    columns = (runs.group, runs.plan.ranks, runs.job.batch, runs.job.shape.context)
    _, which = np.unique(
        [list(map(str, row)) for row in zip(*columns)], axis=0, return_inverse=True
    )
    jobs = [np.flatnonzero(which == k) for k in range(which.max() + 1)]
    return [job for job in jobs if len(job) >= SEVERAL]


def places_of_best(runs: Runs, predicted) -> list[int]:
    """Return, for each job, the place of its fastest run among the predictions: 1 is the first."""
    return [
        int(np.argsort(np.argsort(predicted[job]))[np.argmin(runs.seconds[job])]) + 1
        for job in jobs_of(runs)
    ]


def ratio_told_apart(runs: Runs, predicted, share=0.9) -> float:
    """Return the smallest ratio of two predictions from which on such a share is in order."""
    gaps, is_right = [], []
    for job in jobs_of(runs):
        told, took = np.log(predicted[job]), np.log(runs.seconds[job])
        pairs = np.triu_indices(len(job), 1)
        gap, order = np.subtract.outer(told, told)[pairs], np.subtract.outer(took, took)[pairs]
        gaps.append(abs(gap))
        is_right.append(gap * order > 0)
    gaps, is_right = np.concatenate(gaps), np.concatenate(is_right)
    from_here = np.cumsum(is_right[np.argsort(-gaps)]) / np.arange(1, len(gaps) + 1)
    enough = np.sort(gaps)[::-1][from_here >= share]
    return float(np.exp(enough[-1])) if len(enough) else np.inf


@dataclass(frozen=True)
class Guess:
    """Runs that ended, the seconds predicted without having seen their group, and their kinds."""

    runs: Runs
    predicted: np.ndarray
    kinds: np.ndarray

    @property
    def ratios(self) -> np.ndarray:
        return self.runs.seconds / self.predicted


def make_guess(runs: Runs, predicted, engine: Engine) -> Guess:
    is_timed = ~runs.is_oom & ~np.isnan(runs.seconds)
    some = runs.where(is_timed)
    return Guess(some, predicted[is_timed], kinds_of(some, engine))


def judge(engine: Engine, guesses) -> Calibrated:
    """Return an engine with the errors of guesses, each of which counts the same."""
    places, aparts = [], [1.0]
    for of in guesses:
        if jobs_of(of.runs):
            places += places_of_best(of.runs, of.predicted)
            aparts.append(ratio_told_apart(of.runs, of.predicted))
    ratios, kinds = (np.concatenate([getattr(of, name) for of in guesses])
                     for name in ("ratios", "kinds"))  # fmt: skip
    weights = equal_weights(guesses)
    first = int(np.quantile(places, 0.9, method="inverted_cdf")) if places else 0
    largest = max(int(of.runs.plan.ranks.max()) for of in guesses)
    return Calibrated(engine, len(ratios), largest, quantiles_by_kind(ratios, kinds, weights),
                      first, round(max(aparts), 3))  # fmt: skip


def equal_weights(guesses) -> np.ndarray:
    """Return a weight for each run, so that all guesses weigh the same."""
    return np.concatenate([np.full(len(of.runs), 1 / len(of.runs)) for of in guesses])


# ---- Calibrated again -----------------------------------------------------------------------


def on_any_cluster(engine: Engine) -> Engine:
    """Return an engine without what belongs to the network of its runs."""
    return replace(engine, **{name: getattr(Engine(), name) for name in OF_CLUSTER})


def mean_engine(engines) -> Engine:
    """Return an engine whose numbers of time are means of others: geometric ones, or of odds."""
    found = {}
    for name in set(OF_TIME) - set(OF_CLUSTER):
        numbers = np.array([x for engine in engines if (x := getattr(engine, name)) > 0])
        if len(numbers):
            most = SHARES.get(name, np.inf)
            found[name] = float(bounded(np.mean(unbounded(numbers, most)), most))
    return replace(Engine(), **found)


def slow_down(engine: Engine, factor) -> Engine:
    """Return an engine all of whose times are longer by a factor, but those of a network."""
    slower = {name: getattr(engine, name) / factor for name in SPEEDS}
    return replace(engine, **slower, **{name: getattr(engine, name) * factor for name in TIMES})


def calibrate_all() -> dict[str, Calibrated]:
    """Calibrate the engine of each software, and that of any; judge each by what it had not seen.

    That of any has the mean numbers. Each software has a weak point of its own, so that the mean of
    others is too fast for it: by their median ratio, the engine of any is slower than the mean. It
    is judged without runs whose messages stalled, which is a state of one network.
    """
    engines = {name: calibrate_engine(runs_with(name), start) for name, start in STARTS.items()}
    found, guesses = {}, []
    for name, start in STARTS.items():
        runs = runs_with(name)
        left_out, _ = cross_validated_predictions(runs, start)
        guess = make_guess(runs, left_out, engines[name])
        found[name] = judge(on_any_cluster(engines[name]), [guess])
        others = mean_engine([engine for other, engine in engines.items() if other != name])
        some = runs.where(~find_stalled(runs, engines[name]))
        guesses.append(make_guess(some, predict_seconds(some, others), others))
    ratios = np.concatenate([of.ratios for of in guesses])
    factor = float(np.quantile(ratios, 0.5, weights=equal_weights(guesses), method="inverted_cdf"))
    slower = [replace(of, predicted=factor * of.predicted) for of in guesses]
    found[ANY] = judge(slow_down(mean_engine(engines.values()), factor), slower)
    return found


def write_engines(engines: dict, path) -> None:
    """Write engines as JSON: of each, the numbers that differ from the default's."""
    usual = asdict(Engine())
    told = {}
    for name, one in engines.items():
        numbers = {key: x for key, x in asdict(one.engine).items() if x != usual[key]}
        told[name] = {**asdict(one), "engine": numbers}
    path.write_text(json.dumps(told, indent=1) + "\n")


def main():
    engines = calibrate_all()
    for name, one in engines.items():
        low, high, count = one.ratios["all"]
        print(f"{name}: 80 % took {low:.2f} to {high:.2f} times as predicted, of {count:,} runs")
    if sys.argv[1:]:
        write_engines(engines, Path(sys.argv[1]))


if __name__ == "__main__":
    main()
