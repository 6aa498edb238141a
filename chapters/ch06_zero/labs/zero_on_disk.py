"""Shards on disk: an optimizer whose state is in a file, and checkpoints for any world size.

torchrun --nproc-per-node 4 labs/zero_on_disk.py
"""

import contextlib
import shutil
import tempfile
from functools import partial
from hashlib import sha256
from pathlib import Path

import torch
import torch.distributed as dist
from collectives import all_gather_ring
from language_model import Transformer, draw_batch, mean_loss, standard_library
from simple_ddp import share_of_rank
from torch import Tensor, nn
from zero import Zero3, drop_gathered, whole

# ---- Offloading -----------------------------------------------------------------------------
#
# ZeRO-Offload keeps the optimizer's state in the memory of the host, ZeRO-Infinity on its disk;
# the device is a GPU. Here the device is this machine's memory, and the host its disk.


def make_file_tensor(path, x: Tensor) -> Tensor:
    """Return a copy of x whose memory is a file, so that the disk backs it."""
    file = torch.from_file(str(path), shared=True, size=x.numel(), dtype=x.dtype, device="cpu")
    return file.view(x.shape).copy_(x)


class DiskOffloadOptimizer:
    """An optimizer that has everything in files: a copy of the parameters, and its state.

    A step takes the gradients to the host, steps there, and brings the parameters back. State that
    an optimizer makes in its first step goes to a file at once, parameter by parameter. A step
    overwrites what else has been written into a parameter, so load weights before you make this.

    parameters      on the device
    make_optimizer  takes a list of parameters; it gets one at a time
    folder          for the files, which are as large as the copies and the state. Each rank has its
                    own files in it; another optimizer needs another folder
    dtype           of the copies and of the state, if it is not that of the parameters: float32
                    makes the copies master weights of parameters in bfloat16
    Raises          ValueError if the optimizer needs all parameters at once, as
                    GradientClipOptimizer does
    Source          Ren et al. 2021, "ZeRO-Offload"; Rajbhandari et al. 2021, "ZeRO-Infinity"
    """

    @torch.no_grad()
    def __init__(self, parameters, make_optimizer, folder, dtype=None):
        rank = dist.get_rank() if dist.is_initialized() else 0
        self.parameters, self.folder = list(parameters), Path(folder, f"rank {rank}")
        need_one_by_one(make_optimizer([nn.Parameter(torch.zeros(1))]))
        self.folder.mkdir(parents=True, exist_ok=True)
        self.copies = [
            nn.Parameter(
                make_file_tensor(self.folder / f"{number}.parameter", p.to(dtype or p.dtype))
            )
            for number, p in enumerate(self.parameters)
        ]
        self.optimizers = [make_optimizer([copy]) for copy in self.copies]

    @torch.no_grad()
    def step(self):
        for number, p in enumerate(self.parameters):
            if p.grad is not None:
                copy, optimizer = self.copies[number], self.optimizers[number]
                copy.grad = p.grad.to(copy)
                optimizer.step()
                copy.grad = None
                self.file_state(number)
                p.copy_(copy)

    def file_state(self, number):
        """Move the state that the optimizer has made for a parameter into files."""
        copy, state = self.copies[number], self.optimizers[number].state[self.copies[number]]
        for name, x in state.items():
            if torch.is_tensor(x) and x.shape == copy.shape and not x.untyped_storage().filename:
                state[name] = make_file_tensor(self.folder / f"{number}.{name}", x)

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None


def need_one_by_one(optimizer):
    if getattr(optimizer, "takes_all", False):
        kind = type(optimizer).__name__
        raise ValueError(
            f"DiskOffloadOptimizer makes an optimizer for each parameter, but {kind} needs all of "
            f"them at once: put {kind} around DiskOffloadOptimizer"
        )


