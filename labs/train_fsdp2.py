# Built from chapters/ch06_zero/labs/train_fsdp2.py by `make build`.
"""A whole program: train a small transformer with FSDP2, on one machine or on many.

torchrun --nproc-per-node 2 labs/train_fsdp2.py --steps 12 --folder checkpoint
"""

import argparse
import gc
import os
import shutil
from functools import partial

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as files

# Imported before any process group exists: later, its functions would keep the group alive, and
# Gloo's threads would go on when the program ends.
import torch.distributed.nn.functional
from language_model import Transformer, draw_batch, mean_loss, standard_library
from simple_ddp import share_of_rank
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

DTYPES = {"bfloat16": torch.float32, "float32": torch.float32, "float64": torch.float64}
EVERYTHING = StateDictOptions(full_state_dict=True, cpu_offload=True)
FROM_RANK_0 = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)


def options_of(words=None):
    """Return the options of the command line, or of a list of words."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch", type=int, default=12, help="samples of a step, over all ranks")
    parser.add_argument("--micro-batches", type=int, default=1, help="of a rank in a step")
    parser.add_argument("--replicas", type=int, default=1, help="of the sharded model (HSDP)")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--clip", type=float, default=0.5, help="largest norm of the gradient")
    parser.add_argument("--precision", choices=list(DTYPES), default="float32",
                        help="bfloat16: shards stay float32")  # fmt: skip
    parser.add_argument("--recompute", action="store_true", help="blocks, in the backward")
    parser.add_argument("--every", type=int, default=6, help="steps between checkpoints")
    parser.add_argument("--folder", type=os.path.normpath,  # without a slash at its end
                        help="of the checkpoint; without it, nothing is saved")  # fmt: skip
    return parser.parse_args(words)


# ---- The model, from shapes to shards ---------------------------------------------------------


def make_model(options) -> Transformer:
    """Return the transformer of these options, in the dtype of their precision."""
    return Transformer(options.width, options.layers).to(DTYPES[options.precision])


def shard(model, mesh, options):
    """Make each block a unit, and the remaining parameters one more, the root.

    The root stays from forward to backward. With --precision bfloat16, parameters are gathered and
    used in bfloat16, gradients are reduced in float32, and the logits are float32 again.
    """
    half = options.precision == "bfloat16"
    policy = {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32} if half else {}
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=MixedPrecisionPolicy(**policy))
    root = policy | ({"output_dtype": torch.float32} if half else {})
    fully_shard(model, mesh=mesh, mp_policy=MixedPrecisionPolicy(**root))


def mesh_for(device_type, replicas=1):
    """Return a mesh of all ranks; with replicas, of two dimensions: the last one is sharded."""
    n = dist.get_world_size()
    if replicas == 1:
        return init_device_mesh(device_type, (n,))
    return init_device_mesh(device_type, (replicas, n // replicas),
                            mesh_dim_names=("replicate", "shard"))  # fmt: skip


def recompute_blocks(model):
    for number, block in enumerate(model.blocks):
        model.blocks[number] = checkpoint_wrapper(block)


@torch.no_grad()
def fill(model, make):
    """Give a sharded model that has memory and no values the weights and buffers of rank 0.

    No state dict has buffers with persistent=False, such as RoPE's tables: all are broadcast.

    make  makes the whole model; rank 0 alone calls it, in the CPU's memory
    """
    whole = None
    if dist.get_rank() == 0:
        with torch.device("cpu"):
            torch.manual_seed(0)
            whole = make()
    set_model_state_dict(model, whole.state_dict() if whole else {}, options=FROM_RANK_0)
    for number, buffer in enumerate(model.buffers()):
        if whole:
            buffer.copy_(list(whole.buffers())[number])
        dist.broadcast(buffer, 0)


def make_param_groups(model) -> list[dict]:
    """Return groups in which matrices decay, but vectors do not."""
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    return [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]


def make_optimizer(model):
    return torch.optim.AdamW(make_param_groups(model), lr=3e-3)


# ---- The training run -------------------------------------------------------------------------


class Training:
    """A training run of several ranks, each with its shards.

    Any number of ranks that divides the batch gives the weights of one process, up to rounding.
    """

    def __init__(self, text, options, device="cpu"):
        self.text, self.options, self.number = text, options, 0
        self.mesh = mesh_for(torch.device(device).type, options.replicas)
        with torch.device("meta"):  # shapes, and no memory
            self.model = make_model(options)
        if options.recompute:
            recompute_blocks(self.model)
        shard(self.model, self.mesh, options)
        self.model.to_empty(device=device)  # memory for this rank's shards only
        fill(self.model, partial(make_model, options))
        self.optimizer = make_optimizer(self.model)  # of the shards, so after they exist
        torch.manual_seed(dist.get_rank())  # from here on each rank draws its own numbers, if any

    def step(self) -> torch.Tensor:
        """Take a step with the next batch; return this rank's mean loss, without a graph.

        After an exception in a micro-batch, resume from the checkpoint in new processes: FSDP2 has
        kept earlier ones' gradients, which zero_grad does not find.
        """
        batch = draw_batch(self.text, self.options.batch, self.number)
        inputs, targets = share_of_rank(batch)
        loss, count = 0, self.options.micro_batches
        for number, (x, y) in enumerate(zip(inputs.chunk(count), targets.chunk(count))):
            self.model.set_requires_gradient_sync(number == count - 1)  # the last one reduces
            part = mean_loss(self.model(x), y) / count
            part.backward()
            loss += part.detach()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.number += 1
        return loss

    # ---- Files ----

    def state(self) -> dict:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "number": torch.tensor(self.number)}

    def save(self):
        """Write this rank's shards; when all ranks have, the new folder takes the old one's name.

        Whenever the program is killed, one whole checkpoint remains: under its name, or set aside.
        """
        name = self.options.folder
        new, aside = f"{name}.new", f"{name}.old"
        files.save(self.state(), checkpoint_id=new)  # returns when all ranks have written
        if dist.get_rank() == 0:
            if os.path.isdir(name):
                shutil.rmtree(aside, ignore_errors=True)
                os.replace(name, aside)
            os.replace(new, name)
            shutil.rmtree(aside, ignore_errors=True)
        dist.barrier()

    def resume(self):
        """Resume from the checkpoint, if there is one, of this or another number of ranks."""
        name = self.options.folder
        aside, found = f"{name}.old", [None]
        if dist.get_rank() == 0:
            if os.path.isdir(aside) and not os.path.isdir(name):
                os.replace(aside, name)  # a save was interrupted before the new one had its name
            found = [os.path.isdir(name)]
        dist.broadcast_object_list(found)  # rank 0 decides for all ranks
        if found[0]:
            state = self.state()
            files.load(state, checkpoint_id=name)
            set_state_dict(self.model, self.optimizer, model_state_dict=state["model"],
                           optim_state_dict=state["optimizer"])  # fmt: skip
            self.number = int(state["number"])

    def weights(self) -> dict:
        """Return all weights on rank 0, whole, in the CPU's memory, and nothing on other ranks."""
        return get_model_state_dict(self.model, options=EVERYTHING)

    def run(self) -> list[float]:
        """Train until options.steps, from the checkpoint if there is one; return mean losses."""
        losses = []
        if self.options.folder:
            self.resume()
        while self.number < self.options.steps:
            loss = self.step()
            dist.all_reduce(loss)
            losses.append(loss.item() / dist.get_world_size())
            if self.number % self.options.every == 0 or self.number == self.options.steps:
                if dist.get_rank() == 0:
                    print(f"step {self.number}: loss {losses[-1]:.4f}", flush=True)
                if self.options.folder:
                    self.save()
        return losses


