"""Training goes on while ranks die and come, and what comes out is what one process gives."""

import os
import platform
import signal
import sys
import threading
import time

import pytest
import torch
from crews import Fault, data, own_faults, put_in
from helpers import append_program, failure, launch_on_cpu, load_solved_lab, wait_until

from coursekit.labs import find_lab
from pedagogy_lib import RankError

KEEP = load_solved_lab("keep_training")
STEPS = 12
PATIENCE, TIMEOUT = 1.0, 5.0  # s, for those that will not come; busy machines are slow
LONG = 30.0  # s, for what will come


# ---- On a rank ------------------------------------------------------------------------------


def crew_of(folder, n, patience, timeout):
    return KEEP.Crew(KEEP.FolderStore(folder / "store"), n, patience, timeout)


def survive(folder, data, faults, n, waits_at, patience, timeout, comes_after):
    faults = own_faults(faults)
    crew, training = crew_of(folder, n, patience, timeout), KEEP.Training(data)
    begun = put_in(faults, training, crew)
    if comes_after and int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)):
        wait_until(lambda: crew.last_meeting() == 2 or crew.store.check(["over"]), LONG)

    def step(training, crew):
        if training.steps == waits_at and len(crew.names) < n:
            wait_until(crew.somebody_waits, LONG)
        return KEEP.take_step(training, crew)

    meetings = KEEP.train(training, crew, STEPS, step)
    return {
        "meetings": meetings,
        "weights": torch.nn.utils.parameters_to_vector(training.model.parameters()).detach(),
        "losses": training.losses,
        "begun": begun["compute"],
    }


# ---- Here -----------------------------------------------------------------------------------


def run_of(
    folder,
    n,
    faults,
    replacements=0,
    waits_at=None,
    timeout=TIMEOUT,
    comes_after=False,
    seconds=LONG,
):
    """waits_at: the step before which those that are left wait for a newcomer.

    comes_after: a newcomer comes when the others have met again, without it
    """
    patience = LONG if replacements and not comes_after else PATIENCE
    args = folder, data(), faults, n, waits_at, patience, timeout, comes_after
    return launch_on_cpu(survive, *args, world_size=n, replacements=replacements, timeout=seconds)


def alone() -> tuple[torch.Tensor, dict]:
    """What one process computes, without any communication."""
    training = KEEP.Training(data())
    for _ in range(STEPS):
        training.update(training.compute(0, 1))
    return torch.nn.utils.parameters_to_vector(
        training.model.parameters()
    ).detach(), training.losses


def need_right(run, who, at_the_end=None):
    """Those that are left have the numbers of one process, and have not begun a step thrice."""
    weights, losses = alone()
    left = [rank for rank, value in enumerate(run.values) if value and value["meetings"]]
    assert left == sorted(who)
    for value in (run.values[rank] for rank in left):
        assert torch.equal(value["weights"], run.values[left[0]]["weights"])
        torch.testing.assert_close(value["weights"], weights, rtol=1e-12, atol=1e-14)
        assert sorted(value["losses"]) == list(range(STEPS))
        for step, loss in losses.items():
            assert value["losses"][step] == pytest.approx(loss, rel=1e-12)
        again = len(value["begun"]) - len({*value["begun"]})
        assert again <= len(value["meetings"]) - 1
        assert value["meetings"][-1][1] in (at_the_end or [len(left)])


@pytest.mark.parametrize("n", [1, 2, 3, pytest.param(4, marks=pytest.mark.deep)])
def test_without_a_fault_it_is_one_process(tmp_path, n):
    run = run_of(tmp_path, n, [])
    need_right(run, range(n))
    assert not [value for value in run.values if value["meetings"] != [(0, n)]]
    assert not [value for value in run.values if value["begun"] != list(range(STEPS))]


@pytest.mark.parametrize(
    ("rank", "where"),
    [
        (1, "before"),
        (0, "in"),
        *(
            pytest.param(rank, where, marks=pytest.mark.deep)
            for where in ("before", "in", "after", "updated")
            for rank in (0, 1, 3)
            if (rank, where) not in ((1, "before"), (0, "in"))
        ),
    ],
)
def test_one_is_killed_and_replaced(tmp_path, rank, where):
    run = run_of(tmp_path, 4, [Fault(rank, where, 4)], replacements=1, waits_at=7)
    need_right(run, range(4))
    assert [(lost.rank, lost.was_replaced) for lost in run.lost] == [(rank, True)]
    survivor = run.values[(rank + 1) % 4]["meetings"]
    assert survivor[0] == (0, 4)
    assert {steps for steps, _ in survivor[1:]} <= {4, 5, 6, 7}


