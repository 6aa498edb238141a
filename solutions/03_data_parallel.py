# %% [markdown]
# # 03 · Data parallel
#
# **How do four ranks train one model, so that it is the model that one rank would have trained?**
# Each has the whole model, and a quarter of the batch. Only gradients have to be brought together.
# How people have done that is a short history, in which every step mends a fault of the one before:
# a server in the middle; a server without waiting; `DataParallel`; and at last an all-reduce, which
# is `DistributedDataParallel` (DDP) in its plainest form. You write that form here. What makes the
# real one fast comes in the second part, [03b · Inside DDP](03b_inside_ddp.ipynb).
#
# Exercises stand in cells, in [data_parallel](../labs/data_parallel.py) (3.18 and 3.5) and in
# [simple_ddp](../labs/simple_ddp.py) (3.2 to 3.4).

# %% [markdown]
# ![Loss over time with a slow worker, with waiting (BSP) and without (ASP): at a small learning
# rate not waiting is faster, at a large one it fails](../assets/covers/03_data_parallel.png)
#
# *Measured in section 2: one worker is slow. Not waiting for it (ASP) is quicker than waiting (BSP)
# at a small learning rate, and fails at a large one. Why?*
#
# **After this part you can** train one model on several ranks so that it equals one process, and
# say what was wrong with each older way.
#
# **It takes** about 30 minutes, and 60 more for 9 exercises. **It needs**
# [00](00_start_here.ipynb) and [02 · Collectives](02_collectives.ipynb).

# %% jupyter={"source_hidden": true}
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from statistics import median

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from pedagogy_lib import (
    Machines, Table, check, close, hint, lab, launch, measure, plot_against, plot_bars, plot_curves,
    plot_peak, predict, progress, put_to_the_test, relative_gap, rounding, throttle,
)

# %% tags=["parameters"]
world_size = 4
race_seconds = 1.5

# %% [markdown]
# ## 1 · A server in the middle
#
# The oldest way. One rank, the **parameter server**, has the weights. The others are **workers**.
# In each step a worker *pulls* the weights, computes the gradient of its part of the batch, and
# *pushes* it; the server adds up what came, and takes a step.
#
# Weights of 300 kB, and a machine for each rank, with a network card of 10 MB/s (chapter 02d): a
# copy takes 30 ms. We compare a server for one to eight workers with the ring of chapter 02 and
# with DDP, on as many ranks. With a server all pull, then (where the barrier is) they would
# compute, then all push. How long does that take with eight workers?

# %% tags=["nbval-ignore-output"]
collectives, data_parallel, simple_ddp = lab("collectives"), lab("data_parallel"), lab("simple_ddp")
accumulation, language_model = lab("gradient_accumulation"), lab("language_model")
device = "auto" if torch.cuda.device_count() >= world_size else "cpu"  # one kind for all worlds

# %%
exchange_guess = predict("One pull and push with a server and eight workers", unit="ms")

# %%
def pull_and_push(x):
    workers = range(1, dist.get_world_size())
    if dist.get_rank() == 0:
        for request in [dist.isend(x, worker) for worker in workers]:
            request.wait()
    else:
        dist.recv(x, 0)
    dist.barrier()  # here the workers would compute
    if dist.get_rank() == 0:
        for worker in workers:
            dist.recv(x, worker)
    else:
        dist.send(x, 0)

