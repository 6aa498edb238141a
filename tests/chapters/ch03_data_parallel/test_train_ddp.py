"""Promises of labs/train_ddp.py that no exercise asks for, and of the options that 03e compares."""

import inspect
import pickle
import shutil
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from helpers import load_solved_lab
from torch.nn.parallel import DistributedDataParallel

from pedagogy_lib import RankError, launch, measure

PROGRAM, OPTIONS = load_solved_lab("train_ddp"), load_solved_lab("ddp_options")


def few_digits():
    chance = torch.Generator().manual_seed(0)
    images = torch.rand(60, 64, generator=chance)
    labels = torch.randint(10, (60,), generator=chance)
    return images[:48], labels[:48], images[48:], labels[48:]


@pytest.mark.parametrize("words", [
    ["--batch", "24", "--parts", "7"],  # chunk(7) would make 6 pieces of 12
    ["--batch", "25", "--parts", "1"],
    ["--batch", "24", "--parts", "0"],
    ["--batch", "96"],  # more than there are
])  # fmt: skip
def test_a_batch_that_ranks_cannot_share_is_refused(words):
    with pytest.raises(RankError, match="has to be a multiple of 2 x"):
        launch(PROGRAM.Training, few_digits(), PROGRAM.options_of(words), world_size=2,
               device="cpu")  # fmt: skip


def epochs_and_weights(*args):
    return zip(*launch(go_on, PROGRAM, *args, world_size=2, device="cpu").values)


def go_on(program, data, files, epochs):
    """Each rank has a disk of its own: a file of another name."""
    words = ["--batch", "24", "--epochs", str(epochs), "--file", files[dist.get_rank()]]
    training = program.Training(data, program.options_of(words))
    losses = training.run()
    return len(losses), torch.cat([p.detach().flatten() for p in training.model.parameters()])


def test_all_ranks_go_on_from_what_rank_0_has_read(tmp_path):
    files, data = [str(tmp_path / "0.pt"), str(tmp_path / "1.pt")], few_digits()
    epochs_and_weights(data, files, 2)
    assert not (tmp_path / "1.pt").exists()
    epochs, weights = epochs_and_weights(data, files, 3)
    assert epochs == (1, 1)
    assert torch.equal(*weights)

    shutil.move(files[0], files[1])  # rank 0 finds nothing: then nobody goes on
    epochs, weights = epochs_and_weights(data, files, 3)
    assert epochs == (3, 3)
    assert torch.equal(*weights)


def resume_and_count(program, data, file):
    """Return the bytes of the objects that `resume` pickles, and those of the model."""
    training = program.Training(data, program.options_of(["--batch", "24", "--file", file]))
    training.train_epoch()
    training.save()
    dist.barrier()
    with mock.patch.object(
        dist, "broadcast_object_list", wraps=dist.broadcast_object_list
    ) as calls:
        training.resume()
    pickled = sum(len(pickle.dumps(call.args[0])) for call in calls.call_args_list)
    return pickled, sum(p.nbytes for p in training.model.parameters())


def test_the_tensors_of_a_checkpoint_are_sent_as_tensors(tmp_path):
    file = str(tmp_path / "digits.pt")
    run = launch(resume_and_count, PROGRAM, few_digits(), file, world_size=2, device="cpu")
    for pickled, model_bytes in run.values:
        assert pickled < model_bytes / 4


def broadcast_odd_state(program):
    column = torch.arange(6.0).view(3, 2).t()  # not contiguous
    state = {"a": [column, torch.tensor(7)], 2: {"b": None, "rate": 0.5}, "half": column.bfloat16()}
    return program.broadcast_state(state if dist.get_rank() == 0 else None, torch.device("cpu"))


def test_a_state_of_any_shape_arrives_on_all_ranks():
    for state in launch(broadcast_odd_state, PROGRAM, world_size=3, device="cpu").values:
        assert state["a"][0].tolist() == [[0, 2, 4], [1, 3, 5]]
        assert (state["a"][1].item(), state[2]) == (7, {"b": None, "rate": 0.5})
        assert torch.equal(state["half"], state["a"][0].bfloat16())


def draw_after_construction(program, data):
    training = program.Training(data, program.options_of(["--batch", "24"]))
    weights = torch.cat([p.detach().flatten() for p in training.model.parameters()])
    training.sampler.set_epoch(1)
    mask = torch.nn.functional.dropout(torch.ones(64)).tolist()
    return weights.tolist(), mask, list(training.sampler)


def test_ranks_make_one_model_share_one_order_and_draw_different_masks():
    run = launch(draw_after_construction, PROGRAM, few_digits(), world_size=3, device="cpu")
    weights, masks, shares = zip(*run.values)
    assert weights[0] == weights[1] == weights[2]
    assert len(set(map(tuple, masks))) == 3
    assert sorted(sample for share in shares for sample in share) == list(range(48))


def test_buffers_are_not_synced_by_the_option_of_this_pytorch():
    names = inspect.signature(DistributedDataParallel).parameters
    assert set(OPTIONS.BUFFERS_NOT_SYNCED) < set(names)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["broadcast_buffers", "forward_sync_buffers"])
def test_the_option_of_before_2_13_sends_nothing_in_a_forward_either(name):
    if name not in inspect.signature(DistributedDataParallel).parameters:
        pytest.skip("this PyTorch has no such option")

    def forward(options):
        ddp = DistributedDataParallel(torch.nn.BatchNorm1d(512), **options)
        with measure("forward"):
            ddp(torch.rand(4, 512))

    run = launch(forward, {name: False}, world_size=2, device="cpu")
    assert run["forward"].sent_bytes == [0, 0]
