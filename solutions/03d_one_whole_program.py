# %% [markdown]
# # 03d · One whole program
#
# **What does a training script need around DDP, and what goes wrong without each part?** In parts
# 03 to 03c you met the parts one by one. Here they stand together in one file,
# [labs/train_ddp.py](../labs/train_ddp.py). `torchrun` starts it on one machine or on many. Each
# section takes one part of the file and shows what happens without it. Then you fill five holes,
# and two machines train.

# %% [markdown]
# ![The loss of each epoch: of one process, of four ranks on two machines for three epochs, and of
# two ranks that go on; all points lie on one curve](../assets/covers/03d_one_whole_program.png)
#
# *Measured in section 8: four ranks on two machines begin, two ranks go on, and one process does
# the same alone.*
#
# **After this part you can** write a training script for DDP that starts anywhere, counts its test
# images once, saves whole checkpoints, and gives the weights of one process.
#
# **It takes** about 25 minutes, and 30 more for 1 exercise. **It needs** [03c · DDP at
# work](03c_ddp_at_work.ipynb).

# %% jupyter={"source_hidden": true}
import re
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

from pedagogy_lib import (
    HangError, check, hint, lab, launch, plot_curves, predict, progress, put_to_the_test,
    relative_gap, run_torchrun,
)

# %% tags=["parameters"]
epochs_on_machines = 3
epochs = 6

# %%
train_ddp, digits = lab("train_ddp"), lab("gradient_accumulation").digits()
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
# if torch.cuda.is_available():
#     device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
#     torch.cuda.set_device(device)
#     dist.init_process_group("nccl")
# else:
#     device = torch.device("cpu")
#     dist.init_process_group("gloo")
# ...
# dist.destroy_process_group()
# ```

# %% [markdown]
# The device decides the backend: NCCL for GPUs, Gloo for the CPU.
#
# **On GPUs: without `set_device`**, every process of a machine uses GPU 0, and the others stand
# idle. PyTorch leaves that to you: each rank has to have a GPU of its own, says [its
# documentation](https://docs.pytorch.org/docs/stable/distributed.html). **With `RANK` in place of
# `LOCAL_RANK`**, rank 2 asks for GPU 2. If it is on the second of two machines with two GPUs each,
# there is none. In section 8 you see both numbers for four ranks.

# %% [markdown]
# ## 2 · Who reads what
#
# `DistributedSampler` gives each rank its share of the samples. It shuffles with a seed and the
# number of the epoch. But who tells it the number? Here are the first samples of rank 0 in three
# epochs, untold and told.

# %%
sampler = DistributedSampler(range(1000), num_replicas=2, rank=0, seed=1)
untold = [list(sampler)[:6] for epoch in range(3)]
told = []
for epoch in range(3):
    sampler.set_epoch(epoch)
    told.append(list(sampler)[:6])
print("untold:", *untold, "told:  ", *told, sep="\n  ")

# %% [markdown]
# **Without `set_epoch`** every epoch has the same batches in the same order. Nothing reports it. It
# is the commonest bug with this class.
#
# The file sets `drop_last=True` twice: in the sampler, so that nothing is repeated, and in the
# loader, so that all batches are equally large. Step by step, the ranks together then take the
# batch of one process, whatever their number is. Less than one batch of an epoch is left out.

# %% [markdown]
# ## 3 · One step
#
# A step makes three decisions, and their order matters.
#
# * **Micro-batches.** All but the last stand under `no_sync`, forward and backward (part
#   [03b](03b_inside_ddp.ipynb)). Without it gradients travel once for each micro-batch.
# * **Precision.** `torch.autocast` is around the forward and the loss, and not around the backward.
# * **Clipping.** If the gradient is longer than a limit, it is shortened to it. Which gradient:
#   that of the rank, or the mean?
#
# Let a model have one weight. Rank 0 has the gradient 6, rank 1 has −0.5, and the limit is 1. The
# mean is 2.75, so the step should follow 1. What does it follow if each rank clips first, and the
# mean is taken afterwards?

# %%
followed = predict("Each rank clips first, then the mean is taken: the step follows", unit="units")

