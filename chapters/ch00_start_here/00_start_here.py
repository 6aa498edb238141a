# %% [markdown]
# # {{title}}
#
# **How do several processes become one program?** They find each other. Each one gets a number.
# Then they exchange their first bytes.
#
# You learn distributed training here by running it: real processes, the real `torch.distributed`,
# and **almost every number is measured while you watch**. A laptop with two cores and no GPU is
# enough.
#
# **How to work.** Predict a number, run the cell, look at the picture, and read why. Then break it
# on purpose, and solve the exercise. Run the cells in order, with Shift+Enter. A cell that hangs
# can always be stopped with the ■ button.

# %% [markdown]
# ![Two grids with a row for each of four ranks. Before the all-reduce, each row has a colour of its
# own. After it, every row has all four colours](../assets/covers/00_start_here.png)
#
# *Measured in section 3.*
#
# **After this part you can** start ranks from a cell and with `torchrun`, and add up numbers over
# them. You tell `RANK` from `LOCAL_RANK`, and find the line of a hang.
#
# {{takes}} (What to read for which question: section 6.)
#
# Begin with the next cell: four processes start, return the ids that the operating system gave
# them, and end. (The folded cell after it only imports.)

# %% tags=["nbval-ignore-output"]
import os

from pedagogy_lib import launch

launch(os.getpid, world_size=4)

# %% jupyter={"source_hidden": true}
import torch
import torch.distributed as dist

from pedagogy_lib import (
    HangError, RankError, check, hint, lab, plot_holdings, predict, progress, put_to_the_test,
    run_torchrun,
)

# %% tags=["parameters"]
world_size = 4

# %% [markdown]
# ## 1 · Who is there?
#
# `launch(function, world_size=4)` starts four fresh processes. Each of them calls the function, and
# what it returns comes back here. The function is an ordinary one, written in a cell.

# %% tags=["nbval-ignore-output"]
def who_am_i():
    print("hello from my own process")
    return f"rank {dist.get_rank()} of {dist.get_world_size()}: process {os.getpid()}"

run = launch(who_am_i, world_size=world_size)
run

# %% [markdown]
# These are processes of the operating system. They are not threads, and they share no variables.
# Each one is a **rank**, and has a number from 0 on. All ranks together are the **world**. How many
# they are is the **world size**. `launch` returns a `Run`: `run.values[0]` is what rank 0 returned.
# The processes end with the function. The next launch starts new ones.
#
# All ranks run *the same program*. A rank knows only one thing that the others do not: its number.
# Run the cell a few times: the order of the lines changes. **Ranks run independently. One
# waits for another only where they exchange a message.** (The table names *Gloo*, which carries the
# messages: section 4.)

# %% [markdown]
# ## 2 · Nodes, ranks, local ranks
#
# A large training runs on several machines. A **node** is one machine. On a cluster of GPUs there
# is usually one process for each GPU. Such a process has two numbers. `RANK` counts through the
# whole cluster. `LOCAL_RANK` begins with 0 again on every node: it tells a process which GPU of its
# own machine to use. Here are three clusters of four GPUs.

# %%
lab("splitting_diagrams").draw_clusters()  # labs/splitting_diagrams.py draws it

# %% [markdown]
# ### Exercise {{global_rank}} · The global rank of a process
#
# Every node runs `per_node` processes. A process is on node number `node`, and its `LOCAL_RANK` is
# `local_rank`. Return its `RANK`. Nodes are numbered from 0.
#
# With 3 processes per node, node 0 has the ranks 0, 1 and 2. Node 1 goes on with 3, 4 and 5. So on
# node 1, the process with local rank 2 has rank 5: `global_rank(1, 2, 3)` is 5.
#
# Write `return` and your formula in place of the three dots. Then `check` tries your function on
# several clusters. If your function is wrong, `check` says which mistake it may be. Hints are
# folded below its answer, and `hint("{{global_rank}}")` in a cell shows them as well.

# %%
def global_rank(node, local_rank, per_node):
    ### BEGIN SOLUTION
    return node * per_node + local_rank
    ### END SOLUTION

# %%
check("{{global_rank}}", global_rank)

# %% [markdown]
# ## 3 · The first all-reduce
#
# In a training with many ranks, each rank sees only a part of the data. Some numbers concern all
# the data: how many images the model got right, the loss, and above all the gradients. They have to
# be added up. The operation for this is the **all-reduce**: each rank brings a tensor, and every
# rank leaves with the sum of all of them.
#
# Below, rank 0 has counted 10 right answers, rank 1 has 20, rank 2 has 30, and so on. The call
# `dist.all_reduce(x)` writes the sum into `x`. Now suppose that a program makes this call **twice**
# by mistake. What does `x` hold on rank 1 in the end? Type your number, and run on.

