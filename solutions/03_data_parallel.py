# %% [markdown]
# # 03 · Data parallel
#
# **How do four ranks train one model, so that it is the model that one rank would have trained?**
# Each has the whole model and a quarter of the batch. Only gradients have to be brought together,
# and how people have done that is a short history, in which every step mends a fault of the one
# before: a server in the middle, then `DataParallel`, then an all-reduce; then buckets, and then
# communication that hides behind the backward. At the end you have written what
# `DistributedDataParallel` (DDP) does, and you know where it can be misused.
#
# Exercises stand in cells and in three labs: [simple_ddp](../labs/simple_ddp.py),
# [gradient_sync_visualizer](../labs/gradient_sync_visualizer.py) and
# [data_parallel](../labs/data_parallel.py). Sixteen of them: take two evenings.

# %%
import copy
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
    RankError, Table, check, explore, film_step, hint, lab, launch, measure, plot_against,
    plot_bars, plot_bytes, plot_curves, plot_peak, plot_step, plot_timeline, predict,
    put_to_the_test, throttle,
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
# Weights of 100 kB, and links of 10 MB/s for everybody, so a copy takes 10 ms. The server, with
# more and more workers, beside the ring of chapter 02 on as many ranks. How long does one exchange
# take with eight workers?

# %% tags=["nbval-ignore-output"]
collectives, data_parallel = lab("collectives"), lab("data_parallel")
simple_ddp, visualizer = lab("simple_ddp"), lab("gradient_sync_visualizer")
accumulation, language_model = lab("gradient_accumulation"), lab("language_model")
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

def exchange(collectives, nbytes, bytes_per_second=None):
    ways = {"server": pull_and_push, "ring": collectives.all_reduce_ring}
    with throttle(bytes_per_second) if bytes_per_second else nullcontext():
        for label, way in ways.items():
            way(torch.zeros(16))  # the first messages open the connections
            dist.barrier()
            with measure(label):
                way(torch.zeros(nbytes // 4))

# %%
workers = [1, 2, 4, 8]
exchanges = {n: launch(exchange, collectives, 100_000, 10e6, world_size=n + 1, device="cpu")
             for n in workers}
for label in ("server", "ring"):
    sent = [b / 100_000 for b in exchanges[4][label].sent_bytes]
    print(f"{label}, 5 ranks: sent, in copies of the weights:", *(f"{x:.1f}" for x in sent))

# %% tags=["nbval-ignore-output"]
took = {label: [1e3 * max(exchanges[n][label].seconds) for n in workers]
        for label in ("server", "ring")}
exchange_guess.compare(2 * 8 * 10, took["server"][-1], kind="communication")

# %% tags=["nbval-ignore-output"]
plot_against(workers, took, "workers, besides the server", "one exchange (ms)",
             {"server": [20 * n for n in workers],
              "ring": [20 * n / (n + 1) for n in workers]},
             title="Links throttled to 10 MB/s: the server's becomes the bottleneck")

# %% [markdown]
# Everything goes through the server's one link: $2(n-1)X/B$ for $n$ ranks. In the ring each link
# carries $2(n-1)X/(nB)$: hardly more with nine ranks than with three. (The prediction is dashed.)
#
# This is a matter of links, and between the processes of one computer there are none to share: at
# full speed, the server may even be the faster one (see the end). Bytes tell the truth everywhere.
# And a server can be divided over several computers. What people minded more is the waiting, which
# comes next.
#
# ### Exercise 3.1
#
# How long does one exchange of gradients take on `n` ranks, if `how` is `"server"` (rank 0 is the
# server, the others pull `X` bytes of weights, and when all have them push `X` bytes of gradients)
# or `"ring"` (an all-reduce of `X` bytes among all `n`)? Each rank has a link of `B` bytes/s, in
# both directions at once; there is no latency.

# %%
def exchange_seconds(how, n, X, B):
    ### BEGIN SOLUTION
    if how == "server":
        return 2 * (n - 1) * X / B
    return 2 * (n - 1) / n * X / B
    ### END SOLUTION

check("3.1", exchange_seconds)

# %% [markdown]
# ## 2 · Waiting, or not
#
# A step in which the server waits for everybody is **bulk-synchronous** (BSP): every gradient is
# that of the newest weights, and everybody is as slow as the slowest. **Asynchronous** (ASP):
# whoever pushes gets the newest weights at once, and goes on. But meanwhile others have changed
# them: a gradient is **stale** by as many updates as the weights have had since they were pulled.
#
# Three workers learn real digits. Two need 10 ms for a gradient, the third, a **straggler**, 50 ms
# (computing is *emulated*: they sleep that long. Gradients, messages and waiting are real). Which
# way has the smaller loss after the same time? With a small learning rate? With a large one?
#
# ### Exercise 3.2
#
# Write the asynchronous server: `serve_as_they_come` in labs/data_parallel.py. The synchronous one,
# and the worker, stand beside it.

# %%
check("3.2")

# %%
def race(data_parallel, data, way, learning_rate, seconds, milliseconds):
    images, labels = data[0].float(), data[1]
    rank, began, history = dist.get_rank(), time.perf_counter(), []
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    torch.manual_seed(rank)  # from here on, each draws samples of its own

    def compute_gradients(number):
        time.sleep(milliseconds[rank - 1] / 1e3)
        some = torch.randint(len(labels), (64,))
        model.zero_grad()
        F.cross_entropy(model(images[some]), labels[some]).backward()

    def is_over(updates):
        loss = F.cross_entropy(model(images), labels).item()
        history.append((time.perf_counter() - began, loss))
        return history[-1][0] > seconds

    if rank:
        return data_parallel.work(model, compute_gradients)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    return getattr(data_parallel, way)(model, optimizer, is_over), history

# %% tags=["nbval-ignore-output"]
ways = {"BSP": "serve_together", "ASP": "serve_as_they_come"}
races = {(name, rate): launch(race, data_parallel, accumulation.digits(), way, rate, race_seconds,
                              (10, 10, 50), world_size=4, device="cpu").values[0]
         for rate in (0.1, 1.0) for name, way in ways.items()}
Table(["", "learning rate", "gradients", "time for each", "mean staleness", "largest", "loss"],
      [[name, rate, len(stale), f"{1e3 * history[-1][0] / len(stale):.1f} ms",
        f"{sum(stale) / len(stale):.1f}", max(stale), f"{history[-1][1]:.2f}"]
       for (name, rate), (stale, history) in races.items()])

# %% tags=["nbval-ignore-output"]
plot_curves({f"learning rate {rate:g}": {name: list(zip(*races[name, rate][1])) for name in ways}
             for rate in (0.1, 1.0)}, "time (s)", "loss", highest=3,
            title="One straggler, with and without waiting for it (computing is emulated)")

# %% tags=["nbval-ignore-output"]
counts = Counter(races["ASP", 0.1][0])
plot_bars([*range(max(counts) + 1)], {"gradients": [counts[k] for k in range(max(counts) + 1)]},
          "gradients", "staleness: updates since the weights were pulled",
          title="ASP: the two quick workers' gradients are hardly stale, the straggler's are")

# %% [markdown]
# BSP takes a straggler's 50 ms for each three gradients; ASP nearly three times as many gradients
# in the same time. With the small learning rate each update changes little, so an old gradient is
# nearly as good as a new one, and ASP wins by far. With the large one, a gradient of weights that
# are ten updates old points anywhere, and ASP learns little or nothing. So it is neither better
# nor worse: it **depends**, on the learning rate and on the straggler.
#
# *Break it*: no straggler, `(10, 10, 10)`; or one of 200 ms. What becomes of the staleness?
#
# Training today is synchronous nearly everywhere, for a further reason: ASP cannot be repeated. Its
# result depends on who was quicker, and nobody can compare it with one process, as we do here with
# everything else. So: synchronous, but without a server. That takes the next three steps.

# %% [markdown]
# ## 3 · DataParallel
#
# PyTorch's first answer, for one computer: `DataParallel`, a single process with a thread for each
# GPU. The batch is on GPU 0, and so is the model. In each step:
#
# 1. GPU 0 *scatters* the inputs, 2. *replicates* the weights (a broadcast), and after the forward
# 3. *gathers* the outputs; it computes the loss, 4. *scatters* the gradients of the outputs, and
# after the backward 5. *reduces* (adds up) the gradients of the weights. Then GPU 0 takes the step.
#
# Without GPUs `DataParallel` does nothing at all. So here are its five exchanges, phase by phase,
# with a process in place of each GPU.

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
    return nn.Sequential(nn.Linear(64, 400), nn.ReLU(), nn.Linear(400, 10)).double()

def train_with_data_parallel(make_classifier, batches):
    model, rank, samples = make_classifier(), dist.get_rank(), len(batches[0][1])
    optimizer = torch.optim.Adam(model.parameters()) if rank == 0 else None
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
                     device="cpu") for n in (1, 4)}
