# %% [markdown]
# # {{title}}
#
# **A model of messages says how long 128 small all-reduces take. Is it right?** In part 02e links
# were slow, and everything else was small beside them. Here this machine runs at full speed. You
# look for what a call costs beside its bytes, and pack small tensors into buckets.

# %% [markdown]
# ![Bars of bandwidth for four sizes, of one message and of all-reduces on two and four ranks of
# this machine](../assets/covers/02f_what_a_call_costs.png)
#
# *Measured in section 2: the bandwidth of one message on this machine, and that of all-reduces.*
#
# **After this part you can** say when a model of messages is not enough, choose the size of a
# bucket, and read the bandwidths that NCCL's benchmarks report.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import os

from pedagogy_lib import (
    Table, check, compare_rounds, hint, lab, launch, plot_against, plot_bars, predict, progress,
    put_to_the_test,
)

# %% tags=["parameters"]
megabytes = 8.0  # of the all-reduce that section 2 takes apart

# %% [markdown]
# ## 1 · Many small calls
#
# A neural network has hundreds of gradients, and many of them are small. What happens if you call
# `all_reduce` once for each? Take 128 calls with 4 kB each, on two ranks. The ring of part 02c
# needs two messages of 2 kB for a call, one after the other. So the model says $128 \cdot
# 2\,(\alpha + 2000/B)$ seconds.
#
# First measure $\alpha$ and $B$ again, as in part 02e: from the quickest of 40 messages of each
# size.

# %% tags=["nbval-ignore-output"]
message_costs, call_costs = lab("message_costs"), lab("call_costs")
sizes = [2**k for k in range(8, 24)]
times = launch(message_costs.one_message, sizes, world_size=2, device="cpu").values[0]
alpha, B = message_costs.fit(sizes, times)
print(f"latency {alpha * 1e6:.0f} µs, bandwidth {B / 1e9:.2f} GB/s")

# %%
many_guess = predict("128 all-reduces of 4 kB: how many times as long as the model says?",
                     unit="times")

# %%
calls = {n: call_costs.find_best(launch(call_costs.small_calls, world_size=n, device="cpu").values)
         for n in (1, 2, 4)}

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, the model (1 times), and what was measured: each call at its quickest.
of_call = {
    n: message_costs.predict_sequential_time(2 * (n - 1), 4000 / n, alpha, B) for n in calls
}  # a ring
many_guess.compare(1, sum(calls[2]["best"]) / (128 * of_call[2]))

# %% tags=["nbval-ignore-output"]
cores = len(os.sched_getaffinity(0))
Table(["ranks", "model", "first round", "slowest", "middle", "quickest", "each call at its best"],
      call_costs.rows_of_rounds(calls, of_call),
      title=f"128 calls, in nine rounds, on {cores} cores")

# %% [markdown]
# Each round does the same, but they do not take equally long. Two things can explain that:
#
# * the first round may be slower, since memory and connections are new;
# * other programs take the cores for milliseconds. In an all-reduce all ranks then wait for one.
#   They also wait if ranks begin a call at different moments: that is called **skew**.
#
# Such disturbances only add to the time. So compare the model with each call *at its best*: take
# the shortest of its nine times, each on the rank that took longest. (A rank that comes late finds
# the other's message there already.) Here are these 128 times, sorted.

# %% tags=["nbval-ignore-output"]
def constant(milliseconds):
    return lambda number: milliseconds

names = {n: f"{n} rank{'s' * (n > 1)}" for n in calls}
plot_against(range(1, 129), {names[n]: [1e3 * t for t in sorted(one["best"])]
                             for n, one in calls.items()}, "calls, the quickest first",
             "time of a call (ms)", {names[n]: constant(1e3 * of_call[n]) for n in (2, 4)},
             logarithmic="y", title="128 all-reduces of 4 kB, each the quickest of nine")