def make_large(folder, megabytes):
    """Return one large layer and its engine of stage 3.

    folder     for the optimizer's state; None: in memory
    megabytes  of Adam's state, on all ranks together
    """
    torch.manual_seed(0)
    side = int((megabytes * 1e6 / 8) ** 0.5)  # 8 bytes of state per number
    model, adam = nn.Linear(side, side, bias=False), torch.optim.Adam
    if folder is not None:
        adam = partial(DiskOffloadOptimizer, make_optimizer=adam, folder=folder)
    return model, Zero3(model, adam)


def train_large(folder, megabytes, steps=4) -> str:
    """Train a large layer; the last step is measured as "step"; return a hash of the weights.

    folder, megabytes  as for `make_large`
    """
    from pedagogy_lib import measure

    model, engine = make_large(folder, megabytes)
    x = torch.randn(8, model.in_features, requires_grad=True)
    for step in range(steps):
        with measure("step") if step == steps - 1 else contextlib.nullcontext():
            model(x + dist.get_rank()).square().mean().backward()
            engine.step()
    with whole(engine):
        weights = model.weight.detach().clone()  # NumPy would keep the storage
        return sha256(weights.numpy()).hexdigest()


def time_optimizers(folder, megabytes, rounds=6):
    """Measure the optimizer's step with its state in memory, and then on disk, in turns."""
    from pedagogy_lib import measure

    ways = {"state in memory": None, "state on disk": folder}
    made = {name: make_large(place, megabytes) for name, place in ways.items()}
    for name in [*made] * rounds:
        model, engine = made[name]
        model(torch.ones(8, model.in_features, requires_grad=True)).square().mean().backward()
        dist.barrier()
        with measure(name, memory=False):
            engine.step()


def watch_mixed(folder) -> int:
    """Train in stage 3 in bfloat16, with float32 masters and Adam's state in files.

    Both steps are measured, as "after the backward". Return how many numbers the model has.
    """
    from pedagogy_lib import measure

    model = nn.Linear(256, 256, bias=False).bfloat16()
    in_files = partial(DiskOffloadOptimizer, make_optimizer=torch.optim.Adam, folder=folder,
                       dtype=torch.float32)  # fmt: skip
    engine = Zero3(model, in_files)
    x = torch.randn(8, 256).bfloat16()
    for _ in range(2):
        model(x).float().square().mean().backward()
        with measure("after the backward"):
            pass
        engine.step()
    return 256 * 256


# ---- Checkpoints ----------------------------------------------------------------------------


def collect_optimizer_state(optimizer, p) -> dict[str, Tensor]:
    """Return what an optimizer keeps for a parameter, by name, even if another one is inside it.

    This is so in GradientClipOptimizer, in MixedPrecision, which keeps a master, and in
    DiskOffloadOptimizer, which keeps a copy. It is so in LossScaleOptimizer, too, but its factor
    belongs to no parameter, so it is not returned: save `scaler.scale` and `scaler.good` yourself.
    """
    if hasattr(optimizer, "state"):
        return dict(optimizer.state[p])
    place = next(k for k, own in enumerate(optimizer.parameters) if own is p)
    for name, optimizers in (("masters", None), ("copies", "optimizers")):
        if hasattr(optimizer, name):
            inside = getattr(optimizer, name)[place]
            one = getattr(optimizer, optimizers)[place] if optimizers else optimizer.optimizer
            return {"master": inside.detach(), **collect_optimizer_state(one, inside)}
    return collect_optimizer_state(optimizer.optimizer, p)


def make_state(engine) -> None:
    """Make the optimizer create its state, in a step that is overwritten afterwards.

    What was gathered ahead of time is dropped, because it soon is out of date.
    """
    drop_gathered(engine)
    for unit in engine.units.values():
        unit.shard.grad = torch.zeros_like(unit.shard)
    engine.optimizer.step()
    for unit in engine.units.values():
        unit.shard.grad = None


def show_shards(engine) -> None:
    """Give every rank all shards in stages 1 and 2, as a step does; stage 3 needs none of them."""
    for unit in engine.units.values():
        if unit.flat.untyped_storage().nbytes():
            all_gather_ring(unit.chunks, unit.group)


