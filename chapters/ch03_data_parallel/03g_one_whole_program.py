# %% [markdown]
# # {{title}}
#
# **What does a training script need around DDP, and what goes wrong without it?** In parts 03 to
# 03f you met the pieces one by one. Here they stand together in one file,
# [labs/train_ddp.py](../labs/train_ddp.py). `torchrun` starts it on one machine or on many. Each
# section takes one piece of the file and shows what happens without it. Then you fill five holes,
# and two machines train.

# %% [markdown]
# ![The loss of each epoch: of one process, of four ranks on two machines for three epochs, and of
# two ranks that go on; the three lines are one curve](../assets/covers/03g_one_whole_program.png)
#
# *Measured in section 7: four ranks on two machines begin, two ranks go on, and one process does
# the same alone.*
#
# **After this part you can** write a training script for DDP that starts anywhere, counts its test
# images once, saves whole checkpoints, and gives the weights of one process.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import tempfile
import textwrap
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

from pedagogy_lib import (
    HangError, RankError, check, hint, lab, launch, plot_curves, predict, progress, put_to_the_test,
    relative_gap,
)

# %% tags=["parameters"]
epochs_on_machines = 3
epochs = 6

# %%
train_ddp, train_anywhere = lab("train_ddp"), lab("train_anywhere")
digits = lab("gradient_accumulation").digits()
kept = tempfile.TemporaryDirectory(prefix="train-ddp-")
folder = Path(kept.name)

# %% [markdown]
# ## 1 · Start
#
# `torchrun` starts the file once for each rank, on every machine. It tells each process who it is,
# in environment variables: `RANK` and `WORLD_SIZE` count over all machines, `LOCAL_RANK` counts on
# one machine. With these, `init_process_group` finds the others. In the file this is `main`:
#
# ```python
# if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):
#     device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
#     torch.cuda.set_device(device)
#     dist.init_process_group("nccl", device_id=device)
# else:
#     device = torch.device("cpu")
#     dist.init_process_group("gloo")
# Training(digits(), options, device).run()
# dist.destroy_process_group()
# ```

# %% [markdown]
# The device decides the backend: NCCL if this machine has a GPU for each of its ranks, else Gloo on
# the CPU. `device_id` tells NCCL which GPU belongs to this process, and NCCL connects the GPUs at
# once. Above `main` stands `@record`, so that `torchrun` can report the traceback of a rank that
# failed ([its documentation](https://docs.pytorch.org/docs/stable/elastic/errors.html)).

# %% [markdown]
# **On GPUs: without `set_device`**, anything that does not name a device ends up on GPU 0:
# `.cuda()`, `torch.cuda.synchronize()`, collectives of Python objects. Then every process of the
# machine takes memory there, and the program may hang, according to [PyTorch's
# tutorial](https://docs.pytorch.org/tutorials/beginner/ddp_series_multigpu.html). **With `RANK`
# instead of `LOCAL_RANK`**, rank 2 asks for GPU 2. If it is on the second of two machines with two
# GPUs each, no such GPU exists. In section 7 you see both numbers for four ranks.

# %% [markdown]
# ## 2 · Who reads what
#
# `DistributedSampler` gives each rank its share of the samples (part
# [03b](03b_samples_of_its_own.ipynb)). It shuffles with a seed and the number of the epoch. But who
# tells it the number? Here are rank 0's first six samples in three epochs: first nobody tells the
# sampler, then `set_epoch` does.

# %%
sampler = DistributedSampler(range(1000), num_replicas=2, rank=0, seed=1)
untold = [list(sampler)[:6] for epoch in range(3)]
told = []
for epoch in range(3):
    sampler.set_epoch(epoch)
    told.append(list(sampler)[:6])
print("without set_epoch:", *untold, "with set_epoch:", *told, sep="\n  ")

