"""Restarts: the same training on any number of ranks, also if machines die and come back."""

import json
import os
import signal
import sys
import textwrap

import pytest
import torch
import torch.distributed as dist
from helpers import (
    ROOT,
    end,
    environment,
    launch_on_cpu,
    load_solved_lab,
    start,
    wait_until,
)
from machines_here import needs_machines

from pedagogy_lib import LaunchError, Machines, close, machines_around, run_torchrun

PATH = ROOT / "solutions" / "labs" / "restart.py"
RESTART = load_solved_lab("restart")
STEPS, EVERY, DIES = 24, 4, 10


def data():
    chance = torch.Generator().manual_seed(0)
    images = torch.rand(400, 64, generator=chance)
    labels = torch.randint(10, (400,), generator=chance)
    return images[:320], labels[:320], images[320:], labels[320:]


def go_on(data, until, state=None, m=12):
    training = RESTART.Training(data, m=m)
    if state:
        training.load_state_dict(state)
    while training.steps < until:
        training.step()
    return training.weights(), training.state_dict()


def weights_after(until, world_size=1, **more):
    values = launch_on_cpu(go_on, data(), until, world_size=world_size, **more).values
    for weights, _ in values:
        assert torch.equal(weights, values[0][0])  # replicas, to the last bit
    return values[0]


# ---- The same batch ---


@pytest.mark.kernels
@pytest.mark.parametrize("world_size", [2, 3, 5])
def test_any_number_of_ranks_trains_as_one_process(world_size):
    assert close(weights_after(12, world_size)[0], weights_after(12)[0])


@pytest.mark.kernels
def test_the_number_of_ranks_may_change_between_lives():
    state = None
    for world_size, until in ((4, 4), (1, 7), (3, 12)):
        weights, state = launch_on_cpu(go_on, data(), until, state, world_size=world_size).values[0]
    assert close(weights, weights_after(12)[0])


def test_the_same_ranks_give_the_same_bits():
    _, state = weights_after(5, 2)
    again, _ = launch_on_cpu(go_on, data(), 12, state, world_size=2).values[0]
    assert torch.equal(again, weights_after(12, 2)[0])


def losses_of(data):
    training = RESTART.Training(data)
    return [training.loss_of(k).item() for k in range(training.m)]


def test_what_is_drawn_depends_on_the_micro_batch_alone():
    values = launch_on_cpu(losses_of, data(), world_size=3, seed=[1, 2, 3]).values
    assert values[0] == values[1] == values[2]
    assert len(set(values[0])) == len(values[0])


def save_and_load(data, folder):
    training = RESTART.Training(data)
    training.step()
    RESTART.save(folder, training.steps, training.state_dict())
    return training.weights()


def load(data, folder):
    training = RESTART.Training(data)
    RESTART.load(folder, training)
    return training.weights(), training.steps


def test_a_checkpoint_is_read_by_another_number_of_ranks(tmp_path):
    saved = launch_on_cpu(save_and_load, data(), tmp_path, world_size=3).values[0]
    for world_size in (1, 2, 4):
        for weights, steps in launch_on_cpu(load, data(), tmp_path, world_size=world_size).values:
            assert torch.equal(weights, saved) and steps == 1
    assert torch.equal(RESTART.load_weights(tmp_path), saved)


def load_after_damage(data, folder):
    """What load() raises if no checkpoint is whole: on all ranks the same."""
    if dist.get_rank() == 0:
        for path in folder.glob("step-*/rank-0.pt"):
            path.write_bytes(b"torn")
    dist.barrier()
    with pytest.raises(ValueError, match="none is whole"):
        load(data, folder)


def test_training_does_not_begin_anew_next_to_a_damaged_checkpoint(tmp_path):
    launch_on_cpu(save_and_load, data(), tmp_path, world_size=2)
    launch_on_cpu(load_after_damage, data(), tmp_path, world_size=2)


def hear_of_notice(told):
    notice = RESTART.LeaveNotice()
    if dist.get_rank() == told:
        for _ in range(2):  # torchrun and the scheduler may both send it
            os.kill(os.getpid(), signal.SIGTERM)
    return notice.has_come, notice.is_for_any(None)


@pytest.mark.parametrize("told", [None, 1])
def test_a_notice_to_one_rank_is_for_all(told):
    values = launch_on_cpu(hear_of_notice, told, world_size=3).values
    assert values == [(rank == told, told is not None) for rank in range(3)]


# ---- Under torchrun ---

