# Built from chapters/ch06_zero/labs/engines_compared.py by `make build`.
"""The engines of labs/sharding_engines.py compared: what each keeps, sends, and calls.

torchrun --nproc-per-node 2 labs/engines_compared.py
"""

import warnings
from collections import Counter
from functools import partial

import torch
import torch.distributed as dist
from collectives import reduce_scatter_ring
from language_model import draw_batch, mean_loss, standard_library
from sharding_engines import DEEPSPEED, DeepSpeed, all_engines, make_model, try_engine
from simple_ddp import share_of_rank

# ---- Comparison -------------------------------------------------------------------------------

STATES = ("parameters", "gradients", "optimizer_state")


def race(name, text, steps) -> tuple[float, float]:
    """Run try_engine in float64, but in float32 for DeepSpeed, whose gradients are float32."""
    return try_engine(dict(all_engines())[name], make_model(dtype=dtype_of(name)), text, steps)


def dtype_of(name):
    return torch.float32 if name in DEEPSPEED else torch.float64


def models_in(name, run) -> dict[str, float]:
    """Return, in models, what rank 0 keeps of each kind, sends, and would send by textbook."""
    model_bytes = dtype_of(name).itemsize * sum(p.numel() for p in make_model().parameters())
    step = run["step"]
    found = {kind: run["kept"].peak_bytes[0][kind] for kind in STATES}
    found["sent"] = step.sent_bytes[0]
    found["by textbook"] = sum(call.sent_bytes for call in step.calls[0])
    return {what: count / model_bytes for what, count in found.items()}


def calls_in(run) -> dict[str, int]:
    """Return {collective: how often rank 0 has called it in the step}."""
    return Counter(call.name for call in run["step"].calls[0])


def milliseconds(run) -> float:
    """Return the slowest rank's milliseconds in its fastest step."""
    return 1e3 * max(seconds for _, seconds in run.values)


def measure_phases(name, text) -> int:
    """Measure a second step as "forward", "backward" and "step"; return the model's bytes."""
    from pedagogy_lib import measure

    engine = dict(all_engines())[name](make_model())
    inputs, targets = share_of_rank(draw_batch(text, 4 * dist.get_world_size(), 0))
    for label in ("first {}", "{}"):
        with measure(label.format("forward"), memory=False):
            loss = mean_loss(engine.module(inputs), targets)
        with measure(label.format("backward"), memory=False):
            engine.backward(loss)
        with measure(label.format("step"), memory=False):
            engine.step()
    return sum(p.nbytes for p in make_model().parameters())


# ---- The first FSDP ---------------------------------------------------------------------------

STRATEGIES = ("NO_SHARD", "SHARD_GRAD_OP", "FULL_SHARD")


def first_fsdp(text, strategies=STRATEGIES) -> int:
    """Measure a step with each strategy of the first FSDP, by name; return the model's bytes.

    Memory after its backward is measured as "…, kept". With several strategies, the models of the
    earlier ones still exist.
    """
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    from pedagogy_lib import measure

    warnings.simplefilter("ignore")  # it is deprecated
    inputs, targets = share_of_rank(draw_batch(text, 4 * dist.get_world_size(), 0))
    for name in strategies:
        model = make_model()
        wrapped = FullyShardedDataParallel(
            model, sharding_strategy=ShardingStrategy[name], device_id=torch.get_default_device(),
            auto_wrap_policy=ModuleWrapPolicy({type(model.blocks[0])}),
        )  # fmt: skip
        for label in ("first", name):
            with measure(label, memory=False):
                mean_loss(wrapped(inputs), targets).backward()
        with measure(f"{name}, kept"):
            pass
    return sum(p.nbytes for p in make_model().parameters())


# ---- A reduce-scatter, alone ------------------------------------------------------------------


def one_reduce_scatter(megabytes=4):
    """Measure "dist.reduce_scatter", and "your ring" of labs/collectives.py."""
    from pedagogy_lib import measure

    n = dist.get_world_size()
    chunks = list(torch.ones(megabytes * 250_000 // n * n).chunk(n))
    with measure("dist.reduce_scatter", memory=False):
        dist.reduce_scatter(torch.empty_like(chunks[0]), chunks)
    with measure("your ring", memory=False):
        reduce_scatter_ring(chunks)


# ---- DeepSpeed's file -------------------------------------------------------------------------

DEEPSPEED_JSON = """{
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 8,
    "gradient_clipping": 1.0,
    "bf16": {"enabled": true},
    "zero_optimization": {
        "stage": 3,
        "offload_optimizer": {"device": "cpu", "pin_memory": true},
        "offload_param": {"device": "cpu", "pin_memory": true},
        "overlap_comm": true,
        "contiguous_gradients": true,
        "sub_group_size": 1000000000,
        "reduce_bucket_size": 500000,
        "stage3_prefetch_bucket_size": 500000,
        "stage3_param_persistence_threshold": 10000
    }
}"""


def run_section(section, text) -> tuple[float, int, int]:
    """Train with a section "zero_optimization"; find what DeepSpeed takes for "auto".

    Returns  how far the weights are from those of one process; the stage, and the size of a bucket
    """
    gap, _ = try_engine(partial(DeepSpeed, section), make_model(), text, steps=3)
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig

    auto = DeepSpeedZeroConfig(stage="auto", reduce_bucket_size="auto")
    return gap, int(auto.stage), auto.reduce_bucket_size


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library(20_000)
    for name in ("DDP", "ours, stage 3", "FSDP2"):
        run = launch(race, name, text, 3, world_size=2)
        if run.rank == 0:
            found = models_in(name, run)
            told = ", ".join(f"{what} {found[what]:.2f}" for what in ("sent", "by textbook"))
            print(f"{name}: {told}")  # not what is kept, as a previous engine may still exist


if __name__ == "__main__":
    main()
