# Built from chapters/ch06_zero/labs/fsdp2_options.py by `make build`.
"""FSDP2 under autocast, with micro-batches, and on other meshes: dtypes, bytes and memory.

torchrun --nproc-per-node 4 labs/fsdp2_options.py
"""

import gc
from collections import Counter
from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from language_model import draw_batch, mean_loss, standard_library
from simple_ddp import share_of_rank
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from train_fsdp2 import make_model, mesh_for, options_of

# ---- Autocast and the policy ---------------------------------------------------------------------

HALF = {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32}
PRECISIONS = {  # name: (the policy, whether the forward and the loss are under autocast)
    "float32": ({}, False),
    "policy": (HALF, False),
    "policy, output_dtype": (HALF | {"output_dtype": torch.float32}, False),
    "autocast": ({}, True),
    "policy and autocast": (HALF, True),
}


class Block(nn.Module):
    """A residual block. Its forward uses no global name, so no graph imports the lab."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(width), nn.Linear(width, 4 * width)
        self.activation, self.down = nn.GELU(), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(self.activation(self.up(self.norm(x))))


class Classifier(nn.Module):
    """An embedding, residual blocks and a last layer.

    Shapes  tokens: (samples,) whole numbers below `width` -> (samples, classes)
    """

    def __init__(self, width=16, classes=8, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(width, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.last = nn.Linear(width, classes)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def shard_with(model, policy, **options):
    """Make each block a unit, and the rest the root; the policy's output_dtype is the root's."""
    inner = {name: dtype for name, dtype in policy.items() if name != "output_dtype"}
    for block in model.blocks:
        fully_shard(block, mp_policy=MixedPrecisionPolicy(**inner), **options)
    root = {name: value for name, value in options.items() if name != "reshard_after_forward"}
    return fully_shard(model, mp_policy=MixedPrecisionPolicy(**policy), **root)


def note_dtypes(seen, name, module, inputs, output):
    """Note, as a forward hook, the dtypes of a module's result and of its weights."""
    seen["weights"], seen[name] = short(module.weight.dtype), short(output.dtype)


def short(dtype) -> str:
    """Return the short name of a dtype: "bf16" for torch.bfloat16."""
    return str(dtype).removeprefix("torch.").replace("bfloat", "bf").replace("float", "fp")


def step_in_each(precisions) -> dict[str, tuple[dict, torch.Tensor]]:
    """Take a step in each of the precisions, measured under its name.

    Returns  {name: ({what: the short name of its dtype}, all gradients)}
    """
    return {name: step_in(name, *how) for name, how in precisions.items()}


def step_in(name, policy, autocast) -> tuple[dict, torch.Tensor]:
    from pedagogy_lib import measure

    torch.manual_seed(0)
    model, seen = shard_with(Classifier(), policy), {}
    model.blocks[0].norm.register_forward_hook(partial(note_dtypes, seen, "norm"))
    model.blocks[0].up.register_forward_hook(partial(note_dtypes, seen, "product"))
    device = torch.get_default_device().type
    torch.manual_seed(dist.get_rank())
    tokens, targets = torch.randint(16, (32,)), torch.randint(8, (32,))
    with measure(name):
        with torch.autocast(device, torch.bfloat16, enabled=autocast):
            output = model(tokens)
            loss = F.cross_entropy(output, targets)
        loss.backward()
    seen |= {"output": short(output.dtype), "loss": short(loss.dtype)}
    return seen, all_gradients(model)


def bytes_travelling(run, name) -> tuple[float, float]:
    """Return the bytes that travel per number in an all-gather, and in a reduce-scatter.

    Of each, the largest is taken: that of a block, whose size is known.
    """
    numbers = sum(p.numel() for p in Classifier().blocks[0].parameters())
    calls, n = run[name].calls[0], run.world_size
    largest = [max(call.sent_bytes for call in calls if call.name == kind)
               for kind in ("all_gather", "reduce_scatter")]  # fmt: skip
    return tuple(sent * n / (n - 1) / numbers for sent in largest)


# ---- Micro-batches, and other meshes -------------------------------------------------------------

# The ways to add up the gradients of micro-batches.
ACCUMULATING = ("reduced each time", "reduced once", "reduced once, units stay")
MESHES = {  # name: (reshard_after_forward, replicas)
    "True": (True, 1), "2": (2, 1), "False": (False, 1), "HSDP, 2 replicas": (True, 2)
}  # fmt: skip


def model_on(mesh, reshard=True):
    torch.manual_seed(0)
    model = make_model(options_of(["--width", "64"])).double()
    return shard_with(model, {}, mesh=mesh, reshard_after_forward=reshard)


def all_gradients(model) -> torch.Tensor:
    return torch.cat([p.grad.full_tensor().flatten() for p in model.parameters()]).cpu()


