"""Plans as engines' configurations: their options, what is refused, and the way back to a plan."""

import json
import re
import shlex
from dataclasses import astuple, replace

import needs
import pytest
import torch
import yaml
from helpers import load_solved_lab
from selection import parametrize

from pedagogy_lib import RankError, launch

WRITERS, BACK, OPTIONS, FSDP2, DOCUMENTS = map(load_solved_lab, (
    "more_configurations", "read_configurations", "engine_options", "fsdp2_program",
    "documents_configurations",
))  # fmt: skip
PLANNER, LANGUAGE, CONFIGURATIONS = map(
    load_solved_lab, ("planner", "language_model", "configurations")
)
Plan = BACK.Plan


def job(model="llama-3-70b", gpu="H100", batch=512):
    return BACK.Job(BACK.model_named(model), BACK.gpu_named(gpu), batch)


# ---- The options are the engines' own -------------------------------------------------------


def test_megatron_command_line():
    """Names and values as in megatron/training/arguments.py of core_v0.19.0, August 2026."""
    plan = Plan(dp=2, tp=4, pp=4, cp=2, zero=1, chunks=4, recompute="full")
    words = shlex.split(WRITERS.megatron(plan, job(), 100).text.replace("\\\n", " "))
    assert words == shlex.split(
        "CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun --nnodes 8 --nproc-per-node 8 "
        "--rdzv-backend c10d --rdzv-endpoint $HEAD:29500 pretrain_gpt.py "
        "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 4 --context-parallel-size 2 "
        "--micro-batch-size 1 --global-batch-size 512 --sequence-parallel "
        "--use-distributed-optimizer --num-layers-per-virtual-pipeline-stage 5 "
        "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1 "
        "--overlap-grad-reduce --overlap-param-gather "
        "--num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 "
        "--seq-length 8192 --max-position-embeddings 8192 --vocab-size 128256 "
        "--position-embedding-type rope --group-query-attention --num-query-groups 8 --swiglu "
        "--normalization RMSNorm --disable-bias-linear --attention-dropout 0 --hidden-dropout 0 "
        "--untie-embeddings-and-output-weights --bf16 --train-iters 100"
    )


@pytest.mark.parametrize(
    ("plan", "wanted"),
    [
        (Plan(dp=8, tp=8), ["--overlap-grad-reduce"]),
        (Plan(dp=8, tp=8, zero=1), ["--overlap-grad-reduce", "--overlap-param-gather"]),
        (Plan(tp=8, pp=8), []),  # no copies
        (Plan(dp=64, zero=3), []),  # Megatron-FSDP overlaps by itself
    ],
    ids=str,
)
def test_megatron_hides_along_dp_what_the_planner_assumes(plan, wanted):
    """arguments.py: both are off by default, and the second one needs the first, and ZeRO."""
    found = OPTIONS.parse_command_line(WRITERS.megatron(plan, job()).text)
    assert sorted(name for name in found if "overlap" in name) == wanted


def test_megatron_of_the_gpt_family():
    found = OPTIONS.parse_command_line(
        WRITERS.megatron(Plan(tp=4, pp=16), job("gpt3-175b", "A100")).text
    )
    assert found["--position-embedding-type"] == "learned_absolute"
    assert found["--ffn-hidden-size"] == str(4 * 12288)
    assert not {"--swiglu", "--group-query-attention", "--untie-embeddings-and-output-weights",
                "--use-distributed-optimizer"} & set(found)  # fmt: skip


def test_megatron_fsdp():
    """docs/user-guide of Megatron-LM: --use-megatron-fsdp, its strategies, and its checkpoints."""
    found = OPTIONS.parse_command_line(WRITERS.megatron(Plan(dp=64, zero=2), job()).text)
    assert found["--use-megatron-fsdp"] is True
    assert found["--data-parallel-sharding-strategy"] == "optim_grads"
    assert found["--ckpt-format"] == "fsdp_dtensor"


def test_deepspeed_json():
    """deepspeed/runtime/constants.py of 0.19.8."""
    told = WRITERS.deepspeed(Plan(dp=8, pp=8, zero=1, micro_batch=4, recompute="full"), job())
    assert json.loads(told.text) == {
        "train_batch_size": 512, "train_micro_batch_size_per_gpu": 4,
        "gradient_accumulation_steps": 16, "bf16": {"enabled": True}, "gradient_clipping": 1.0,
        "zero_optimization": {"stage": 1},
    }  # fmt: skip
    assert told.program == {
        "num_stages": 8, "partition_method": "uniform", "activation_checkpoint_interval": 1,
    }  # fmt: skip
    # An argument of PipelineModule, which a program without stages does not have.
    alone = WRITERS.deepspeed(Plan(dp=64, zero=3, recompute="full"), job())
    assert list(alone.program) == ["recompute each layer"]


