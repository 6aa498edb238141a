# %% [markdown]
# # {{title}}
#
# **A plan is a row of numbers. What do you type to start it?** Here a plan becomes the command line
# of Megatron-LM and the files of DeepSpeed, torchtitan, accelerate and nanotron, and a program for
# FSDP2. The lab reads its own files back. DeepSpeed's parser and accelerate's launcher read theirs,
# if they are installed. The program for FSDP2 trains.

# %% [markdown]
# ![Bars: how many of the planner's fastest plans each of five engines can
# express](../assets/covers/10e_from_plan_to_configuration.png)
#
# *Computed in section 1: of the planner's fastest plans, how many each engine can express.*
#
# **After this part you can** write a plan as an engine wants it, see which plans an engine cannot
# express, and find mistakes in a configuration before they cost GPU-hours.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
from collections import Counter
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import fully_shard

from pedagogy_lib import (
    Table, check, hint, lab, launch, plot_bars, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
model_name = "llama-3-70b"
gpus = "64xH100"
batch = 512
looked_at = 40  # of the fastest plans

# %% [markdown]
# ## 1 · One plan, five engines
#
# The five engines are Megatron-LM, DeepSpeed, torchtitan, accelerate and nanotron. The planner of
# this chapter finds the fastest plan that fits, by its cost model. Here are its three fastest
# for a model of 70 billion parameters on 64 GPUs. A plan is a `Plan` of `labs/cost_model.py`: ranks
# along dp, tp, pp, cp and ep, the stage of ZeRO and its replicas, the micro-batch, what is
# recomputed and in which share of the layers, chunks of a stage, sequence parallelism, and the
# precision of products.

# %% tags=["nbval-ignore-output"]
cost, planner = lab("cost_model"), lab("planner")
writers, back = lab("more_configurations"), lab("read_configurations")
planned = planner.plan(model_name, gpus, batch=batch)
job, best = planned.job, planned.best(looked_at)
Table(planner.HEADS, [planner.row_of(choice) for choice in best[:3]])

# %% [markdown]
# No engine can start from such a row. Megatron-LM wants a command line. The lab writes it: first
# the options of the plan, then the model's shape. In a terminal,
# `python -m pedagogy_lib plan --model llama-3-70b --gpus 64xH100 --batch 512 --write megatron-lm`
# prints it, too.

# %% tags=["nbval-ignore-output"]
print(writers.megatron(best[0].plan, job).text)

# %% [markdown]
# Four things are easy to miss. There is no option for dp: Megatron-LM divides the number of ranks
# by tp × pp × cp. ZeRO 1 has the name `--use-distributed-optimizer`. Along dp, nothing is hidden
# without the two `--overlap-` options. And where tp or cp is more than 1, an environment variable
# stands in front: Megatron-LM asks for it on GPUs up to the H100.
#
# You add what the plan and the shape do not know: data, the tokenizer, the learning rate, and the
# base of the rotary angles (`--rotary-base 500000` for Llama 3). The line runs on each machine;
# `$HEAD` is the machine where all of them meet. Megatron-LM's dropout is 0.1 by default, and Llama
# has none.

# %% [markdown]
# ### Exercise {{megatron_arguments}} · Translate a plan into Megatron options
#
# Write `megatron_arguments(plan, batch, layers)` in
# [labs/configurations.py](../labs/configurations.py). It returns a dict of options and values. Five
# options are always there:
#
# | option | value |
# |---|---|
# | `--tensor-model-parallel-size` | `plan.tp` |
# | `--pipeline-model-parallel-size` | `plan.pp` |
# | `--context-parallel-size` | `plan.cp` |
# | `--micro-batch-size` | samples of one micro-batch |
# | `--global-batch-size` | samples of a whole step: `batch` |
#
# With dp 1, tp 2, pp 1, cp 1, micro-batch 1 and a batch of 8, they are 2, 1, 1, 1 and 8.

# %% [markdown]
# Others are there only if wanted. A switch has the value `True`:
#
# * `--sequence-parallel`: a switch, if `plan.sequence` is true and there is tp.
# * `--use-distributed-optimizer`: a switch, for ZeRO 1. `plan.zero` is 0 or 1 here.
# * `--num-layers-per-virtual-pipeline-stage`: layers of a chunk. Each of the pp stages has
#   `plan.chunks` chunks, and everything divides. Only for more than one chunk.
# * `--recompute-granularity`: `plan.recompute` if it is `"selective"` or `"full"`, and not
#   `"none"`. With `"full"` come `--recompute-method`, which is `"uniform"`, and
#   `--recompute-num-layers`, which is 1.
#
# For 8 layers on pp 2 with 2 chunks, a chunk has 8 / (2 · 2) = 2 layers. Let the example above have
# ZeRO 0, one chunk, `sequence` true, nothing recomputed: its dict has the five options and
# `"--sequence-parallel": True`.

# %%
check("{{megatron_arguments}}")

# %% [markdown]
# The lab writes the other files in the same way. You complete them, too. accelerate's YAML needs
# `machine_rank` on each machine, and `main_process_ip` and `main_process_port`. And your program
# has to load a model with a `tp_plan`, and to step inside `maybe_context_parallel`: without, all
# ranks along tp or cp compute the same, and no error says so. nanotron's YAML has
# its default `rope_theta`, 10,000, where Llama 3 has 500,000.
#
# If an engine cannot express a plan, the lab refuses, and tells the first reason that it finds.
# Here are its answers for one plan of 64 ranks and all five engines. *accelerate* means accelerate
# with FSDP2: it can start other engines, too.

# %%
shape_of = lab("model_shapes").model_named
gpu = lab("model_shapes").gpu_named("H100")
Plan, large = back.Plan, cost.Job(shape_of("llama-3-70b"), gpu, 512)
example = Plan(dp=2, tp=4, pp=8, zero=1)
for engine, told in writers.answers(example, large).items():
    print(told if isinstance(told, str) else f"{engine}: possible")

# %% [markdown]
# DeepSpeed's JSON alone makes no stages: a program does, with `PipelineModule`. With tp as well,
# the program has to cut the model itself, as Megatron-DeepSpeed does (part
# [10c](10c_published_runs.ipynb)). We count only what DeepSpeed cuts by itself. Then five rules
# hold:
#
# * no tp together with a pipeline,
# * no sequence parallelism, which each plan of the planner with tp has,
# * no ring for long contexts: cp is 1,
# * no interleaved pipeline: one chunk a stage,
# * no replicas of shards, and all layers recomputed or none.
#
# How many of the planner's fastest plans can DeepSpeed express? The list has one plan, the fastest,
# for each mesh and stage of ZeRO.

# %%
possible = predict(f"Of the planner's {len(best)} fastest plans, DeepSpeed can express",
                   unit="plans")

# %%
told = {choice.plan: writers.answers(choice.plan, job) for choice in best}
counts = {engine: sum(not isinstance(answer[engine], str) for answer in told.values())
          for engine in writers.WRITERS}

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, a count by the five rules of the text, and the plans that the lab has written.
by_rules = sum(not (p.tp > 1 and (p.pp > 1 or p.sequence))
               and p.cp == p.chunks == p.replicas == p.recomputed == 1 for p in told)
possible.compare(by_rules, counts["DeepSpeed"], kind="parameters", wire="counted")

# %% tags=["cover", "nbval-ignore-output"]
display(plot_bars(
    list(map(writers.display_name, counts)), {"can be expressed": list(counts.values())},
    f"plans, of the {len(told)} fastest", title=f"{model_name} on {gpus}, {batch} samples"))
reasons = Counter(answer for of_plan in told.values() for answer in of_plan.values()
                  if isinstance(answer, str))
Table(["refused", "plans"], reasons.most_common(8))

# %% [markdown]
# So choose the engine before the plan, or tell the planner what your engine can do. The table
# counts first reasons: others may hold as well. And a refused plan may have a neighbour that the
# engine can express. DeepSpeed and accelerate cut along tp without sequence parallelism: that is
# another plan, which needs more memory. The planner itself leaves out ZeRO 2 and 3 in a pipeline,
# "which gather or reduce for each micro-batch". torchtitan can run such plans.
#
# **Where the options come from.** Megatron-LM core_v0.19.0, August 2026; DeepSpeed 0.19.8;
# torchtitan 0.2.2, February 2026, the last one with TOML (its later configurations are Python);
# accelerate 1.15.0; nanotron, a commit of April 2026. The lab `engine_options` has the files.

# %% [markdown]
# ## 2 · DeepSpeed's three numbers
#
# DeepSpeed does not start if its three numbers break this rule:
#
# $$\text{train batch} = \text{micro-batch} \cdot \text{accumulation steps} \cdot \text{copies}$$
#
# The *train batch* is the number of samples in a step. The *micro-batch* is how many samples go
# through the model at a time on one rank. *Accumulation steps* are how many micro-batches each copy
# goes through in a step. There are dp copies: ranks along pp are no copies. But with `autotp_size`,
# DeepSpeed 0.19.8 counts the ranks along tp, too, although they get the same samples. So the lab
# writes tp times the batch.

# %% [markdown]
# ### Exercise {{complete_batch}} · Complete DeepSpeed's batch settings
#
# Write `complete_batch(config, copies)`. `config` is a dict with some of the three `NAMES`, and
# nothing else; all its numbers are 1 or more. Return a dict with all three, as whole numbers.
#
# * What is missing follows from the rule.
# * If only one number is there, the accumulation steps are 1.
# * At least one of the two batch sizes has to be there.
# * If no whole numbers of 1 or more agree with all that is given, raise a `ValueError`.
#
# For a train batch of 16, a micro-batch of 4, and 2 copies, the accumulation steps are
# 16 / (4 · 2) = 2. For a train batch of 18, there are none.

# %%
NAMES = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")

def complete_batch(config, copies):
    ### BEGIN SOLUTION
    found = {key: config.get(key) for key in NAMES}
    train, micro, steps = found.values()
    if train is None and micro is None:
        raise ValueError("one of the batch sizes has to be there")
    if len(config) == 1:
        steps = 1
    if train is None:
        train = micro * steps * copies
    elif micro is None:
        micro = train // (steps * copies)
    elif steps is None:
        steps = train // (micro * copies)
    if train == 0 or micro * steps * copies != train:
        raise ValueError(f"{train} is not {micro} × {steps} × {copies}")
    return dict(zip(NAMES, (train, micro, steps)))
    ### END SOLUTION

check("{{complete_batch}}", complete_batch)

# %% [markdown]
# Now DeepSpeed's own parser. It gets what the lab writes for ZeRO 3 on 64 ranks, and some changes.
# (It is optional: `python3 tools/setup.py deepspeed` installs it.)

# %% tags=["nbval-ignore-output"]
sharded = Plan(dp=64, zero=3, recompute="full")
options = lab("engine_options")
written = options.READERS["DeepSpeed"](writers.deepspeed(sharded, large).text)
changes = {
    "as written": written,
    "accumulation steps 7": written | {"gradient_accumulation_steps": 7},
    "British: zero_optimisation": {
        name.replace("zation", "sation"): value for name, value in written.items()},
    "a letter wrong inside: stgae": written | {"zero_optimization": {"stgae": 3}},
}

def all_verdicts(back, configurations, copies):
    return [back.verdict_of_deepspeed(one, copies) for one in configurations]

if back.is_installed("deepspeed"):
    run = launch(all_verdicts, back, list(changes.values()), 64, world_size=1, device="cpu")
    for name, verdict in zip(changes, run.values[0]):
        print(f"{name}:\n    {verdict[:84]}")
else:
    print("DeepSpeed is not installed here.")

# %% [markdown]
# DeepSpeed 0.19.8 derives the same numbers as the plan. It refuses numbers that contradict each
# other. It notices a misspelt name inside of `zero_optimization`, but not at the top of the file:
# there it ignores a name that it does not know, and takes its default. One British letter turns
# ZeRO 3 into ZeRO 0: each rank would keep the whole model. Section 5 comes back to this.

# %% [markdown]
# ## 3 · And back
#
# A configuration that was changed by hand is a new plan. Which one? The lab's `plan_of` reads it.
# It finds the same plan again for everything that the lab writes:

# %%
PLANS = [
    Plan(dp=2, tp=4, pp=8, zero=1), Plan(dp=4, tp=2, pp=4, cp=2, zero=1, chunks=4),
    Plan(dp=64, zero=3, recompute="full"), Plan(dp=8, tp=8, zero=3, sequence=False),
    Plan(dp=16, cp=4, zero=2, micro_batch=2), Plan(dp=8, pp=8, zero=1, micro_batch=4),
    Plan(dp=64, zero=2, micro_batch=4), Plan(tp=8, pp=8, chunks=2, recompute="full"),
]
rows = []
for engine, write in writers.WRITERS.items():
    taken = [plan for plan in PLANS if not isinstance(writers.answers(plan, large)[engine], str)]
    same = [back.plan_of(write(plan, large)) == plan for plan in taken]
    rows.append([engine, f"{len(taken)} of {len(PLANS)}", all(same)])
Table(["engine", "plans it can express", "read back as the same plan"], rows)

# %% [markdown]
# Four more plans need options of their own. In the first one, stages are uneven: Megatron-LM gets a
# layout of the layers, torchtitan the layers of a stage and what the two ends lack. The others have
# experts, replicas of shards with half of the layers recomputed, and products in 8 bits. Which
# engines can express them?

# %%
def job_of(model):
    return cost.Job(shape_of(model), gpu, 512)

MORE = [(Plan(dp=4, tp=8, pp=16, zero=1), job_of("llama-3-405b")),
        (Plan(dp=16, tp=4, ep=16, zero=1), job_of("qwen-3-235b-a22b")),
        (Plan(dp=64, zero=3, replicas=8, recompute="full", recomputed=0.5), large),
        (Plan(dp=64, zero=3, precision="fp8"), large)]
rows = []
for plan, of in MORE:
    told = {engine: one for engine, one in writers.answers(plan, of).items()
            if not isinstance(one, str)}
    same = all(back.plan_of(one) == plan for one in told.values())
    rows.append([planner.describe_plan(plan), ", ".join(told), same])
display(Table(["plan", "engines that can express it", "read back as the same plan"], rows))
print(options.options_of("Megatron-LM", writers.megatron(*MORE[0]).text)[
    "--pipeline-model-parallel-layout"])

# %% [markdown]
# In the layout, E is the embedding, t a layer, and L the loss: the first and the last stage have a
# layer less, as Llama 3's had (09g). torchtitan has no ZeRO 1, so it cannot express this plan.
#
# Does a plan that was read back still train the model? The planner's fastest plan and two others
# are written, read back, and made smaller. The axes stay, and each of them gets two ranks at most.
# Then the small plan trains the small transformer of chapter 09 on real ranks, beside one process,
# in float64.

# %%
any_plan, text = lab("any_plan"), lab("language_model").standard_library(20_000)
trained = {"Megatron-LM": best[0].plan, "nanotron": example, "torchtitan": PLANS[4]}
for engine, plan in trained.items():
    again = back.plan_of(writers.WRITERS[engine](plan, job if plan == best[0].plan else large))
    small = back.smaller(again)
    run = launch(
        any_plan.compare_with_one_process, small, text, world_size=small.ranks, device="cpu"
    )
    print(f"{engine}: as one process to 1e-12: {max(run.values) < 1e-12}")

# %% [markdown]
# So the lab's reader undoes the lab's writer, and the plans that it finds train. Only the engine's
# own parser can tell whether the engine reads the same plan. Section 2 has asked DeepSpeed's
# parser. One difference is known: nanotron shares out the layers by their cost, and counts the
# output as well, says its source. So its pp 8 need not mean 10 of 80 layers on each stage. And no
# engine has trained so far. FSDP2 does, in the next section.

# %% [markdown]
# ## 4 · A program for FSDP2
#
# PyTorch's FSDP2 has no file: the plan becomes a program. This is dp 2 × tp 2 with ZeRO 3, and
# everything recomputed, for a step of 8 samples:

# %%
fsdp2 = lab("fsdp2_program")
on_four = Plan(dp=2, tp=2, zero=3, micro_batch=2, recompute="full", sequence=False)
print(fsdp2.fsdp2(on_four, 8))

# %% [markdown]
# The order matters: cut along tp, wrap for recomputation, shard each block, shard what is left,
# and only then make the optimizer. Does the program equal one process? The lab runs this text on
# four ranks. To compare to the last digit, float64 stands in the place of bfloat16:

# %%
for plan in (on_four, Plan(dp=4, zero=2), Plan(dp=2, zero=3, micro_batch=4)):
    program = fsdp2.fsdp2(plan, 8, **fsdp2.EXACTLY)
    run = launch(fsdp2.compare_with_one_process, program, text, world_size=plan.ranks, device="cpu")
    print(f"dp {plan.dp} × tp {plan.tp}, ZeRO {plan.zero}: as one process to 1e-12: "
          f"{max(run.values) < 1e-12}")

# %% tags=["nbval-ignore-output"]
run = launch(fsdp2.compare_with_one_process, fsdp2.fsdp2(on_four, 8), text, 3, 8, torch.float32,
             world_size=4, device="cpu")
print(f"in bfloat16, as it is written: off by {max(run.values):.3f} of the largest weight")

# %% [markdown]
# ### Exercise {{shard}} · Debug a loss that never falls
#
# A colleague has followed a blog and written `shard`. Nothing fails. Here are the losses of four
# steps with the same batch, on 2 ranks:

# %%
def shard(model, make_optimizer, mesh):
    ### BEGIN SOLUTION
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return make_optimizer(model.parameters())
    ### IT WAS
    # optimizer = make_optimizer(model.parameters())
    # for block in model.blocks:
    #     fully_shard(block, mesh=mesh)
    # fully_shard(model, mesh=mesh)
    # return optimizer
    ### END SOLUTION

# %%
run = launch(fsdp2.losses_with, shard, text, world_size=2, device="cpu")
print("your function:", *(f"{loss:.3f}" for loss in run.values[0]))
run = launch(fsdp2.losses_with, fsdp2.optimizer_first, text, world_size=2, device="cpu")
print("the colleague's:", *(f"{loss:.3f}" for loss in run.values[0]))

# %% [markdown]
# Mend `shard`. It gets `model`, whose `model.blocks` are the units; `make_optimizer`, a function
# that takes parameters and returns an optimizer; and `mesh`, a device mesh of one axis, whose ranks
# share out the parameters. It makes each block a unit of FSDP2, and the whole model one more for
# what is left. It returns the optimizer. Then the losses and weights equal those of one process
# that averages over the batches of all ranks of `mesh`.

# %%
check("{{shard}}", shard)

# %% [markdown]
# `fully_shard` puts new parameters into the model: the shards. The colleague's optimizer still
# holds the old ones. These get no gradients, and an optimizer passes over parameters without
# gradients. So it changes nothing, and raises nothing.

# %% [markdown]
# ## 5 · One letter wrong
#
# A misspelt option is a cheap mistake if somebody notices it, and an expensive one otherwise. The
# lab knows the options that it writes. It finds a wrong letter in the file of each of the five
# engines:

# %%
LETTERS = {"Megatron-LM": ("use-distributed", "use-distribute"),
           "DeepSpeed": ("train_micro", "train_mirco"),
           "torchtitan": ("shard_degree", "shard_dgree"),
           "accelerate": ("fsdp_version", "fsdp_versoin"), "nanotron": ("zero_stage", "zero_stgae")}
for engine, (right, wrong) in LETTERS.items():
    plan = example if engine in ("Megatron-LM", "nanotron") else sharded
    told = writers.WRITERS[engine](plan, large).text
    print(engine, options.unknown_options(engine, told),
          options.unknown_options(engine, told.replace(right, wrong)))

# %% [markdown]
# Does the engine itself notice? DeepSpeed did not notice a wrong letter at the top of its file
# (section 2). Here is what `accelerate launch` would tell its ranks. (accelerate is optional, too:
# `python3 tools/setup.py bench`.)

# %% tags=["nbval-ignore-output"]
def read_accelerate_plugin(back, texts):
    found = [back.accelerate_says(text) for text in texts]
    return [(one["FSDP_VERSION"], one["FSDP_ACTIVATION_CHECKPOINTING"]) for one in found]

if back.is_installed("accelerate"):
    told = writers.accelerate(sharded, large).text
    texts = [told, told.replace("fsdp_version", "fsdp_versoin"),
             told.replace("checkpointing", "checkpoiting")]
    run = launch(read_accelerate_plugin, back, texts, world_size=1, device="cpu")
    names = ("as written", "fsdp_versoin", "fsdp_activation_checkpoiting")
    for name, (version, is_recomputed) in zip(names, run.values[0]):
        print(f"{name}: FSDP version {version}, layers recomputed: {is_recomputed}")
else:
    print("accelerate is not installed here.")

# %%
for recompute in ("full", "none"):
    needed = cost.memory(large, replace(sharded, recompute=recompute))["total"] / 1e9
    print(f"recompute {recompute}: {needed:.0f} GB of {gpu.memory / 1e9:.0f} GB on each GPU")

# %% [markdown]
# accelerate 1.15.0 refuses an unknown name at the top of its file. Inside of `fsdp_config` its
# launcher ignores an unknown name. With `checkpoiting`, the ranks would recompute nothing, and by
# the cost model the plan no longer fits. With `fsdp_versoin`, the ranks are told FSDP 1.
# `Accelerator` then raises a `ValueError`, says its source: `parallelism_config` needs FSDP 2.
#
# What do other engines do with an unknown option? Megatron-LM's `argparse` refuses it, and so does
# Python for an argument of `fully_shard`. torchtitan 0.2.2 and nanotron refuse it, says their
# source. So let the engine print what it has understood, and check that print, not your file.

# %% [markdown]
# ## 6 · Configurations in our sources
#
# Part 09c has judged one command line for Megatron-LM: there is no option `--data-parallel-size`,
# and the model is not Llama. In its source, the line also has comments behind backslashes. What
# does a shell make of that? Bash runs the line here: first as it is printed, and then without the
# parentheses in its first comment. A function stands in the place of `python`, and prints what it
# gets.

# %%
documents = lab("documents_configurations")
meant, reached = documents.MEGATRON.count("--"), {}
for name, line in (("as printed", documents.MEGATRON),
                   ("without (NVLink)", documents.MEGATRON.replace(" (NVLink)", ""))):
    words, complaint = documents.parse_python_arguments(line)
    reached[name] = sum(word.startswith("--") for word in words)
    print(f"{name}: {reached[name]} of {meant} options reach python.",
          f"It is given\n  {words}" if words else f"Bash says: {complaint}", sep="\n  ")

# %% [markdown]
# A backslash continues a line only if the line ends right behind it. Here a space follows, and the
# backslash quotes it. So `#` begins no comment. For bash, the parentheses are then a mistake of
# syntax: it runs nothing. Without them, bash passes on the words of the comment, too. The command
# ends with its first line. The next line would be a program called
# `--pipeline-model-parallel-size`. Keep comments out of such lines. The same source has two files
# for DeepSpeed:

# %% tags=["nbval-ignore-output"]
for name, found in documents.DEEPSPEED.items():
    given = {key: found[key] for key in NAMES if key in found}
    unknown = [key for key in options.flat(found) if key not in options.KNOWN["DeepSpeed"]]
    print(f"{name}: batch sizes given: {len(given)}; unknown options: {len(unknown)}")

if back.is_installed("deepspeed"):
    of_page = list(documents.DEEPSPEED.values())
    run = launch(all_verdicts, back, of_page, 8, world_size=1, device="cpu")
    print(*(verdict[:88] for verdict in run.values[0]), sep="\n")

# %% [markdown]
# All options of both files exist, but neither file says how large a batch is. DeepSpeed 0.19.8
# refuses both, and its parser says so where it is installed. (Part 06h has measured what `"auto"`
# does.) And a slide shows FSDP with one call for the whole model, `FSDP(module)`. With FSDP2's
# `fully_shard`, the model is then one unit, and one all-gather brings all of it:

# %%
gathered = {}
for units in ("each block and the rest", "the model alone"):
    run = launch(fsdp2.one_step_in, units, text, world_size=2, device="cpu")
    gathered[units] = fsdp2.largest_gather(run)
more = gathered["the model alone"] / gathered["each block and the rest"]
for units, nbytes in gathered.items():
    print(f"{units}: the largest all-gather has {nbytes / 1e3:.0f} kB")

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true}
from torch.distributed.fsdp import ShardingStrategy

