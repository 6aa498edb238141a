"""Runs several programs, one after another, in the same processes: programs.py a.py b.py …

So that they share one start of torchrun. Each one's output comes after a line with its path.
"""

import gc
import os
import runpy
import sys

import torch
import torch.distributed as dist

_, *paths = sys.argv
for path in paths:
    if dist.is_initialized():
        dist.barrier()
    if os.environ.get("RANK", "0") == "0":
        print(f"\n=== {path}", flush=True)
    torch.set_default_dtype(torch.float32)  # some compare in float64
    sys.argv, sys.path[0] = [path], os.path.dirname(path)
    gc.collect()  # what the program before has left is not to count in this one's memory
    runpy.run_path(path, run_name="__main__")