def test_torchtitan_toml():
    """torchtitan/config/job_config.py of 0.2.2; stages are equal only if no layer is taken off."""
    plan = Plan(tp=8, pp=8, chunks=2, recompute="full")
    told = OPTIONS.tomllib.loads(WRITERS.torchtitan(plan, job()).text)
    assert told["parallelism"] == {
        "data_parallel_replicate_degree": 1, "data_parallel_shard_degree": 1,
        "fsdp_reshard_after_forward": "never", "tensor_parallel_degree": 8,
        "pipeline_parallel_degree": 8, "context_parallel_degree": 1,
        "pipeline_parallel_schedule": "Interleaved1F1B", "pipeline_parallel_microbatch_size": 1,
        "pipeline_parallel_layers_per_stage": 5, "pipeline_parallel_first_stage_less_layers": 0,
        "pipeline_parallel_last_stage_less_layers": 0,
    }  # fmt: skip
    assert told["training"]["local_batch_size"] == 512
    assert told["model"] == {"name": "llama3", "flavor": "70B"}


# ---- Uneven stages, experts, replicas, shares and 8 bits ------------------------------------


@pytest.mark.parametrize(
    ("layers", "chunks", "counts"),
    [
        (80, 8, [10] * 8),
        (126, 16, [7, *[8] * 14, 7]),  # Llama 3 405B: arXiv 2407.21783, section 3.3.2
        (61, 16, [2, *[4] * 14, 3]),
        (5, 6, [0, 1, 1, 1, 1, 1]),
        (4, 6, [0, 1, 1, 1, 1, 0]),
    ],
)
def test_ends_count_as_a_layer_where_stages_are_uneven(layers, chunks, counts):
    assert CONFIGURATIONS.layers_of_chunks(layers, chunks) == counts
    assert sum(counts) == layers
    of = replace(job(), shape=replace(job().shape, layers=layers))
    fullest = [count + (number in (0, chunks - 1)) for number, count in enumerate(counts)]
    assert of.layers(Plan(pp=chunks)) == (max(fullest) if layers % chunks else counts[0])


def test_megatron_layout_of_uneven_stages():
    """docs of --pipeline-model-parallel-layout: E is the embedding, t a layer, L the loss."""
    told = WRITERS.megatron(Plan(tp=8, pp=16, dp=4, zero=1), job("llama-3-405b"))
    found = OPTIONS.parse_command_line(told.text)
    assert found["--pipeline-model-parallel-layout"] == "Et*7|" + "t*8|" * 14 + "t*7L"
    assert "'Et*7|t*8|" in told.text  # a shell would take | for a pipe
    told = WRITERS.megatron(Plan(pp=9, chunks=3, dp=8), job("llama-3-405b", batch=72))
    found = OPTIONS.parse_command_line(told.text)
    assert found["--pipeline-model-parallel-layout"].count("|") == 26
    assert "--num-layers-per-virtual-pipeline-stage" not in found


def test_megatron_of_experts():
    """transformer_config.py and arguments.py of core_v0.19.0; etp is tp unless it is given."""
    plan = Plan(dp=16, tp=4, pp=1, zero=1, ep=8, etp=1)
    found = OPTIONS.parse_command_line(WRITERS.megatron(plan, job("mixtral-8x7b")).text)
    assert {name: value for name, value in found.items() if "expert" in name or "moe" in name} == {
        "--num-experts": "8", "--moe-router-topk": "2", "--moe-ffn-hidden-size": "14336",
        "--moe-grouped-gemm": True, "--moe-token-dispatcher-type": "alltoall",
        "--expert-model-parallel-size": "8", "--expert-tensor-parallel-size": "1",
    }  # fmt: skip
    assert found["--ffn-hidden-size"] == "14336"
    told = WRITERS.megatron(Plan(dp=16, tp=8, ep=64, zero=1), job("deepseek-v3"))
    found = OPTIONS.parse_command_line(told.text)
    assert found["--moe-layer-freq"] == "([0]*3+[1]*58)"
    assert found["--ffn-hidden-size"] == "18432" and "--kv-channels" not in found
    assert found["--moe-shared-expert-intermediate-size"] == "2048"
    assert list(told.program) == ["latent attention"]
    told = WRITERS.megatron(Plan(dp=16, tp=4, zero=1, ep=16), job("qwen-3-235b-a22b"))
    assert OPTIONS.parse_command_line(told.text)["--kv-channels"] == "128"
    assert told.program["norms and biases"].startswith("256 numbers")


