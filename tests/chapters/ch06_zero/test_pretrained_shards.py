"""Weights from safetensors files, on ranks; and ranks that compile at different times."""

import pytest
import torch
from helpers import load_solved_lab

from pedagogy_lib import LaunchError, launch

PRETRAINED, RECOMPILING = map(load_solved_lab, ("pretrained_shards", "recompiling_ranks"))
WORDS = ["--width", "20", "--layers", "1"]  # 3 ranks cannot share the rows equally


def read_from(folder):
    model = PRETRAINED.start_from_shapes(WORDS)
    PRETRAINED.read_own_shards(model, folder)
    return {name: weight.full_tensor() for name, weight in model.state_dict().items()}


@pytest.fixture
def folder(tmp_path):
    pytest.importorskip("safetensors")
    PRETRAINED.write_files(tmp_path, WORDS)
    return tmp_path


def test_every_way_gives_the_model_that_was_written_bit_by_bit(folder):
    run = launch(PRETRAINED.read_in_each_way, str(folder), WORDS, world_size=3, device="cpu")
    assert [set(equal.values()) for equal, _ in run.values] == [{True}] * 3


def test_a_rank_that_reads_its_part_sends_and_holds_less_than_a_model(folder):
    words = ["--width", "128"]
    PRETRAINED.write_files(folder, words)
    run = launch(PRETRAINED.read_in_each_way, str(folder), words, world_size=2, device="cpu")
    (_, sent, held, _), (_, own_sent, own_held, _) = PRETRAINED.compare_ways(run)
    assert float(own_sent) < 0.1 < 0.9 < float(sent)
    assert float(own_held) < 0.5 < 0.9 < float(held)


def test_a_name_that_the_files_lack_raises_an_error(folder):
    from safetensors.torch import load_file, save_file

    path = sorted(folder.glob("*.safetensors"))[-1]
    weights = load_file(path)
    weights["another.weight"] = weights.pop("lm_head.weight")
    save_file(weights, path)
    with pytest.raises(LaunchError, match=r"lm_head\.weight"):
        launch(read_from, str(folder), world_size=2, device="cpu")


def test_other_rows_raise_nothing(folder):
    from safetensors.torch import load_file, save_file

    path = sorted(folder.glob("*.safetensors"))[-1]
    weights = load_file(path)
    weights["lm_head.weight"] = weights["lm_head.weight"].flip(0).contiguous()
    save_file(weights, path)
    read = launch(read_from, str(folder), world_size=2, device="cpu").values[0]
    assert torch.equal(read["output.weight"], weights["lm_head.weight"])


def test_no_name_is_made_up():
    with pytest.raises(ValueError, match=r"head\.weight"):
        PRETRAINED.rename_for_file("head.weight")


def test_one_rank_that_recompiles_makes_the_others_wait():
    own, other = launch(RECOMPILING.recompile_on_one_rank, False, world_size=2, device="cpu").values
    assert (own[0], other[0]) == (1, 2)
    assert "Timed out" in own[1]


def test_with_guard_collectives_all_recompile():
    run = launch(RECOMPILING.recompile_on_one_rank, True, 0.2, 30, world_size=2, device="cpu")
    assert run.values == [(2, "done")] * 2
