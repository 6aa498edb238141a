# Built from chapters/ch03_data_parallel/labs/train_ddp.py by `make build`. Write your answers here.
"""A complete program that trains a classifier of digits with DDP, on one machine or on many.

torchrun --nproc-per-node 2 labs/train_ddp.py --epochs 4 --file checkpoint.pt
"""

import argparse
import os
from contextlib import nullcontext

import torch
import torch.distributed as dist

# Import this before a process group exists. If it were imported later, as by DDP itself, its
# functions would keep the group, and Gloo's threads would still run when the program ends.
import torch.distributed.nn.functional
import torch.nn.functional as F
from gradient_accumulation import digits
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def options_of(words=None):
    """Parse the command line, or a list of words."""
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
    """Exercise 3.17. A training run of several ranks that can be resumed: fill five holes.

    Every number of ranks that can share the batch gives the weights of one process, up to
    rounding.

    data     images and labels to train with, images and labels to test with
    options  see options_of
    Raises   ValueError if the ranks cannot share the batch equally
    """

    def __init__(self, data, options, device="cpu"):
        images, labels, tests, test_labels = data
        self.options, self.device, self.epoch = options, device, 0
        share = share_of_batch(options, len(images))
        dtype = torch.float64 if options.precision == "float64" else torch.float32
        self.tests, self.test_labels = tests.to(device, dtype), test_labels.to(device)
        torch.manual_seed(0)  # the same on all ranks, which make the same model
        model = nn.Sequential(nn.Linear(images.shape[1], 64), nn.ReLU(), nn.Linear(64, 10))
        self.model = model.to(device, dtype)
        self.ddp = DistributedDataParallel(self.model)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
        samples = TensorDataset(images.to(dtype), labels)  # the samples stay on the CPU
        self.sampler = DistributedSampler(samples, seed=1, drop_last=True)
        self.loader = DataLoader(samples, share, sampler=self.sampler, drop_last=True)
        self.autocast = torch.autocast(torch.device(device).type, torch.bfloat16,
                                       enabled=options.precision == "bfloat16")  # fmt: skip
        # From here on each rank draws its own numbers, if dropout or augmentation draws any. The
        # sampler has a seed of its own, the same on all ranks.
        torch.manual_seed(dist.get_rank())

    def train_epoch(self) -> float:
        """Train with all samples once, in a new order; return the mean loss over all ranks."""
        ...  # your code here
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        for images, labels in self.loader:
            total += self.backward(images.to(self.device), labels.to(self.device))
            self.update()
        self.epoch += 1
        dist.all_reduce(total)
        return (total / (dist.get_world_size() * len(self.loader))).item()

    def backward(self, images, labels):
        """Leave in .grad the mean over the batches of all ranks; return this rank's mean loss.

        The batch runs in options.parts equal micro-batches in turn, and gradients travel once.
        """
        loss = 0.0
        ...  # your code here
        return loss

    def update(self):
        """Clip the whole batch's gradient to norm options.clip, take a step, clear gradients."""
        ...  # your code here

    def evaluate(self) -> float:
        """Return on every rank the share of all test images that are right; compute each once."""
        ...  # your code here

    def state(self) -> dict:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                "epoch": self.epoch}  # fmt: skip

    def save(self):
        """Write state() to options.file on one rank; the old file stays until the new is whole."""
        ...  # your code here

    def resume(self):
        """Resume from options.file if rank 0 finds it; rank 0 reads it and informs all others."""
        found = None
        if dist.get_rank() == 0 and os.path.exists(self.options.file):
            found = torch.load(self.options.file, map_location=self.device)
        found = broadcast_state(found, self.device)
        if found is not None:
            self.model.load_state_dict(found["model"])
            self.optimizer.load_state_dict(found["optimizer"])
            self.epoch = found["epoch"]

    def run(self) -> list[float]:
        """Train until options.epochs, from the checkpoint if there is one; return the losses."""
        losses = []
        if self.options.file:
            self.resume()
        while self.epoch < self.options.epochs:
            losses.append(self.train_epoch())
            accuracy = self.evaluate()
            if self.options.file:
                self.save()
            if dist.get_rank() == 0:
                said = f"epoch {self.epoch}: loss {losses[-1]:.4f}, right {accuracy:.1%}"
                print(said, flush=True)
        return losses


def broadcast_state(state, device):
    """Return rank 0's `state` on every rank: tensors are sent one by one, all else as one object.

    An object is pickled as a whole, and NCCL sends it through the memory of each GPU.
    """
    outline = [tree_map_only(torch.Tensor, lambda x: x.to("meta"), state)]
    dist.broadcast_object_list(outline)
    if dist.get_rank() == 0:
        state = tree_map_only(torch.Tensor, torch.Tensor.contiguous, state)
    else:
        state = tree_map_only(
            torch.Tensor, lambda x: torch.empty(x.shape, dtype=x.dtype, device=device), outline[0]
        )
    for leaf in tree_leaves(state):
        if isinstance(leaf, torch.Tensor):
            dist.broadcast(leaf, 0)
    return state


def share_of_batch(options, samples) -> int:
    """Return how many samples of a step each rank gets, so that all micro-batches are equal.

    Raises  ValueError if the ranks cannot share the batch equally
    """
    n, parts = dist.get_world_size(), options.parts
    if parts < 1 or options.batch % (n * parts) or not 0 < options.batch <= samples:
        raise ValueError(
            f"--batch {options.batch} cannot be shared by {n} ranks in {parts} micro-batches each: "
            f"it has to be a multiple of {n} x {parts}, and at most {samples}"
        )
    return options.batch // n


@record  # torchrun then reports the traceback of the rank that failed first
def main(words=None):
    options = options_of(words)
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))  # this process's own GPU
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
    else:
        device = torch.device("cpu")
        dist.init_process_group("gloo")
    Training(digits(), options, device).run()  # not kept, as its DDP would keep the group
    dist.destroy_process_group()


if __name__ == "__main__":
    from pedagogy_lib.unwritten import misses_something  # finds holes; not needed otherwise

    if not misses_something(__file__):
        main()