gap = (dp_runs[1].values[0] - dp_runs[4].values[0]).abs().max()
print("four ranks equal one within 1e-12:", bool(gap < 1e-12))

# %%
phases = [label for label in dp_runs[4].labels if label != "step"]
model_bytes = 8 * len(dp_runs[1].values[0])
Table(["sent in a step, in models", "rank 0", "the others, at most"],
      [[phase, *(f"{x / 5 / model_bytes:.2f}" for x in (first, max(others)))]
       for phase in phases for first, *others in [dp_runs[4][phase].sent_bytes]])

# %%
plot_peak(dp_runs[4], "step", title="DataParallel: rank 0 has more to hold")

# %% tags=["nbval-ignore-output"]
def with_the_real_one(make_classifier, batches):
    model = make_classifier().cuda()
    wrapper, optimizer = DataParallel(model), torch.optim.Adam(model.parameters())
    for images, labels in batches:
        optimizer.zero_grad()
        F.cross_entropy(wrapper(images.cuda()), labels.cuda()).backward()
        optimizer.step()
    weights = nn.utils.parameters_to_vector(model.parameters()).detach().cpu()
    return weights, [torch.cuda.max_memory_allocated(gpu) for gpu in wrapper.device_ids]

if torch.cuda.device_count() > 1:
    weights, most = launch(with_the_real_one, make_classifier, five_batches, world_size=1).values[0]
    print(f"largest difference to one process: {(weights - dp_runs[1].values[0]).abs().max():.1e}")
    print("most memory of each GPU:", ", ".join(f"{x / 1e6:.2f} MB" for x in most))
else:
    print("devices of a DataParallel on this machine:", DataParallel(nn.Linear(1, 1)).device_ids)

# %% [markdown]
# Five exchanges, but not five times the bytes: weights out and gradients back are nearly all of
# them, and both are rank 0's business. It has the optimizer's state too, and the whole batch: on a
# box of equal GPUs, GPU 0 is full first. DataParallel is a parameter server whose server works, too.
#
# And it is one Python process. Only one thread at a time runs Python: whoever holds the **global
# interpreter lock** (GIL). PyTorch lets go of it while it computes. Two jobs of each kind, in two
# threads and in two processes:

# %%
def python_work():
    return sum(i * i for i in range(1_000_000))

def torch_work():
    x = torch.ones(500, 500)
    for _ in range(25):
        x @ x

def twice_in_threads(work):
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda _: work(), range(2)))

def time_jobs():
    for work in (python_work, torch_work):
        for label, job in {"one": work, "threads": lambda: twice_in_threads(work)}.items():
            with measure(f"{work.__name__} {label}", memory=False):
                job()

# %% tags=["nbval-ignore-output"]
threads = launch(time_jobs, world_size=1, device="cpu")
processes = launch(time_jobs, world_size=2, device="cpu")
seconds = lambda run, label: max(run[label].seconds)
Table(["", "one job", "two in threads", "two in processes"],
      [[work, *(f"{1e3 * seconds(run, f'{work} {label}'):.0f} ms"
                for run, label in ((threads, "one"), (threads, "threads"), (processes, "one")))]
       for work in ("python_work", "torch_work")])

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
# Why may one average gradients at all? The gradient is linear in the samples. For a batch $B$ in
# shards $B_r$ of $n$ ranks, with the mean loss over each:
#
# $$\nabla L(B) = \sum_r \frac{|B_r|}{|B|}\,\nabla L(B_r) \qquad\text{and for equal shards}\qquad
#   \nabla L(B) = \frac1n \sum_r \nabla L(B_r)$$
#
# The second one is an all-reduce and a division by $n$. Equal shards, unequal ones, and unequal
# ones with the weights of the first formula, on four ranks, beside one process with everything:

# %%
def gradient_of_shards(simple_ddp, make_classifier, data, sizes, weighted):
    rank, n = dist.get_rank(), dist.get_world_size()
    images, labels = (x[:sum(sizes)].split(sizes)[rank] for x in data[:2])
    model, factor = make_classifier(), n * sizes[rank] / sum(sizes) if weighted else 1
    (factor * F.cross_entropy(model(images), labels)).backward()
    simple_ddp.average_gradients(model)
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

def off_by(sizes, weighted):
    common = simple_ddp, make_classifier, digits
    one = launch(gradient_of_shards, *common, [sum(sizes)], False, world_size=1).values[0]
    four = launch(gradient_of_shards, *common, sizes, weighted, world_size=4).values[0]
    return ((four - one).norm() / one.norm()).item()

shards = {"16 16 16 16": ([16] * 4, False), "40 8 8 8": ([40, 8, 8, 8], False),
          "40 8 8 8, weighted": ([40, 8, 8, 8], True)}
errors = {name: off_by(*how) for name, how in shards.items()}
for name, error in errors.items():
    print(f"{name:20}", "equal within 1e-12" if error < 1e-12 else f"off by {error:.0%}")