# %%
total_guess = predict(
    f"{world_size} ranks bring 10, 20, 30, …: on rank 1 after two all-reduces",
    unit="right answers",
)

# %%
def count_right_answers():
    x = torch.tensor([10.0 * (dist.get_rank() + 1)])
    dist.all_reduce(x)  # every rank makes this call; the sum is written into x
    once = x.item()
    dist.all_reduce(x)
    return once, x.item()

counted = launch(count_right_answers, world_size=world_size).values
for rank, (once, twice) in enumerate(counted):
    print(f"rank {rank}: {once} after one all-reduce, {twice} after two")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
in_all = sum(10 * (rank + 1) for rank in range(world_size))
total_guess.compare(world_size * in_all, counted[1][1], kind="communication")

# %% [markdown]
# After the first call every rank holds the sum. The second call adds up this sum once for each
# rank. No error is reported. In a training, such a gradient is too large by a factor of the world
# size.
#
# Where do the numbers of a rank end up? In the next picture each rank has a colour of its own.

# %% tags=["cover", "nbval-ignore-output"]
def who_holds_whose_number():
    # 1, 2, 4, 8: from a sum of these, the picture can tell which ranks are in it.
    x = torch.tensor([2.0 ** dist.get_rank()])
    before = x.tolist()
    dist.all_reduce(x)
    return before, x.tolist()

before, after = zip(*launch(who_holds_whose_number, world_size=world_size).values)
plot_holdings({"before the all-reduce": before, "after it": after})

# %% [markdown]
# Four facts about an all-reduce:
#
# * It is a **collective**: an operation in which all ranks take part. Every rank makes the call.
#   Section 5 shows what happens if one does not.
# * Ranks match collectives by the order of the calls, not by name. The first all-reduce of rank 0
#   goes with the first of rank 1.
# * It overwrites its tensor, and returns nothing: after `y = dist.all_reduce(x)`, `y` is `None`.
# * No rank has to be the centre through which all numbers pass. In chapter 02 you write an
#   all-reduce without a centre.
#
# *Break it.* In the cell above the picture, leave out the line `dist.all_reduce(x)`. What does the
# picture show? (Each row keeps its own colour: nothing has travelled.)

# %% [markdown]
# ### Exercise {{mean_over_ranks}} · Average a number over ranks
#
# Each rank has tested the model on its own images, and knows one `number`: its loss, a Python
# float. All ranks call `mean_over_ranks(number)`, each with its own. Every rank gets back the mean
# of all numbers, as a number. (A tensor with one element passes, too.)
#
# With two ranks, one calls `mean_over_ranks(1.0)` and the other one `mean_over_ranks(4.0)`. Both
# get 2.5. (Only if both ranks have equally many images, this is the loss on all: part 01b.)
#
# It has to work for any number of ranks. Compute in float64: `torch.tensor(number)` alone makes a
# float32, `torch.tensor(number, dtype=torch.float64)` does not. Any call of `torch.distributed` may
# be used. The check starts real ranks.

# %%
def mean_over_ranks(number):
    ### BEGIN SOLUTION
    x = torch.tensor(number, dtype=torch.float64)
    dist.all_reduce(x)
    return (x / dist.get_world_size()).item()
    ### END SOLUTION

# %%
check("{{mean_over_ranks}}", mean_over_ranks)

# %% [markdown]
# ## 4 · A whole program, for torchrun
#
# On a cluster no notebook starts the ranks: **torchrun** does. On each machine, one process of
# torchrun runs, its *agent*. The agent starts the ranks of its machine, and tells each one its
# numbers in environment variables. Here is a whole program for it,
# [labs/start_here.py](../labs/start_here.py). Nothing in it comes from this course.

# %%
with open("../labs/start_here.py") as program:
    print(program.read())

# %% [markdown]
# Line by line:
#
# * `os.environ["LOCAL_RANK"]`: the agent has written the number of the process there.
# * `torch.cuda.device_count() >= LOCAL_WORLD_SIZE`: is there a GPU for each process of this
#   machine?
# * `torch.cuda.set_device(device)`: `"cuda"` now means the GPU with this process's local rank.
#   Without this line it means GPU 0, in every process of a machine.
# * `dist.init_process_group("nccl", …)`: waits until `WORLD_SIZE` processes have come. The address
#   where they meet is in the environment, too. **NCCL** moves bytes between NVIDIA GPUs. It
#   connects them at once if it gets a `device_id`, otherwise at the first collective.
# * `dist.init_process_group("gloo")`: the same for CPUs, with **Gloo**.
# * `dist.destroy_process_group()`: closes the connections before the process ends.
#
# `launch` does all of this for the functions of our cells, except the all-reduce.

