# %% [markdown]
# # 03e · A server in the middle
#
# **Must gradients be averaged by an all-reduce?** There are other ways to train one model on many
# ranks. One rank can keep the weights and serve all others: a *parameter server*. The others can
# wait for each other, or not wait. Or one process can drive all GPUs: `DataParallel`. You will
# still meet all three in old code and in some special fields. Here you measure what each one costs,
# and see why DDP is what most people use.

# %% [markdown]
# ![Loss after 200 updates over the learning rate, for gradients that are zero, one, two and four
# updates old. The older the gradients, the smaller the learning rate at which training
# fails](../assets/covers/03e_a_server_in_the_middle.png)
#
# *Computed in section 4: the same model, the same batches, the same number of updates. The only
# difference is how old the gradients are.*
#
# **After this part you can** say what limits a parameter server, what a stale gradient does to a
# training, and read code that uses `DataParallel`.
#
# **It takes** about 30 minutes, and 30 more for 2 exercises. **It needs**
# [02d · Across machines](02d_across_machines.ipynb) and [03 · Data
# parallel](03_data_parallel.ipynb).

# %% jupyter={"source_hidden": true}
import math
import time
from collections import Counter

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DataParallel
from torch.nn.utils import parameters_to_vector

from pedagogy_lib import (
    Machines, Table, check, close, hint, lab, launch, measure, plot_against, plot_bars, plot_peak,
    predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
world_size = 4
race_seconds = 1.2

# %% tags=["nbval-ignore-output"]
collectives, server = lab("collectives"), lab("parameter_server")
emulated, digits = lab("emulated_data_parallel"), lab("gradient_accumulation").digits()[:2]

# %% [markdown]
# ## 1 · One link for all
#
# If one rank keeps the weights, the others need no optimizer. That is simple. What does it cost?
#
# Rank 0 is the **parameter server**. It has the weights. All other ranks are **workers**. In each
# step a worker *pulls* the weights, computes the gradient of its part of the batch, and *pushes*
# the gradient. The server adds up the gradients and takes a step.
#
# Take weights of 300 kB, and give each rank a machine with a network card of 10 MB/s in each
# direction. One copy of the weights takes 30 ms. There are eight workers. First all of them pull.
# When all have pulled, all of them push.

# %%
exchange_guess = predict("All pulls and then all pushes, with eight workers", unit="ms")

# %%
def pull(x):
    workers = range(1, dist.get_world_size())
    if dist.get_rank() == 0:
        for request in [dist.isend(x, worker) for worker in workers]:
            request.wait()
    else:
        dist.recv(x, 0)

def push(x):
    if dist.get_rank() == 0:
        for worker in range(1, dist.get_world_size()):
            dist.recv(x, worker)
    else:
        dist.send(x, 0)

# %%
def pull_and_push(x):
    pull(x)
    dist.barrier()  # here the workers would compute
    push(x)

ways, exchanges = {"server": pull_and_push, "ring": collectives.all_reduce_ring}, {}
for workers in (1, 2, 4, 8):
    machines = Machines.here([1] * (workers + 1), bytes_per_second=10e6)
    slowed = None if machines else 10e6  # where machines cannot be had, messages are throttled
    exchanges[workers] = launch(server.time_exchanges, ways, 300_000, slowed,
                                world_size=workers + 1, machines=machines, device="cpu")

# %%
for way in ways:
    sent = [f"{nbytes / 300_000:.1f}" for nbytes in exchanges[4][way].sent_bytes]
    print(f"{way:6} with 4 workers: ranks 0 to 4 send", *sent, "copies of the weights")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
took = {way: [1e3 * max(run[way].seconds) for run in exchanges.values()] for way in ways}
exchange_guess.compare(2 * 8 * 30, took["server"][-1], kind="communication")

# %% tags=["nbval-ignore-output"]
plot_against(list(exchanges), took, "workers", "one exchange (ms)",
             {"server": [2 * n * 30 for n in exchanges],
              "ring": [2 * n / (n + 1) * 30 for n in exchanges]},
             title="Links of 10 MB/s: through a server, and round a ring of as many ranks")

# %% [markdown]
# All copies go through the server's one link, and each worker adds two: one to it, one from it. In
# a ring, a further rank adds hardly anything. (With many ranks both are slower than predicted. Each
# message has a latency, and nine processes share the cores of this computer.) `device="cpu"` stands
# in this part where links are slow on purpose or the kernel counts bytes.

# %% [markdown]
# ### Exercise 3.17
#
# Write `exchange_seconds(how, n, X, B)`: the seconds of one exchange on `n` ranks. Every rank has a
# link of `B` bytes per second in each direction, usable in both directions at once. There is no
# latency.
#
# * `how == "server"`: rank 0 is the server. Every other rank pulls `X` bytes. When all have pulled,
#   every one of them pushes `X` bytes.
# * `how == "ring"`: a ring all-reduce of `X` bytes among all `n` ranks (chapter 02b).
#
# For 3 ranks, 6 bytes, and 2 bytes per second: 12 s with the server, 4 s with the ring.

# %%
def exchange_seconds(how, n, X, B):
    ### BEGIN SOLUTION
    if how == "server":
        return 2 * (n - 1) * X / B
    return 2 * (n - 1) / n * X / B
    ### END SOLUTION

check("3.17", exchange_seconds)

# %% [markdown]
# A server can be divided. Give each of the $n$ ranks one $n$-th of the weights to serve, $X/n$
# bytes. A rank then pulls the other $n-1$ parts, and receives $n-1$ gradients for its own part. Its
# link carries $\frac{n-1}{n}X$ twice in each direction: exactly what the ring carries.
#
# You know these two exchanges. Adding up each part on its owner is a **reduce-scatter**. Sending
# the parts to everybody is an **all-gather**. If the owner also keeps the optimizer's state of its
# part, this is ZeRO ([chapter 06](06_zero_and_fsdp.ipynb)). So the bottleneck is not the idea of a
# server. It is *one* server.

# %% [markdown]
# ## 2 · Sending is not waiting
#
# A server that adds up the gradients of all workers has to wait for the last one. So does an
# all-reduce, and so does DDP. This is called **bulk-synchronous parallel** (BSP): a step ends when
# the slowest rank has come. A rank that is much slower than the others is a **straggler**. No
# faster link shortens the waiting.
#
# In a profile both are time in the collective. A barrier *before* the collective separates them.
# Time in the barrier is waiting. Time in the collective is then sending.
#
# Four ranks: three need 10 ms for a gradient, the last one 50 ms. (They sleep for so long.) How
# long does rank 0 wait in each step?

# %%
wait_guess = predict("Rank 0 waits in each step", unit="ms")

# %%
def compute_wait_send(milliseconds, nbytes, rounds=8):
    x = torch.zeros(nbytes // 4)
    for _ in range(rounds):
        time.sleep(milliseconds[dist.get_rank()] / 1e3)  # in place of computing
        with measure("waiting", memory=False):
            dist.barrier()
        with measure("sending", memory=False):
            dist.all_reduce(x)

paces = [10] * (world_size - 1) + [50]
apart = launch(compute_wait_send, paces, 4_000_000, world_size=world_size, device="cpu")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
spent = {what: server.typical_ms(apart, what) for what in ("waiting", "sending")}
wait_guess.compare(40, spent["waiting"][0], kind="communication")

# %% tags=["nbval-ignore-output"]
plot_bars([f"rank {rank} ({pace} ms)" for rank, pace in enumerate(paces)], spent,
          "a step's time (ms)", title="The straggler waits for nobody; all others wait for it")

# %% [markdown]
# The fast ranks wait for the slow one. All ranks send for about equally long. A better network
# would shorten one kind of bar and leave the other.
#
# **On GPUs.** A collective of NCCL usually returns to Python before it has run, so a clock around
# it measures nothing. `dist.barrier` is an exception: with NCCL it blocks the CPU until it is done,
# says [PyTorch's documentation](https://docs.pytorch.org/docs/stable/distributed.html). Around
# other collectives, call `torch.cuda.synchronize()` before you read the clock, or use CUDA events.

# %% [markdown]
# ## 3 · Nobody waits
#
# Why wait at all? In **asynchronous parallel** training (ASP) the server takes a step along each
# gradient as it comes, and answers that worker at once with new weights. Nobody waits for anybody.
#
# There is a price. While a worker computes, other workers push. When its gradient arrives, the
# weights are no longer those at which it was computed. The gradient is **stale**. Its *staleness*
# is the number of updates that the weights have had in between.
#
# **On GPUs** this server would need another way to receive. It takes the next message of whoever
# sends first. Gloo can do that. NCCL always needs to know the sender: PyTorch's source raises
# “ProcessGroupNCCL does not support recvAnysource”.

# %% [markdown]
# ### Exercise 3.18
#
# In [labs/parameter_server.py](../labs/parameter_server.py), write
# `serve_as_they_come(model, optimizer, is_over)`, the asynchronous server. `serve_together` and
# `work`, the worker, stand beside it: read them first.
#
# At the start, send `order_of(model, True)` to every worker. Then repeat: receive one gradient from
# whoever comes first (`worker = dist.recv(gradient)`); take a step along it (`take_step`); ask
# `is_over(updates so far)`; answer this worker with `order_of(model, going_on)`. A worker that gets
# `going_on = False` pushes no more. When it is over, each other worker still pushes once; step, and
# answer with False, too. Return the staleness of each gradient, in the order of the updates.
#
# *Example.* Two workers. Worker 1 pushes, is answered, pushes again; then worker 2 pushes. Return
# `[0, 0, 2]`.

# %%
check("3.18")

# %% [markdown]
# Now three workers learn handwritten digits with this server. Two of them need 10 ms for a
# gradient, the third 50 ms. The gradients, messages and updates are real. How stale is a gradient
# on average?

# %%
staleness_guess = predict("Mean staleness with three workers", unit="updates")

# %% tags=["nbval-ignore-output"]
rates, races = (0.1, 0.3, 1.0), {}
for way in ("BSP", "ASP"):
    for rate in rates:
        run = launch(server.race, digits, way, rate, race_seconds, (10, 10, 50), world_size=4,
                     device="cpu")
        races[way, rate] = run.values[0]

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
ages = races["ASP", 0.1][0]
staleness_guess.compare(2, sum(ages) / len(ages), kind="gradients")

# %% tags=["nbval-ignore-output"]
counts = Counter(ages)
oldest = range(max(counts) + 1)
plot_bars(oldest, {"gradients": [counts[age] for age in oldest]}, "gradients",
          "staleness: updates since the weights were pulled",
          title="ASP with a straggler: most gradients are young, a few are very old")

# %% [markdown]
# With $w$ workers the mean is $w - 1$, whoever is slow. Count from the other side. At each moment
# every worker has one gradient in the making. When one worker's gradient makes an update, the other
# $w-1$ gradients become older by one. So each update adds $w-1$ to the sum of all staleness, and
# there are as many gradients as updates. (Measured is a little less: at the end, workers stop one
# after the other.)
#
# A straggler does not change the mean. It changes who is stale: its own few gradients are very old,
# the others are fresher. *Break it*: with `(10, 10, 10)` or `(10, 10, 200)` the mean stays, and the
# bars move.

# %% [markdown]
# Who learns faster? ASP takes a step along every gradient. BSP takes one step along the mean of
# three. So at the same learning rate ASP moves further in the same time, and that alone would let
# it win. To be fair, give each way several rates, and compare each one at its best.

# %% tags=["nbval-ignore-output"]
losses = {key: history[-1][1] for key, (_, history) in races.items()}
updates = {way: races[way, 0.1][1][-1][2] for way in ("BSP", "ASP")}
best = {way: min(losses[way, rate] for rate in rates) for way in updates}
Table(["", "updates", *(f"loss at rate {rate:g}" for rate in rates), "its best"],
      [[way, updates[way], *(f"{losses[way, rate]:.2f}" for rate in rates), f"{best[way]:.2f}"]
       for way in updates], title=f"Loss on all training data after {race_seconds:g} s")

# %% tags=["nbval-ignore-output"]
gap = {"at rate 0.1": losses["BSP", 0.1] / losses["ASP", 0.1],
       "each at its best rate": best["BSP"] / best["ASP"]}
for case, ratio in gap.items():
    ahead = "about equal" if 0.9 < ratio < 1.1 else "ASP is ahead" if ratio > 1 else "BSP is ahead"
    print(f"{case}: BSP's loss is {ratio:.1f} times ASP's; {ahead}")

# %% [markdown]
# BSP gains from a larger rate; ASP fails at the largest one. So a comparison at one rate proves
# nothing: whoever picks the rate picks the winner. Here the straggler is five times slower than the
# others, which is much. BSP pays for that in every update.
#
# In the table, three things change together: the number of updates, the size of a step, and
# staleness. To see what staleness alone does, we need an experiment in which nothing else changes.

# %% [markdown]
# ## 4 · What an old gradient does
#
# No race and no clock is needed for that. Keep the last few versions of the weights, and compute
# each gradient at an old one. Begin with one weight $w$ and the loss $w^2/2$. Its gradient is $w$
# itself. Start at $w = 1$ with learning rate 1.
#
# * Fresh: $1 - 1 = 0$. One step, and we are at the minimum.
# * One update old: the second step still uses the gradient at $w = 1$, so it goes on to $-1$.

# %%
def descend(staleness, rate, steps):
    w = [1.0]
    for step in range(steps):
        gradient = w[max(0, step - staleness)]  # of w² / 2, at an old w
        w.append(w[-1] - rate * gradient)
    return w

for staleness in (0, 1, 2):
    print(f"{staleness} updates old:", *(f"{w:.0f}" for w in descend(staleness, 1, 14)))

# %% [markdown]
# With gradients one update old, $w$ walks round and round for ever. With gradients two updates old
# each swing is larger than the one before. The step was right when it was computed. When it
# arrives, $w$ has already crossed the minimum.
#
# A smaller learning rate helps. Fresh gradients allow a rate up to 2 here. Gradients one update old
# allow up to 1, as you have just seen. What do gradients two updates old allow?

# %%
rate_guess = predict("Largest stable rate with gradients two updates old", unit="(fresh: 2)")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was tried out.
stable = {age: server.largest_stable_rate(descend, age) for age in (0, 1, 2, 4)}
theory = {age: 2 * math.sin(math.pi / (4 * age + 2)) for age in stable}
rate_guess.compare(theory[2], stable[2], kind="gradients")

# %%
for age, rate in stable.items():
    print(f"{age} updates old: tried {rate:.2f}, formula {theory[age]:.2f}")

# %% [markdown]
# The formula for gradients that are $k$ updates old is $2 \sin \frac{\pi}{4k+2}$. For a large $k$
# it is about $\pi / 2k$: twice as stale, half the rate. (For a loss of curvature $h$, divide by
# $h$.)
#
# A network is no parabola. Does it behave like one? Here is the classifier of section 3 with the
# same loop: 200 updates, and the same 64 images in each update for every line of the picture. All
# is computed in one process, and every run gives the same numbers.

# %%
batches = list(server.batches_of(digits, 200))

def train_with_old_gradients(model, staleness, rate):
    weights = [parameters_to_vector(model.parameters()).detach()]
    for step, batch in enumerate(batches):
        old = weights[max(0, step - staleness)]
        gradient = server.gradient_at(model, old, batch)
        weights.append(weights[-1] - rate * gradient)
    return weights[-1]

# %% tags=["cover", "nbval-ignore-output"]
tried = [0.1, 0.2, 0.5, 1.0, 2.0]
ends = {age: [server.typical_loss(train_with_old_gradients, digits, age, rate) for rate in tried]
        for age in (0, 1, 2, 4)}
names = {0: "fresh", 1: "1 update old", 2: "2 updates old", 4: "4 updates old"}
plot_against(tried, {names[age]: loss for age, loss in ends.items()}, "learning rate",
             "loss after 200 updates", logarithmic=True,
             title="The older the gradients, the smaller the rate at which training fails")

# %% tags=["nbval-ignore-output"]
fails = {age: [rate for rate, loss in zip(tried, ends[age]) if loss > 2] for age in ends}
for age, at in fails.items():
    print(f"{names[age]:14} loss at rate 1: {ends[age][3]:6.3f}; no better than guessing at rates:",
          ", ".join(f"{rate:g}" for rate in at) or "none of these")

# %% [markdown]
# At the smallest rate all four lines meet: old gradients are as good as fresh ones, since the
# weights hardly move in between. At rate 1 fresh gradients learn well, and gradients two updates
# old learn nothing. (Guessing gives $\ln 10 = 2.3$.) Two updates old is what three asynchronous
# workers have on average; 64 workers have 63.
#
# So the notes' sentence that asynchronous training does not get faster is neither right nor wrong.
# It depends on the learning rate. But large models are trained with rates as large as they bear,
# and there staleness hurts most.

# %% [markdown]
# ## 5 · Where servers live
#
# None of these ways is a step on a road that leads to DDP. MPI's standard had an all-reduce in
# 1994. *DistBelief* trained asynchronously with a parameter server in 2012. Large
# models of today are usually trained synchronously. Two reasons you have seen: one link, and stale
# gradients. The third: who pushes first depends on the clock, so no run can be repeated.
#
# Servers and staleness live on where waiting costs more. TensorFlow documents a
# [ParameterServerStrategy](https://www.tensorflow.org/api_docs/python/tf/distribute/ParameterServerStrategy),
# asynchronous by default. Reinforcement learning of language models generates text while it trains.
# [AReaL](https://inclusionai.github.io/AReaL/algorithms/async.html) lets the texts be a few
# versions of the weights old, and limits how many.

# %% [markdown]
# ## 6 · DataParallel: one process, all GPUs
#
# `torch.nn.DataParallel` needs no ranks and no launcher: `model = DataParallel(model)` is all. You
# will meet it in old programs. One process drives all GPUs of a computer, with a thread for each.
# The model lives on GPU 0. In each step GPU 0
#
# 1. *scatters* the inputs,
# 2. *replicates* the weights; then all GPUs compute their forward;
# 3. *gathers* the outputs, and computes the loss,
# 4. *scatters* the gradients of the outputs; then all compute their backward;
# 5. *reduces* the gradients of the weights: adds them up. Then it takes the step.
#
# Without GPUs it just calls the model. So [the lab](../labs/emulated_data_parallel.py) emulates the
# five exchanges with a process in place of each GPU.

# %%
five_batches = emulated.some_batches(digits)
emulation = launch(emulated.train, five_batches, world_size=world_size, device="cpu")
same = close(emulation.values[0], emulated.train_alone(five_batches), steps=5)
print(f"{world_size} ranks equal one process, but for rounding:", same)

# %%
model_bytes = 8 * len(emulation.values[0])
Table(["sent in a step, in copies of the model", "rank 0", "any other, at most"],
      [[what, *(f"{nbytes / 5 / model_bytes:.2f}" for nbytes in (first, max(others)))]
       for what in emulated.EXCHANGES for first, *others in [emulation[what].sent_bytes]])

# %%
plot_peak(emulation, "step", title="DataParallel, emulated: rank 0 has more to hold")

# %% [markdown]
# Five exchanges, but not five times the bytes: weights out and gradients back are nearly all of
# them. Rank 0 has the optimizer's state and the whole batch. Of equal GPUs, GPU 0 is full first. It
# is a parameter server again, and one that computes, too. (Who sends how much of the weights is
# Gloo's choice: it broadcasts along a tree.)

# %% [markdown]
# **On GPUs.** The real one packs small tensors into buffers of 10 MB, as one tensor here. Within
# one process it uses NCCL's broadcast and reduce if it can, or else copies between the GPUs (read
# in `torch/nn/parallel/comm.py` of PyTorch 2.13). Its
# [documentation](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html)
# recommends DDP instead, “even if there is only a single node”.

# %% tags=["nbval-ignore-output"]
print("GPUs that DataParallel finds here:", DataParallel(nn.Linear(1, 1)).device_ids)
if torch.cuda.device_count() > 1:
    real = launch(emulated.train_with_the_real_one, five_batches, world_size=1).values[0]
    print("the real one equals one process:", close(real, emulation.values[0], steps=5))

# %% [markdown]
# One process also means one Python. In the usual builds of Python only one thread at a time runs
# Python code: the one that holds the **global interpreter lock** (GIL). PyTorch lets go of the lock
# while it computes. ([Free-threaded builds](https://docs.python.org/3/howto/free-threading-python.html),
# from Python 3.13 on, have no such lock.)
#
# Take two equal jobs, and count how many cores they use at the same time: their CPU seconds divided
# by the seconds on the clock. Two means side by side, one means in turn. (Of eight rounds the best
# one counts. Other programs take cores away, and give none.)

# %% tags=["nbval-ignore-output"]
cores = {}
for job in (emulated.python_work, emulated.torch_work):
    threads = launch(emulated.clock, emulated.in_two_threads, job, world_size=1, device="cpu")
    processes = launch(emulated.clock, emulated.do, job, world_size=2, device="cpu")
    cores[job.__name__] = emulated.most_cores(threads), emulated.most_cores(processes)
Table(["two jobs of", "cores in two threads", "cores in two processes"],
      [[job, *(f"{count:.2f}" for count in pair)] for job, pair in cores.items()])

# %% tags=["nbval-ignore-output"]
for job, (in_threads, _) in cores.items():
    print(job, "in threads:", "in turn" if in_threads < 1.2 else "side by side, at least partly")

# %% [markdown]
# Two threads of Python code never use more than one core. Threads of PyTorch and processes can use
# two, if two are free. A training step is a mixture of both kinds. The smaller the layers, the
# larger the share of Python. So the lock is one reason to have a process for each GPU. The other
# reasons stand above: the bytes and the memory of GPU 0, and weights that travel anew in each step.

# %% [markdown]
# ## 7 · DataParallel or DDP, in eight rows
#
# A web note compares the two in eight rows. One row says that `DataParallel` has “better”
# performance “for smaller models”. So we time a step of each, for three sizes of a model. This
# compares the *exchanges* of both over Gloo, with two processes each. It cannot tell how long the
# real `DataParallel` takes, with its threads and its copies between GPUs.

# %% tags=["nbval-ignore-output"]
batch = emulated.some_batches(digits, count=1)[0]
contests = {width: launch(emulated.both, batch, width, world_size=2, device="cpu")
            for width in (10, 1000, 10_000)}
slower = {width: emulated.seconds_of(run, "DataParallel") / emulated.seconds_of(run, "DDP")
          for width, run in contests.items()}
for width, ratio in slower.items():
    print(f"width {width}: a step with the five exchanges takes {ratio:.1f} times as long as DDP's")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# The eight rows of the note, beside what this course has seen.
larger = launch(emulated.both, batch, 1000, world_size=world_size, device="cpu")
sent = emulated.copies_sent(larger, model_bytes)
Table(["", "DataParallel", "DDP", "seen here"],
      emulated.eight_rows(cores["python_work"], slower, sent, emulation, model_bytes))

# %% [markdown]
# ## Put to the test
#
# What the sources say about servers, waiting and `DataParallel`, and what was found here.

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
fast = launch(server.time_exchanges, ways, 4_000_000, world_size=4, device="cpu")
bsp, asp = races["BSP", 0.1], races["ASP", 0.1]
optimizer_state = [peak["optimizer_state"] / model_bytes for peak in emulation["step"].peak_bytes]
peaks = [f"{peak['total'] / 1e6:.2f} MB" for peak in emulation["step"].peak_bytes[:2]]
times = ", ".join(f"{ratio:.1f}" for ratio in slower.values())

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
text = f"""
- [C080] ASP: nobody waits, weights are stale, and training gets no faster | handwritten notes,
  “Synchronization Approaches” | depends | fresh and 2 updates old after 200 updates: loss
  {ends[0][0]:.2f} and {ends[2][0]:.2f} at rate {tried[0]:g}, {ends[0][3]:.2f} and
  {ends[2][3]:.2f} at rate 1 (section 4). In the race, each at its best rate: {best["ASP"]:.2f}, BSP
  {best["BSP"]:.2f}
- [C067] DataParallel averages gradients on the CPU or on one GPU | web note, “Data Parallel” |
  wrong | it adds them up on GPU 0. The loss is one mean over all outputs, so there is nothing to
  average: the emulation equals one process ({same}, section 6)
- [C068] Each GPU keeps a copy of the model; or the model is replicated in each forward |
  handwritten notes, “Data Parallelism”; web note, “Data Parallel” | contradict each other | the
  second is right: torch.nn.parallel.replicate runs in each forward (read in its source)
- [C066] DataParallel makes 5 exchanges for each batch, DDP one | web note, “Conclusion” | depends |
  5, as emulated. If each replica computes its loss, exchanges 3 and 4 carry a number each. All
  ranks send {sum(sent["DataParallel"]):.1f} copies of the model, with DDP {sum(sent["DDP"]):.1f}
- [C075] DataParallel is better for smaller models, and best on one node | web note, “Data
  Parallel” | no evidence | its exchanges over Gloo take {times} times DDP's step, from small to
  large. The real one was not timed here; PyTorch's DDP tutorial calls it usually slower, even on
  one machine
- [C073] The biggest problem of DataParallel is the GIL | handwritten notes, “Data Parallelism” |
  depends | two threads use {cores["python_work"][0]:.1f} cores in Python code,
  {cores["torch_work"][0]:.1f} in PyTorch (section 6). GPU 0's bytes and memory are problems, too
- [C072] Workers push and pull gradients at the same time | blog, “Data Parallelism” | imprecise |
  weights are pulled, gradients pushed; and with BSP the next pull waits for the last push
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
put_to_the_test(text, more=f"""
- [C071] All workers share the link of one server, which becomes the bottleneck | blog, “Data
  Parallelism” | right | 8 workers on links of 10 MB/s: {took["server"][-1]:.0f} ms, a ring
  {took["ring"][-1]:.0f} ms (section 1). In one computer no link is shared: 4 MB on 4 ranks take
  {1e3 * max(fast["server"].seconds):.1f} and {1e3 * max(fast["ring"].seconds):.1f} ms
- [C079] BSP has no stale weights, but all wait for the slowest | handwritten notes,
  “Synchronization Approaches” | right | staleness {max(bsp[0])}; with a straggler of 50 ms an
  update takes {1e3 * bsp[1][-1][0] / updates["BSP"]:.0f} ms, with ASP
  {1e3 * asp[1][-1][0] / updates["ASP"]:.0f} ms (section 3)
- [C096] Two challenges: overhead of communication and of synchronisation | CS 229S, “Parallelism is
  necessary to train and serve LLMs at scale” | right | two things, measured apart by a barrier:
  rank 0 waits {spent["waiting"][0]:.0f} ms and sends for {spent["sending"][0]:.1f} ms (section 2)
- [C069] GPU 0 works and holds more than the others | web note, “Conclusion”; blog, “Data
  Parallelism” | right | peaks of ranks 0 and 1, emulated: {", ".join(peaks)} (section 6)
- [C070] GPU 0 is like a parameter server, with the optimizer's state | blog, “Data Parallelism” |
  right, as an analogy | in copies of the model: rank 0 has {optimizer_state[0]:.0f}, rank 1
  {optimizer_state[1]:.0f}. But GPU 0 computes, too
- [C077] DDP has lower overhead than DataParallel, and works on several machines | handwritten
  notes, “How to solve” | right | bytes of the busiest rank: {max(sent["DDP"]):.1f} copies, not
  {max(sent["DataParallel"]):.1f}; two machines in part 03d
- [C074] PyTorch recommends DDP, even on one node | web note, “Conclusion” | right | the warning in
  the documentation of torch.nn.DataParallel
""")

# %% [markdown]
# **Sources.** *CS 229S, lecture 8* (Stanford); *The Evolution of Data Parallelism* (blog); a web
# note on types of distributed training; handwritten notes on training optimization. PyTorch's
# [DDP tutorial](https://docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html) compares
# `DataParallel` and DDP. MPI 1.0, 1994, is told of in
# [its readme](http://www.netlib.org/mpi/readme).
#
# **To read on.** Dean et al., *Large Scale Distributed Deep Networks*, 2012: DistBelief. Li et al.,
# *Scaling Distributed Machine Learning with the Parameter Server*, 2014. Zhang et al.,
# [*Staleness-aware Async-SGD*](https://arxiv.org/abs/1511.05950), 2015: a learning rate that falls
# with staleness.

# %% [markdown]
# ## What you have learnt
#
# * **One server** has one link, and all copies go through it. A server divided over all ranks sends
#   what a ring sends.
# * **Waiting** and **sending** are two costs. A barrier before the collective tells them apart.
# * Without waiting, gradients are **stale**: by $w - 1$ updates on average with $w$ workers. The
#   staler they are, the smaller the largest learning rate.
# * Tune **each** way before you compare two.
# * `DataParallel` is a server on GPU 0, in one Python process. PyTorch recommends DDP.
#
# **Your exercises**: one in a cell above, and
# [labs/parameter_server.py](../labs/parameter_server.py).
#
# **Next**: [03f · Fewer bytes](03f_fewer_bytes.ipynb).

# %%
progress("03e")
