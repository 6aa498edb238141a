"""Checkpoints of sharded training: which rank saves what, and how other ranks read it.

torchrun --nproc-per-node 4 labs/sharded_checkpoints.py
"""

import contextlib
import os
import shutil
import tempfile
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from checkpoints import list_files, load_newest, newest_whole, save
from collectives import all_gather_ring
from language_model import Transformer, draw_batch, mean_loss, standard_library
from pipeline_parallel import my_pipeline, parameters_of
from schedules import one_f_one_b
from simple_ddp import share_of_rank
from tensor_engines import mesh_of_all, tensor_plan
from tensor_parallel import parallelize, split_cross_entropy
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from zero import Zero1, Zero2, Zero3

# ---- One training run, in several ways ------------------------------------------------------

CONTEXT, SAMPLES, MICROBATCHES = 32, 12, 4
adam = partial(torch.optim.AdamW, lr=5e-3)


@contextlib.contextmanager
def silence_saver():
    """Discard standard error inside; PyTorch's saving process, started there, logs each request."""
    before = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def small_model(dtype=torch.float32) -> Transformer:
    """Return a model that is the same on every rank, with dropout at the end of each block."""
    torch.manual_seed(0)
    model = Transformer(width=32, layers=4, heads=4, context=CONTEXT)
    for block in model.blocks:
        block.mlp.append(nn.Dropout(0.1))
    return model.to(dtype)


class Way:
    """A way of training in parallel, as it is on this rank.

    modules     those that it computes with
    parameters  those that its optimizer updates, which no other rank may have
    take        takes a step with a batch, and returns the loss
    loaded      called when other values have been put into the parameters
    lengths     for ZeRO: how many numbers each shard is a part of, without padding
    """

    def __init__(self, modules, parameters, optimizer, take, loaded=lambda: None, lengths=()):
        self.modules, self.parameters, self.lengths = modules, list(parameters), lengths
        self.optimizer, self.take, self.loaded = optimizer, take, loaded