# %% [markdown]
# DDP divides by $n$, whatever the shards. Who has unequal shards has to weight the loss.
#
# A toy from slides: a weight of .1, and four ranks with the gradients .8, −.2, −.7 and .4. On the
# slides everybody ends with a gradient of .3 and a weight of .2. What do a sum, DDP and a step of
# gradient descent really give?
#
# ### Exercise 3.3
#
# A rank has `samples` of the step's `all_samples`, on `n` ranks. Its loss is the mean over its own
# samples. By which factor must it be multiplied, so that DDP's average of the gradients is the
# gradient of the mean over all samples?

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

# %%
def loss_factor(samples, all_samples, n):
    ### BEGIN SOLUTION
    return n * samples / all_samples
    ### END SOLUTION

check("3.3", loss_factor)

# %% [markdown]
# ## 5 · By hand
#
# Data parallel training in its plainest form takes two functions: one that makes all replicas equal
# at the start, and one that averages gradients after each backward.
#
# ### Exercise 3.4
#
# In labs/simple_ddp.py, write `start_equal`.
#
# ### Exercise 3.5
#
# Write `average_gradients` there. Its docstring says what to do where there is no gradient.

# %%
print(check("3.4"), check("3.5"), sep="\n\n")

# %% [markdown]
# Now a real model: a small transformer that reads the source text of Python's standard library,
# letter by letter, and learns to guess the next one. It is in
# [labs/language_model.py](../labs/language_model.py). The ranks start differently, on purpose.
# After five steps, on one, two, three and four ranks: are the weights the same?

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
        dist.all_reduce(loss)
        losses.append(loss.item() / n)
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
                     batches_of(5, 10, 16), world_size=n, device="cpu") for n in (1, 2, 3, 4)}
alone, _ = by_hand[1].values[0]
for n in (2, 3, 4):
    gap = max((weights - alone).abs().max() for weights, _ in by_hand[n].values)
    print(f"{n} ranks equal one within 1e-12:", bool(gap < 1e-12))

# %% tags=["nbval-ignore-output"]
def adam(parameters):
    return torch.optim.AdamW(parameters, lr=5e-3)

curves = {f"{n} rank{'s' * (n > 1)}": launch(
    train_by_hand, simple_ddp, language_model.Transformer, adam, language_model.mean_loss,
    batches_of(60, 32, 64), world_size=n, device="cpu").values[0][1] for n in (1, 2)}
plot_curves({"": {name: (range(1, 61), losses) for name, losses in curves.items()}}, "step",
            "loss for each letter", title="Two ranks learn what one learns, step by step")

# %% [markdown]
# 128 letters, all equally likely, would be a loss of $\ln 128 = 4.85$. (In float32 the two curves
# part a little, in the last digits.)
#
# And what does it cost? One step of real DDP has a forward, and a backward in which it
# communicates. To see the communication alone, take the difference to a backward without it.
#
# ### Exercise 3.6
#
# Write `time_step` in labs/simple_ddp.py. Then the cell below measures this machine.

# %% tags=["nbval-ignore-output"]
print(check("3.6"))
print(launch(simple_ddp.overhead, text, world_size=2, device="cpu").values[0])

# %% [markdown]
# ## 6 · Who reads what
#
# Replicas that all read the same batch do the same work four times. Each needs samples of its own:
# PyTorch's `DistributedSampler` deals them out, like cards.
#
# ### Exercise 3.7
#
# Write `samples_of_rank` in labs/data_parallel.py: which samples a rank reads in which order.

# %%
check("3.7")

# %%
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
# BUGS 3.8 3.9

# %% [markdown]
# ## 7 · Buckets
#
# The transformer has some thirty gradients, many of them tiny, and each is an all-reduce of its own:
# thirty times the latency. Horovod's answer, and DDP's: copy several into one flat tensor, a **bucket**,
# and sum up that.
#
# ### Exercise 3.10
#
# In labs/gradient_sync_visualizer.py, write `make_buckets`. It begins with the *last* parameters,
# since their gradients are ready first; you will soon see what that is good for.
#
# ### Exercise 3.11
#
# Write `average_buckets` there.

# %%
print(check("3.10"), check("3.11"), sep="\n\n")

# %%
def average_in_ways(visualizer, model, sizes):
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    ways, times = {}, {}
    for size in sizes:
        ways |= visualizer.ways(model, size)
    ways["all in one"] = ways.pop("all in one")  # to the end
    for name, way in ways.items():
        with measure(name):
            way()
        times[name] = visualizer.seconds_of(way)
    return times

sizes = [3_000, 30_000, 100_000, 300_000]
bucketed = launch(average_in_ways, visualizer, language_model.Transformer(), sizes, world_size=2,
                  device="cpu")
sent = {label: bucketed[label].sent_bytes[0] for label in bucketed.labels}
alike = max(sent.values()) / min(sent.values()) < 1.05
print("all ways send the same bytes, within 5 % (headers):", alike)

# %% tags=["nbval-ignore-output"]
times = bucketed.values[0]
Table(["", "all-reduces", "time"],
      [[label, len(bucketed[label].calls[0]), f"{1e3 * times[label]:.1f} ms"]
       for label in bucketed.labels])

# %% [markdown]
# ## 8 · While the backward is running
#
# The last layer's gradient is ready long before the first layer's. So a bucket need not wait for
# the end: as soon as its last gradient is there, its all-reduce can begin, while the backward goes
# on. PyTorch calls a function when a gradient is complete, if asked by
# `parameter.register_post_accumulate_grad_hook(function)`: a **hook**.
#
# ### Exercise 3.12
#
# Fill the three holes of the class `DDP` in labs/data_parallel.py.

# %%
check("3.12")

# %% [markdown]
# To *see* the overlap, computing and communication must not be in each other's way. Two busy ranks
# on two cores are; GPUs with their own network cards are not. So here computing is emulated: each
# of six layers sleeps as long as a real one of its size was measured to take, its gradient is real,
# and your own ring of chapter 02 carries it over throttled links, in a thread of its own. First all
# communication after the backward, then in between. By how much does the step become shorter?

# %%
class Slept(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, seconds):
        ctx.weight, ctx.seconds = weight, seconds
        time.sleep(seconds)
        return x.clone()

    @staticmethod
    def backward(ctx, slope):
        time.sleep(2 * ctx.seconds)
        return slope, torch.ones_like(ctx.weight), None

class SleptLayer(nn.Module):
    def __init__(self, numbers, seconds):
        super().__init__()
        self.weight, self.seconds = nn.Parameter(torch.ones(numbers)), seconds

    def forward(self, x):
        return Slept.apply(x, self.weight, self.seconds)

# %%
def measured_layer(width=512, rows=1024):
    layer, x, times = nn.Linear(width, width), torch.ones(rows, width), []
    for _ in range(7):
        began = time.perf_counter()
        layer(x)
        times.append(time.perf_counter() - began)
    return sum(p.numel() for p in layer.parameters()), median(times)