PROGRAM = """
import os, signal, sys, time
import torch
from pedagogy_lib import machines_around
from coursekit.labs import Lab

restart = Lab("restart", PATH, PATH)
life = os.environ["TORCHELASTIC_RESTART_COUNT"]

def before_step(training):
FAULT

restart.train(FOLDER, STEPS, EVERY, torch.load(FOLDER + "/data"), before_step, time.time())
"""
KILL = """
if (os.environ["RANK"], life, training.steps) == ("1", "0", DIES):
    restart.note(FOLDER, "fault", steps=training.steps)
    os.kill(os.getpid(), signal.SIGKILL)
"""
SLOW_STORAGE = """
scope = restart.save.__globals__
if training.steps == EVERY - 1:
    quick = scope["quick"] = scope["finish"]
    scope["finish"] = lambda *args: time.sleep(2.5) or quick(*args)
elif training.steps == EVERY:
    scope["finish"] = scope["quick"]
"""
SWITCH_OFF = """
if (os.environ["MACHINE"], training.steps) == ("1", DIES):
    machines_around().kill(1)
"""
COME_BACK = """
if (os.environ["WORLD_SIZE"], training.steps) == ("1", 16):
    machines_around().revive(1)
    time.sleep(60)
"""


@pytest.fixture
def run_program(tmp_path, monkeypatch):
    """Run the program with such a fault, and return the folder with its log and checkpoints."""

    def run(fault, **settings):
        monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
        torch.save(data(), tmp_path / "data")
        names = {"PATH": str(PATH), "FOLDER": str(tmp_path), "STEPS": STEPS, "EVERY": EVERY,
                 "DIES": DIES}  # fmt: skip
        text = "\n".join(f"{name} = {value!r}" for name, value in names.items())
        program = tmp_path / "program.py"
        program.write_text(text + PROGRAM.replace("FAULT", textwrap.indent(fault, "    ")))
        run_torchrun(program, timeout=150, **settings)
        return tmp_path

    return run


def is_undisturbed(folder, ranks):
    """Losses of all lives, and the weights, are those of ranks that nothing happens to."""
    weights, _ = weights_after(STEPS, ranks)
    return close(RESTART.load_weights(folder), weights)


@pytest.mark.deep
def test_all_are_started_again_after_one_was_killed(run_program):
    folder = run_program(KILL, nproc_per_node=2, max_restarts=1)
    steps = [(step, n) for step, n, _ in RESTART.steps_taken(folder)]
    assert steps == [(k, 2) for k in [*range(1, DIES + 1), *range(9, STEPS + 1)]]
    assert torch.equal(RESTART.load_weights(folder), weights_after(STEPS, 2)[0])
    costs = RESTART.costs(folder)
    assert tuple(costs) == RESTART.PARTS and min(costs.values()) > 0


@pytest.mark.deep
def test_a_checkpoint_may_take_longer_than_the_patience_with_a_silent_machine(run_program):
    folder = run_program(SLOW_STORAGE, nproc_per_node=2, max_restarts=0)
    assert len([said for said in RESTART.log_of(folder) if said["what"] == "met"]) == 2
    assert is_undisturbed(folder, 2)


LEAVES = """
import os, signal, time
import torch
from coursekit.labs import Lab

restart = Lab("restart", PATH, PATH)

def before_step(training):
    time.sleep(0.1)
    if (os.environ["RANK"], training.steps) == ("1", TOLD_AT):
        os.kill(os.getpid(), signal.SIGTERM)

restart.train(FOLDER, STEPS, 100, torch.load(FOLDER + "/data"), before_step,
              notice=restart.LeaveNotice())
"""


def write_leaving(folder, told_at=None):
    torch.save(data(), folder / "data")
    values = str(PATH), str(folder), STEPS, told_at
    text = f"PATH, FOLDER, STEPS, TOLD_AT = {values!r}\n{LEAVES}"
    (folder / "program.py").write_text(text)


def torchrun_in(folder, *options):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    return start([*command, *options, folder / "program.py"], folder, GLOO_SOCKET_IFNAME="lo")


@pytest.mark.deep
def test_ranks_that_are_told_to_leave_are_not_taken_for_ranks_that_are_done(tmp_path):
    """One rank gets the signal, but not its agent, as where another machine is taken away."""
    write_leaving(tmp_path, told_at=9)
    program = torchrun_in(tmp_path, "--max-restarts=1")
    try:
        assert program.wait(60) == 0
    finally:
        end(program)
    assert [step for step, *_ in RESTART.steps_taken(tmp_path)] == [*range(1, STEPS + 1)]
    assert len([said for said in RESTART.log_of(tmp_path) if said["what"] == "met"]) == 4


