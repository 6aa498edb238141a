# %% [markdown]
# # {{title}}
#
# **Can you train a language model on two slow machines, with what you have written, on a bad day?**
# You choose a recipe with the planner. It has to keep a budget: time, memory, and bytes over the
# slow network cards. Then a rank is killed, another one hangs, a cable is out, and a machine loses
# its power. At the end the model writes.

# %% [markdown]
# ![Steps of eight ranks over time: rows of ticks with pauses, and crosses where something happens;
# for a while four rows are empty; above them, a line that rises, and falls back where steps are
# taken again](../assets/covers/11_capstone.png)
#
# *Measured in section 6: eight ranks on two machines. A row's colour changes where a new process
# takes the place of a dead one. Where four rows are empty, four ranks train under another recipe.*
#
# **After this part you can** put all axes, precision, checkpoints and recovery together, and say
# what each of them costs.
#
# {{takes}} Your own functions of all chapters run here.

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
quiet_steps = 40  # steps of the first day
bad_steps = 24  # steps of the second day
card_megabytes_per_second = 2.0
ours = []  # names of functions of yours that are left out: the solution's run in their place

# %% [markdown]
# ## 1 · What is trained, and by whose functions
#
# The model is a transformer of 4 blocks, which reads the source of Python's standard library: each
# letter is a token. Eight ranks train it, four on each of two machines. As in 10b, computing is
# emulated: each rank's matrix products take as long as on a device of 2 · 10⁹ FLOP/s. The network
# cards are really slow: they carry 2 MB/s each way.
#
# The trainer is `AnyPlan` of part 10b, made of what you have written since chapter 02. Below, each
# lab says which functions are *yours*. If one of yours is in the way, put its name into `ours`
# above, such as `ours = ["reduce_gradients"]`, and the solution's function runs instead. (The
# checks always run yours.)

# %%
parts = [
    lab("collectives"), lab("meshes"), lab("three_dimensions"), lab("tensor_parallel"),
    lab("pipeline_parallel"), lab("schedules"), lab("zero"), lab("memory"),
    lab("checkpoints"), lab("keep_training"),
]
capstone, judged = lab("capstone", ours=ours), lab("capstone_scores", ours=ours)
setting = replace(capstone.SETTING, card=card_megabytes_per_second * 1e6)
text = capstone.standard_library(300_000)
batches = [capstone.draw_batch(text, setting.samples, step, setting.context) for step in range(3)]
tokens = setting.samples * setting.context
weights = sum(p.numel() for p in capstone.whole_model(setting).parameters())
print(f"{weights:,} weights; {tokens:,} letters in a step; "
      f"entropy of single letters {capstone.entropy_of_letters(text):.2f}")

# %% [markdown]
# The **entropy of single letters** is the loss of a model that knows how often each letter comes,
# and nothing else. (In nats, as all losses here.) A model with a lower loss has learnt which
# letters follow each other.
#
# ## 2 · A budget
#
# A **recipe** is a plan (`dp`, `tp`, `pp`, `cp`, `zero`, `micro_batch`, `recompute`) and a
# precision. With `half=True`, weights, activations, gradients and messages are bfloat16. The
# optimizer steps on copies of the weights in float32, as in 05b. The budget has three limits.
# Beside each limit stands what plain data parallel takes, by the formulas:

# %%
budget = judged.BUDGET
plain_bytes = judged.predict_recipe(setting, capstone.PLAIN)[1]
over_card = 2 * (setting.ranks - 1) / setting.ranks * 4 * weights  # a ring over both machines
Table(["", "plain data parallel", "the budget"],
      [["tokens per second", "1", f"at least {budget.speedup:g} times as many"],
       ["memory of the fullest rank", f"{plain_bytes / 1e6:.1f} MB",
        f"at most {budget.memory_bytes / 1e6:g} MB"],
       ["bytes that leave a machine in a step", f"{over_card / 1e6:.2f} MB",
        f"at most {budget.card_bytes / 1e6:g} MB"]])

