"""Every lab is a program: solved, it runs under torchrun and says what it has found."""

import subprocess
import sys

import pytest
from helpers import ROOT, environment

SAID = {
    "collectives": ["dist.all_reduce right"],
    "data_parallel": ["in buckets, meanwhile", "DistributedDataParallel"],
    "decoding": ["\n2 ranks: ", "letters per second"],
    "gradient_accumulation": ["of the test images right"],
    "gradient_sync_visualizer": ["0.weight   after   rank 1", "bucket 1:", "all in one"],
    "language_model": ["step 200", "def "],
    "memory": ["float32, blocks recomputed: loss", "bfloat16, masters in float32: loss"],
    "sequence_parallel": ["overlapped: loss", "sequence parallel, gathered again: loss"],
    "sharding_engines": ["ours, stage 3", "FSDP2, 2 halves"],
    "simple_ddp": ["to DistributedDataParallel's weights", "; communication adds"],
    "start_here": [""],
    "tensor_engines": ["\nDTensor: loss", "DTensor, sequence parallel: loss"],
    "tensor_parallel": ["one process: loss", "251 kB of parameters on a rank"],
    "zero": [
        "1.00 models sent; at most parameters 1.00",
        "1.50 models sent; at most parameters 0.",
    ],
    "zero_on_disk": ["with a checkpoint after the tenth"],
}


HOLED = [
    "simple_ddp", "gradient_sync_visualizer", "data_parallel", "memory", "zero",
    "tensor_parallel", "sequence_parallel", "decoding",
]  # fmt: skip


def run(path, *launcher):
    command = [sys.executable, *launcher, str(path)]
    done = subprocess.run(command, env=environment(OMP_NUM_THREADS="1"), capture_output=True,
                          text=True, timeout=120, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "solutions" / "labs").glob("*.py")), ids=str)
def test_a_solved_lab_under_torchrun(path):
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    said = run(path, *(launcher if path.stem != "language_model" else ()))
    for phrase in SAID[path.stem]:
        assert phrase in said


@pytest.mark.slow
@pytest.mark.parametrize("name", HOLED)
def test_a_lab_with_holes_says_what_is_missing(name):
    said = run(ROOT / "labs" / f"{name}.py")
    assert "still to be written" in said
