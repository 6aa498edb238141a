import functools
import logging

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 40
CLASSES = ["person", "car", "bicycle", "dog"]
logger = logging.getLogger("train")


def setup_logger(rank):
    logging.basicConfig(format="%(asctime)s | %(levelname)s | %(message)s")
    logger.setLevel(logging.INFO if rank == 0 else logging.CRITICAL)


def catch(function):
    @functools.wraps(function)
    def wrapped(*args):
        try:
            return function(*args)
        except Exception:
            logger.exception("An error has been caught in %s", function.__name__)
            raise
    return wrapped


def annotations(rank, step, generator):
    names = [CLASSES[int(i)] for i in torch.randint(0, 4, (32,), generator=generator)]
    if rank == 3 and step == 12:
        names[4] = "scooter"
    return torch.tensor([CLASSES.index(name) for name in names])


@catch
def main(rank):
    generator = torch.Generator().manual_seed(rank)
    model = DDP(nn.Sequential(nn.Linear(64, 512), nn.SiLU(), nn.Linear(512, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(STEPS):
        x = torch.randn(32, 64, generator=generator)
        y = annotations(rank, step, generator)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            logger.info("step %d loss %.4f", step, loss.item())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    setup_logger(dist.get_rank())
    main(dist.get_rank())