# %% [markdown]
# **Without `set_epoch`** every epoch has the same batches in the same order. Nothing reports it.
#
# The file sets `drop_last=True` twice: in the sampler, which otherwise repeats samples (section 4
# shows it), and in the loader, which otherwise ends with a smaller batch. Then in each step all
# ranks together read the batch of one process.
#
# These images are in memory. For files, give the loader `num_workers` and `pin_memory`. Its workers
# draw other numbers on each rank, because the constructor ends with a seed for each rank (part
# [03](03_data_parallel.ipynb)).

# %% [markdown]
# The ranks have to share the batch equally, and each rank has to cut its share into equal
# micro-batches. Let a rank have 24 images, with `--parts 7`. `torch.chunk(7)` makes 6 pieces, not
# 7. A loop that averages with piece 7 would never average, and no error would tell. So the file
# checks the numbers when it starts:

# %%
try:
    launch(train_ddp.Training, digits, train_ddp.options_of(["--parts", "7"]), world_size=2,
           device="cpu")
except RankError as error:
    print(textwrap.fill(str(error.exception), 84))

# %% [markdown]
# ## 3 · One step
#
# Three things have to be right.
#
# * **Micro-batches.** All but the last stand under `no_sync`, forward and backward (part
#   [03d](03d_not_each_time.ipynb)).
# * **Precision.** `torch.autocast` computes matrix products in bfloat16. It stands around the
#   forward and the loss, and not around the backward.
# * **Clipping.** If the norm of the gradient is above a limit, the gradient is scaled down to the
#   limit. Whose gradient: each rank's own, or the mean?
#
# Let a model have one weight. Rank 0 has the gradient 6, rank 1 has −0.5, and the limit is 1. The
# mean is 2.75, so the clipped gradient is 1. What is it if each rank clips first, and the mean is
# taken afterwards?

# %%
followed = predict("Each rank clips, then the mean is taken: the gradient is", unit="units")

# %%
def gradient_after(first, second, gradients=(6.0, -0.5)):
    weight = nn.Parameter(torch.zeros(1))
    weight.grad = torch.tensor([gradients[dist.get_rank()]])
    first(weight)
    second(weight)
    return weight.grad.item()

def clip(weight):
    nn.utils.clip_grad_norm_([weight], 1.0)

def average(weight):
    dist.all_reduce(weight.grad)
    weight.grad /= dist.get_world_size()

# %%
mean_first = launch(gradient_after, average, clip, world_size=2).values[0]
clip_first = launch(gradient_after, clip, average, world_size=2).values[0]
print(f"average, then clip: {mean_first:.4f} · clip, then average: {clip_first:.4f}")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
followed.compare((1 - 0.5) / 2, clip_first, kind="communication")

# %% [markdown]
# A quarter of the right step: the small gradient of rank 1 was kept, the large one of rank 0 was
# cut down to 1. With DDP, clipping is easy to get right and easy to get wrong. After the *last*
# backward of a batch, `.grad` is the mean, and clipping is the same on all ranks. After a
# micro-batch under `no_sync`, `.grad` belongs to the rank.
#
# What does autocast change? Weights, gradients and buckets stay in float32. Inside, matrix products
# are computed in bfloat16. (Float16 would also need loss scaling: chapter 05. The ranks of this
# cell are on the CPU, also where there are GPUs.)

# %% tags=["nbval-ignore-output"]
def train_in_precision(train_ddp, data, precision):
    options = train_ddp.options_of(["--precision", precision])
    training = train_ddp.Training(data, options)
    with training.autocast:
        logits = training.ddp(training.tests[:2])
    losses = [training.train_epoch() for _ in range(4)]
    weight = training.model[0].weight
    return str(logits.dtype), str(weight.dtype), losses

for precision in ("float32", "bfloat16"):
    found = launch(
        train_in_precision, train_ddp, digits, precision, world_size=2, device="cpu"
    ).values[0]
    print(f"{precision}: logits {found[0]}, weights {found[1]}, loss {found[2][-1]:.2f}")