# %% [markdown]
# The planner of chapter 10 predicts what a recipe takes before it runs. It has the constants that
# part 10b starts from. With `half`, each weight, gradient and activation has two bytes. The table
# shows its predictions for four recipes.
#
# Ask it for yours: `judged.predict_recipe(setting, capstone.Recipe(…))` returns the seconds of a
# step and the bytes of memory. `judged.all_recipes(setting)` returns every recipe that can run, the
# fastest first. The bytes over a card it does not predict: think about these yourself.

# %%
some = {
    "plain data parallel": capstone.PLAIN,
    "ZeRO 3 over all": capstone.Recipe(dp=8, zero=3, micro_batch=2),
    "cut inside of a machine": capstone.Recipe(dp=2, tp=4, micro_batch=8, half=True),
    "stages on every second rank": capstone.Recipe(pp=4, tp=2, micro_batch=2),
}
told = {name: judged.predict_recipe(setting, recipe) for name, recipe in some.items()}
Table(["", "recipe", "a step", "tokens/s", "memory"],
      [[name, capstone.describe_recipe(some[name]), f"{seconds:.2f} s", f"{tokens / seconds:,.0f}",
        f"{nbytes / 1e6:.1f} MB"] for name, (seconds, nbytes) in told.items()],
      title=f"Predicted: four of {len(judged.all_recipes(setting))} recipes that can run")

# %% [markdown]
# ### Exercise {{my_recipe}} · Choose a recipe within the budget
#
# Write `my_recipe()`. It takes nothing and returns a dict of settings. For example,
# `{"dp": 8, "micro_batch": 2}` is plain data parallel. A size that you leave out is 1, `zero` is 0,
# `recompute` is `"none"`, and `half` is `False`.
#
# The recipe has to keep all three limits of the budget. The check runs it and plain data parallel
# in one launch, on cards of 2 MB/s. Memory and bytes are counted exactly. Times vary: the best of
# up to three launches counts.

# %% [markdown]
# * `dp × tp × pp × cp` is 8. The model has 4 blocks, and `pp` divides 4. It has 8 heads.
# * `micro_batch` is the number of samples that a rank computes at a time. The batch has 16 samples,
#   and `dp × micro_batch` divides 16.
# * `zero` is 0 to 3. With a pipeline (`pp` above 1) it is 0 or 1. With `dp × cp` = 1 there are no
#   copies, and it is 0.
# * `recompute` is `"none"` or `"full"`.
# * Ranks are numbered along tp first, then cp, dp and pp. Ranks 0 to 3 are on machine 0. So the
#   last of these axes that is longer than 1 lies across the machines.

# %% tags=["nbval-ignore-output"]
def my_recipe():
    ### BEGIN SOLUTION
    return {"pp": 2, "dp": 4, "zero": 1, "micro_batch": 1, "half": True}
    ### END SOLUTION

check("{{my_recipe}}", my_recipe)

# %%
# As long as my_recipe() gives none that can be run, another recipe runs in its place.
mine = capstone.Recipe(**(my_recipe() or {}))
if why_not := judged.why_not(setting, mine):
    print("my_recipe() cannot be run:", why_not)
    mine = capstone.Recipe(pp=2, tp=4, micro_batch=4)
print("runs from here on:", capstone.describe_recipe(mine))

# %%
faster = predict("Tokens a second with this recipe, beside plain data parallel", unit="times")

# %% [markdown]
# ## 3 · Judged
#
# Plain data parallel trains for a few steps, then your recipe does, then your recipe in float32.
# After these steps comes one more, in which memory and bytes are measured.

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
print("memory within the budget:", "memory" not in broken)
print("bytes over the card within the budget:", "card" not in broken)

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, the planner's, and what was measured.
expected = (
    judged.predict_recipe(setting, capstone.PLAIN)[0] / judged.predict_recipe(setting, mine)[0]
)
faster.compare(expected, times, kind="forward")