# %% [markdown]
# On a cluster of two machines with two processes each, one types this on both machines:
#
# ```
# torchrun --nnodes 2 --nproc-per-node 2 --rdzv-backend c10d --rdzv-id my-job \
#     --rdzv-endpoint machine0:29500 labs/start_here.py
# ```
#
# `rdzv` is short for *rendezvous*, the meeting of the agents: here at port 29500 of machine0.
# `c10d` is PyTorch's own service for this. `my-job` is a name that no other job has. Without it,
# two jobs that meet at the same place would join each other.
#
# The next cell does the same with two agents on this computer, as if it were two machines. (GPUs
# are hidden from them: two such "machines" would take the same ones. In part 02g they become
# machines with networks of their own.) In the program, each process brings its `RANK` to the
# all-reduce.

# %%
sum_guess = predict("2 machines with 2 processes each: every process prints",
                    unit="SUM")

# %% [markdown]
# The cell takes some seconds, since each process imports PyTorch anew.

# %% tags=["nbval-ignore-output"]
cluster = run_torchrun("../labs/start_here.py", nnodes=2, nproc_per_node=2)

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
words = next(line.split() for line in cluster.output[0].splitlines() if "SUM" in line)
sum_guess.compare(0 + 1 + 2 + 3, int(words[-1]), kind="communication")

# %% [markdown]
# `RANK` counts through both machines: 0, 1, 2 and 3 make 6, on all ranks. `GROUP_RANK` is
# torchrun's number of the agent, and so of the node. Do not rely on which machine gets which
# number: after a restart, a machine may have another one.

# %% [markdown]
# ## 5 · The first hang
#
# A mistake that everybody makes once: one rank does not take part in a collective. The others wait
# for it, and nothing reports an error. On a cluster such a training may stand still for many
# minutes. Below, rank 3 leaves the all-reduce out. A launch has a `timeout` (60 s, unless you say
# otherwise). After this time the launch ends, and tells you where each rank was.

# %%
def one_rank_forgets():
    x = torch.ones(4)
    if dist.get_rank() != 3:
        dist.all_reduce(x)
    return x.tolist()

try:
    launch(one_rank_forgets, timeout=1)
except HangError as error:
    print(error)

# %% [markdown]
# Read it from the top. First: which ranks have returned already. Then: on which line each of the
# others waits, inside of which call, and with which arguments. The last lines say what to look for.
# No process is left over, and the next cell works.
#
# You can also press the ■ button before the timeout: it gives the same report. Keep the tab of the
# notebook open while a cell runs. Output that is printed while the tab is closed is lost.
#
# An error on one rank ends a launch at once. You are told the rank and your line:

# %%
def wrong_shape():
    x = torch.arange(6.0)
    return x.view(dist.get_rank() + 1, -1)

try:
    launch(wrong_shape)
except RankError as error:
    print(error)

# %% [markdown]
# **On GPUs.** Under NCCL, `dist.all_reduce` puts the operation into a queue of the GPU, and
# returns: it [need not be complete then][async], says PyTorch's documentation. Python runs on, and
# waits at the first line that needs the result. So the line that waits may stand below the
# collective that hangs. Part 03m shows the tools for this.
#
# [async]:
# https://docs.pytorch.org/docs/stable/distributed.html#synchronous-and-asynchronous-collective-operations

# %% [markdown]
# ## 6 · To look things up
#
# **Your machine.** The next cell makes the same checks as `make lab`. Each line is ok, or a note
# that may matter to you, or says what to do.
#
# **On GPUs.** `launch` uses NCCL where there is a GPU for every rank. New tensors of the function
# are then created on that GPU, and the `Run` says so. With fewer GPUs than ranks it stays on the
# CPU; `launch(f, device="cuda")` lets ranks share the GPUs. Many cells of this course say
# `device="cpu"`. They stay on the CPU on every machine: there the operating system counts the
# bytes, and links and computing can be slowed down.

# %% tags=["nbval-ignore-output"]
from coursekit.doctor import examine

problems = examine()

