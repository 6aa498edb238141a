# %% [markdown]
# # {{title}}
#
# **A signal says that the job will be killed in two minutes. What has to happen until then, and
# where does the next run go on?** Time limits end jobs, jobs of higher priority take their
# machines, and a cloud takes back what it has sold cheaply. All of them can give a notice first,
# most often SIGTERM. In this part the ranks agree on a last step, save it before the kill, and
# later resume in the middle of an epoch, sample for sample, although worker processes had read
# ahead.

# %% [markdown]
# ![Three rows of coloured time: steps that count, steps lost, saving, starting, and waiting in the
# queue; the job that saves on a notice spends most of its time on steps that
# count](../assets/covers/04h_told_to_stop.png)
#
# *Measured in section 5: the same job in three settings, preempted again and again.*
#
# **After this part you can** pass a signal on to all ranks, save within the grace period, resume a
# data loader in mid-epoch on any number of ranks, and compute a job's goodput.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import io
import itertools
import os
import random
import shutil
import signal
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Sampler

from pedagogy_lib import (
    HangError, RankError, Table, check, compare_rounds, hint, lab, launch, measure, predict,
    progress,
)

# %% tags=["parameters"]
told_at = 7
life = 45
save_at = 17
every = 25
ballast = 20
steps = 110

# %%
signals, resumable = lab("passing_signals"), lab("resumable_data")
stopping, accounts = lab("told_to_stop"), lab("goodput")
digits = lab("gradient_accumulation").digits()
folder = Path(tempfile.mkdtemp(prefix="told-"))
os.environ["TMPDIR"] = str(folder)  # for what workers leave behind when they are killed

# %% [markdown]
# ## 1 · The notice is a signal
#
# A process that learns of its end in time can save what it has computed since its last checkpoint.
# Who sends the notice, and how long before the kill?
#
# | who | what is sent | until SIGKILL |
# |---|---|---|
# | SLURM, time limit | SIGTERM to each task of each step | `KillWait`, 30 s unless set |
# | SLURM, `--signal=B:USR1@120` | SIGUSR1 to the batch script alone | 120 s, or up to 60 s more |
# | SLURM, preemption by cancelling or requeuing | SIGCONT and SIGTERM | `GraceTime`, 0 unless set |
# | Kubernetes | SIGTERM to the main process | 30 s, unless the pod's grace period is set |
# | Amazon EC2, spot | no signal: a text that one has to ask for | 120 s |
#
# This is documented, and was not measured here, in [sbatch](https://slurm.schedmd.com/sbatch.html),
# [slurm.conf](https://slurm.schedmd.com/slurm.conf.html), [SLURM on
# preemption](https://slurm.schedmd.com/preempt.html),
# [Kubernetes](https://kubernetes.io/docs/concepts/workloads/pods/pod-termination/),
# [EC2](https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html).

# %% [markdown]
# Between the scheduler and the ranks is torchrun, whose agent is a separate process. In the next
# cell the agent gets SIGTERM, then SIGUSR1, while two ranks write down every signal that they
# receive. They do not leave by themselves. How many of the two ranks hear of SIGUSR1?

# %%
heard_guess = predict("The agent gets SIGUSR1: so many of its two ranks hear of it", unit="ranks")

# %%
ways = {
    "SIGTERM": (signal.SIGTERM,),
    "SIGUSR1": (signal.SIGUSR1,),
    "SIGUSR1, --signals-to-handle=SIGTERM,SIGUSR1": (signal.SIGUSR1, signals.USR1_TOO),
}
runs = dict(zip(ways, signals.send_each(ways.values())))
Table(["the agent gets", "ranks that hear of it", "left when the agent has ended"],
      [[way, str(sum(map(bool, run.heard))), str(run.left)] for way, run in runs.items()])

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what the ranks have written down.
heard_guess.compare(0, sum(map(bool, runs["SIGUSR1"].heard)))

# %% [markdown]
# torchrun 2.13 passes on the signals that it handles: SIGTERM, SIGINT, SIGHUP and SIGQUIT, unless
# `--signals-to-handle` names others. It then waits `--shutdown-timeout` seconds for the ranks (1
# here, 30 unless set) and sends SIGKILL to those that are left.
#
# SIGUSR1 ends a process that does not handle it. The agent therefore dies, while its ranks hear
# nothing and go on. On a cluster they are killed with nothing saved, by SLURM's [step
# manager](https://github.com/SchedMD/slurm/blob/master/src/slurmd/slurmstepd/mgr.c) or, where the
# agent is a container's first process, by [the
# kernel](https://man7.org/linux/man-pages/man7/pid_namespaces.7.html). (This is documented, and was
# not tried.) That is why [restart.sbatch](../labs/clusters/restart.sbatch) of part
# [04d](04d_restart.ipynb) catches SIGUSR1 in the script and sends SIGTERM to the agents.

