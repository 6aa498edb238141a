# %% [markdown]
# # {{title}}
#
# **What if a training program forgets one of the three conditions?** In
# [part 03](03_data_parallel.ipynb) you wrote two of them: an equal start, and the mean of the
# gradients. The third is that each rank reads samples of its own, and all read equally many. Here
# you write it, and leave out one condition at a time. Then you repair two published training loops.

# %% [markdown]
# ![Distance of rank 1's replica from the model of one process, over 40 steps: with all three
# conditions it stays at zero; with any of them left out it
# grows](../assets/covers/03b_samples_of_its_own.png)
#
# *Measured in section 2: four trainings, one with all three conditions, and three with one of them
# left out.*
#
# **After this part you can** share out the samples of an epoch, and find the condition that a
# training program has forgotten.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from pedagogy_lib import (
    HangError, Table, check, hint, lab, launch, plot_curves, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
world_size = 4

# %%
simple_ddp, replicas, watch = lab("simple_ddp"), lab("equal_replicas"), lab("watch_loops")
digits = lab("gradient_accumulation").digits()[:2]

# %% [markdown]
# ## 1 · Samples of its own
#
# If all ranks read the same batch, they do the same work four times, and the mean of four equal
# gradients is one of them. So each rank needs samples of its own. PyTorch's `DistributedSampler`
# gives each rank its share. Here it shares out 12 samples between two ranks, in two epochs: first
# as many programs do it, and then with one call more.

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
# Language models are seldom pre-trained with this sampler. They read windows of equal length from
# one long file of tokens, by the global number of a sample, and an epoch hardly exists (10g). In
# part 04h, section 4, you read samples by such a number. Megatron Core keeps [a document, a sample
# and a shuffle index](https://docs.nvidia.com/megatron-core/developer-guide/latest/api-guide/datasets.html).

# %% [markdown]
# ### Exercise {{samples_of_rank}} · Write a distributed sampler
#
# Write `samples_of_rank(length, epoch, rank, n, seed=0)` in
# [labs/data_parallel.py](../labs/data_parallel.py). It returns a list: the numbers of the samples
# that a rank reads in an epoch.
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
display(check("{{samples_of_rank}}"))

# %% [markdown]
# What does it mean for the gradients? Two ranks take a batch of 32 digits each, in three ways:
#
# 1. unshuffled, without a sampler;
# 2. shuffled on each rank, each with a seed of its own;
# 3. with a `DistributedSampler`.
#
# How alike are their two gradients? The **cosine** of two gradients is 1 if they point the same
# way. For unrelated ones it is near 0. How close does each come to the gradient of all training
# digits? The table has means over 20 batches.

# %% tags=["nbval-ignore-output"]
alike = launch(replicas.first_gradients, digits, world_size=2, device="cpu").values[0]
columns = ["each other", "one with all", "mean with all"]
Table(["cosine", "the two ranks' with each other", "one rank's with all digits'",
       "their mean with all digits'"],
      [[how, *(f"{of[column]:.2f}" for column in columns)] for how, of in alike.items()])

# %% [markdown]
# Without a sampler both ranks have one and the same gradient, and the mean is no better than one of
# them. With a sampler the gradients differ, and their mean is closer to the gradient of all digits.
# That is what the second rank is good for.
#
# Shuffling on each rank looks about as good. (With only 20 batches, the differences between the
# last two rows are chance.) But then each rank reads the whole dataset in an epoch. So an epoch
# takes as many steps as on one rank, and reads every sample twice.

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
# part [03e](03e_ddp_at_work.ipynb).)

# %% [markdown]
# ## 2 · Leave one out
#
# Do you need all three conditions? Four ranks learn the digits for 40 steps. They train once with
# all conditions, and three times with one of them left out:
#
# * *no equal start*: every rank draws a start of its own;
# * *no mean of the gradients*: each rank follows its own gradient;
# * *no own samples*: all ranks read the same quarter of each batch.
#
# How far is rank 1's replica from the model of one process? A distance of 1 is as far as the one
# process has moved in its 40 steps.