# %% [markdown]
# **What to read for which question.** Read the parts of a row from left to right. The minutes are
# those to read and run them, without exercises. A part may use words of earlier parts: a list of
# them stands below.
#
# {{questions}}

# %% [markdown]
# **Three paths.**
#
# {{paths}}

# %% [markdown]
# **What you have solved**, how long the rest takes and what comes next: call `progress()` in a
# notebook of `work/`. It reads what your checks have found, and shows your passport: a stamp for
# each part whose exercises have all passed.

# %% [markdown]
# **Parts.** A chapter has one or several parts: chapter 01 has the parts 01, 01b and 01c. A solved
# and executed copy of each part, to look things up in, is in [solutions/](../solutions). The next
# two cells are a map of them.
#
# **Words.** Each is explained in the part that is named, where it is needed first.
#
# <details><summary>All words and their meaning (click)</summary>
#
# | word | meaning | part |
# |---|---|---|
# | node | a machine | 00 |
# | lab | a program in labs/ that the notebooks use; some have functions for you to write | 01 |
# | bench | this course's package `pedagogy_lib`: it launches, measures and draws | 00 |
# | rank | one process of a distributed program, and its number | 00 |
# | local rank | the number of a process among those of its node | 00 |
# | world, world size | all ranks of a program; how many they are | 00 |
# | process group | some or all ranks, which talk among themselves | 02b |
# | agent | the process of torchrun that starts the ranks of its machine | 00 |
# | rendezvous | the meeting of the agents, at an address that all know | 00 |
# | backend | the library that moves the bytes: Gloo (CPUs), NCCL (NVIDIA GPUs) | 00 |
# | collective | an operation in which every rank of a group takes part | 00 |
# | all-reduce | every rank brings a tensor, and gets the sum of all | 00 |
# | barrier | a collective that only waits for everybody | 00c |
# | point-to-point | one rank sends, another one receives | 02 |
# | broadcast, reduce | from one rank to all; from all to one, added up | 02 |
# | all-gather | every rank gets the parts of all ranks | 02 |
# | reduce-scatter | every rank gets one part of the sum | 02 |
# | replica | a complete copy of the model, on one rank or (chapter 09) over several | 00b |
# | shard | the part of a split thing that one rank keeps | 00b |
# | data, tensor, pipeline parallel | the batch; every layer; the list of layers is split | 00b |
# | activations | what layers compute in the forward, and keep for the backward | 00b |
# | optimizer state | what an optimizer keeps for each parameter: Adam has two averages | 01c |
# | straggler | a rank that is slower than the others | 00c |
# | computation graph | how each value was computed, as autograd notes it for the backward | 01 |
# | micro-batch | a part of a batch that is computed in one go | 01 |
# | gradient accumulation | several backwards, then one step of the optimizer | 01 |
# | padding | what fills short sentences up to the length of the longest | 01b |
# | kernel | a program that runs on the GPU | 01c |
# | latency, bandwidth | seconds that each message costs; bytes in a second | 02b |
# | busiest rank | the rank that sends or computes most: others wait for it | 02c |
# | bucket | several gradients that travel in one message | 02f |
# | hook | a function of yours that autograd calls when a gradient is ready | 03c |
# | overlap | communication while something else is computed | 03c |
# | exposed communication | the part of it that nothing hides | 03c |
# | staleness | how many updates have happened since a gradient got its weights | 03h |
# | weak, strong scaling | with more ranks, more work; with more ranks, the same work | 03k |
# | noise scale | the batch up to which a larger batch saves nearly as many steps | 03l |
# | model states | parameters, gradients and the optimizer's state: kept between steps | 05 |
# | peak | when a process holds most bytes at once; it decides whether a step fits | 05 |
# | master | the copy of a parameter in float32 that the optimizer updates | 05b |
# | loss scaling | multiply the loss so that no gradient becomes 0; divide before the step | 05b |
# | stochastic rounding | round up or down at random, so that the mean is right | 05c |
# | gated MLP (SwiGLU) | an MLP whose inside is a product: silu of one matrix, times another | 05d |
# | logits | one number for each token of the vocabulary, before the softmax | 05e |
# | recomputation | drop activations in the forward, compute them again in the backward | 05f |
# | segment | the layers that are computed again together | 05f |
# | allocated, reserved | bytes that tensors hold; bytes PyTorch got from the GPU | 05g |
# | fragmentation | free pieces of reserved memory that are too small for the next tensor | 05g |
# | singular values | by how much a matrix stretches vectors, in each of its directions | 05h |
# | E4M3, MXFP8 | numbers of 8 bits; the same with a scale for every 32 of them | 05i |
# | unit | the parameters that are gathered, sent and dropped together | 06 |
# | flat vector | the parameters of a unit in one tensor, one after the other | 06 |
# | owner | the rank that updates a parameter, and keeps its optimizer state | 06b |
# | storage, view | the memory under a tensor; another tensor that shows the same memory | 06d |
# | gathered ahead | a unit whose gather has begun before it is needed (prefetch) | 06f |
# | resharding | to read what n ranks have saved on another number of ranks | 06g |
# | offloading | to keep states in the host's memory, or on disk | 06g |
# | flat parameter | the one parameter that FSDP made of a unit; FSDP2 has DTensors | 06h |
# | DTensor | PyTorch's tensor that knows its placement: Shard, Replicate or Partial | 06h |
# | LoRA | train two small matrices beside a frozen one | 06h |
# | meta device | where tensors have shapes, and no memory | 06i |
# | trust ratio | the norm of a layer's weights, divided by the norm of its step | 06j |
# | remainder | the 16 bits of a float32 master that its bfloat16 weight lacks | 06j |
# | column, row layer | a linear layer whose outputs, or inputs, are split over ranks | 07 |
# | parallel region | between f and g: where each rank has a part of a layer's result | 07 |
# | key-value head | a head of keys and values that several heads of queries share | 07c |
# | rotary positions (RoPE) | queries and keys, rotated by angles of their positions | 07c |
# | sequence parallel | outside of the region, each rank has some positions of the text | 07e |
# | key-value cache | keys and values of earlier tokens, kept while a text is written | 07f |
# | stage | consecutive layers that one rank of a pipeline holds | 08 |
# | bubble | the time in which a rank of a pipeline waits | 08 |
# | schedule | which rank computes which micro-batch, and in what order | 08 |
# | 1F1B | a schedule: one forward, one backward, in turns | 08b |
# | chunk of a model | one of several stages that one rank holds | 08b |
# | zero bubble | schedules that compute gradients of weights later, where a rank would wait | 08f |
# | slack | forwards that a stage runs ahead, so that no slow message stops it | 08g |
# | weight stashing | to keep old weights for the backwards of earlier micro-batches | 08h |
# | slice | some positions of one sample, with which a stage begins before it has all | 08i |
#
# </details>

