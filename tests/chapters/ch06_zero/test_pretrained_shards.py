"""Weights from safetensors files, on ranks; and ranks that compile at different times."""

import time
from unittest import mock

import pytest
import torch
from helpers import load_solved_lab
from torch import nn

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


def make_tied_model():
    model = PRETRAINED.make_model(PRETRAINED.options_of(WORDS))
    model.output.weight = model.letters.weight
    return model


def read_tied_model(folder):
    found = {}
    for way, read in PRETRAINED.WAYS.items():
        with torch.device("meta"):
            model = make_tied_model()
        PRETRAINED.shard(model, PRETRAINED.mesh_for("cpu"), PRETRAINED.options_of(WORDS))
        model.to_empty(device="cpu")
        read(model, folder)
        weights = {name: weight.full_tensor() for name, weight in model.state_dict().items()}
        found[way] = weights, model.output.weight is model.letters.weight
    return found


def test_a_tied_weight_is_in_the_files_once_and_read_in_every_way(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    torch.manual_seed(0)
    model = make_tied_model()
    PRETRAINED.write_weights(model, tmp_path)
    paths = tmp_path.glob("*.safetensors")
    names = [name for path in paths for name in safetensors.load_file(path)]
    assert "model.embed_tokens.weight" in names
    assert "lm_head.weight" not in names
    assert len(names) == len(list(model.parameters()))
    run = launch(read_tied_model, str(tmp_path), world_size=3, device="cpu")
    for weights, is_tied in (found for rank in run.values for found in rank.values()):
        assert is_tied
        assert weights.keys() == model.state_dict().keys()
        assert all(torch.equal(weights[n], weight) for n, weight in model.state_dict().items())


def test_one_rank_that_recompiles_makes_the_others_wait():
    own, other = launch(RECOMPILING.recompile_on_one_rank, False, world_size=2, device="cpu").values
    assert (own[0], other[0]) == (1, 2)
    assert "Timed out" in own[1]


def test_with_guard_collectives_all_recompile():
    run = launch(RECOMPILING.recompile_on_one_rank, True, 0.2, 30, world_size=2, device="cpu")
    assert run.values == [(2, "done")] * 2


def count_pauses(seconds=0.2125):
    """Recompile on one rank, where blocks differ and share no graph; return pauses and graphs."""
    with (
        mock.patch("time.sleep", wraps=time.sleep) as sleep,
        mock.patch.object(nn, "GELU", side_effect=[nn.GELU(), nn.GELU("tanh")]),
    ):
        graphs, end = RECOMPILING.recompile_on_one_rank(True, seconds, 30)
    return sleep.call_args_list.count(mock.call(seconds)), graphs, end


@pytest.mark.deep
def test_only_compiling_in_the_second_step_takes_time():
    run = launch(count_pauses, world_size=2, device="cpu")
    assert run.values == [(2, 4, "done")] * 2  # two blocks: two graphs in each step


def find_setting_afterwards():
    torch.compiler.set_enable_guard_collectives(True)
    RECOMPILING.recompile_on_one_rank(True, 0.0, 30)
    return torch.compiler.set_enable_guard_collectives(False)  # what it was


@pytest.mark.deep
def test_guard_collectives_are_as_before_afterwards():
    assert launch(find_setting_afterwards, world_size=2, device="cpu").values == [True] * 2