# %% [markdown]
# The dashed lines, *theory*, are the model. The farther the dots lie above the line of their
# colour, the more the model leaves out. One rank has nobody to wait for: its line is what a call
# costs without any message. (The model says 0 for it, and a logarithmic axis has no 0.) With fewer
# cores than ranks, ranks may also wait for a core.

# %% [markdown]
# Does Gloo send the two messages that the model counts? Its sources are in C++, but you need not
# read them: bytes tell. Each message of Gloo carries 144 bytes of headers. (They are three headers
# of 48 bytes. Two come from the sender, and one from the receiver.) So a rank that sends one
# message of 4000 bytes, and receives one, sends 4144 bytes.

# %%
messages_guess = predict("One all-reduce of 4 kB on 2 ranks: messages that each rank sends",
                         unit="messages")

# %%
counted = {n: launch(call_costs.count_messages, world_size=n, device="cpu") for n in (2, 4)}

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, the ring of part 02c, and Gloo's headers.
messages_guess.compare(2, call_costs.messages_sent(counted[2], "all-reduce", 4000), wire="counted")

# %%
Table(["ranks", "call", "bytes that rank 0 sent", "of them data", "messages"],
      [[n, name, run[name].sent_bytes[0], int(data),
        f"{call_costs.messages_sent(run, name, data):.2f}"]
       for n, run in counted.items()
       for name, data in (("one message", 4000), ("all-reduce", 2 * (n - 1) / n * 4000))])

# %% [markdown]
# Gloo sends twice as many messages as your ring: four from each of two ranks. It cuts every chunk
# in two, so that one half can be added while the other one travels, says [its
# source](https://github.com/pytorch/gloo/blob/main/gloo/allreduce.cc). For large tensors that can
# save time. For small ones it costs messages.

# %% [markdown]
# Do messages that travel *at the same moment* cost extra time? In the model they do not. Compare
# three ways. In each of them two messages follow each other, so the model says nearly the same:
#
# * the message there and back of part 02e: **2** messages in all;
# * the lab's ring on two ranks: **4** messages, two at a time;
# * Gloo's all-reduce on two ranks: **8** messages, four at a time.
#
# The table also shows the threads of a rank. One thread of Gloo listens to the network. A
# collective involves a second thread, the one that executes it. A thread *sleeps* until the one
# before it is done. Then the operating system wakes it, and that takes time.

# %% tags=["nbval-ignore-output"]
pairs = launch(call_costs.side_by_side, world_size=2, device="cpu").values
messages = {"there and back": 2, "the lab's ring": 4, "Gloo's all-reduce": 8}
of_model = dict.fromkeys(messages, of_call[2]) | {"there and back": 2 * (alpha + 4000 / B)}
print(call_costs.describe_calls(pairs, cores))
Table(["", "messages", "sleeps of a rank", "model", "quickest call", "average call",
       "CPU time / cores"], call_costs.rows_of_calls(pairs, messages, of_model, cores))

# %% [markdown]
# The last column is the CPU time of both ranks, divided by the number of cores. On the average,
# calls cannot be quicker than that. The quickest call is no fair measure: if the other rank is
# ahead, its message is there already. So the printed lines compare averages.

# %% [markdown]
# The printed lines say what this run has found:
#
# * If both rings clearly take longer than there and back, then messages of the same moment are not
#   free. A network's link carries one message each way at a time. Here no wire carries them: cores
#   do the work of both. (The lab's ring also pays for Python, which begins each of its messages.)
# * If the cores compute for most of the time, their work decides. If not, look at what else runs.
#   On a quiet machine the rest is threads that wake each other.

# %% [markdown]
# In both cases $\alpha$ is no property of a wire here. It is the time that programs need to send,
# to wake and to receive. The **LogP** model ([Culler and others,
# 1993](https://doi.org/10.1145/155332.155333)) gives that its own letter. Beside the latency L it
# has an *overhead* o: what a message costs the processor.
#
# What can you do about it? Make fewer calls: section 3.

