# %% [markdown]
# # {{title}}
#
# **Does your training survive a bad day?** This is the exam of chapter 04. A process is killed,
# another stands still, one becomes slow, one computes wrongly, a bit of a weight changes, the disk
# is full, a cable is out, the power fails everywhere. You write the training that comes through all
# of it and ends with the weights of a day on which nothing happened.

# %% [markdown]
# ![Steps of four ranks over time: rows of ticks, broken by pauses, with a cross wherever something
# happens; above them, a line that rises, and falls back once](../assets/covers/04g_chaos.png)
#
# *Measured in section 3: what is drawn from one seed happens to four ranks. All end with the
# weights of an undisturbed run.*
#
# **After this part you can** put together what chapter 04 has taught, and say what each kind of
# failure costs.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import contextlib
import shutil
import tempfile
import time
from pathlib import Path

from pedagogy_lib import (
    Disk, Machines, Table, check, hint, lab, launch, plot_happenings, predict, progress,
    put_to_the_test,
)

# %% tags=["parameters"]
seed = 44

# %% [markdown]
# ## 1 · What happens
#
# The lab [chaos](../labs/chaos.py) draws a **plan** from a seed: each kind of failure once, in a
# drawn step, on a drawn rank. With the same seed, the same happens again, so that a failure can be
# looked at again. What is planned happens in `compute`, when the rank comes to that step, or later
# if its process is being replaced just then.

# %%
chaos = lab("chaos")
keeping = lab("keep_training")
digits = lab("gradient_accumulation").digits()
folder = Path(tempfile.mkdtemp(prefix="chaos-"))
alone = keeping.one_process(digits, chaos.STEPS)

Table(["in step", "what", "on rank"],
      [[str(event.step + 1), event.what, "all" if event.what == "power cut" else str(event.rank)]
       for event in chaos.draw_plan(seed)])

# %% [markdown]
# | what | what helps against it | part |
# |---|---|---|
# | **kill**: the process ends | meet, take the step again; a newcomer catches up | 04e |
# | **hang**: the process stands still | a timeout, fencing | 04c, 04e |
# | **slow**: computes ten times as long, for five steps | patience | 04c |
# | **wrong weights**: one bit changes | checksums, computing twice; the rank is replaced | 04c |
# | **wrong gradients**: from now on, until the process ends | the same | 04c |
# | **disk full**: for ten steps | earlier checkpoints stay whole | 04 |
# | **power cut**: all processes end | a checkpoint on the disk | 04 |

# %% [markdown]
# Each of them costs time, and one costs finished steps. Which, and how many?

# %%
worst = predict("Power fails in step 13, checkpoints every 5: taken twice", unit="steps")

# %%
def sit(chaos, plan, place, disk, data):
    return chaos.sit_exam(chaos.keep_going, plan, place, disk, data)

def try_plan(plan, machines=None):
    """The run, what has happened, and whether all ranks have the right weights."""
    place, disk = tempfile.mkdtemp(dir=folder), Disk.here(megabytes=1)
    with disk or contextlib.nullcontext():
        run = launch(sit, chaos, plan, place, disk.path if disk else place, digits,
                     world_size=chaos.RANKS, device="cpu", replacements=40, machines=machines)
    began = time.perf_counter() - run.seconds
    gaps = [(weights - alone).abs().max().item() for _, weights in run.values]
    happened = [(*event[:3], event.at - began) for event in chaos.events_of(place)]
    taken = {process: [(step, at - began) for step, at in steps]
             for process, steps in chaos.steps_of(place).items()}
    return run, happened, taken, max(gaps) < 1e-12

try_plan([])  # the first one loads what all need
quiet, *_ = try_plan([])
alone_with = {}
for what in chaos.KINDS:
    alone_with[what] = run, _, _, is_right = try_plan([chaos.Event(what, 12, 2)])
    print(f"{what}: processes lost {len(run.lost)}, undisturbed weights: {is_right}")