# %% [markdown]
# ## 4 · Evaluation
#
# The test images are shared out, too. Let there be 10 of them and 4 ranks. `DistributedSampler`
# gives every rank equally many. How many images are counted, over all ranks?

# %%
counted = predict("10 test images, 4 ranks, DistributedSampler: counted together", unit="images")

# %%
shares = [list(DistributedSampler(range(10), num_replicas=4, rank=rank, shuffle=False))
          for rank in range(4)]
print(*(f"rank {rank}: {share}" for rank, share in enumerate(shares)), sep="\n")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was counted.
counted.compare(4 * 3, sum(map(len, shares)), wire="counted")

# %% [markdown]
# Images 0 and 1 count twice. What you publish then depends on the number of ranks.
#
# So let each rank take every $n$-th image, and nothing more. Some ranks have one image more than
# others, so the mean of the ranks' shares is wrong, too (part
# [03f](03f_counted_over_all_ranks.ipynb), section 3). **Add up counts, and divide once.**
#
# * Call the model itself, `ddp.module`. The forward of DDP may communicate, and ranks with fewer
#   batches would leave the others waiting. (In [03e](03e_ddp_at_work.ipynb) this call was a
#   mistake, because a backward followed. Here none does.)
# * `eval()` switches dropout off, and BatchNorm uses its running statistics. `train()` afterwards
#   switches back. The model here has neither, but yours may.

# %% [markdown]
# With BatchNorm, one more line is needed. Each rank updates the running statistics with its own
# samples, and DDP makes them equal only at the *next* forward of training. Two ranks after three
# steps:

# %%
def train_batch_norm():
    ddp = DistributedDataParallel(nn.BatchNorm1d(1))
    torch.manual_seed(dist.get_rank())
    for _ in range(3):
        ddp(torch.rand(8, 1)).sum().backward()
    trained = ddp.module.running_mean.item()
    for buffer in ddp.module.buffers():
        dist.broadcast(buffer, src=0)
    return trained, ddp.module.running_mean.item()

for rank, means in enumerate(launch(train_batch_norm, world_size=2, device="cpu").values):
    print("rank {}: running mean {:.3f}, after a broadcast {:.3f}".format(rank, *means))

# %% [markdown]
# Without the broadcast, the ranks would evaluate different models and add up their counts. The
# checkpoint has the statistics of rank 0, which writes it, so all ranks take those.
# (`SyncBatchNorm` of part 03f has the same statistics on all ranks, and needs no broadcast.)

# %% [markdown]
# ## 5 · The checkpoint
#
# All ranks have the same weights, so one rank writes. If all ranks write the same file at once, it
# may be destroyed. If each writes its own, $n - 1$ copies are wasted. And what if the process is
# killed while it writes?