# ---- The same training in one process -----------------------------------------------------------


def alone(text, options) -> dict:
    """Return the weights of one process that trains with all samples, without FSDP2."""
    torch.manual_seed(0)
    model = make_model(options)
    optimizer = make_optimizer(model)
    for number in range(options.steps):
        inputs, targets = draw_batch(text, options.batch, number)
        mean_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), options.clip)
        optimizer.step()
        optimizer.zero_grad()
    return model.state_dict()


# ---- The program ----------------------------------------------------------------------------


def need_whole_parts(options):
    """Raise ValueError if ranks cannot share the batch, or replicas the ranks, equally."""
    pieces = dist.get_world_size() * options.micro_batches
    if options.batch % pieces:
        raise ValueError(f"--batch {options.batch} cannot be shared equally: the ranks have "
                         f"{pieces} micro-batches")  # fmt: skip
    if dist.get_world_size() % options.replicas:
        raise ValueError(f"--replicas {options.replicas} does not divide the number of ranks, "
                         f"{dist.get_world_size()}")  # fmt: skip


def main(words=None):
    options = options_of(words)
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))  # this process's own GPU
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
    else:
        device = torch.device("cpu")
        dist.init_process_group("gloo")
    text = standard_library(50_000)
    torch.set_default_device(device)  # batches are drawn there
    need_whole_parts(options)
    Training(text, options, device).run()
    gc.collect()  # FSDP2's modules refer to each other: free them before their groups end
    dist.destroy_process_group()


if __name__ == "__main__":
    from pedagogy_lib.unwritten import misses_something  # only to find holes that are left

    if not misses_something(__file__):
        main()