# %% [markdown]
# ## 2 · One step for all ranks
#
# The signal does not reach all ranks at the same time, and if one machine is taken away, it reaches
# only the ranks on that machine. Saving is a collective: `save` of part
# [04](04_failure_and_recovery.ipynb) waits until all ranks have written their files. What happens
# if a rank saves as soon as the signal arrives? Below, rank 1 does so after 7 steps.

# %% tags=["nbval-ignore-output"]
def save_at_once(stopping, place, data, told_at):
    training = stopping.Training(data)
    while training.steps < 20:
        if (training.steps, dist.get_rank()) == (told_at, 1):
            stopping.save(place, training.steps, training.state_dict())
        training.step()

try:
    launch(save_at_once, stopping, folder / "at once", digits, told_at, world_size=2, timeout=4)
except (HangError, RankError) as error:
    print(error)

# %% [markdown]
# Rank 1 is in `save`, while rank 0 is in the next step. The two meet in different calls, so that
# they hang or fail, and the grace period goes by. All ranks therefore have to decide alike, after
# the same step. Part 04d asks with an all-reduce of one number after each step. But the ranks meet
# in each step anyway, to sum the gradients.

# %% [markdown]
# ### Exercise {{reduce_with_notice}} · Agree on the step to save at
#
# Write `reduce_with_notice(flat, told, group=None)` in
# [labs/told_to_stop.py](../labs/told_to_stop.py). All ranks of the group call it in each step.
#
# * `flat` has this rank's gradients, in one dimension, and the same length and dtype on all ranks.
#   Overwrite it with the sum over all ranks.
# * `told` says whether this rank has been told to stop. Return `True` on *all* ranks if it is true
#   on *any* of them, otherwise `False` on all.
# * Make one all-reduce, and let it carry one element more than `flat` has, in the dtype of `flat`.
#
# For example, let `flat` be [1, 2] on rank 0, which has not been told, and [3, 4] on rank 1, which
# has. Both ranks end with [4, 6] in `flat`, and both return `True`.

# %%
check("{{reduce_with_notice}}")

# %% [markdown]
# The lab's `train` calls it in each step. When it returns `True`, all ranks save after this step
# and leave. Again rank 1 alone gets the signal, after 7 steps:

# %%
def be_told(stopping, place, data, told_at):
    def tell(training):
        if (training.steps, dist.get_rank()) == (told_at, 1):
            signal.raise_signal(signal.SIGTERM)

    return stopping.train(place, 20, 100, data, tell).steps

print("steps taken by each rank:",
      launch(be_told, stopping, folder / "told", digits, told_at, world_size=2).values)
print("saved after step", stopping.steps_saved(folder / "told"))

# %% [markdown]
# What does the question cost in the steps in which no rank has got a signal? Here are 650
# gradients, as in the lab's model, on two ranks: alone, with an all-reduce of one number after
# them, and with one element more.

# %% tags=["nbval-ignore-output"]
def time_questions(stopping, numbers):
    flat, one = torch.zeros(numbers, dtype=torch.float64), torch.zeros(1)
    ways = {"alone": lambda: dist.all_reduce(flat),
            "with one more all-reduce": lambda: (dist.all_reduce(flat), dist.all_reduce(one)),
            "with one more element": lambda: stopping.reduce_with_notice(flat, False)}
    for _ in range(22):
        for name, ask in ways.items():
            with measure(name, memory=False):
                for _ in range(24):
                    ask()

asked = launch(time_questions, stopping, 650, world_size=2, device="cpu")
times = {name: [seconds / 24 for seconds in asked[name].rounds[1:]] for name in asked.labels}
Table(["the gradients", "a step's all-reduces take", "compared with the gradients alone"],
      [[name, f"{1e6 * median(of):.0f} µs", str(compare_rounds(of, times["alone"]).judge(
          "quicker", "slower")) if name != "alone" else ""] for name, of in times.items()])