@pytest.mark.deep
def test_a_signal_to_torchrun_saves_the_last_step_and_no_bit_is_lost(tmp_path):
    write_leaving(tmp_path)
    program = torchrun_in(tmp_path)
    try:
        assert wait_until(lambda: len(RESTART.steps_taken(tmp_path)) > 3, 60)
        program.send_signal(signal.SIGTERM)
        program.wait(60)
    finally:
        end(program)
    (last, *_) = RESTART.steps_taken(tmp_path)[-1]
    assert last < STEPS
    assert [path.name for path in tmp_path.glob("step-*")] == [f"step-{last:06}"]
    again = torchrun_in(tmp_path)
    try:
        assert again.wait(60) == 0
    finally:
        end(again)
    assert [step for step, *_ in RESTART.steps_taken(tmp_path)] == [*range(1, STEPS + 1)]
    losses = [loss for *_, loss in RESTART.steps_taken(tmp_path)]
    assert losses == launch_on_cpu(losses_over_steps, data(), world_size=2).values[0]


def losses_over_steps(data):
    training, losses = RESTART.Training(data), []
    while training.steps < STEPS:
        training.step()
        losses.append(training.test_loss())
    return losses


@needs_machines
@pytest.mark.slow
@pytest.mark.deep
def test_a_rank_changes_where_nothing_has_happened(run_program):
    folder = run_program(SWITCH_OFF, nnodes=(2, 3), nproc_per_node=1, machines=Machines(3))
    assert RESTART.lives(folder) == [{"0": 0, "1": 1, "2": 2}, {"0": 0, "2": 1}]
    assert [len(steps) for _, steps, _ in RESTART.losses_of_lives(folder)] == [DIES, STEPS - 8]
    assert is_undisturbed(folder, 1)


@needs_machines
@pytest.mark.slow
@pytest.mark.deep
def test_a_machine_comes_back(run_program):
    fault = SWITCH_OFF + COME_BACK
    folder = run_program(fault, nnodes=(1, 2), nproc_per_node=1, machines=Machines(2))
    assert [len(life) for life in RESTART.lives(folder)] == [2, 1, 2]
    steps = [steps for _, steps, _ in RESTART.losses_of_lives(folder)]
    assert [(of[0], of[-1]) for of in steps] == [(1, DIES), (9, 16), (17, STEPS)]
    assert is_undisturbed(folder, 1)


def test_machines_around_are_there_on_machines_alone(monkeypatch):
    monkeypatch.delenv("PEDAGOGY_FOLDER", raising=False)
    with pytest.raises(LaunchError, match="for programs and ranks that are on `Machines`"):
        machines_around()


# ---- Its log, and its picture ---


def write_log(folder, *notes):
    lines = [{"time": k, "machine": "0", "rank": 0, "n": 1} | one for k, one in enumerate(notes)]
    (folder / "log").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_lives_are_told_apart_by_their_steps(tmp_path):
    taken = [(1, 2), (2, 2), (2, 2), (3, 1), (4, 2)]
    write_log(tmp_path, *({"what": "step", "steps": k, "n": n, "loss": 0.5} for k, n in taken))
    lives = RESTART.losses_of_lives(tmp_path)
    assert [(n, steps) for n, steps, _ in lives] == [(2, [1, 2]), (2, [2]), (1, [3]), (2, [4])]


def test_a_note_names_the_machine_and_not_only_the_rank(tmp_path, monkeypatch):
    for name, value in {"RANK": "3", "WORLD_SIZE": "4", "MACHINE": "1"}.items():
        monkeypatch.setenv(name, value)
    RESTART.note(tmp_path, "met")
    (said,) = RESTART.log_of(tmp_path)
    assert (said["what"], said["machine"], said["rank"], said["n"]) == ("met", "1", 3, 4)
    monkeypatch.delenv("MACHINE")
    assert RESTART.machine_here() == os.uname().nodename


def test_a_picture_of_lives_tells_their_steps():
    lives = [(2, [1, 2, 3], [3.0, 2.0, 1.5]), (1, [3, 4], [1.5, 1.0])]
    plot_lives = load_solved_lab("lives").plot_lives
    picture = plot_lives(lives, ([1, 2, 3, 4], [3.0, 2.0, 1.5, 1.0]), title="Two lives")
    assert "2 ranks, steps 1 to 3; 1 rank, steps 3 to 4" in picture.alt
    with pytest.raises(LaunchError, match="as many losses as steps"):
        plot_lives([(2, [1, 2], [3.0])], ([1], [1.0]))
    with pytest.raises(LaunchError, match="takes 1 to"):
        plot_lives([], ([1], [1.0]))


def test_nothing_of_a_rank_is_in_the_state():
    def states(data):
        training = RESTART.Training(data)
        training.step()
        return {"rank": dist.get_rank()}, training.state_dict()

    values = launch_on_cpu(states, data(), world_size=3).values
    for _, state in values[1:]:
        for name, tensor in state["model"].items():
            assert torch.equal(tensor, values[0][1]["model"][name])
