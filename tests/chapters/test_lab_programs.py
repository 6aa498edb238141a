"""Labs with a `main` are programs: solved, they run under torchrun and say what they have found.

The others draw or film for parts, whose records show what they do.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from helpers import ROOT, environment, list_leftovers
from selection import parametrize

from coursekit.labs.unwritten import still_to_write

SAID = {
    "vocabulary_pipeline": ["gradients and loss of one process to 1e-12: True"],
    "vocabulary_schedules": ["keeps 4: bubble 26", "keeps 5: bubble 1"],
    "when_it_hangs": ["it left, rank 1: ", "barrier []", "another shape, rank 1: "],
    "across_machines": ["two levels", "dist.all_reduce         right"],
    "capstone": ["dp 2, micro-batch 1: loss 4.", "tp 2, micro-batch 16, bfloat16: loss 4."],
    "capstone_chaos": ["30 steps; losses as of one process, to"],
    "capstone_scores": ["plain: dp 8, micro-batch 2\n  predicted 3", "5.84 MB over a card"],
    "capstone_state": ["three steps with ZeRO 3, and three with tensor parallel: losses"],
    "chaos": ["40 steps; largest difference from an undisturbed run"],
    "calibration": ["predicted", "measured"],
    "call_costs": ["an all-reduce of 4 kB: 4.0 messages from each of 2 ranks", "128 of them: "],
    "checkpoints": ["weights differ by 0.0", "kept: step-000030, step-000040"],
    "collectives": ["dist.all_reduce right"],
    "cluster_tools": ["missing ranks: {1}", "sequence number: 7"],
    "collectives_called": ["in both ways: True", "all_gather_object    2 calls, sends "],
    "collectives_measured": ["all_reduce                 1.00", "0 to 1; 1 to 0"],
    "collectives_shown": ["reduce_scatter: after     | 3 0  | 0 3"],
    "advice": ["tp inside machines only: ", "cannot be told"],
    "advice_figures": ["that differ by 25 % or more: told right 9", "tp and pp"],
    "any_plan": ["ZeRO 3 × cp × tp on 2 ranks: loss 4."],
    "counted_over_ranks": ["tokens counted   gradients differ from one process by"],
    "calibrated_engines": ["FSDP: 139 runs\n", "any: ", "times as predicted"],
    "engine_errors": ["FSDP: 80 % took 0.", "any: 80 % took "],
    "cost_model": ["activations 2", "total 4"],
    "cost_seconds": ["compute 13.", "bubble 0.9"],
    "configurations": ["--sequence-parallel", '"stage": 3'],
    "data_parallel": ["in buckets, meanwhile", "DistributedDataParallel"],
    "ddp_options": ["start not made equal, weight decay   apart after 1 and 50 steps"],
    "decoding": ["\n2 ranks: ", "tokens per second"],
    "diloco": ["loss on test images, after each round: 2"],
    "documents_configurations": ["bash gives 0 words to python", "bash gives 7 words"],
    "engine_options": ["Megatron-LM: ", "nanotron: "],
    "equal_replicas": ["all three", "no own samples           distance from one process"],
    "emulated_data_parallel": ["as one process to 1e-12: True"],
    "exam": ["bytes over dp   differs", "losses          as last week"],
    "faults": ["nothing              loss 1.", "momentum lost        loss 1."],
    "exam_training": ["21 steps: loss 3.9"],
    "experts": ["alone: loss 2", "with the bias: loss 2"],
    "expert_engines": ["of PyTorch's parts: as one process to"],
    "expert_nodes": ["any of 4 nodes: loss 2.", "at most 1 of 4 nodes: loss 2."],
    "expert_training": ["loss 5.", "ms a step"],
    "folded_experts": ["edp 1 × ep 2 × etp 1: ", "experts of 64 columns", "of 128 columns"],
    "narrow_dispatch": ["float32: 1,03", "MXFP8: 388,"],
    "overlapped_experts": ["two halves in turns: ", "ms a step, of which rank 0 waited"],
    "fewer_bytes": ["PowerSGD, r = 1   loss", "DiLoCo            loss"],
    "finding_out": ["wrong weights on rank 1: has other weights, ranks [0, 1], after 1 steps"],
    "folder_store": ["came: [0, 1]; in the group that they formed, ones add up to 2"],
    "fsdp2_program": ["FSDP2 on 2 ranks equals one process: True"],
    "gradient_accumulation": ["of the test images right"],
    "gradient_sync_visualizer": ["0.weight   after   rank 1", "bucket 1:", "all in one"],
    "grouped_schedules": ["(7, 3): loss and gradients of one process to 1e-12: True"],
    "halving_doubling": ["halving_doubling  right", "8.00 MB         2"],
    "head_norms": ["with the sum: loss 5.12 to 2.76, copies 0 apart"],
    "how_often": ["cost, measured", "   6 steps"],
    "keep_training": ["meetings: 2 ranks go on from step 0, 2 ranks go on from step 20"],
    "language_model": ["step 200", "def "],
    "linear_attention": ["2 ranks: equal to one process to 1e-12: True"],
    "long_contexts": ["ring: loss 4.", "by heads: loss 4.", "all keys: loss 4."],
    "memory": ["float32, blocks recomputed: loss", "bfloat16, masters in float32: loss"],
    "memory_copies": ["a rank came back with nothing; all went on from step 20"],
    "gpus": ["GB300        2500   5000  15000 TFLOP/s", "279 GB, 72 in a machine"],
    "model_configs": ["46,702,792,704 parameters, of which a token uses 12,879,925,248"],
    "model_modules": ["32 blocks of 201,326,592 numbers in matrices and 53,248 others"],
    "own_clusters": ['gpu = "H100"', "rail=256, spine=6250000000.0"],
    "own_models": ["llama-3-70b: 70,553,706,496 parameters"],
    "model_shapes": ["llama-3-405b      405.85 billion parameters"],
    "large_batches": ["batch   32: loss after 12 passes, constant 0.0"],
    "live_plans": ["predicted", "measured"],
    "roofline": ["GB/s", "FLOPs a byte"],
    "serving": ["tp | users", "8 | 518"],
    "operator_shardings": ["ms, columns, rows, samples", "ms, samples, samples, samples"],
    "plan_space": ["6 cuts and tilings; the shortest step"],
    "practices": ["7B on 8 V100, offloaded: ", "update 1.", "without offload: "],
    "planner": ["a step | 80 % of runs", "GPU-hours", "too large for the memory"],
    "published_figures": [
        "dp 8 × cp 16: predicted 351 TFLOP/s, published 380",
        "1008.0 billion parameters",
    ],
    "published_runs": ["nanotron: seconds median", "out of memory or not: right for 9"],
    "more_configurations": ["nanotron: possible", "torchtitan: it shards gradients"],
    "read_configurations": ["Megatron-LM: the same plan: True"],
    "message_costs": ["a message: ", "an all-reduce of 4 kB: "],
    "meshes": ["rank 1: dp 0, sum of the group's ranks 1; pp 0, sum of the group's ranks 1; tp 1"],
    "old_gradients": ["2 updates old: largest stable rate 0.62, formula 0.62"],
    "overlap": ["communication afterwards: ", "communication meanwhile: "],
    "overlapped_blocks": ["messages of 1.5:"],
    "parameter_server": ["BSP: ", "mean staleness 0.0, loss", "ASP: "],
    "pipedream": ["stashing: loss", "1 updates late, 2 versions"],
    "pipeline_engines": ["ours, DualPipeV: loss", "PyTorch's, ZB-V: loss"],
    "pipeline_parallel": ["2 stages, 1F1B: loss", "at most 2 micro-batches kept, 263 kB sent"],
    "rank_traces": ["trace 0: computes for ", " are exposed"],
    "restart": ["steps read: 0; taken on 2 ranks: 60; test loss 0.3"],
    "compiled_ddp": ["optimize_ddp=True: 8 graphs", "optimize_ddp=False: 1 graphs"],
    "scaling": ["arithmetic", "samples: ", "for its all-reduce"],
    "schedules": ["1F1B, 4 ranks", "rank 2:  F0 F1 B0 F2 B1"],
    "sequence_parallel": ["overlapped: loss", "sequence parallel, gathered again: loss"],
    "sequence_slices": ["8 slices: loss 4.915423, in one process 4.915423"],
    "sharded_dimensions": ["ZeRO 3 × TP on 2 ranks: loss 4."],
    "sharded_stages": ["breadth-first: weights of one process to 1e-12: True"],
    "sharding_engines": ["ours, stage 3", "FSDP2, 2 halves"],
    "sharded_checkpoints": ["pipeline         weights differ by 0.0", "ZeRO-3           weights"],
    "simple_ddp": ["to DistributedDataParallel's weights", "; communication adds"],
    "loss_spikes": ["roll back: highest loss 0.", "alarms 1, steps computed 135"],
    "silent_corruption": ["weight: replicas in step 24", "software: nothing finds it"],
    "small_alpa": ["12 layers on 64 devices", "  layers 0-"],
    "start_here": ["RANK 1 WORLD_SIZE 2 SUM 1"],
    "tensor_zero": ["copies: 1, parts: 2, ZeRO stage 3: a rank has 0.5"],
    "tensor_zero_alone": ["ZeRO stage 3 with sequence, clipped", ": equals one process"],
    "tensor_engines": ["\nDTensor: loss", "DTensor, sequence parallel: loss"],
    "tensor_parallel": ["one process: loss", "251 kB of parameters on a rank"],
    "told_to_stop": ["steps in each life: 8 20"],
    "passing_signals": [
        "SIGTERM - the ranks hear [['SIGTERM'], ['SIGTERM']]",
        "SIGUSR1 - the ranks hear [[], []] - left without an agent: 2",
    ],
    "resumable_data": ["72 samples in two lives; each once: True"],
    "threads_and_processes": ["python_work: ", "torch_work: "],
    "three_dimensions": ["dp 1 × pp 1 × tp 2: loss 4."],
    "three_engines": ["by hand: loss 3.6", "PyTorch's: loss 3.6"],
    "torchft_engine": ["torchrun"],
    "two_houses": ["the slides print y 5.249, exactly 5.24971"],
    "train_anywhere": ["2 + 2 epochs; from 4 in one go, weights differ by 0.0"],
    "train_ddp": ["epoch 6: loss 0."],
    "uneven_stages": ["uneven stages on 2 ranks: loss "],
    "uneven_runs": ["uneven stages on 2 ranks: as one process to 1e-12: True"],
    "watch_loops": ["rank 1 reads epoch 0: 0 1 2 3 4 5 6 7   epoch 1: 0"],
    "worth_of_bytes": ["all-reduce: best rate 0.", "local SGD: best rate 0."],
    "zero": [
        "1.00 models sent; at most parameters 1.00",
        "1.50 models sent; at most parameters 0.",
    ],
    "zero_on_disk": ["with a checkpoint after the tenth"],
    "half_precision": ["autocast: at most parameters", "bfloat16 alone: at most"],
    "matrix_optimizers": ["Adafactor: ", "bytes of state, loss"],
    "narrow_collectives": ["MXFP8: off by 2.", "MXFP8, a ring that rounds each sum: off by "],
    "narrow_formats": ["E4M3, per tensor: output, gradient of the input", "NVFP4 (E2M1): output"],
    "narrow_training": ["bfloat16: loss 2.", "E4M3, not scaled: loss ", "MXFP8 (E4M3): loss "],
    "small_states": ["float32: 184,064 bytes of state, loss", "8 bits, roots: 46,800 bytes"],
    "kept_tensors": [
        "mlp.1                      keeps  4.00 times the block's input",
        "norm_1                     keeps  2.02 times the block's input",
    ],
    "llama": ["Transformer ", "Llama       ", " parameters, loss 2."],
    "large_vocabulary": ["all at once      at most", "32 positions     at most"],
    "recompute_budget": ["budget 75%: recompute [1, 3], greedily [0, 1]"],
    "offloading": ["everything moved: ", "activations moved once: "],
    "recomputation": ["blocks, not reentrant  activations", "the same gradients: True"],
    "what_fits": ["ZeRO 3, recomputed   told", "Llama 2 7B in 40 GB: 4 GPUs"],
    "zero_runs": ["DDP: 1.00 models sent", "stage 3: 1.50 models sent"],
    "whole_tensors": ["flat: 6 collectives", "busiest rank 1.0"],
    "muon_on_shards": ["Muon on a flat vector, 2 ranks: loss 5."],
    "muon_measured": ["flat: as one process to 1e-10: True", "by owner: as one process to 1e-10"],
    "muon_pieces": ["fused: loss ", "blockwise on 4: loss "],
    "trust_ratios": ["batch 256, SGD: best rate", "batch 256, LAMB: best rate"],
    "weight_remainders": ["masters in float32: loss", "means in bfloat16: loss"],
    "complete_gradients": ["recomputed, reentrant: at each call of its hook"],
    "composing": ["stage 2, bytes for each parameter: parameters 2.", "gradients 1.00"],
    "composed_alone": ["stage 3 with mixed precision, recomputation", "equals one process"],
    "resharding": ["resumed from the files of"],
    "engines_compared": ["DDP: sent 1.0", "FSDP2: sent 2.00, by textbook 1.50"],
    "flat_parameters": ["FSDP2: 4 reduce-scatters of 1.0 times", "use_orig_params: 4 reduce-"],
    "fsdp2_recipe": ["2 ranks equal one process: True", "DDP, float32: 4.00 bytes"],
    "fsdp2_options": ["reduced once, units stay: 2.32 models", "False: 1.00 among 2"],
    "pretrained_shards": ["every rank reads its part: as in the files: True"],
    "recompiling_ranks": ["guard collectives True: graphs 2 and 2, rank 0: done"],
    "compiled_fsdp2": [
        "recompute, compile, shard: 1 graphs",
        "shard, recompute, compile: 0 graphs",
    ],
    "prefetch": ["1 layers in a unit, 0 ahead: ", "6 layers in a unit, 2 ahead: "],
    "recipe_symptoms": ["7 all-gathers"],
    "stage_costs": ["stage 2: models sent 1.0", "stage 3: models sent 1.5"],
    "train_fsdp2": ["step 12: loss 3."],
    "async_products": ["waiting: ", "meanwhile: "],
    "decoding_measured": ["the same text as one process: True"],
    "model_in_parts": [
        "recomputation: gradients of one process: True",
        "clipping: gradients of one process: True",
    ],
    "tensor_autocast": ["autocast True: error 0.00"],
    "replicated_heads": ["rank 1: query heads [2, 3], key-value head 0, as one process: True"],
    "sequence_measured": ["gathered again: {'gradients': True, 'norm': True}"],
    "tensor_measured": ["pair: ", "rows first: "],
    "tensor_symptoms": ["rank 1 off by"],
    "wide": ["a step with its sums in two channels: "],
    "dropout_recomputed": ["NoStateStage     dropout 0.5: outputs differ by 0%, gradients by 9"],
    "emulated_pipelines": ["GPipe  idle 25.0% simulated"],
    "messages_that_cross": ["a batch, each in turn: received [1.0, 0.0]"],
    "micro_batch_sizes": ["micro-batches of 32 samples: a step takes"],
    "pipelines_autocast": ["largest error of a gradient against one process: 0.0e+00"],
    "pipelines_measured": ["1F1B   3 micro-batches: gradients of one process True"],
    "slices_measured": ["both ways False True", "loss, as at once, gradients as at once: 8 4."],
    "composed_pipelines": ["2 stages, ZeRO stage 1, clipped: loss 4."],
    "late_gradients": ["two versions, rate 0.1: loss at the end, of two seeds"],
    "pipelines_alone": [
        "ZB-V ZeRO 1 | as one process: True",
        "ZB-H1 ZeRO 2 | ZeRO stage 2 reduces",
    ],
    "pipeline_balance": ["even: [3, 3] layers, the slowest stage 5"],
    "placed_pipelines": [
        "ZB-V: gradients of one process to 1e-12: True",
        "DualPipe: gradients of one process to 1e-12: True",
    ],
    "zero_bubbles": [
        "ZB-V         a step 25.5, each further one 24, idle 5.9%, keeps 4",
        "DualPipe     a step 26, each further one 26, idle 7.7%, keeps 5",
    ],
}


DEEP = pytest.mark.deep  # left to `make test-all`
OFTEN = ["schedules"]  # chapter 00 starts torchrun, too
HERE = Path(__file__)
PROGRAMS = [path for path in sorted((ROOT / "solutions" / "labs").glob("*.py"))
            if "\ndef main(" in path.read_text()]  # fmt: skip
ALONE = [
    "exam_training",  # takes four ranks, as faults and exam do
    "faults",
    "exam",
    "small_states",  # counts the states of all optimizers, and engines' outlive their programs
    "language_model",
    "schedules",
    "gpus",
    "model_shapes",
    "model_configs",
    "model_modules",
    "own_models",
    "cost_model",
    "cost_seconds",
    "planner",
    "published_runs",
    "published_figures",
    "operator_shardings",
    "small_alpa",
    "plan_space",
    "configurations",
    "more_configurations",
    "read_configurations",
    "engine_options",
    "documents_configurations",
    "live_plans",
    "calibration",
    "capstone_scores",
    "roofline",
    "serving",
    "advice",
    "advice_figures",
    "practices",
    "two_houses",
    "overlap",
    "large_batches",
    "old_gradients",
    "kept_tensors",
    "llama",
    "what_fits",
    "complete_gradients",
    "prefetch",
    "fsdp2_recipe",
    "pretrained_shards",
    "recompiling_ranks",
    "async_products",
    "emulated_pipelines",
    "dropout_recomputed",
    "messages_that_cross",
    "slices_measured",
    "expert_nodes",
    "zero_bubbles",
    "passing_signals",  # starts torchrun itself
]
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def run(*command):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, *map(str, command)],
                              env=environment(OMP_NUM_THREADS="1", TMPDIR=folder), timeout=400,
                              capture_output=True, text=True, check=False)  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        # torchrun itself keeps its folder of logs.
        assert not list_leftovers(Path(folder), but=("torchinductor_", "torchelastic_"))
    return done.stdout


@pytest.fixture(scope="module")
def torchrun_outputs(request) -> dict[str, str]:
    """What each lab has said under torchrun; those that are tried share one start of it."""
    items = [item for item in request.session.items if item.path == HERE]
    tried = {item.callspec.params.get("path") for item in items if hasattr(item, "callspec")}
    paths = [path for path in PROGRAMS if path in tried and share_a_start(path)]
    paths.sort(key=forms_a_group)  # these come last
    parts = run(*TORCHRUN, ROOT / "tests" / "support" / "programs.py", *paths).split("\n=== ")[1:]
    return {Path(part.partition("\n")[0]).stem: part.partition("\n")[2] for part in parts}


def forms_a_group(path) -> bool:
    """Return whether a program makes its own process group, whose store ends with it."""
    return any(call in path.read_text() for call in ("Crew(", "init_process_group("))


def share_a_start(path) -> bool:
    # Engines with hooks outlive their program, and these two measure memory.
    return "launch(" in path.read_text() and path.stem not in ("zero", "composing", *ALONE)


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[DEEP] * (path.stem not in OFTEN))
        for path in PROGRAMS
    ],
)
def test_a_solved_lab_under_torchrun(path, request):
    if path.stem in ALONE:
        said = run(path)
    elif not share_a_start(path):
        said = run(*TORCHRUN, path)
    else:
        said = request.getfixturevalue("torchrun_outputs")[path.stem]
    for phrase in SAID[path.stem]:
        assert phrase in said


def test_each_program_is_known_and_what_it_says():
    assert {path.stem for path in PROGRAMS} == SAID.keys()


# Each names what is missing where it would stand: in a table, or beside what is there.
THEMSELVES = {
    "across_machines", "collectives", "data_parallel", "gradient_accumulation", "halving_doubling",
    "schedules", "simple_ddp",
}  # fmt: skip


GUARDED = sorted(p.stem for p in PROGRAMS if "misses_something(__file__)" in p.read_text())


def test_no_lab_measures_what_is_not_written():
    unwritten = {p.stem for p in (ROOT / "labs").glob("*.py") if still_to_write(p)}
    unguarded = unwritten - {*GUARDED}
    new, gone = sorted(unguarded - THEMSELVES), sorted(THEMSELVES - unguarded)
    assert not new, f"begin main() with `if misses_something(__file__): return` in {new}"
    assert not gone, f"remove {gone} from THEMSELVES: they have no hole, or misses_something()"


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=DEEP) for name in sorted(THEMSELVES)])
def test_a_lab_that_runs_with_holes_names_them(name):
    said = run(ROOT / "labs" / f"{name}.py")
    assert "not yet" in said or "still to be written" in said


@pytest.mark.slow
@parametrize("name", GUARDED, quick=1)
def test_a_lab_with_holes_says_what_is_missing(name):
    path = ROOT / "labs" / f"{name}.py"
    if not still_to_write(path):
        pytest.skip("it is whole: it comes to no hole")
    assert "still to be written" in run(path)
