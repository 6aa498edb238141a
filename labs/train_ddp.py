"""A whole program: train a classifier of digits with DDP, on any number of ranks and machines.

torchrun --nproc-per-node 2 labs/train_ddp.py --epochs 4 --file checkpoint.pt
"""

import argparse
import os
import time
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F
from gradient_accumulation import digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def options_of(words=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=96, help="samples of a step, over all ranks")
    parser.add_argument("--parts", type=int, default=2, help="micro-batches of each rank in a step")
    parser.add_argument("--clip", type=float, default=0.5, help="largest norm of the gradient")
    parser.add_argument("--precision", choices=["float32", "float64", "bfloat16"],
                        default="float32", help="bfloat16: weights stay float32")  # fmt: skip
    parser.add_argument("--file", help="of the checkpoint; without it, nothing is saved")
    return parser.parse_args(words)


class Training:
    """Exercise 3.16. A training that any number of ranks can do, and go on with: fill five holes.

    On n ranks it gives the weights of one process with the same options, but for rounding. The
    batch has to be a multiple of n times the parts.

    data     images and labels to train with, images and labels to test with
    options  see options_of
    """

    def __init__(self, data, options, device="cpu"):
        self.options, self.epoch, n = options, 0, dist.get_world_size()
        dtype = torch.float64 if options.precision == "float64" else torch.float32
        images, self.labels, tests, self.test_labels = (part.to(device) for part in data)
        self.tests = tests.to(dtype)
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(images.shape[1], 64), nn.ReLU(), nn.Linear(64, 10))
        self.model = model.to(device, dtype)
        self.ddp = DistributedDataParallel(self.model)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
        samples = TensorDataset(images.to(dtype), self.labels)
        self.sampler = DistributedSampler(samples, seed=1, drop_last=True)
        self.loader = DataLoader(samples, options.batch // n, sampler=self.sampler, drop_last=True)
        self.autocast = torch.autocast(torch.device(device).type, torch.bfloat16,
                                       enabled=options.precision == "bfloat16")  # fmt: skip

    def train_epoch(self) -> float:
        """Train with all samples once, in a new order; returns the mean loss over all ranks."""
        ...  # your code here
        total = torch.zeros((), dtype=torch.float64, device=self.labels.device)
        for images, labels in self.loader:
            total += self.backward(images, labels)
            self.update()
        self.epoch += 1
        dist.all_reduce(total)
        return (total / (dist.get_world_size() * len(self.loader))).item()

    def backward(self, images, labels):
        """Leave in .grad the mean over the batches of all ranks; returns this rank's mean loss.

        In options.parts equal micro-batches, one after another; gradients travel once.
        """
        loss = 0.0
        ...  # your code here
        return loss

    def update(self):
        """Clip the gradient of the whole batch to the norm options.clip, and take a step."""
        ...  # your code here

    def evaluate(self) -> float:
        """The share of all test images that are right, on every rank; each is computed once."""
        ...  # your code here

    def state(self) -> dict:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                "epoch": self.epoch}  # fmt: skip

    def save(self):
        """Write state() to options.file: one rank does; until it is whole, the old one is there."""
        ...  # your code here

    def resume(self):
        """Go on from options.file, if it is there. All ranks read it."""
        dist.barrier()  # nobody looks before the others are here
        if os.path.exists(self.options.file):
            state = torch.load(self.options.file, map_location=self.labels.device)
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.epoch = state["epoch"]


def main(words=None):
    options = options_of(words)
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))  # this process's own GPU
        torch.cuda.set_device(device)
        dist.init_process_group("nccl")
    else:
        device = torch.device("cpu")
        dist.init_process_group("gloo")
    training = Training(digits(), options, device)
    if options.file:
        training.resume()
    while training.epoch < options.epochs:
        loss, accuracy = training.train_epoch(), training.evaluate()
        if options.file:
            training.save()
        if dist.get_rank() == 0:
            print(f"epoch {training.epoch}: loss {loss:.4f}, right {accuracy:.1%}", flush=True)
    time.sleep(0.2)  # Gloo's threads need Python to free their last tensors: do not end before
    dist.destroy_process_group()


if __name__ == "__main__":
    from pedagogy_lib.unwritten import misses_something  # whether holes are left; not needed else

    if not misses_something(__file__):
        main()