# %% tags=["nbval-ignore-output"]
cost = {what: run.seconds - quiet.seconds for what, (run, *_) in alone_with.items()}
Table(["what", "costs"], [[what, f"{seconds:+.1f} s"] for what, seconds in cost.items()],
      title=f"Beside a run of {quiet.seconds:.1f} s to which nothing happens")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and from which step on the new processes went on.
_, _, taken, _ = alone_with["power cut"]
first = min(steps[0][0] for steps in taken.values() if steps[0][0] > 1)
worst.compare(12 % chaos.EVERY, 13 - first)

# %% [markdown]
# A hang costs the timeout of the group, 4 s, and the patience of the meeting, 1.5 s, as the rank
# that stands still is killed only then. A slow rank costs 5 × 6 × 20 ms: for five
# steps it computes 6 micro-batches, its own and its neighbour's, and each takes 20 ms longer.
#
# New processes cost little here: the bench copies one that has imported PyTorch already. A full
# disk and a slow rank cost nobody a process. Times vary here from run to run, as processes start
# and share the cores.

# %% [markdown]
# ## 2 · Your turn

# %% [markdown]
# ### Exercise {{keep_going}} · Survive every failure in one run
#
# Write `keep_going(training, crew, folder, steps)` in [labs/chaos.py](../labs/chaos.py). Each
# process calls it when it begins, also one that takes the place of a dead one. When it returns, the
# training has taken `steps` steps, and has the weights of an undisturbed run: to within 1e-12, on
# every rank.
#
# * `training` has `steps`, `compute(rank, n)`, which gives the sum over this rank's micro-batches,
#   `update(sums)`, which takes the sum over all of them, `model`, `state_dict()`, and
#   `load_state_dict(state)`.
# * `crew` is a `Crew` of the lab [keep_training](../labs/keep_training.py), with `meet()`,
#   `somebody_waits()`, and `n`, how many ranks there are when all are there.
# * `folder` is on a disk that all processes see.

# %% [markdown]
# You may use everything that you have written in this chapter. These functions stand ready in the
# lab:
#
# | | what it does |
# |---|---|
# | `train(training, crew, steps, step)` | calls `step(training, crew)`; meets if it says so |
# | `catch_up(training)` | `train` calls it after each meeting |
# | `talking()` | makes `Lost` of errors in communication |
# | `wrong_by_recomputing(gradients_of)` | the rank that computes wrongly, of three or more |
# | `save_alone(folder, step, state)` | a checkpoint, by one rank; returns `""` or what is wrong |
# | `load_alone(folder)` | the newest state that is whole, or `None` |

# %% [markdown]
# What is asked beside the weights:
#
# * Save after every `EVERY` (5) steps. Rank 0 of the group saves. A full disk must not end the
#   training. After a power cut, go on from the newest checkpoint.
# * As long as anybody has the state in memory, no step that is finished is taken a second time.
# * Find out who computes wrongly, or has wrong weights, before the sums are added up. This process
#   ends: `os.kill(os.getpid(), signal.SIGKILL)`, and the bench starts another in its place. All
#   others raise `Lost`: nobody takes this step.
# * With fewer than three ranks nobody can tell who is wrong. Then take no step, and return True.

# %% [markdown]
# `wrong_by_recomputing` talks to others: call it under `talking()`. It returns a rank *in the
# group*, `dist.get_rank()`. Its `gradients_of(k)` may return any tensors that healthy ranks compute
# alike. For example, `[training.compute(k, n), *training.model.parameters()]`: the sums of rank
# `k`, *and the weights*. The sums alone are not enough. The bit may belong to a pixel that is
# always black: then the gradients are right, and the weights are not.

# %% [markdown]
# Begin with `take_step` of `keep_training`, and add one thing after another. The check tries all
# failures in one run, with a cable pulled as well where this system has machines. If that goes
# wrong, it tries each alone, to tell you why. Below its verdict is a film of your training. Section
# 3 tells how to read it. The check trains several times, so it takes a while.