def test_torchtitan_of_experts_in_8_bits():
    plan = Plan(dp=16, zero=3, ep=8, replicas=2, precision="fp8", recompute="full", recomputed=0.5)
    told = OPTIONS.tomllib.loads(WRITERS.torchtitan(plan, job("qwen-3-30b-a3b")).text)
    assert told["model"] == {
        "name": "qwen3", "flavor": "30B-A3B",
        "converters": ["quantize.linear.float8", "quantize.grouped_mm.float8"],
    }  # fmt: skip
    assert told["quantize"] == {
        "linear": {"float8": {"recipe_name": "tensorwise", "enable_fsdp_float8_all_gather": True}},
        "grouped_mm": {"float8": {"fqns": ["experts"]}},
    }
    assert told["activation_checkpoint"] == {"mode": "selective", "selective_ac_option": "2"}
    sizes = told["parallelism"]
    assert sizes["data_parallel_replicate_degree"] == 2
    assert sizes["data_parallel_shard_degree"] == 8 and sizes["expert_parallel_degree"] == 8


def test_torchtitan_derives_the_stages_that_it_is_told():
    """torchtitan/distributed/pipeline_parallel.py: their number is ceil((layers + ends) / each)."""
    plan = Plan(dp=4, tp=8, pp=16, zero=0)
    told = OPTIONS.tomllib.loads(WRITERS.torchtitan(replace(plan, dp=1), job("llama-3-405b")).text)
    sizes = told["parallelism"]
    assert sizes["pipeline_parallel_layers_per_stage"] == 8
    assert sizes["pipeline_parallel_first_stage_less_layers"] == 1
    with pytest.raises(ValueError, match="stages of up to 3 layers would be 43"):
        WRITERS.torchtitan(Plan(tp=8, pp=48), job("llama-3-405b"))
    with pytest.raises(ValueError, match="and of ours llama-3-8b"):
        WRITERS.torchtitan(Plan(dp=8, zero=3), job("mistral-7b"))


def test_accelerate_and_nanotron_yaml():
    """accelerate 1.15.0, tests/test_configs; nanotron 2411b02, src/nanotron/config."""
    told = yaml.safe_load(WRITERS.accelerate(Plan(dp=16, cp=4, zero=2), job()).text)
    assert (told["num_machines"], told["num_processes"]) == (8, 64)
    assert told["fsdp_config"]["fsdp_version"] == 2
    assert told["parallelism_config"]["parallelism_config_cp_size"] == 4
    told = yaml.safe_load(WRITERS.nanotron(Plan(dp=2, tp=4, pp=8, zero=1), job()).text)
    expected = {"dp": 2, "tp": 4, "pp": 8, "pp_engine": "1f1b", "tp_mode": "REDUCE_SCATTER"}
    assert told["parallelism"] == expected | {"recompute_layer": False}
    assert told["tokens"]["batch_accumulation_per_replica"] == 256
    assert told["optimizer"]["zero_stage"] == 1


# ---- There and back -------------------------------------------------------------------------


def plans_of(model, gpus, batch, precision="bf16", count=60):
    """Plans of the planner, with and without sequence parallelism."""
    planned = PLANNER.plan(model, gpus, batch=batch, precision=precision)
    best = [Plan(*astuple(choice.plan)) for choice in planned.best(count)]
    return best + [replace(plan, sequence=False) for plan in best if plan.tp > 1]


MORE = ["recomputed", "replicas", "ep", "precision", "pp"]
SAID = {  # of the fields above, those in which plans of these jobs came back from an engine
    "Megatron-LM": {"recomputed", "replicas", "ep", "precision", "pp"},
    "torchtitan": {"recomputed", "replicas", "ep", "precision", "pp"},
    "accelerate": {"replicas"}, "nanotron": {"pp"}, "DeepSpeed": {"pp"},
}  # fmt: skip
JOBS = [("llama-3-70b", "64xH100", "bf16"), ("llama-3-8b", "16xH100", "fp8"),
        ("qwen-3-30b-a3b", "32xH100", "bf16"), ("llama-3-405b", "1024xH100", "bf16")]  # fmt: skip