# %% tags=["nbval-ignore-output"]
names = {"plain data parallel": (capstone.PLAIN, plain), "your recipe": (mine, result)}
Table(
    ["", "tokens/s", "predicted", "memory", "predicted", "over a card", "MFU"],
    [
        [
            name,
            f"{of.tokens_per_second(setting):,.0f}",
            f"{tokens / judged.predict_recipe(setting, recipe)[0]:,.0f}",
            f"{of.memory_bytes / 1e6:.2f} MB",
            f"{judged.predict_recipe(setting, recipe)[1] / 1e6:.2f} MB",
            f"{of.card_bytes / 1e6:.2f} MB",
            f"{of.mfu(setting):.0%}",
        ]
        for name, (recipe, of) in names.items()
    ],
    title=f"{times:.1f} times as fast; the budget asks for {budget.speedup:g} times",
)

# %% [markdown]
# MFU, as in part 10, is the share of the devices' FLOPs that the model's own products need. The
# devices are emulated here.
#
# What fills the memory of the fullest rank, at its peak? In plain data parallel,
# *communication* is a flat copy of all gradients, in which they are summed. *Other* is their mean.

# %% tags=["nbval-ignore-output"]
plot_stacks({name: of.at_peak for name, (_, of) in names.items()},
            limits={"the budget": budget.memory_bytes}, title="The fullest rank of each recipe")

# %% [markdown]
# ### Why copies cannot keep it
#
# Let $W$ be the bytes of the model's gradients, $n$ the ranks, $t$ the letters of a step, $h$ the
# width of the model, and $b$ the bytes of a number. Copies sum their gradients in a ring through
# both machines. Stages, with tp 1, hand on activations. In each step a machine sends
#
# $$\text{copies: } \frac{2 (n - 1)}{n}\, W \qquad \text{stages: } t \cdot h \cdot b$$
#
# The first does not depend on the batch: all gradients cross the card, however few letters there
# were. The second does not depend on the model's depth: each letter's activation crosses once. Its
# gradient comes back in the other direction of the card.
#
# If each machine first adds up its own gradients, $W$ still crosses, as section 5 shows: too much,
# even in bfloat16.

# %%
equal = over_card / (4 * setting.width)  # letters in a step; both in float32
print(f"With {equal:,.0f} letters in a step, copies and stages would send the same.")
print(f"Here a step has {tokens:,}.")

# %% [markdown]
# **On GPUs** the same formulas decide, with larger batches. Llama 3 405B had millions of tokens in
# a step (part 10c). Stages send more with each token, copies do not. Narayanan et al. (see
# *Sources*) advise to cut layers inside of a machine, to lay stages across machines until the model
# fits, and to add copies for more GPUs. None of this was measured here.
#
# ## 4 · Break it
#
# Here are three more recipes. Which limits do they break?

# %% tags=["nbval-ignore-output"]
others = {
    "copies that save memory": capstone.Recipe(dp=8, zero=1, half=True, recompute="full"),
    "cut, and sharded": capstone.Recipe(dp=2, tp=4, zero=2, micro_batch=2, half=True),
    "one micro-batch": capstone.Recipe(pp=2, dp=4, zero=1, micro_batch=4, half=True),
}
tried = race(others)
limits = {"speed": ("{:.2f} times", 1), "memory": ("{:.2f} MB", 1e-6), "card": ("{:.2f} MB", 1e-6)}

def format_figure(of, name):
    figure = {"speed": plain.seconds / of.seconds, "memory": of.memory_bytes, "card": of.card_bytes}
    how, unit = limits[name]
    return how.format(figure[name] * unit) + " ✗" * (name in judged.excess(of, plain))

Table(["", *limits], [[name, *(format_figure(of, limit) for limit in limits)]
                      for name, of in tried.items()], title="✗: outside of the budget")

