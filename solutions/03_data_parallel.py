# %% [markdown]
# # 03 · Data parallel
#
# **How do four ranks train one model, so that it is the model that one process would have
# trained?** Each rank has the whole model, and a quarter of each batch. Three conditions are
# enough: all ranks **start equal**, all take a step along the **mean of their gradients**, and each
# reads **samples of its own**. In this part you write all three by hand. PyTorch's
# `DistributedDataParallel` (DDP) keeps the same three. The next part, [03b · Inside
# DDP](03b_inside_ddp.ipynb), looks into it.

# %% [markdown]
# ![Distance of rank 1's replica from one process, and from rank 0, over 40 steps: with all three
# conditions both stay at zero; with one left out, not](../assets/covers/03_data_parallel.png)
#
# *Measured in section 5: four ranks train with one of the three conditions left out. No rank raises
# an error, and the loss falls in all of them. Only the comparison with one process shows it.*
#
# **After this part you can** train one model on several ranks by hand, show that it equals one
# process, and find the reason if it does not.
#
# **It takes** about 30 minutes, and 60 more for 7 exercises. **It needs**
# [00](00_start_here.ipynb) and [02 · Collectives](02_collectives.ipynb).

# %% jupyter={"source_hidden": true}
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from pedagogy_lib import (
    HangError, Table, check, close, hint, lab, launch, measure, plot_bars, plot_curves, predict,
    progress, put_to_the_test, relative_gap, rounding,
)

# %% tags=["parameters"]
world_size = 4

# %%
simple_ddp, replicas, watch = lab("simple_ddp"), lab("equal_replicas"), lab("watch_loops")
language_model, digits = lab("language_model"), lab("gradient_accumulation").digits()[:2]
text = language_model.standard_library()
device = "auto" if torch.cuda.device_count() >= world_size else "cpu"  # the same for all runs

# %% [markdown]
# ## 1 · The mean of gradients
#
# A rank that sees a quarter of the batch computes the gradient of that quarter. If each rank
# followed its own gradient, you would train four different models.
#
# Begin with one weight $w = 0.1$ and four ranks that have one sample each. Their gradients are 0.8,
# −0.2, −0.7 and 0.4. (The numbers are from the slides of a video course. There all ranks end with
# a gradient of 0.3 and a weight of 0.2.) What does DDP make of them?

# %%
def one_weight(gradients):
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 0.1)
    ddp = DistributedDataParallel(model)
    x = torch.tensor([[gradients[dist.get_rank()]]])
    ddp(x).sum().backward()  # d (w x) / dw = x
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    return model.weight.grad.item(), model.weight.item()

toys = launch(one_weight, [0.8, -0.2, -0.7, 0.4], world_size=4, device=device).values
for rank, (gradient, weight) in enumerate(toys):
    print(f"rank {rank}: gradient {gradient:.3f}, weight after the step {weight:.4f}")

# %% [markdown]
# DDP leaves the **mean** on every rank: $0.3 / 4 = 0.075$. One process with all four samples gets
# the same, if its loss is the mean over the samples.
#
# A step with learning rate 0.1 goes *against* the gradient: $0.1 - 0.1 \cdot 0.075 = 0.0925$. So
# the slides' 0.3 is the sum, and their 0.2 is a step in the wrong direction.

# %% [markdown]
# The loss of a batch is the mean over its samples, so its gradient is the mean of their
# gradients. Cut a batch $B$ of $|B|$ samples into shards $B_0, \ldots, B_{n-1}$, one for each of
# the $n$ ranks. With the loss $L$:
#
# $$\nabla L(B) = \sum_{r=0}^{n-1} \frac{|B_r|}{|B|}\,\nabla L(B_r)$$
#
# If all shards are equally large, this is the plain mean, $\frac{1}{n}\sum_r \nabla L(B_r)$. DDP
# always computes the plain mean. It divides by $n$, whatever the shards are.
#
# Now take unequal shards: 40 samples on rank 0, and 8 on each of the other three. Each rank takes
# the mean loss over its own samples, and DDP averages the gradients. A sample of a small shard
# then counts more than a sample of rank 0. How many times as much?