def test_a_newcomer_is_let_in_between_two_steps(tmp_path):
    run = run_of(tmp_path, 3, [Fault(1, "in", 4)], 1, waits_at=7, comes_after=True)
    need_right(run, range(3))
    for rank in (0, 2):
        (_, three), (steps, two), *_, last = run.values[rank]["meetings"]
        assert (three, two, last[1]) == (3, 2, 3)
        assert steps in (4, 5)
        assert 5 <= last[0] <= 8


@pytest.mark.parametrize("n", [2, pytest.param(4, marks=pytest.mark.deep)])
@pytest.mark.parametrize("where", ["after", pytest.param("in", marks=pytest.mark.deep)])
def test_one_is_killed_and_the_others_go_on(tmp_path, n, where):
    run = run_of(tmp_path, n, [Fault(n - 1, where, 3)])
    need_right(run, range(n - 1))
    assert [lost.rank for lost in run.lost] == [n - 1]


@pytest.mark.deep
@pytest.mark.parametrize("where", ["before", "in", "updated"])
def test_one_alone_is_killed_and_begins_again(tmp_path, where):
    """Two ranks, one after the other: the state is handed on, and lost by nobody."""
    faults = [Fault(0, where, 2), Fault(1, where, 8)]
    run = run_of(tmp_path, 2, faults, replacements=2, waits_at=5)
    need_right(run, range(2))
    assert {lost.rank for lost in run.lost} == {0, 1}


@pytest.mark.parametrize("where", ["meeting", pytest.param("agreed", marks=pytest.mark.deep)])
def test_another_one_dies_at_the_meeting(tmp_path, where):
    faults = [Fault(2, "before", 4), Fault(0, where, 1)]
    need_right(run_of(tmp_path, 4, faults, timeout=2.0), [1, 3])


@pytest.mark.deep
@pytest.mark.parametrize("where", ["meeting", "agreed"])
def test_one_dies_at_the_first_meeting(tmp_path, where):
    run = run_of(tmp_path, 3, [Fault(1, where, 0)], replacements=1, timeout=2.0, waits_at=6)
    need_right(run, range(3))


def test_two_die_at_once(tmp_path):
    faults = [Fault(0, "before", 5), Fault(2, "before", 5)]
    run = run_of(tmp_path, 4, faults, replacements=2, waits_at=8)
    need_right(run, range(4))
    assert sorted(lost.rank for lost in run.lost) == [0, 2]


@pytest.mark.deep
@pytest.mark.parametrize("where", ["in", "after"])
def test_all_but_one_die_at_once(tmp_path, where):
    faults = [Fault(rank, where, 5) for rank in (0, 1, 3)]
    need_right(run_of(tmp_path, 4, faults), [2])


@pytest.mark.deep
def test_one_is_killed_twice_in_a_row(tmp_path):
    faults = [Fault(1, "before", 3), Fault(1, "agreed", 0, life=1)]
    run = run_of(tmp_path, 3, faults, replacements=2, timeout=2.0, waits_at=8)
    need_right(run, range(3))
    assert [lost.rank for lost in run.lost] == [1, 1]


@pytest.mark.parametrize("rank", [1, pytest.param(0, marks=pytest.mark.deep)])
def test_one_that_stands_still_is_killed(tmp_path, rank):
    run = run_of(tmp_path, 3, [Fault(rank, "before", 4, signal=signal.SIGSTOP)], timeout=2.0)
    need_right(run, {0, 1, 2} - {rank})
    assert [(lost.rank, lost.what) for lost in run.lost] == [(rank, "was killed by SIGKILL")]


@pytest.mark.deep
@pytest.mark.parametrize("where", ["before", "in", "after", "updated"])
@pytest.mark.parametrize("rank", [0, 2])
def test_one_dies_at_the_last_step(tmp_path, rank, where):
    run = run_of(tmp_path, 3, [Fault(rank, where, STEPS - 1)])
    need_right(run, {0, 1, 2} - {rank})


def test_who_comes_when_all_is_over_is_told_so(tmp_path):
    run = run_of(tmp_path, 3, [Fault(0, "over")], replacements=1, comes_after=True)
    need_right(run, [1, 2], at_the_end=(2, 3))
    assert run.values[0]["meetings"] is None
    assert run.values[0]["begun"] == []