# %% [markdown]
# ## 2 · Two bandwidths
#
# For large tensors, $\alpha$ does not matter. How fast is an all-reduce then? NCCL's benchmarks,
# [nccl-tests](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md), report two
# numbers. If an all-reduce of $S$ bytes takes $t$ seconds on $n$ ranks:
#
# * the **algorithm bandwidth** is $S/t$. It tells you how long your tensor will take;
# * the **bus bandwidth** is $2\,\frac{n-1}{n}\,\frac{S}{t}$. This is what each rank has to send,
#   divided by the time. Where ranks do the adding, you can compare it with the speed of a link, and
#   with other $n$.
#
# If $S$ is the whole tensor of a reduce-scatter or an all-gather, the factor is $\frac{n-1}{n}$,
# for a broadcast 1.

# %% [markdown]
# **On GPUs**, run them before a job: `all_reduce_perf -b 8 -e 8G -f 2 -g 8` takes 8 bytes to 8 GB
# on the 8 GPUs of a machine, and doubles each time. Compare the column *busbw* of the large sizes
# with the speed of NVLink, and machine with machine. To test network cards and cables, run it over
# MPI on pairs of machines (`-g 1` in each process): a slow card is in each slow pair.

# %% tags=["cover", "nbval-ignore-output"]
large = [2_000_000, 4_000_000, 8_000_000, 16_000_000]
alone = launch(message_costs.one_message, large, world_size=2, device="cpu").values[0]
summed = {n: message_costs.fastest_round(launch(
    message_costs.time_rounds, message_costs.sum_up, large, 15, world_size=n, device="cpu"
).values) for n in (2, 4)}

speed = message_costs.gigabytes_per_second
plot_bars([f"{size / 1e6:g} MB" for size in large], {
    "one message": speed(large, alone),
    "2 ranks, bus and algorithm": speed(large, summed[2]),
    "4 ranks, bus": speed(large, summed[4], 2 * 3 / 4),
    "4 ranks, algorithm": speed(large, summed[4]),
}, "bandwidth (GB/s)", title="Bandwidth of all-reduces on this machine")

# %% [markdown]
# On two ranks the factor is 1, so both bandwidths are the same. By the model, an all-reduce on two
# ranks would have the bandwidth of one message, because each message of the ring goes from one rank
# to the other, too. What else takes time? No clock can be put inside Gloo's C++, so take a ring on
# two ranks apart, written by hand. Each rank sends one half and receives the other, adds, and
# exchanges the sum. The same calls also send one half alone.

# %% tags=["nbval-ignore-output"]
rounds = launch(message_costs.anatomy, int(megabytes * 1e6), world_size=2, device="cpu").values[0]
print(message_costs.describe_anatomy(rounds))
parts = message_costs.typical_round(rounds)
Table(["part", "time", "share of all"],
      [[name, f"{1e3 * t:.2f} ms", f"{t / parts['all']:.0%}"] for name, t in parts.items()],
      title=f"An all-reduce of {megabytes:g} MB by hand on two ranks, in the median round")

# %% [markdown]
# A message on one machine is copied twice: the sender copies it into memory of the operating
# system, and the receiver copies it out. While two messages travel both ways, the same two
# processes have twice as much to copy. The first printed line says what that costs in the middle
# half of 15 rounds. (At 1 times it is free, and at 2 times the messages might as well go one after
# the other.) The model was fitted to one message at a time, so it knows neither this cost nor the
# addition. Gloo's all-reduce sends the same bytes in smaller pieces. What takes its time inside is
# not measured here.

# %% [markdown]
# ## 3 · Buckets
#
# Section 1 has shown what one call for each small gradient costs. The remedy is to pack small
# tensors into one large one: a **bucket**. DDP does that (part 03c).