def data_parallel(model, settles=True):
    ddp, optimizer = DistributedDataParallel(model), adam(model.parameters())
    if settles:
        settle(ddp)
    torch.manual_seed(dist.get_rank())  # each rank drops other numbers

    def take(batch):
        inputs, targets = share_of_rank(batch)
        loss = mean_loss(ddp(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return Way([model], model.parameters(), optimizer, take)


def settle(ddp):
    """Make a new DDP assign the parameters to the buckets that it keeps from then on.

    DDP reorders its buckets after its first backward and from then on sums gradients in another
    order, which rounds differently. A resumed training run would otherwise take its first step in
    other buckets than the original run: not bit for bit the same, with three ranks or more.
    """
    letters = torch.zeros(1, CONTEXT, dtype=torch.long)
    mean_loss(ddp(letters), letters).backward()
    ddp(letters)  # here it rebuilds its buckets
    ddp.zero_grad()


def zero(stage, model):
    torch.manual_seed(dist.get_rank())  # each rank drops other numbers
    engine = stage(model, adam, list(model.blocks))

    def take(batch):
        inputs, targets = share_of_rank(batch)
        loss = mean_loss(model(inputs), targets)
        loss.backward()
        engine.step()
        return loss.item()

    def gather_all():
        """Gather all shards on every rank in stages 1 and 2; stage 3 gathers them when needed."""
        for unit in engine.units.values():
            if unit.flat.untyped_storage().nbytes():
                all_gather_ring(unit.chunks)

    shards = [unit.shard for unit in engine.units.values()]
    lengths = [sum(unit.sizes) for unit in engine.units.values()]
    return Way([model], shards, engine.optimizer, take, gather_all, lengths)


def tensor_parallel(model):
    parallelize(model)  # every rank has all numbers that are dropped, so it drops the same ones
    optimizer = adam(model.parameters())

    def take(batch):
        inputs, targets = batch
        loss = split_cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return Way([model], model.parameters(), optimizer, take)


def pipeline_parallel(model):
    torch.manual_seed(dist.get_rank())  # each stage drops other numbers
    pipeline = my_pipeline(model)
    optimizer = adam(parameters_of(pipeline))
    actions = list(one_f_one_b(pipeline.rank, pipeline.ranks, MICROBATCHES))

    def take(batch):
        optimizer.zero_grad()
        loss = pipeline.step(actions, *(part.tensor_split(MICROBATCHES) for part in batch))
        optimizer.step()
        return float(loss)

    pieces = [stage.piece for stage in pipeline.stages]
    return Way(pieces, parameters_of(pipeline), optimizer, take)


WAYS = {
    "DDP": data_parallel,
    "DDP as it comes": partial(data_parallel, settles=False),
    "ZeRO-1": partial(zero, Zero1),
    "ZeRO-2": partial(zero, Zero2),
    "ZeRO-3": partial(zero, Zero3),
    "tensor parallel": tensor_parallel,
    "pipeline": pipeline_parallel,
}


class ParallelTraining:
    """A training run in one of the WAYS; each rank saves only its own part of the state."""

    def __init__(self, way, text, dtype=torch.float32):
        self.text, self.steps, self.way = text, 0, WAYS[way](small_model(dtype))

    def step(self) -> float:
        loss = self.way.take(draw_batch(self.text, SAMPLES, self.steps, CONTEXT))
        self.steps += 1
        return loss

    def state_dict(self) -> dict:
        return {
            # A shard may be a view, and torch.save would write the whole storage behind it.
            "parameters": [p.detach().clone() for p in self.way.parameters],
            "optimizer": self.way.optimizer.state_dict(),
            "steps": self.steps,
            "generator": torch.get_rng_state(),
        }

    @torch.no_grad()
    def load_state_dict(self, state):
        for p, saved in zip(self.way.parameters, state["parameters"], strict=True):
            p.copy_(saved)
        self.way.loaded()
        self.way.optimizer.load_state_dict(state["optimizer"])
        self.steps = state["steps"]
        torch.set_rng_state(state["generator"])


def numbers_on_rank(way: Way) -> tuple[int, int]:
    """Return how many weights this rank has and how many numbers its optimizer keeps for them."""
    weights = sum(p.numel() for module in way.modules for p in module.parameters())
    own = sum(p.numel() for p in way.parameters)
    kept = [x.numel() for of in way.optimizer.state.values() for x in of.values() if x.dim()]
    return max(weights, own), sum(kept)


# ---- Shards of four ranks, read by three ----------------------------------------------------


def pieces_to_read(length, old, new, rank) -> list[tuple[int, int, int]]:
    """Exercise {{pieces_to_read}}. Return where a rank's new shard lies in the ranks' old shards.

    `length` numbers were saved by `old` ranks, in shards of ceil(length / old), one after another.
    Now `new` ranks share them in the same way, in shards of ceil(length / new). The last shards may
    be shorter, or empty.

    rank     the one of the new ranks that reads
    Returns  [(old rank, begin, end), …] in the order of the numbers: its shard from `begin` up to
             `end`, counted within this old shard; none of them is empty
    """
    ### BEGIN SOLUTION
    each, were = -(-length // new), -(-length // old)
    pieces, at, last = [], rank * each, min((rank + 1) * each, length)
    while at < last:
        owner = at // were
        end = min(last, (owner + 1) * were)
        pieces.append((owner, at - owner * were, end - owner * were))
        at = end
    return pieces
    ### END SOLUTION


@torch.no_grad()
def load_from_others(training: ParallelTraining, checkpoint: Path) -> str:
    """Load a ZeRO checkpoint that any number of ranks saved; read only what this rank needs.

    Returns  what is not restored, because it belongs to ranks of another number; "" if nothing
    """
    states = [torch.load(path, mmap=True) for path in list_files(checkpoint)]  # reads what is used
    way, rank, n = training.way, dist.get_rank(), dist.get_world_size()
    way.optimizer.load_state_dict(states[0]["optimizer"])  # settings, steps; moments follow
    training.steps = states[0]["steps"]
    for number, (shard, length) in enumerate(zip(way.parameters, way.lengths)):
        pieces = pieces_to_read(length, len(states), n, rank)
        fill(shard, [states[k]["parameters"][number][a:b] for k, a, b in pieces])
        for name in ("exp_avg", "exp_avg_sq"):
            moments = [states[k]["optimizer"]["state"][number][name][a:b] for k, a, b in pieces]
            way.optimizer.state[shard][name] = fill(torch.zeros_like(shard), moments)
    way.loaded()
    if len(states) != n:
        return "random generators"
    torch.set_rng_state(states[rank]["generator"])
    return ""


def fill(shard: Tensor, pieces: list[Tensor]) -> Tensor:
    """Write pieces into a shard, one after another, and pad the rest with zeros."""
    here = torch.cat([*pieces, shard.new_empty(0)])
    shard[: len(here)] = here
    shard[len(here) :] = 0
    return shard


# ---- Any layout: torch.distributed.checkpoint -----------------------------------------------


def fully_sharded(model):
    from torch.distributed.fsdp import fully_shard

    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def cut(model):
    from torch.distributed.tensor.parallel import parallelize_module

    return parallelize_module(model, mesh_of_all(), tensor_plan(model))


LAYOUTS = {"FSDP2": fully_sharded, "DDP": DistributedDataParallel, "tensor parallel": cut}


def build_layout(layout):
    """Return a model in one of the LAYOUTS and an optimizer that has taken no step yet."""
    model = LAYOUTS[layout](small_model())
    return model, adam(model.parameters())


def train_laid_out(layout, text, steps):
    """Train a model in the layout of FSDP2 or DDP; return it and its optimizer."""
    model, optimizer = build_layout(layout)
    torch.manual_seed(dist.get_rank())  # each rank drops other numbers
    for step in range(steps):
        inputs, targets = share_of_rank(draw_batch(text, SAMPLES, step, CONTEXT))
        optimizer.zero_grad()
        mean_loss(model(inputs), targets).backward()
        optimizer.step()
    return model, optimizer


def save_laid_out(model, optimizer, folder):
    """Write this rank's part of the state; a list of all parts is written last."""
    import torch.distributed.checkpoint as dcp

    dcp.save(collect_state(model, optimizer), checkpoint_id=str(folder))


def load_laid_out(model, optimizer, folder):
    """Load a checkpoint into a model of any layout, on any number of ranks."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import set_state_dict

    state = collect_state(model, optimizer)  # says which rank wants what
    dcp.load(state, checkpoint_id=str(folder))
    set_state_dict(
        model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
    )


def collect_state(model, optimizer) -> dict:
    from torch.distributed.checkpoint.state_dict import get_state_dict

    return dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))


def whole_state(model, optimizer) -> dict[str, Tensor]:
    """Return all weights and moments, whole, by their names; on ranks other than 0, nothing."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict

    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights, optimized = get_state_dict(model, optimizer, options=options)
    moments = {f"{name}.{kind}": x for name, of in optimized.get("state", {}).items()
               for kind, x in of.items()}  # fmt: skip
    return {**weights, **moments}


# ---- The program ----------------------------------------------------------------------------


def measure_resume_gap(way, text, folder) -> float:
    """Return how far the parameters of 6 steps are from those of 3, a checkpoint, and 3 more."""
    in_one_go = ParallelTraining(way, text)
    for _ in range(3):
        in_one_go.step()
    save(folder, 3, in_one_go.state_dict())
    for _ in range(3):
        in_one_go.step()
    again = ParallelTraining(way, text)
    again.load_state_dict(load_newest(folder))
    for _ in range(3):
        again.step()
    pairs = zip(in_one_go.way.parameters, again.way.parameters)
    return max((a - b).abs().max().item() for a, b in pairs)


def program(way, text) -> tuple[float, int]:
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)
    gap = measure_resume_gap(way, text, folder[0])
    written = newest_whole(folder[0]) / f"rank-{dist.get_rank()}.pt"
    size = written.stat().st_size
    dist.barrier()
    shutil.rmtree(folder[0], ignore_errors=True)
    return gap, size


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    for way in WAYS:
        run = launch(program, way, standard_library(20_000), world_size=4)
        if run.rank == 0:
            gap, size = run.values[0]
            print(f"{way:16} weights differ by {gap}; rank 0 wrote {size / 1e3:4.0f} kB")


if __name__ == "__main__":
    main()