# %% tags=["cover", "nbval-ignore-output"]
panels, losses = launch(replicas.leave_one_out, digits, world_size=world_size,
                        device="cpu").values[1]
plot_curves({"rank 1 from one process": panels["from one process"]}, "step", "distance",
            highest=2.2, title="Leave one condition out, and it is another model")

# %% tags=["nbval-ignore-output"]
print("loss of rank 1 after 40 steps:")
print(*(f"  {told:25} {loss:.2f}" for told, loss in losses.items()), sep="\n")

# %% [markdown]
# With all three conditions, the distance is zero, but for rounding. Without one of them, rank 1
# ends with another model. But no rank raises an error, and the loss falls in all four trainings.
# (At the start it was about $\ln 10 \approx 2.3$: a guess among ten digits.)
#
# Perhaps you can find the mistake without one process beside it: compare the ranks with each other.
# In how many of the three trainings that lack a condition do ranks 0 and 1 stay equal?

# %%
stay_equal = predict("In how many of the three do ranks 0 and 1 stay equal?", unit="trainings")

# %% tags=["nbval-ignore-output"]
plot_curves({"rank 1 from rank 0": panels["from rank 0"]}, "step", "distance", highest=2.2,
            title="Compare the ranks with each other, and you may find nothing")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
_, *without_one = panels["from rank 0"].values()
stay_equal.compare(1, sum(far[-1] < 1e-9 for _, far in without_one), kind="other")

# %% [markdown]
# * **No equal start**: replicas keep their distance, since each step adds the same vector to both.
#   (Weight decay would bring them together, slowly.)
# * **No mean of the gradients**: each rank trains a model of its own.
# * **No own samples**: all replicas stay equal. Their thin line lies on the axis, at zero. But each
#   is now the model of one process that has a quarter of the batch.
#
# So comparing ranks with each other is not enough. Compare a distributed program with one process,
# in float64, before you believe it.

# %% [markdown]
# ## 3 · Two published loops
#
# Now read code that others have published. This loop is from a web page, *Distributed Parallelism
# in Deep Learning*, under “PyTorch DistributedDataParallel Setup”. The page leaves out the data
# loader and the optimizer, so the first and the third line of the function are added here. The loop
# is as it is printed.
#
# We run it on two ranks, with eight samples that are pairs of inputs and label. The lab
# [watch_loops](../labs/watch_loops.py) notes which samples each rank reads.