def one_step(data_parallel, collectives, numbers, seconds, overlapping):
    def ring(x, group=None):
        with measure("all_reduce", memory=False):
            collectives.all_reduce_ring(x, group)

    model = nn.Sequential(*(SleptLayer(numbers, seconds) for _ in range(6)))
    begin = data_parallel.in_background(ring) if overlapping else lambda x, group: lambda: ring(x)
    ddp = data_parallel.DDP(model, 8 * numbers, begin)
    with measure("meanwhile" if overlapping else "afterwards", memory=False):
        with measure("forward", memory=False):
            y = ddp(torch.ones(1))
        with measure("backward", memory=False):
            y.backward()
        ddp.finish()

def both_steps(one_step, data_parallel, collectives, numbers, seconds):
    with throttle(4 * numbers / (2 * seconds)):
        collectives.all_reduce_ring(torch.ones(4))  # the first messages open the connections
        for overlapping in (False, True):
            dist.barrier()
            one_step(data_parallel, collectives, numbers, seconds, overlapping)

# %% tags=["nbval-ignore-output"]
layer = launch(measured_layer, world_size=1, device="cpu").values[0]
overlap = launch(both_steps, one_step, data_parallel, collectives, *layer, world_size=2,
                 device="cpu")
print("one step:", ", ".join(f"{1e3 * max(overlap[label].seconds):.0f} ms with communication {label}"
                             for label in ("afterwards", "meanwhile")))
plot_timeline(overlap, ["forward", "backward", "all_reduce"], below=["all_reduce"],
              title="A step with communication afterwards, and one with it meanwhile (emulated)")

# %% [markdown]
# Three buckets. Only the last one still has to travel when the backward is done: its gradients are
# those of the first layers, and they come last. That is why buckets are filled from the end, and
# why one large bucket would overlap with nothing.
#
# Does it show on this machine, without emulation? Two ranks on two cores have nobody to spare who
# could carry messages while they compute. Below, the lab's four ways to train the transformer, for
# real. What DDP gains here, it gains by buckets.

# %% tags=["nbval-ignore-output"]
trained = launch(data_parallel.program, text, 25, world_size=2, device="cpu")
print(*trained.values[0], sep="\n")

# %% [markdown]
# Step through a training step, as it was recorded from your class: forward layer by layer, backward
# from the end, buckets that fill and leave, averages, and the step of the optimizer. The numbers
# are the first element of each gradient. When do the ranks agree?

# %%
def film_a_step(data_parallel, data):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(),
                          nn.Linear(16, 10)).double()
    ddp = data_parallel.DDP(model, bucket_bytes=2_000)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    images, labels = (x[32 * dist.get_rank():][:32] for x in data[:2])
    with film_step(model, ddp.buckets) as film:
        F.cross_entropy(ddp(images), labels).backward()
        ddp.finish()
        optimizer.step()
    return film

films = launch(film_a_step, data_parallel, digits, world_size=4, device="cpu").values

def draw_step(step):
    return plot_step(films, step)

explore(draw_step, step=[6, *range(1, 6), *range(7, len(films[0].frames) + 1)])

# %% [markdown]
# BUG 3.13

# %% [markdown]
# ## 9 · Not each time
#
# With accumulation (chapter 01), a step has several micro-batches, and gradients add up locally.
# Only the sum has to travel: every backward but the last should be silent. DDP has a context
# manager for that, `with ddp.no_sync():`. Its forward asks whether it is active, so **forward and
# backward** belong under it.
#
# ### Exercise 3.14
#
# Write `no_sync` in labs/data_parallel.py, for your own class.

# %%
check("3.14")

# %%
def accumulate(data_parallel, make_classifier, data, micro_batches=4):
    ddp = data_parallel.DDP(make_classifier())
    theirs = DistributedDataParallel(make_classifier())
    parts = [(x, y) for x, y in zip(*(z[:128].chunk(micro_batches) for z in data[:2]))]
    for label, model, quiet in (("ours", ddp, lambda: data_parallel.no_sync(ddp)),
                                ("DDP", theirs, theirs.no_sync),
                                ("DDP, each time", theirs, nullcontext)):
        model.zero_grad()
        with measure(label):
            for number, (images, labels) in enumerate(parts, 1):
                with quiet() if number < micro_batches else nullcontext():
                    (F.cross_entropy(model(images), labels) / micro_batches).backward()
            if model is ddp:
                ddp.finish()

accumulated = launch(accumulate, data_parallel, make_classifier, digits, world_size=4,
                     device="cpu")
for label in accumulated.labels:
    print(f"{label:15} {accumulated[label].sent_bytes[0] / model_bytes:.2f} times the model")

# %% [markdown]
# BUGS 3.15 3.16
# %% [markdown]
# ## 10 · The real one
#
# `DistributedDataParallel(model)` does all of this in C++. The same gradients as your class, and
# the same bytes? And which buckets does it make? A **communication hook** is asked for each bucket
# what to do with it, so it can also look on. (In the first iteration DDP does not know yet in which
# order gradients become ready; then it builds its buckets anew, with a small first one, 1 MiB.)

# %%
def beside_the_real_one(data_parallel, model, loss_fn, batch):
    ours = data_parallel.DDP(copy.deepcopy(model), 25 * 2**20)
    real, (inputs, targets) = DistributedDataParallel(model), batch
    for _ in range(3):
        for label, ddp, finish in (("ours", ours, ours.finish), ("DDP", real, lambda: None)):
            ddp.zero_grad()
            loss = loss_fn(ddp(inputs), targets)
            with measure(label):
                loss.backward()
                finish()
    pairs = zip(ours.model.parameters(), real.module.parameters())
    return max((a.grad - b.grad).abs().max().item() for a, b in pairs)

batch = language_model.draw_batch(text, 8, 0, 16)
both = launch(beside_the_real_one, data_parallel, tiny(), language_model.mean_loss, batch,
              device="cpu", world_size=4)
print("the same gradients within 1e-12:", max(both.values) < 1e-12)
ratio = both["ours"].sent_bytes[0] / both["DDP"].sent_bytes[0]
print("the same bytes within 0.5 %:", abs(ratio - 1) < 0.005)

# %%
def look_on(seen, bucket):
    seen.append(bucket.buffer().nbytes)
    average = bucket.buffer() / dist.get_world_size()
    return dist.all_reduce(average, async_op=True).get_future().then(lambda f: f.value()[0])

def buckets_of(make_model, cap_mb, iterations=12):
    ddp, x = DistributedDataParallel(make_model(), bucket_cap_mb=cap_mb), torch.ones(8, 512)
    seen, buckets, times = [], [], []
    ddp.register_comm_hook(seen, look_on)
    for _ in range(iterations):
        seen.clear()
        began = time.perf_counter()
        ddp(x).sum().backward()
        times.append(time.perf_counter() - began)
        buckets.append([round(nbytes / 2**20, 2) for nbytes in seen])
    return buckets[0], buckets[-1], median(times[4:])