# ---- Mistakes are nobody's loss --------------------------------------------------------------


def make_a_mistake(folder, data, where):
    crew, training = crew_of(folder, 2, PATIENCE, TIMEOUT), KEEP.Training(data)
    function = getattr(training, where)

    def wrong(*args):
        if training.steps == 2:
            torch.ones(2) @ torch.ones(3)
        return function(*args)

    setattr(training, where, wrong)
    return KEEP.train(training, crew, STEPS)


@pytest.mark.parametrize("where", ["compute", pytest.param("update", marks=pytest.mark.deep)])
def test_a_mistake_in_a_step_is_told(tmp_path, where):
    error = failure(make_a_mistake, tmp_path, data(), where, world_size=2, replacements=0)
    assert isinstance(error, RankError)
    assert "inconsistent tensor size" in str(error)


def load_wrongly(folder, data):
    """A newcomer's load_state_dict does not fit to the state that comes."""
    crew, training = crew_of(folder, 2, 0.2, 2.0), KEEP.Training(data)
    training.steps = int(os.environ["RANK"])

    def load(state):
        training.model.load_state_dict({"0.weight": torch.ones(1)})

    training.load_state_dict = load
    return KEEP.train(training, crew, STEPS)


@pytest.mark.deep
def test_a_mistake_in_catching_up_is_told(tmp_path):
    error = failure(load_wrongly, tmp_path, data(), world_size=2, replacements=0, timeout=4.0)
    assert isinstance(error, RankError)
    assert "Error(s) in loading state_dict" in str(error)


# ---- A learner's own words -------------------------------------------------------------------

OTHER_KEYS = """
def who_is_there(store, meeting, me, former, n, patience):
    store, until = dist.PrefixStore(meeting, store), time.monotonic() + patience
    store.append("names", me + ",")
    while not store.check(["list"]):
        came = store.get("names").decode().split(",")[:-1]
        late = former and (set(former) <= set(came) or time.monotonic() > until)
        if len(came) >= n or late:
            store.compare_set("list", "", ",".join(sorted(came)))
        time.sleep(0.01)
    return store.get("list").decode().split(",")
"""


@pytest.mark.deep
def test_a_newcomer_is_let_in_whatever_the_keys_are(tmp_path, course, monkeypatch):
    course(keep_training=append_program(OTHER_KEYS))
    monkeypatch.setitem(globals(), "KEEP", find_lab("keep_training"))
    run = run_of(tmp_path, 3, [Fault(1, "before", 4)], 1, 7, comes_after=True, seconds=12)
    need_right(run, range(3))


# ---- Who is who ------------------------------------------------------------------------------


def test_names_are_in_the_order_of_ranks_and_are_read_again():
    names = [KEEP.Name(rank, 5, "77", "a machine") for rank in (2, 10, 100)]
    assert [str(name) for name in names] == sorted(map(str, names))
    assert [KEEP.Name.read(str(name)) for name in names] == names


def test_only_those_of_this_machine_are_fenced_and_no_other_process_of_their_number(monkeypatch):
    killed = []
    monkeypatch.setattr(os, "kill", lambda pid, signal: killed.append(pid))
    here, pid = platform.node(), os.getpid()
    born = KEEP.birth_of(pid)
    for name in KEEP.Name(0, pid, born, "elsewhere"), KEEP.Name(0, pid, f"{born}0", here):
        KEEP.fence([str(name)])
    assert killed == []
    KEEP.fence([str(KEEP.Name(1, pid, born, here))])
    assert killed == [pid]
    assert KEEP.birth_of(0) == "?"
    assert born.isdigit() or sys.platform != "linux"


def test_a_newcomer_that_died_and_its_replacement_count_once(tmp_path):
    """Otherwise newcomers alone would be enough, and whoever has the state would be left out."""
    store, agreed = KEEP.FolderStore(tmp_path), []
    store.append("meeting 1: came", "001 471 then pc,")

    def come(name, former, patience):
        agreed.append(KEEP.who_is_there(store, "meeting 1", name, former, 2, patience))

    newcomer = threading.Thread(target=come, args=("001 482 now pc", [], 0.0))
    newcomer.start()
    time.sleep(0.3)
    assert not agreed
    come("000 11 pc", ["000 11 pc", "001 9 pc"], 0.2)
    newcomer.join()
    assert agreed == [["000 11 pc", "001 471 then pc", "001 482 now pc"]] * 2