# %% [markdown]
# * **Copies that save memory**, by bfloat16, ZeRO 1 and recomputation, still send all gradients
#   over the card.
# * A model that is **cut** inside of a machine **and sharded** has a copy on the other machine.
#   ZeRO 2 saves memory, but sends gradients after each micro-batch.
# * **One micro-batch** saves messages. But each stage waits while the other one computes. And each
#   rank keeps the activations of four samples at once.

# %% [markdown]
# ## 5 · The engines
#
# PyTorch's FSDP2 shards the same model over all eight ranks. Then it shards over four, so that each
# machine has a whole model. DeepSpeed joins in if it is installed. All of them compute in float32.

# %% tags=["nbval-ignore-output"]
engines = race({name: name for name in capstone.STOCK}, batches[:2])
print(f"{len(engines)} engines have run")

# %% tags=["nbval-ignore-output"]
def figures(of):
    return {"tokens/s": of.tokens_per_second(setting), "MB": of.memory_bytes / 1e6,
            "MB over a card": of.card_bytes / 1e6, "MFU %": 100 * of.mfu(setting)}

board = Scoreboard("capstone", best="tokens/s")
board.add(capstone.describe_recipe(mine), figures(result))
seconds, nbytes = judged.predict_recipe(setting, mine)
beside = {"  as the planner predicts it": {"tokens/s": tokens / seconds, "MB": nbytes / 1e6},
          "  the same in float32": figures(found["in float32"]),
          "plain data parallel": figures(plain), **{k: figures(of) for k, of in engines.items()}}
columns = {"tokens/s": ",.0f", "MB": ".2f", "MB over a card": ".2f", "MFU %": ".0f"}
board.table(columns, beside, title="Your runs, the fastest first; below, what they compare with")

# %% [markdown]
# The scoreboard is kept in the notebook's folder: change your recipe, run again, and both stand
# there. Compare the engines with your recipe in float32. They are well written: they were told to
# shard copies, and on these cards that is the wrong axis. With a whole model on each machine, FSDP2
# adds up the gradients inside of a machine first, so that only $W$ leaves it. PyTorch's
# `torch.distributed.pipelining` sends activations instead: part 08j runs it. It was not raced here.
#
# FSDP2 over all ranks gathers the weights twice and reduces the gradients once. By the formulas of
# chapter 06, $3\,(n-1)/n \cdot W$ leave a machine. Over Gloo it is $4\,(n-1)/n \cdot W$, as Gloo's
# reduce-scatter sends twice what it has to (part 02d).

# %% [markdown]
# ## 6 · A day on which things happen
#
# In 04g, every rank had the whole state. So the survivors could go on. Here a rank may have numbers
# that no other rank has. With ZeRO 1, these are its part of the optimizer's states. With stages or
# tp and no copies, they are its weights, too. If such a rank dies, the others need a checkpoint.
# And if fewer ranks are left, the checkpoint has to fit *another* recipe.
#
# So give each number of the model an **address**: 1, 2, 3, … through all parameters. A file has
# numbers, and beside them addresses. Which numbers does a rank have under some recipe? Take a model
# whose weights *are* their addresses, and let the engine cut it.

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
# Ranks 0 and 1 begin with different rows of the letters' embedding, which tp has cut. Without ZeRO,
# rank 2 would have the numbers of rank 0, and rank 3 the numbers of rank 1. With ZeRO, ranks 2 and
# 3 have the second halves. Both begin in the table of positions, which tp has not cut. So they have
# the same numbers of it.
#
# An address takes 8 bytes, beside 12 bytes of a weight and Adam's two averages.
# `torch.distributed.checkpoint` (04b) saves space: it notes only where each piece of a tensor
# begins, and its shape.

