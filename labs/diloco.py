# Built from chapters/ch04_failure_and_recovery/labs/diloco.py by `make build`. Write your answers here.
"""DiLoCo: workers that train alone for many steps and then agree; they may join and leave.

torchrun --nproc-per-node 4 labs/diloco.py
"""

import shutil
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from folder_store import FolderStore
from gradient_accumulation import digits
from keep_training import Crew, Training, away_once, common_folder, talking, train
from torch import Tensor

OUTER_RATE, OUTER_MOMENTUM = 0.7, 0.9  # as in the paper


def outer_step(whole: list[Tensor], mine: list[Tensor], optimizer, group=None) -> None:
    """Exercise 4.16. Agree on new weights after every worker has trained alone.

    The outer gradient, whole - mine, is how far the workers have moved away from the common
    weights, averaged over the workers that are present. The outer optimizer takes a step with it,
    and all workers begin the next round at the result: `whole` and `mine` are changed in place.

    If a call fails, its error goes on to the caller, and `whole`, `mine` and the optimizer's
    momentum are as before: nothing changes until the last sum has arrived, and no call follows it.

    whole      the common weights, the same on all ranks; the optimizer's parameters
    mine       the weights that this worker has made of them, of the same shapes
    optimizer  one of torch.optim, over `whole`
    Cost       all-reduces of as many bytes as the weights have
    """
    ...  # your code here


class Worker(Training):
    """A worker: INNER steps alone, on its own samples, and then an outer step with all others.

    steps     rounds
    whole     the common weights after the last outer step
    has_gone  the round for which this worker has already taken its inner steps: if the outer step
              fails because a worker died, they need not be taken again
    """

    INNER, SAMPLES = 20, 16

    def __init__(self, data=None, dtype=torch.float64, compute_seconds=0.0):
        super().__init__(data, dtype, compute_seconds)
        *_, test_images, self.test_labels = data or digits()
        self.test_images = test_images.to(dtype)
        self.mine = [parameter.data for parameter in self.model.parameters()]
        self.whole = [weights.clone() for weights in self.mine]
        self.outer = torch.optim.SGD(
            self.whole, lr=OUTER_RATE, momentum=OUTER_MOMENTUM, nesterov=True
        )
        self.has_gone = None

    def train_alone(self, rank):
        if self.has_gone == self.steps:
            return
        self.model.train()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1000 * self.steps + rank)  # for samples and dropout, on each rank
            for _ in range(self.INNER):
                chosen = torch.randint(len(self.labels), (self.SAMPLES,))
                self.optimizer.zero_grad()
                loss = F.cross_entropy(self.model(self.images[chosen]), self.labels[chosen])
                loss.backward()
                self.optimizer.step()
                time.sleep(self.compute_seconds)
        self.has_gone = self.steps

    def weights(self) -> Tensor:
        """Return the common weights in one row."""
        return torch.cat([weights.flatten() for weights in self.whole])

    @torch.no_grad()
    def test(self) -> float:
        """Return the loss on images that no worker trains on."""
        self.model.eval()
        return F.cross_entropy(self.model(self.test_images), self.test_labels).item()

    def state_dict(self):
        return {
            "whole": self.whole,
            "outer": self.outer.state_dict(),
            "steps": self.steps,
            "losses": self.losses,
        }

    def load_state_dict(self, state):
        for common, own, saved in zip(self.whole, self.mine, state["whole"]):
            common.copy_(saved)
            own.copy_(saved)
        self.outer.load_state_dict(state["outer"])
        self.steps, self.losses = state["steps"], dict(state["losses"])


def take_round(worker, crew) -> bool:
    """Take inner steps alone and an outer step together; return whether a newcomer waits."""
    worker.train_alone(dist.get_rank())
    waits = torch.tensor([crew.somebody_waits()]).long()
    with talking():
        dist.all_reduce(waits)
        outer_step(worker.whole, worker.mine, worker.outer)
    worker.steps += 1
    worker.losses[worker.steps] = worker.test()
    return waits.item() > 0


# ---- The program ----------------------------------------------------------------------------


def program(data, rounds=10) -> list[float]:
    folder = common_folder()
    crew = Crew(FolderStore(folder / "store"), dist.get_world_size())
    worker = Worker(data)
    step = away_once(take_round, rounds // 2, crew, lambda: worker.__init__(data))
    train(worker, crew, rounds, step)
    dist.barrier()
    shutil.rmtree(folder, ignore_errors=True)
    return [worker.losses[k] for k in range(1, rounds + 1)]


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(program, digits(), device="cpu")
    if run.rank == 0:
        print("loss on test images, after each round:", *(f"{loss:.2f}" for loss in run.values[0]))


if __name__ == "__main__":
    main()
