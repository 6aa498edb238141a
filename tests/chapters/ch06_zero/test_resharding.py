"""A checkpoint by hand: the files of one world of ranks are read, and of no mixture of them."""

import pytest
from helpers import load_solved_lab

from pedagogy_lib import launch
from pedagogy_lib.basics.errors import RankError

RESHARDING = load_solved_lab("resharding")


def save_parts(folder):
    engine, _ = RESHARDING.start()
    RESHARDING.make_state(engine)
    RESHARDING.save_parts(engine, folder)


def load_parts(folder):
    engine, _ = RESHARDING.start()
    return RESHARDING.load_parts(engine, folder)


def load_on(ranks, folder):
    return launch(load_parts, folder, world_size=ranks, device="cpu").values


def test_a_folder_with_two_checkpoints_is_refused_on_all_ranks(tmp_path):
    for ranks in (3, 2):
        launch(save_parts, tmp_path, world_size=ranks, device="cpu")
    with pytest.raises(RankError, match=r"all 2 ranks raised ValueError: .* of 2\.pt, .* of 3\.pt"):
        load_on(2, tmp_path)


def test_a_checkpoint_without_a_file_is_refused(tmp_path):
    with pytest.raises(RankError, match="it has none"):
        load_on(1, tmp_path)
    launch(save_parts, tmp_path, world_size=2, device="cpu")
    assert sum(load_on(1, tmp_path)) > 0
    (tmp_path / "rank 1 of 2.pt").unlink()
    with pytest.raises(RankError, match=r"it has rank 0 of 2\.pt: save each"):
        load_on(1, tmp_path)
