# %% [markdown]
# # {{title}}
#
# **All schedules so far end each batch with a flush: everybody waits until the last gradient is
# there, then all weights change at once. What if nobody ever waits?** PipeDream does that. The
# bubble is gone. But now a gradient comes back to weights that have changed in the meantime. You
# build such a pipeline, and find out how late the gradients are, and whether that hurts.

# %% [markdown]
# ![Training loss over micro-batches for two learning rates, four ways, several seeds. Updating for
# every group of micro-batches with late gradients ends
# highest](../assets/covers/08h_never_wait.png)
#
# *Measured in section 3: the same model, late and on time. Dots are medians of several seeds, bars
# their range.*
#
# **After this part you can** say how late the gradients of each stage are, stash weights, and tell
# an effect of late gradients from the luck of a seed.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch

from pedagogy_lib import (
    Table, check, hint, lab, launch, plot_schedule, plot_spreads, predict, progress,
    put_to_the_test, simulate,
)

# %% tags=["parameters"]
world_size = 4
seeds = 4

# %%
schedules, pipedream = lab("schedules"), lab("pipedream")
late_gradients, language_model = lab("late_gradients"), lab("language_model")
text, p = language_model.standard_library(100_000), world_size

# %% [markdown]
# ## 1 · Without a flush
#
# The bubble stands at both ends of a batch. So make no ends: each micro-batch is a batch of its
# own, and 1F1B goes on for ever. After each backward, a stage changes its weights at once. Here are
# 10 micro-batches; in a training there would be no right end.

# %%
rows = schedules.rows_of(schedules.one_f_one_b, p, 10)
plot_schedule({"1F1B, 10 micro-batches": simulate(rows)})

# %% [markdown]
# Count updates in this picture. Each backward of a rank ends with an update, and makes the next
# version of its weights: version 1, version 2, and so on. Find the forward of micro-batch 5 on rank
# 0. Which version does it use? Then find its *backward* on rank 0. Updates between the two make its
# gradient **late**. How many updates come between them?

# %%
late = predict(f"Micro-batch 5 on rank 0, {p} stages: its gradient is late by", unit="updates")

# %%
def updates_before(row, kind, i):
    """How many backwards a rank has done when it begins this action."""
    so_far = row[:row.index(schedules.Action(kind, i))]
    return sum(action.kind == "B" for action in so_far)

versions = [[updates_before(row, kind, 5) for kind in "FB"] for row in rows]
Table(["rank", "forward 5 uses version", "backward 5 changes version", "late by"],
      [[str(rank), str(forth), str(back), str(back - forth)]
       for rank, (forth, back) in enumerate(versions)])

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was counted.
late.compare(p - 1, versions[0][1] - versions[0][0], kind="gradients", wire="counted")

# %% [markdown]
# Rank $s$ of $p$ is $p - 1 - s$ updates late. The last rank is always on time.
#
# Two things follow. The second one is worse:
#
# * A gradient is *old*: computed at weights of some updates ago. The optimizer uses it anyway.
# * A gradient may be *no gradient at all*. A backward multiplies by the weights (the half `I` of
#   08e). If these are not the weights of the forward, the result belongs to no model.

# %% [markdown]
# ## 2 · Weight stashing
#
# PipeDream prevents the second problem. Each stage keeps, for each micro-batch under way, the
# weights that its forward has used. The backward goes through the very same weights. This is
# **weight stashing**.

# %% [markdown]
# ### Exercise {{stashing_stage}} · Stash weights for the backward
#
# In [labs/pipedream.py](../labs/pipedream.py), a `StashingStage` is a stage with versions. Versions
# are dictionaries `{name: tensor}` that never change: `update`, which is written, makes a new one.
# Fill the two holes:
#
# * In `forward(i, x, then)`: note `weights`, the version of micro-batch `i`, in `self.stash[i]`
#   (the dictionary itself, no copy). Make `x` a leaf, which requires a gradient unless it is
#   tokens. Compute `y = then(piece(x))` with these weights: `functional_call(self.piece, weights,
#   (x,))` is `self.piece(x)` with other weights. The lines below the hole keep `x` and `y`.
# * `gradients_of(i)` is called after the backward of micro-batch `i`. Return its gradients, `{name:
#   tensor}`. Take `i` out of the stash, and set `.grad` of these weights to `None`: another
#   micro-batch may go through the same tensors next, and must not find old gradients there.