# %%
def with_gradient(gradients):
    weight = nn.Parameter(torch.zeros(1))
    weight.grad = torch.tensor([gradients[dist.get_rank()]])
    return weight

def average(weight):
    dist.all_reduce(weight.grad)
    weight.grad /= dist.get_world_size()

def average_then_clip(with_gradient, average, gradients):
    weight = with_gradient(gradients)
    average(weight)
    nn.utils.clip_grad_norm_([weight], 1.0)
    return weight.grad.item()

# %%
def clip_then_average(with_gradient, average, gradients):
    weight = with_gradient(gradients)
    nn.utils.clip_grad_norm_([weight], 1.0)
    average(weight)
    return weight.grad.item()

orders = {order.__name__: launch(order, with_gradient, average, [6.0, -0.5], world_size=2).values[0]
          for order in (average_then_clip, clip_then_average)}
print({name: round(value, 4) for name, value in orders.items()})

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
followed.compare((1 - 0.5) / 2, orders["clip_then_average"], kind="communication")

# %% [markdown]
# A quarter of the right step: the small gradient of rank 1 was kept, the large one of rank 0 was
# not. With DDP it is easy to get right and easy to get wrong. After the *last* backward of a batch,
# `.grad` is the mean, and clipping is the same on all ranks. After a micro-batch under `no_sync`,
# `.grad` belongs to the rank.
#
# What does autocast change? Weights, gradients and buckets stay in float32. Only the computation
# inside is in bfloat16.

# %% tags=["nbval-ignore-output"]
def in_precision(train_ddp, data, precision):
    options = train_ddp.options_of(["--precision", precision])
    training = train_ddp.Training(data, options)
    with training.autocast:
        logits = training.ddp(training.tests[:2])
    losses = [training.train_epoch() for _ in range(4)]
    weight = training.model[0].weight
    return str(logits.dtype), str(weight.dtype), losses

for precision in ("float32", "bfloat16"):
    found = launch(in_precision, train_ddp, digits, precision, world_size=2, device="cpu").values[0]
    print(f"{precision}: logits {found[0]}, weights {found[1]}, loss {found[2][-1]:.2f}")

# %% [markdown]
# The loss is nearly the same here. (bfloat16 needs no loss scaling. float16 does: chapter 05. The
# ranks run on the CPU, as `Training` takes no other device here.)
#
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
# Images 0 and 1 count twice. In a training that hardly matters. In a number that you publish, it
# does: the result changes with the number of ranks.
#
# So let each rank take every $n$-th image, and nothing more. Some ranks have one image more than
# others. Then the mean of the ranks' shares is wrong, too (part [03c](03c_ddp_at_work.ipynb),
# section 7). **Add up counts, and divide once.** And call the model itself, `ddp.module`: the
# forward of DDP may communicate, and ranks with fewer batches would leave the others waiting.

# %% [markdown]
# ## 5 · The checkpoint
#
# All ranks have the same weights. So one rank writes: if all write into the same file, they destroy
# it, or they waste a network disk. And what if the machine is switched off while it writes?

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
# sampler needs the number of the epoch.

# %% [markdown]
# ## 6 · What is printed
#
# One rank prints: otherwise every line stands there $n$ times. Two things go wrong here. Rank 0's
# loss is the loss of *its* samples: the mean over the ranks takes an all-reduce. And whoever writes
# it in the wrong place gets this:

# %%
def print_mean_loss():
    loss = torch.tensor(1.0 + dist.get_rank(), requires_grad=True)
    if dist.get_rank() == 0:
        mean = loss.detach().clone()  # all_reduce writes in place: never into the graph
        dist.all_reduce(mean)
        print("mean loss", mean / dist.get_world_size())

try:
    launch(print_mean_loss, world_size=2, timeout=3)
except HangError as error:
    for rank, place in error.waits.items():
        print(f"rank {rank}", f"waits in {place.call}" if place else "is done")

# %% [markdown]
# **What only rank 0 does must not communicate.** All ranks average, and then rank 0 prints. The
# file averages once in an epoch, in `train_epoch`. It never calls `loss.item()` in a step: on a GPU
# each such call waits until everything before it is done.