# %%
def exchange(collectives, nbytes, bytes_per_second=None):
    ways = {"server": pull_and_push, "ring": collectives.all_reduce_ring}
    with throttle(bytes_per_second) if bytes_per_second else nullcontext():
        for label, way in ways.items():
            way(torch.zeros(16))  # the first messages open the connections
            dist.barrier()
            with measure(label):
                way(torch.zeros(nbytes // 4))
    ddp = DistributedDataParallel(nn.Linear(nbytes // 1200, 300, bias=False))  # of so many bytes
    loss = ddp(torch.ones(1, nbytes // 1200)).sum()
    dist.barrier()
    with measure("DDP"):
        loss.backward()

# %%
workers, exchanges = [1, 2, 4, 8], {}
for n in workers:
    machines = Machines.here([1] * (n + 1), bytes_per_second=10e6)
    slowed = None if machines else 10e6  # elsewhere messages are throttled, and DDP is not
    exchanges[n] = launch(exchange, collectives, 300_000, slowed, world_size=n + 1,
                          machines=machines, device="cpu")
for label in ("server", "ring", "DDP"):
    sent = [b / 300_000 for b in exchanges[4][label].sent_bytes]
    print(f"{label}, 5 ranks: sent, in copies of the weights:", *(f"{x:.1f}" for x in sent))

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
took = {label: [1e3 * max(exchanges[n][label].seconds) for n in workers]
        for label in ("server", "ring", *["DDP"] * bool(machines))}
exchange_guess.compare(2 * 8 * 30, took["server"][-1], kind="communication")

# %% tags=["nbval-ignore-output"]
plot_against(workers, took, "workers, besides the server", "one exchange (ms)",
             {"server": [60 * n for n in workers],
              "ring": [60 * n / (n + 1) for n in workers]},
             title=f"{'Network cards' if machines else 'Links throttled to'} of 10 MB/s: the "
             "server's becomes the bottleneck")

# %% [markdown]
# ### Exercise 3.17
#
# Why these (dashed) predictions? How many seconds does one exchange take on `n` ranks, if `how` is
# `"server"` (rank 0 is the server, the others pull `X` bytes of weights, and when all have them
# push `X` bytes of gradients) or `"ring"` (an all-reduce of `X` bytes among all `n`)? Each rank has
# a link of `B` bytes/s, in both directions at once; there is no latency.

# %%
def exchange_seconds(how, n, X, B):
    ### BEGIN SOLUTION
    if how == "server":
        return 2 * (n - 1) * X / B
    return 2 * (n - 1) / n * X / B
    ### END SOLUTION

check("3.17", exchange_seconds)

# %% [markdown]
# All copies go through the server's one link, and there is one more for each worker. In the ring,
# more ranks cost each link hardly anything. DDP's all-reduce is such a ring. (Measured, both are
# slower than predicted with many ranks: 16 messages have their latency, and nine processes share
# this computer's cores.)
#
# This is a matter of links, and between the processes of one computer there are none to share: at
# full speed, a server may even be the faster one (see the end). Bytes tell the truth everywhere.
# And a server can be divided over several computers. What people minded more was the waiting.

# %% [markdown]
# ## 2 · Waiting, or not
#
# If the server waits for everybody, a step is *bulk-synchronous parallel* (**BSP**): each gradient
# is of the newest weights, and everybody as slow as the slowest. *Asynchronous parallel* (**ASP**):
# whoever pushes gets the newest weights at once, and goes on. Meanwhile others have changed them: a
# gradient is **stale** by as many updates as the weights have had since they were pulled.
#
# Three workers learn real digits. Two need 10 ms for a gradient, the third, a **straggler**, 50 ms
# (they *sleep* that long; the rest is real). The picture at the top tells who wins. Why?
#
# ### Exercise 3.18
#
# In [labs/data_parallel.py](../labs/data_parallel.py), write the asynchronous server,
# `serve_as_they_come`. Read `serve_together` and `work` first.

# %%
check("3.18")

# %%
def race(data_parallel, data, way, learning_rate, seconds, milliseconds):
    images, labels, rank, history = data[0].float(), data[1], dist.get_rank(), []
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    torch.manual_seed(rank)  # from here on, each draws samples of its own

    def compute_gradients(number):
        time.sleep(milliseconds[rank - 1] / 1e3)
        some = torch.randint(len(labels), (64,))
        model.zero_grad()
        F.cross_entropy(model(images[some]), labels[some]).backward()

    def is_over(updates=0):
        loss = F.cross_entropy(model(images), labels).item()
        history.append((time.perf_counter() - began, loss, updates))
        return history[-1][0] > seconds

    dist.barrier()
    began = time.perf_counter()
    if rank:
        return data_parallel.work(model, compute_gradients)
    is_over()
    return getattr(data_parallel, way)(model, optimizer, is_over), history

# %% tags=["nbval-ignore-output"]
ways = {"BSP": "serve_together", "ASP": "serve_as_they_come"}
races = {(name, rate): launch(race, data_parallel, accumulation.digits(), way, rate, race_seconds,
                              (10, 10, 50), world_size=4, device="cpu").values[0]
         for rate in (0.1, 1.0) for name, way in ways.items()}
Table(["", "learning rate", "gradients", "updates", "time of an update", "mean staleness",
       "largest", "loss"],
      [[name, rate, len(stale), updates, f"{1e3 * spent / updates:.1f} ms",
        f"{sum(stale) / len(stale):.1f}", max(stale), f"{loss:.2f}"]
       for (name, rate), (stale, history) in races.items()
       for spent, loss, updates in history[-1:]])

# %% tags=["cover", "nbval-ignore-output"]
curves = {key: list(zip(*history))[:2] for key, (_, history) in races.items()}
plot_curves({f"learning rate {rate:g}": {name: curves[name, rate] for name in ways}
             for rate in (0.1, 1.0)}, "time (s)", "loss", highest=3,
            title="With and without waiting for a straggler (computing is slept; cut off at 3)")

# %% tags=["nbval-ignore-output"]
counts = Counter(races["ASP", 0.1][0])
plot_bars([*range(max(counts) + 1)], {"gradients": [counts[k] for k in range(max(counts) + 1)]},
          "gradients", "staleness: updates since the weights were pulled",
          title="ASP: most gradients are one or two updates old, and some are much older")

# %% [markdown]
# BSP needs the straggler's 50 ms for every update. ASP has over twice as many gradients, and an
# update of each, BSP one of every three. With the small learning rate old gradients are nearly as
# good as new ones, and ASP is far ahead (partly since many steps amount to a larger rate: try BSP
# with 0.3). With the large one, even slightly old gradients overshoot, and ASP learns little. It
# **depends**.
#
# *Break it*, above the table: no straggler, `(10, 10, 10)`, or one of 200 ms. The mean staleness
# stays at 2. What does change?
#
# Training today is nearly always synchronous, also because ASP depends on who was quicker: it can
# be neither repeated nor compared with one process.

# %% [markdown]
# ## 3 · DataParallel
#
# PyTorch's first answer, for one computer: `DataParallel`, a single process with a thread for each
# GPU. The batch is on GPU 0, and so is the model. In each step, GPU 0
#
# 1. *scatters* the inputs,
# 2. *replicates* the weights (a broadcast); then all compute the forward;
# 3. *gathers* the outputs, and computes the loss,
# 4. *scatters* the gradients of the outputs; then all compute the backward;
# 5. *reduces* (adds up) the gradients of the weights, and takes the step.
#
# Without GPUs `DataParallel` does nothing at all. So here are its five exchanges, emulated: with a
# process in place of each GPU.

# %%
def data_parallel_step(model, optimizer, inputs, targets, samples):
    rank, n = dist.get_rank(), dist.get_world_size()
    mine = torch.empty(samples // n, 64, dtype=torch.float64)
    with measure("1 scatter inputs", memory=False):
        dist.scatter(mine, list(inputs.chunk(n)) if rank == 0 else None)
    with measure("2 replicate weights", memory=False):
        for parameter in model.parameters():
            dist.broadcast(parameter.detach(), 0)
    outputs = model(mine)
    parts = [torch.empty_like(outputs) for _ in range(n)] if rank == 0 else None
    with measure("3 gather outputs", memory=False):
        dist.gather(outputs.detach(), parts)
    slopes = gradients_of_outputs(parts, targets) if rank == 0 else None
    slope = torch.empty_like(outputs)
    with measure("4 scatter their gradients", memory=False):
        dist.scatter(slope, slopes)
    outputs.backward(slope)
    with measure("5 reduce gradients", memory=False):
        for parameter in model.parameters():
            dist.reduce(parameter.grad, 0)
    if rank == 0:
        optimizer.step()
    model.zero_grad()

# %%
def gradients_of_outputs(parts, targets):
    outputs = torch.cat(parts).requires_grad_()
    F.cross_entropy(outputs, targets).backward()
    return list(outputs.grad.chunk(len(parts)))

def make_classifier():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 1000), nn.ReLU(), nn.Linear(1000, 10)).double()

def train_with_data_parallel(make_classifier, batches):
    model, rank, samples = make_classifier(), dist.get_rank(), len(batches[0][1])
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9) if rank == 0 else None
    if rank > 0:
        batches[:] = [(None, None)] * len(batches)  # only rank 0 has the data
    for images, labels in batches:
        with measure("step"):
            data_parallel_step(model, optimizer, images, labels, samples)
    return nn.utils.parameters_to_vector(model.parameters()).detach()

digits = accumulation.digits()
parts = [x[:600].chunk(5) for x in digits[:2]]
five_batches = [tuple(part.clone() for part in batch) for batch in zip(*parts)]
dp_runs = {n: launch(train_with_data_parallel, make_classifier, five_batches, world_size=n,
                     device="cpu") for n in (1, world_size)}
equal = close(dp_runs[world_size].values[0], dp_runs[1].values[0], steps=5)
print(f"{world_size} ranks equal one process, but for rounding:", equal)

# %%
emulated = dp_runs[world_size]
phases = [label for label in emulated.labels if label != "step"]
model_bytes = 8 * len(dp_runs[1].values[0])
Table(["sent in a step, in models", "rank 0", "the others, at most"],
      [[phase, *(f"{x / 5 / model_bytes:.2f}" for x in (first, max(others)))]
       for phase in phases for first, *others in [emulated[phase].sent_bytes]])

# %%
plot_peak(emulated, "step", title="DataParallel, emulated: rank 0 has more to hold")

# %% tags=["nbval-ignore-output"]
def with_the_real_one(make_classifier, batches):
    model = make_classifier().cuda()
    wrapper = DataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for images, labels in batches:
        optimizer.zero_grad()
        F.cross_entropy(wrapper(images.cuda()), labels.cuda()).backward()
        optimizer.step()
    weights = nn.utils.parameters_to_vector(model.parameters()).detach().cpu()
    return weights, [torch.cuda.max_memory_allocated(gpu) for gpu in wrapper.device_ids]

if torch.cuda.device_count() > 1:
    weights, most = launch(with_the_real_one, make_classifier, five_batches, world_size=1).values[0]
    equal = close(weights, dp_runs[1].values[0], steps=5)
    print("equal to one process, but for rounding:", equal)
    print("most memory of each GPU:", ", ".join(f"{x / 1e6:.2f} MB" for x in most))
else:
    print("devices of a DataParallel on this machine:", DataParallel(nn.Linear(1, 1)).device_ids)

# %% [markdown]
# Five exchanges, but not five times the bytes: weights out and gradients back are nearly all of
# them. (Gloo sends weights along a tree, twice from rank 0; it reduces in a ring, from which the
# sums are gathered: in the last row rank 0 *receives* them all.) Rank 0 has the optimizer's state,
# and the whole batches (part of the grey): of equal GPUs, GPU 0 is full first. DataParallel has a
# parameter server again, one that computes.
#
# And it is one Python process. Only one thread at a time runs Python: whoever holds the **global
# interpreter lock** (GIL). PyTorch lets go of it while it computes. Two jobs of each kind, in two
# threads and in two processes:

# %%
def python_work():
    return sum(i * i for i in range(300_000))

def torch_work():
    x = torch.ones(500, 500)
    for _ in range(8):
        x @ x

def twice_in_threads(work):
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda _: work(), range(2)))

def time_jobs(rounds=5):
    for work in rounds * [python_work, torch_work]:
        with measure(f"{work.__name__} once", memory=False):
            work()
        with measure(f"{work.__name__} in threads", memory=False):
            twice_in_threads(work)

# %% tags=["nbval-ignore-output"]
threads = launch(time_jobs, world_size=1, device="cpu")
processes = launch(time_jobs, world_size=2, device="cpu")

def quickest(run, label):  # other programs can only add
    return min(max(end - begin for begin, end in spans) for spans in zip(*run[label].spans))

jobs = {work: [quickest(run, f"{work} {how}") for run, how in (
            (threads, "once"), (threads, "in threads"), (processes, "once"))]
        for work in ("python_work", "torch_work")}
Table(["", "one job", "two in threads", "two in processes"],
      [[work, *(f"{1e3 * seconds:.0f} ms" for seconds in times)] for work, times in jobs.items()])

# %% [markdown]
# Threads that compute in PyTorch do not disturb each other; threads that run Python take turns. A
# training step is a mixture: the smaller the layers, the more of it is Python. So the GIL is one
# reason to have a process for each GPU. The others are above: rank 0's bytes, its memory, and
# weights that travel anew in each step, although everybody could keep them and change them alike.
#
# That is the idea of what follows: **every rank keeps weights and optimizer, all start equal, and
# all take the same step**. Then only gradients have to travel, and nobody is in the middle.

# %% [markdown]
# ## 4 · The mean of gradients
#
# Why may one average gradients at all? The loss of a batch is the mean over its samples, so its
# gradient is the mean of theirs. For a batch $B$ in shards $B_r$ of $n$ ranks:
#
# $$\nabla L(B) = \sum_r \frac{|B_r|}{|B|}\,\nabla L(B_r) \qquad\text{and for equal shards}\qquad
#   \nabla L(B) = \frac1n \sum_r \nabla L(B_r)$$
#
# The second one is an all-reduce and a division by $n$: `average_gradients` in the lab, which you
# will write in section 5. Equal and unequal shards on four ranks, beside one process with all:

# %%
def gradient_of_shards(simple_ddp, make_classifier, data, sizes, factors):
    rank = dist.get_rank()
    images, labels = (x[:sum(sizes)].split(sizes)[rank] for x in data[:2])
    model = make_classifier()
    (factors[rank] * F.cross_entropy(model(images), labels)).backward()
    simple_ddp.average_gradients(model)
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

def off_by(sizes, factors=(1, 1, 1, 1)):
    common = simple_ddp, make_classifier, digits
    one = launch(gradient_of_shards, *common, [sum(sizes)], [1], world_size=1, device="cpu")
    four = launch(gradient_of_shards, *common, sizes, factors, world_size=4, device="cpu")
    return relative_gap(four.values[0], one.values[0])

errors = {name: off_by(sizes) for name, sizes in
          {"16 16 16 16": [16, 16, 16, 16], "40 8 8 8": [40, 8, 8, 8]}.items()}
for name, error in errors.items():
    is_equal = error <= rounding()
    print(f"{name:12}", "equal, but for rounding" if is_equal else f"off by {error:.0%}")

# %% [markdown]
# DDP divides by $n$, whatever the shards. Who has unequal shards has to weight the losses.
#
# ### Exercise 3.1
#
# A rank has `samples` (one or more) of the step's `all_samples`, on `n` ranks. Its loss is the mean
# over its own. By which factor must it multiply that, so that DDP's average of the gradients is the
# gradient of the mean over all samples?

# %%
def loss_factor(samples, all_samples, n):
    ### BEGIN SOLUTION
    return n * samples / all_samples
    ### END SOLUTION

check("3.1", loss_factor)

# %% [markdown]
# A toy from slides: a weight of .1, and four ranks with the gradients .8, −.2, −.7 and .4. On the
# slides everybody ends with a gradient of .3 and a weight of .2. What do a sum, DDP, and a step of
# gradient descent really give?

# %%
def toy(gradients, learning_rate=0.1):
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 0.1)
    mine = torch.tensor([[gradients[dist.get_rank()]]])
    ddp = DistributedDataParallel(model)
    ddp(mine).sum().backward()  # d (w x) / dw = x
    torch.optim.SGD(model.parameters(), lr=learning_rate).step()
    dist.all_reduce(mine)
    return mine.item(), model.weight.grad.item(), model.weight.item()

toys = launch(toy, [0.8, -0.2, -0.7, 0.4], world_size=4, device="cpu").values
summed, averaged, weight = toys[0]
print(f"sum {summed:.3f}, DDP's gradient {averaged:.3f}, the weight afterwards {weight:.4f}")

# %% [markdown]
# ## 5 · By hand
#
# Data parallel training in its plainest form takes two functions: one that makes all replicas equal
# at the start, and one that averages gradients after each backward.
#
# ### Exercise 3.2
#
# In [labs/simple_ddp.py](../labs/simple_ddp.py), write `start_equal`.
#
# ### Exercise 3.3
#
# Write `average_gradients` in [labs/simple_ddp.py](../labs/simple_ddp.py). Its docstring says what
# to do where there is no gradient.

# %%
display(check("3.2"), check("3.3"))

# %% [markdown]
# Now a real model: a small transformer that reads the source text of Python's standard library,
# letter by letter, and learns to guess the next one. It is in
# [labs/language_model.py](../labs/language_model.py). The ranks start differently, on purpose, and
# ten samples on three or four ranks make unequal shards, hence exercise 3.1's factor in the loss.
# (Its last layer has the weights of the first one, `tied`: a gradient in two parts.) After five
# steps, on one to four ranks: are the weights the same?

# %%
def train_by_hand(simple_ddp, make_model, make_optimizer, loss_fn, batches):
    rank, n = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    model, losses = make_model(), []
    simple_ddp.start_equal(model)
    optimizer = make_optimizer(model.parameters())
    for batch in batches:
        inputs, targets = simple_ddp.share_of_rank(batch)
        loss = loss_fn(model(inputs), targets) * len(inputs) * n / len(batch[0])
        optimizer.zero_grad()
        loss.backward()
        with measure("average"):
            simple_ddp.average_gradients(model)
        optimizer.step()
        mean = loss.detach() / n  # a tensor of its own, outside of the graph
        dist.all_reduce(mean)
        losses.append(mean.item())
    return nn.utils.parameters_to_vector(model.parameters()).detach(), losses

# %%
text = language_model.standard_library()

def batches_of(steps, samples, context):
    return [language_model.draw_batch(text, samples, step, context) for step in range(steps)]

def tiny():
    return language_model.Transformer(16, layers=1, context=16, tied=True).double()

def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.5, momentum=0.9)

