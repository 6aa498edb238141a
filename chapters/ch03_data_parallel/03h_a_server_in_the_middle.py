# %% [markdown]
# # {{title}}
#
# **Must gradients be averaged by an all-reduce?** There is another way to train one model on many
# ranks. One rank can keep the weights and serve all others: a *parameter server*. The others can
# wait for each other, or not wait. You will still meet both in old code and in some special fields.
# Here you measure what each one costs.

# %% [markdown]
# ![Loss after 200 updates over the learning rate, for gradients that are zero, one, two and four
# updates old. The older the gradients, the smaller the learning rate at which training
# fails](../assets/covers/03h_a_server_in_the_middle.png)
#
# *Computed in section 4: the same model, the same batches, the same number of updates. The only
# difference is how old the gradients are.*
#
# **After this part you can** say what limits a parameter server, and what a stale gradient does to
# a training.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import time
from collections import Counter

import torch
import torch.distributed as dist
from torch.nn.utils import parameters_to_vector

from pedagogy_lib import (
    Table, check, compare_rounds, hint, lab, launch, measure, plot_against, plot_bars, predict,
    progress, put_to_the_test,
)

# %% tags=["parameters"]
world_size = 4
race_seconds = 1.2

# %% tags=["nbval-ignore-output"]
collectives, old_gradients = lab("collectives"), lab("old_gradients")
server = lab("parameter_server")
digits = lab("gradient_accumulation").digits()[:2]

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

# %% [markdown]
# ### Exercise {{exchange_seconds}} · Exchange time, server versus ring
#
# Write `exchange_seconds(how, n, X, B)`: the seconds of one exchange on `n` ranks. Every rank has a
# link of `B` bytes per second in each direction, usable in both directions at once. There is no
# latency.
#
# * `how == "server"`: rank 0 is the server. Every other rank pulls `X` bytes. When all have pulled,
#   every one of them pushes `X` bytes.
# * `how == "ring"`: a ring all-reduce of `X` bytes among all `n` ranks (part 02c).
#
# For 3 ranks, 6 bytes, and 2 bytes per second: 12 s with the server, 4 s with the ring.

# %%
def exchange_seconds(how, n, X, B):
    ### BEGIN SOLUTION
    if how == "server":
        return 2 * (n - 1) * X / B
    return 2 * (n - 1) / n * X / B
    ### END SOLUTION

check("{{exchange_seconds}}", exchange_seconds)

# %%
# What the server (rank 0) and its workers really do:
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

ways = {"server": pull_and_push, "ring": collectives.all_reduce_ring}
runs = {workers: server.run_on_slow_links(ways, workers) for workers in (1, 2, 4, 8)}
for way in ways:
    sent = [f"{copies:.1f}" for copies in server.copies_sent(runs[4], way)]
    print(f"{way:6} with 4 workers: ranks 0 to 4 send", *sent, "copies of the weights")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured: the quickest of three rounds.
took = {way: [1e3 * min(run[way].rounds) for run in runs.values()] for way in ways}
theory = server.theory_ms(runs)
exchange_guess.compare(theory["server"][-1], took["server"][-1], kind="communication")

# %% tags=["nbval-ignore-output"]
plot_against(list(runs), took, "workers", "one exchange (ms)", theory,
             title="Links of 10 MB/s: through a server, and round a ring of as many ranks")

# %% [markdown]
# Every worker adds a copy in each direction to the server's one link. In a ring, a link carries
# less than two copies in each direction, however many ranks there are. (Messages have a latency,
# and nine processes share the cores of this computer, so that with many ranks both may take longer
# than predicted.)
#
# The links are slowed down by the operating system, so these ranks run on the CPU, also if you have
# GPUs. That is what `device="cpu"` means in this part.

# %% [markdown]
# A server can be divided. Give each of the $n$ ranks one $n$-th of the weights to serve, $X/n$
# bytes. A rank then pulls the other $n-1$ parts, and receives $n-1$ gradients for its own part. Its
# link carries $\frac{n-1}{n}X$ twice in each direction: exactly what the ring carries.
#
# You know these two exchanges. Adding up each part on its owner is a **reduce-scatter**. Sending
# the parts to everybody is an **all-gather**. If the owner also keeps the optimizer's state of its
# part, this is ZeRO ([chapter 06](06_zero.ipynb)). So the bottleneck is not the idea of a
# server. It is *one* server.