# %% [markdown]
# <details><summary><b>The map, chapters 00 to 04</b>: what each part asks (click)</summary>
#
# | part | question |
# |---|---|
# | [00b · What to split][00b] | Which rank does what? |
# | [00c · What to believe][00c] | Which numbers can you trust? |
# | [01 · Gradient accumulation][01] | How can a small memory take a large batch? |
# | [01b · A batch in parts][01b] | And if the parts differ in size? |
# | [01c · What accumulation saves][01c] | What does it save, and what does it cost? |
# | [02 · Collectives][02] | What do ranks do together, and who holds what afterwards? |
# | [02b · Trees and chains][02b] | How fast can one give a file to all? |
# | [02c · The ring][02c] | How do ranks add up a tensor with nobody in the middle? |
# | [02d · Bytes of all collectives][02d] | What does each send, and what does a library do? |
# | [02e · What a message costs][02e] | How long does it take, and what decides that? |
# | [02f · What a call costs][02f] | Why do small calls take longer than the model says? |
# | [02g · Across machines][02g] | What changes when a link is slow, and shared? |
# | [03 · Data parallel][03] | What makes many copies of a model train as one? |
# | [03b · Samples of its own][03b] | What if one of the conditions is left out? |
# | [03c · Inside DDP][03c] | How does DDP hide its communication? |
# | [03d · Not each time][03d] | How often must the ranks talk? |
# | [03e · DDP at work][03e] | What does the real DDP do, and not tell you? |
# | [03f · Counted over all ranks][03f] | When is a mean of means wrong? |
# | [03g · One whole program][03g] | What belongs in a program for a cluster? |
# | [03h · A server in the middle][03h] | What if one rank collects all gradients? |
# | [03i · One process for all GPUs][03i] | Why not one process for all GPUs? |
# | [03j · Fewer bytes][03j] | How to train over a slow link? |
# | [03k · How far it scales][03k] | From how many ranks on is there nothing to gain? |
# | [03l · Large batches][03l] | How much sooner is a training done with a larger batch? |
# | [03m · When it hangs][03m] | A training stands still: how to find out why? |
# | [04 · Checkpoints][04] | What has to be saved, how, and how often? |
# | [04b · Checkpoints of shards][04b] | Who saves what, when no rank has all of it? |
# | [04c · Finding out][04c] | Something is wrong: with which rank, and what? |
# | [04d · Restart][04d] | How does it go on, with fewer ranks or others? |
# | [04e · Keep training][04e] | Must all stop when one rank dies? |
# | [04f · Copies in memory, and rare meetings][04f] | What dies with the only copy? |
# | [04g · Chaos][04g] | Does your training survive a bad day? |
# | [04h · Preempted, and resumed in mid-epoch][04h] | What has to happen before the kill? |
# | [04i · Loss spikes and silent data corruption][04i] | Training goes on, wrongly: who notices? |
#
# </details>
#
# [00b]: 00b_what_to_split.ipynb
# [00c]: 00c_what_to_believe.ipynb
# [01]: 01_gradient_accumulation.ipynb
# [01b]: 01b_batches_in_parts.ipynb
# [01c]: 01c_what_it_saves.ipynb
# [02]: 02_collectives.ipynb
# [02b]: 02b_trees_and_chains.ipynb
# [02c]: 02c_the_ring.ipynb
# [02d]: 02d_bytes_of_all.ipynb
# [02e]: 02e_what_a_message_costs.ipynb
# [02f]: 02f_what_a_call_costs.ipynb
# [02g]: 02g_across_machines.ipynb
# [03]: 03_data_parallel.ipynb
# [03b]: 03b_samples_of_its_own.ipynb
# [03c]: 03c_inside_ddp.ipynb
# [03d]: 03d_not_each_time.ipynb
# [03e]: 03e_ddp_at_work.ipynb
# [03f]: 03f_counted_over_all_ranks.ipynb
# [03g]: 03g_one_whole_program.ipynb
# [03h]: 03h_a_server_in_the_middle.ipynb
# [03i]: 03i_one_process_for_all.ipynb
# [03j]: 03j_fewer_bytes.ipynb
# [03k]: 03k_how_far_it_scales.ipynb
# [03l]: 03l_large_batches.ipynb
# [03m]: 03m_when_it_hangs.ipynb
# [04]: 04_failure_and_recovery.ipynb
# [04b]: 04b_sharded_checkpoints.ipynb
# [04c]: 04c_finding_out.ipynb
# [04d]: 04d_restart.ipynb
# [04e]: 04e_keep_training.ipynb
# [04f]: 04f_copies_and_local_steps.ipynb
# [04g]: 04g_chaos.ipynb
# [04h]: 04h_told_to_stop.ipynb
# [04i]: 04i_loss_spikes.ipynb

