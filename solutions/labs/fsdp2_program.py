# Built from chapters/ch10_choosing_a_strategy/labs/fsdp2_program.py by `make build`.
"""A plan as a program for FSDP2, written as text, and run on ranks as it was written.

torchrun --nproc-per-node 4 labs/fsdp2_program.py
"""

import torch
import torch.distributed as dist
from configurations import need, none_of
from cost_model import FULL, SELECTIVE, Plan
from language_model import draw_batch, mean_loss, standard_library
from tensor_engines import tensor_plan
from three_dimensions import SIZES, OneProcess, adam, whole_model
from three_engines import quiet

# ---- The program, as text -------------------------------------------------------------------

IMPORTS = """\
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
"""
IMPORTS_OF_TP = """\
from torch.distributed.tensor.parallel import loss_parallel, parallelize_module
"""
RECOMPUTED = """
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
for number, block in enumerate(model.blocks):
    model.blocks[number] = checkpoint_wrapper(block)
"""
SHARDED = """
policy = MixedPrecisionPolicy(param_dtype={param_dtype}, reduce_dtype={reduce_dtype})
how = {{"mesh": mesh["dp"], "mp_policy": policy}}
for block in model.blocks:
    fully_shard(block, reshard_after_forward={released}, **how)
fully_shard(model, **how)  # the root stays: the backward begins with it
optimizer = make_optimizer(model.parameters())

def step(inputs, targets):
    if len(inputs) != {batch} or (targets == -100).any():  # all parts count the same
        raise ValueError("a step takes {batch} samples, and no target is ignored")
    copy, number = mesh["dp"].get_local_rank(), {parts}
    mine = [x.chunk({dp})[copy].split({micro_batch}) for x in (inputs, targets)]
    for x, y in zip(*mine):
{backward}
    optimizer.step()
    optimizer.zero_grad()
"""
BACKWARD = "        (mean_loss(model(x), y) / number).backward()"
BACKWARD_OF_TP = f"        with loss_parallel():\n    {BACKWARD}"


def fsdp2(plan: Plan, batch, param_dtype="torch.bfloat16", reduce_dtype="torch.float32"):
    """Write the text of a program that makes `step`, a function of inputs and targets.

    It needs the names device; model, with model.blocks; make_optimizer; mean_loss; and, if tp is
    more than 1, tensor_plan.

    Raises  ValueError for plans that FSDP2 cannot express
    """
    need("FSDP2", {
        "it shards parameters, gradients and states: take ZeRO 2 or 3": plan.zero < 2,
        "a pipeline and a split context come from elsewhere": plan.pp > 1 or plan.cp > 1,
        "with tp this program leaves norms whole: plan with sequence=False":
            plan.tp > 1 and plan.sequence,
        "it recomputes whole layers, or nothing": plan.recompute == SELECTIVE,
        **none_of(plan, "ep", "replicas", "recomputed", "precision"),
        f"dp {plan.dp} × micro-batch {plan.micro_batch} does not divide the batch of {batch}":
            batch % (plan.dp * plan.micro_batch),
    })  # fmt: skip
    is_cut = plan.tp > 1
    axes = {"dp": plan.dp} | ({"tp": plan.tp} if is_cut else {})
    parts = [IMPORTS + IMPORTS_OF_TP * is_cut, "\n" + mesh_line(axes)]
    if is_cut:
        parts.append('parallelize_module(model, mesh["tp"], tensor_plan(model))\n')
    parts += [RECOMPUTED] * (plan.recompute == FULL)
    parts.append(SHARDED.format(
        param_dtype=param_dtype, reduce_dtype=reduce_dtype, released=plan.zero == 3, dp=plan.dp,
        batch=batch, micro_batch=plan.micro_batch, parts=batch // (plan.dp * plan.micro_batch),
        backward=BACKWARD_OF_TP if is_cut else BACKWARD,
    ))  # fmt: skip
    return "".join(parts)


def mesh_line(axes) -> str:
    sizes, names = tuple(axes.values()), tuple(axes)
    return f"mesh = init_device_mesh(device, {sizes}, mesh_dim_names={names})\n"