def micro_batches_of(text, count):
    """Return this rank's micro-batches of one step: two samples in each."""
    pieces = (draw_batch(text, 2 * dist.get_world_size(), number) for number in range(count))
    return [share_of_rank(piece) for piece in pieces]


def accumulate_each(text, count) -> dict[str, torch.Tensor]:
    """Take a step of micro-batches in each of the ways ACCUMULATING, measured under its name.

    Returns  {name: all gradients}
    """
    return {way: accumulate(way, text, count) for way in ACCUMULATING}


def accumulate(way, text, count) -> torch.Tensor:
    from pedagogy_lib import measure

    gc.collect()  # the model before this one is in a cycle of references
    mesh = mesh_for(torch.get_default_device().type)
    model, pieces = model_on(mesh), micro_batches_of(text, count)
    with measure(way):
        for number, (inputs, targets) in enumerate(pieces):
            is_last = number == count - 1
            if way != ACCUMULATING[0]:
                model.set_requires_gradient_sync(is_last)
            if way == ACCUMULATING[2]:
                model.set_reshard_after_backward(is_last)
            (mean_loss(model(inputs), targets) / count).backward()
    return all_gradients(model)


def add_up_ones(count=512) -> dict[str, float]:
    """Accumulate `count` micro-batches of gradient 1/count, without and with a reduce_dtype.

    Returns  {name: the gradient after the last one}, which is 1 if nothing is rounded
    """
    return {name: accumulate_ones({"param_dtype": torch.bfloat16} | policy, count)
            for name, policy in (("no reduce_dtype", {}), ("float32", HALF))}  # fmt: skip


def accumulate_ones(policy, count) -> float:
    model = nn.Linear(1, 1, bias=False)
    fully_shard(model, mp_policy=MixedPrecisionPolicy(**policy))
    for number in range(count):
        model.set_requires_gradient_sync(number == count - 1)
        (model(torch.ones(1)) / count).sum().backward()
    return all_gradients(model).item()


def step_on_each_mesh(text) -> dict[str, tuple[torch.Tensor, dict]]:
    """Take a step on each of the MESHES, measured under its name, and in its middle.

    Returns  {name: (all gradients, {name of a group: the axis that it belongs to})}
    """
    return {name: step_on_mesh(name, *how, text) for name, how in MESHES.items()}


def step_on_mesh(name, reshard, replicas, text) -> tuple[torch.Tensor, dict]:
    from pedagogy_lib import measure

    gc.collect()
    mesh = mesh_for(torch.get_default_device().type, replicas)
    model = model_on(mesh, reshard)
    ((inputs, targets),) = micro_batches_of(text, 1)
    with measure(name):
        loss = mean_loss(model(inputs), targets)
        with measure(f"{name}: between"):
            pass
        loss.backward()
    axes = mesh.mesh_dim_names or ()
    return all_gradients(model), {mesh.get_group(axis).group_name: axis for axis in axes}


# ---- What a run has measured ---------------------------------------------------------------------


def calls_named(kind, run, name) -> int:
    """Return how many of rank 0's calls in a block have this kind, such as "all_gather"."""
    return sum(call.name == kind for call in run[name].calls[0])


def models_held(kind, run, name) -> float:
    """Return the bytes of a kind that rank 0 has at most in a block, in models."""
    return run[name].peak_bytes[0][kind] / bytes_of_model(run)


def bytes_of_model(run) -> int:
    found = next(iter(run.values[0].values()))
    return (found if torch.is_tensor(found) else found[0]).nbytes


def models_sent(run, name) -> Counter:
    """Return {name of a group: models that rank 0 sends in it}, by textbook, from its calls."""
    sent = Counter()
    for call in run[name].calls[0]:
        sent[call.group] += call.sent_bytes / bytes_of_model(run)
    return sent


def sent_where(run, name) -> str:
    """Return how much rank 0 sends on one of the MESHES, and among which ranks."""
    words = {"world": f"among {run.world_size}", "shard": "among 2", "replicate": "across"}
    axes = run.values[0][name][1]
    return ", ".join(f"{models:.2f} {words.get(axes.get(group, group), 'among 2')}"
                     for group, models in models_sent(run, name).items())  # fmt: skip


# ---- The program ---------------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library(20_000)
    runs = [launch(step_in_each, PRECISIONS, world_size=4),
            launch(accumulate_each, text, 3, world_size=4),
            launch(step_on_each_mesh, text, world_size=4)]  # fmt: skip
    if runs[0].rank == 0:
        for name, (dtypes, _) in runs[0].values[0].items():
            print(f"{name}: {', '.join(f'{what} {dtype}' for what, dtype in dtypes.items())}")
        for way in ACCUMULATING:
            print(f"{way}: {sum(models_sent(runs[1], way).values()):.2f} models sent")
        for name in MESHES:
            print(f"{name}: {sent_where(runs[2], name)}")


if __name__ == "__main__":
    main()