# %% [markdown]
# <details><summary><b>The map, chapters 05 to 11</b> (click)</summary>
#
# | part | question |
# |---|---|
# | [05 · Where the memory goes][05] | Where do the bytes of a training step go? |
# | [05b · Half precision][05b] | Does half precision halve the memory? |
# | [05c · Smaller optimizer states][05c] | Can the optimizer keep less? |
# | [05d · Activations][05d] | What does a forward keep for the backward? |
# | [05e · A large vocabulary][05e] | What do logits cost? |
# | [05f · Computed twice][05f] | What if activations are computed again? |
# | [05g · What fits][05g] | Which model fits on which GPUs? |
# | [05h · Optimizers for matrices][05h] | Can each rank update its part of a matrix? |
# | [05i · FP8 training, MXFP8 and NVFP4][05i] | Can a model be trained with 8 bits, or 4? |
# | [06 · ZeRO][06] | How does each rank update only a part? |
# | [06b · Whole tensors][06b] | What if a rank owns whole tensors? |
# | [06c · Gradients in parts][06c] | Who needs a whole gradient? |
# | [06d · Parameters in parts][06d] | Who needs all parameters at once? |
# | [06e · All stages together][06e] | What does each stage save, and what can be combined? |
# | [06f · Who pays when][06f] | What do shards cost in time? |
# | [06g · State on disk][06g] | Must all of it be in memory? |
# | [06h · Sharding engines][06h] | What do the real engines do beside that? |
# | [06i · An FSDP2 program][06i] | What belongs in a program with FSDP2? |
# | [06j · Muon, LARS and LAMB under ZeRO and FSDP2][06j] | Which optimizers can step on a shard? |
# | [07 · Tensor parallel][07] | How to split one matrix product? |
# | [07b · The pair][07b] | Why do two products need one sum? |
# | [07c · Heads and vocabulary][07c] | How to split attention, and the vocabulary? |
# | [07d · A model in parts][07d] | What is left until a whole model trains? |
# | [07e · Sequence parallel][07e] | What if the positions are split, too? |
# | [07f · Behind a product][07f] | Can the sum be hidden? |
# | [07g · How wide?][07g] | Over how many ranks is a product worth splitting? |
# | [08 · Pipeline parallel][08] | How to keep all stages busy? |
# | [08b · One forward, one backward][08b] | How many micro-batches must a stage keep? |
# | [08c · A machine for schedules][08c] | What carries out a schedule? |
# | [08d · How large a micro-batch][08d] | How large should a micro-batch be? |
# | [08e · Fill the bubble][08e] | What can a rank do while it would be idle? |
# | [08f · Zero bubble][08f] | How small can the bubble be, and for how much memory? |
# | [08g · Unequal stages][08g] | What if stages differ? |
# | [08h · Never wait][08h] | What if nobody waits at the end of a batch? |
# | [08i · Slices of a sequence][08i] | Can one sample fill a pipeline? |
# | [08j · Pipelines at work][08j] | What do real pipelines do, and what can be combined? |
# | [09 · Three dimensions][09] | How do a thousand ranks know with whom to talk? |
# | [09b · One step, three axes][09b] | What does a step look like if all is combined? |
# | [09c · Which axis where][09c] | Which axis belongs on which link? |
# | [09d · Many experts, few at a time][09d] | How to have more parameters, and compute as little? |
# | [09e · Experts on ranks][09e] | How do tokens get to experts elsewhere, and back? |
# | [09f · Long contexts][09f] | What if one text is too long for a rank? |
# | [09g · Sixty-four ranks][09g] | What changes when it grows? |
# | [10 · Choosing a strategy][10] | What does a plan cost, before anybody runs it? |
# | [10b · Predict, then run][10b] | Can such a prediction be trusted? |
# | [10c · Against published runs][10c] | How far off is a cost model? |
# | [10d · A small Alpa][10d] | Can a program choose another way for each stage? |
# | [10e · From plan to configuration][10e] | What does an engine want to be told? |
# | [10f · Advice, judged][10f] | Which advice holds, and about which can nobody say? |
# | [10g · Practices and pitfalls][10g] | What does each practice save, and what does it cost? |
# | [11 · Capstone][11] | Can you train within a budget, on a bad day? |
# | [11b · The exam][11b] | What is wrong with these twelve trainings? |
#
# </details>
#
# [05]: 05_memory.ipynb
# [05b]: 05b_half_precision.ipynb
# [05c]: 05c_smaller_optimizer_states.ipynb
# [05d]: 05d_activations.ipynb
# [05e]: 05e_a_large_vocabulary.ipynb
# [05f]: 05f_computed_twice.ipynb
# [05g]: 05g_what_fits.ipynb
# [05h]: 05h_optimizers_for_matrices.ipynb
# [05i]: 05i_eight_bits_and_four.ipynb
# [06]: 06_zero.ipynb
# [06b]: 06b_whole_tensors.ipynb
# [06c]: 06c_gradients_in_parts.ipynb
# [06d]: 06d_parameters_in_parts.ipynb
# [06e]: 06e_all_stages_together.ipynb
# [06f]: 06f_who_pays_when.ipynb
# [06g]: 06g_state_on_disk.ipynb
# [06h]: 06h_sharding_engines.ipynb
# [06i]: 06i_an_fsdp2_program.ipynb
# [06j]: 06j_optimizers_on_shards.ipynb
# [07]: 07_tensor_parallel.ipynb
# [07b]: 07b_the_pair.ipynb
# [07c]: 07c_heads_and_vocabulary.ipynb
# [07d]: 07d_a_model_in_parts.ipynb
# [07e]: 07e_sequence_parallel.ipynb
# [07f]: 07f_behind_a_product.ipynb
# [07g]: 07g_how_wide.ipynb
# [08]: 08_pipeline_parallel.ipynb
# [08b]: 08b_one_forward_one_backward.ipynb
# [08c]: 08c_a_machine_for_schedules.ipynb
# [08d]: 08d_how_large_a_micro_batch.ipynb
# [08e]: 08e_fill_the_bubble.ipynb
# [08f]: 08f_zero_bubble.ipynb
# [08g]: 08g_unequal_stages.ipynb
# [08h]: 08h_never_wait.ipynb
# [08i]: 08i_slices_of_a_sequence.ipynb
# [08j]: 08j_pipelines_at_work.ipynb
# [09]: 09_three_dimensions.ipynb
# [09b]: 09b_one_step_three_axes.ipynb
# [09c]: 09c_which_axis_where.ipynb
# [09d]: 09d_experts.ipynb
# [09e]: 09e_experts_on_ranks.ipynb
# [09f]: 09f_long_contexts.ipynb
# [09g]: 09g_sixty_four_ranks.ipynb
# [10]: 10_choosing_a_strategy.ipynb
# [10b]: 10b_predict_then_run.ipynb
# [10c]: 10c_published_runs.ipynb
# [10d]: 10d_small_alpa.ipynb
# [10e]: 10e_from_plan_to_configuration.ipynb
# [10f]: 10f_advice_judged.ipynb
# [10g]: 10g_practices_and_pitfalls.ipynb
# [11]: 11_capstone.ipynb
# [11b]: 11b_exam.ipynb