# %% [markdown]
# ## 2 · Sending is not waiting
#
# A server that adds up all gradients has to wait for the last one. So does an all-reduce, and so
# does DDP. This is **bulk-synchronous parallel** training (BSP): a step ends when the slowest rank
# has come. A rank that is much slower than the others is a straggler (00c). No faster link shortens
# the waiting.
#
# In a profile, waiting and sending are both time in the collective. A barrier *before* the
# collective separates them. Time in the barrier is waiting. Time in the collective is then sending.
#
# Three of four ranks need 10 ms for a gradient and the last one 50 ms, for which they sleep here.
# How long does rank 0 wait?

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

# %% tags=["nbval-ignore-output"]
spent = {what: server.typical_ms(apart, what) for what in ("waiting", "sending")}
plot_bars([f"rank {rank} ({pace} ms)" for rank, pace in enumerate(paces)], spent,
          "a step's time (ms)", predicted={"waiting": [max(paces) - pace for pace in paces]},
          title="The straggler waits for nobody; all others wait for it")

# %% [markdown]
# The fast ranks wait for the slow one: 50 − 10 = 40 ms. (What is left for the straggler is the
# barrier's own cost.) All ranks send equally much. A faster network would shorten one kind of bar
# and leave the other.
#
# **On GPUs.** A collective of NCCL usually returns to Python before it has run, so a clock around
# it measures nothing. `dist.barrier` is an exception: with NCCL it blocks the CPU until it is done,
# says [PyTorch's documentation](https://docs.pytorch.org/docs/stable/distributed.html). Around
# other collectives, call `torch.cuda.synchronize()` before you read the clock, or use CUDA events.

# %% [markdown]
# ## 3 · Nobody waits
#
# Why wait? In **asynchronous parallel** training (ASP) the server takes a step along each gradient
# as it comes, and answers that worker at once with new weights. Nobody waits for anybody.
#
# There is a price. While a worker computes, other workers push. When its gradient arrives, the
# weights are no longer those at which it was computed. The gradient is **stale**. Its *staleness*
# is the number of updates that the weights have had in between.
#
# **On GPUs** this server would need another way to receive. It takes the next message of whoever
# sends first. Gloo can do that. NCCL always needs to know the sender: PyTorch's source raises
# “ProcessGroupNCCL does not support recvAnysource”.

# %% [markdown]
# ### Exercise {{serve_as_they_come}} · An asynchronous server
#
# In [labs/parameter_server.py](../labs/parameter_server.py), write
# `serve_as_they_come(model, optimizer, is_over)`. `serve_together` and `work`, the worker, stand
# beside it: read them first.
#
# At the start, send `order_of(model, True)` to every worker. Then repeat: receive one gradient from
# whoever comes first (`worker = dist.recv(gradient)`); take a step along it (`take_step`); ask
# `is_over(updates so far)`; answer this worker with `order_of(model, going_on)`. A worker that gets
# `going_on = False` pushes no more. When it is over, each other worker still pushes once: step, and
# answer with False. (You need not ask `is_over` again, but you may.) Return the staleness of each
# gradient, in the order of the updates.
#
# *Example.* Worker 1 pushes twice, then worker 2: return `[0, 0, 2]`.

# %%
check("{{serve_as_they_come}}")

# %% [markdown]
# Now three workers learn handwritten digits with this server. Two of them need 10 ms for a
# gradient, the third 50 ms. The gradients, messages and updates are real. How stale is a gradient
# on average?

# %%
staleness_guess = predict("Mean staleness with three workers", unit="updates")

# %% tags=["nbval-ignore-output"]
rates, races = (0.1, 0.3, 1.0, 3.0), {}
for way in ("BSP", "ASP"):
    for rate in rates:
        run = launch(server.race, digits, way, rate, race_seconds, (10, 10, 50), world_size=4,
                     device="cpu")
        races[way, rate] = run.values[0]

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
ages = races["ASP", 0.1]["staleness"]
staleness_guess.compare(2, sum(ages) / len(ages), kind="gradients")

# %% tags=["nbval-ignore-output"]
counts = Counter(ages)
oldest = range(max(counts) + 1)
plot_bars(oldest, {"gradients": [counts[age] for age in oldest]}, "gradients",
          "staleness: updates since the weights were pulled",
          title="ASP with a straggler: most gradients are young, a few are very old")

# %% [markdown]
# With $w$ workers the mean is $w - 1$, whoever is slow. Count per update instead of per gradient.
# When one worker's gradient makes an update, the gradients of the other $w-1$ workers become older
# by one. So each update adds $w-1$ to the sum of all staleness, and there are as many gradients as
# updates. (Measured is a little less: at the end, workers stop one after the other.)
#
# A straggler does not change the mean. Its own few gradients are very old, the others are fresher.
# *Break it*: with `(10, 10, 10)` or `(10, 10, 200)` the mean stays, and the bars move.