@pytest.mark.parametrize("engine", WRITERS.WRITERS)
def test_a_plan_comes_back_from_its_configuration(engine):
    taken, said = 0, set()
    for model, gpus, precision in JOBS:
        of = job(model)
        plans = plans_of(model, gpus, of.batch, precision)
        plans += [replace(plan, recompute="full", recomputed=0.5) for plan in plans]
        plans += [replace(plan, replicas=2) for plan in plans if plan.zero == 3]
        plans.append(Plan(dp=32, zero=3, ep=8))
        for plan in plans:
            told = WRITERS.answers(plan, of)[engine]
            if isinstance(told, str):
                assert re.fullmatch(rf"{engine}( \(FSDP2\))?: [^\n]+", told)
                continue
            taken += 1
            assert BACK.plan_of(told) == plan
            assert OPTIONS.unknown_options(engine, told.text) == []
            said |= {name for name in MORE if getattr(plan, name) != getattr(Plan(), name)}
    assert taken > 5
    assert said == SAID[engine]


@pytest.mark.parametrize(
    ("engine", "plan", "model", "sentence"),
    [
        ("DeepSpeed", Plan(dp=8, pp=8, zero=3), "llama-3-70b", "its pipeline takes ZeRO 1 at most"),
        ("DeepSpeed", Plan(dp=16, cp=4, zero=2), "llama-3-70b", "by heads (Ulysses)"),
        ("DeepSpeed", Plan(dp=8, pp=8, chunks=2), "llama-3-70b", "not interleaved"),
        ("accelerate", Plan(dp=8, pp=8, zero=1), "llama-3-70b", "has no pipeline"),
        ("torchtitan", Plan(dp=64, zero=1), "llama-3-70b", "there is no ZeRO 1"),
        ("torchtitan", Plan(dp=64, zero=3), "mistral-7b", "in TOML it takes its own models"),
        (
            "torchtitan",
            Plan(dp=16, tp=4, zero=3, replicas=2, ep=64),
            "qwen-3-30b-a3b",
            "each replica has all experts",
        ),
        ("torchtitan", Plan(dp=8, tp=4, zero=3), "qwen-3-30b-a3b", "it cuts experts along tp"),
        (
            "torchtitan",
            Plan(dp=8, zero=3, recompute="full", recomputed=0.4),
            "llama-3-8b",
            "no share of 0.4",
        ),
        ("nanotron", Plan(dp=8), "qwen-3-8b", "this lab writes its Llama"),
        ("nanotron", Plan(dp=8), "mixtral-8x7b", "its Llama has no experts"),
        ("nanotron", Plan(dp=8, precision="fp8"), "llama-3-8b", "with products in bf16"),
        ("DeepSpeed", Plan(dp=8, zero=3, replicas=2), "llama-3-8b", "no replicas of shards"),
        ("accelerate", Plan(dp=8, zero=3, ep=8), "mixtral-8x7b", "shares out the experts"),
        (
            "Megatron-LM",
            Plan(dp=8, tp=8, ep=8, sequence=False),
            "mixtral-8x7b",
            "it always cuts the sequence",
        ),
        (
            "Megatron-LM",
            Plan(pp=16, dp=4, recompute="full", recomputed=0.5),
            "llama-3-405b",
            "only where all chunks have equally many",
        ),
        (
            "Megatron-LM",
            Plan(pp=16, recompute="full", recomputed=0.5),
            "llama-3-70b",
            "2.5 layers of each chunk",
        ),
        ("nanotron", Plan(dp=64, zero=3), "llama-3-70b", "it has ZeRO 0 and 1"),
        ("nanotron", Plan(dp=8, tp=8), "gpt3-175b", "this lab writes its Llama"),
        ("Megatron-LM", Plan(tp=8, dp=8), "bloom-176b", "it has no ALiBi"),
        ("Megatron-LM", Plan(tp=3), "llama-3-70b", "tp does not divide the heads"),
        ("Megatron-LM", Plan(dp=3), "llama-3-70b", "does not divide the batch"),
        ("Megatron-LM", Plan(pp=90), "llama-3-70b", "more stages, or chunks of them, than layers"),
        ("Megatron-LM", Plan(dp=8, replicas=2), "llama-3-70b", "replicas of shards do not divide"),
    ],
)
def test_what_an_engine_cannot_express(engine, plan, model, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)) as caught:
        WRITERS.WRITERS[engine](plan, job(model))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("engine", "old", "new", "sentence"),
    [
        ("Megatron-LM", "--global-batch-size 512", "--global-batch-size 500", "500 samples"),
        ("Megatron-LM", "--nnodes 8", "--nnodes 7", "512 samples cannot be shared out evenly to 7"),
        ("Megatron-LM", "--nnodes 8", "", "how many ranks are there?"),
        ("DeepSpeed", '_size": 4096', '_size": 4000', "4000 samples"),
        ("accelerate", "num_processes: 64", "num_processes: 32", "make 64 ranks"),
        ("torchtitan", "global_batch_size = 512", "global_batch_size = 500", "500 samples"),
    ],
)
def test_contradictions_are_told(engine, old, new, sentence):
    plan = Plan(dp=8, tp=8, zero=3, sequence=engine in ("Megatron-LM", "torchtitan"))
    told = WRITERS.WRITERS[engine](plan, job())
    assert old in told.text
    with pytest.raises(ValueError, match=re.escape(sentence)):
        BACK.plan_of(replace(told, text=told.text.replace(old, new)))