def eight_layers(*between):
    return nn.Sequential(*(m for _ in range(8) for m in (nn.Linear(512, 512), *between)))

caps = {cap: launch(buckets_of, eight_layers, cap, world_size=2, device="cpu").values[0]
        for cap in (None, 25, 4, 0.1)}

# %% tags=["nbval-ignore-output"]
Table(["bucket_cap_mb", "buckets at first (MiB)", "from the third iteration on", "step"],
      [[cap or "not set", " ".join(map(str, first)), " ".join(map(str, later)), f"{1e3 * seconds:.1f} ms"]
       for cap, (first, later, seconds) in caps.items()])

# %% [markdown]
# Buckets are not of equal size: they are filled until they reach the cap, and a tensor is never
# split. 25 MiB is the default; the best size depends on the model and on the links.
#
# DDP counts on every parameter to have a gradient in every backward. If a layer is not used, it
# waits for the rest of a bucket, and says so when the next iteration begins:

# %%
class TwoLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(512, 512), nn.Linear(512, 512)

    def forward(self, x, both=True):
        return self.second(self.first(x)) if both else self.first(x)

def skip_a_layer(**options):
    ddp = DistributedDataParallel(TwoLayers(), **options)
    for _ in range(2):
        ddp(torch.ones(8, 512), both=False).sum().backward()
    return ddp.module.second.weight.grad is None

try:
    launch(skip_a_layer, world_size=2, device="cpu")
except RankError as error:
    print(str(error.exception).split(". ")[0])
mended = launch(lambda: skip_a_layer(find_unused_parameters=True), world_size=2, device="cpu")
print("with find_unused_parameters=True, .grad of the unused layer is None:", mended.values[0])

# %% [markdown]
# `find_unused_parameters=True` walks through the graph before each backward, and tells the others
# which parameters had no part. `static_graph=True` promises that it is always the same ones.
#
# And gradients are not all that travels. *Buffers*, such as BatchNorm's running statistics, go from
# rank 0 to all in each forward. A *communication hook* may send something else: gradients in
# bfloat16 are half the bytes. What does each of these cost, beside plain DDP?

# %%
def in_bfloat16(state, bucket):
    half = (bucket.buffer() / dist.get_world_size()).bfloat16()
    future = dist.all_reduce(half, async_op=True).get_future()
    return future.then(lambda f: bucket.buffer().copy_(f.value()[0]))

def variants(eight_layers, in_bfloat16):
    torch.manual_seed(0)
    model = eight_layers()
    yield "plain", DistributedDataParallel(model)
    yield "find_unused_parameters", DistributedDataParallel(model, find_unused_parameters=True)
    yield "static_graph", DistributedDataParallel(model, static_graph=True)
    yield "with BatchNorm", DistributedDataParallel(eight_layers(nn.BatchNorm1d(512)))
    hooked = DistributedDataParallel(model)
    hooked.register_comm_hook(None, in_bfloat16)
    yield "bfloat16 hook", hooked

def what_it_costs(variants, eight_layers, in_bfloat16):
    x, times, gradients = torch.randn(8, 512), {}, {}
    for name, ddp in variants(eight_layers, in_bfloat16):
        spent = []
        for number in range(16):
            ddp.zero_grad()
            began = time.perf_counter()
            with measure(f"{name}: forward") if number == 5 else nullcontext():
                y = ddp(x).square().mean()
            with measure(f"{name}: backward") if number == 5 else nullcontext():
                y.backward()
            spent.append(time.perf_counter() - began)
        times[name], gradients[name] = median(spent[6:]), ddp.module[0].weight.grad.clone()
    plain, half = gradients["plain"], gradients["bfloat16 hook"]
    return times, ((half - plain).norm() / plain.norm()).item()

# %%
options = launch(what_it_costs, variants, eight_layers, in_bfloat16, world_size=2, device="cpu")
kilobytes = {name: [options[f"{name}: {part}"].sent_bytes[0] / 1e3
                    for part in ("forward", "backward")] for name in options.values[0][0]}
print(f"bytes in bfloat16: {kilobytes['bfloat16 hook'][1] / kilobytes['plain'][1]:.2f} of plain")

# %% tags=["nbval-ignore-output"]
times, bfloat16_error = options.values[0]
Table(["", "rank 0 sends in the forward", "in the backward", "all-reduces", "time"],
      [[name, *(f"{kb:.1f} kB" for kb in kilobytes[name]),
        len(options[f"{name}: backward"].calls[0]), f"{times[name] / times['plain']:.2f} of plain"]
       for name in times], note=f"bfloat16 changes the gradient by {bfloat16_error:.2%}")

# %% [markdown]
# Replicas stay equal only as long as all take the same steps from the same start. Here are four
# ways to lose that. None of them raises an error. After ten steps, how far apart are two replicas,
# beside how far one has moved?

# %%
def drift(mistake, simple_ddp, data):
    torch.manual_seed(dist.get_rank())
    model = nn.Linear(64, 10).double()
    by_hand = mistake == "start not made equal"
    ddp = model if by_hand else DistributedDataParallel(model)
    optimizer, start = torch.optim.SGD(model.parameters(), lr=0.5), model.weight.detach().clone()
    for images, labels in zip(*(x.split(64) for x in simple_ddp.share_of_rank(data[:2]))):
        called = model if mistake == "ddp.module called" else ddp
        with ddp.no_sync() if mistake == "no_sync everywhere" else nullcontext():
            optimizer.zero_grad()
            loss = F.cross_entropy(called(images), labels)
            loss.backward()
        if by_hand:
            simple_ddp.average_gradients(model)
        if mistake == "learning rate by own loss":
            optimizer.param_groups[0]["lr"] = 0.25 * loss.item()
        optimizer.step()
    return model.weight.detach(), (model.weight - start).norm().item()

mistakes = ("none", "no_sync everywhere", "ddp.module called", "start not made equal",
            "learning rate by own loss")
apart_after = {}
for mistake in mistakes:
    (one, moved), (other, _) = launch(drift, mistake, simple_ddp, digits, world_size=2,
                                      device="cpu").values
    apart_after[mistake] = (one - other).norm().item() / moved

# %%
print("without a mistake, replicas are bitwise equal:", apart_after["none"] == 0)
plot_bars(mistakes, {"distance": list(apart_after.values())}, "distance / way gone",
          title="Two replicas that should be one")

# %% [markdown]
# ## 11 · DataParallel or DDP
#
# A web note compares the two in eight rows. Here they are, with what this notebook has measured.
# One row says that DataParallel is "better for smaller models": so first, one step of each for three
# sizes of a model. (With processes in place of DataParallel's threads, which is to its advantage.)

