"""The exam: each fault, on real ranks, shows what the check says of it, and nothing else."""

import itertools

import pytest
import torch
from coursekit.content.ch11_capstone.exercises.name_the_faults.sheet_evidence import (
    LAST_WEEK,
    SHOWS,
    describe_evidence,
    difference,
)
from helpers import ROOT, launch_on_cpu
from reading_sheets import PATIENT, take_readings
from selection import parametrize

from coursekit.labs import Lab
from pedagogy_lib import relative_gap

FOLDER = ROOT / "solutions" / "labs"
EXAM, FAULTS = (Lab(name, FOLDER / f"{name}.py", FOLDER / f"{name}.py")
                for name in ("exam", "faults"))  # fmt: skip
SEEDS = range(200)
TRIES = 3
EXACT = 1e-12  # relative, in float64


class Runs(dict):
    """The run with each fault: made when it is first asked for."""

    def __missing__(self, fault):
        self[fault] = EXAM.train(fault)
        return self[fault]


@pytest.fixture(scope="module")
def runs():
    return Runs()


@pytest.fixture(scope="module")
def last_week(runs):
    return runs[FAULTS.HEALTHY]


@pytest.mark.deep
def test_without_a_fault_all_numbers_are_last_weeks(runs, last_week):
    again = EXAM.train()
    assert not any(EXAM.compare_evidence(again, last_week).values())
    assert take_readings(again, last_week) == LAST_WEEK
    assert [told["losses"] for told in again.values] == [t["losses"] for t in last_week.values]


@pytest.mark.deep
@parametrize("fault", [*SHOWS], quick=1)
def test_a_run_with_a_fault_shows_what_the_check_says(runs, last_week, fault):
    for _ in range(TRIES):
        shown = take_readings(runs[fault], last_week)
        if shown["time"] == SHOWS[fault]["time"]:
            break
        del runs[fault]  # a busy machine is slow where it should not be
    assert shown == SHOWS[fault]


@pytest.mark.deep
@parametrize("fault", [*SHOWS], quick=1)
def test_evidence_differs_where_it_must_and_nowhere_else(runs, last_week, fault):
    shows, differs = SHOWS[fault], EXAM.compare_evidence(runs[fault], last_week)
    assert differs["losses"] == (shows["from"] is not None)
    assert differs["steps"] == (not shows["ends"])
    assert differs["bytes over dp"] == (shows["dp"] != 1)
    assert differs["bytes over tp"] == (shows["tp"] != 1)
    assert differs["memory"] == (shows["momentum"] != 1 or shows["activations"] != "one")
    others = {"never exchanged", "exchanged each time", "nothing sharded", "no sum forward",
              "no sum backward", "inner not summed"}  # fmt: skip
    assert differs["calls"] == (not shows["ends"] or fault in others)


@pytest.mark.deep
def test_a_training_with_a_fault_that_no_number_shows_trains_as_last_week(runs, last_week):
    for fault in ("slow rank", "slow link", "graphs kept", "backwards last", "nothing sharded"):
        for told, other in zip(runs[fault].values, last_week.values):
            assert told["losses"] == other["losses"], fault  # bit for bit


def test_any_two_faults_are_told_apart_by_something_that_is_shown():
    for fault, other in itertools.combinations(SHOWS, 2):
        evidence, one, another = difference(fault, other)
        assert describe_evidence(evidence, one) != describe_evidence(evidence, another)


def test_all_files_know_the_same_faults():
    families = [fault for family in EXAM.FAMILIES for fault in family]
    assert list(FAULTS.FAULTS) == list(EXAM.TOLD) == list(SHOWS)
    assert sorted([*families, FAULTS.EXAMPLE]) == sorted(SHOWS)


def test_a_seed_draws_twelve_faults_of_all_families():
    drawn = [EXAM.draw_faults(seed) for seed in SEEDS]
    for sheets in drawn:
        assert "".join(sheets) == "ABCDEFGHIJKL"
        assert len(set(sheets.values())) == 12
        for family, count in EXAM.FAMILIES.items():
            assert len(set(family) & set(sheets.values())) == count
    assert {fault for sheets in drawn for fault in sheets.values()} == set(SHOWS) - {FAULTS.EXAMPLE}
    assert len({sheets["A"] for sheets in drawn}) == len(SHOWS) - 1


# ---- One process -------------------------------------------------------------------------------

CUT = {"column": 0, "row": 1}  # weight: the dim along which tensor ranks cut it