def need_all_ranks(engine) -> None:
    """Raise ValueError if an engine shards over a group: files and shards are numbered by rank."""
    n = dist.get_world_size()
    if any(unit.n != n for unit in engine.units.values()):
        raise ValueError(
            f"this engine shards over a group of the {n} ranks, but these files take one that "
            "shards over all of them"
        )


def get_unsharded(engine) -> dict[str, Tensor]:
    """Return what is in no unit, by name: frozen parameters, and buffers that a state_dict has."""
    in_units = {p for unit in engine.units.values() for p in unit.parameters}
    named = engine.model.state_dict(keep_vars=True)
    return {f"model.{name}": x.detach() for name, x in named.items() if x not in in_units}


def make_sharded_state(engine) -> dict[str, Tensor]:
    """Return the content of a ZeRO engine's checkpoint: shards, their optimizer state, the rest.

    Shards are written as parts of one long tensor without padding, since padding depends on the
    number of ranks. Each is a `DTensor`, which knows which part this rank has, so that
    torch.distributed.checkpoint can read them back in other parts, on more ranks or fewer.

    Raises  ValueError if the engine shards over a group of some ranks only
    """
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Shard

    need_all_ranks(engine)
    mesh = DeviceMesh.from_group(dist.group.WORLD, torch.get_default_device().type)
    state = get_unsharded(engine)
    for number, unit in enumerate(engine.units.values()):
        length, each = sum(unit.sizes), unit.shard.numel()
        here = max(0, min(each, length - unit.rank * each))  # of this shard, without padding
        for name, x in {
            "shard": unit.shard,
            **collect_optimizer_state(engine.optimizer, unit.shard),
        }.items():
            if x.shape == unit.shard.shape:
                x = DTensor.from_local(x.detach()[:here], mesh, [Shard(0)], run_check=False,
                                       shape=(length,), stride=(1,))  # fmt: skip
            state[f"{number}.{name}"] = x
    return state


def save(engine, folder) -> None:
    """Write a checkpoint of a ZeRO engine; every rank writes its own part.

    The folder is a new one: files that it has are overwritten, and if the program is killed
    meanwhile, neither checkpoint is whole. Of buffers that differ between ranks, one rank's are
    saved. The factor of a LossScaler is not saved.
    """
    import torch.distributed.checkpoint as dcp  # takes a second, in each fresh process

    dcp.save(make_sharded_state(engine), checkpoint_id=str(folder))


@torch.no_grad()
def load(engine, folder) -> None:
    """Read a checkpoint into an engine of the same model and units, on any number of ranks.

    It takes a step, which may change the factor of a LossScaler: restore that one afterwards.
    """
    import torch.distributed.checkpoint as dcp

    make_state(engine)
    dcp.load(make_sharded_state(engine), checkpoint_id=str(folder))  # into existing memory
    show_shards(engine)


# ---- The program ----------------------------------------------------------------------------


def train(engine, model, text, steps) -> float:
    for step in steps:
        inputs, targets = share_of_rank(draw_batch(text, 12, step))
        loss = mean_loss(model(inputs), targets)
        loss.backward()
        engine.step()
    return loss.item()


def make_engine():
    torch.manual_seed(0)
    model = Transformer()
    return Zero3(model, partial(torch.optim.Adam, lr=5e-3), list(model.blocks)), model


def program(text) -> tuple[float, float]:
    """Return the loss after 20 steps: in one go, and with a checkpoint after the tenth."""
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)  # all ranks use rank 0's
    engine, model = make_engine()
    train(engine, model, text, range(10))
    save(engine, folder[0])
    in_one_go = train(engine, model, text, range(10, 20))
    engine, model = make_engine()
    load(engine, folder[0])
    shutil.rmtree(folder[0], ignore_errors=True)  # by all ranks: each removes what it finds
    return in_one_go, train(engine, model, text, range(10, 20))


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(program, standard_library(), world_size=4)
    if run.rank == 0:
        in_one_go, resumed = run.values[0]
        print(f"loss of rank 0 after 20 steps: {in_one_go:.6f}")
        print(f"with a checkpoint after the tenth: {resumed:.6f}")


if __name__ == "__main__":
    main()