# %% [markdown]
# A second all-reduce has its own latency, however small it is (chapter [02](02_collectives.ipynb)).
# One more element adds no message, but the lab copies all gradients twice for it; in a large model,
# keep a place for it in the buffer. It is cheaper still to ask only in every 10th step, which
# delays the answer by up to 10 steps.
#
# With DDP, which makes the gradients' all-reduces itself, the all-reduce of one number is the
# simple way. During an evaluation, a compilation or a save no step asks: count the longest of them
# in the grace, or ask there, too.

# %% [markdown]
# ## 3 · Before the kill
#
# The **grace period** is the time from the notice to the kill. It has to be long enough for what
# happens in between:
#
# $$\text{grace} > \text{the rest of this step} + \text{one step} + \text{saving} + \text{leaving}$$
#
# One step more is needed because the signal may arrive just after the ranks have asked. The lab's
# `Scheduler` sends SIGTERM to all ranks of a launch after 45 steps, and SIGKILL to those that are
# left when the grace is over. Each rank saves 20 MB more than the small model has, after every 17
# steps and when it gets the signal. First, with a long grace, the cell measures how long saving
# takes. Then the grace is a fifth of that.

# %%
def train(stopping, *args):
    return stopping.train(*args).steps

def live(place, life, grace, *args):
    """One life of a job on two ranks; whether it ended before it was killed."""
    quiet = redirect_stdout(io.StringIO())  # the workers of a killed rank complain
    with stopping.Scheduler(place, 2, life, grace), quiet:
        try:
            launch(train, stopping, place, *args, world_size=2, device="cpu")
        except RankError as error:
            if "SIGKILL" not in str(error):
                raise
            return False
    return True

# %% tags=["nbval-ignore-output"]
long, short = folder / "long", folder / "short"
settings = 10_000, save_at, digits, None, ballast, 0.01
leaves = [live(long, life, 30.0, *settings)]
saving = accounts.save_seconds(long)
leaves += [live(short, life, saving / 5, *settings)]
Table(["grace", "saving takes", "the ranks", "steps lost"],
      [[f"{1e3 * grace:,.0f} ms", f"{1e3 * saving:.0f} ms", "have left" if left else "were killed",
        str(stopping.steps_lost(place))]
       for grace, left, place in zip((30, saving / 5), leaves, (long, short))])

# %% [markdown]
# With a grace that is too short, the notice is worth nothing: the ranks are killed while they
# write, and the next life begins at the checkpoint before. That one is whole, because `save` never
# writes over it (part 04). What is lost are the steps since then, up to the whole checkpoint
# interval.
#
# So measure how long a save takes, on the file system that you use and with all ranks writing, and
# ask the scheduler for a multiple of it: `--signal=B:USR1@…`, `terminationGracePeriodSeconds`, and
# torchrun's `--shutdown-timeout`, which has to be as long, since 30 seconds are its default.
# Checkpoints of shards (part [04b](04b_sharded_checkpoints.ipynb)) take less time than one file.

# %% [markdown]
# ## 4 · Where the data goes on
#
# The next life needs to know which samples have been used. PyTorch's `DataLoader` has **worker
# processes** that read ahead, so that the training need not wait for a disk. With `num_workers=2`
# and `prefetch_factor=2`, four batches are under way at any time.
#
# A training loop has used three batches of four samples. How many batches have been drawn from the
# sampler? The one in the second cell counts the samples that it has been asked for.

# %%
drawn_guess = predict("Three batches used, 2 workers, prefetch_factor 2: drawn", unit="batches")

# %%
class CountingSampler(Sampler):
    """The samples of an order, from a position on, which it counts."""

    def __init__(self, order, position=0):
        self.order, self.position = order, position

    def __iter__(self):
        while self.position < len(self.order):
            self.position += 1
            yield self.order[self.position - 1]

def draw(dataset, used):
    sampler = CountingSampler(range(len(dataset)))
    loader = DataLoader(dataset, batch_size=4, sampler=sampler, num_workers=2, prefetch_factor=2)
    for _ in itertools.islice(loader, used):
        pass
    return sampler.position // 4

numbers = resumable.Keys(100)
drawn = launch(draw, numbers, 3, world_size=1).values[0]
print(f"batches used: 3, drawn: {drawn}")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what the sampler has counted.
drawn_guess.compare(3 + 2 * 2, drawn)