class OneProcess(PATIENT.Training):
    """The training of both copies in one process, which cuts nothing and communicates nothing."""

    def half(self, whole, dim):
        return whole.clone()

    def all_reduce(self, x, axis):
        pass

    def parts(self):
        for self.copy in range(PATIENT.DP):
            yield from super().parts()

    def shard(self):
        return self.flat

    def update(self, gradient):
        self.take_step(gradient)


def train_beside_one_process(kind, steps) -> dict:
    """Train on four ranks and in one process, in float64.

    Returns "gaps" {weight: its relative difference from one process's} and the losses of both
    """
    torch.set_default_dtype(torch.float64)
    training, alone = kind(), OneProcess()
    for one in (training, alone):
        for one.step in range(steps):
            if one.step == PATIENT.RESTART:
                one.restart()
            one.one_step()
    wholes, gaps = dict(alone.model.named_parameters()), {}
    for name, p in training.model.named_parameters():
        dim = CUT.get(name.rpartition(".")[-1])
        whole = wholes[name]
        gaps[name] = relative_gap(p, whole if dim is None else training.half(whole, dim))
    return {"gaps": gaps, "losses": training.losses, "one process": alone.losses,
            "held out": relative_gap(training.held_out, alone.held_out)}  # fmt: skip


@pytest.mark.deep
def test_without_a_fault_the_training_equals_one_process():
    run = launch_on_cpu(train_beside_one_process, PATIENT.Training, PATIENT.STEPS, world_size=4)
    for told in run.values:
        assert max(told["gaps"].values()) < EXACT and told["held out"] < EXACT
    losses = [torch.tensor(run.values[rank]["losses"], dtype=torch.float64) for rank in (0, 2)]
    one_process = torch.tensor(run.values[0]["one process"], dtype=torch.float64)
    assert relative_gap(sum(losses), one_process) < EXACT


def test_a_norm_whose_gradient_is_not_summed_is_all_that_the_first_step_has_wrong():
    kind = FAULTS.FAULTS["inner not summed"]
    for told in launch_on_cpu(train_beside_one_process, kind, 1, world_size=4).values:
        wrong = {name for name, gap in told["gaps"].items() if gap > EXACT}
        assert wrong == {"inner"}


# ---- What a naive script finds -----------------------------------------------------------------


def which_differ(run, last_week) -> tuple:
    """The kinds of evidence in which any number differs."""
    return tuple(EXAM.compare_evidence(run, last_week).values())


def more_or_less(run, last_week) -> tuple:
    """Single numbers, each beside last week's: more, less, or as many."""
    pairs = zip(single_numbers(run), single_numbers(last_week), strict=True)
    return tuple((a > 1.3 * b) - (b > 1.3 * a) if is_time else (a > b) - (a < b)
                 for (a, is_time), (b, _) in pairs)  # fmt: skip


def single_numbers(run) -> list[tuple[float, bool]]:
    """(a number, whether it is a time, which always differs a little)."""
    losses, peaks = run.values[0]["losses"], run["training"].peak_bytes[0]
    last_step = [end for _, end in run["log"].spans[0]][-1] - run["test"].spans[0][0][0]
    numbers = [losses[0], losses[19], len(losses), float(run.values[0]["held out"][19]),
               *(sum(EXAM.list_bytes_sent(run, axis)) for axis in ("dp", "tp")),
               *(peaks[kind] for kind in EXAM.KINDS)]  # fmt: skip
    return [*((round(number, 3), False) for number in numbers), (last_step, True)]


def words(run, last_week) -> tuple:
    """What grep finds in a flight recorder: which operations there are, and how many."""
    calls = [call[:2] for told in run.values for call in told["calls"]]
    return tuple(sorted((call, calls.count(call)) for call in set(calls)))


@pytest.mark.deep
@pytest.mark.parametrize("script", [which_differ, more_or_less, words])
def test_a_naive_script_does_not_find_all(runs, last_week, script):
    """It even has runs of all candidates to compare with, and names a fault if only one fits.

    A program that reads as learners do (`shown_by`) finds all; that is no naive one.
    """
    candidates = [fault for fault in SHOWS if fault != FAULTS.EXAMPLE]
    seen = {fault: script(runs[fault], last_week) for fault in candidates}
    known = [fault for fault in candidates if list(seen.values()).count(seen[fault]) == 1]
    found = [len(set(EXAM.draw_faults(seed).values()) & set(known)) for seed in SEEDS]
    print(script.__name__, sorted(known), min(found), max(found))
    assert max(found) < 12