by_hand = {n: launch(train_by_hand, simple_ddp, tiny, sgd, language_model.mean_loss,
                     batches_of(5, 10, 16), world_size=n, device=device)
           for n in range(1, world_size + 1)}
alone = by_hand[1].values[0][0].cpu()
for n in range(2, world_size + 1):
    equal = all(close(weights.cpu(), alone, steps=5) for weights, _ in by_hand[n].values)
    print(f"{n} ranks equal one process, but for rounding:", equal)
calls = by_hand[world_size]["average"].calls[0]
in_models = sum(call.tensor_bytes for call in calls) / 5 / alone.nbytes
print(f"a step has {len(calls) // 5} all-reduces, of {in_models:.2f} models together")

# %% tags=["nbval-ignore-output"]
def adam(parameters):
    return torch.optim.AdamW(parameters, lr=5e-3)

curves = {f"{n} rank{'s' * (n > 1)}": launch(
    train_by_hand, simple_ddp, language_model.Transformer, adam, language_model.mean_loss,
    batches_of(40, 32, 64), world_size=n, device=device).values[0][1] for n in (1, 2)}
plot_curves({"": {name: (range(1, 41), losses) for name, losses in curves.items()}}, "step",
            "loss for each letter", title="Two ranks learn what one learns, step by step")