# %% [markdown]
# ## 7 · Fill five holes
#
# ### Exercise 3.16 · The whole program
#
# [labs/train_ddp.py](../labs/train_ddp.py) has a class `Training` with five holes. All that it
# needs is in `self`: `ddp`, the same model unwrapped as `model`, `optimizer`, `sampler`,
# `autocast`, `options`, `epoch`, `tests`, `test_labels`.
#
# * `train_epoch`: one line before the loop. Each epoch has an order of its own, and it follows from
#   `self.epoch` alone, so that a training that goes on has the right one.
# * `backward(images, labels)`: this rank's batch, in `options.parts` equal micro-batches.
#   Afterwards `.grad` is the mean over the batches of all ranks. Gradients travel once. It returns
#   the mean loss of the rank's batch as a tensor without a graph.

# %% [markdown]
# * `update`: clip the gradient of the whole batch to the norm `options.clip`, take a step of the
#   optimizer, and clear the gradients.
# * `evaluate`: returns, on every rank, the share of all test images that are right. Each image is
#   computed once, by one rank, without a graph.
# * `save`: write `self.state()` to the file `options.file`. Rank 0 writes. If it is broken off, the
#   old file is still whole.
#
# For example, let 2 ranks have 5 test images, and let images 0, 1 and 2 be right. Rank 0 has images
# 0, 2 and 4, and counts 2. Rank 1 has 1 and 3, and counts 1. `evaluate` returns 3/5 on both.

# %%
check("3.16")

# %% [markdown]
# ## 8 · Two machines
#
# Now the real thing: `torchrun` starts the file on two machines, two ranks on each. (The machines
# are those of part [02d](02d_across_machines.ipynb), where this system allows them.) In a terminal
# on each of two real machines, it would be this line, with the address of the first one for `HEAD`:
#
# ```
# torchrun --nnodes 2 --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint HEAD:29500 \
#     labs/train_ddp.py --epochs 3 --precision float64 --file checkpoint.pt
# ```
#
# In float64, so that we can compare. Both machines see the file's folder.

# %%
words = ["--precision", "float64", "--file", str(folder / "digits.pt")]
program = folder / "program.py"
program.write_text(f"""
import os
from pedagogy_lib import lab
who = "rank {{RANK}}: local rank {{LOCAL_RANK}}\\n".format(**os.environ)
os.write(1, who.encode())  # in one piece: two ranks write here
lab("train_ddp").main({[*words, "--epochs", str(epochs_on_machines)]})
""")
with redirect_stdout(StringIO()):
    run = run_torchrun(program, nnodes=2, nproc_per_node=2, timeout=120)
for machine, said in enumerate(run.output):
    ranks = sorted(re.findall(r"rank \d+: local rank \d+", said))
    log = re.findall(r"epoch \d+: loss .*", said)
    print(f"machine {machine}:", *ranks, *log, sep="\n  ")

# %% [markdown]
# Does one process get the same? And can two ranks go on from the file that four have written? The
# same class does both, with other numbers of ranks.

# %%
def go_on(train_ddp, data, words):
    training, losses = train_ddp.Training(data, train_ddp.options_of(words)), []
    if training.options.file:
        training.resume()
    while training.epoch < training.options.epochs:
        losses.append(training.train_epoch())
    return losses, training.evaluate(), training.state()["model"]

alone = launch(go_on, train_ddp, digits, [*words[:2], "--epochs", str(epochs)], world_size=1,
               device="cpu").values[0]
later = launch(go_on, train_ddp, digits, [*words, "--epochs", str(epochs)], world_size=2,
               device="cpu").values
gap = max(relative_gap(weights[name], alone[2][name]) for *_, weights in later for name in weights)
print(f"weights after {epochs} epochs, as one process to 1e-10: {gap < 1e-10}")
print(f"right on test images: one process {alone[1]:.1%}, two ranks {later[0][1]:.1%}")

# %% tags=["cover", "nbval-ignore-output"]
on_machines = [float(loss) for loss in re.findall(r"loss ([\d.]+)", run.output[0])]
first = list(range(1, len(on_machines) + 1))
plot_curves({"": {
    "one process": (range(1, epochs + 1), alone[0]),
    "4 ranks on 2 machines": (first, on_machines),
    "2 ranks go on": (range(len(first) + 1, epochs + 1), later[0][0]),
}}, "epoch", "mean loss", title="One training on 1, 4 and 2 ranks")

