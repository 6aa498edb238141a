# %% [markdown]
# # {{title}}
#
# **What has to be saved, and how, so that a crash costs minutes and not weeks?** The more machines
# train together, the sooner one of them fails: in 54 days on 16,384 GPUs, Llama 3 was interrupted
# 419 times without warning. Then all ranks start again, from the last **checkpoint**: files with
# everything that the training needs to go on. Here you write such files, kill processes while they
# write them, and find out how often to save. Part [04d](04d_restart.ipynb) tells who starts the
# ranks again.

# %% [markdown]
# ![Cost of failures over the time between two savings, measured at five periods, and by a formula
# whose curve is lowest in the middle](../assets/covers/04_failure_and_recovery.png)
#
# *Measured in section 5: five workers, each killed 40 times. The workers that save too often, or
# too rarely, lose most.*
#
# **After this part you can** save a training so that it goes on bit for bit, write files that no
# crash leaves half written, save while the training goes on, and say how often to save.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import math
import os
import resource
import shutil
import signal
import tempfile
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist

from pedagogy_lib import (
    Disk, RankError, Table, check, compare_rounds, hint, lab, launch, measure, plot_against,
    plot_timeline, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
world_size = 2
die_at = 27
steps_after = 50
state_megabytes = 40

# %% [markdown]
# ## 1 · Everything is gone
#
# The lab [checkpoints](../labs/checkpoints.py) has a small training that is made like large ones: a
# classifier of handwritten digits with dropout, AdamW, a learning rate that changes, a scaler for
# the loss, shuffled samples. All ranks have the same seed until the model is built, and each has
# its own afterwards, seed + rank (part [03](03_data_parallel.ipynb)). `Training().step()` takes one
# step, data parallel on all ranks. In the cell below, the last rank is killed after 27 steps of 40,
# as the operating system does when memory is short.

# %% tags=["nbval-ignore-output"]
checkpoints, how_often = lab("checkpoints"), lab("how_often")
digits = lab("gradient_accumulation").digits()
folder = Path(tempfile.mkdtemp(prefix="checkpoints-"))

def train(checkpoints, folder, data, every, kill_after=None):
    taken = []

    def step(training):
        if training.steps == kill_after and dist.get_rank() == dist.get_world_size() - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        taken.append(training.steps + 1)
        training.step()

    checkpoints.train_on(folder, 40, every, data, step)
    return taken

def try_to_train(name, *args):
    return launch(train, checkpoints, folder / name, digits, *args, world_size=world_size,
                  device="cpu").values[0]

try:
    try_to_train("never", 100, die_at)
except RankError as error:
    print(error)

# %% [markdown]
# The other ranks cannot go on: they lose the connection in their next all-reduce. And all steps are
# lost, as the weights were nowhere but in these processes.
#
# Now the same with a checkpoint after every 10 steps. The rank dies after 27 steps again. Then all
# ranks are started once more, and go on from the newest checkpoint.

# %%
try:
    try_to_train("often", 10, die_at)
except RankError:
    print("killed again; newest checkpoint:", checkpoints.newest_whole(folder / "often").name)

taken = try_to_train("often", 10)
taken_twice = die_at - taken[0] + 1
print(f"started again, it took steps {taken[0]} to {taken[-1]}:",
      f"{taken_twice} of them a second time")

# %% [markdown]
# ## 2 · What has to be saved
#
# "Save the weights" is what many tutorials say. But the next step depends on more. If a part is
# missing, the training silently continues from a different state.

# %% [markdown]
# ### Exercise {{training_state}} · Save and restore training state
#
# Write `state_dict` and `load_state_dict` of `Training` in
# [labs/checkpoints.py](../labs/checkpoints.py). `state_dict()` returns a dict with everything that
# the next step depends on and that a fresh `Training` does not have. It also has `steps`, which
# says when to stop. `load_state_dict(state)` gives a fresh `Training` that state: from then on,
# every loss is the same, to the last bit. Each rank saves its own state.
#
# The state is everything that a line of `step` or `next_batch` reads and that an earlier step has
# changed. For example, a training that was saved after 12 steps with `epoch` 2 and `position` 26
# reads on at sample 26 of epoch 2.

# %% [markdown]
# * `"model"`, `"optimizer"`, `"schedule"` and `"scaler"` hold the `state_dict()` of each. Each has
#   a `load_state_dict(…)`, too. The names of everything else are up to you.
# * The dict holds tensors, numbers, texts, and dicts, lists and tuples of them. `torch.load` reads
#   nothing else unless it is told to, as other objects could run a program when they are read.
#
# **On GPUs**, dropout draws from a generator of each GPU, says the
# [documentation](https://docs.pytorch.org/docs/stable/random.html): there,
# `torch.cuda.get_rng_state()` belongs to the state, too. A data loader that reads batches ahead is
# further in the data than the training: what counts is the last batch that was used.

# %%
check("{{training_state}}")

# %% [markdown]
# What if one part is left out? The lab's `resume_without` trains for 30 steps and saves. Then it
# goes on for 50 more: once with everything, and once without each part. In place of that part it
# keeps the values of a fresh training. Take the schedule: its step count starts at 0 again. But the
# optimizer's state still has the current learning rate.
#
# A loss is computed before its step is taken. How many losses after resuming are still the same as
# with all of the state?

# %%
schedule_guess = predict("Without the schedule's state, so many losses are still right",
                         unit="losses")

# %%
def resume_without_each(checkpoints, data, before, after):
    found = checkpoints.resume_without(data, before, after)
    went_on, weights = found.pop("not saved at all")
    return {name: (went_on, losses, (weights - others).abs().max().item())
            for name, (losses, others) in found.items()}

found = launch(
    resume_without_each, checkpoints, digits, 30, steps_after, world_size=world_size, device="cpu"
).values[0]
gap = found["nothing"][2]
print(f"with everything, weights differ by {gap}" + " ({{training_state}} is not solved yet)" * (gap != 0))

# %% tags=["nbval-ignore-output"]
def first_other(went_on, losses):
    """Which loss after resuming is the first to differ, from 1; None if none does."""
    return next((k + 1 for k, pair in enumerate(zip(went_on, losses)) if pair[0] != pair[1]), None)

def row(name, went_on, losses, gap):
    first = first_other(went_on, losses)
    both = [f"{each[first - 1]:.6f}" for each in (went_on, losses)] if first else ["–", "–"]
    return [name, str(first or "none"), *both, f"{gap:.1g}"]

Table(["left out", "first other loss", "with all of it", "without", "weights differ at the end by"],
      [row(name, *of) for name, of in found.items()])

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured, if there is this part.
if "schedule" in found:
    first = first_other(*found["schedule"][:2])
    picture = schedule_guess.compare(2, first - 1 if first else steps_after)
picture if "schedule" in found else None

# %% [markdown]
# With everything, it is 0.0.
#
# * Without the **optimizer's** state the first loss is right, as it does not depend on the
#   optimizer. But the first step is wrong.
# * If the **schedule's** state is missing, the first two losses are still right. The first step is
#   taken at the rate that the optimizer has kept, the second at that of a schedule that starts
#   again.
# * If the **scaler's** state is missing, many are right. Its factor differs at once, but factors
#   are powers of two and cancel out, until gradients overflow with one of the two factors and a
#   step is skipped there.
# * The number of **steps** changes no weight: it says when to stop, and names the next checkpoint.

# %% [markdown]
# A glance at the first loss after a restart finds none of these three mistakes.
#
# The difference is 0.0 under three conditions: the ranks are as many as before, they sum in the
# same order, which DDP may change (part [04b](04b_sharded_checkpoints.ipynb)), and kernels are
# deterministic, which on GPUs has to be asked for (part [04c](04c_finding_out.ipynb)).
#
# Here all ranks save the same weights. Large trainings save them once (part 04b).

# %% [markdown]
# ## 3 · A file that is whole
#
# A crash may come while a checkpoint is being written. What is on the disk then? The operating
# system can end a process exactly when a file of it grows beyond some size, `RLIMIT_FSIZE`. So a
# rank that writes over the old checkpoint dies after 30,000 bytes. (A signal that Python ignores
# otherwise, SIGXFSZ, does it.)

# %%
def write_and_die(write, path, data, most):
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    write(path, data)

def write_over(path, data):
    with open(path, "wb") as file:
        file.write(data)

state = {"weights": torch.zeros(25_000)}
data, path = checkpoints.serialize_state(state), folder / "state.pt"

def try_to_write(write):
    path.write_bytes(data)  # the old checkpoint
    try:
        launch(write_and_die, write, path, data, 30_000, world_size=1, device="cpu")
    except RankError:
        print(f"killed; the file had {len(data):,} bytes, and has {path.stat().st_size:,}")

try_to_write(write_over)

# %% [markdown]
# Both are lost: the old checkpoint, and the new one. The way out is as old as databases: never
# write over a file that you may need. Write a new one beside it, and give it the old name when all
# of it is there. Renaming is **atomic**: whoever looks sees the old file or the new one.

# %% [markdown]
# ### Exercise {{write_whole}} · Write a file atomically
#
# Write `write_whole` in [labs/checkpoints.py](../labs/checkpoints.py). `write_whole(path, data)`
# writes `data`, of type `bytes`, to the file `path`, a `str` or a `Path`. Whatever happens, there
# is the old file or the new one under this name, and never anything else:

# %% [markdown]
# * It may be **killed** at any moment. What it leaves behind then must not disturb the next call,
#   which writes over it: after that call there is the file, and nothing else.
# * **Writing may fail**, with any error, as on a full disk. Then it removes the unfinished file,
#   and lets the error go on to the caller.
# * The **power may fail**. Bring the data to the disk before the renaming, and the folder after it:
#   `file.flush()` hands all bytes to the operating system, `os.fsync(file.fileno())` waits until
#   the disk has them, and `sync_folder(folder)`, which is in the lab, does so for a folder.

# %% [markdown]
# Write to another name in the same folder, and rename that with `os.replace(old, new)`. All ranks
# write into one folder at once: derive the name from that of the file. For example, `state.pt` is
# written as `state.pt.unfinished` first.

# %%
try_to_write(checkpoints.write_whole)
check("{{write_whole}}")

# %% [markdown]
# Each rank writes a file of its own. If rank 0 has written step 20 and rank 1 still has step 10,
# the two files do not fit together. So the lab's `save` writes all files into a folder
# `unfinished`. When every rank has said that its file is there, rank 0 writes a list, `files.json`,
# with the size and the **checksum** of each: 64 hex digits (SHA-256), which change if any bit of
# the file changes. Then it renames the folder. If one rank could not write, nobody's file counts.
#
# Why checksums? Disks and networks change a bit now and then, and a file may be cut off later.
# Would `torch.load` not notice?

# %%
def load_damaged(how):
    """A checkpoint, damaged; what torch.load says of it."""
    parts = bytearray(checkpoints.serialize_state({"weights": torch.ones(25_000)}))
    if how == "cut off":
        del parts[len(parts) // 2 :]
    if how == "one bit changed":
        parts[len(parts) // 2 + 2] ^= 0x40
    path.write_bytes(parts)
    try:
        return f"largest weight {torch.load(path)['weights'].max().item():g}"
    except Exception as error:
        return f"{type(error).__name__}"

Table(["the file is", "torch.load"],
      [[how, load_damaged(how)] for how in ("whole", "cut off", "one bit changed")])

# %% [markdown]
# `torch.load` notices a file that is cut off. It does not notice a changed bit. A weight that was 1
# is something else now, and the training would go on with it.

# %% [markdown]
# ### Exercise {{is_whole}} · Verify a checkpoint's files
#
# Write `is_whole` in [labs/checkpoints.py](../labs/checkpoints.py). It gets the folder of a
# checkpoint, a `Path`, and returns `True` if all files of its list are there, each as it was
# written, else `False`. The list, `files.json`, looks like this:
#
#     {"step": 50, "files": {"rank-0.pt": {"bytes": 4500, "sha256": "0b1c…"}, "rank-1.pt": {…}}}
#
# `note_of(data)` of the lab gives such an entry, `{"bytes": …, "sha256": …}`, of bytes that you
# have read. Files may be missing, cut off or changed. So may the list, or it may hold something
# that is no such dict. Even the folder may be missing. In all these cases return `False`, and raise
# nothing: here any exception means `False`. Files that are not in the list do not matter.

# %%
check("{{is_whole}}")

# %% [markdown]
# With `is_whole`, `newest_whole` finds the newest checkpoint that is whole. Here are three: the
# newest has one changed bit, and the second lacks a file. What if the first one is damaged, too?
# To begin at step 0 without a word would throw away all that was computed, and the next savings
# would remove what may still be mended. So `newest_whole` raises an error. It also does so if the
# disk cannot read a file: `is_whole` is False then, but the file may be whole.

# %%
def save_three(checkpoints, folder):
    for step in (10, 20, 30):
        checkpoints.save(folder, step, {"rank": dist.get_rank()}, keep=3)

spoilt = folder / "spoilt"
launch(save_three, checkpoints, spoilt, world_size=world_size, device="cpu")
changed = bytearray((spoilt / "step-000030/rank-0.pt").read_bytes())
changed[len(changed) // 2] ^= 1
(spoilt / "step-000030/rank-0.pt").write_bytes(changed)
(spoilt / f"step-000020/rank-{world_size - 1}.pt").unlink()
print("newest that is whole:", checkpoints.newest_whole(spoilt).name)
(spoilt / "step-000010/rank-0.pt").unlink()
try:
    checkpoints.newest_whole(spoilt)
except ValueError as error:
    print("the folder", str(error).removeprefix(f"{spoilt} "))

# %% [markdown]
# Checkpoints are large. With AdamW in mixed precision there are 12 bytes for each parameter: the
# weight in float32, and two moments (chapter [05](05_memory.ipynb) counts them). That is 840 GB for
# 70 billion parameters. Only the last few are kept, and one day the disk is full all the same.
#
# `Disk` gives you a real one that is very small: 0.6 MB, which is room for two checkpoints of this
# training, and not for three.

# %% tags=["nbval-ignore-output"]
def fill(checkpoints, place, data, keep):
    training, said = checkpoints.Training(data), {}
    while training.steps < 40:
        training.step()
        if training.steps % 10 == 0:
            problem = checkpoints.save(place, training.steps, training.state_dict(), keep)
            said[training.steps] = problem.split(": ")[-1] or "saved"
    return said, sorted(path.name for path in place.iterdir())

def try_disk(keep):
    with Disk(megabytes=0.6) as disk:
        run = launch(fill, checkpoints, disk.path, digits, keep, world_size=2, device="cpu")
    said, left = run.values[0]
    return [[f"keep={keep}", str(step), word, left[-1] if step == 40 else ""]
            for step, word in said.items()]

can_be_full = Disk.here(megabytes=0.6)
if can_be_full:
    can_be_full.close()
    kept = [*try_disk(keep=2), *try_disk(keep=1)]
Table(["", "step", "what save said", "newest at the end"], kept) if can_be_full else None

# %% [markdown]
# The third does not fit, as the first two are still there: an old checkpoint is removed when the
# new one is whole, and not before. So a disk needs room for `keep + 1` checkpoints, and for more if
# some are damaged, because `keep` counts whole ones. Here that is enough with `keep=1` only. The
# training went on in any case, and what was saved before is whole.
#
# *Break it:* in `save`, let rank 0 remove the old ones before the ranks write (`remove_old` with
# `keep - 1`, then a barrier). As long as nothing fails, room for `keep` is enough. But with
# `keep=1`, a crash meanwhile leaves nothing.

# %% [markdown]
# ## 4 · While the training goes on
#
# As long as ranks write, they do not train. But what is saved is the state as it is *now*. Once
# there is a copy in memory, a thread can write the copy, and the training goes on.
#
# ### Exercise {{in_background}} · Save checkpoints in the background
#
# Write `begin` and `wait` of `InBackground` in [labs/checkpoints.py](../labs/checkpoints.py).
# `InBackground(save)` gets a function. `begin(state)` begins to call `save` with a copy of the
# state, in a thread. `wait()` waits for the end, returns what `save` returned and raises what it
# raised. If nothing was begun, or if you have already waited for it, `wait()` returns `None`.

# %% [markdown]
# * `state` is a dict, with dicts, lists, tuples and tensors in it. The training changes its tensors
#   in place as soon as `begin` has returned. `copy_of(state)`, in the lab, copies all of it. For
#   example, after `saving.begin({"x": x})` and `x.add_(100)`, the old `x` is saved.
# * One saving after another: while the saving before is still going on, `begin` waits for its end.
#   Otherwise it returns at once. If that saving has raised something, `begin` raises it, and does
#   not save the new state. You may copy before or after waiting.
# * `self.thread` is a `ThreadPoolExecutor`: `self.thread.submit(function, argument)` begins a call
#   and returns a **future**. `future.result()` waits for the end of the call, and returns or raises
#   what the function did.

# %%
check("{{in_background}}")

# %% [markdown]
# How long does the training stand still? The state below has 40 MB more than that of our small
# model, as if there were ten million more numbers. A checkpoint is written after every 40 steps.
# The threads of all ranks have to agree that all files are there. They do that in a group of their
# own: if they shared one with the training, a rank could take a message of one for a message of the
# other.

# %%
def train_and_save(checkpoints, place, data, in_background, megabytes):
    training, ballast = checkpoints.Training(data), torch.ones(megabytes * 250_000)
    group = dist.new_group(backend="gloo")

    def write(state):
        if problem := checkpoints.save(place, state["at"], state, group=group):
            raise OSError(problem)  # what a thread returns goes unread, if nobody waits for it

    saving = checkpoints.InBackground(write)
    for _ in range(3):
        with measure("train", memory=False):
            for _ in range(40):
                training.step()
        state = {"at": training.steps, "all": training.state_dict(), "ballast": ballast}
        with measure("save", memory=False):
            (saving.begin if in_background else write)(state)
    with measure("wait", memory=False):
        saving.wait()

rounds = {"waiting for it": [], "in the background": []}
for way in [*rounds] * 6:  # in turns; the first round of each does not count
    shutil.rmtree(folder / way, ignore_errors=True)
    rounds[way].append(launch(train_and_save, checkpoints, folder / way, digits,
                              way == "in the background", state_megabytes, world_size=world_size,
                              device="cpu"))
runs = {way: of_way[-1] for way, of_way in rounds.items()}

# %% tags=["nbval-ignore-output"]
stalls = {way: [1e3 * (end - start) for rank in run["save"].spans for start, end in rank]
          for way, run in runs.items()}
parts = {way: [max(sum(end - start for start, end in rank) for rank in run[label].spans)
               for label in ("train", "save", "wait")] for way, run in runs.items()}
whole = [[sum(max(run[label].seconds) for label in run.labels) for run in rounds[way][1:]]
         for way in ("in the background", "waiting for it")]
ratio = compare_rounds(*whole)
print("In the background:", ratio.judge("the whole run is shorter", "the whole run is longer"))
print(f"({ratio} as with waiting, in three rounds)")
Table(["saving", "each holds the training up for", "120 steps", "all savings", "wait", "together"],
      [[way, f"{min(stalls[way]):.0f} to {max(stalls[way]):.0f} ms",
        *(f"{seconds:.2f} s" for seconds in (*parts[way], sum(parts[way])))] for way in runs],
      title="The last round")

# %% tags=["nbval-ignore-output"]
display(plot_timeline(runs["waiting for it"], title="Waiting for each saving"))
plot_timeline(runs["in the background"], title="Saving in the background")

# %% [markdown]
# (The two pictures have different scales.) In the background, a saving holds the training up for
# about the time of a copy, if the saving before has ended by then. But its threads need cores, and
# here these are the cores that train: steps next to a saving may take longer, and the last saving
# ends after the training. So compare whole runs, as the lines above the table do. The price is
# memory: one copy of the state, and during a saving a second one, the bytes that `save` makes of
# it.
#
# **On GPUs** the copy goes to the computer's memory. PyTorch's
# [`async_save`](https://docs.pytorch.org/docs/stable/distributed.checkpoint.html) does the same, in
# a thread or in a separate process (part 04b, section 5).

# %% [markdown]
# ## 5 · How often
#
# Who saves rarely loses much work in a crash. Who saves often loses time with saving. Between the
# two there is a best **period**: the time from the beginning of one saving to the beginning of the
# next. Below, a worker is killed again and again at random moments, every 120 ms on average.
# Suppose that a saving takes 4 ms. Which period costs least? Guess first.

# %%
period_guess = predict("Killed every 120 ms, a saving takes 4 ms: the best period", unit="ms")

# %% [markdown]
# The **cost** is the share of all time that is lost. Let a saving take $s$ seconds, let a failure
# come every $F$ seconds on average, and let $P$ be the period. Savings take a share $s/P$ of the
# time. A failure comes in the middle of a period on average, and costs half of it: with one failure
# in $F$ seconds, this is a share $\frac{P/2}{F}$. Together:
#
# $$\text{cost}(P) = \frac{s}{P} + \frac{P}{2F}$$
#
# ### Exercise {{best_period}} · The best checkpoint interval
#
# Write `best_period(saving_seconds, failure_seconds)`. It gets $s$ and $F$, and returns the period
# $P$ in seconds, for which the cost above is lowest. For example, with a saving of 2 s and a
# failure in 100 s the best period is 20 s: 10 % of the time for savings, and 10 % for lost work.

# %%
def best_period(saving_seconds, failure_seconds):
    ### BEGIN SOLUTION
    return math.sqrt(2 * saving_seconds * failure_seconds)
    ### END SOLUTION

check("{{best_period}}", best_period)

# %% [markdown]
# Is it true? Five ranks each start a worker, kill it after a while, start it again, 40 times. A
# worker goes on from its last saving. Its steps are emulated: it sleeps for 1 ms. Its process, its
# file and its end are real. Each rank saves with another period: the best one by the formula, and 3
# and 1.75 times shorter and longer ones. The cost is measured as the share of all time in which no
# step was taken that was saved later.
#
# Beside it stand two formulas: the one above, and the formula of Daly (2006), which is exact if a
# restart takes no time. It also counts failures that come while lost work is repeated.

# %%
failure_seconds, saving_seconds = how_often.FAILURE_SECONDS, how_often.SAVE_SECONDS + 0.001
expected = how_often.best_period(saving_seconds, failure_seconds)
numbers = how_often.steps_to_try(expected, saving_seconds)

def keep_killing(how_often, numbers):
    return how_often.try_periods(numbers)

workers = launch(keep_killing, how_often, numbers, world_size=5, device="cpu").values
print("saving after every", numbers, "steps")

# %% tags=["cover", "nbval-ignore-output"]
saving = median(worker["saving"] for worker in workers)

def predict_cost(period):
    return saving / period + period / (2 * failure_seconds)

def predict_cost_daly(period):
    return how_often.cost(period, saving, failure_seconds)

lowest = how_often.best_of([w["period"] for w in workers], [w["cost"] for w in workers])
with_it = how_often.best_period(saving, failure_seconds)
print(f"a saving took {1e3 * saving:.1f} ms; best period: {1e3 * with_it:.0f} ms by the formula,",
      f"{1e3 * lowest:.0f} ms by the five points")
display(Table(
    ["steps between savings", "period", "steps taken again", "cost, measured", "formula above",
     "Daly's"],
    [[str(number), f"{1e3 * worker['period']:.0f} ms", str(worker["lost"]),
      *(f"{cost:.0%}" for cost in (worker["cost"], predict_cost(worker["period"]),
                                   predict_cost_daly(worker["period"])))]
     for number, worker in zip(numbers, workers)]))
plot_against(
    [round(1e3 * worker["period"], 1) for worker in workers],
    {"cost": [100 * worker["cost"] for worker in workers]},
    "from saving to saving (ms)", "cost (% of the time)", logarithmic=True,
    predicted={"cost": lambda period: 100 * predict_cost_daly(period / 1e3)},
    title="How often to save, if a failure comes every 120 ms")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, the formula, and where the five points' curve is lowest.
period_guess.compare(how_often.best_period(4, 120), 1e3 * lowest)

# %% [markdown]
# The question was about savings of 4 ms. For these the formula gives a period of
# $\sqrt{2 \cdot 4 \cdot 120} \approx 31$ ms. Here five workers share the cores, and the line above
# the table says how long a saving took. The formulas in the table count with that time.
#
# The dashed curve is Daly's. Where periods are long beside $F$, the two formulas differ. But the
# best period is nearly the same. On a busy machine, single points may lie beside the curve. The
# curve is flat at its lowest point: by the formula above, twice the best period costs a quarter
# more. So an estimate of $F$ is enough.

# %% [markdown]
# Now Llama 3: 419 failures in 54 days ([Llama Team 2024](https://arxiv.org/abs/2407.21783), section
# 3.3.4). The paper does not say how long a saving held the training up. What period would you
# choose?

# %%
hours_to_failure = 54 * 24 / 419
print(f"a failure every {hours_to_failure:.1f} hours")

def choose(saving_seconds, failure_seconds):
    period = how_often.best_period(saving_seconds, failure_seconds)
    cost = saving_seconds / period + period / 2 / failure_seconds
    return [f"{saving_seconds} s", f"{period / 60:.1f} min", f"{cost:.1%}"]

Table(["a saving takes", "best period", "cost"],
      [choose(seconds, 3600 * hours_to_failure) for seconds in (1, 10, 60, 600)])

# %% [markdown]
# By the formula, savings that take ten minutes would cost a third of the cluster. If ranks stood
# still for one second only, as with background savings that slow no step down, it would be little
# more than 1 %, with a checkpoint every few minutes, provided that the file is written within
# seconds. A background saving counts only when it is written, so that each failure costs the time
# of writing, too, and the period cannot be shorter than it. With ten minutes of writing, this is
# about 8 % (computed, with a period of ten minutes). On top comes the time until a failure is
# noticed, and until everything has been started again.
#
# ## Put to the test

# %% jupyter={"source_hidden": true}
from_zero = try_to_train("never", 100)  # the run of section 1 without checkpoints, once more
shutil.rmtree(folder, ignore_errors=True)
lost = die_at - from_zero[0] + 1
needed = [name for name in found if name not in ("nothing", "model") and found[name][2] > 0]
put_to_the_test(f"""
- [C097] Without a checkpoint, a restart begins from zero, and all computation is lost |
  PyTorch slides, “Failover: what happens if one node crashes?” |
  {"right" if lost == die_at else "not here"} | a rank was killed after {die_at} steps. Started
  again, the run that saved nothing began with step {from_zero[0]}: {lost} of {die_at} steps lost (a
  run in this section). With checkpoints {taken_twice} are lost (section 1, run) | measured: GPUs
  change nothing, as their memory ends with the process, too. If other ranks live on, they have the
  state (part 04e)
- [C098] A checkpoint is the weights, saved every few iterations | PyTorch slides, “Failover: what
  happens if one node crashes?” | {"imprecise" if needed else "right here"} | too little: beside the
  weights the state has {len(needed)} parts that count. If any one of them is left out, the training
  ends with other weights (section 2, table) | measured: on GPUs more is needed, not less: dropout
  draws from a generator of each GPU, says PyTorch's documentation
""")

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)).
#
# **To read on.** Young 1974, [A first order approximation to the optimum checkpoint
# interval](https://doi.org/10.1145/361147.361115), two pages; Daly 2006. Pillai et al. 2014, [All
# file systems are not created
# equal](https://www.usenix.org/conference/osdi14/technical-sessions/presentation/pillai), on what
# a power cut leaves.

# %% [markdown]
# ## What you have learnt
#
# * **State** is more than weights: optimizer, schedule, scaler, place in the data, and the random
#   generators of every rank. With all of it, equal ranks, sums in the same order and deterministic
#   kernels give a difference of 0.0.
# * A file is written **beside** the old one, brought to the disk, and **renamed**. A list with
#   **checksums** says what belongs to a checkpoint, and whether it is whole.
# * In the **background**, a saving holds the training up for about the time of a copy, and needs
#   cores and two copies' memory besides.
# * The best period is $\sqrt{2\,s\,F}$, and the curve is flat around it.
#
# **Your exercises** stand in the cell above and in
# [labs/checkpoints.py](../labs/checkpoints.py).
#
# **Next**: {{next}}.

# %%
progress("04")