# %% [markdown]
# 128 letters, all equally likely, would be a loss of $\ln 128 = 4.85$. (It begins above that: a
# model with random weights guesses with some confidence, and wrongly.) As a program, beside
# PyTorch's own: `torchrun --nproc-per-node 2 labs/simple_ddp.py`.
#
# And what does it cost? One step of real DDP has a forward, and a backward in which it
# communicates. To see the communication alone, take the difference to a backward without it.
#
# ### Exercise 3.4
#
# Write `time_step` in [labs/simple_ddp.py](../labs/simple_ddp.py). Then the cell below measures
# this machine. (What it says changes from run to run: two ranks on two cores have nobody to spare
# for communication.)

# %% tags=["nbval-ignore-output"]
display(check("3.4"))
print(launch(simple_ddp.overhead, text, world_size=2).values[0])

# %% [markdown]
# ## 6 · Who reads what
#
# Replicas that all read the same batch do the same work four times. Each needs samples of its own:
# PyTorch's `DistributedSampler` deals them out, like cards.
#
# ### Exercise 3.5
#
# Write `samples_of_rank` in [labs/data_parallel.py](../labs/data_parallel.py): which samples a rank
# reads in which order.

# %%
display(check("3.5"))

def gradients_with(sampler_of, make_classifier, data):
    dataset = torch.utils.data.TensorDataset(*data[:2])
    loader = DataLoader(dataset, batch_size=32, sampler=sampler_of(dataset))
    model, (images, labels) = make_classifier(), next(iter(loader))
    F.cross_entropy(model(images), labels).backward()
    return model[0].weight.grad