# %% [markdown]
# ### Exercise {{train_until_told}} · Debug a loader that skips samples
#
# `train_until_told` trains on the samples of `order` from any `position` on. It calls
# `train(batch)` for each batch, a tensor with a row per sample: 4 rows, or fewer in the last batch.
# After each batch it calls `told()`, once, and stops if that is true or all samples have been used.
# It returns the position at which the next life goes on: how many samples of `order` have been
# trained on.

# %% [markdown]
# For example, with 10 samples, position 0 and a notice after the second batch, it trains on samples
# 0 to 7 of `order` and returns 8. From position 8 on, it trains on the last two and returns 10.
#
# Two workers are to read ahead, as now. The second cell shows samples that are never trained on in
# two lives. Find the bug.

# %%
def train_until_told(dataset, order, position, train, told):
    sampler = CountingSampler(order, position)
    loader = DataLoader(dataset, batch_size=4, sampler=sampler, num_workers=2, prefetch_factor=2)
    for batch in loader:
        train(batch)
        ### BEGIN SOLUTION
        position += len(batch)
        ### IT WAS
        # position = sampler.position
        ### END SOLUTION
        if told():
            break
    return position

# %%
def live_twice(train_until_told, dataset):
    """Samples that two lives have trained on; the first one is told after three batches."""
    order, trained = random.Random(0).sample(range(40), 40), []
    position = train_until_told(dataset, order, 0, lambda batch: trained.extend(batch.tolist()),
                                lambda: len(trained) >= 12)
    train_until_told(dataset, order, position, lambda batch: trained.extend(batch.tolist()),
                     lambda: False)
    return trained

trained = launch(live_twice, train_until_told, numbers, world_size=1).values[0]
print("never trained on:", sorted({*range(40)} - {*trained}))

# %%
check("{{train_until_told}}", train_until_told)

# %% [markdown]
# The loss shows nothing of such a bug: the samples that are skipped look like all others. With many
# preemptions, many samples of each epoch are never seen.
#
# The position above belongs to one rank. If the next life has another number of ranks, it must
# belong to none. So let all ranks read one **stream**, which is epoch 0 in its order, then epoch 1,
# and so on. The order of an epoch depends on the seed and the epoch alone, and the position counts
# samples of the stream over all ranks.

# %% [markdown]
# ### Exercise {{samples_from}} · Resume a distributed sampler in mid-epoch
#
# Write `samples_from(position, length, batch, rank, n, seed=0)` in
# [labs/resumable_data.py](../labs/resumable_data.py), a generator that never ends. For each step it
# yields a new list with this rank's samples, as pairs (epoch, sample) of two `int`s.
#
# * `order_of(epoch, length, seed)`, in the lab, is the order in which an epoch reads the samples 0
#   to `length` - 1.
# * A step reads the next `batch` samples of the stream, the first step from `position` on. If an
#   epoch ends in the middle of a step, the next epoch follows.
# * Of a step's samples, rank 0 takes the first, the `n`-th after it, and so on; rank 1 begins with
#   the second. `batch` is at least `n`, and need not be a multiple.

# %% [markdown]
# For example, let epochs have 4 samples, with the orders 2 0 3 1 and 1 2 0 3. At position 3, with
# `batch` 3 and two ranks, the first step reads places 3, 4 and 5 of the stream:
#
# | place in the stream | 0 | 1 | 2 | **3** | **4** | **5** | 6 | 7 |
# |---|---|---|---|---|---|---|---|---|
# | epoch | 0 | 0 | 0 | 0 | 1 | 1 | 1 | 1 |
# | sample | 2 | 0 | 3 | 1 | 1 | 2 | 0 | 3 |
# | rank | | | | 0 | 1 | 0 | | |
#
# Rank 0 yields [(0, 1), (1, 2)], and rank 1 yields [(1, 1)].

# %%
check("{{samples_from}}")

# %% [markdown]
# The lab's `ResumableLoader` gives your samples to a `DataLoader` with two workers, and counts the
# batches that it hands out. Its `state_dict()` is `{"position": …}`, and that is all. Is a run that
# resumes in mid-epoch the same run? One run takes 40 steps of an epoch's 128. Another takes 17, and
# its state is loaded for the other 23, on two ranks, on one and on three.

# %%
def go_on(stopping, data, until, state=None, careless=False):
    training = stopping.Training(data, careless=careless)
    if state:
        training.load_state_dict(state)
    while training.steps < until:
        training.step()
    training.close()
    return training.weights(), training.state_dict()