# %% tags=["nbval-ignore-output"]
check("{{keep_going}}")

# %% [markdown]
# ## 3 · A film of the day
#
# All of it in one run, for the seed at the top of this notebook. Also, a cable is pulled: machine 1
# of two is without network for 0.8 s, where this system has machines. Below, each tick is a step
# that a rank has taken. A new colour is a new process. Where there are no ticks, everybody waits.
# Where the line above falls, steps are taken again.

# %%
machines = Machines.here(2)
cable = None
if machines:
    cable = machines.unplug(1, after_seconds=0.9).plug(1, after_seconds=1.7)
run, happened, taken, is_right = try_plan(chaos.draw_plan(seed), cable)
print("undisturbed weights on all ranks:", is_right)

# %% tags=["cover", "nbval-ignore-output"]
crosses = [(what, rank, at) for what, rank, _, at in happened]
crosses += [(words, None, at) for at, words in run.cards.events] if cable else []
plot_happenings(taken, crosses, title=f"Everything that is drawn from seed {seed}, in one run")

# %% tags=["nbval-ignore-output"]
Table(["after", "what", "on rank", "in step"],
      [[f"{at:.2f} s", what, str(rank), str(step + 1)] for what, rank, step, at in happened])

# %% [markdown]
# With seed 44: the power fails in step 27. Why does the training go back to step 15? The disk was
# full from step 17 to step 26, so that the checkpoints of steps 20 and 25 could not be written. Two
# failures together cost more than each alone.

# %% [markdown]
# *Try it:* set `seed` at the top to your birthday, and run the notebook again. In `KINDS` of the
# lab you can leave some kinds out. What if two things happen in the same step? A drawn plan never
# has that, so write one: `try_plan([chaos.Event("kill", 12, 1), chaos.Event("hang", 12, 2)])`. With
# the course's solution, this ended with the right weights when we tried it, and so did a kill
# beside wrong gradients. With wrong gradients on *two* ranks, do not wait for the end:
# `wrong_by_recomputing` can find one rank, and not two. Neighbours that are wrong dispute forever.
# If they are no neighbours, it may name the healthy rank between them, which is then replaced for
# nothing.

# %% [markdown]
# ## 4 · What this exam leaves out
#
# * The **store** never fails here, and every rank reaches it. On a cluster it is a service on
#   separate machines, which agree by a protocol such as Raft.
# * After a **power cut** all wait until every rank is back: one machine that stays away stops all.
# * The **rank that computes wrongly** is one at a time, and always wrong. Two of three that are
#   wrong alike are believed; with more ranks, training may never end. If one is wrong once, the
#   course's solution repeats the step.
# * Everything is **data parallel**: whoever is left has the whole state. With shards, copies of
#   part [04f](04f_copies_and_local_steps.ipynb) are needed, or a checkpoint.
# * Computing twice costs half of the cluster. Part [04c](04c_finding_out.ipynb) does it rarely.

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true}
shutil.rmtree(folder, ignore_errors=True)
power_cut, *_ = alone_with["power cut"]
put_to_the_test(f"""
- A checkpoint is the weights, saved every few iterations | PyTorch slides |
  {"needed, and not enough" if is_right else "not refuted"} |
  of {len(chaos.KINDS)} kinds of failure, only the power cut needed a checkpoint; two of them would
  have spoilt the weights in it (sections 1 and 3)
""")

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)). The idea to let failures
# happen on purpose is [chaos engineering](https://principlesofchaos.org).

# %% [markdown]
# ## What you have learnt
#
# * A training survives if **each kind of failure** has its own answer: meet, catch up, compute
#   twice, save.
# * With few ranks, a hang costs most time: the **timeout**. A power cut costs finished steps.
# * What is **drawn from a seed** can be repeated: so failures can be tested like any program.
#
# **Your exercise** stands in [labs/chaos.py](../labs/chaos.py).
#
# **Next**: {{next}}.

# %%
progress("04g")