# %%
counts_more = predict("A sample of a small shard counts more than one of rank 0:", unit="times")

# %% [markdown]
# A trick measures it. Give each sample a parameter of its own, and let the sample's loss be that
# parameter. Then the parameter's gradient says how much the sample counts in the mean.
# (`average_gradients` is the lab's function that does what DDP does. You write it in section 2.)

# %%
def what_samples_count(simple_ddp, sizes):
    losses = nn.ParameterList([torch.zeros(sum(sizes))])  # one number for each sample
    mine = losses[0].split(sizes)[dist.get_rank()]
    mine.mean().backward()
    simple_ddp.average_gradients(losses)
    return losses[0].grad

sizes = [40, 8, 8, 8]
count = launch(what_samples_count, simple_ddp, sizes, world_size=4, device=device).values[0]

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
counts_more.compare(40 / 8, (count[-1] / count[0]).item(), kind="gradients")

# %% tags=["nbval-ignore-output"]
each = [part[0].item() for part in count.split(sizes)]
plot_bars([f"rank {rank}: {size} samples" for rank, size in enumerate(sizes)],
          {"one of its samples": each}, "share of the mean",
          predicted={"one of its samples": [1 / 64] * 4},
          title="With unequal shards, the plain mean lets samples of small shards count more")

# %% [markdown]
# The outlines are 1/64, what each sample counts in one process. To get there, each rank multiplies
# its loss by a factor.
#
# ### Exercise 3.1
#
# Write `loss_factor`. It gets three whole numbers: `samples`, how many samples this rank has in
# this step (one or more); `all_samples`, how many all ranks have together; and `n`, the number of
# ranks. The rank's loss is the mean over its own samples. Return the factor for this loss, so that
# DDP's average of the gradients is the gradient of the mean over all samples.
#
# For two ranks with 3 samples and 1 sample, rank 0's factor is 1.5 and rank 1's is 0.5.

# %%
def loss_factor(samples, all_samples, n):
    ### BEGIN SOLUTION
    return n * samples / all_samples
    ### END SOLUTION

check("3.1", loss_factor)

# %% [markdown]
# ## 2 · By hand
#
# Two functions are enough. One makes all replicas equal at the start. The other averages the
# gradients after each backward. Then all ranks take the same step from the same place, and stay
# equal without ever sending a weight again.
#
# ### Exercise 3.2
#
# In [labs/simple_ddp.py](../labs/simple_ddp.py), write `start_equal(model, group=None)`. Afterwards
# every rank of the group holds the first rank's values in all parameters (frozen ones, too) and
# **buffers**: tensors that no optimizer changes, such as BatchNorm's running means. Write into the
# tensors that are there. Each tensor travels once: $n-1$ copies of the model in all.
#
# Weights [1, 2] on rank 0 and [5, 7] on rank 1 become [1, 2] on both.

# %% [markdown]
# ### Exercise 3.3
#
# In [labs/simple_ddp.py](../labs/simple_ddp.py), write `average_gradients(model, group=None)`. All
# ranks call it after their backward. It makes every `.grad` the mean over the ranks, with one
# all-reduce for each parameter.
#
# A parameter that took no part in this rank's loss has None in its `.grad`. It counts as zeros, and
# gets the mean, since other ranks may have a gradient for it. A frozen parameter (`requires_grad`
# is False) keeps its None.
#
# [2, 4] on rank 0 and [6, 0] on rank 1 become [4, 2] on both. None and [6, 0] become [3, 0].

# %%
display(check("3.2"), check("3.3"))