# %% [markdown]
# ### Exercise {{find_numbers}} · Find saved numbers by address
#
# Write `find_numbers(saved, wanted)` in [labs/capstone_state.py](../labs/capstone_state.py).
#
# * `saved` is a list with a pair `(addresses, numbers)` for each file: two flat tensors of the same
#   length. Files come in any order. An address (int64) may be in several files, or twice in one:
#   these are copies of the same number.
# * `wanted` is a flat tensor of addresses, in any order. Some may stand in it twice.
# * Return the numbers at these addresses: a tensor as long as `wanted`, in the dtype of the files.
# * The address 0 is padding. What is saved there means nothing. If it is wanted, return 0.
# * If any other wanted address is in no file, raise `ValueError`.
#
# Saved `([3, 1], [30., 10.])` and `([2, 0], [20., -7.])`, wanted `[2, 0, 1]`: `[20., 0., 10.]`.

# %%
check("{{find_numbers}}")

# %% [markdown]
# ### Exercise {{carry_on}} · Continue when ranks die or join
#
# Write `carry_on(campaign, crew, steps)` in [labs/capstone_chaos.py](../labs/capstone_chaos.py).
# Each process calls it when it begins, also one that takes the place of a dead one. It trains until
# `steps` steps are taken, with the ranks that are there. It returns nothing.
#
# Use `train(campaign, crew, steps, step, begin)` of 04e. `train` calls `begin` with the campaign
# after each meeting, and `step(campaign, crew)` for each step. You write these two functions.
# `step` returns whether a meeting comes next.
#
# | `campaign` | |
# |---|---|
# | `.recipes` | `{number of ranks: recipe}`; other numbers of ranks have no recipe |
# | `.steps`, `.engine` | the steps taken so far; the engine, or None |
# | `.build(recipe)`, `.drop()` | makes an engine for the ranks of now; forgets the engine |
# | `.step()` | takes the next step |
# | `.save()` | writes a checkpoint |
# | `.load()` | goes back to the newest checkpoint: the engine, if there is one, and `.steps` |

# %% [markdown]
# All methods but `drop` communicate: every rank of the group has to call them.
#
# * After a meeting, groups are new. An engine still talks in the old groups: it is of no use.
# * If there is no recipe for so many ranks, take no step: wait 0.1 s, and meet again.
# * Each step has the loss that one process has in it, whoever has died. A dead rank had numbers
#   that no other rank has.
# * Save after every `EVERY` steps. It is 5 here. The check sets another number, so use the name.

# %% [markdown]
# Two things more:
#
# * `crew.somebody_waits()` returns whether a newcomer waits at the next meeting. Each rank sees it
#   at another moment. `is_true_for_any(mine)` gives all ranks the same answer. Then all go to the
#   meeting. Nobody has died, so no step may be lost.
# * Under `with talking():`, an error in communication becomes `Lost`, which `train` catches.
#   `train` calls `begin` under it, but not `step`.
#
# The check lets four ranks train, in four cases. Nothing happens. One rank dies, and is replaced.
# Two die, and two go on. Two die, and come back later.

# %% tags=["nbval-ignore-output"]
check("{{carry_on}}")

# %% [markdown]
# ### The first day
#
# Now the real training: your recipe, the slow cards, a checkpoint after every five steps. A second
# recipe is ready for four ranks on one machine. Both compute in float32 on these two days, because
# rounding in bfloat16 could hide a lost step (section 7). On this day nothing happens.

# %% tags=["nbval-ignore-output"]
chaos = lab("capstone_chaos", ours=ours)
recipes = {8: replace(mine, half=False), 4: capstone.Recipe(dp=4, zero=2, micro_batch=4)}
checkpoints = tempfile.mkdtemp(prefix="capstone-")

def live(chaos, *args):
    return chaos.live_through(chaos.carry_on, *args)

def day(plan, until):
    machines = Machines.here(2, bytes_per_second=setting.card)
    with tempfile.TemporaryDirectory() as place:
        run = launch(live, chaos, plan, recipes, setting, text, checkpoints, place, until,
                     machines is not None, world_size=setting.ranks, machines=machines,
                     device="cpu", replacements=40, timeout=300 + 2 * until)
        return run, *chaos.read_events(place)