# %%
def train_published_loop(model, dataset, loss_fn, epochs, batch_size):
    dataloader, local_rank = DataLoader(dataset, batch_size=batch_size), dist.get_rank()
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in dataloader:
        inputs, labels = batch.cuda(local_rank), labels.cuda(local_rank)  # noqa: F821
        loss = loss_fn(model(inputs), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

watch.print_reads(train_published_loop)

# %% [markdown]
# ### Exercise {{train_epochs}} · Debug a published loop over epochs
#
# A list cannot move to a GPU, and that is not the only bug. `train_epochs` trains `model` with that
# loop on the CPU, in epochs. It gets a dataset of pairs of inputs and label,
# `loss_fn(outputs, labels)`, the number of `epochs`, and the `batch_size` of one rank.
#
# * In each epoch the ranks share out all samples, equally many each. If the samples do not divide,
#   a few may be read twice, or left out.
# * Each epoch has a new random order. The model is in training mode.
# * The weights must equal those of one process whose batch, in each step, is the batches of all
#   ranks together.
#
# Run the cell to see the symptom. Find the bugs.

# %%
def train_epochs(model, dataset, loss_fn, epochs, batch_size):
    ### BEGIN SOLUTION
    sampler = DistributedSampler(dataset)
    dataloader = DataLoader(dataset, batch_size=batch_size, sampler=sampler)
    ### IT WAS
    # dataloader = DataLoader(dataset, batch_size=batch_size, shuffle=True)
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
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

watch.print_reads(train_epochs)

# %%
check("{{train_epochs}}", train_epochs)

# %% [markdown]
# ### Exercise {{train_steps}} · Debug a published loop over batches
#
# The second loop is from a book chapter (*Data Parallelism Deep Dive*, “PyTorch
# DistributedDataParallel (DDP)”). The book says that it is exactly the loop of a single GPU.
#
# `train_steps` gets `ddp`, a model in `DistributedDataParallel`, and `loss_fn(outputs, targets)`.
# The `optimizer` has the model's parameters. `batches` is a list with this rank's batches. Each is
# a pair of inputs and targets. `train_steps` takes one optimizer step for each batch. The weights
# must equal those of one process whose batch, in each step, is the batches of all ranks together.
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
        loss.backward()
        optimizer.step()

print(launch(watch.gradients_followed, train_steps, world_size=2, device="cpu").values[0])

# %%
check("{{train_steps}}", train_steps)

# %% [markdown]
# ## Put to the test
#
# What our sources say about training loops, and what was found here.

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# How the norm of a gradient grows if nobody clears it; its size; and the first loop once more.
growth, _ = launch(replicas.train_without_zero_grad, digits, world_size=4, device="cpu").values[0]
norms = ", ".join(f"{x:.2f}" for x in growth)
sampled, model = alike["with a sampler"], replicas.classifier()
numbers = replicas.gradient_of(model, *(x[:8] for x in digits)).numel()
told = launch(watch.describe_reads, train_published_loop, world_size=2, device="cpu").values[0]
fails = "'list' object has no attribute 'cuda'" in told
of_model = sum(parameter.numel() for parameter in model.parameters())

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# The table.
put_to_the_test(f"""
- [C083] A DDP program runs as printed | web page, “PyTorch DistributedDataParallel Setup” |
  {"wrong" if fails else "not decided here"} | its loop ends with an AttributeError: a list cannot
  move to a GPU (section 3, run). The page does not import `os`, which it uses. Repaired but without
  a sampler, two unshuffled ranks compute the same gradient: the cosine is
  {alike["unshuffled"]["each other"]:.2f} (section 1, table) | measured: nothing; on GPUs the loop
  fails at the same line, as a loader's batch of inputs and labels is a list there, too
- [C084] DDP's loop is exactly that of a single GPU | book chapter, “PyTorch DistributedDataParallel
  (DDP)” | {"wrong as printed" if growth[-1] > 2 else "not here"} | nobody clears the gradients: on
  one batch with tiny steps, the norm of the first layer's grows like {norms} (a run in this
  section). It has no sampler and no loss function either (exercise {{train_steps}}) | measured: nothing;
  autograd adds to .grad on every device
- [C092] Gradients differ between ranks since data differ, and each is as large as the model |
  blog, “Q3: Why there are G_0, G_1, and G_2 rather than a unified G?” |
  {"right" if numbers == of_model and sampled["each other"] < 0.9 else "not here"} | with a sampler,
  the gradients of two ranks have a cosine of {sampled["each other"]:.2f}: for equal ones it would
  be 1 (section 1, table). A gradient has {numbers:,} numbers, the model {of_model:,} (counted in
  this section) | measured: nothing; it follows from the data, not from the device
""")

# %% [markdown]
# **Sources.** *Distributed Parallelism in Deep Learning* (web page); *Data Parallelism Deep Dive*
# (book chapter); *The Evolution of Data Parallelism* (blog).
#
# **To read on.** PyTorch,
# [DistributedSampler](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler).

# %% [markdown]
# ## What you have learnt
#
# * Leave out the equal start, the mean of the gradients, or the own samples: the ranks train
#   another model, and no error tells you.
# * If all ranks read the same samples, even the replicas are equal. Only the comparison with one
#   process shows it.
# * `DistributedSampler` gives each rank its own samples. Call `set_epoch`, or all epochs have the
#   same order.
# * All ranks have to take equally many steps.
#
# **Your exercises**: {{train_epochs}} and {{train_steps}} stand in cells above, and
# [labs/data_parallel.py](../labs/data_parallel.py) has {{samples_of_rank}}.
#
# **Next**: {{next}}.

# %%
progress("03b")
