"""Restarts under plain torchrun: how many of a few succeed, by the store where ranks meet."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rows import Measurement, Row

TIMES, SECONDS = 6, 30
PROGRAM = """
import os
import torch, torch.distributed as dist

dist.init_process_group("gloo")
group = dist.new_group()
for step in range(30):
    dist.all_reduce(torch.ones(3), group=group)
if dist.get_rank() == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    os.kill(os.getpid(), 9)
dist.all_reduce(torch.ones(3), group=group)
dist.destroy_process_group()
"""


def measurements() -> list[Measurement]:
    return [Measurement("restarts that succeed", measure_restarts)]


def measure_restarts():
    """Count restarts that succeed; one store for all lives, which torchrun uses, has no limit."""
    for shared, words in ((False, "a store of its own for each life"), (True, "one for all")):
        count = sum(restarts(shared) for _ in range(TIMES))
        yield Row(f"restarts of {TIMES} that succeed, {words}", f"{count}",
                  limit="" if shared else f">= {TIMES}",
                  holds=shared or count == TIMES)  # fmt: skip


def restarts(shared) -> bool:
    """Return whether torchrun's two ranks start again and finish after one was killed."""
    stores = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "01"[not shared]}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone",
               "--nproc-per-node=2", "--max-restarts=1"]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "program.py")
        program.write_text(PROGRAM)
        environ = os.environ | stores | {"TMPDIR": folder}  # torchrun keeps its logs there
        with subprocess.Popen([*command, program], env=environ, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as agent:  # fmt: skip
            try:
                return agent.wait(SECONDS) == 0
            except subprocess.TimeoutExpired:
                agent.terminate()
                return False