def test_a_command_line_may_be_written_with_equals_signs():
    plan = Plan(dp=2, tp=4, pp=8, zero=1)
    told = WRITERS.megatron(plan, job())
    text = re.sub(r"(--[a-z-]+-size) (\d+)", r"\1=\2", told.text)
    assert text != told.text and BACK.plan_of(replace(told, text=text)) == plan


def test_stages_on_each_rank_are_chunks():
    plan = Plan(dp=2, tp=4, pp=8, zero=1)
    told = WRITERS.megatron(plan, job())
    text = told.text + " --num-virtual-stages-per-pipeline-rank 2"
    assert BACK.plan_of(replace(told, text=text)) == replace(plan, chunks=2)


@pytest.mark.parametrize(
    ("engine", "old", "new", "sentence"),
    [
        (
            "Megatron-LM",
            "--bf16",
            "--bf16 --decoder-first-pipeline-num-layers 8",
            "no Plan can say what",
        ),
        (
            "Megatron-LM",
            "--bf16",
            "--bf16 --pipeline-model-parallel-layout 'Et*79|tL'",
            "no Plan can say the layout",
        ),
        ("Megatron-LM", "--bf16", "--bf16 --fp8-format hybrid", "this format and recipe"),
        (
            "torchtitan",
            'mode = "none"',
            'mode = "selective"\nselective_ac_option = "op"',
            "is not that of a Plan",
        ),
    ],
)
def test_what_no_plan_can_say_is_refused(engine, old, new, sentence):
    told = WRITERS.WRITERS[engine](Plan(dp=8, tp=8, zero=3), job())
    assert old in told.text
    with pytest.raises(ValueError, match=sentence):
        BACK.plan_of(replace(told, text=told.text.replace(old, new)))


def test_a_misspelt_option_is_found():
    told = WRITERS.megatron(Plan(dp=8, tp=8, zero=1), job()).text
    wrong = told.replace("--sequence-parallel", "--sequence-paralel") + " --data-parallel-size 8"
    found = OPTIONS.unknown_options("Megatron-LM", wrong)
    assert found == ["--sequence-paralel", "--data-parallel-size"]


# ---- The engines' own parsers ---------------------------------------------------------------


def derive_settings(told, copies):
    found = BACK.parse_deepspeed(told, copies)
    tp = found.tensor_parallel_config.autotp_size
    return (found.train_batch_size, found.train_micro_batch_size_per_gpu,
            found.gradient_accumulation_steps, found.zero_optimization_stage,
            found.bfloat16_config.enabled, tp)  # fmt: skip


