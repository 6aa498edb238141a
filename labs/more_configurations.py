# Built from chapters/ch10_choosing_a_strategy/labs/more_configurations.py by `make build`.
"""Plans as three more engines read them: torchtitan's TOML, accelerate's and nanotron's YAML.

The options come from torchtitan 0.2.2 (February 2026), accelerate 1.15.0, and nanotron's commit
2411b02 (April 2026): see engine_options.py.

python labs/more_configurations.py
"""

import json
from dataclasses import astuple

import yaml
from configurations import (
    Configuration,
    accumulation,
    deepspeed,
    machines_of,
    megatron,
    need,
    need_possible,
    none_of,
)
from cost_model import BF16, FP8, FULL, MXFP8, NONE, NVFP4, SELECTIVE, Job, Plan
from model_shapes import gpu_named, model_named

# ---- torchtitan -----------------------------------------------------------------------------

FLAVORS = {  # of its models in 0.2.2, those that are in labs/model_shapes.py
    ("llama3", "8B"): "llama-3-8b", ("llama3", "70B"): "llama-3-70b",
    ("llama3", "405B"): "llama-3-405b", ("qwen3", "8B"): "qwen-3-8b",
    ("qwen3", "32B"): "qwen-3-32b", ("qwen3", "30B-A3B"): "qwen-3-30b-a3b",
    ("qwen3", "235B-A22B"): "qwen-3-235b-a22b",
    ("deepseek_v3", "671B"): "deepseek-v3",
}  # fmt: skip


def flavor_of(shape) -> tuple[str, str] | None:
    """Return torchtitan's names of a model, whatever its context; None for other shapes."""
    for name, model in FLAVORS.items():
        one = model_named(model, context=shape.context, source=shape.source)
        if astuple(one) == astuple(shape):
            return name
    return None


CONVERTERS = {BF16: None, FP8: "float8", MXFP8: "mx"}


def torchtitan_precision(plan: Plan, shape) -> dict:
    """Return the sections that convert linear layers, and experts, to 8 bits."""
    of = CONVERTERS[plan.precision]
    if of is None:
        return {}
    recipe = {"recipe_name": "tensorwise", "enable_fsdp_float8_all_gather": plan.zero == 3}
    told = {f"quantize.linear.{of}": recipe if of == "float8" else {"recipe_name": "mxfp8_cublas"}}
    if shape.experts:
        told[f"quantize.grouped_mm.{of}"] = {"fqns": ["experts"]}
    return {"model": {"converters": list(told)}} | told


