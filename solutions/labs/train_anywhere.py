# Built from chapters/ch03_data_parallel/labs/train_anywhere.py by `make build`.
"""The program of labs/train_ddp.py, started in several ways that should give the same weights.

torchrun --nproc-per-node 2 labs/train_anywhere.py
"""

import contextlib
import io
import re
import shutil
import tempfile
from pathlib import Path

import torch.distributed as dist
from gradient_accumulation import digits
from torch import Tensor, nn
from train_ddp import Training, options_of

# Each rank prints its numbers in one piece, because two ranks write at the same time.
PROGRAM = """
import os
from pedagogy_lib import lab

who = "rank {{RANK}}: local rank {{LOCAL_RANK}}\\n".format(**os.environ)
os.write(1, who.encode())
lab("train_ddp").main({words})
"""
LINE = re.compile(r"rank \d+: local rank \d+|epoch \d+: loss .*")


def run_on_machines(folder, words, machines=2, ranks_on_each=2):
    """Start train_ddp.py with torchrun on several machines; return the result of run_torchrun.

    folder  where to write the program that all machines start
    words   the options of train_ddp.py, as in a terminal
    """
    from pedagogy_lib import run_torchrun

    program = Path(folder, "program.py")
    program.write_text(PROGRAM.format(words=list(words)))
    with contextlib.redirect_stdout(io.StringIO()):  # shown afterwards, by machine
        return run_torchrun(program, nnodes=machines, nproc_per_node=ranks_on_each, timeout=120)


def lines_of(said) -> list[str]:
    """Return the sorted lines of a machine's ranks: their numbers, and the loss of each epoch."""
    return sorted(LINE.findall(said), key=lambda line: (line.startswith("epoch"), line))


def losses_in(said) -> list[float]:
    return [float(loss) for loss in re.findall(r"loss ([\d.]+)", said)]


def train_to_end(data, words) -> tuple[list, float, Tensor]:
    """Train to the end on this rank, from the checkpoint if there is one.

    Returns  the loss of each epoch, the share of test images that are right, and all weights
    """
    with contextlib.redirect_stdout(io.StringIO()):
        training = Training(data, options_of(words))
        losses = training.run()
    weights = nn.utils.parameters_to_vector(training.model.parameters()).detach()
    return losses, training.evaluate(), weights


# ---- The program ----------------------------------------------------------------------------


def program() -> str:
    """Train for four epochs, in one go and with a restart after two; compare the weights."""
    from pedagogy_lib import relative_gap

    data, folder = digits(), [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)
    words = ["--precision", "float64", "--file", f"{folder[0]}/digits.pt", "--epochs"]
    *_, whole = train_to_end(data, ["--precision", "float64", "--epochs", "4"])
    first, *_ = train_to_end(data, [*words, "2"])
    second, _, again = train_to_end(data, [*words, "4"])
    if dist.get_rank() == 0:
        shutil.rmtree(folder[0])
    gap = relative_gap(again, whole)
    return f"{len(first)} + {len(second)} epochs; from 4 in one go, weights differ by {gap:.1f}"


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(program, world_size=2, device="cpu")
    if run.rank == 0:
        print(run.values[0])


if __name__ == "__main__":
    main()