def train_on(n, *args):
    return launch(go_on, stopping, digits, *args, world_size=n, device="cpu").values[0]

def gap(one, other):
    return (one[0] - other[0]).abs().max().item()

whole, (_, state) = train_on(2, 40), train_on(2, 17)
print("position", state["loader"]["position"], "is 17 steps of", stopping.BATCH)
print("resumed on 2 ranks: weights differ by", gap(train_on(2, 40, state), whole))
for n in (1, 3):
    is_close = gap(train_on(n, 40, state), whole) < 1e-12
    print(f"resumed on {n} rank{'s' * (n > 1)}: the same up to rounding: {is_close}")

# %% [markdown]
# Not a bit differs on two ranks, in the middle of an epoch and with workers that had read ahead,
# because all that they do follows from the position. That includes chance: the lab's dataset moves
# each image by a pixel, and seeds the draw with the epoch and the sample. Many datasets draw from
# the generator that PyTorch gives to each worker instead, which starts again in each life:

# %%
careless, (_, state) = train_on(2, 40, None, True), train_on(2, 17, None, True)
print("drawn from the worker's generator: the same after resuming:",
      gap(train_on(2, 40, state, True), careless) == 0)

# %% [markdown]
# **The engine for this** is torchdata's
# [StatefulDataLoader](https://docs.pytorch.org/data/0.11/torchdata.stateful_dataloader.html), a
# `DataLoader` with the same two methods. Its state counts batches that were handed out, not those
# that were read ahead. If the sampler and the dataset have the two methods, it calls them, also in
# the workers, so that a worker's generator can be saved; otherwise it draws and drops what has been
# used. Its documentation adds that it does not combine the states of several ranks: another number
# of ranks needs a position of all ranks, as here. (torchdata is not part of this course's
# installation, and was not tried here.)

# %% [markdown]
# One trap is left. torchrun starts each rank in a separate process group and signals the whole
# *group*, to which the rank's workers belong. What does SIGTERM do to them? The two torchruns below
# have ranks that read through workers. The workers of the second one ignore SIGTERM, because
# `worker_init_fn` tells them to.

# %%
kinds = "plain", "deaf"
started = [signals.Torchrun("--shutdown-timeout=2", reads=reads) for reads in kinds]
for reads, run in zip(kinds, started):
    heard = run.tell(signal.SIGTERM, grace=10).heard[0]
    run.close()
    fails = any(words.startswith("fails") for words in heard)
    print(f"{reads} workers: the rank hears SIGTERM: {'SIGTERM' in heard}; it fails: {fails}")

# %% [markdown]
# The workers of the first are dead at once. PyTorch notices that by another signal and raises an
# error wherever the rank happens to be, such as in the middle of `save`. Most often it is a
# `RuntimeError`: "DataLoader worker is killed by signal: Terminated". The handler for SIGTERM was
# right, and the last checkpoint is lost all the same. It has [happened under SLURM,
# too](https://github.com/KempnerInstitute/KempnerForge/issues/177). Let workers ignore SIGTERM, and
# end them by closing the loader after the save. Closing sends SIGTERM as well, which they ignore,
# so that it waits for the samples that they are reading: if one takes long, count it in the grace.

# %% [markdown]
# ## 5 · Goodput
#
# **Goodput** is the share of a job's time that went into steps that count: steps that no later life
# had to take again. It is [the number to
# watch](https://docs.cloud.google.com/tpu/docs/goodput) for a preempted job, as it contains all that a
# preemption costs: waiting in the queue, starting, loading, saving, and lost steps.
#
# The next cell runs a job in lives of 45 steps, in three settings: it is killed without a notice
# and saves every 25 steps; it gets a notice and saves as often; it gets none and saves every 60
# steps, more than a life has. The last job is given up after 3 lives. Steps sleep for 10 ms, and
# pauses of 0.3 s emulate the queue.

# %% tags=["nbval-ignore-output"]
def run_job(place, life, grace, every):
    """Start a job again and again until it is done; three times, if no life is long enough."""
    for _ in range(3 if every > life else 20):
        live(place, life, grace, steps, every, digits, None, 0, 0.01)
        if stopping.steps_saved(place) == steps:
            break
        time.sleep(0.3)
    return place

settings_of = {  # (grace in seconds, steps between two saves)
    "no notice,\nsaves often": (0, every),
    "notice,\nsaves often": (30, every),
    "no notice,\nsaves rarely": (0, life + 15),
}
jobs = {name: run_job(folder / f"job {k}", life, *of)
        for k, (name, of) in enumerate(settings_of.items())}