samplers = {"no sampler": lambda dataset: None, "DistributedSampler": DistributedSampler}
apart = {}
for name, sampler_of in samplers.items():
    first, second = launch(gradients_with, sampler_of, make_classifier, digits, world_size=2,
                           device="cpu").values
    apart[name] = ((first - second).norm() / first.norm()).item()
    print(f"{name}: the gradients of two ranks differ by {apart[name]:.0%}")

# %% [markdown]
# Two batches of 32 have nearly unrelated gradients: their difference is as long as the first one.
# Only their average says something about the data. Without a sampler every rank reads the whole
# dataset: the same batch, and nothing to average.
#
# *Break it*: a sampler, but rank 1 drops its first batch. What does the message say?
#
# ### Exercise 3.6
#
# A web page's training loop; a sample is a pair of inputs and label. In an epoch the ranks share
# out the samples, equally many each (if uneven, a few twice, or not at all), in an order that is
# new in each epoch. `samples` is the batch of one rank. The weights are to be those of one process.
# Find the bugs.

# %%
def train_epochs(model, dataset, loss_fn, epochs, samples):
    ### BEGIN SOLUTION
    sampler = DistributedSampler(dataset)
    dataloader = DataLoader(dataset, batch_size=samples, sampler=sampler)
    ### IT WAS
    # dataloader = DataLoader(dataset, batch_size=samples, shuffle=True)
    ### END SOLUTION
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        ### BEGIN SOLUTION
        sampler.set_epoch(epoch)
        for inputs, labels in dataloader:
            loss = loss_fn(model(inputs), labels)
        ### IT WAS
        # for batch in dataloader:
        #     inputs, labels = batch, labels
        #     loss = loss_fn(model(inputs), labels)
        ### END SOLUTION
            loss.backward()  # the gradients are averaged here
            optimizer.step()
            optimizer.zero_grad()

