# Built from chapters/ch10_choosing_a_strategy/labs/configurations.py by `make build`. Write your answers here.
"""Plans as engines read them: Megatron-LM's command line, DeepSpeed's JSON.

A plan knows nothing of data, tokenizers and learning rates, so you add them. What an engine cannot
express is refused, with the first reason that holds. The options come from Megatron-LM core_v0.19.0
(19 August 2026) and DeepSpeed 0.19.8: see engine_options.py. For others, see
more_configurations.py.

python labs/configurations.py
"""

import json
from dataclasses import dataclass, field, replace

from cost_model import BF16, FP8, FULL, MXFP8, NVFP4, SELECTIVE, Job, Plan
from model_shapes import gpu_named, model_named
from planner import why_impossible


@dataclass(frozen=True)
class Configuration:
    """The input of an engine.

    text     its command line or file
    program  what a file cannot say, and your program has to: {name: value}
    """

    engine: str
    text: str
    program: dict = field(default_factory=dict)


def need(engine, reasons) -> None:
    """Raise ValueError with the first reason that holds: {sentence: whether it does}."""
    for sentence, holds in reasons.items():
        if holds:
            raise ValueError(f"{engine}: {sentence}")


def need_possible(engine, plan: Plan, job: Job) -> None:
    """Raise ValueError for a plan that this planner does not make, with its reason."""
    reason = str(why_impossible(job, plan))
    need(engine, {reason: reason != ""})


BEYOND = {
    "ep": "the program shares out the experts, and no option does",
    "replicas": "it has no replicas of shards",
    "recomputed": "it recomputes all layers or none",
    "precision": "this lab writes it with products in bf16",
}


def none_of(plan: Plan, *names) -> dict:
    """Return reasons for `need`: an engine has none of these fields of a plan, keys of BEYOND."""
    plan = replace(plan, ep=plan.ep * plan.etp)
    return {BEYOND[name]: getattr(plan, name) != getattr(Plan(), name) for name in names}


def machines_of(plan: Plan, job: Job) -> tuple[int, int]:
    """Return the number of machines, and of ranks on each."""
    each = min(job.gpu.machine, plan.ranks)
    need("torchrun", {f"{plan.ranks} ranks do not fill machines of {each}": plan.ranks % each})
    return plan.ranks // each, each


def accumulation(plan: Plan, job: Job) -> int:
    """Return the number of micro-batches of each copy in a step."""
    return job.batch // (plan.dp * plan.micro_batch)