# %%
def steps_of_both(data_parallel_step, simple_ddp, batch, width, rounds=12):
    images, labels = (x.clone() for x in batch)
    model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10)).double()
    optimizer, ddp = torch.optim.SGD(model.parameters(), lr=0.1), DistributedDataParallel(model)
    mine, my_labels = simple_ddp.share_of_rank((images, labels))
    times = {"DataParallel": [], "DDP": []}
    for _ in range(rounds):
        for name, spent in times.items():
            dist.barrier()
            began = time.perf_counter()
            if name == "DDP":
                optimizer.zero_grad()
                F.cross_entropy(ddp(mine), my_labels).backward()
                optimizer.step()
            else:
                data_parallel_step(model, optimizer, images, labels, len(labels))
            spent.append(time.perf_counter() - began)
    return {name: median(spent[3:]) for name, spent in times.items()}

# %% tags=["nbval-ignore-output"]
small_and_large = {width: launch(steps_of_both, data_parallel_step, simple_ddp, five_batches[0],
                                 width, world_size=2, device="cpu").values[0]
                   for width in (10, 1_000, 10_000)}
slower = [of["DataParallel"] / of["DDP"] for of in small_and_large.values()]
dp_sent = [sum(dp_runs[4][phase].sent_bytes[rank] for phase in phases) / 5 / model_bytes
           for rank in (0, 1)]
ddp_sent = accumulated["DDP"].sent_bytes[0] / model_bytes
held = [peak["optimizer_state"] / model_bytes for peak in dp_runs[4]["step"].peak_bytes]
gil, no_gil = (seconds(run, f"python_work {label}") / seconds(threads, "python_work one")
               for run, label in ((threads, "threads"), (processes, "one")))
Table(["", "DataParallel", "DDP", "seen here"], [
    ["processes", "one, a thread for each GPU", "one for each GPU",
     f"two Python jobs in threads take {gil:.1f} times one's time, in processes {no_gil:.1f}"],
    ["replicas", "anew in each forward", "once, at the start",
     f"{dp_runs[4]['2 replicate weights'].sent_bytes[0] / 5 / model_bytes:.1f} models from rank 0 "
     "in each step; none in DDP's"],
    ["inputs", "GPU 0 cuts the batch", "each rank reads its own", "section 6: with a sampler"],
    ["gradients", "added up on GPU 0", "averaged by an all-reduce",
     f"sent in a step by ranks 0 and 1 of four: {dp_sent[0]:.1f} and {dp_sent[1]:.1f} models; "
     f"DDP {ddp_sent:.1f} each"],
    ["performance", "", "better", "time of a step beside DDP's, for models of three sizes: "
     + ", ".join(f"{x:.1f}" for x in slower)],
    ["scale", "one computer", "many computers", "chapter 00: two machines under torchrun"],
    ["synchronisation", "in the wrapper", "process group, wrapper",
     f"optimizer state, in models: rank 0 {held[0]:.0f}, others {held[1]:.0f}; DDP: all alike"],
    ["code", "DataParallel(model)", "process group, wrapper, sampler", "exercise 3.8"]])

# %% [markdown]
# ## 12 · What binds
#
# How fast *can* a step be? Three rates bound it: arithmetic, memory, network. A book chapter
# writes: throughput ≈ min(compute, memory, network). As times, for $P$ parameters in float32, $b$
# samples on each rank, and $n$ ranks:
#
# $$t_\text{compute} = \frac{6\,b\,P}{\text{FLOP/s}} \qquad t_\text{memory} \approx
#   \frac{6\cdot 4P}{\text{memory bytes/s}} \qquad t_\text{network} = \frac{2(n-1)}{n}\,
#   \frac{4P}{\text{link bytes/s}}$$
#
# (6: a multiplication and an addition, forward and twice backward. And weights are read in forward
# and backward, gradients written and read, weights read and written.) Measure the three rates of
# this machine, predict, and check.

# %%
def median_seconds(job, rounds=7):
    times = []
    for _ in range(rounds):
        dist.barrier()
        began = time.perf_counter()
        job()
        times.append(time.perf_counter() - began)
    return median(times[2:])

def rates(median_seconds):
    square, long = torch.ones(512, 512), torch.ones(4_000_000)
    n = dist.get_world_size()
    return (2 * 512**3 / median_seconds(lambda: square @ square),
            3 * long.nbytes / median_seconds(lambda: long + long),  # reads two, writes one
            2 * (n - 1) / n * long.nbytes / median_seconds(lambda: dist.all_reduce(long)))

def parts_of_step(median_seconds, rows, width=1024, layers=4):
    model = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(layers)))
    optimizer, x = torch.optim.SGD(model.parameters(), lr=1e-6), torch.randn(rows, width)
    flat = torch.ones(layers * width**2)

    def local():
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    return median_seconds(local), median_seconds(lambda: dist.all_reduce(flat))

# %% tags=["nbval-ignore-output"]
flops, memory_rate, network_rate = launch(rates, median_seconds, world_size=2,
                                          device="cpu").values[0]
print(f"for each of two ranks: {flops / 1e9:.0f} GFLOP/s, memory {memory_rate / 1e9:.1f} GB/s, "
      f"network {network_rate / 1e9:.1f} GB/s")
samples, P = [1, 4, 16, 64, 256], 4 * 1024**2
found = [launch(parts_of_step, median_seconds, b, world_size=2, device="cpu").values[0]
         for b in samples]
local, network = ([1e3 * pair[k] for pair in found] for k in (0, 1))
predicted_local = [1e3 * max(6 * b * P / flops, 24 * P / memory_rate) for b in samples]
plot_against(samples, {"forward, backward, step": local, "all-reduce": network},
             "samples on each rank", "time (ms)",
             {"forward, backward, step": predicted_local,
              "all-reduce": [1e3 * 4 * P / network_rate] * len(samples)}, logarithmic=True,
             title="What binds: four layers of 1024 × 1024 on two ranks")

# %% [markdown]
# On the left the step is bound by memory: one sample takes as long as four, for all weights have to
# come by once. On the right by arithmetic: twice the samples, twice the time. Where the flat line
# of the all-reduce lies above the other, the network binds: larger local batches, accumulation, or
# fewer bytes would help. And faster arithmetic would help nothing.
#
# "≈ min" of rates means max of *times*, and that is true only as far as all three overlap. In
# section 8 the times added up, until communication ran meanwhile.

# %% [markdown]
# ## Put to the test
#
# What our sources say about data parallel training, and what was found. First: servers, waiting,
# and DataParallel.