quiet, _, _, losses = day([], quiet_steps)
print(f"{quiet.seconds:.0f} s; loss {losses[1][0]:.2f} to {losses[quiet_steps][0]:.2f}")

# %% [markdown]
# ### The second day
#
# | after so many steps of this day | what happens |
# |---|---|
# | 2 | rank 2 is killed |
# | 6 | rank 5 stands still |
# | 9 | the cable of machine 1 is out, for 1.2 s |
# | 12 | machine 1 loses its power; four ranks go on, under their recipe |
# | 16 | the power is back |
#
# How many steps are lost, and have to be taken again?

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
useful, of_quiet = bad_steps * tokens / bad.seconds, quiet_steps * tokens / quiet.seconds
fewer = sorted(step for step, (_, ranks) in bad_losses.items() if ranks < setting.ranks)
print(f"goodput {useful:,.0f} letters a second; on the quiet day {of_quiet:,.0f}")
print(f"steps taken by four ranks: {len(fewer)}")
began = min(at for of in taken.values() for _, at in of)
plot_happenings(
    {process: [(step, at - began) for step, at in of] for process, of in taken.items()},
    [(what, None if "cable" in what or "power" in what else rank, at - began)
     for what, rank, at in events], title="The second day")

# %% [markdown]
# **Goodput** counts the letters of steps that were kept, over all of the time. An empty row is a
# rank that is missing. A new colour is a new process.
#
# With the numbers at the top, the kill costs two steps, the hang one, and the lost power two: as
# many as were taken since the last checkpoint. The cable costs no step: TCP sends again what was
# lost. Nor does the return of the power: all ranks save before they meet. In the picture a line
# falls to the first step that is taken again: from 42 to 41, two steps are repeated.

# %% [markdown]
# The four ranks go on until the new processes have come, so they take more steps than the table
# has.
#
# Of kill, hang and power, the kill costs the least time: the dead process's connections close, and
# the others know at once. What remains is a new process, a meeting, and new groups. A rank that
# stands still, or has no power, closes nothing.

# %% [markdown]
# Of a rank that stands still, the others learn by a timeout. One timeout has to be set by hand.
# `dist.new_group` does not take over the timeout of the world. Without `timeout=`, it is 30 minutes
# with Gloo: so long would the ranks of a group along dp or pp wait. `Campaign.build` sets it.
#
# **On GPUs** the default of `new_group` is 10 minutes with NCCL, says PyTorch's
# [documentation](https://docs.pytorch.org/docs/stable/distributed.html). There the watchdog ends
# the process (part 04e).

# %% [markdown]
# ## 7 · What it has learnt
#
# One process takes the same steps, in float32. Eight ranks have taken them, then four, then eight
# again. Do both have the same losses? A checkpoint that is one step older than its number says
# would lose an update. To see how much that would change, two more processes leave out the update
# with which the second day begins, or make it twice.

# %% tags=["nbval-ignore-output"]
kept = {step: loss for step, (loss, _) in (losses | bad_losses).items()}
steps = [capstone.draw_batch(text, setting.samples, step, setting.context)
         for step in range(quiet_steps + bad_steps)]
of_one = capstone.losses_alone(setting, steps)
first_of_day = steps[quiet_steps]
with_fault = {times: capstone.losses_alone(
    setting, [*steps[:quiet_steps], *[first_of_day] * times, *steps[quiet_steps + 1:]])
    for times in (0, 2)}
letters = capstone.entropy_of_letters(text)
x = sorted(kept)
plot_curves({"": {"one process": (x, of_one), "your recipe, a bad day": (x, [kept[k] for k in x]),
                  "single letters": (x, [letters] * len(x))}},
            "step", "loss (nats per letter)", title="The same training, whatever happened")

# %%
off = max(abs(kept[step] - of_one[step - 1]) for step in x)
later = of_one[quiet_steps + 1:]
changed = {times: max(abs(a - b) for a, b in zip(losses[quiet_steps + times:], later))
           for times, losses in with_fault.items()}
