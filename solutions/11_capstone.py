# %% [markdown]
# # 11 · Capstone
#
# **Can you train a language model on two slow machines, with what you have written, on a bad day?**
# You choose a recipe with the planner. It has to keep a budget: time, memory, and bytes over the
# slow network cards. Then a rank is killed, another one hangs, a cable is out, and a machine loses
# its power. At the end the model writes.

# %% [markdown]
# ![Steps of eight ranks over time: rows of ticks with pauses, and crosses where something happens;
# for a while four rows are empty; above them, a line that rises, and falls back three
# times](../assets/covers/11_capstone.png)
#
# *Measured in section 6: eight ranks on two machines. Colours change where a new process takes the
# place of a dead one. In between, four ranks train alone, under another recipe.*
#
# **After this part you can** put all axes, precision, checkpoints and recovery together, and say
# what each of them costs.
#
# **It takes** about 20 minutes, and 90 more for 3 exercises. **It needs** parts
# [04e](04e_keep_training.ipynb), [09b](09b_one_step_three_axes.ipynb) and
# [10b](10b_predict_then_run.ipynb); your own functions of all chapters run here.

# %% jupyter={"source_hidden": true}
import shutil
import tempfile
from dataclasses import replace

import torch

from pedagogy_lib import (
    Machines, Scoreboard, Table, check, hint, lab, launch, plot_curves, plot_happenings,
    plot_stacks, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
quiet_steps = 40  # of the first day
bad_steps = 24  # of the second one
card_megabytes_per_second = 2.0
ours = []  # names of functions that you have written, and for which the solution's are to run

# %% [markdown]
# ## 1 · What is trained, and by whose functions
#
# The model is a transformer of 4 blocks, with 0.8 million weights. It reads the source of Python's
# standard library, letter by letter. Eight ranks train it, four on each of two machines. As in 10b,
# each rank's matrix products are as slow as a device of 2 · 10⁹ FLOPs a second would be, and the
# network cards are really slow: 2 MB/s.
#
# The trainer is `AnyPlan` of part 10b, made of what you have written since chapter 02. Below, each
# lab says which functions are *yours*. `ours = ["reduce_gradients"]` in the cell above would run
# the solution's instead of yours.

# %%
parts = [
    lab("collectives"), lab("meshes"), lab("three_dimensions"), lab("tensor_parallel"),
    lab("pipeline_parallel"), lab("schedules"), lab("zero"), lab("memory"),
    lab("checkpoints"), lab("keep_training"),
]

# %%
capstone, judged = lab("capstone", ours=ours), lab("capstone_judged", ours=ours)
setting = replace(capstone.SETTING, card=card_megabytes_per_second * 1e6)
text = capstone.standard_library(300_000)
batches = [capstone.draw_batch(text, setting.samples, step, setting.context) for step in range(3)]
tokens = setting.samples * setting.context
print(f"{tokens:,} letters in a step; entropy of single letters "
      f"{capstone.entropy_of_letters(text):.2f}")

# %% [markdown]
# The **entropy of single letters** is the loss of a model that knows how often each letter comes,
# and nothing else. Whoever gets below it has learnt which letters follow each other.
#
# ## 2 · A budget
#
# A **recipe** is a plan (`dp`, `tp`, `pp`, `cp`, `zero`, `micro_batch`, `recompute`), and a
# precision: with `half=True`, weights, activations, gradients and messages have 16 bits, and the
# optimizer steps on copies in float32, as in 05b. The budget has three limits. Beside them stands
# what plain data parallel takes, by its formulas:

# %%
budget, weights = judged.BUDGET, sum(p.numel() for p in capstone.whole_model(setting).parameters())
plain_bytes = judged.told(setting, capstone.PLAIN)[1]
over_card = 2 * (setting.ranks - 1) / setting.ranks * 4 * weights  # a ring over both machines
Table(["", "plain data parallel", "the budget"],
      [["tokens per second", "1", f"at least {budget.speedup:g} times as many"],
       ["memory of the fullest rank", f"{plain_bytes / 1e6:.1f} MB",
        f"at most {budget.memory_bytes / 1e6:g} MB"],
       ["bytes that leave a machine in a step", f"{over_card / 1e6:.2f} MB",
        f"at most {budget.card_bytes / 1e6:g} MB"]])

# %% [markdown]
# The planner of chapter 10 knows what a recipe takes before it runs. Its constants are those that
# part 10b starts from; in `half`, each number has two bytes. Here it tells of four recipes. Ask it
# for yours: `judged.told(setting, capstone.Recipe(…))` gives seconds and bytes.
# `judged.all_recipes(setting)` has every recipe that can be run, the fastest first.

# %%
some = {
    "plain data parallel": capstone.PLAIN,
    "ZeRO 3 over all": capstone.Recipe(dp=8, zero=3, micro_batch=2),
    "cut inside of a machine": capstone.Recipe(dp=2, tp=4, micro_batch=8, half=True),
    "stages on every second rank": capstone.Recipe(pp=4, tp=2, micro_batch=2),
}
told = {name: judged.told(setting, recipe) for name, recipe in some.items()}
Table(["", "recipe", "a step", "tokens/s", "memory"],
      [[name, capstone.in_words(some[name]), f"{seconds:.2f} s", f"{tokens / seconds:,.0f}",
        f"{nbytes / 1e6:.1f} MB"] for name, (seconds, nbytes) in told.items()],
      title=f"Predicted, for {len(judged.all_recipes(setting))} recipes; four of them")

# %% [markdown]
# ### Exercise 11.1 · Your recipe
#
# Write `my_recipe()`. It takes nothing, and returns a dict of settings, such as
# `{"dp": 8, "micro_batch": 2}`, which is plain data parallel. What you leave out is 1, 0, `"none"`
# or `False`. The recipe has to keep all three limits of the budget. The check runs it beside plain
# data parallel, in one launch. Memory and bytes are exact; the speed is compared in the same run.

# %% [markdown]
# * `dp × tp × pp × cp` is 8. The batch has 16 samples, the model 4 blocks and 8 heads.
# * Ranks are numbered along tp first, then cp, dp and pp. Ranks 0 to 3 are on machine 0. So the
#   axis that comes last lies across the machines.
# * `zero` is 0 to 3, with a pipeline 0 or 1. `recompute` is `"none"` or `"full"`. `micro_batch` is
#   the number of samples that go through at a time.

# %% tags=["nbval-ignore-output"]
def my_recipe():
    ### BEGIN SOLUTION
    return {"pp": 2, "dp": 4, "zero": 1, "micro_batch": 1, "half": True}
    ### END SOLUTION

check("11.1", my_recipe)

# %%
mine = capstone.Recipe(**(my_recipe() or {"pp": 2, "tp": 4, "micro_batch": 4}))  # until yours is
print("runs from here on:", capstone.in_words(mine))

# %%
faster = predict("Tokens a second with this recipe, beside plain data parallel", unit="times")

# %% [markdown]
# ## 3 · Judged
#
# Both train for a few steps, and your recipe once more in float32. A last step of each is measured.

# %% tags=["nbval-ignore-output"]
def race(entrants, batches=batches):
    machines = Machines.here(2, bytes_per_second=setting.card)
    if machines is None:
        print("Instead, messages between the two halves of the ranks are throttled.")
    run = launch(capstone.race, entrants, setting, batches, machines is not None,
                 world_size=setting.ranks, machines=machines, device="cpu", timeout=300)
    return judged.results_of(run, setting)

found = race({"plain": capstone.PLAIN, "mine": mine, "in float32": replace(mine, half=False)})
plain, result = found["plain"], found["mine"]
times = plain.seconds / result.seconds

# %%
alone = capstone.losses_alone(setting, batches)
gap = max(abs(a - b) for a, b in zip(alone, found["in float32"].losses))
broken = judged.excess(result, plain)
print("in float32, losses of one process to 1e-5:", gap < 1e-5)
print("memory within the budget:", "memory" not in broken, "· bytes over the card:",
      "card" not in broken)

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, the planner's, and what was measured.
expected = judged.told(setting, capstone.PLAIN)[0] / judged.told(setting, mine)[0]
faster.compare(expected, times, kind="forward")

# %% tags=["nbval-ignore-output"]
names = {"plain data parallel": (capstone.PLAIN, plain), "your recipe": (mine, result)}
Table(["", "tokens/s", "predicted", "memory", "predicted", "over a card", "MFU"],
      [[name, f"{of.tokens_per_second(setting):,.0f}",
        f"{tokens / judged.told(setting, recipe)[0]:,.0f}", f"{of.memory_bytes / 1e6:.2f} MB",
        f"{judged.told(setting, recipe)[1] / 1e6:.2f} MB", f"{of.card_bytes / 1e6:.2f} MB",
        f"{of.mfu(setting):.0%}"] for name, (recipe, of) in names.items()],
      title=f"{times:.1f} times as fast; the budget asks for {budget.speedup:g} times")

# %% [markdown]
# **MFU** is the share of the FLOPs of all (emulated) devices that goes into the model's own
# products. What fills the memory of the fullest rank, at its fullest moment?

# %% tags=["nbval-ignore-output"]
plot_stacks({name: of.at_peak for name, (_, of) in names.items()},
            limits={"the budget": budget.memory_bytes}, title="The fullest rank of each recipe")

# %% [markdown]
# ### Why copies cannot keep it
#
# Let $W$ be the bytes of the model's gradients, $n$ the ranks, $t$ the letters of a step, $h$ the
# width of the model, and $b$ the bytes of a number. In each step, what leaves a machine is
#
# $$\text{copies: } \frac{2 (n - 1)}{n}\, W \qquad \text{stages: } t \cdot h \cdot b$$
#
# The first does not depend on the batch: 0.8 million weights cross, however few letters there were.
# The second does not depend on the model's depth: one activation for each letter crosses, and a
# gradient comes back through the other direction of the card.

# %% [markdown]
# ## 4 · Break it
#
# Three more recipes, each with a good reason. Which limits do they break?

# %% tags=["nbval-ignore-output"]
others = {
    "copies, all saved": capstone.Recipe(dp=8, zero=1, half=True, recompute="full"),
    "cut inside of a machine": capstone.Recipe(dp=2, tp=4, zero=2, micro_batch=2, half=True),
    "one micro-batch": capstone.Recipe(pp=2, dp=4, zero=1, micro_batch=4, half=True),
}
tried = race(others)
limits = {"speed": ("{:.2f} times", 1), "memory": ("{:.2f} MB", 1e-6), "card": ("{:.2f} MB", 1e-6)}

def marked(of, name):
    figure = {"speed": plain.seconds / of.seconds, "memory": of.memory_bytes, "card": of.card_bytes}
    how, unit = limits[name]
    return how.format(figure[name] * unit) + " ✗" * (name in judged.excess(of, plain))

Table(["", *limits], [[name, *(marked(of, limit) for limit in limits)]
                      for name, of in tried.items()], title="✗: outside of the budget")

# %% [markdown]
# * **Copies** that save all they can still send all gradients over the card.
# * A model that is **cut** inside of a machine is copied on the other one. ZeRO 2 saves memory, and
#   sends gradients for each micro-batch.
# * With **one micro-batch** no stage has anything to do while the other one computes. And the first
#   one keeps the activations of four samples at a time.

# %% [markdown]
# ## 5 · The engines
#
# PyTorch's FSDP2 shards the same model over all eight ranks; then over four, with a whole model on
# each machine. DeepSpeed joins in if it is installed.

# %% tags=["nbval-ignore-output"]
engines = race({name: name for name in capstone.STOCK}, batches[:2])
print(f"{len(engines)} engines have run")

# %% tags=["nbval-ignore-output"]
def figures(of):
    return {"tokens/s": of.tokens_per_second(setting), "MB": of.memory_bytes / 1e6,
            "MB over a card": of.card_bytes / 1e6, "MFU %": 100 * of.mfu(setting)}

board = Scoreboard("capstone", best="tokens/s")
board.add(capstone.in_words(mine), figures(result))
seconds, nbytes = judged.told(setting, mine)
beside = {"  the planner of it": {"tokens/s": tokens / seconds, "MB": nbytes / 1e6},
          "plain data parallel": figures(plain), **{k: figures(of) for k, of in engines.items()}}
columns = {"tokens/s": ",.0f", "MB": ".2f", "MB over a card": ".2f", "MFU %": ".0f"}
board.table(columns, beside, title="Your runs, the fastest first; below, others")

# %% [markdown]
# The scoreboard is kept in the notebook's folder: change your recipe, run again, and both stand
# there. These engines are not slow: they are told to shard copies, and on these cards that is the
# wrong axis. With `torch.distributed.pipelining` (08j) they would do better, too.

# %% [markdown]
# ## 6 · A day on which things happen
#
# What a rank of this recipe has, nobody else has: a part of a stage's weights, and of the
# optimizer's states. If it dies, those who are left cannot go on, as they could in 04g. They need
# a checkpoint, and one that fits *another* recipe, if fewer ranks are left.
#
# So give each number of the model an **address**: 1, 2, 3, … through all parameters. A file has
# numbers, and beside them their addresses. Who wants to know which numbers a rank has under some
# recipe, needs no formula: take a model whose weights *are* their addresses, and let the engine
# cut it.

# %%
state = lab("capstone_state", ours=ours)
small = capstone.Setting(4, 8, 2, 8, 4, setting.flops, setting.card)

def first_addresses(recipe):
    found = torch.cat(state.addresses_of(small, recipe))
    return len(found), found[:4].tolist(), found[-2:].tolist()

recipe = capstone.Recipe(tp=2, dp=2, zero=1)
run = launch(first_addresses, recipe, world_size=4, device="cpu")
for rank, (count, first, last) in enumerate(run.values):
    print(f"rank {rank}: {count} numbers, at {first} … {last}")

# %% [markdown]
# Ranks 0 and 1 begin with other letters of the vocabulary, which tp has cut. Ranks 2 and 3 have the
# second halves of the same parts. They begin in the table of positions, which is not cut: so both
# have the same numbers of it.

# %% [markdown]
# ### Exercise 11.2 · Find numbers
#
# Write `find_numbers(saved, wanted)` in [labs/capstone_state.py](../labs/capstone_state.py).
#
# * `saved` is a list with a pair `(addresses, numbers)` for each file: two flat tensors of the same
#   length. Files come from ranks of any recipe, in any order. Where several have the same address,
#   they have copies of the same number.
# * `wanted` is a flat tensor of addresses, in any order; some may stand in it twice.
# * Return the numbers at these addresses: a tensor as long as `wanted`, in the dtype of the files.
# * The address 0 is padding. What is saved there means nothing; where it is wanted, return 0.
# * An address that is in no file: raise `ValueError`.
#
# Saved `([3, 1], [30., 10.])` and `([2, 0], [20., -7.])`, wanted `[2, 0, 1]`: `[20., 0., 10.]`.

# %%
check("11.2")

# %% [markdown]
# ### Exercise 11.3 · Carry on
#
# Write `carry_on(campaign, crew, steps)` in [labs/capstone_chaos.py](../labs/capstone_chaos.py).
# Each process calls it when it begins, also one that takes the place of a dead one. It trains up to
# `steps` steps, with those who are there.
#
# Use `train(campaign, crew, steps, step, begin)` of 04e. It calls the function `begin` with the
# campaign after each meeting, and `step(campaign, crew)` for each step. That one returns whether a
# meeting comes next.
#
# | `campaign` | |
# |---|---|
# | `.recipes` | `{number of ranks: recipe}`; for other numbers there is none |
# | `.steps`, `.engine` | steps taken; the engine, or None |
# | `.build(recipe)`, `.drop()` | make an engine for the ranks of now; forget it |
# | `.step()` | takes the next step |
# | `.save()` | writes a checkpoint |
# | `.load()` | back to the newest one, also in `.steps`; without an engine in `.steps` alone |

# %% [markdown]
# All of these but `drop` talk: every rank of the group has to call them.
#
# * After a meeting, groups are new, and engines that talk in the old ones are of no use.
# * If there is no recipe for so many ranks, take no step: wait 0.1 s, and meet again.
# * Losses are those of one process, whoever has died. Nobody but the dead had their part.
# * Save after every `EVERY` (5) steps.

# %% [markdown]
# Two things more:
#
# * `crew.somebody_waits()` tells that a newcomer waits at the next meeting. Each rank sees it at
#   another moment; `is_true_for_any(mine)` makes it one answer for all. Nobody has died then: so no
#   step may be lost.
# * `talking()` makes `Lost` of errors in communication, which `train` catches.
#
# The check lets four ranks train: undisturbed; one dies, and is replaced; two die, and two go on;
# two die, and come back later. It takes about half a minute.

# %% tags=["nbval-ignore-output"]
check("11.3")

# %% [markdown]
# ### The first day
#
# Now the real training: your recipe, the slow cards, a checkpoint after every five steps. On this
# day nothing happens. There is a second recipe, for four ranks on one machine.

# %%
chaos = lab("capstone_chaos", ours=ours)
recipes = {8: mine, 4: capstone.Recipe(dp=4, zero=2, micro_batch=4, half=mine.half)}
checkpoints = tempfile.mkdtemp(prefix="capstone-")

def live(chaos, *args):
    return chaos.live_through(chaos.carry_on, *args)

def day(plan, until):
    machines, place = Machines.here(2, bytes_per_second=setting.card), tempfile.mkdtemp()
    run = launch(live, chaos, plan, recipes, setting, text, checkpoints, place, until,
                 machines is not None, world_size=setting.ranks, machines=machines, device="cpu",
                 replacements=40, timeout=300)
    happened = chaos.happened_in(place)
    shutil.rmtree(place, ignore_errors=True)
    return run, *happened

# %% tags=["nbval-ignore-output"]
quiet, _, _, losses = day([], quiet_steps)
print(f"{quiet.seconds:.0f} s; loss {losses[1][0]:.2f} to {losses[quiet_steps][0]:.2f}")

# %% [markdown]
# ### The second day
#
# | steps of this day before it | what |
# |---|---|
# | 2 | rank 2 is killed |
# | 6 | rank 5 stands still |
# | 9 | the cable of machine 1 is out, for 1.2 s |
# | 12 | machine 1 loses its power; four ranks go on, under their recipe |
# | 16 | the power is back |
#
# The last checkpoint is never more than five steps old.

# %%
twice = predict("Steps that are taken a second time on that day", unit="steps")

# %% tags=["nbval-ignore-output"]
bad, events, taken, bad_losses = day(chaos.bad_day(quiet_steps), quiet_steps + bad_steps)
lost = chaos.steps_lost(taken)
print(f"{bad.seconds:.0f} s; steps taken again {lost}; "
      f"at the end {len(bad_losses)} steps of this day count")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory (kill, hang and power, each back to a checkpoint), and what happened.
cost = [event.step % chaos.EVERY for event in chaos.bad_day(quiet_steps)
        if event.what in ("kill", "hang", "power out")]
twice.compare(sum(cost), lost)

# %% tags=["cover", "nbval-ignore-output"]
began = min(at for of in taken.values() for _, at in of)
plot_happenings(
    {process: [(step, at - began) for step, at in of] for process, of in taken.items()},
    [(what, None if "cable" in what or "power" in what else rank, at - began)
     for what, rank, at in events], title="The second day")

# %% tags=["nbval-ignore-output"]
useful, of_quiet = bad_steps * tokens / bad.seconds, quiet_steps * tokens / quiet.seconds
fewer = sorted(step for step, (_, ranks) in bad_losses.items() if ranks < setting.ranks)
print(f"goodput {useful:,.0f} letters a second; on the quiet day {of_quiet:,.0f}")
print(f"steps taken by four ranks: {len(fewer)}")

# %% [markdown]
# **Goodput** counts the letters of steps that were kept, over all of the time. Where rows are
# empty, somebody is missing. A hang costs most: nobody can know it before a timeout.
#
# One of these timeouts has to be set by hand. `dist.new_group` does not take over that of the
# world: with Gloo its own is 30 minutes. A rank that waits in a group along dp or pp would wait as
# long for the one that stands still. `Campaign.build` sets it.

# %% [markdown]
# ## 7 · What it has learnt
#
# One process takes the same 64 steps, in float32. Is its loss the same as that of eight ranks, four
# ranks, and eight ranks again?

# %% tags=["nbval-ignore-output"]
kept = {step: loss for step, (loss, _) in (losses | bad_losses).items()}
of_one = capstone.losses_alone(
    setting, [capstone.draw_batch(text, setting.samples, step, setting.context)
              for step in range(quiet_steps + bad_steps)])
letters = capstone.entropy_of_letters(text)
x = sorted(kept)
plot_curves({"": {"one process": (x, of_one), "your recipe, a bad day": (x, [kept[k] for k in x]),
                  "single letters": (x, [letters] * len(x))}},
            "step", "loss for each letter", title="The same training, whatever happened")

# %%
off = max(abs(kept[step] - of_one[step - 1]) for step in x)
print("losses of one process, but for the rounding of bfloat16:", off < 0.1)
print("better than knowing single letters:", sum(of_one[-5:]) / 5 < letters)

# %% tags=["nbval-ignore-output"]
newest = sorted(state.Path(checkpoints).glob("step-*"))[-1]
print(capstone.in_lines(capstone.write(state.whole_from(newest, setting), "def ", letters=300)))
shutil.rmtree(checkpoints, ignore_errors=True)

# %% [markdown]
# It has read some 65,000 letters, and knows that there are words, and lines that are indented.
# With `quiet_steps = 1000` at the top it has time for more.
#
# ## Put to the test

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
sharded = engines["FSDP2"]
put_to_the_test(f"""
- Sharding everything over all ranks is the way to train with little memory | common advice |
  {"not over slow cards" if sharded.card_bytes > 2 * budget.card_bytes else "right here"} |
  FSDP2 needed {sharded.memory_bytes / 1e6:.1f} MB where plain data parallel needed
  {plain.memory_bytes / 1e6:.1f}, and sent {sharded.card_bytes / 1e6:.1f} MB over a card in each
  step; the recipe with stages sent {result.card_bytes / 1e6:.2f} (section 5, table)
- With a checkpoint, a training survives failures | common advice | needed, and not enough |
  it also took timeouts in every group, a second recipe, and files that fit both (section 6)
""")

# %% [markdown]
# **Sources.** Narayanan et al. 2021, *Efficient Large-Scale Language Model Training on GPU
# Clusters* ([arXiv](https://arxiv.org/abs/2104.04473)), for which axis goes where. Lian et al.
# 2024, *Universal Checkpointing* ([arXiv](https://arxiv.org/abs/2406.18820)), for checkpoints that
# fit any plan.

# %% [markdown]
# ## What you have learnt
#
# * **The slow link decides** which axis lies across it: gradients are as large as the model,
#   activations as large as the batch.
# * Limits of **memory**, **bytes** and **time** have different remedies, and each costs another
#   limit something.
# * With **addresses**, a checkpoint belongs to the model, and not to the ranks that saved it.
# * A training in parts survives if all go **back together**, and if another recipe is ready for
#   those who are left.
#
# **Your exercises** stand in a cell above, in [labs/capstone_state.py](../labs/capstone_state.py),
# and in [labs/capstone_chaos.py](../labs/capstone_chaos.py).
#
# **Next**: [11b · The exam](11b_exam.ipynb).

# %%
progress("11")