check("3.6", train_epochs)

# %% [markdown]
# ### Exercise 3.7
#
# The loop of a book chapter, "exactly" as on a single GPU. `ddp` is a model in
# DistributedDataParallel, `optimizer` has its parameters, and `batches` are this rank's: pairs of
# inputs and targets. A step for each batch; the weights are to be those of one process that takes
# the batches of all ranks. Find the bugs.

# %%
def train_steps(ddp, loss_fn, optimizer, batches):
    for batch in batches:
        ### BEGIN SOLUTION
        inputs, targets = batch
        loss = loss_fn(ddp(inputs), targets)
        optimizer.zero_grad()
        ### IT WAS
        # loss = ddp(batch)
        ### END SOLUTION
        loss.backward()  # the gradients are averaged here
        optimizer.step()

check("3.7", train_steps)

# %% [markdown]
# ## 7 · DataParallel or DDP
#
# A web note compares the two in eight rows. Here they are, beside what was measured here, with
# DataParallel as emulated in section 3. One row says that it is "better for smaller models". So
# first, a step of each for three sizes of a model.

# %%
def steps_of_both(data_parallel_step, simple_ddp, batch, width, rounds=12):
    images, labels = batch
    model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10)).double()
    optimizer, ddp = torch.optim.SGD(model.parameters(), lr=0.1), DistributedDataParallel(model)
    mine, my_labels = simple_ddp.share_of_rank(batch)
    for _ in range(rounds):
        dist.barrier()
        with measure("DDP", memory=False):
            optimizer.zero_grad()
            F.cross_entropy(ddp(mine), my_labels).backward()
            optimizer.step()
        dist.barrier()
        with measure("DataParallel", memory=False):
            data_parallel_step(model, optimizer, images, labels, len(labels))

def median_of(run, label):
    return median(end - begin for begin, end in run[label].spans[0][3:])

# %% tags=["nbval-ignore-output"]
first_batch = tuple(x[:120].clone() for x in digits[:2])
contests = [launch(steps_of_both, data_parallel_step, simple_ddp, first_batch, width,
                   world_size=2, device="cpu") for width in (10, 1_000, 10_000)]
slower = ", ".join(f"{median_of(run, 'DataParallel') / median_of(run, 'DDP'):.1f}"
                   for run in contests)
larger = launch(steps_of_both, data_parallel_step, simple_ddp, first_batch, 1000,
                world_size=world_size, device="cpu")
dp_sent, ddp_sent = ([b / 12 / model_bytes for b in larger[label].sent_bytes]
                     for label in ("DataParallel", "DDP"))