# %% [markdown]
# ### Exercise {{all_reduce_buckets}} · All-reduce tensors in buckets
#
# Write `all_reduce_buckets(tensors, bucket_bytes, group=None)` in
# [labs/collectives.py](../labs/collectives.py). It adds up each of the tensors in place, and
# returns nothing. Each bucket is summed by your `all_reduce_ring`, one bucket after the other. The
# tensors are contiguous, have one dtype and any shapes. There may be none. The list stays as it is.
#
# A bucket takes the tensors in their order, for as long as they fit into `bucket_bytes`. A bucket
# may be exactly full. A tensor that is larger than `bucket_bytes` has a bucket of its own, as a
# whole. Once a bucket is closed, it takes no more. For example, with `bucket_bytes` 100 and tensors
# of 60, 40, 20, 300 and 10 bytes, the buckets have 100, 20, 300 and 10 bytes.

# %%
check("{{all_reduce_buckets}}")

# %% [markdown]
# Now 512 tensors of 4 kB, with the lab's ring on two ranks. Together they have 2 MB. How large
# should a bucket be? The model counts two messages for each bucket.

# %% tags=["nbval-ignore-output"]
all_reduce_buckets, total = lab("collectives").all_reduce_buckets, 512 * 4000
bucket_sizes = [4000 * 2**k for k in range(10)]
packed = launch(call_costs.time_buckets, all_reduce_buckets, bucket_sizes, world_size=2,
                device="cpu").values[0]
expected = [
    message_costs.predict_sequential_time(2 * total / size, size / 2, alpha, B)
    for size in bucket_sizes
]
plot_against(bucket_sizes, {"512 tensors": [1e3 * t for t in packed]}, "bytes of a bucket",
             "time (ms)", {"512 tensors": [1e3 * t for t in expected]}, logarithmic=True,
             title="512 tensors of 4 kB, in buckets, on two ranks")

# %% tags=["nbval-ignore-output"]
print(f"from 4 to 64 kB: {1e3 * (packed[0] - packed[4]):.0f} ms saved; "
      f"from 64 kB to 2 MB: {1e3 * (packed[4] - packed[-1]):.0f} ms more")

# %% [markdown]
# Each doubling of a bucket halves the number of calls, so that the first doublings save most of
# them, and the last ones few. A bucket need not hold everything, and it had better not. It has a
# price that this picture does not show: a bucket can only be sent when its last gradient is there
# (part 03c).
#
# The dashed line counts messages and their bytes. It leaves out what a call costs beside them:
# Python, and threads that wake each other (section 1). Nor does it count that tensors are copied
# into the bucket and out of it, and that the ring adds.

# %% [markdown]
# ## 4 · One flat tensor, and coalesced calls
#
# PyTorch has two more ways to save copies and calls. The first one is for an all-gather.
# `dist.all_gather` fills a *list* with one tensor for each rank. Most programs want one long tensor
# and join the list, which copies everything once more. `dist.all_gather_into_tensor` fills the long
# tensor at once, and `dist.reduce_scatter_tensor` takes one. (PyTorch 2.13 calls them
# `all_gather_single` and `reduce_scatter_single`, and warns of the old names. The lab
# [collectives_called](../labs/collectives_called.py) takes the name that exists.)
#
# Four ranks gather 1 MB from each. Sent bytes and memory are in sizes of the result:

# %% tags=["nbval-ignore-output"]
called = lab("collectives_called")
gathers = launch(called.measure_gathers, 250_000, world_size=4, device="cpu")
print("the same result:", all(gathers.values))
Table(["", "bytes sent", "memory", "fastest round"],
      called.rows_of_ways(gathers, unit=4_000_000, own=1_000_000))

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Which way was faster, in rounds in turn.
listed, flat = (gathers[name].rounds for name in called.GATHERS)
print(f"the flat call, compared with the list: {compare_rounds(flat, listed)}")

