# Built from chapters/ch10_choosing_a_strategy/labs/engine_options.py by `make build`.
"""The options of engines that the labs write or read, each set with its source.

An engine has many more. This course does not know an option that is in no set here: look it up.

python labs/engine_options.py
"""

import json
import shlex

import yaml

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

SOURCES = {
    "Megatron-LM": "core_v0.19.0, 19 August 2026: megatron/training/arguments.py; its own parser "
    "took every option of this set",
    "DeepSpeed": "0.19.8: deepspeed/runtime/constants.py and runtime/zero/config.py",
    "torchtitan": "0.2.2, 20 February 2026: torchtitan/config/job_config.py",
    "accelerate": "1.15.0: accelerate/commands/launch.py and commands/config/config_args.py",
    "nanotron": "commit 2411b02, 7 April 2026: src/nanotron/config/",
}
MEGATRON = """
    tensor-model-parallel-size pipeline-model-parallel-size context-parallel-size
    sequence-parallel use-distributed-optimizer num-layers-per-virtual-pipeline-stage
    num-virtual-stages-per-pipeline-rank micro-batch-size global-batch-size num-layers hidden-size
    ffn-hidden-size num-attention-heads group-query-attention num-query-groups swiglu seq-length
    max-position-embeddings normalization untie-embeddings-and-output-weights disable-bias-linear
    position-embedding-type rotary-base bf16 recompute-granularity recompute-method
    recompute-num-layers use-flash-attn train-iters train-samples use-megatron-fsdp
    data-parallel-sharding-strategy ckpt-format vocab-size tokenizer-type mock-data lr min-lr
    attention-dropout hidden-dropout overlap-grad-reduce overlap-param-gather kv-channels
    pipeline-model-parallel-layout num-distributed-optimizer-instances
    num-experts moe-router-topk moe-ffn-hidden-size moe-grouped-gemm moe-token-dispatcher-type
    moe-shared-expert-intermediate-size moe-layer-freq expert-model-parallel-size
    expert-tensor-parallel-size fp8-format fp8-recipe fp8-param-gather fp4-format fp4-recipe
"""
DEEPSPEED = """
    train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps gradient_clipping
    bf16.enabled fp16.enabled fp16.loss_scale fp16.loss_scale_window tensor_parallel.autotp_size
    zero_optimization.stage zero_optimization.offload_optimizer.device
    zero_optimization.offload_optimizer.pin_memory zero_optimization.offload_param.device
    zero_optimization.offload_param.pin_memory zero_optimization.overlap_comm
    zero_optimization.contiguous_gradients zero_optimization.sub_group_size
    zero_optimization.reduce_bucket_size zero_optimization.stage3_prefetch_bucket_size
    zero_optimization.stage3_param_persistence_threshold
    activation_checkpointing.partition_activations activation_checkpointing.number_checkpoints
"""
TORCHTITAN = """
    model.name model.flavor training.local_batch_size training.global_batch_size training.seq_len
    training.steps activation_checkpoint.mode parallelism.data_parallel_replicate_degree
    parallelism.data_parallel_shard_degree parallelism.fsdp_reshard_after_forward
    parallelism.tensor_parallel_degree parallelism.pipeline_parallel_degree
    parallelism.context_parallel_degree parallelism.pipeline_parallel_schedule
    parallelism.pipeline_parallel_microbatch_size parallelism.pipeline_parallel_layers_per_stage
    parallelism.pipeline_parallel_first_stage_less_layers
    parallelism.pipeline_parallel_last_stage_less_layers parallelism.expert_parallel_degree
    parallelism.expert_tensor_parallel_degree activation_checkpoint.selective_ac_option
    model.converters quantize.linear.float8.recipe_name
    quantize.linear.float8.enable_fsdp_float8_all_gather quantize.linear.mx.recipe_name
    quantize.grouped_mm.float8.fqns quantize.grouped_mm.mx.fqns
"""
ACCELERATE = """
    distributed_type mixed_precision num_machines num_processes fsdp_config.fsdp_version
    fsdp_config.fsdp_reshard_after_forward fsdp_config.fsdp_auto_wrap_policy
    fsdp_config.fsdp_transformer_layer_cls_to_wrap fsdp_config.fsdp_activation_checkpointing
    parallelism_config.parallelism_config_dp_replicate_size
    parallelism_config.parallelism_config_dp_shard_size
    parallelism_config.parallelism_config_tp_size parallelism_config.parallelism_config_cp_size
"""
NANOTRON = """
    parallelism.dp parallelism.tp parallelism.pp parallelism.context_parallel_size
    parallelism.pp_engine parallelism.tp_mode parallelism.recompute_layer tokens.micro_batch_size
    tokens.batch_accumulation_per_replica tokens.sequence_length tokens.train_steps
    optimizer.zero_stage optimizer.accumulate_grad_in_fp32 model.dtype
    model.model_config.is_llama_config model.model_config.num_hidden_layers
    model.model_config.hidden_size model.model_config.intermediate_size
    model.model_config.num_attention_heads model.model_config.num_key_value_heads
    model.model_config.vocab_size model.model_config.max_position_embeddings
    model.model_config.tie_word_embeddings
"""
KNOWN = {
    "Megatron-LM": {f"--{name}" for name in MEGATRON.split()},
    "DeepSpeed": set(DEEPSPEED.split()),
    "torchtitan": set(TORCHTITAN.split()),
    "accelerate": set(ACCELERATE.split()),
    "nanotron": set(NANOTRON.split()),
}
READERS = {"DeepSpeed": json.loads, "torchtitan": tomllib.loads, "accelerate": yaml.safe_load,
           "nanotron": yaml.safe_load}  # fmt: skip


def options_of(engine, text) -> dict:
    """Return {option: value} of a file, its sections joined by dots, or of Megatron-LM's command.

    Raises  ValueError for an unknown engine
    """
    if engine not in KNOWN:
        raise ValueError(f"no engine is called {engine!r}; known are {', '.join(KNOWN)}")
    return parse_command_line(text) if engine == "Megatron-LM" else flat(READERS[engine](text))


def parse_command_line(text) -> dict:
    """Return the text after each --name, or after its "="; True for a switch."""
    words = [
        part
        for word in shlex.split(text.replace("\\\n", " "))
        for part in (word.split("=", 1) if word.startswith("--") else [word])
    ]
    values = [*words[1:], "--"]
    return {
        word: True if value.startswith("--") else value
        for word, value in zip(words, values) if word.startswith("--")
    }  # fmt: skip


def flat(sections, before="") -> dict:
    found = {}
    for name, value in sections.items():
        found |= flat(value, f"{before}{name}.") if isinstance(value, dict) else {
            before + name: value
        }  # fmt: skip
    return found


OF_TORCHRUN = {"--nnodes", "--nproc-per-node", "--rdzv-backend", "--rdzv-endpoint"}


def unknown_options(engine, text) -> list[str]:
    """List the names in a configuration that are in no set here, in order."""
    return [name for name in options_of(engine, text) if name not in KNOWN[engine] | OF_TORCHRUN]


def main():
    for engine, source in SOURCES.items():
        print(f"{engine}: {len(KNOWN[engine])} options of {source}")


if __name__ == "__main__":
    main()