state = [peak["optimizer_state"] / model_bytes for peak in emulated["step"].peak_bytes]
once, in_threads, in_processes = jobs["python_work"]

# %% tags=["nbval-ignore-output"]
Table(["", "DataParallel", "DDP", "seen here"], [
    ["processes", "one, a thread for each GPU", "one for each GPU",
     f"two Python jobs take {in_threads / once:.1f} times one's time in threads, "
     f"{in_processes / once:.1f} in processes"],
    ["replicas", "anew in each forward", "once, at the start",
     f"{emulated['2 replicate weights'].sent_bytes[0] / 5 / model_bytes:.1f} models from rank 0 "
     "in each step; none in DDP's"],
    ["inputs", "GPU 0 cuts the batch", "each rank reads its own", "section 6"],
    ["gradients", "added up on GPU 0", "averaged by an all-reduce",
     f"sent in a step by ranks 0 and 1 of {world_size}: {dp_sent[0]:.1f} and {dp_sent[1]:.1f} "
     f"models; DDP {ddp_sent[0]:.1f} and {ddp_sent[1]:.1f}"],
    ["performance", "“better for smaller models”", "more efficient",
     f"its step takes {slower} times as long as DDP's, from a small to a large model"],
    ["scale", "one computer", "many computers", "chapter 00: two machines under torchrun"],
    ["synchronisation", "in the wrapper", "process group, and then in the wrapper",
     "section 5: by hand, two functions"],
    ["code", "DataParallel(model)", "process group, wrapper, sampler", "exercise 3.6"]])

# %% [markdown]
# ## Put to the test
#
# What our sources say about data parallel training, and what was found. First: servers, waiting,
# and DataParallel.

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
fast = launch(exchange, collectives, 4_000_000, world_size=4, device="cpu")
bsp, asp = races["BSP", 0.1], races["ASP", 0.1]
final = {key: history[-1][1] for key, (_, history) in races.items()}
put_to_the_test(f"""
- With one server, all workers share its link, which becomes the bottleneck | blog | right |
  links of 10 MB/s: {took["server"][-1]:.0f} ms with 8 workers, a ring {took["ring"][-1]:.0f} ms. In
  one computer nothing is shared: server {1e3 * max(fast["server"].seconds):.1f} ms, ring
  {1e3 * max(fast["ring"].seconds):.1f} ms for 4 MB on 4 ranks
- Workers push and pull gradients at the same time | blog | imprecise |
  weights are pulled; and in BSP the next pull has to wait for the last push
- BSP has no stale weights, but all wait for the slowest | handwritten notes | right |
  staleness {max(bsp[0])}; {3e3 * bsp[1][-1][0] / len(bsp[0]):.0f} ms an update with a straggler
  of 50 ms
- ASP: no waiting, stale weights, no faster convergence | handwritten notes | depends |
  {len(asp[0]) / len(bsp[0]):.1f} times the gradients; staleness up to {max(asp[0])}. Loss after
  {race_seconds:g} s: ASP {final["ASP", 0.1]:.2f}, BSP {final["BSP", 0.1]:.2f} at learning rate
  0.1; {final["ASP", 1.0]:.2f} and {final["BSP", 1.0]:.2f} at 1
- Two challenges: overhead of communication and of synchronisation | CS 229S | right |
  two things: section 1's bytes on links; and in section 2 waiting, which no faster link shortens
""")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
put_to_the_test(f"""
- DataParallel makes 5 exchanges for each batch | web note | depends |
  {len(phases)}, as emulated. If each replica computes its loss, exchanges 3 and 4 carry a number
  each. Not 5 times the bytes: all ranks send {sum(dp_sent):.1f} models, with DDP
  {sum(ddp_sent):.1f}
- It averages gradients on the CPU or on one GPU | web note | wrong |
  it adds them up on GPU 0: the loss is one mean already, and section 3 gave one process's weights
- Each GPU keeps a copy of the model; the model is replicated in each forward | handwritten notes;
  web note | contradict each other | the second is right: torch.nn.parallel.replicate, in each
  forward of DataParallel (read in its source)
- GPU 0 works and holds more | web note; blog | right | peaks of ranks 0 and 1:
  {", ".join(f"{peak['total'] / 1e6:.2f} MB" for peak in emulated["step"].peak_bytes[:2])}
- GPU 0 is the parameter server, with the optimizer's state | blog | right, as an analogy |
  as emulated, in models: rank 0 {state[0]:.0f}, others {state[1]:.0f}. But it computes, too
- DataParallel's biggest problem is the GIL | handwritten notes | depends |
  jobs in 2 threads take {in_threads / once:.1f} times one's time in Python,
  {jobs["torch_work"][1] / jobs["torch_work"][0]:.1f} times in PyTorch
- DataParallel is better for smaller models; best on one node | web note | not seen |
  as emulated, its step takes {slower} times as long as DDP's, from small to large
- DDP has less overhead, and works on several machines | handwritten notes | right | see there; two
  machines in chapter 00
- PyTorch recommends DDP, even on one node | web note | right | its documentation says so:
  docs.pytorch.org, DataParallel
""")