# %% [markdown]
# The three curves are one. You have written a program that runs on any number of ranks and
# machines, goes on where it stopped, and gives the result of one process. That is what "correct"
# means in this course.
#
# Try what the course's numbers do not show: `torchrun --nproc-per-node 2 labs/train_ddp.py` in a
# terminal. Break a line, and see which promise breaks.

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true}
def one_by_one(loader):  # as the printed loop does: one name for a pair, the other not yet there
    for batch in loader:
        inputs, labels = batch, labels  # noqa: F821
        return inputs, labels

try:
    one_by_one([(1, 2)])
    printed_loop = "runs"
except UnboundLocalError as error:
    printed_loop = type(error).__name__

# %% jupyter={"source_hidden": true}
def without_sampler_and_zero_grad(data):
    torch.manual_seed(0)
    ddp = DistributedDataParallel(nn.Linear(64, 10).double())
    norms = []
    for _ in range(3):
        F.cross_entropy(ddp(data[0][:96].double()), data[1][:96]).backward()
        norms.append(ddp.module.weight.grad.norm().item())
    return norms, ddp.module.weight.grad

norms, alike = launch(without_sampler_and_zero_grad, digits, world_size=2, device="cpu").values[0]
one_rank = launch(without_sampler_and_zero_grad, digits, world_size=1, device="cpu").values[0][1]

# %% jupyter={"source_hidden": true}
own = re.compile(r"\bdist\.|Distributed|self\.ddp|sampler|no_sync|LOCAL_RANK|set_device|nccl|gloo")
text = Path(train_ddp.main.__code__.co_filename).read_text()
code = [line for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
touched = sum(bool(own.search(line)) for line in code)

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
kept.cleanup()
put_to_the_test(f"""
- [C083] The printed setup of DDP runs | web page, “PyTorch DistributedDataParallel Setup” |
  {"wrong" if printed_loop != "runs" else "right"} | its loop uses labels before they are there:
  {printed_loop}. It has no sampler, either: gradients of 2 ranks are those of one, off by
  {relative_gap(alike, one_rank):.0e}: twice the work for the same step
- [C084] The loop is exactly like that of a single GPU | book chapter, “PyTorch
  DistributedDataParallel (DDP)” | wrong as printed | it never clears gradients: their norm is
  {", ".join(f"{norm:.2f}" for norm in norms)} in three steps with the same weights. And sampler,
  evaluation, checkpoint and log are others (sections 2 to 6)
- [C002] Horizontal scaling needs a minimal change of the code | PyTorch slides, “Horizontal
  scaling” | depends | in this file {touched} of {len(code)} lines of code are about ranks. With
  tensor or pipeline parallelism the model changes as well
- [C076] A process handles one or more GPUs, and NCCL synchronises | web note, “Data Parallel” |
  imprecise | one GPU for each process (section 1). The backend follows the device: here
  {run.backend} on {run.device}
- [C007] PyTorch gives a RANK to each GPU | PyTorch slides, “Failover: who should save the
  checkpoint?” | imprecise | to each process. Here four ranks have no GPU at all (section 8)
- [C100] Only rank 0 writes | PyTorch slides, “Failover: who should save the checkpoint?” |
  depends | right for DDP, where all ranks have the same (section 5); wrong as soon as ranks have
  shards (part 04b)
""")

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)); *Distributed Parallelism in
# Deep Learning* (web page); *Data Parallelism Deep Dive* (book chapter); a web note on types of
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
# * Add up counts over the ranks, each test image once, and divide once.
# * Rank 0 alone writes, under another name first. Rank 0 alone prints. What only rank 0 does must
#   not communicate.
# * With all of that, any number of ranks gives the weights of one process.
#
# **Your exercise** is in [labs/train_ddp.py](../labs/train_ddp.py).
#
# **Next**: [03e · A server in the middle](03e_a_server_in_the_middle.ipynb).

# %%
progress("03d")