print("all losses within 1e-4 of one process's:", off < 1e-4)
print("an update lost would change some by more than 100 times as much:", changed[0] > 100 * off)
print("an update made twice would, too:", changed[2] > 100 * off)
print("last five, below the entropy of single letters:", sum(of_one[-5:]) / 5 < letters)

# %% tags=["nbval-ignore-output"]
newest = sorted(state.Path(checkpoints).glob("step-*"))[-1]
print(f"after {int(newest.name.removeprefix('step-')) * tokens:,} letters:")
print(capstone.wrap_lines(capstone.write(state.whole_from(newest, setting), "def ", letters=300)))
shutil.rmtree(checkpoints, ignore_errors=True)

# %% [markdown]
# If these comparisons hold, no update was lost and none was made twice, except perhaps the last
# one, which no loss shows any more.
#
# The model, loaded from the newest checkpoint, has not read much. It writes letters in short
# groups, and indents its lines. With `quiet_steps = 500` at the top it has time for more, and the
# first day takes some ten minutes. After many more steps, rounding alone exceeds 1e-4.

# %% [markdown]
# ### To change
#
# A training campaign of 2026 has more. With the labs that exist you can add two things:
#
# * **Experts over the two machines.** `expert_training` (09e) trains a model of experts on ranks.
#   Run it with `machines=`, and count which rows cross the cards: with every choice of experts,
#   other rows do.
# * **Rows in 8 bits.** Put `NarrowRemoteExperts` (lab `narrow_dispatch`, forward only) in place of
#   `RemoteExperts` in `share_out`. How many bytes over a card does that save, and how far does it
#   move the outputs?
#
# No check waits for you here. Predict first.
#
# ## Put to the test

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
sharded, in_float32 = engines["FSDP2"], found["in float32"]
verdict = ("not here" if sharded.memory_bytes > 0.95 * plain.memory_bytes
           else "a way, not the only one" if in_float32.memory_bytes < 0.95 * sharded.memory_bytes
           else "it saves memory")
put_to_the_test(f"""
- Sharding everything over all ranks is the way to train with little memory | common advice |
  {verdict} | FSDP2 needed {sharded.memory_bytes / 1e6:.1f} MB where plain data parallel needed
  {plain.memory_bytes / 1e6:.1f}, and your recipe, in float32 as well,
  {in_float32.memory_bytes / 1e6:.1f}. Over a card FSDP2 sent {sharded.card_bytes / 1e6:.1f} MB in
  each step ({1.5 * over_card / 1e6:.1f} by its formula, without Gloo's reduce-scatter), and your
  recipe {in_float32.card_bytes / 1e6:.2f} (section 5, table)
- With a checkpoint, a training survives failures | common advice | needed, and not enough |
  it also took timeouts in every group, a second recipe, and files that fit both (section 6)
""")

# %% [markdown]
# **Sources.** Narayanan et al. 2021, *Efficient Large-Scale Language Model Training on GPU
# Clusters Using Megatron-LM* ([arXiv](https://arxiv.org/abs/2104.04473)), for which axis goes
# where. Lian et al. 2024, *Universal Checkpointing* ([arXiv](https://arxiv.org/abs/2406.18820)),
# for checkpoints that fit any plan.

# %% [markdown]
# ## What you have learnt
#
# * **The slow link decides** which axis lies across it: gradients are as large as the model,
#   activations as large as the batch.
# * Limits of **memory**, **bytes** and **time** have different remedies. What helps one limit often
#   costs another one.
# * With **addresses**, a checkpoint belongs to the model, and not to the ranks that saved it.
# * A model in parts survives if all ranks go **back together**, and if another recipe is ready for
#   the ranks that are left.
#
# **Your exercises** stand in a cell above, in [labs/capstone_state.py](../labs/capstone_state.py),
# and in [labs/capstone_chaos.py](../labs/capstone_chaos.py).
#
# **Next**: {{next}}.

# %%
progress("11")