without = [name for name, found in documents.DEEPSPEED.items() if not set(NAMES) & set(found)]
named = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD")
exist = all(hasattr(ShardingStrategy, name) for name in named)
larger = cost.Job(shape_of("llama-3-405b"), gpu, 512)

def takers(plan, job):
    return " and ".join(engine for engine, answer in writers.answers(plan, job).items()
                        if not isinstance(answer, str))

# %% jupyter={"source_hidden": true}
put_to_the_test(f"""
- A JSON for ZeRO-3 in DeepSpeed, two versions | web page | {"incomplete" if without else "right"} |
  {len(without)} of {len(documents.DEEPSPEED)} have no batch size; DeepSpeed needs one (2 and 6)
- [C188] python train.py … --data-parallel-size 2 … trains Llama 70B on 64 H100 with Megatron-LM |
  web page, “Megatron-LM 3D Parallelism Configuration” |
  {"wrong" if reached["as printed"] < meant else "not refuted"} | as printed, with comments behind
  backslashes, bash passes on {reached["as printed"]} of {meant} options; without the parentheses in
  a comment, {reached["without (NVLink)"]} (section 6, run). Without comments, it names an option
  that does not exist, and a model that is not Llama (part 09c, section 4) | measured: nothing,
  since bash refuses the line before any GPU is used. That dp is derived says Megatron-LM's source
- FULL_SHARD is ZeRO-3, SHARD_GRAD_OP is ZeRO-2, NO_SHARD is like DDP | book chapter |
  {"right" if exist else "outdated"}, of FSDP 1 | the names exist; what they do is told by PyTorch's
  documentation; FSDP2 says reshard_after_forward=True for ZeRO-3, and False for ZeRO-2 (section 4),
  which gathers once for each micro-batch, where the cost model counts one gather in a step
- FSDP(module), with one call for a whole model | lecture |
  {"costs memory" if more > 2 else "right"} | measured with FSDP2: the largest all-gather of one
  unit has {more:.0f} times the bytes of that with a unit for each of 8 blocks (section 6)
- 100 billion parameters and more: ZeRO-3 with tensor parallelism | book chapter |
  depends on the engine | with sequence parallelism, {takers(Plan(dp=8, tp=8, zero=3), larger)} can
  express it (section 1)
""")