# %% tags=["nbval-ignore-output"]
fast = launch(exchange, collectives, 4_000_000, world_size=4, device="cpu")
bsp, asp = races["BSP", 0.1], races["ASP", 0.1]
final = {key: history[-1][1] for key, (_, history) in races.items()}
put_to_the_test(f"""
- With one server, all workers share its link, which becomes the bottleneck | blog | right |
  throttled links: {took["server"][-1]:.0f} ms with 8 workers, a ring {took["ring"][-1]:.0f} ms. In
  one computer nothing is shared: server {1e3 * max(fast["server"].seconds):.1f} ms, ring
  {1e3 * max(fast["ring"].seconds):.1f} ms for 4 MB on 4 ranks
- Workers push and pull gradients at the same time | blog | imprecise |
  weights are pulled; and in BSP the next pull has to wait for the last push
- BSP has no stale weights, but all wait for the slowest | handwritten notes | right |
  staleness {max(bsp[0])}; {3e3 * bsp[1][-1][0] / len(bsp[0]):.0f} ms a step with a straggler of
  50 ms
- ASP: no waiting, stale weights, no faster convergence | handwritten notes | depends |
  {len(asp[0]) / len(bsp[0]):.1f} times the gradients; staleness up to {max(asp[0])}. Loss after
  {race_seconds:g} s: ASP {final["ASP", 0.1]:.2f}, BSP {final["BSP", 0.1]:.2f} at learning rate
  0.1; {final["ASP", 1.0]:.2f} and {final["BSP", 1.0]:.2f} at 1
- Two challenges: overhead of communication and of synchronisation | CS 229S | right |
  two things: section 1's bytes on links, and here waiting, of which links know nothing
""")

# %% tags=["nbval-ignore-output"]
put_to_the_test(f"""
- DataParallel makes 5 exchanges for each batch | web note | depends |
  {len(phases)}, as emulated in section 3. With the loss in the replica, the third and fourth are
  a number each. Not 5 times the bytes: {dp_sent[0] + 3 * dp_sent[1]:.1f} models sent by four ranks
  together, DDP {4 * ddp_sent:.1f}
- It averages gradients on the CPU or on one GPU | web note | wrong |
  it adds them up on GPU 0; the loss is one mean already. One process's weights came out
- Each GPU keeps a copy of the model; the model is replicated in each forward | handwritten notes;
  web note | contradict each other | the second is right: phase 2 of section 3
- GPU 0 works and holds more | web note; blog | right | rank 0 sent {dp_sent[0]:.1f} models, rank 1
  {dp_sent[1]:.1f}; its peak is {dp_runs[4]["step"].peak_bytes[0]["total"] / 1e6:.2f} MB, of rank 1
  {dp_runs[4]["step"].peak_bytes[1]["total"] / 1e6:.2f} MB
- GPU 0 is the parameter server, with the optimizer's state | blog | right, as an analogy |
  state in models: rank 0 {held[0]:.0f}, others {held[1]:.0f}. But this server works, too
- DataParallel's biggest problem is the GIL | handwritten notes | depends |
  Python jobs in 2 threads take {gil:.1f} times one's time, PyTorch's
  {seconds(threads, "torch_work threads") / seconds(threads, "torch_work one"):.1f} times
- DataParallel is better for smaller models | web note | not seen |
  its step takes {" / ".join(f"{x:.1f}" for x in slower)} times DDP's, from small to large
""")

# %%
error = errors["40 8 8 8"]
put_to_the_test(f"""
- The batch's gradient is the mean of the shards', weighted by their sizes | book chapter | right |
  within 1e-12: {errors["40 8 8 8, weighted"] < 1e-12} (section 4)
- That is exactly all_reduce(SUM) / world_size | book chapter | depends | on equal shards:
  within 1e-12: {errors["16 16 16 16"] < 1e-12}; shards of 40 8 8 8 are off by {error:.0%}. On a
  mean as the loss, and on layers that look at one sample at a time (BatchNorm does not)
- Local gradients .8 -.2 -.7 .4 make .3 on every node | PyTorch slides | imprecise |
  the sum is {summed:.1f}; what DDP leaves is the mean, {averaged:.3f}
- A weight of .1 with a gradient of +.3 becomes .2 | PyTorch slides | wrong | a step goes against
  the gradient: {0.1 - 0.1 * summed:.2f} with learning rate 0.1. For .2 it would be
  {(0.1 - 0.2) / summed:.2f}
- Gradients are averaged; or summed | web page, CS 229S; PyTorch slides | contradict each other |
  DDP averages. A sum with learning rate / n takes the same step
- The all-reduce of DDP divides by the world size | web page | imprecise | DDP divides, not the
  all-reduce: a communication hook has to do it (look_on in section 10)
- Why G0, G1, G2 and not one G? Data differ, so gradients do, each as large as the model | blog |
  right | two ranks' differ by {apart["DistributedSampler"]:.0%}; without a sampler by
  {apart["no sampler"]:.0%} (section 6)
""")

# %%
def looked_at(make_classifier, data):
    model, n = make_classifier(), dist.get_world_size()
    with measure("constructor"):
        ddp = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters())
    images, labels = (x[dist.get_rank()::n] for x in data[:2])
    before = model[0].weight.detach().clone()
    with measure("forward"):
        loss = F.cross_entropy(ddp(images), labels)
    with measure("backward"):
        loss.backward()
    moved_by_backward = bool((model[0].weight != before).any())
    with measure("step"):
        optimizer.step()
    state = optimizer.state[model[0].weight]["exp_avg"]
    states = [torch.empty_like(state) for _ in range(n)]
    dist.all_gather(states, state)
    return moved_by_backward, all(bool((other == state).all()) for other in states)

looked = launch(looked_at, make_classifier, digits, world_size=4, device="cpu")
(moved, same_state), *_ = looked.values
calls = {label: len(looked[label].calls[0]) for label in ("forward", "backward", "step")}
sent_at_start = [f"{b / model_bytes:.1f}" for b in looked["constructor"].sent_bytes]

# %%
def when_buckets_leave(language_model, text):
    ddp, times = DistributedDataParallel(language_model.Transformer(), bucket_cap_mb=0.1), []

    def note_time(state, bucket):
        times.append(time.perf_counter())
        return look_on([], bucket)

    ddp.register_comm_hook(None, note_time)
    inputs, targets = language_model.draw_batch(text, 16, 0)
    for _ in range(4):
        times.clear()
        loss = language_model.mean_loss(ddp(inputs), targets)
        times.append(time.perf_counter())
        loss.backward()
        times.append(time.perf_counter())
    began, *left, ended = times
    return [(moment - began) / (ended - began) for moment in left]

def samples_per_second(data_parallel, language_model, text, each=16):
    model, n = language_model.Transformer(), dist.get_world_size()
    ddp = DistributedDataParallel(model)
    *_, seconds = data_parallel.train(ddp, lambda: None, text, 10, each * n)
    return each * n / seconds

