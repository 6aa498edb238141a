"""Configurations read back: the plan that the lab finds in one, and the engines' own parsers.

python labs/read_configurations.py
"""

import importlib.util
import os
import tempfile
from dataclasses import replace
from pathlib import Path

from configurations import NARROW, SHARDED, Configuration, megatron_layout
from cost_model import BF16, FULL, NONE, SELECTIVE, Job, Plan
from engine_options import options_of
from model_shapes import gpu_named, model_named
from more_configurations import CONVERTERS, FLAVORS, WRITERS

# ---- A plan from its configuration ----------------------------------------------------------


def whole_share(total, parts, what) -> int:
    """Return total / parts. Raises ValueError unless it is a whole number of 1 or more."""
    if parts < 1 or total < parts or total % parts:
        raise ValueError(f"{total} {what} cannot be shared out evenly to {parts}")
    return total // parts


def plan_of(configuration: Configuration) -> Plan:
    """Read the plan from a configuration, by the documented meaning of its options.

    Raises  ValueError if its numbers contradict each other, or if it has what no Plan can say
    """
    found = options_of(configuration.engine, configuration.text)
    if beyond := [name for name in BEYOND_PLANS if found.get(name, 1) not in (1, "1")]:
        raise ValueError(f"no Plan can say what {', '.join(beyond)} does")
    plan = BACK[configuration.engine](found, configuration.program)
    return replace(plan, sequence=True) if plan.tp == 1 else plan


BEYOND_PLANS = (
    "--decoder-first-pipeline-num-layers",
    "--decoder-last-pipeline-num-layers",
    "zero_optimization.zero_hpz_partition_size",
)


def read_megatron(found, program) -> Plan:
    if not {"--nnodes", "--nproc-per-node"} <= set(found):
        raise ValueError("how many ranks are there? torchrun's --nnodes and --nproc-per-node say")
    number = lambda name, otherwise=1: int(found.get(f"--{name}", otherwise))  # noqa: E731
    sizes = [number(f"{axis}-parallel-size") for axis in
             ("tensor-model", "pipeline-model", "context")]  # fmt: skip
    tp, pp, cp = sizes
    dp = whole_share(number("nnodes") * number("nproc-per-node"), tp * pp * cp, "ranks")
    micro_batch = number("micro-batch-size")
    whole_share(number("global-batch-size"), dp * micro_batch, "samples")
    zero = int("--use-distributed-optimizer" in found)
    if "--use-megatron-fsdp" in found:
        zero = {way: stage for stage, way in SHARDED.items()}[
            found["--data-parallel-sharding-strategy"]
        ]
    recompute, chunks = found.get("--recompute-granularity", NONE), read_megatron_chunks(found)
    share = 1.0
    if found.get("--recompute-method") == "block":
        of_chunk = whole_share(number("num-layers"), pp * chunks, "layers")
        share = number("recompute-num-layers") / of_chunk
    ep = number("expert-model-parallel-size")
    etp = number("expert-tensor-parallel-size", tp if "--num-experts" in found else 1)
    replicas = number("num-distributed-optimizer-instances")
    return Plan(dp, *sizes, zero, micro_batch, recompute, chunks, "--sequence-parallel" in found,
                ep, etp, replicas, share, read_megatron_precision(found))  # fmt: skip


def read_megatron_chunks(found) -> int:
    """Return how many chunks a stage has.

    Raises  ValueError for a layout that no Plan means
    """
    number = lambda name, otherwise=1: int(found.get(f"--{name}", otherwise))  # noqa: E731
    pp, layers = number("pipeline-model-parallel-size"), number("num-layers")
    if layout := found.get("--pipeline-model-parallel-layout"):
        parts = layout.count("|") + 1
        if f"'{layout}'" != megatron_layout(layers, parts):
            raise ValueError(f"no Plan can say the layout {layout}")
        return whole_share(parts, pp, "chunks")
    of_stage = whole_share(layers, pp, "layers")
    of_chunk = whole_share(of_stage, number("num-virtual-stages-per-pipeline-rank"), "layers")
    return whole_share(
        of_stage, number("num-layers-per-virtual-pipeline-stage", of_chunk), "layers"
    )


def read_megatron_precision(found) -> str:
    for precision, options in NARROW.items():
        if options and options.items() <= found.items():
            return precision
    if {"--fp8-format", "--fp4-format"} & set(found):
        raise ValueError("no Plan can say this format and recipe of narrow products")
    return BF16


def read_deepspeed(found, program) -> Plan:
    micro_batch = found["train_micro_batch_size_per_gpu"]
    tp, pp = found.get("tensor_parallel.autotp_size", 1), program.get("num_stages", 1)
    parts = micro_batch * found["gradient_accumulation_steps"] * tp
    dp = whole_share(found["train_batch_size"], parts, "samples")
    recompute = FULL if set(program) - {"num_stages", "partition_method"} else NONE
    zero = found["zero_optimization.stage"]
    return Plan(dp, tp, pp, 1, zero, micro_batch, recompute, sequence=False)