# ---- Running the program --------------------------------------------------------------------


def execute_program(text, model) -> dict:
    """Execute the program for a model on this rank, and return all its names."""
    names = {
        "model": model, "make_optimizer": adam, "mean_loss": mean_loss, "tensor_plan": tensor_plan,
        "device": torch.get_default_device().type,
    }  # fmt: skip
    exec(text, names)
    return names


def whole_parameters(model) -> list:
    with quiet():
        return [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]


def compare_with_one_process(program, text, steps=3, samples=8, dtype=torch.float64) -> float:
    """Run a program on the ranks, and train in this process alone with the same batches.

    Returns  the difference of the weights from those of one process, as a share of the largest
             number
    """
    from pedagogy_lib import relative_gap

    torch.set_default_dtype(dtype)
    cut, alone = whole_model(tied=False), OneProcess(whole_model(tied=False))
    step = execute_program(program, cut)["step"]
    for number in range(steps):
        batch = draw_batch(text, samples, number, SIZES["context"])
        step(*batch)
        alone.step(*batch)
    pairs = zip(whole_parameters(cut), alone.model.parameters())
    return max(relative_gap(p.detach(), q.detach()) for p, q in pairs)


EXACTLY = {"param_dtype": "torch.float64", "reduce_dtype": "torch.float64"}


# ---- Shards and the optimizer, in two orders ------------------------------------------------


def optimizer_first(model, make_optimizer, mesh):
    """Make the optimizer before the shards, which is the bug of exercise 10.20; return it."""
    from torch.distributed.fsdp import fully_shard

    optimizer = make_optimizer(model.parameters())
    for unit in (*model.blocks, model):
        fully_shard(unit, mesh=mesh)
    return optimizer


def losses_with(shard, text, steps=4) -> list[float]:
    """Return the losses of steps with one batch, after shard(model, make_optimizer, mesh)."""
    from torch.distributed.device_mesh import init_device_mesh

    device = torch.get_default_device().type
    mesh = init_device_mesh(device, (dist.get_world_size(),), mesh_dim_names=("dp",))
    model, losses = whole_model(tied=False), []
    optimizer = shard(model, adam, mesh)
    inputs, targets = draw_batch(text, 4, 0, SIZES["context"])
    for _ in range(steps):
        loss = mean_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


# ---- FSDP units -----------------------------------------------------------------------------


def one_step_in(units, text) -> None:
    """Train in units "each block and the rest", or "the model alone", and measure "step"."""
    from torch.distributed.fsdp import fully_shard

    from pedagogy_lib import measure

    model = whole_model(tied=False, layers=8)
    for block in model.blocks if units != "the model alone" else ():
        fully_shard(block)
    fully_shard(model)
    inputs, targets = draw_batch(text, 4, 0, SIZES["context"])
    mean_loss(model(inputs), targets).backward()
    with measure("step"):
        mean_loss(model(inputs), targets).backward()


def largest_gather(run) -> int:
    """Return the bytes of the largest tensor that rank 0 has gathered in the measured step."""
    calls = run["step"].calls[0]
    return max(call.tensor_bytes for call in calls if "gather" in call.name) * run.world_size


# ---- The program ----------------------------------------------------------------------------


def program(text) -> float:
    """Compare dp × tp on all ranks with one process: see compare_with_one_process.

    The program casts to float64 where the one for GPUs casts to bfloat16.
    """
    n = dist.get_world_size()
    tp = 2 if n % 2 == 0 else 1
    plan = Plan(dp=n // tp, tp=tp, zero=3, recompute=FULL, sequence=False)
    batch = 2 * plan.dp
    return compare_with_one_process(fsdp2(plan, batch, **EXACTLY), text, samples=batch)


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(program, standard_library(20_000), world_size=4)
    if run.rank == 0:
        print(f"FSDP2 on {run.world_size} ranks equals one process: {max(run.values) < 1e-12}")


if __name__ == "__main__":
    main()