# %% [markdown]
# Who learns faster? ASP takes a step along every gradient. BSP takes one step along the mean of
# three. So at the same learning rate ASP moves further in the same time, and that alone would let
# it win. A comparison at one rate proves nothing, because whoever picks the rate picks the winner.
# So give both ways the same rates, and compare each one at its best. (A best rate at the end of the
# list is not known to be the best: then the list is too short.)

# %% tags=["nbval-ignore-output"]
print(server.who_is_ahead(races, rates))
Table(["", "updates", *(f"loss at rate {rate:g}" for rate in rates), "its best"],
      server.race_rows(races, rates), title=f"Loss on all training data after {race_seconds:g} s")

# %% [markdown]
# The straggler is five times slower than the others, which is much. BSP pays for that in every
# update. And three things change together in this table: the number of updates, the size of a step,
# and staleness. To see what staleness alone does, nothing else may change.
#
# ## 4 · What an old gradient does
#
# No clock is needed for that. Keep the last few versions of the weights, and compute each gradient
# at an old one. Begin with one weight $w$ and the loss $w^2/2$. Its gradient is $w$ itself. Start
# at $w = 1$ with learning rate 1. With a fresh gradient, one step leads to $1 - 1 = 0$: the
# minimum.

# %%
def descend(staleness, rate, steps):
    w = [1.0]
    for step in range(steps):
        gradient = w[max(0, step - staleness)]  # of w² / 2, at an old w
        w.append(w[-1] - rate * gradient)
    return w

for staleness in (0, 1, 2):
    print(f"staleness {staleness}:", *(f"{w:.0f}" for w in descend(staleness, 1, 14)))

# %% [markdown]
# With gradients one update old, $w$ goes on from 0 to −1: the second step still uses the gradient
# at $w = 1$. Then it walks round and round for ever. With gradients two updates old each swing is
# larger than the one before. The step was right for the weights at which it was computed. When it
# arrives, $w$ has already crossed the minimum.
#
# A smaller learning rate helps. Fresh gradients allow a rate up to 2 here. Gradients one update old
# allow up to 1, as you have just seen. And older ones?

# %%
Table(["updates old", "largest stable rate, tried", "2 sin(π / (4k + 2))"],
      old_gradients.stable_rows((0, 1, 2, 4)))

# %% [markdown]
# The formula for gradients that are $k$ updates old is $2 \sin \frac{\pi}{4k+2}{.}$ For a large $k$
# it is about $\pi / 2k$: twice as stale, half the rate. (For the loss $h\,w^2/2{,}$ divide by
# $h{.}$)
#
# A network is no parabola. Does it behave like one? Here is the classifier of section 3 with the
# same loop: 200 updates, and the same 64 images in each update for every line of the picture. All
# is computed in one process, without a clock.

# %%
batches = list(old_gradients.batches_of(digits, 200))

def train_with_old_gradients(model, staleness, rate):
    weights = [parameters_to_vector(model.parameters()).detach()]
    for step, batch in enumerate(batches):
        old = weights[max(0, step - staleness)]
        gradient = old_gradients.gradient_at(model, old, batch)
        weights.append(weights[-1] - rate * gradient)
    return weights[-1]

# %% tags=["cover", "nbval-ignore-output"]
tried = [0.05, 0.1, 0.2, 0.5, 1.0, 2.0]
ends = {age: [old_gradients.typical_loss(train_with_old_gradients, digits, age, rate)
              for rate in tried] for age in (0, 1, 2, 4)}
print(old_gradients.best_rates(ends, tried))
lines = {old_gradients.format_age(age): losses for age, losses in ends.items()}
plot_against(tried, lines, "learning rate", "loss after 200 updates", logarithmic=True,
             title="The older the gradients, the smaller the rate at which training fails")

# %% [markdown]
# At the smallest rate all four lines meet: old gradients are as good as fresh ones, since the
# weights hardly move in between. The older the gradients, the smaller the best rate. At rates far
# above it they learn nothing. (Guessing gives a loss of $\ln 10 = 2.3{.}$) With three asynchronous
# workers, gradients are two updates old on average. With 64 workers they are 63 updates old.
#
# Handwritten notes that this part checks say that asynchronous training gets no faster. Whether
# that is true depends on the learning rate.

# %% [markdown]
# ## 5 · Where servers live
#
# History did not go from servers to DDP. MPI's standard had an all-reduce in 1994. *DistBelief*
# trained asynchronously with a parameter server in 2012. Today's DDP has no server. Two reasons you
# have seen: one link, and stale gradients. The third: who pushes first depends on the clock, so no
# run can be repeated.
#
# Servers and staleness live on where waiting costs more. TensorFlow documents a
# [ParameterServerStrategy](https://www.tensorflow.org/api_docs/python/tf/distribute/ParameterServerStrategy),
# asynchronous by default. Reinforcement learning of language models generates text while it trains.
# [AReaL](https://inclusionai.github.io/AReaL/algorithms/async.html) lets the texts be a few
# versions of the weights old, and limits how many. How new weights get from the trainer's shards to
# the sampler's is the subject of a box in part 06i, section 5.