# %% tags=["nbval-ignore-output"]
left = launch(when_buckets_leave, language_model, text, world_size=2, device="cpu").values[0]
put_to_the_test(f"""
- Gradients are accumulated on one node, and returned every few batches | PyTorch slides |
  wrong | {calls["backward"]} all-reduce in each backward, and no rank in the middle: sent
  {", ".join(f"{b / model_bytes:.1f}" for b in looked["backward"].sent_bytes)} models
- Every loss.backward() synchronises | PyTorch slides | right | exchanges: forward
  {calls["forward"]}, backward {calls["backward"]}, step {calls["step"]}
- backward() updates the weights, too | PyTorch slides | wrong | after backward() weights have
  moved: {moved}. That is optimizer.step()
- no_sync() leaves synchronisation out, for accumulation | PyTorch slides | right |
  4 micro-batches: {ddp_sent:.1f} models sent, without it
  {accumulated["DDP, each time"].sent_bytes[0] / model_bytes:.1f}; if the forward is under it, too
- DDP's all-reduce starts while the backward still runs | PyTorch slides; book chapter | right |
  its {len(left)} buckets left after {", ".join(f"{x:.0%}" for x in left)} of the backward
- Buckets are of equal size | PyTorch slides | wrong | MiB: {caps[None][1]} by default, and all in
  one at first, {caps[None][0]}
- 25 MB is the recommended size | PyTorch slides | imprecise | it is the default. The best depends:
  here {", ".join(f"{1e3 * t:.0f} ms with {c or 'none'}" for c, (_, _, t) in caps.items())} set
""")

# %% tags=["nbval-ignore-output"]
each, once = (bucketed.values[0][way] for way in ("each by itself", "all in one"))
put_to_the_test(f"""
- Bucketing is faster than a call for each gradient | PyTorch slides; book chapter | right |
  {1e3 * each:.1f} ms one by one, {1e3 * once:.1f} ms in one (section 7)
- DDP broadcasts parameters so that replicas start equal | book chapter | right | in its
  constructor, once: ranks 0 to 3 send {", ".join(sent_at_start)} models
- Gradients are DDP's only communication | web note | imprecise | buffers go in each forward:
  {kilobytes["with BatchNorm"][0]:.1f} kB for 8 BatchNorm layers; find_unused_parameters sends
  {1e3 * (kilobytes["find_unused_parameters"][1] - kilobytes["plain"][1]):.0f} bytes more
- PyTorch recommends DDP over DataParallel, even on one node | web note | right |
  its documentation says so: docs.pytorch.org, DataParallel
- A process may have several GPUs; NCCL synchronises | web note | imprecise | one GPU for each
  process, but for models that are split. Here: {looked.backend} on {looked.device}
- DDP has less overhead than DataParallel, and works on several machines | handwritten notes |
  right | section 11; two machines in chapter 00
- DDP uses a ring all-reduce | handwritten notes; blog | imprecise | the backend chooses (NCCL:
  rings, trees, ...). Gloo's bytes are a ring's: {ddp_sent:.1f} models on 4 ranks
- find_unused_parameters=True is for dynamic graphs | web page | right | section 10
- DDP's processes keep optimizer states of their own | blog | right | and they stay equal, since
  gradients are: {same_state}
- DDP by hand equals the wrapper | book chapter | right | gradients within 1e-12:
  {max(both.values) < 1e-12}
""")

# %%
def steps_to(goal, batch, data, rates=(0.2, 0.5, 1.0, 2.0), limit=400):
    """The fewest steps to a training loss, with the best of some learning rates."""
    fewest, (images, labels) = limit, (data[0].float(), data[1])
    for rate in rates:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        for step in range(1, fewest):
            some = torch.randint(len(labels), (batch,))
            optimizer.zero_grad()
            F.cross_entropy(model(images[some]), labels[some]).backward()
            optimizer.step()
            if step % 5 == 0 and F.cross_entropy(model(images), labels) < goal:
                fewest = step
                break
    return fewest

needed = {batch: steps_to(0.25, batch, digits) for batch in (16, 64, 256, 1024)}
throughput = {n: launch(samples_per_second, data_parallel, language_model, text, world_size=n,
                        device="cpu").values[0] for n in (1, 2, 4)}

# %% tags=["nbval-ignore-output"]
gpt3, seven = 175e9, 2 * 7 / 8 * 2 * 7e9  # weights; bytes that a rank of 8 sends for 7B in bf16
put_to_the_test(f"""
- Data parallel raises throughput, as the batch grows | CS 229S | depends | samples/s, here:
  {", ".join(f"{n} ranks {x:.0f}" for n, x in throughput.items())}. But steps to a loss of 0.25:
  {", ".join(f"{n} with batches of {b}" for b, n in needed.items())}: at last, more samples in a
  step hardly save steps
- Scaling is near-linear | web page | depends | {throughput[2] / throughput[1]:.2f} times with 2
  ranks, {throughput[4] / throughput[1]:.2f} with 4; beyond the number of cores there is nothing
  to gain
- Weights and activations have to fit; GPT-3 does not into 80 GB | CS 229S; web note | right |
  {gpt3 * 2 / 1e9:.0f} GB of weights in 2 bytes; with gradients and Adam's state
  {gpt3 * 16 / 1e12:.1f} TB (chapter 05)
- It communicates a lot: every weight, each time | CS 229S | right | 7B in bf16 on 8 ranks:
  {seven / 1e9:.1f} GB sent by each in a step: {seven / 125e6:.0f} s at 1 Gbit/s, {seven / 25e9:.2f}
  s at 25 GB/s
- Throughput is about min(compute, memory, network) | book chapter | imprecise | only with full
  overlap: {1e3 * max(overlap["afterwards"].seconds):.0f} ms one after another,
  {1e3 * max(overlap["meanwhile"].seconds):.0f} ms meanwhile
- Memory bound? Use ZeRO-3 | book chapter | wrong | that bound is of bandwidth: here
  {memory_rate / 1e9:.1f} GB/s. ZeRO-3 saves capacity, and sends more
- Backward's time includes communication | book chapter | right for DDP | that is why exercise 3.6
  subtracts a backward under no_sync; on GPUs, synchronise before reading the clock
- If everything fits, DDP is the fastest | book chapter | depends | fewest bytes, most overlap;
  chapter 06 races it
- The DDP programs run as printed | web page; book chapter | wrong | exercises 3.8 and 3.9
""")

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)); *CS 229S, lecture 8*
# (Stanford); *Data Parallelism Deep Dive* (book chapter); *Distributed Parallelism in Deep
# Learning* (web page); *The Evolution of Data Parallelism* (blog); a web note on types of
# distributed training; handwritten notes.
#
# **To read on.** Li et al., [PyTorch Distributed](https://arxiv.org/abs/2006.15704), 2020: how DDP
# was built, with measurements. Goyal et al., [Accurate, Large Minibatch
# SGD](https://arxiv.org/abs/1706.02677), 2017, and McCandlish et al., [An Empirical Model of
# Large-Batch Training](https://arxiv.org/abs/1812.06162), 2018: how large a batch may be. Li et
# al., *Scaling Distributed Machine Learning with the Parameter Server*, 2014. Dean et al., *Large
# Scale Distributed Deep Networks*, 2012: asynchronous, on thousands of machines.