# %% tags=["cover", "nbval-ignore-output"]
accounts.plot_goodput(jobs, title=f"{steps} steps, in lives of {life} steps")

# %% [markdown]
# A cross is a kill. In the third row no step counts. A life's steps are all lost with it, since it
# ends before its first save. If a job is preempted more often than it saves, it never ends, and
# nothing but its log says so.

# %% [markdown]
# The formula behind it: a life has $m$ steps of $t$ seconds each, and $v$ saves of $c$ seconds. It
# takes $s$ seconds to start and to leave, and $q$ seconds in the queue. If $u$ of its steps count,
#
# $$\text{goodput} = \frac{u\,t}{s + m\,t + v\,c + q}$$
#
# With a save after every $k$ steps, $v = \lfloor m / k \rfloor$ saves are made in a life that
# begins at a multiple of $k$. Without a notice, only the steps up to the last save count:
# $u = v\,k$, which is 0 if $k > m$. With a notice there is one save more, all steps count, $u = m$,
# and $v$ is only about right, as lives begin anywhere. The table has both for the times that were
# measured.

# %% tags=["nbval-ignore-output"]
def compare_goodput(name, place):
    grace, every = settings_of[name]
    shares = accounts.shares_of(place)
    formula = accounts.predict_goodput(**accounts.times_of(place), life=life, every=every,
                                       told=grace > 0)
    return [name.replace("\n", " "), f"{shares[accounts.COUNTS]:.0%}", f"{formula:.0%}",
            *(f"{shares[kind]:.0%}" for kind in list(accounts.KINDS)[1:])]

Table(["job", "goodput", "by the formula", *list(accounts.KINDS)[1:]],
      [compare_goodput(*job) for job in jobs.items()])

# %% [markdown]
# The formula counts full lives, while a job's last one is shorter, and on a busy machine times
# differ from life to life.
#
# What raises the goodput can be read from the formula: a notice that is used, quick saves, a quick
# start (part [04d](04d_restart.ipynb) has its parts), and a shorter queue. The notice does not
# replace the saves in between, because a machine that fails sends none. How often to save for its
# sake, part [04](04_failure_and_recovery.ipynb) says.
#
# Was it still the same training?

# %% tags=["nbval-ignore-output"]
alone, _ = train_on(2, steps)
for name, place in list(jobs.items())[:2]:
    difference = (lab("restart").load_weights(place) - alone).abs().max().item()
    print(f"{name.splitlines()[0]} {len(accounts.lives_of(place))} lives; "
          f"weights differ from those of one life by {difference}")
shutil.rmtree(folder, ignore_errors=True)
del os.environ["TMPDIR"]

# %% [markdown]
# Both jobs end with the weights of an undisturbed job: 0.0.
#
# **On GPUs** and large clusters the same parts have other sizes, and none was measured here. Google
# publishes [a library](https://pypi.org/project/ml-goodput-measurement/) that counts goodput from
# such a log, and names the rest *badput*.
#
# **To read on.** PyTorch's [torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html); SLURM
# on [preemption](https://slurm.schedmd.com/preempt.html) and on
# [`scontrol requeue`](https://slurm.schedmd.com/scontrol.html#OPT_requeue); the [README of
# StatefulDataLoader](https://github.com/meta-pytorch/data/blob/v0.11.0/torchdata/stateful_dataloader/README.md).

# %% [markdown]
# ## What you have learnt
#
# * torchrun passes **SIGTERM** on to its ranks and to their data workers, which have to ignore it.
#   SIGUSR1 ends the agent.
# * All ranks save **after the same step**: one more element in the gradients' all-reduce says
#   whether any has been told to stop.
# * If the **grace period** is shorter than a step and a save, all steps since the last checkpoint
#   are lost.
# * The **position** counts samples that were trained on, over all ranks. Order and chance follow
#   from it, also on another number of ranks.
# * **Goodput** counts only steps that no later life takes again.
#
# **Your exercises**: {{train_until_told}} is in a cell above, {{reduce_with_notice}} in
# [labs/told_to_stop.py](../labs/told_to_stop.py), and {{samples_from}} in
# [labs/resumable_data.py](../labs/resumable_data.py).
#
# **Next**: {{next}}.

# %%
progress("04h")