# %% [markdown]
# ## Put to the test
#
# An appendix, in most parts. This course grew out of slides, a book chapter, web pages and notes on
# distributed training. What they say is tested where it can be. The verdicts: *right*; *wrong*;
# *imprecise*, if a condition is missing; *depends*, if it is true under conditions that are named;
# *not tested*, if it was only compared with its source. Statements that are right and surprise
# nobody are folded.

# %% jupyter={"source_hidden": true}
# The statements of the sources, and what was found.
import torch.distributed.run

lines = sorted(line for text in cluster.output for line in text.splitlines())
identities = [line.split() for line in lines if "SUM" in line]  # torchrun may have added warnings
nodes, local_ranks, all_ranks = ([words[i] for words in identities] for i in (1, 3, 5))
manual = " ".join(torch.distributed.run.__doc__.split())
at = manual.find("Between restarts")
notice = f"“{manual[at:].split('.')[0]}”" if at >= 0 else "its notices"
surprising = f"""
- [C004] “Node” and “GPU” are the same: 2 computers with 2 GPUs each are 4 nodes |
  PyTorch slides, “Distributed Data Parallel in detail” |
  {"contradicts torchrun" if len(set(nodes)) < len(all_ranks) else "right"} |
  torchrun counts its agents, one on each machine: its GROUP_RANK was {" ".join(nodes)} for
  {len(all_ranks)} ranks, so {len(set(nodes))} nodes (section 4, run) | measured: nothing about GPUs
  can change it, as torchrun counts agents and processes, not devices
- [C007] PyTorch, or NCCL, gives a unique RANK to each GPU | PyTorch slides, “Failover: who should
  save the checkpoint?”; “Collective Communication: Broadcast” | imprecise | the launcher numbers
  processes, and a process chooses its GPU: without any GPU, {len(set(all_ranks))} processes had
  RANK {" ".join(all_ranks)} (section 4, run) | measured: nothing; NCCL does not choose numbers
  either, its caller passes the rank to ncclCommInitRank (NCCL's documentation)
"""

