"""The FSDP2 program: what a start gives values to, and what an interrupted save leaves."""

import contextlib
import io
import os
import shutil
from pathlib import Path

import pytest
import torch
from helpers import load_solved_lab
from selection import parametrize

from pedagogy_lib import launch

TRAIN, RECIPE, MODELS = map(load_solved_lab, ("train_fsdp2", "fsdp2_recipe", "language_model"))
TEXT = MODELS.standard_library(5_000)
OPERATIONS = 5  # of a second save: write, clear what was set aside, set aside, rename, delete


class Killed(BaseException):
    """What stands for the end of the process."""


def run(folder, steps):
    words = f"--precision float64 --layers 1 --steps {steps} --every 2 --folder".split()
    with contextlib.redirect_stdout(io.StringIO()):
        training = TRAIN.Training(TEXT, TRAIN.options_of([*words, str(folder)]))
        losses = training.run()
    return training.number, losses, {k: x.cpu() for k, x in training.weights().items()}


def be_killed(folder, operation):
    """Train; in the second save, this operation on files is the last, and remains half done."""
    run(folder, 2)
    done = []

    def stop_in(function, half):
        def counted(place, *args, **options):
            if str(folder) in str(place):
                done.append(function)
                if len(done) == operation:
                    half(place)
                    raise Killed
            return function(place, *args, **options)

        return counted

    def write_half(place):
        Path(place).mkdir(exist_ok=True)
        Path(place, "half").touch()

    def delete_half(place):
        for path in list(Path(place).glob("*"))[:1]:
            path.unlink()

    save = TRAIN.files.save
    TRAIN.files.save = lambda state, checkpoint_id: stop_in(
        lambda place: save(state, checkpoint_id=place), write_half
    )(checkpoint_id)
    os.replace = stop_in(os.replace, lambda place: None)
    shutil.rmtree = stop_in(shutil.rmtree, delete_half)
    try:
        run(folder, 4)
    except Killed:
        return len(done)
    return len(done), "not killed"


@parametrize("operation", range(1, OPERATIONS + 1), quick=1)
def test_a_save_may_be_killed_at_any_moment(operation, tmp_path):
    folder = tmp_path / "checkpoint"
    killed = launch(be_killed, folder, operation, world_size=1, device="cpu").values[0]
    assert killed == operation
    resumed = launch(run, folder, 4, world_size=2, device="cpu").values
    wanted = launch(run, tmp_path / "other", 4, world_size=2, device="cpu").values
    for (number, losses, _), (_, all_losses, _) in zip(resumed, wanted):
        assert number == 4
        assert len(losses) == (0 if operation == OPERATIONS else 2), "it began from the start"
        assert losses == pytest.approx(all_losses[4 - len(losses) :], rel=1e-9)
    for name, weight in wanted[0][2].items():
        torch.testing.assert_close(resumed[0][2][name], weight, rtol=1e-8, atol=1e-10)


def test_a_start_from_shapes_fills_buffers_that_no_state_dict_has():
    run = launch(RECIPE.table_after_start, True, world_size=3, device="cpu")
    assert run.values == [True] * 3


def draw_after_start():
    TRAIN.Training(TEXT, TRAIN.options_of(["--layers", "1"]))
    return torch.rand(4).tolist()


def test_ranks_draw_different_numbers_for_dropout_after_the_start():
    drawn = launch(draw_after_start, world_size=3, device="cpu").values
    assert len(set(map(tuple, drawn))) == 3


def test_a_slash_at_the_end_of_the_folder_does_not_matter():
    assert TRAIN.options_of(["--folder", "checkpoint/"]).folder == "checkpoint"
