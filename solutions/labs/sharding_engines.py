"""The engines that people use, beside ours: the same model, the same steps, on the same ranks.

torchrun --nproc-per-node 4 labs/sharding_engines.py
"""

import copy
from functools import partial
from statistics import median

import torch
import torch.distributed as dist
from language_model import Transformer, draw_batch, mean_loss, standard_library
from simple_ddp import now, share_of_rank
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from zero import Zero1, Zero2, Zero3, whole

RATE = 1e-3
adam = partial(torch.optim.Adam, lr=RATE)


class Engine:
    """What trains a model.

    module     what to call in the forward
    backward   takes the loss
    step       updates the model, and clears the gradients
    weights()  every parameter in full, in the order of the model, as one flat tensor
    """

    def __init__(self, module, optimizer, model):
        self.module, self.optimizer, self.model = module, optimizer, model

    def backward(self, loss):
        loss.backward()

    def step(self):
        self.optimizer.step()
        self.optimizer.zero_grad()

    def weights(self):
        found = [p.full_tensor() if isinstance(p, DTensor) else p for p in self.model.parameters()]
        return torch.cat([p.detach().reshape(-1) for p in found])


def ddp(model):
    return Engine(DistributedDataParallel(model), adam(model.parameters()), model)


def zero_redundancy(model):
    """PyTorch's stage 1: DDP, and an optimizer that shares out whole parameters."""
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=RATE)
    return Engine(DistributedDataParallel(model), optimizer, model)


class Ours(Engine):
    """A stage of labs/zero.py."""

    def __init__(self, stage, model):
        self.engine = stage(model, adam, list(model.blocks))
        super().__init__(model, None, model)

    def step(self):
        self.engine.step()

    def weights(self):
        with whole(self.engine):
            return super().weights().clone()


def fsdp(model, **settings):
    """FSDP2: each block is a unit, what is left is one more."""
    for block in model.blocks:
        fully_shard(block, **settings)
    fully_shard(model, **settings)
    return Engine(model, adam(model.parameters()), model)


def hybrid(model):
    """FSDP within halves of the world, and gradients averaged between them, as DDP does."""
    device, n = torch.get_default_device().type, dist.get_world_size()
    mesh = init_device_mesh(device, (2, n // 2), mesh_dim_names=("replicate", "shard"))
    return fsdp(model, mesh=mesh)


ENGINES = {
    "DDP": ddp,
    "ours, stage 1": partial(Ours, Zero1),
    "ZeroRedundancyOptimizer": zero_redundancy,
    "ours, stage 2": partial(Ours, Zero2),
    "FSDP2, kept gathered": partial(fsdp, reshard_after_forward=False),
    "ours, stage 3": partial(Ours, Zero3),
    "FSDP2": partial(fsdp, reshard_after_forward=True),
    "FSDP2, 2 halves": hybrid,
}

DEEPSPEED = {}


def all_engines() -> list:
    """(name, what makes it) of all that can be had here."""
    return [*ENGINES.items(), *DEEPSPEED.items()]


# ---- The same steps in each -----------------------------------------------------------------


def make_model(width=64, layers=4, dtype=torch.float32):
    torch.manual_seed(0)
    return Transformer(width, layers).to(dtype)


def train_alone(model, text, steps, samples):
    """One process with the whole batch; returns its weights."""
    optimizer = adam(model.parameters())
    for step in range(steps):
        inputs, targets = draw_batch(text, samples, step)
        optimizer.zero_grad()
        mean_loss(model(inputs), targets).backward()
        optimizer.step()
    return torch.cat([p.detach().view(-1) for p in model.parameters()])


def try_engine(make_engine, model, text, steps=6, samples=16) -> tuple[float, float]:
    """Train; the last step is measured: "step", and within it "kept", before the optimizer.

    Returns  the largest difference of a weight to one process, and the median seconds of a step
    """
    from pedagogy_lib import measure

    alone = train_alone(copy.deepcopy(model), text, steps, samples)
    engine, times = make_engine(model), []
    for step in range(steps):
        inputs, targets = share_of_rank(draw_batch(text, samples, step))
        dist.barrier()
        began = now()
        if step < steps - 1:
            engine.backward(mean_loss(engine.module(inputs), targets))
            engine.step()
        else:
            with measure("step"):
                engine.backward(mean_loss(engine.module(inputs), targets))
                with measure("kept"):
                    pass
                engine.step()
        times.append(now() - began)
    return (engine.weights() - alone).abs().max().item(), median(times[2:-1])


# ---- The program ----------------------------------------------------------------------------


def one_engine(name, text):
    return try_engine(dict(all_engines())[name], make_model(), text)


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import still_to_write

    if missing := still_to_write(__file__):
        return print("still to be written:", ", ".join(missing))
    text, model_bytes = standard_library(), sum(p.nbytes for p in make_model().parameters())
    for name, _ in all_engines():
        run = launch(one_engine, name, text, world_size=4)
        if run.rank == 0:
            gap, seconds = run.values[0]
            kept, sent = run["kept"].peak_bytes[0], run["step"].sent_bytes[0]
            kinds = ("parameters", "gradients", "optimizer_state")
            print(
                f"{name:24} {1e3 * seconds:5.0f} ms, {sent / model_bytes:.2f} models sent, kept: "
                + ", ".join(f"{kind} {kept[kind] / model_bytes:.2f}" for kind in kinds)
                + f" models; {gap:.0e} from one process"
            )


if __name__ == "__main__":
    main()