# %% jupyter={"source_hidden": true}
put_to_the_test(surprising, more=f"""
- [C005] On two computers with two GPUs each, LOCAL_RANK is 0 1 0 1 and RANK is 0 1 2 3 |
  PyTorch slides, “LOCAL_RANK vs RANK” |
  {"right" if (local_ranks, all_ranks) == ([*"0101"], [*"0123"]) else "not here"} |
  LOCAL_RANK was {" ".join(local_ranks)} and RANK {" ".join(all_ranks)}, with two agents that play
  two computers (section 4, run) | measured: nothing about GPUs; another launcher may number
  processes in another order
- [C006] After a restart of the cluster, another node may be rank 0 |
  PyTorch slides, “LOCAL_RANK vs RANK” | right | torchrun's manual: {notice}. When a machine was
  lost, one that was left got another rank (part 04d, section 2) | documented: nothing about GPUs,
  by torchrun's manual; ranks stay only where somebody fixes them, as static rendezvous does with
  --node-rank
""")

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)). The documentation of
# [torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html) and of
# [torch.distributed](https://docs.pytorch.org/docs/stable/distributed.html).

# %% [markdown]
# ## What you have learnt
#
# * A **rank** is a process of its own. All ranks run the same program, and exchange messages.
# * An **all-reduce** gives every rank the sum of what all ranks bring.
# * `init_process_group` connects processes, and `LOCAL_RANK` tells each of them its GPU.
# * A collective that one rank leaves out makes the others wait for ever. `HangError` names the line
#   of each rank.
#
# **Your exercises** stand in the cells above. [labs/start_here.py](../labs/start_here.py) is the
# program that `torchrun` ran; nothing in it is left to write.
#
# **Next**: {{next}}.

# %%
progress("00")