# %% [markdown]
# Both send the same bytes. The list needs twice the memory of the result, because for a moment the
# list and the joined tensor both exist. So the flat call saves memory and a copy. Whether it saves
# time, the printed line says, which compares all rounds in pairs: the fastest round alone is partly
# luck when ranks share cores. It holds for Gloo and not for NCCL. Chapter 06 gathers a model's
# parameters in every step, and takes the flat call because of the memory.
#
# A flat call wants shards of equal length. Shards of a real model rarely are, so each one is
# *padded* to the longest:

# %% [markdown]
# ### Exercise {{gather_uneven}} · All-gather uneven shards in one flat call
#
# In [labs/collectives_called.py](../labs/collectives_called.py), write `gather_uneven(shard,
# lengths, group=None)`. `lengths` is a list, the same on all ranks: the shard of the group's rank k
# has `lengths[k]` numbers, and there may be none. `shard` has one dimension, and one dtype on all
# ranks. Return a new tensor with all shards, one after another, without any padding. `shard` and
# `lengths` stay as they are.
#
# Make one call, an all-gather of shards that are padded to the longest length. The lab's
# `all_gather_flat(result, x, group=group)` is the flat one, under the name that exists here. For
# example, rank 0 has [5, 6, 7], rank 1 has [8], and `lengths` is [3, 1]. Both return [5, 6, 7, 8].

# %%
check("{{gather_uneven}}")

# %% [markdown]
# The second way is for many small calls. Begin them all with `async_op=True` (part
# [02](02_collectives.ipynb)), or let PyTorch put them together, **coalesced**: under
# `torch.distributed.distributed_c10d._coalescing_manager()`, calls of one kind are only noted, and
# made together at the end. Its name begins with `_`, so it may change. The public
# `dist.all_reduce_coalesced` warns that it will go. Here are 64 all-reduces of 4 kB on two ranks.
# Headers tell the number of messages, as in section 1:

# %% tags=["nbval-ignore-output"]
small = launch(called.measure_small_sums, world_size=2, device="cpu")
Table(["64 all-reduces of 4 kB", "messages of rank 0", "fastest round", "median round"],
      called.rows_of_small_sums(small, 64 * 4000, call_costs.HEADERS))

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Which way was faster, in nine rounds in turn.
of = {name: small[name].rounds for name in called.WAYS}
one, *others = of
print(f"compared with {one}:")
for name in others:
    print(f"    {name}: {compare_rounds(of[name], of[one])}")

# %% [markdown]
# Beginning all calls does not change the messages: 4 for each call. Over Gloo, at this version,
# coalesced calls become one all-reduce of a bucket, with as many messages as the bucket that you
# pack yourself. The sums are the same in all four ways.
#
# `dist.batch_isend_irecv` is the public way to put *messages* together. Over Gloo it begins them
# one by one, as PyTorch's code shows (`supports_coalescing` is False there). **On GPUs** NCCL
# [groups](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/groups.html) calls
# between `ncclGroupStart` and `ncclGroupEnd`, and launches them together.

# %% [markdown]
# **On GPUs.** NCCL predicts, too. [Its
# source](https://github.com/NVIDIA/nccl/blob/5067397c2676d5aed50042fc39e5c8ee96eb0027/src/graph/tuning.cc)
# (version 2.30) has a table of latencies and bandwidths. For each size, it takes the algorithm and
# the protocol with the shortest time. A **protocol** is the way in which a receiver learns that
# data have come. With LL, a sign travels beside every 4 bytes. With LL128 it travels once in 128
# bytes. With Simple it comes after a large piece.
#
# A step of a ring over NVLink counts 0.6 µs with LL, 1.9 with LL128 and 3.4 with Simple. But LL is
# counted with half of the bandwidth at most, LL128 with 92 %. Each call costs 7, 14 or 8 µs on top.

