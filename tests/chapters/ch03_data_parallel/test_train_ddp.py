"""Promises of labs/train_ddp.py that no exercise asks for, and of the options that 03e compares."""

import inspect
import shutil

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