def read_torchtitan(found, program) -> Plan:
    at = lambda name, otherwise=1: found.get(f"parallelism.{name}", otherwise)  # noqa: E731
    pp, shard = at("pipeline_parallel_degree"), at("data_parallel_shard_degree")
    copies, mode = at("data_parallel_replicate_degree"), found["activation_checkpoint.mode"]
    share = 1.0
    if mode == SELECTIVE:
        step = found.get("activation_checkpoint.selective_ac_option", "2")
        if not step.isdigit():
            raise ValueError("torchtitan's recomputation by operators is not that of a Plan")
        mode, share = FULL, 1 / int(step)
    dp, cp = copies * shard, at("context_parallel_degree")
    is_kept = at("fsdp_reshard_after_forward") == "never"
    zero = 0 if shard * cp == 1 else 2 if is_kept else 3
    micro_batch = at("pipeline_parallel_microbatch_size", found["training.local_batch_size"])
    whole_share(found["training.global_batch_size"], dp * micro_batch, "samples")
    chunks, each = 1, at("pipeline_parallel_layers_per_stage", None)
    if each:
        layers = model_named(FLAVORS[found["model.name"], found["model.flavor"]]).layers
        ends = sum(at(f"pipeline_parallel_{end}_stage_less_layers") for end in ("first", "last"))
        chunks = whole_share(-(-(layers + ends) // each), pp, "stages")
    (of,) = [name.rpartition(".")[2] for name in found.get("model.converters", ())][:1] or [None]
    precision = {converter: name for name, converter in CONVERTERS.items()}[of]
    return Plan(dp, at("tensor_parallel_degree"), pp, cp, zero, micro_batch, mode, chunks, True,
                at("expert_parallel_degree"), at("expert_tensor_parallel_degree"),
                copies if zero else 1, share, precision)  # fmt: skip


def read_accelerate(found, program) -> Plan:
    size = lambda axis: found[f"parallelism_config.parallelism_config_{axis}_size"]  # noqa: E731
    recompute = FULL if found["fsdp_config.fsdp_activation_checkpointing"] else NONE
    zero = 3 if found["fsdp_config.fsdp_reshard_after_forward"] else 2
    replicas = size("dp_replicate")
    plan = Plan(replicas * size("dp_shard"), size("tp"), 1, size("cp"), zero,
                program["batch_size"], recompute, sequence=False, replicas=replicas)  # fmt: skip
    if plan.ranks != found["num_processes"]:
        raise ValueError(f"the axes make {plan.ranks} ranks, and there are "
                         f"{found['num_processes']} processes")  # fmt: skip
    return plan


def read_nanotron(found, program) -> Plan:
    dp, tp, pp = (found[f"parallelism.{axis}"] for axis in ("dp", "tp", "pp"))
    recompute = FULL if found["parallelism.recompute_layer"] else NONE
    return Plan(dp, tp, pp, 1, found["optimizer.zero_stage"], found["tokens.micro_batch_size"],
                recompute, sequence=found["parallelism.tp_mode"] == "REDUCE_SCATTER")  # fmt: skip


BACK = {"Megatron-LM": read_megatron, "DeepSpeed": read_deepspeed, "torchtitan": read_torchtitan,
        "accelerate": read_accelerate, "nanotron": read_nanotron}  # fmt: skip


def smaller(plan: Plan) -> Plan:
    """Shrink a plan to at most two ranks per axis and one chunk per stage, for one computer.

    ZeRO becomes 0 if no ranks remain over which it could shard.
    """
    sizes = {axis: min(2, getattr(plan, axis)) for axis in ("dp", "tp", "pp", "cp")}
    sizes |= {"ep": 1, "etp": 1, "replicas": 1, "recomputed": 1.0, "precision": BF16}
    zero = plan.zero if sizes["dp"] * sizes["cp"] > 1 else 0
    return replace(plan, **sizes, zero=zero, chunks=1, micro_batch=min(2, plan.micro_batch))


# ---- The engines' own parsers ---------------------------------------------------------------


def is_installed(package) -> bool:
    return importlib.util.find_spec(package) is not None


def parse_deepspeed(told: dict, copies: int):
    """Parse a dict with DeepSpeed's parser for so many copies of the model, in this process.

    The parser is given their number, because it has no process group here to ask.

    Returns  a DeepSpeedConfig
    Raises   the parser's errors
    """
    import logging
    from unittest.mock import patch

    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    os.environ["TORCHDYNAMO_DISABLE"] = "1"  # else it imports torch's compiler: seconds, unused
    logging.disable(logging.WARNING)
    from deepspeed.runtime import config

    class Copies:
        def get_data_parallel_world_size(self):
            return copies

    with patch.object(config.dist, "get_rank", lambda: 0):
        return config.DeepSpeedConfig(dict(told), Copies())


def verdict_of_deepspeed(told: dict, copies: int) -> str:
    """Describe what DeepSpeed derives, or the first lines with which it refuses."""
    try:
        found = parse_deepspeed(told, copies)
    except Exception as error:  # an AssertionError, or one of pydantic's
        lines = str(error).splitlines()
        return " ".join(["refused:", *lines[:2]])[:200]
    return (
        f"accepted: {found.train_batch_size} = {found.train_micro_batch_size_per_gpu} × "
        f"{found.gradient_accumulation_steps} × {copies}, ZeRO {found.zero_optimization_stage}"
    )


def accelerate_says(text: str) -> dict:
    """Return the FSDP and parallelism variables that `accelerate launch` would set for a YAML.

    Raises  accelerate's errors
    """
    from accelerate.commands import launch

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.yaml")
        path.write_text(text)
        line = ["--config_file", str(path), "train.py"]
        arguments = launch.launch_command_parser().parse_args(line)
        arguments, *_ = launch._validate_launch_command(arguments)
    told = launch.prepare_multi_gpu_env(arguments)
    return {name: value for name, value in told.items() if name.startswith(("FSDP", "PARALLEL"))}


def main():
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    job = Job(model_named("llama-3-70b"), gpu_named("H100"), batch=512)
    plan = Plan(dp=16, tp=4, zero=3, recompute=FULL)
    for engine in ("Megatron-LM", "torchtitan"):
        print(f"{engine}: the same plan: {plan_of(WRITERS[engine](plan, job)) == plan}")


if __name__ == "__main__":
    main()