# %% [markdown]
# ## Put to the test
#
# What the sources say about servers and waiting, and what was found here.

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
fast = launch(server.time_exchanges, ways, 4_000_000, None, 10, world_size=4, device="cpu")
in_one_computer = {way: server.range_ms(fast, way) for way in ways}
copies = {way: server.copies_sent(runs[4], way) for way in ways}
bsp, asp = races["BSP", 0.1], races["ASP", 0.1]
fresh, old = ((ends[age][0], min(ends[age])) for age in (0, 2))
verdict = old_gradients.does_age_matter(fresh, old)
made = (f"in {race_seconds:g} s the server makes {bsp['updates']} updates, with ASP "
        f"{asp['updates']} (section 3, table)")
text = f"""
- [C080] ASP: nobody waits, weights are stale, and training gets no faster | handwritten notes,
  “Synchronization Approaches” | {verdict} | fresh and 2 updates old after 200 updates: loss
  {fresh[0]:.2f} and {old[0]:.2f} at rate {tried[0]:g}, {fresh[1]:.2f} and {old[1]:.2f} each at its
  best rate (section 4, picture). With the clock:
  {server.who_is_ahead(races, rates)} (section 3, run) | measured: nothing about staleness and
  rates; on GPUs paces and link times differ, so other winners are possible at each rate
- [C072] Workers push and pull gradients at the same time | blog, “Data Parallelism” |
  {"imprecise" if max(bsp["staleness"]) == 0 else "not seen here"} | weights are pulled, gradients
  pushed. With BSP no worker pulls before the last push: all {len(bsp["staleness"])} gradients have
  staleness {max(bsp["staleness"])} (counted in the run of section 3). {made[0].upper() + made[1:]},
  where it answers each worker at once | measured: nothing; with a faster link, too, a synchronous
  server needs the last gradient before it has new weights
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
with_8 = compare_rounds(*(runs[8][way].rounds for way in ways))
waits = [[end - begin for begin, end in apart["waiting"].spans[k][2:]] for k in (0, -1)]
put_to_the_test(text, more=f"""
- [C071] All workers share the link of one server, which becomes the bottleneck | blog, “Data
  Parallelism” | {"right" if with_8.low > 1.5 else "not seen here"} | of
  4 workers each sends {copies["server"][1]:.1f} copy of the weights, the server
  {copies["server"][0]:.1f}, a rank of a ring {copies["ring"][0]:.1f} (section 1, run). On links of
  10 MB/s 8 workers take {took["server"][-1]:.3g} ms, a ring {took["ring"][-1]:.3g} (section 1,
  picture). In one computer no link is shared: 4 MB on 4 ranks take {in_one_computer["server"]} ms
  with a server, {in_one_computer["ring"]} in a ring (a run in this section) | measured: on slowed
  links; faster links shorten both, and the server's share of the bytes stays
- [C079] BSP has no stale weights, but all wait for the slowest | handwritten notes,
  “Synchronization Approaches” | {"right" if max(bsp["staleness"]) == 0 else "not here"} | all
  {len(bsp["staleness"])} gradients have staleness {max(bsp["staleness"])} (counted in the run of
  section 3). Two workers of 10 ms wait for one of 50 ms: {made} | measured: nothing; every
  synchronous all-reduce of NCCL waits for its slowest rank, too
- [C096] Two challenges: overhead of communication and of synchronisation | CS 229S, “Parallelism is
  necessary to train and serve LLMs at scale” |
  {"right" if compare_rounds(*waits).low > 2 else "not seen here"} | two things,
  measured apart by a barrier: rank 0 waits {spent["waiting"][0]:.3g} ms for a straggler and sends
  for {spent["sending"][0]:.3g} ms (section 2, picture) | measured: nothing about the two; on GPUs a
  clock needs torch.cuda.synchronize() to tell them apart, and faster links leave the waiting
""")

# %% [markdown]
# **Sources.** *CS 229S, lecture 8* (Stanford); *The Evolution of Data Parallelism* (blog); a web
# note on types of distributed training; handwritten notes on training optimization. MPI 1.0, 1994,
# is told of in [its readme](http://www.netlib.org/mpi/readme).
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
#
# **Your exercises**: one in a cell above, and
# [labs/parameter_server.py](../labs/parameter_server.py).
#
# **Next**: {{next}}.

# %%
progress("03h")
