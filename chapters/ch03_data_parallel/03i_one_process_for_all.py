# %% [markdown]
# # {{title}}
#
# **Why not let one process drive all GPUs?** `torch.nn.DataParallel` needs no ranks and no
# launcher: `model = DataParallel(model)` is all. You will meet it in old programs. Here you count
# what it sends and keeps, look at what its threads do, and compare it with DDP.

# %% [markdown]
# ![Bars of peak memory by kind on four ranks: rank 0 also holds the optimizer's state and the whole
# batch](../assets/covers/03i_one_process_for_all.png)
#
# *Measured in section 2, with a process in place of each GPU: rank 0 has more to hold.*
#
# **After this part you can** read code that uses `DataParallel`, and say why PyTorch recommends
# DDP.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch

from pedagogy_lib import (
    Table, close, lab, launch, plot_peak, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
world_size = 4

# %% tags=["nbval-ignore-output"]
emulated, threads = lab("emulated_data_parallel"), lab("threads_and_processes")
digits = lab("gradient_accumulation").digits()[:2]

# %% [markdown]
# ## 1 · Five exchanges in a step
#
# One process drives all GPUs of a computer, with a thread for each. The model lives on GPU 0. In
# each step GPU 0
#
# 1. *scatters* the inputs, unless the program has left them on the CPU, from where they go to each
#    GPU,
# 2. *replicates* the weights; then all GPUs compute their forward;
# 3. *gathers* the outputs, and computes the loss,
# 4. *scatters* the gradients of the outputs; then all compute their backward;
# 5. *reduces* the gradients of the weights: adds them up. Then it takes the step.

# %% [markdown]
# Without GPUs, `DataParallel` just calls the model. So [the
# lab](../labs/emulated_data_parallel.py) emulates the five exchanges over Gloo, with a process in
# place of each GPU. The replicas come by a broadcast: in Gloo, a tree (02b). The gradients go by a
# reduce: in Gloo, a reduce-scatter and then a gather on rank 0 (02d).
#
# The model has 75,010 weights. A batch has 120 images of 64 pixels, and the outputs are ten numbers
# an image. There are four ranks. How much does rank 0 send in a step, in copies of the model?

# %%
copies_guess = predict("DataParallel over Gloo, 4 ranks: rank 0 sends in a step", unit="models")

# %%
five_batches = emulated.some_batches(digits)
emulation = launch(emulated.train, five_batches, world_size=world_size, device="cpu")
same = close(emulation.values[0], emulated.train_alone(five_batches), steps=5)
print(f"{world_size} ranks equal one process, but for rounding:", same)

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what the operating system counted.
weights, copies = emulation.values[0], emulated.copies_of_exchanges(emulation)
copies_guess.compare(emulated.theory_of_rank_0(world_size),
                     sum(sent[0] for sent in copies.values()), kind="communication")

# %%
Table(["sent in a step, in copies of the model", "rank 0", "any other, at most"],
      emulated.rows_of_exchanges(emulation))

# %% [markdown]
# Five exchanges, but not five times the bytes: weights out and gradients back are nearly all of
# them. Inputs, outputs and their gradients are small here.
#
# In the tree, rank 0 sends the weights twice, and another rank passes them on once. In the reduce,
# rank 0 sends too: first all ranks exchange parts, as in a ring. Over Gloo, DDP's all-reduce has
# 1.5 copies on each of 4 ranks. So rank 0 sends nearly twice as much as in DDP.

# %% [markdown]
# **On GPUs.** The real one packs small tensors into buffers of 10 MB; the emulation packs all into
# one. Within one process it uses NCCL's broadcast and reduce if it can, or else copies between the
# GPUs (read in `torch/nn/parallel/comm.py` of PyTorch 2.13). So the exchanges are the same five,
# and who passes on the weights may differ. This cell looks whether you have GPUs, and then trains
# with the real one, too.

# %% tags=["nbval-ignore-output"]
if torch.cuda.device_count() > 1:
    real = launch(emulated.train_with_the_real_one, five_batches, world_size=1).values[0]
    print("the real one equals one process:", close(real, emulation.values[0], steps=5))
else:
    print("fewer than two GPUs here: DataParallel would only call the model")

# %% [markdown]
# ## 2 · GPU 0 is full first
#
# All GPUs have the same memory. But GPU 0 has more to hold. What is it?

# %% tags=["cover", "nbval-ignore-output"]
plot_peak(emulation, "step", title="DataParallel, emulated: rank 0 has more to hold")

# %% [markdown]
# Rank 0 alone has the **optimizer's state**, and here the **whole batch**. Its gradients are two
# models large: its own, and the sum. The other ranks hold their own gradients, and a flat copy that
# travels (*communication*).
#
# How much of this is the emulation? That rank 0 holds the optimizer's state follows from where the
# model lives. In PyTorch's source (`torch/nn/parallel/_functions.py`), one function replicates all
# weights. Its backward waits for the gradients of all replicas, and adds them up on GPU 0. So GPU 0
# holds its own gradients and the sum there, too. The flat copy is the emulation's, because the real
# buffers have at most 10 MB.

# %% [markdown]
# The whole batch is on GPU 0 only if the program has moved it there, while all outputs are gathered
# there in any case (unless `output_device` names another GPU).
#
# So GPU 0 is a parameter server again, and it also computes. All GPUs are equally large, so GPU 0
# decides how large the model may be.

# %% [markdown]
# ## 3 · Threads of one process
#
# The GPUs are driven by threads of *one* Python process. Does that matter? Take two equal jobs of
# Python code (sums in a loop), one in each of two threads. Two cores are free. How many cores do
# the jobs use at the same time? That is their CPU seconds divided by the seconds on the clock: 2
# means that both jobs ran at the same time, 1 that they took turns.

# %%
cores_guess = predict("Cores that two threads of Python code use", unit="cores")

# %% tags=["nbval-ignore-output"]
cores = {job.__name__: launch(threads.cores_used, job, world_size=2, device="cpu").values[0]
         for job in (threads.python_work, threads.torch_work)}
Table(["two jobs of", "cores in two threads", "cores in two processes", "the threads ran"],
      [[job, f"{found['threads']:.2f}", f"{found['processes']:.2f}", found["ran"]]
       for job, found in cores.items()])

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
cores_guess.compare(1, cores["python_work"]["threads"])

# %% [markdown]
# (The best round counts, since other programs can only take cores away. The cell goes on until two
# processes had two cores often enough, for up to 8 s a job. If they never had, it says that it
# cannot tell. Then run it again when the computer is quiet.)
#
# In the usual builds of Python only one thread at a time runs Python code: the one that holds the
# **global interpreter lock** (GIL). So two threads of Python code take turns. PyTorch lets go of
# the lock while it computes, so two threads of PyTorch can use two cores. ([Free-threaded
# builds](https://docs.python.org/3/howto/free-threading-python.html), from Python 3.13 on, have no
# such lock.)

# %% [markdown]
# A training step is a mixture of both kinds. The smaller the layers, the larger the share of
# Python. So the lock is one reason to have a process for each GPU. The other reasons stand in
# sections 1 and 2: the bytes and the memory of GPU 0, and weights that travel anew in each step.
#
# PyTorch's
# [documentation](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html)
# recommends DDP instead, “even if there is only a single node”.

# %% [markdown]
# ## 4 · DataParallel beside DDP
#
# A web note compares the two in eight rows. One row says that `DataParallel` has “better”
# performance “for smaller models”. So we time a step of each, for three sizes of a model, one after
# the other in each of 15 rounds. This compares the *exchanges* of both over Gloo, with two
# processes each. It cannot tell how long the real `DataParallel` takes, with its threads and its
# copies between GPUs.

# %% tags=["nbval-ignore-output"]
batch = emulated.some_batches(digits, count=1)[0]
slower = {}
for width in (10, 1000, 10_000):
    run = launch(emulated.both, batch, width, world_size=2, device="cpu")
    slower[width] = emulated.compare_with_ddp(run)
    print(f"width {width}: the five exchanges take {slower[width]} as DDP's step")

# %% [markdown]
# A small model has little to send. Then a step of either kind is mostly latency, and five messages
# one after the other have more of it than one. (In brackets: the middle half of the rounds.) Here
# are four rows of the note beside what was measured. The other four (inputs, scale, set-up, code)
# are what parts 03b and 03g have shown.

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Four rows of the note, beside what was measured.
larger = launch(emulated.both, batch, 1000, world_size=world_size, device="cpu")
sent = emulated.copies_sent(larger, weights)
Table(["", "DataParallel", "DDP", "measured here, with the emulation"],
      emulated.rows_beside_ddp(cores["python_work"], slower, sent, emulation))

# %% [markdown]
# ## Put to the test
#
# What the sources say about `DataParallel`, and what was found here.

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
peaks = emulation["step"].peak_bytes
state = [peak["optimizer_state"] for peak in peaks]
totals = [peak["total"] for peak in peaks]
held = [f"{total / 1e6:.2f} MB" for total in totals[:2]]
in_forwards = emulated.calls_of_forwards(3)
replicated = in_forwards["replicate"]
in_one = sum(in_forwards[what] for what in ("scatter", "replicate", "gather")) / 3
lock = {job: f"{found['threads']:.2f} cores, {found['ran']}" for job, found in cores.items()}
is_seen = [found["ran"] for found in cores.values()] == ["in turn", "side by side"]
does_more = sent["DataParallel"][0] > 1.2 * max(sent["DataParallel"][1:])
small = "in part" if slower[10].low > slower[10_000].high else "not decided here"

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
text = f"""
- [C067] DataParallel averages gradients on the CPU or on one GPU | web note, “Data Parallel” |
  imprecise | on one GPU, but it adds them up (read in PyTorch's source, section 2). The loss is one
  mean over all gathered outputs, so nothing is to be averaged. Where each replica returns its own
  loss, the program averages these, and the sum of gradients is a mean. Emulated so
  (from outputs), it equals one process: {same} (section 1,
  run) | documented: nothing; PyTorch's source adds up on the first GPU (class Broadcast in
  torch/nn/parallel/_functions.py). Only another version could change it
- [C068] Each GPU keeps a copy of the model; or the model is replicated in each forward |
  handwritten notes, “Data Parallelism”; web note, “Data Parallel” (right) | they contradict each
  other | the second is right: in 3 forwards, PyTorch's own DataParallel.forward replicated the
  model {replicated} times (a run in this section, its exchanges replaced) | measured: nothing; on
  GPUs the same forward runs
- [C066] DataParallel makes 5 exchanges for each batch, DDP one | web note, “Conclusion” |
  {"right in number, not in bytes" if in_one + 2 == len(copies) == 5 else "not seen here"} |
  PyTorch's own forward makes {in_one:.0f} (a run in this section). As emulated, the backward makes
  {len(copies) - in_one:.0f} more (section 1, table). But all 4 ranks send
  {sum(sent["DataParallel"]):.1f} copies of the model, with DDP {sum(sent["DDP"]):.1f} (added up in
  this section, from the run of section 4). DDP has one all-reduce for each bucket (part 03e) |
  measured: with processes in place of GPUs; on GPUs the same exchanges take other ways (PyTorch's
  source, comm.py)
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
text += f"""
- [C075] DataParallel is better for smaller models, and best on one node | web note, “Data
  Parallel” | {small} | one node is all it can use. That it is better for small models was not seen:
  over Gloo its exchanges take {slower[10]} as DDP's step for the small model, {slower[10_000]} for
  the large one (section 4, run). The real one was not timed | measured: the exchanges only; on GPUs
  a race of both could show other ratios. DataParallel is usually slower, even on one machine, says
  PyTorch's DDP tutorial
- [C073] The biggest problem of DataParallel is the GIL | handwritten notes, “Data Parallelism” |
  {"depends" if is_seen else "cannot tell here"} | two threads of Python code:
  {lock["python_work"]}. Of PyTorch: {lock["torch_work"]}
  (section 3, table). GPU 0's bytes and memory are problems, too (sections 1 and 2) | measured: on
  GPUs Python only starts kernels; the smaller they are, the more the lock is expected to matter.
  A build of Python without the GIL lifts it
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
others = f"""
- [C069] GPU 0 does more work than the others, and holds more | web note, “Conclusion”; blog, “Data
  Parallelism” |
  {"right, emulated" if does_more and totals[0] > max(totals[1:]) else "not seen here"} | PyTorch's
  source puts the sum there. Emulated, rank 0 sends {sent["DataParallel"][0]:.1f} copies of the
  model, rank 1 {sent["DataParallel"][1]:.1f} (section 4, table). Their peaks are {held[0]}
  and {held[1]} (added up in this section, from section 2's picture) | measured: with processes in
  place of GPUs; on GPUs, too, the gathered outputs and the loss lie on GPU 0
- [C070] GPU 0 is like a parameter server, with the optimizer's state | blog, “Data Parallelism” |
  {"right, as an analogy" if state[0] > 0 == max(state[1:]) else "not seen here"} | the model lives
  there, and so does the state. Emulated, rank 0 holds a state of {state[0] / 1e3:.2f} kB, as much
  as its parameters, and rank 1 {state[1] / 1e3:.0f} kB (section 2, picture). But GPU 0 computes,
  too | measured: nothing; states are made where the parameters are, and those are on the first GPU
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
put_to_the_test(text, more=others + f"""
- [C077] DDP has lower overhead than DataParallel, and works on several machines | handwritten
  notes, “DDP Distributed Data Parallel” |
  {"right in bytes, emulated" if max(sent["DDP"]) < max(sent["DataParallel"]) else "not seen here"}
  | of 4 ranks the busiest one sends {max(sent["DDP"]):.1f} copies of the model with DDP,
  {max(sent["DataParallel"]):.1f} with the emulated DataParallel (section 4, table). DDP ran on two
  machines in part 03g, section 7 | measured: bytes only; DDP is usually faster, too, says PyTorch's
  DDP tutorial
- [C074] PyTorch recommends DDP, even on one node | web note, “Conclusion” | right | the
  documentation of torch.nn.DataParallel warns, and recommends DDP, “even if there is only a single
  node” (section 3) | documented: nothing; only another version of the documentation could say
  otherwise
""")

# %% [markdown]
# **Sources.** *The Evolution of Data Parallelism* (blog); a web note on types of distributed
# training; handwritten notes on training optimization. PyTorch's [DDP
# tutorial](https://docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html) compares
# `DataParallel` and DDP.

# %% [markdown]
# ## What you have learnt
#
# * `DataParallel` is a server on GPU 0, in one Python process. Weights go out and gradients come
#   back in each step.
# * GPU 0 is full first: it also has the optimizer's state, all outputs and the sum of the
#   gradients.
# * Two threads of Python code share one core. A process for each GPU has no such limit.
# * PyTorch recommends DDP, even on one machine.
#
# **This part has no exercise.**
#
# **Next**: {{next}}.

# %%
progress("03i")