# %%
path = folder / "checkpoint.pt"
torch.save({"epoch": 1, "model": {"weight": torch.ones(1000)}}, path)  # a whole one
whole = path.read_bytes()
path.write_bytes(whole[: len(whole) // 2])  # the next one, broken off in the middle
try:
    torch.load(path)
except Exception as error:
    print(f"cannot be loaded: {type(error).__name__}")

# %% [markdown]
# The old checkpoint is lost as well: it had the same name. So write under **another name**, and
# rename the file when it is whole. On one file system `os.replace` is **atomic**: everybody sees
# the old file or the new one, and never a half. (Chapter [04](04_failure_and_recovery.ipynb) adds
# what a loss of power needs.)
#
# What belongs into the file? Weights alone are not enough. The optimizer has momentum, and the
# sampler needs the number of the epoch. (A model with dropout also needs the state of the random
# numbers: chapter [04](04_failure_and_recovery.ipynb).)

# %% [markdown]
# And who reads? **All ranks must go on from the same file.** Suppose that the file is on the disk
# of one machine only, and each rank looks for itself. Then some ranks go on from epoch 3, and the
# others begin at 0. DDP has made the weights equal before that, and it never compares them again.
# Nothing reports it. So `resume` lets rank 0 look and read. Rank 0 sends what it has found to all
# others, or that it has found nothing. Tensors travel one by one. `broadcast_object_list` would
# also take the whole checkpoint, but it pickles it into one tensor, and with NCCL that tensor has
# to be on the GPU ([documentation](https://docs.pytorch.org/docs/stable/distributed.html)).

# %% [markdown]
# ## 6 · What is printed
#
# One rank prints: otherwise every line stands there $n$ times. Two things go wrong here. Rank 0's
# loss is the loss of *its* samples: the mean over the ranks takes an all-reduce. And if you call
# this all-reduce only on rank 0, this happens:

# %%
def print_mean_loss():
    loss = torch.tensor(1.0 + dist.get_rank(), requires_grad=True)
    if dist.get_rank() == 0:
        mean = loss.detach().clone()  # a copy: all_reduce overwrites its tensor
        dist.all_reduce(mean)
        print("mean loss", mean / dist.get_world_size())

try:
    launch(print_mean_loss, world_size=2, timeout=6)
except HangError as error:
    for rank, place in error.waits.items():
        print(f"rank {rank}", f"waits in {place.call}" if place else "is done")

# %% [markdown]
# **What only rank 0 does must not communicate.** All ranks average, and then rank 0 prints. The
# file averages once in an epoch, in `train_epoch`. It never calls `loss.item()` in a step: on a GPU
# each such call waits until everything before it is done.

# %% [markdown]
# ### Exercise {{training}} · Complete a DDP training program
#
# Fill the five holes of `Training` in [labs/train_ddp.py](../labs/train_ddp.py). What they need is
# in `self`: `ddp`, the same model unwrapped as `model`, `optimizer`, `sampler`, `autocast`,
# `options`, `epoch`, `tests`, `test_labels`.
#
# * `train_epoch`: one line before the loop. Each epoch has an order of its own. The sampler gets
#   the number `self.epoch`, as it is: so a resumed training has the right order, too.
# * `backward(images, labels)`: this rank's batch, in `options.parts` equal micro-batches, one after
#   another. (They can be equal: the constructor has checked it.) Afterwards `.grad` is the mean
#   over the batches of all ranks. Gradients travel once. Forward and loss stand under
#   `self.autocast`, the backward does not. It returns the mean loss of this rank's batch: a tensor
#   without a graph.

# %% [markdown]
# * `update`: clip the gradient of the whole batch to the norm `options.clip`, take a step of the
#   optimizer, and clear the gradients.
# * `evaluate`: returns, on every rank, the share of all test images that are right. Each image is
#   computed once, by one rank, with `self.model` in evaluation mode and without a graph. Afterwards
#   the model is in training mode again. (Whether `self.autocast` is on is up to you.)
# * `save`: write `self.state()` to the file `options.file`. Rank 0 writes, the others write
#   nothing. Wherever the process is killed, a whole checkpoint has this name. What you write before
#   has another name in the same folder.

# %% [markdown]
# For example, let 2 ranks have 5 test images, and let images 0, 1 and 2 be right. Rank 0 has images
# 0, 2 and 4, and counts 2. Rank 1 has 1 and 3, and counts 1. `evaluate` returns 3/5 on both.

# %%
check("{{training}}")

# %% [markdown]
# ## 7 · Two machines
#
# Now the real thing: `torchrun` starts the file on two machines, two ranks on each. (The machines
# are those of part [02g](02g_across_machines.ipynb), where this system allows them.) In a terminal
# on each of two real machines, it would be this line, with the address of the first one for `HEAD`:
#
# ```
# torchrun --nnodes 2 --nproc-per-node 2 --rdzv-id digits --rdzv-backend c10d \
#     --rdzv-endpoint HEAD:29500 labs/train_ddp.py --epochs 3 --precision float64 \
#     --file /shared/digits.pt
# ```
#
# We take float64, so that the weights can be compared with those of one process.

# %%
words = ["--precision", "float64", "--file", str(folder / "digits.pt")]
run = train_anywhere.run_on_machines(folder, [*words, "--epochs", str(epochs_on_machines)])
for machine, said in enumerate(run.output):
    print(f"machine {machine}:", *train_anywhere.lines_of(said), sep="\n  ")

# %% [markdown]
# Does one process get the same? And can two ranks go on from the file that four have written? The
# same class does both, with other numbers of ranks.

# %%
in_one_go = ["--precision", "float64", "--epochs", str(epochs)]
alone = launch(train_anywhere.train_to_end, digits, in_one_go, world_size=1, device="cpu").values[0]
go_on = [*words, "--epochs", str(epochs)]
later = launch(train_anywhere.train_to_end, digits, go_on, world_size=2, device="cpu").values

gap = max(relative_gap(weights, alone[2]) for *_, weights in later)
print(f"weights after {epochs} epochs, as one process to 1e-10: {gap < 1e-10}")
print(f"right on test images: one process {alone[1]:.1%}, two ranks {later[0][1]:.1%}")

# %% tags=["cover", "nbval-ignore-output"]
on_machines = train_anywhere.losses_in(run.output[0])
end = len(on_machines)  # the epoch after which two ranks go on
plot_curves({"": {
    "one process": (range(1, epochs + 1), alone[0]),
    "4 ranks on 2 machines": (range(1, end + 1), on_machines),
    "2 ranks go on": (range(end, epochs + 1), [on_machines[-1], *later[0][0]]),
}}, "epoch", "mean loss", title="One training on 1, 4 and 2 ranks")

# %% [markdown]
# The three curves are one. You have written a program that runs on any number of ranks that can
# share the batch, on one machine or many. It goes on where it stopped, and gives the result of one
# process. That is what "correct" means in this course.
#
# Run it yourself in a terminal: `torchrun --nproc-per-node 2 labs/train_ddp.py`. Then delete the
# line with `set_epoch`, and compare the losses. The first epoch is the same. From the second on,
# the losses differ, and nothing tells you that all epochs have one order.

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
kept.cleanup()
put_to_the_test(f"""
- [C076] A process handles one or more GPUs, and NCCL synchronises | web note, “Data Parallel” |
  {"imprecise" if run.backend != "nccl" and gap < 1e-10 else "not seen here"} | other backends
  synchronise, too: over {run.backend}, on {run.device}, 4 ranks on 2 machines and then 2 ranks end
  with the weights of one process, to 1e-10 (section 7, run; backend and device asked of it). Each
  process has one device | measured: over Gloo; for GPUs PyTorch's documentation recommends NCCL.
  A process has several of them if its model lies on several, says DDP's documentation
""")

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)); a web note on types of
# distributed training.
#
# **To read on.** PyTorch's [torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html), and
# its tutorial on [multi-node
# training](https://docs.pytorch.org/tutorials/intermediate/ddp_series_multinode.html).

# %% [markdown]
# ## What you have learnt
#
# * The device decides the backend, and `LOCAL_RANK` the GPU.
# * `set_epoch` before each epoch; equal batches on all ranks; `no_sync` for all micro-batches but
#   the last; clip after the mean.
# * Add up counts over the ranks, each test image once, in evaluation mode, and divide once.
# * Rank 0 alone writes, under another name first. Rank 0 reads, and tells the others. Rank 0
#   prints. What only rank 0 does must not communicate.
# * Then each number of ranks that divides the batch gives the weights of one process.
#
# **Your exercise** is in [labs/train_ddp.py](../labs/train_ddp.py).
#
# **Next**: {{next}}.

# %%
progress("03g")