@pytest.mark.parametrize(
    "plan",
    [Plan(dp=64, zero=3, micro_batch=2), Plan(dp=8, pp=8, zero=1), Plan(dp=32, zero=2),
     Plan(dp=8, tp=8, zero=2, sequence=False)],
    ids=str,
)  # fmt: skip
@needs.mark("deepspeed")
def test_deepspeed_derives_the_same(plan):
    told = json.loads(WRITERS.deepspeed(plan, job()).text)
    steps = told.pop("gradient_accumulation_steps")
    run = launch(derive_settings, told, plan.dp * plan.tp, world_size=1, device="cpu")
    batch = 512 * plan.tp  # DeepSpeed counts ranks along tp as copies
    expected = (batch, plan.micro_batch, steps, plan.zero, True, plan.tp if plan.tp > 1 else 0)
    assert run.values[0] == expected
    said = launch(BACK.verdict_of_deepspeed, told | {"gradient_accumulation_steps": steps + 1},
                  plan.dp * plan.tp, world_size=1, device="cpu")  # fmt: skip
    assert said.values[0].startswith("refused: Check batch related parameters")


@needs.mark("accelerate")
def test_accelerate_tells_its_ranks_the_same():
    plan = Plan(dp=8, tp=8, zero=2, recompute="full", sequence=False)
    told = WRITERS.accelerate(plan, job()).text
    (said,) = launch(BACK.accelerate_says, told, world_size=1, device="cpu").values
    expected = {"FSDP_VERSION": "2", "FSDP_RESHARD_AFTER_FORWARD": "false",
                "FSDP_ACTIVATION_CHECKPOINTING": "true", "PARALLELISM_CONFIG_DP_SHARD_SIZE": "8",
                "PARALLELISM_CONFIG_TP_SIZE": "8", "PARALLELISM_CONFIG_CP_SIZE": "1"}  # fmt: skip
    assert expected.items() <= said.items()


# ---- FSDP2, and what documents print --------------------------------------------------------


@parametrize(
    "plan",
    [Plan(dp=2, tp=2, zero=3, micro_batch=2, recompute="full", sequence=False),
     Plan(dp=2, zero=2, micro_batch=2)],
    ids=str, quick=1)  # fmt: skip
def test_a_program_for_fsdp2_trains_as_one_process(plan):
    text = LANGUAGE.standard_library(20_000)
    program = FSDP2.fsdp2(plan, 8, **FSDP2.EXACTLY)
    run = launch(FSDP2.compare_with_one_process, program, text, world_size=plan.ranks, device="cpu")
    assert max(run.values) < 1e-12


def step_of_program(program, samples, target):
    step = FSDP2.execute_program(program, FSDP2.whole_model())["step"]
    batch = torch.zeros(samples, 32, dtype=torch.int64)
    step(batch, batch.index_fill(1, torch.tensor([3]), target))


@pytest.mark.parametrize(("samples", "target"), [(16, 0), (8, -100)])
def test_a_program_for_fsdp2_refuses_a_batch_that_it_would_weigh_wrongly(samples, target):
    program = FSDP2.fsdp2(Plan(dp=2, zero=2, micro_batch=2), 8, **FSDP2.EXACTLY)
    with pytest.raises(RankError, match="a step takes 8 samples, and no target is ignored"):
        launch(step_of_program, program, samples, target, world_size=2, device="cpu")


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [(Plan(dp=2, zero=1), "take ZeRO 2 or 3"), (Plan(dp=2, pp=2, zero=3), "come from elsewhere"),
     (Plan(dp=3, zero=3), "does not divide the batch of 8")],
)  # fmt: skip
def test_what_fsdp2_does_not_express(plan, sentence):
    with pytest.raises(ValueError, match=sentence):
        FSDP2.fsdp2(plan, 8)


@pytest.mark.parametrize("field", ["ep", "replicas", "recomputed", "precision"])
def test_a_program_for_fsdp2_says_what_it_does_not_have(field):
    other = {"ep": 2, "replicas": 2, "recomputed": 0.5, "precision": "fp8"}[field]
    with pytest.raises(ValueError, match=re.escape(CONFIGURATIONS.BEYOND[field])):
        FSDP2.fsdp2(Plan(dp=4, zero=3, **{field: other}), 8)


def test_comments_behind_backslashes():
    whole = re.sub(r" # .*", "", DOCUMENTS.MEGATRON)
    words, complaint = DOCUMENTS.parse_python_arguments(whole)
    assert len(words) == 17 and not complaint
    words, complaint = DOCUMENTS.parse_python_arguments(DOCUMENTS.MEGATRON)
    assert not words and "syntax error" in complaint
    words, _ = DOCUMENTS.parse_python_arguments(DOCUMENTS.MEGATRON.replace(" (NVLink)", ""))
    assert sum(word.startswith("--") for word in words) == 1