# %% [markdown]
# **What was run, and what was compared.** The program for FSDP2 ran here. DeepSpeed's parser and
# accelerate's launcher read the files here, if they are installed. Megatron-LM's parser and its
# checks, of core_v0.19.0, accepted eight lines of the lab when this part was written; it does not
# come with the course. The options of torchtitan and nanotron were compared with their source.
# No engine but FSDP2 has trained anything here.
#
# **Sources.** *Distributed Parallelism in Deep Learning* (web page); *Data Parallelism Deep Dive*
# (book chapter); *CS 229S, lecture 8* (Stanford). Source code of
# [Megatron-LM](https://github.com/NVIDIA/Megatron-LM/tree/core_v0.19.0/megatron/training),
# [DeepSpeed](https://www.deepspeed.ai/docs/config-json/),
# [torchtitan](https://github.com/pytorch/torchtitan/blob/v0.2.2/torchtitan/config/job_config.py),
# [accelerate](https://github.com/huggingface/accelerate/tree/v1.15.0/src/accelerate) and
# [nanotron](https://github.com/huggingface/nanotron/tree/main/src/nanotron/config).

# %% [markdown]
# ## What you have learnt
#
# * **An engine limits the plans**: most engines can express only some of the fastest plans.
# * **Train batch = micro-batch × accumulation steps × copies.** What counts as a copy, the engine
#   decides.
# * In Megatron-LM, **dp is what is left**, and ZeRO 1 is an option of its own.
# * With FSDP2, **blocks first, then the model, then the optimizer**.
# * **An engine may ignore a misspelt option.** Print what it has understood.
#
# **Your exercises** stand in the cells above, and one in
# [labs/configurations.py](../labs/configurations.py).
#
# **Next**: {{next}}.

# %%
progress("10e")