# %% [markdown]
# For example, a stage with one weight $w = 2$, $y = w x$ and a learning rate of 0.1. Micro-batches
# 0 ($x = 1$) and 1 ($x = 3$) go forward through version 0. The gradient of $y$ is 1 for both.
# Backward 0 finds the gradient 1, and version 1 is $w = 1.9$. Backward 1 goes through *version 0*:
# the gradient of $w$ is 3 (not 1 + 3), and that of $x$ is 2 (not 1.9). It changes the newest
# version: $w = 1.9 - 0.3 = 1.6$.

# %%
check("{{stashing_stage}}")

# %% [markdown]
# A second way is **PipeDream-2BW**. It makes one update for every $p$ micro-batches. A micro-batch
# goes through the version *before* the newest one. So every gradient, on every rank, is late by
# exactly one update, and two versions are enough: $w_{t+1} = w_t - \eta\,\nabla L(w_{t-1})$, where
# $\eta$ is the learning rate. Both on real ranks:

# %%
for way in ("stashing", "two versions"):
    run = launch(pipedream.program, way, text, 10 * p, world_size=p)
    print(way, "| late by", [delay for _, delay, _ in run.values], "updates | versions kept",
          [kept for *_, kept in run.values])

# %% [markdown]
# Stashing keeps $p - s$ versions on rank $s$. So rank 0 has $p$ copies of its weights, one for each
# micro-batch under way.
#
# ## 3 · Does it hurt?
#
# Late gradients change the training. By how much? Each way is trained late, on $p$ ranks, and on
# time, on one rank. One seed would tell nothing: another start or other batches may change more
# than the delay does. So each training has several seeds, which change both. Two learning rates:

# %% tags=["nbval-ignore-output"]
rates = [0.1, 0.3]
found = late_gradients.all_trainings(p, text, 50, rates, seeds, p)

# %% tags=["cover", "nbval-ignore-output"]
panels = {f"learning rate {lr:g}": late_gradients.average_losses(found, lr) for lr in rates}
plot_spreads(panels, "micro-batches", "loss", title=f"SGD, {p} stages, {seeds} seeds")

# %% tags=["nbval-ignore-output"]
Table(["updates", *(f"loss at the end, rate {lr:g}" for lr in rates)],
      late_gradients.rows(found, rates))

# %% [markdown]
# (The median of the seeds, and in brackets their range; the mean of the last 20 micro-batches.) Now
# compare late and on time *seed by seed*, with the same start and the same batches:

# %% tags=["nbval-ignore-output"]
pairs = {"each": ("each, late", "each, on time"),
         f"every {p}": (f"every {p}, late", f"every {p}, on time")}
for name, (slow, quick) in pairs.items():
    for lr in rates:
        told = late_gradients.compare_losses(found, slow, quick, lr)
        print(f"update for {name}, rate {lr:g}: late is {told}:\n   ",
              late_gradients.verdict(found, slow, quick, lr, p))

# %% [markdown]
# Read these lines before you believe a curve. Where late is higher with some seeds and lower with
# others, so few seeds cannot tell. A late training is also behind, by up to $p$ micro-batches,
# while the loss still falls. So the lines compare it with the other as it was $p$ micro-batches
# earlier, too. An update for $p$ micro-batches is larger, and a delay by one of *these* is a delay
# by $p$ micro-batches, on all ranks. (Part 03h has found the same for a parameter server: with old
# gradients, only smaller learning rates work.) What holds for 50 micro-batches of a toy need not
# hold for a long training.

# %% [markdown]
# ### Exercise {{in_place_stage}} · Debug an in-place weight update
#
# A new tensor for each version takes memory, somebody thought, and changed the weights in place.
# There is no error. But compare the weights after some updates with those of `StashingStage`:

# %%
class InPlaceStage(pipedream.StashingStage):
    def update(self, gradients):
        weights = self.weights.pop(self.version)
        self.version += 1
        ### BEGIN SOLUTION
        self.weights[self.version] = {
            name: (weight.detach() - self.lr * gradients[name]).requires_grad_()
            for name, weight in weights.items()
        }
        ### IT WAS
        # for name, weight in weights.items():
        #     weight.data -= self.lr * gradients[name]
        # self.weights[self.version] = weights
        ### END SOLUTION

# %%
def weights_after(kind):
    """A stage with w = 2 and y = w x: forwards of 0 and 1, then both backwards."""
    piece = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.constant_(piece.weight, 2.0)
    stage = kind(piece, lr=0.1)
    for i, x in enumerate((1.0, 3.0)):
        stage.forward(i, torch.tensor([[x]]))
    inputs = [stage.backward(i, torch.ones(1, 1)).item() for i in (0, 1)]
    return {"w": round(stage.weights[2]["weight"].item(), 4), "gradients of x": inputs}

for kind in (pipedream.StashingStage, InPlaceStage):
    print(f"{kind.__name__:14}", weights_after(kind))

# %% [markdown]
# Mend `update`. Micro-batches under way have to go back through the weights that they went forward
# through. Weights, delays and numbers of versions have to be those of `StashingStage`: an old
# version leaves `self.weights`, and `self.version` counts the updates. In the example above, the
# gradients of $x$ are 2 and 2.

# %%
check("{{in_place_stage}}", InPlaceStage)

# %% [markdown]
# Without `.data`, autograd would have raised an error. It counts the changes of each tensor that a
# backward needs. `.data` hides them.
#
# **On GPUs.** Large language models are trained with a flush, as far as their reports say: Llama 3
# with an interleaved schedule, DeepSeek-V3 with DualPipe. Two reasons are likely: extra versions of
# the weights need memory, and without a flush the training is no longer that of one GPU. PyTorch
# 2.13's `torch.distributed.pipelining` has no schedule without a flush.

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true}
# Statements of the sources, and what was found.
stashed = launch(pipedream.program, "stashing", text, 10 * p, world_size=p).values
delays = [delay for _, delay, _ in stashed]
put_to_the_test(f"""
- [C184] The pictures of a pipeline are PipeDream's; 1F1B is from 2006.09503 | CS 229S, “Model
  Parallelism” and “Pipeline Parallelism” | {"imprecise" if delays[0] > 0 else "right"} | PipeDream
  has no flush: on ranks 0 to {p - 1} its gradients are {delays} updates late (section 2, run). The
  order 1F1B is PipeDream's, too (its paper). With a flush it is in 2006.09503 | measured: nothing,
  since how late a gradient is follows from the order of actions
""")

# %% [markdown]
# **Source.** *CS 229S, lecture 8* (Stanford).
#
# **To read on.** Harlap et al. 2018, [PipeDream](https://arxiv.org/abs/1806.03377), and Narayanan
# et al. 2019, [PipeDream: Generalized Pipeline
# Parallelism](https://deepakn94.github.io/assets/papers/pipedream-sosp19.pdf): weight stashing in
# its section 3.3. Narayanan et al. 2020, [Memory-Efficient Pipeline-Parallel DNN
# Training](https://arxiv.org/abs/2006.09503): PipeDream-2BW, and 1F1B with a flush.

# %% [markdown]
# ## What you have learnt
#
# * Without a flush there is no bubble. Rank $s$'s gradients are $p - 1 - s$ updates late.
# * **Weight stashing**: forward and backward of a micro-batch go through the same weights. It keeps
#   $p - s$ versions. PipeDream-2BW keeps two, and is late by one large update.
# * Whether a delay hurts is a question for several seeds, compared one by one.
# * `.data` hides changes from autograd, and with them a wrong gradient.
#
# **Your exercises**: {{stashing_stage}} stands in [labs/pipedream.py](../labs/pipedream.py), and {{in_place_stage}} in a cell.
#
# **Next**: {{next}}.

# %%
progress("08h")