# %% [markdown]
# NCCL's algorithms for an all-reduce are rings, trees, and sums inside a switch: NVLS over NVLink,
# CollNet over InfiniBand. For all-gather and reduce-scatter it also has PAT, says [its
# documentation](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html) under
# `NCCL_ALGO`. AMD's library is [RCCL](https://rocm.docs.amd.com/projects/rccl/en/latest/what-is-rccl.html),
# with rings and trees; PyTorch's backend on ROCm is [still
# called](https://docs.pytorch.org/docs/stable/notes/hip.html) `nccl`.
#
# Two more differences on GPUs:
#
# * A call returns when its kernel is queued on a **stream**. Synchronize before you read a clock.
# * NCCL's kernels run on parts of the GPU that could compute meanwhile. `NCCL_MAX_CTAS` limits how
#   many. More of them may be faster, says its documentation.

# %% [markdown]
# NCCL has two newer mechanisms, which were not measured here either.
#
# **Symmetric memory** (since [2.27](https://github.com/NVIDIA/nccl/releases/tag/v2.27.3-1)): all
# ranks register a buffer at the same offset. The release notes expect its kernels to gain most for
# small and medium messages. They always add in float32, except for FP8 inside a switch, where it is
# 16 bits.
#
# **Copy engines** (since 2.28) move the data of an all-gather without any kernel, if
# `NCCL_CTA_POLICY=2` [asks for it](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/flags.html).
# They cannot add, so an all-reduce still needs a kernel. In PyTorch 2.13,
# `FSDPModule.set_symm_mem_for_comm()` puts FSDP2's all-gathers into symmetric memory (chapter 06):
# copy engines may be used within a machine, kernels between machines, says its docstring.

# %% [markdown]
# ## Put to the test
#
# What our sources say about the time of collectives, and what was found in this part.

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Statements of the sources, and what was found.
by_formula, took = 128 * 4000 / B, sum(calls[2]["best"])  # seconds of 128 calls on 2 ranks
reached = speed(large, summed[2])[-1]
put_to_the_test(f"""
- [C041] A ring takes 2 (N - 1) X / (N B) | CS 229S, “Ring All-reduce Efficiency Analysis” |
  {"imprecise" if took > 2 * by_formula else "right here"} | it leaves latencies out: by the
  formula, 128 calls of 4 kB on 2 ranks take {1e3 * by_formula:.2f} ms, and each at its best they
  took {1e3 * took:.1f} ms (section 1, table). By the formula, {large[-1] / 1e6:.0f} MB on 2 ranks
  move at a message's {B / 1e9:.2f} GB/s (section 1, run), and they moved at {reached:.3g} (section
  2, picture): ranks also copy both ways, and add | measured: over Gloo; on GPUs smaller latencies
  are expected. nccl-tests computes its bus bandwidth by this formula, and says that small sizes
  show latency
""")

# %% [markdown]
# **Sources.** *CS 229S, lecture 8* (Stanford).
#
# **To read on.** Hu and others, [Demystifying NCCL](https://arxiv.org/abs/2507.04786), 2025:
# protocols, channels and algorithms, from the source of version 2.19.

# %% [markdown]
# ## What you have learnt
#
# * On one machine, $\alpha$ is the time in which programs send, wake and receive. A model that only
#   counts messages in turn leaves out that messages of the same moment may share cores, and that
#   threads wake each other.
# * Headers tell how many messages a library sends: Gloo's ring sends twice as many as yours.
# * Pack small tensors into **buckets**, or let PyTorch coalesce the calls. A flat all-gather needs
#   half the memory of a joined list.
# * **Algorithm bandwidth** is the tensor's size divided by the time. **Bus bandwidth** is what each
#   rank has to send, divided by the time: compare that with your links.
#
# **Your exercises**: [labs/collectives.py](../labs/collectives.py) has {{all_reduce_buckets}}, and
# [labs/collectives_called.py](../labs/collectives_called.py) has {{gather_uneven}}.
#
# **Next**: {{next}}.

# %%
progress("02f")