# %% [markdown]
# That is all that data parallel training needs. The model below is a small
# transformer that reads the source text of Python's standard library, character by character, and
# predicts the next one ([labs/language_model.py](../labs/language_model.py)). Its output layer has
# the weights of its embedding (`tied`), so this gradient comes in two parts. Each batch has 12
# samples, which 1, 2, 3 and 4 ranks can share equally. After five steps, are the weights those of
# one process?

# %%
def train_by_hand(simple_ddp, language_model, synchronize, learning_rate, batches):
    torch.manual_seed(dist.get_rank())  # another start on each rank, so that it would show
    model = language_model.Transformer(16, layers=1, context=16, tied=True).double()
    simple_ddp.start_equal(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    for batch in batches:
        inputs, targets = simple_ddp.share_of_rank(batch)
        optimizer.zero_grad()
        language_model.mean_loss(model(inputs), targets).backward()
        synchronize(model)
        optimizer.step()
    return parameters_to_vector(model.parameters()).detach().cpu()

# %%
batches = [language_model.draw_batch(text, 12, step, 16) for step in range(5)]

def trained_on(ranks, synchronize=simple_ddp.average_gradients, learning_rate=0.5):
    return launch(train_by_hand, simple_ddp, language_model, synchronize, learning_rate, batches,
                  world_size=ranks, device=device).values

alone = trained_on(1)[0]
for n in range(2, world_size + 1):
    equal = all(close(weights, alone, steps=5) for weights in trained_on(n))
    print(f"{n} ranks equal one process, but for rounding:", equal)

# %% [markdown]
# "But for rounding": four ranks add up the same numbers in another order, and a float64 sum in
# another order differs in its last digits. `close` allows that, and no more.
#
# Does it have to be the mean? The sum is $n$ times the mean. So SGD with the sum and the learning
# rate divided by $n$ takes the same step:

# %%
def sum_gradients(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)

summed = trained_on(world_size, sum_gradients, 0.5 / world_size)[0]
sum_is_mean = close(summed, alone, steps=5)
print("sum, with the learning rate divided by n, equals the mean:", sum_is_mean)

# %% [markdown]
# That holds for SGD, with and without momentum. It does not hold for Adam, which divides the
# gradient by its own size: Adam with the sum takes the same steps as Adam with the mean, so a
# smaller learning rate only makes it slower.
#
# The lab is a program, too. It trains a larger transformer by hand and with DDP, from the same
# weights: `torchrun --nproc-per-node 2 labs/simple_ddp.py`, or here:

# %% tags=["nbval-ignore-output"]
compared = launch(simple_ddp.compare, text, world_size=2).values[0]
print(compared)

# %% [markdown]
# ## 3 · What a step waits for
#
# Two ranks process twice as many samples in a step. Communication may eat up that gain. How long
# does a step of DDP wait for it? DDP communicates *while* the backward runs (part 03b), so a clock
# around the all-reduce cannot tell. Take a difference: a backward with communication, minus one
# without.
#
# The difference is the **exposed communication**, the part that did not hide behind the backward,
# and what DDP's hooks cost. It says nothing about the bytes: with perfect overlap it is near zero,
# and just as many bytes travel.

# %% [markdown]
# ### Exercise 3.4
#
# Write `time_step(ddp, loss_fn, inputs, targets)` in
# [labs/simple_ddp.py](../labs/simple_ddp.py). It gets a model in `DistributedDataParallel`, a
# function `loss_fn(outputs, targets)`, and this rank's batch. It returns three numbers of seconds:
#
# 1. a forward, with the loss,
# 2. a backward *without* communication,
# 3. a backward *with* communication, minus the second number (it may come out negative).
#
# `with ddp.no_sync():` switches communication off, if forward *and* backward are under it. Two
# forwards and two backwards are enough. Read the clock with the lab's `now()`.
#
# If a forward takes 2 s, a backward under `no_sync` 5 s and one with communication 8 s, return
# 2, 5, 3.

# %% tags=["nbval-ignore-output"]
display(check("3.4"))
print(launch(simple_ddp.overhead, text, world_size=2).values[0])

# %% [markdown]
# These are medians of 20 steps, and they change from run to run. Two ranks on two cores have no
# core to spare for communication, so these numbers say little about a cluster.
#
# > **On GPUs**, a call returns before its work is done: kernels are queued, and Python goes on
# > ([CUDA semantics](https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution)).
# > A clock that does not wait for the GPU measures the time to queue. So `now()` calls
# > `torch.cuda.synchronize()` first.

# %% [markdown]
# ## 4 · Samples of its own
#
# The third condition. If all ranks read the same batch, they do the same work four times, and the
# mean of four equal gradients is that gradient. PyTorch's `DistributedSampler` gives each rank its
# own samples. Here it shares out 12 samples between two ranks, in two epochs: first as many
# programs do it, and then with one call more.

# %%
def show_orders(tell_epoch):
    samplers = [DistributedSampler(range(12), num_replicas=2, rank=rank) for rank in range(2)]
    for epoch in range(2):
        for rank, sampler in enumerate(samplers):
            if tell_epoch:
                sampler.set_epoch(epoch)
            print(f"epoch {epoch}, rank {rank} reads", *list(sampler))

show_orders(tell_epoch=False)
print("with set_epoch:")
show_orders(tell_epoch=True)

# %% [markdown]
# Within an epoch each sample is read once. But without `set_epoch`, epoch 1 repeats the order of
# epoch 0, and so do all others: the same batches, one after another. Nothing reports it.
#
# The reason: the sampler shuffles with a generator that is seeded with `seed + epoch`, so that all
# ranks get the same order without a message. It cannot know the epoch. Its `epoch` stays 0 until
# somebody calls **`set_epoch`**.

# %% [markdown]
# ### Exercise 3.5
#
# Write `samples_of_rank(length, epoch, rank, n, seed=0)` in
# [labs/data_parallel.py](../labs/data_parallel.py). It returns the list of samples that a rank
# reads in an epoch:
#
# 1. Shuffle 0 … `length` − 1 with `torch.randperm` and a `torch.Generator` of its own, seeded with
#    `seed + epoch`: the same order on all `n` ranks.
# 2. If `length` is no multiple of `n`, continue the order with its own beginning, as often as is
#    needed, up to the next multiple.
# 3. Take every `n`-th sample of that, from place `rank` on.
#
# Suppose that 5 samples are shuffled into 3 0 4 1 2. Two ranks need six places: 3 0 4 1 2 3. Rank 0
# reads 3 4 2, and rank 1 reads 0 1 3.

# %%
display(check("3.5"))

# %% [markdown]
# What does it mean for the gradients? Two ranks take the first batch of 32 digits from a
# `DataLoader`: without a sampler; without one and shuffled, each rank with its own seed; and with
# one. How alike are their gradients? Two gradients that point the same way have a **cosine** of 1.
# Unrelated ones in a space of so many dimensions have a cosine near 0.

# %%
def first_gradient(replicas, data, how):
    dataset = TensorDataset(*data)
    sampler = DistributedSampler(dataset) if how == "sampler" else None
    loader = DataLoader(dataset, 32, sampler=sampler, shuffle=how == "shuffled",
                        generator=replicas.seeded(dist.get_rank()))
    return replicas.gradient_of(replicas.classifier(), *next(iter(loader)))

gradients = {how: launch(first_gradient, replicas, digits, how, world_size=2,
                         device="cpu").values for how in ("neither", "shuffled", "sampler")}

# %%
of_all = replicas.gradient_of(replicas.classifier(), *digits)
apart = {how: ((a - b).norm() / a.norm()).item() for how, (a, b) in gradients.items()}

def cosine(a, b):
    return f"{F.cosine_similarity(a, b, dim=0):.2f}"

columns = ["", "lengths", "difference", "cosine", "each with all digits'", "their mean with it"]
Table(columns,
      [[how, f"{a.norm():.2f}, {b.norm():.2f}", f"{(a - b).norm():.2f}", cosine(a, b),
        f"{cosine(a, of_all)}, {cosine(b, of_all)}", cosine((a + b) / 2, of_all)]
       for how, (a, b) in gradients.items()])

# %% [markdown]
# Without a sampler and unshuffled, both ranks compute the same gradient: the difference is exactly
# 0. With a sampler, the difference is longer than either of the two. Still they are related: each
# has a clearly positive cosine with the gradient of all digits (two random directions in 2,410
# dimensions have about 0.02). Their mean has a larger one than either of them. That is what the
# second rank is good for.
#
# Shuffling on each rank looks as good in a single batch. But then each rank goes through the whole
# dataset in an epoch, and the two do all the work twice.

# %% [markdown]
# And all ranks have to take equally many steps. What if rank 1 has one batch less?

# %% tags=["nbval-ignore-output"]
def one_batch_less(simple_ddp):
    model = nn.Linear(1, 1)
    for _ in range(3 - dist.get_rank()):  # three steps on rank 0, two on rank 1
        model(torch.ones(1, 1)).sum().backward()
        simple_ddp.average_gradients(model)

try:
    launch(one_batch_less, simple_ddp, world_size=2, timeout=3, device="cpu")
except HangError as error:
    print(error)

# %% [markdown]
# Rank 0 waits in its third step for a rank that is done. That is why `DistributedSampler` fills
# up the order, so that all ranks read equally many. (Where that is not possible, DDP has `Join`:
# part [03c](03c_ddp_at_work.ipynb).)

# %% [markdown]
# ## 5 · Leave one out
#
# Do you need all three conditions? Four ranks learn the digits for 40 steps, and each time one
# condition is left out: every rank draws a start of its own; no gradient is averaged; all ranks
# read the same quarter of each batch. How far is rank 1's replica from the model of one process,
# and how far from rank 0's? A distance of 1 is as far as the one process has moved in its 40 steps.

# %% tags=["cover", "nbval-ignore-output"]
left_out = {"": "all three", **{name: f"no {name}" for name in replicas.CONDITIONS}}
found = {told: launch(replicas.distances, name, digits, world_size=4, device="cpu").values[1]
         for name, told in left_out.items()}
panels = {"rank 1 from one process": 0, "rank 1 from rank 0": 1}
plot_curves({panel: {told: (range(41), of[which]) for told, of in found.items()}
             for panel, which in panels.items()}, "step", "distance", highest=2.2,
            title="Three conditions: leave one out, and it is another model")

# %% tags=["nbval-ignore-output"]
for told, (*_, loss) in found.items():
    print(f"{told:25} loss of rank 1 after 40 steps {loss:.2f}")

# %% [markdown]
# With all three, both distances are zero, but for rounding. Without an equal start, the replicas
# keep their distance from each other: averaged gradients move both alike. (Weight decay would bring
# them together, slowly.) Without the mean of the gradients, each rank trains a model of its own.
# With the same samples everywhere, all replicas are equal to each other, and the right picture
# shows nothing. They are the model of a process with a quarter of the batch.
#
# The loss at the start is about 2.3, and it falls in all four. No rank raises an error. So compare
# a distributed program with one process, in float64, before you believe it.

# %% [markdown]
# ## 6 · Two published loops
#
# Now read code that others have published. This loop is from a web page, *Distributed Parallelism
# in Deep Learning*, under “PyTorch DistributedDataParallel Setup”. We run its lines as they are
# printed, on two ranks, with eight samples that are pairs of inputs and label. The lab
# [watch_loops](../labs/watch_loops.py) notes which samples each rank reads.

# %%
def as_printed(model, dataset, loss_fn, epochs, samples):
    dataloader, local_rank = DataLoader(dataset, batch_size=samples), dist.get_rank()
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in dataloader:
        inputs, labels = batch.cuda(local_rank), labels.cuda(local_rank)  # noqa: F821
        loss = loss_fn(model(inputs), labels)
        loss.backward()  # the gradients are averaged here
        optimizer.step()
        optimizer.zero_grad()

def reads(train_epochs):
    for rank, line in enumerate(launch(watch.samples_read, train_epochs, world_size=2,
                                       device="cpu").values):
        print(f"rank {rank}:", line)

reads(as_printed)

# %% [markdown]
# ### Exercise 3.6
#
# A list cannot move to a GPU, and that is not the only bug. `train_epochs` is that loop on the
# CPU, with epochs. It gets a model; a dataset of pairs of inputs and label;
# `loss_fn(outputs, labels)`; the number of `epochs`; and `samples`, the size of one rank's batch.
# It trains `model`.
#
# In each epoch the ranks share out all samples, equally many each (a few may come twice, or not at
# all, if their number is no multiple of the ranks). Each epoch has a new order. The weights are to
# be those of one process that takes the same batches of all ranks together.
#
# Run the cell to see the symptom. Find the bugs, then run the check.

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

reads(train_epochs)

# %%
check("3.6", train_epochs)

# %% [markdown]
# ### Exercise 3.7
#
# The second loop is from a book chapter (*Data Parallelism Deep Dive*, “PyTorch
# DistributedDataParallel”), which calls it exactly that of a single GPU. `train_steps` gets `ddp`,
# a model in `DistributedDataParallel`; `loss_fn(outputs, targets)`; an `optimizer` that has its
# parameters; and `batches`, a list with this rank's batches, each a pair of inputs and targets. It
# takes one optimizer step for each batch. The weights are to be those of one process that takes the
# batches of all ranks.
#
# The cell runs your loop on three equal batches with tiny steps, so all three gradients should be
# the same. Find the bugs, then run the check.

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

print(launch(watch.gradients_followed, train_steps, world_size=2, device="cpu").values[0])

# %%
check("3.7", train_steps)

# %% [markdown]
# ## Put to the test
#
# What our sources say about the three conditions, and what was found here.

# %% jupyter={"source_hidden": true}
# The measurements that the table still needs.
def off_by(sizes, factors=(1, 1, 1, 1)):
    four = launch(replicas.gradient_of_shards, digits, sizes, factors, device="cpu").values[0]
    alone = replicas.gradient_of(replicas.classifier(), *(x[:sum(sizes)] for x in digits))
    return relative_gap(four, alone)

def wrap_and_train(replicas, data):
    model = replicas.classifier()
    with measure("constructor"):
        DistributedDataParallel(model)
    return sum(p.nbytes for p in model.parameters()), replicas.without_clearing(data)

plain, unequal = off_by([16, 16, 16, 16]), off_by([40, 8, 8, 8])
weighted = off_by([40, 8, 8, 8], [4 * size / 64 for size in (40, 8, 8, 8)])
wrapped = launch(wrap_and_train, replicas, digits, world_size=4, device="cpu")
model_bytes, (growth, same_moments) = wrapped.values[0]
at_start = ", ".join(f"{sent / model_bytes:.1f}" for sent in wrapped["constructor"].sent_bytes)

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# The surprises. The table below has the other statements at a click.
norms = ", ".join(f"{x:.2f}" for x in growth)
surprises = f"""
- [C055] A weight of .1 with a gradient of .3 becomes .2 | PyTorch slides, “Distributed Data
  Parallel: step 4” | wrong | a step goes against the gradient: {0.1 - 0.1 * 0.3:.2f} with learning
  rate 0.1. To reach .2 it would take a learning rate of {(0.1 - 0.2) / 0.3:.2f} (section 1)
- [C054] Local gradients .8, -.2, -.7, .4 give .3 on every node | PyTorch slides, “Distributed Data
  Parallel: step 3” | imprecise | .3 is the sum. DDP leaves the mean, {toys[0][0]:.3f} (section 1)
- [C056] Gradients are averaged; or they are summed | CS 229S, “Data parallelism”; PyTorch slides,
  “Distributed Data Parallel: step 3” | contradict each other | DDP averages. SGD with the sum and
  lr / n takes the same steps: {sum_is_mean} (section 2)
- [C052] The mean is exactly all_reduce(SUM) / world_size | book chapter, “The Core Insight:
  Gradient Averaging” | depends | on equal shards: equal but for rounding {plain <= rounding()};
  shards of 40, 8, 8, 8 are off by {unequal:.0%} (section 1). It also needs a mean as the loss, and
  layers that treat samples one by one (BatchNorm does not)
- [C083] A DDP program runs as printed | web page, “PyTorch DistributedDataParallel Setup” | wrong |
  it ends with an error (section 6). Repaired but without a sampler, two unshuffled ranks compute
  the same gradient: they differ by {apart["neither"]:.0%} (section 4)
- [C084] DDP's loop is exactly that of a single GPU | book chapter, “PyTorch DistributedDataParallel
  (DDP)” | wrong as printed | nobody clears the gradients: on one batch with tiny steps, their norm
  grows like {norms} (lab equal_replicas). It has no sampler and no loss function either (3.7)
- [C091] Backward's time includes communication | book chapter, “Exercise 3: Measure Communication
  Overhead” | right for DDP | so the computing is measured under no_sync. The difference is only the
  exposed part of the communication, with the hooks' cost (section 3)
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# The table.
put_to_the_test(surprises, more=f"""
- [C051] The batch's gradient is the mean of the shards' gradients, weighted by their sizes | book
  chapter, “The Core Insight: Gradient Averaging” | right | shards of 40, 8, 8, 8 with exercise
  3.1's factors equal one process, but for rounding: {weighted <= rounding()}
- [C092] Gradients differ between ranks since data differ, and each is as large as the model |
  blog, “DeepSpeed Zero” | right | two ranks' differ by {apart["sampler"]:.0%} of the first one;
  their cosine is {cosine(*gradients["sampler"])} (section 4)
- [C064] DDP broadcasts parameters so that replicas start equal | book chapter, “PyTorch
  DistributedDataParallel (DDP)” | right | in its constructor, once: ranks 0 to 3 send {at_start}
  models
- [C093] DDP's processes keep optimizer states independently | blog, “Distributed Data Parallelism”
  | right | and they stay equal, since the gradients are: Adam's moments bitwise equal
  {same_moments}
- [C095] Data parallel training by hand equals the wrapper | book chapter, “Exercise 1: Manual DDP”
  | right | after the lab's 20 steps: {compared.splitlines()[1]} (section 2)
""")

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)); *CS 229S, lecture 8*
# (Stanford); *Data Parallelism Deep Dive* (book chapter); *Distributed Parallelism in Deep
# Learning* (web page); *The Evolution of Data Parallelism* (blog).
#
# **To read on.** Li et al., [PyTorch Distributed](https://arxiv.org/abs/2006.15704), 2020, section
# 2: why DDP averages gradients and not weights.

# %% [markdown]
# ## What you have learnt
#
# * Equal start, mean of the gradients, own samples: with all three, $n$ ranks train the model of
#   one process. Without one of them they train another model, and no error tells you.
# * DDP divides by the number of ranks. If shards are unequal, multiply each rank's loss by $n$
#   times its share of the samples.
# * `DistributedSampler` gives each rank its own samples. Call `set_epoch`, or all epochs have the
#   same order.
# * A backward with communication minus one without is the *exposed* communication.
#
# **Your exercises**: those in cells above, [labs/simple_ddp.py](../labs/simple_ddp.py) and
# [labs/data_parallel.py](../labs/data_parallel.py).
#
# **Next**: [03b · Inside DDP](03b_inside_ddp.ipynb).

# %%
progress("03")