def torchtitan_stages(plan: Plan, layers) -> dict:
    """Return the options of a pipeline; torchtitan derives the stages from the layers of each.

    Where stages are uneven, the two ends count as a layer each.
    """
    chunks = plan.pp * plan.chunks
    ends = int(layers % chunks != 0)
    each = -(-(layers + 2 * ends) // chunks)
    stages = -(-(layers + 2 * ends) // each)
    need("torchtitan", {f"stages of up to {each} layers would be {stages}": stages != chunks})
    return {
        "pipeline_parallel_schedule": "Interleaved1F1B" if plan.chunks > 1 else "1F1B",
        "pipeline_parallel_microbatch_size": plan.micro_batch,
        "pipeline_parallel_layers_per_stage": each,
        "pipeline_parallel_first_stage_less_layers": ends,  # the default is 1
        "pipeline_parallel_last_stage_less_layers": ends,
    }


def torchtitan_recomputing(plan: Plan) -> dict:
    """Return the section on recomputation: of all layers, none, or every second, third, …"""
    if plan.recompute == NONE or plan.recomputed == 1:
        return {"mode": plan.recompute}
    step = round(1 / plan.recomputed)
    told = f"it recomputes every second layer, or every third, and no share of {plan.recomputed:g}"
    need("torchtitan", {told: abs(step * plan.recomputed - 1) > 1e-6})
    return {"mode": "selective", "selective_ac_option": str(step)}


def torchtitan(plan: Plan, job: Job, steps=1000) -> Configuration:
    """Write the TOML of torchtitan 0.2.2; since then its configurations are Python."""
    flavor, shape = flavor_of(job.shape), job.shape
    shards = plan.dp * plan.cp // plan.replicas
    need_possible("torchtitan", plan, job)
    need("torchtitan", {
        f"in TOML it takes its own models, and of ours {', '.join(FLAVORS.values())}":
            flavor is None,
        "it shards gradients with the optimizer's states: there is no ZeRO 1": plan.zero == 1,
        "along cp it shards parameters, too: take ZeRO 2 or 3": plan.cp > 1 and plan.zero == 0,
        "copies that are not sharded stand alone, without tp and pp":
            plan.zero == 0 and plan.dp > 1 and plan.ranks > plan.dp,
        "with tp it always cuts the sequence": plan.tp > 1 and not plan.sequence,
        'its "selective" is another one: every second layer, or by operators':
            plan.recompute == SELECTIVE,
        f"{plan.dp} copies cannot be {plan.replicas} replicas": plan.dp % plan.replicas,
        "without ep it cuts experts along tp":
            plan.ep == 1 and shape.experts and plan.etp != plan.tp,
        "each replica has all experts": shards * plan.tp % (plan.ep * plan.etp),
        "it has no products in nvfp4": plan.precision == NVFP4,
    })  # fmt: skip
    precision = torchtitan_precision(plan, shape)
    told = {
        "model": dict(zip(("name", "flavor"), flavor)) | precision.pop("model", {}),
        "training": {
            "local_batch_size": plan.micro_batch if plan.pp == 1 else job.batch // plan.dp,
            "global_batch_size": job.batch,
            "seq_len": job.shape.context,
            "steps": steps,
        },
        "parallelism": {
            "data_parallel_replicate_degree": plan.replicas if plan.zero else plan.dp,
            "data_parallel_shard_degree": plan.dp // plan.replicas if plan.zero else 1,
            "fsdp_reshard_after_forward": "always" if plan.zero == 3 else "never",
            "tensor_parallel_degree": plan.tp,
            "pipeline_parallel_degree": plan.pp,
            "context_parallel_degree": plan.cp,
        },
        "activation_checkpoint": torchtitan_recomputing(plan),
    }
    if plan.pp > 1:
        told["parallelism"] |= torchtitan_stages(plan, shape.layers)
    if shape.experts:
        told["parallelism"] |= {
            "expert_parallel_degree": plan.ep, "expert_tensor_parallel_degree": plan.etp,
        }  # fmt: skip
    told |= precision
    return Configuration("torchtitan", write_toml(told))


def write_toml(sections) -> str:
    """Write sections of numbers, texts and truth values as TOML; JSON writes these alike."""
    lines = []
    for section, values in sections.items():
        lines += [f"[{section}]", *(f"{k} = {json.dumps(v)}" for k, v in values.items()), ""]
    return "\n".join(lines)


# ---- accelerate -----------------------------------------------------------------------------

ACCELERATE = "accelerate (FSDP2)"  # it starts other engines, too


def accelerate(plan: Plan, job: Job) -> Configuration:
    """Write the YAML for FSDP2, and the arguments of Accelerator and DataLoader for the program.

    With several machines, each adds its machine_rank, and main_process_ip and main_process_port.
    """
    need_possible(ACCELERATE, plan, job)
    need(ACCELERATE, {
        "its ParallelismConfig has no pipeline": plan.pp > 1,
        "FSDP2 shards parameters, gradients and states: take ZeRO 2 or 3": plan.zero < 2,
        "its tp has no sequence parallelism: plan with sequence=False":
            plan.tp > 1 and plan.sequence,
        "it recomputes whole layers, or nothing": plan.recompute == SELECTIVE,
        f"{plan.dp} copies cannot be {plan.replicas} replicas": plan.dp % plan.replicas,
        **none_of(plan, "ep", "recomputed", "precision"),
    })  # fmt: skip
    nodes, _ = machines_of(plan, job)
    shards = plan.dp // plan.replicas
    sizes = {"dp_replicate": plan.replicas, "dp_shard": shards, "tp": plan.tp, "cp": plan.cp}
    told = {
        "distributed_type": "FSDP",
        "mixed_precision": "bf16",
        "num_machines": nodes,
        "num_processes": plan.ranks,
        "fsdp_config": {
            "fsdp_version": 2,
            "fsdp_reshard_after_forward": plan.zero == 3,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",  # in units that the model names
            "fsdp_activation_checkpointing": plan.recompute == FULL,
        },
        "parallelism_config": {f"parallelism_config_{k}_size": n for k, n in sizes.items()},
    }  # fmt: skip
    program = {"batch_size": plan.micro_batch, "gradient_accumulation_steps":
               accumulation(plan, job)}  # fmt: skip
    if plan.tp > 1:
        program["from_pretrained"] = 'tp_plan="auto"'  # it cuts no model that is whole
    if plan.cp > 1:
        program["around each step"] = "accelerator.maybe_context_parallel(…)"
    return Configuration("accelerate", yaml.safe_dump(told, sort_keys=False), program)


# ---- nanotron -------------------------------------------------------------------------------


def nanotron(plan: Plan, job: Job, steps=1000) -> Configuration:
    """Write the sections of nanotron's YAML that a plan decides.

    nanotron shares out the layers by their cost, with the output's: its stages may be unequal.
    """
    shape = job.shape
    need_possible("nanotron", plan, job)
    need("nanotron", {
        "it trains Llama, Qwen2 and Starcoder2, and this lab writes its Llama":
            not shape.is_gated or shape.head_width or shape.vectors != 2 * shape.width,
        "it has ZeRO 0 and 1": plan.zero > 1,
        "its Llama has no context parallelism": plan.cp > 1,
        "its pipelines are not interleaved": plan.chunks > 1,
        "it recomputes whole layers, or nothing": plan.recompute == SELECTIVE,
        "its Llama has no experts": shape.experts,
        **none_of(plan, "replicas", "recomputed", "precision"),
    })  # fmt: skip
    told = {
        "parallelism": {
            "dp": plan.dp, "tp": plan.tp, "pp": plan.pp,
            "pp_engine": "1f1b", "tp_mode": "REDUCE_SCATTER" if plan.sequence else "ALL_REDUCE",
            "recompute_layer": plan.recompute == FULL,
        },
        "tokens": {
            "micro_batch_size": plan.micro_batch,
            "batch_accumulation_per_replica": accumulation(plan, job),
            "sequence_length": shape.context, "train_steps": steps,
        },
        "optimizer": {"zero_stage": plan.zero, "accumulate_grad_in_fp32": True},
        "model": {"dtype": "bfloat16", "model_config": {
            "is_llama_config": True, "num_hidden_layers": shape.layers, "hidden_size": shape.width,
            "intermediate_size": shape.mlp, "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads or shape.heads, "vocab_size": shape.vocabulary,
            "max_position_embeddings": shape.context, "tie_word_embeddings": shape.is_tied,
        }},
    }  # fmt: skip
    return Configuration("nanotron", yaml.safe_dump(told, sort_keys=False))


# ---- All of them ----------------------------------------------------------------------------

WRITERS = {"Megatron-LM": megatron, "nanotron": nanotron, "DeepSpeed": deepspeed,
           "torchtitan": torchtitan, "accelerate": accelerate}  # fmt: skip


def display_name(engine) -> str:
    """Return an engine's name as a reader sees it."""
    return ACCELERATE if engine == "accelerate" else engine


def answers(plan: Plan, job: Job) -> dict:
    """Return each engine's configuration, or the first reason for which it is refused."""
    found = {}
    for engine, write in WRITERS.items():
        try:
            found[engine] = write(plan, job)
        except ValueError as error:
            found[engine] = str(error)
    return found


def main():
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    job = Job(model_named("llama-3-70b"), gpu_named("H100"), batch=512)
    for plan in (Plan(dp=2, tp=4, pp=8, zero=1), Plan(dp=64, zero=3, recompute=FULL)):
        print(plan)
        for engine, told in answers(plan, job).items():
            print(f"  {told}" if isinstance(told, str) else f"  {engine}: possible")


if __name__ == "__main__":
    main()