def layers_of_chunks(layers, chunks) -> list[int]:
    """Return the layers of each chunk of a model, in the order in which a sample meets them.

    They are equal, if that is possible. If not, the two ends of the model count as a layer each,
    and the last chunks have one more: the first stage keeps the most micro-batches.
    """
    if layers % chunks == 0:
        return [layers // chunks] * chunks
    least, more = divmod(layers + 2, chunks)
    counts = [least + (number >= chunks - more) for number in range(chunks)]
    return [count - (number in (0, chunks - 1)) for number, count in enumerate(counts)]


# ---- Megatron-LM ----------------------------------------------------------------------------


def megatron_arguments(plan, batch, layers) -> dict:
    """Exercise 10.18. Return the options of Megatron-LM that share out the work.

    plan     dp, tp, pp, cp, zero (0 or 1), micro_batch, recompute ("none", "selective", "full"),
             chunks (of a stage), sequence (whether sequence parallelism is wanted)
    batch    samples per step; layers: of the whole model
    Returns  {option: value}; a switch has the value True, and is left out where it is not wanted.
             The three sizes and the two batches are always present

    With dp 1, tp 2, pp 1, cp 1, ZeRO 0, micro-batch 1, one chunk, sequence, nothing recomputed and
    batch 8, the five options are 2, 1, 1, 1 and 8, and "--sequence-parallel" is True.
    """
    ...  # your code here


def megatron_layout(layers, chunks) -> str:
    """Return the value of --pipeline-model-parallel-layout: E is the embedding, L the loss."""
    counts = layers_of_chunks(layers, chunks)
    of_chunks = [f"t*{count}" * (count > 0) for count in counts]
    return f"'E{'|'.join(of_chunks)}L'"


def megatron_recomputing(plan, layers) -> dict:
    """Return the options to recompute only a share of the layers of each chunk: its first ones."""
    if plan.recompute != FULL or plan.recomputed == 1:
        return {}
    count = plan.recomputed * layers / (plan.pp * plan.chunks)
    need("Megatron-LM", {f"{count:g} layers of each chunk cannot be recomputed": count % 1})
    return {"--recompute-method": "block", "--recompute-num-layers": int(count)}


NARROW = {
    BF16: {},
    FP8: {"--fp8-format": "hybrid", "--fp8-recipe": "tensorwise"},
    MXFP8: {"--fp8-format": "e4m3", "--fp8-recipe": "mxfp8"},
    NVFP4: {"--fp4-format": "e2m1", "--fp4-recipe": "nvfp4"},
}
SHARDED = {2: "optim_grads", 3: "optim_grads_params"}


def megatron_overlap(plan) -> dict:
    """Return the options that hide communication along dp, as the cost model assumes.

    Megatron-LM hides nothing by default; Megatron-FSDP, which has ZeRO 2 and 3, always does.
    """
    is_wanted = plan.zero < 2 and plan.dp * plan.cp > 1
    options = {"--overlap-grad-reduce": True, "--overlap-param-gather": plan.zero == 1}
    return {name: True for name, is_used in options.items() if is_wanted and is_used}


def megatron_shape(shape) -> dict:
    """Return the options for the model, as far as a shape knows it: Llama's family, or GPT's."""
    options = {
        "--num-layers": shape.layers,
        "--hidden-size": shape.width,
        "--ffn-hidden-size": shape.mlp,
        "--num-attention-heads": shape.heads,
        "--seq-length": shape.context,
        "--max-position-embeddings": shape.positions or shape.context,
        "--vocab-size": shape.vocabulary,
        "--position-embedding-type": "rope" if shape.is_gated else "learned_absolute",
    }
    if shape.kv_heads and shape.kv_heads < shape.heads:
        options |= {"--group-query-attention": True, "--num-query-groups": shape.kv_heads}
    if shape.is_gated:
        options |= {"--swiglu": True, "--normalization": "RMSNorm", "--disable-bias-linear": True}
        options |= {"--attention-dropout": 0, "--hidden-dropout": 0}  # the defaults are 0.1
    if not shape.is_tied:
        options["--untie-embeddings-and-output-weights"] = True
    if shape.head_width and not shape.attention_parameters:
        options["--kv-channels"] = shape.head_width
    return options


def megatron_experts(plan, shape) -> dict:
    """Return the options for a model's experts, and how they are shared out; {} without experts."""
    if not shape.experts:
        return {}
    options = {
        "--num-experts": shape.experts,
        "--moe-router-topk": shape.chosen,
        "--moe-ffn-hidden-size": shape.expert_mlp,
        "--moe-grouped-gemm": True,
        "--moe-token-dispatcher-type": "alltoall",
        "--expert-model-parallel-size": plan.ep,
        "--expert-tensor-parallel-size": plan.etp,  # by default the one of all else
    }
    if shape.shared_mlp:
        options["--moe-shared-expert-intermediate-size"] = shape.shared_mlp
    if shape.dense_layers:
        dense = shape.dense_layers
        options["--moe-layer-freq"] = f"'([0]*{dense}+[1]*{shape.layers - dense})'"
    else:
        options["--ffn-hidden-size"] = shape.expert_mlp  # unused, and the default is another one
    return options


MEETING = "--rdzv-backend c10d --rdzv-endpoint $HEAD:29500"


def megatron(plan: Plan, job: Job, steps=1000) -> Configuration:
    """Write the command line that starts torchrun on each machine; it has no option for dp.

    With several machines, $HEAD is the name of one of them, at which all of them meet.
    """
    shape, chunks = job.shape, plan.pp * plan.chunks
    groups = shape.kv_heads or shape.heads
    need_possible("Megatron-LM", plan, job)
    need("Megatron-LM", {
        "it has no ALiBi, and the shape has neither a table of positions nor rotary angles":
            not (shape.is_gated or shape.positions),
        f"tp {plan.tp} does not divide {groups} heads of keys": groups % plan.tp,
        "with tp and experts it always cuts the sequence":
            shape.experts > 0 and plan.tp > 1 and not plan.sequence,
        "it recomputes the inside of attention in all layers or in none":
            plan.recompute == SELECTIVE and plan.recomputed < 1,
        "it recomputes a share of the layers only where all chunks have equally many":
            plan.recomputed < 1 and shape.layers % chunks,
    })  # fmt: skip
    options = megatron_arguments(plan, job.batch, shape.layers)
    options |= megatron_recomputing(plan, shape.layers)
    if shape.layers % chunks:
        options.pop("--num-layers-per-virtual-pipeline-stage", None)
        options["--pipeline-model-parallel-layout"] = megatron_layout(shape.layers, chunks)
    if plan.zero > 1:
        options |= {
            "--use-megatron-fsdp": True, "--use-distributed-optimizer": True,
            "--data-parallel-sharding-strategy": SHARDED[plan.zero],
            "--ckpt-format": "fsdp_dtensor",
        }  # fmt: skip
    if plan.replicas > 1:
        options["--num-distributed-optimizer-instances"] = plan.replicas
    options |= megatron_overlap(plan) | megatron_shape(shape) | megatron_experts(plan, shape)
    options |= {"--bf16": True, "--train-iters": steps} | NARROW[plan.precision]
    if plan.zero == 3 and plan.precision in (FP8, MXFP8):
        options["--fp8-param-gather"] = True
    nodes, each = machines_of(plan, job)
    needs_one = (plan.tp > 1 or plan.cp > 1) and plan.zero < 2  # required up to the H100
    start = "CUDA_DEVICE_MAX_CONNECTIONS=1 " * needs_one
    start += f"torchrun --nnodes {nodes} --nproc-per-node {each}"
    meet = [MEETING] if nodes > 1 else []
    told = (name if value is True else f"{name} {value}" for name, value in options.items())
    lines = [start, *meet, "pretrain_gpt.py", *told]
    return Configuration("Megatron-LM", " \\\n    ".join(lines), beyond_shapes(shape))


def beyond_shapes(shape) -> dict:
    """Return the options for what a shape has only as a number, which you have to add."""
    more = shape.vectors - (2 if shape.is_gated else 13) * shape.width
    latent = {"latent attention": "--multi-latent-attention, and its ranks"}
    others = {"norms and biases": f"{int(more)} numbers in each layer that these options lack"}
    return latent if shape.attention_parameters else others if more else {}


# ---- DeepSpeed ------------------------------------------------------------------------------


RECOMPUTING = {"recompute each layer": "torch.utils.checkpoint"}  # no option does


def deepspeed(plan: Plan, job: Job) -> Configuration:
    """Write the JSON, and what the program has to do: arguments of PipelineModule, or recompute.

    It covers only what DeepSpeed cuts by itself: with a model that the program cuts along tp, as
    Megatron-DeepSpeed does, there are dp × tp × pp. Where DeepSpeed cuts along tp, its batch sizes
    count all ranks, says runtime/config.py of 0.19.8.
    """
    need("DeepSpeed", {"its pipeline takes ZeRO 1 at most": plan.pp > 1 and plan.zero > 1})
    need_possible("DeepSpeed", plan, job)
    need("DeepSpeed", {
        "it splits a context by heads (Ulysses), and not in a ring": plan.cp > 1,
        "with tp and stages, the program has to cut the model": plan.tp > 1 and plan.pp > 1,
        "its tp has no sequence parallelism: plan with sequence=False":
            plan.tp > 1 and plan.sequence,
        "its pipeline is not interleaved": plan.chunks > 1,
        "whether attention is recomputed, the model says itself": plan.recompute == SELECTIVE,
        **none_of(plan, "ep", "replicas", "recomputed", "precision"),
    })  # fmt: skip
    told = {
        "train_batch_size": job.batch * plan.tp,  # as if ranks along tp had samples of their own
        "train_micro_batch_size_per_gpu": plan.micro_batch,
        "gradient_accumulation_steps": accumulation(plan, job),
        "bf16": {"enabled": True},
        "gradient_clipping": 1.0,
        "zero_optimization": {"stage": plan.zero},
    }
    if plan.tp > 1:
        told["tensor_parallel"] = {"autotp_size": plan.tp}
    program = {}
    if plan.pp > 1:  # by default it shares out parameters, not layers
        program = {"num_stages": plan.pp, "partition_method": "uniform"}
    if plan.recompute == FULL:
        program |= {"activation_checkpoint_interval": 1} if plan.pp > 1 else RECOMPUTING
    return Configuration("DeepSpeed", json.dumps(told, indent=2), program)


def main():
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    job = Job(model_named("llama-3-70b"), gpu_named("H100"), batch=512)
    print(megatron(Plan(dp=2, tp=4, pp=8, zero=1), job).text)
    print(deepspeed(Plan(dp=64, zero=3), job).text)


if __name__ == "__main__":
    main()
