# %% right · a table, then what is not wanted goes
def megatron_arguments(plan, batch, layers):
    every = {
        "--tensor-model-parallel-size": plan.tp,
        "--pipeline-model-parallel-size": plan.pp,
        "--context-parallel-size": plan.cp,
        "--micro-batch-size": plan.micro_batch,
        "--global-batch-size": batch,
        "--sequence-parallel": bool(plan.sequence and plan.tp > 1) or None,
        "--use-distributed-optimizer": True if plan.zero else None,
        "--num-layers-per-virtual-pipeline-stage":
            layers // plan.pp // plan.chunks if plan.chunks > 1 else None,
        "--recompute-granularity": None if plan.recompute == "none" else plan.recompute,
        "--recompute-method": "uniform" if plan.recompute == "full" else None,
        "--recompute-num-layers": 1 if plan.recompute == "full" else None,
    }
    return {option: value for option, value in every.items() if value is not None}

# %% right · from a line of text
def megatron_arguments(plan, batch, layers):
    words = [f"--tensor-model-parallel-size {plan.tp}", f"--context-parallel-size {plan.cp}",
             f"--pipeline-model-parallel-size {plan.pp}", f"--global-batch-size {batch}",
             f"--micro-batch-size {plan.micro_batch}"]
    words += ["--sequence-parallel"] * (plan.tp > 1) * plan.sequence
    words += ["--use-distributed-optimizer"] * plan.zero
    if plan.chunks != 1:
        words.append(f"--num-layers-per-virtual-pipeline-stage {layers // (plan.chunks * plan.pp)}")
    if plan.recompute in ("full", "selective"):
        words.append("--recompute-granularity " + plan.recompute)
        if plan.recompute == "full":
            words += ["--recompute-method uniform", "--recompute-num-layers 1"]
    found = {}
    for word in words:
        name, _, value = word.partition(" ")
        found[name] = int(value) if value.isdigit() else value or True
    return found

# %% wrong · Megatron-LM has no option for dp
# -         "--micro-batch-size": plan.micro_batch,
# +         "--micro-batch-size": plan.micro_batch,
# +         "--data-parallel-size": plan.dp,

# %% wrong · and the line does not say so: each rank
# -     if plan.zero == 1:
# +     if plan.zero > 1:

# %% wrong · no tp that it could go with
# -     if plan.sequence and plan.tp > 1:
# +     if plan.sequence:

# %% wrong · is not wanted here
# -     if plan.sequence and plan.tp > 1:
# +     if plan.tp > 1:

# %% wrong · is a switch of its own
# -     if plan.sequence and plan.tp > 1:
# +     if False:

# %% wrong · this is the number of chunks
# -         options["--num-layers-per-virtual-pipeline-stage"] = layers // (plan.pp * plan.chunks)
# +         options["--num-layers-per-virtual-pipeline-stage"] = plan.chunks

# %% wrong · the stages share out the layers first
# -         options["--num-layers-per-virtual-pipeline-stage"] = layers // (plan.pp * plan.chunks)
# +         options["--num-layers-per-virtual-pipeline-stage"] = layers // plan.chunks

# %% wrong · these are the layers of a whole stage
# -         options["--num-layers-per-virtual-pipeline-stage"] = layers // (plan.pp * plan.chunks)
# +         options["--num-layers-per-virtual-pipeline-stage"] = layers // plan.pp

# %% wrong · counts samples, and not micro-batches
# -         "--global-batch-size": batch,
# +         "--global-batch-size": batch // plan.micro_batch,

# %% wrong · has the samples of all copies
# -         "--global-batch-size": batch,
# +         "--global-batch-size": batch // plan.dp,

# %% wrong · a switch that is not wanted is left out
# -     if plan.zero == 1:
# -         options["--use-distributed-optimizer"] = True
# +     options["--use-distributed-optimizer"] = plan.zero == 1

# %% wrong · with one chunk on each stage
# -     if plan.chunks > 1:
# +     if plan.pp > 1:

# %% wrong · also wants to know how
# -     if plan.recompute == "full":
# +     if plan.recompute == "all":

# %% wrong · the option has no value for that
# -     if plan.recompute != "none":
# +     if True:

# %% wrong · belongs to recomputing everything, and not
# -     if plan.recompute == "full":
# +     if plan.recompute != "none":

# %% wrong · the value is a whole number
# -         "--tensor-model-parallel-size": plan.tp,
# +         "--tensor-model-parallel-size": str(plan.tp),

# %% wrong · begins with two dashes
def megatron_arguments(plan, batch, layers):
    return {"tensor-model-parallel-size": plan.tp}

# %% wrong · a plan has attributes
def megatron_arguments(plan, batch, layers):
    return {"--tensor-model-parallel-size": plan["tp"]}

# %% wrong · options of earlier plans are still in it
# - def megatron_arguments(plan, batch, layers) -> dict:
# + def megatron_arguments(plan, batch, layers, options={}) -> dict:
# -     options = {
# +     options |= {

# %% wrong · a division comes before the product
# -         options["--num-layers-per-virtual-pipeline-stage"] = layers // (plan.pp * plan.chunks)
# +         options["--num-layers-per-virtual-pipeline-stage"] = layers // plan.pp * plan.chunks

# %% wrong · tensor belongs to tp
# -         "--tensor-model-parallel-size": plan.tp,
# -         "--pipeline-model-parallel-size": plan.pp,
# +         "--tensor-model-parallel-size": plan.pp,
# +         "--pipeline-model-parallel-size": plan.tp,

# %% wrong · Is it --context-parallel-size?
# -         "--context-parallel-size": plan.cp,
# +         "--context_parallel_size": plan.cp,