# %% jupyter={"source_hidden": true}
weighted = off_by([40, 8, 8, 8], [4 * size / 64 for size in (40, 8, 8, 8)])
put_to_the_test(f"""
- The batch's gradient is the mean of the shards', weighted by their sizes | book chapter | right |
  shards of 40 8 8 8, but for rounding: {weighted <= rounding()}
- That is exactly all_reduce(SUM) / world_size | book chapter | depends | on equal shards:
  but for rounding: {errors["16 16 16 16"] <= rounding()}; shards of 40 8 8 8 are off by
  {errors["40 8 8 8"]:.0%}. And on a mean as the loss, and on layers that take samples one by one
  (BatchNorm does not)
- Local gradients .8 -.2 -.7 .4 make .3 on every node | PyTorch slides | imprecise |
  the sum is {summed:.1f}; what DDP leaves is the mean, {averaged:.3f}
- A weight of .1 with a gradient of +.3 becomes .2 | PyTorch slides | wrong | a step goes against
  the gradient: {0.1 - 0.1 * summed:.2f} with learning rate 0.1. To reach .2 it would take one of
  {(0.1 - 0.2) / summed:.2f}
- Gradients are averaged; or summed | web page, CS 229S; PyTorch slides | contradict each other |
  DDP averages. A sum with learning rate / n takes the same step
- Why G0, G1, G2 and not one G? Data differ, so gradients do, each as large as the model | blog |
  right | two ranks' differ by {apart["DistributedSampler"]:.0%}; without a sampler by
  {apart["no sampler"]:.0%} (section 6)
""")

# %% jupyter={"source_hidden": true}
def looked_at(make_classifier, data, steps=3):
    model, n, norms = make_classifier(), dist.get_world_size(), []
    with measure("constructor"):
        ddp = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-6)
    images, labels = (x[dist.get_rank()::n] for x in data[:2])
    for _ in range(steps):  # as printed: nobody clears the gradients
        F.cross_entropy(ddp(images), labels).backward()
        optimizer.step()
        norms.append(model[0].weight.grad.norm().item())
    state = optimizer.state[model[0].weight]["exp_avg"]
    states = [torch.empty_like(state) for _ in range(n)]
    dist.all_gather(states, state)
    return norms, all(bool((other == state).all()) for other in states)

looked = launch(looked_at, make_classifier, digits, world_size=4, device="cpu")
norms, same_state = looked.values[0]
sent_at_start = [f"{b / model_bytes:.1f}" for b in looked["constructor"].sent_bytes]

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
compared = launch(simple_ddp.compare, text, world_size=2).values[0].splitlines()
put_to_the_test(f"""
- Data parallel training by hand equals the wrapper | book chapter | right | in the lab's 20 steps:
  {compared[1]}
- DDP broadcasts parameters so that replicas start equal | book chapter | right | in its
  constructor, once: ranks 0 to 3 send {", ".join(sent_at_start)} models
- Its processes keep optimizer states of their own | blog | right | and these stay equal, since
  gradients are: {same_state}
- A DDP program runs as printed | web page | wrong | it uses labels before there are any; and
  without a sampler every rank goes through all samples (exercise 3.6)
- DDP's loop is exactly that of a single GPU | book chapter | wrong as printed | nobody clears the
  gradients: their norm grows like {", ".join(f"{norm / norms[0]:.2f}" for norm in norms)}. There
  is no sampler, and no loss function (exercise 3.7)
""")

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)); *CS 229S, lecture 8*
# (Stanford); *Data Parallelism Deep Dive* (book chapter); *Distributed Parallelism in Deep
# Learning* (web page); *The Evolution of Data Parallelism* (blog); a web note on types of
# distributed training; handwritten notes.
#
# **To read on.** Li et al., *Scaling Distributed Machine Learning with the Parameter Server*, 2014.
# Dean et al., *Large Scale Distributed Deep Networks*, 2012: asynchronous, on thousands of
# machines. Li et al., [PyTorch Distributed](https://arxiv.org/abs/2006.15704), 2020: DDP.

# %% [markdown]
# ## What you have learnt
#
# * A server in the middle sends and receives for everybody: its link is the bottleneck.
# * Without a barrier nobody waits, but gradients are late. With the larger learning rate of
#   section 2 that ruined the training.
# * Equal start, the mean of gradients, one optimizer step on each rank: that equals one process on
#   the whole batch.
# * Each rank has to read its own samples, in a new order in every epoch. `DistributedSampler` does
#   it, if you tell it the epoch.
#
# **Your exercises**: those in cells above, and [labs/data_parallel.py](../labs/data_parallel.py)
# and [labs/simple_ddp.py](../labs/simple_ddp.py).
#
# **Next**: [03b · Inside DDP](03b_inside_ddp.ipynb).

# %%
progress("03")
