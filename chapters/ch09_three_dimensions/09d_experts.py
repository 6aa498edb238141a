# %% [markdown]
# # {{title}}
#
# **How does a model get several times as large, for about the same computing?** Each MLP is
# replaced by many, and each token goes through few of them. Here you build such a layer on one
# process, train it, and see what goes wrong if nobody keeps it in balance. Part 09e spreads it over
# ranks.

# %% [markdown]
# ![Heat maps of the load of eight experts over 150 steps: without balancing two experts get most of
# the letters, with a balancing loss or a bias all get about the
# same](../assets/covers/09d_experts.png)
#
# *Measured in section 3: which share of the letters each expert gets, in three trainings of one
# small model. Without balancing, half of the experts are hardly used.*
#
# **After this part you can** write a router, say how large a mixture of experts is and how much of
# it a token meets, keep a router's scores small, balance the experts in two ways, and say what a
# capacity costs.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch

from pedagogy_lib import (
    Table, check, hint, lab, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
n_experts = 8
steps = 150

# %% [markdown]
# ## 1 · More parameters, as much to compute
#
# A larger model learns more, and costs more: each token goes through all of its parameters. A
# **mixture of experts** cuts this link. In the place of one MLP there are $n$ of them, the
# **experts**. A small linear layer, the **router**, gives each token a score for each expert. The
# token goes through the $k$ experts with the best scores. The Switch Transformer has $k = 1$,
# GShard and Mixtral have $k = 2$ (sources below). Many newer models choose 4 to 8 of a hundred or
# more.
#
# One of our sources calls the parallelism of experts "MoE: expert parallel + DP". Before it is
# parallel, it is a layer. So what does such a layer cost?

# %% [markdown]
# ### Exercise {{expert_parameters}} · Total and active parameters
#
# Write `expert_parameters(rest, layers, width, hidden, n, k)`. It returns two whole numbers: how
# many parameters the model has, and how many of them one token meets.
#
# * `rest` is the number of all parameters that are neither of an expert nor of a router:
#   embeddings, attention, norms. Every token meets them.
# * Each of `layers` layers has `n` experts and a router. A token goes through `k` of the experts.
# * An expert is an MLP as in the Llama family: three matrices, two of them width × hidden, one
#   hidden × width. The router is a matrix width × n. Nothing has a bias.

# %% [markdown]
# For example, with `rest` 100, one layer, width 4, hidden 8, 3 experts and 1 for each token: an
# expert has 96 parameters and the router 12. So the model has 400, and a token meets 208.

# %%
def expert_parameters(rest, layers, width, hidden, n, k):
    ### BEGIN SOLUTION
    expert, router = 3 * width * hidden, width * n
    return rest + layers * (router + n * expert), rest + layers * (router + k * expert)
    ### END SOLUTION

check("{{expert_parameters}}", expert_parameters)

# %% [markdown]
# The model Mixtral 8x7B has 32 layers of 8 experts, width 4,096, hidden 14,336; a token goes
# through 2 experts. Its attention, embeddings and norms have 1,604,587,520 parameters. (These sizes
# are those of [its
# configuration](https://huggingface.co/mistralai/Mixtral-8x7B-v0.1/blob/main/config.json); the
# number follows as in exercise {{llama_parameters}}.)

# %%
mixtral = predict("Parameters of Mixtral 8x7B, in all", unit="billion")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and all its matrices counted: made on a device without memory.
rest, layers, width, hidden, n, k = 1_604_587_520, 32, 4096, 14336, 8, 2
whole, used = (rest + layers * (width * n + of * 3 * width * hidden) for of in (n, k))
with torch.device("meta"):
    attention = 2 * [(width, width)] + 2 * [(width, width // 4), (width,)]  # and two norms
    experts_and_router = n * [(width, hidden), (width, hidden), (hidden, width)] + [(width, n)]
    ends = 2 * [(32_000, width)] + [(width,)]
    shapes = ends + layers * (attention + experts_and_router)
    counted = sum(torch.empty(shape).numel() for shape in shapes)
print(f"{whole / 1e9:.1f} billion in all; a token meets {used / 1e9:.1f} billion")
mixtral.compare(whole / 1e9, counted / 1e9, kind="parameters")

# %% [markdown]
# It is not 8 · 7 = 56 billion, because only the MLPs exist eight times. A token meets few of these
# parameters, but all of them need memory. Experts save time, not memory, and that is why they are
# spread over ranks. Newer models have more and smaller experts (parameters in billions; section 5
# explains shared experts):
#
# | model | parameters | a token meets | experts | chosen | shared |
# |---|---|---|---|---|---|
# | [DeepSeek-V3](https://github.com/deepseek-ai/DeepSeek-V3/blob/main/inference/configs/config_671B.json) | 671 | 37 | 256 | 8 | 1 |
# | [Kimi K2](https://github.com/MoonshotAI/Kimi-K2) | 1,000 | 32 | 384 | 8 | 1 |
# | [Qwen3-235B-A22B](https://arxiv.org/abs/2505.09388) | 235 | 22 | 128 | 8 | 0 |
# | [gpt-oss-120b](https://github.com/openai/gpt-oss/blob/main/gpt_oss/torch/model.py) | 117 | 5.1 | 128 | 4 | 0 |
#
# Experts are counted in what the links lead to, and parameters are as the authors give them (those
# of DeepSeek-V3 in its [report](https://arxiv.org/abs/2412.19437), those of gpt-oss in its
# [README](https://github.com/openai/gpt-oss)). A token of these models meets 3 to 9 % of them.

# %% [markdown]
# ## 2 · The router
#
# Each token has a score for each expert. The softmax of its scores says how much an expert would
# count. What goes into the sum is *probability × expert's output*, for the chosen experts only.
#
# The choice itself has no gradient: the number of an expert cannot change by a little. So from the
# task's loss the router learns through these probabilities alone.

# %% [markdown]
# ### Exercise {{route}} · Route tokens to experts
#
# Write `route(scores, k, bias=None)` in [labs/experts.py](../labs/experts.py).
#
# * `scores` has the shape (tokens, experts). It returns two tensors of shape (tokens, k): the
#   weights, and the numbers of the experts, for each token the one with the largest score (and
#   bias) first.
# * A weight is the softmax of the token's scores over **all** experts, at the chosen one.
# * `bias` is a tensor with one number for each expert, or None. It is added to the scores where
#   experts are *chosen*, and changes no weight. (Section 3 needs it.)

# %% [markdown]
# For example, a token has the scores [0, ln 3, ln 6], so its probabilities are 0.1, 0.3, 0.6. With
# `k=2` it gets the weights [0.6, 0.3] and the experts [2, 1]. With a bias of [5, 0, 0] it gets
# [0.1, 0.6] and [0, 2].

# %%
check("{{route}}")

# %% [markdown]
# The softmax is over all experts here, as in the [Switch
# Transformer](https://arxiv.org/abs/2101.03961). Mixtral takes it over the chosen ones alone. That
# is the same as dividing each weight by the sum of the chosen ones. What if there is one chosen
# expert?

# %%
experts = lab("experts")
scores = torch.randn(64, n_experts, generator=torch.Generator().manual_seed(0)).requires_grad_()
outputs = torch.randn(64, generator=torch.Generator().manual_seed(1))  # of the chosen experts

for k in (1, 2):
    for name in ("over all experts", "over the chosen ones"):
        weights, _ = experts.route(scores, k)
        if name == "over the chosen ones":
            weights = weights / weights.sum(-1, keepdim=True)
        (gradient,) = torch.autograd.grad((weights[:, 0] * outputs).sum(), scores)
        print(f"k = {k}, softmax {name}: largest gradient of a score {gradient.abs().max():.3f}")

# %% [markdown]
# With $k=1$, a softmax over the one chosen expert is always 1. Its gradient is 0, and from the
# task's loss the router never learns.

# %% [markdown]
# ### A loss that keeps scores small
#
# Add the same number to all scores of a token: its probabilities stay as they are. So the task's
# loss does not care how large scores become. Rounding does. A number in bfloat16 has 8 bits, so
# neighbours of 100 are 0.5 apart, and exp turns this distance into a factor of 1.6. Here are random
# scores, the same ones plus 10, 100 and 1,000:

# %%
exact = torch.randn(4096, n_experts, generator=torch.Generator().manual_seed(2))
rows = []
for shift in (0, 10, 100, 1000):
    rounded = (exact + shift).bfloat16().float()
    weight, expert = experts.route(exact, 1)
    change = (rounded.softmax(-1).gather(-1, expert) / weight - 1).abs().mean()
    moved = (experts.route(rounded, 1)[1] != expert).float().mean()
    rows.append([shift, f"{change:.1%}", f"{moved:.1%}"])
Table(["added to all scores", "weight changes by, mean", "tokens with another expert"], rows)

# %% [markdown]
# Two remedies go together. The router computes in float32, as the lab's layer does, even if tokens
# and weights have 16 bits: to convert its *scores* would be too late. And the **router z-loss** of
# [ST-MoE](https://arxiv.org/abs/2202.08906) pulls on the size of the scores: for each token take
# the logarithm of the softmax's denominator,
#
# $$z = \log \sum_e \exp(\mathrm{score}_e),$$
#
# and add the mean of $z^2$ over all tokens to the loss, with a small weight. A shift of the scores
# by a number moves $z$ by the same number, so the loss pulls $z$ to 0 from either side.

# %% [markdown]
# ### Exercise {{router_z_loss}} · Router z-loss over all ranks' tokens
#
# Write `router_z_loss(scores, group=None)` in [labs/experts.py](../labs/experts.py). `scores` has
# the shape (tokens, n), and it returns a tensor with one number, the mean of $z^2$. With a `group`,
# ranks may have different numbers of tokens, and some none. After the backward, gradients are
# averaged over its ranks. So return the number whose *mean over the ranks* is the mean over the
# tokens of all of them. It may cost one all-reduce of one number, which is exact. The loss keeps
# the scores' dtype.
#
# For example, rank 0 has one token with $z = 2$, and rank 1 has three with $z = 0$. The mean over
# the tokens is 1, so rank 0 returns 2 and rank 1 returns 0.

# %%
check("{{router_z_loss}}")

# %% [markdown]
# ## 3 · Some get everything
#
# The model below is the small transformer of chapter 03, with 8 experts for each MLP and $k=1$. It
# reads the standard library's source, letter by letter: here a letter is a token. We count how many
# letters each expert of the first layer gets in each step.

# %%
text = experts.standard_library()

def train_experts(model=None, **how):
    """A model, its losses in training, and the loads of its first layer: (steps, experts)."""
    model = model or experts.make_expert_transformer(n_experts)
    losses, loads = experts.train(model, text, steps, **how)
    return model, losses, loads[:, 0]

alone = train_experts()

# %% [markdown]
# If the router chose evenly, each of the eight experts would get 12.5 % of the letters.

# %%
busiest = predict("Share of the letters that the busiest expert gets in the end", unit="%")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, an equal share as theory, and what was measured.
def shares_in_the_end(loads):
    return 100 * loads[-20:].sum(0) / loads[-20:].sum()

busiest.compare(100 / n_experts, shares_in_the_end(alone[2]).max().item(), kind="forward")

# %% [markdown]
# An expert that gets more letters learns from more letters. It becomes better, so that the router
# likes it even more. Experts that get none never learn. In this training few experts do nearly all
# the work, and the memory of the others is wasted. How large the busiest share is differs from seed
# to seed, and from layer to layer.

# %% [markdown]
# ### A loss that punishes
#
# The first remedy is one more term in the loss. For each expert take two factors: the share $f_e$
# of all choices that fell on expert $e$, and the mean $p_e$ of its probability over the tokens. The
# term is
#
# $$n \sum_e f_e \, p_e.$$
#
# It is 1 if all experts get the same, and near $n/k$ if every token chooses the same expert with
# nearly all of its probability. (It can fall below 1: choices and probabilities need not agree.)
# $f_e$ is counted, so it has no gradient. $p_e$ has one, and it pushes hardest on the experts that
# have most.

# %% [markdown]
# ### Exercise {{balancing_loss}} · The balancing loss
#
# Write `balancing_loss(scores, experts, group=None)` in [labs/experts.py](../labs/experts.py).
#
# * `scores`: (tokens, n); `experts`: (tokens, k), the chosen experts. It returns a tensor with one
#   number.
# * With a `group`, $f_e$ is the share among the choices of all its ranks, which have equally many
#   tokens. $p_e$ stays the mean over this rank's tokens. It may cost one all-reduce of n numbers.
# * Without a group, nobody communicates.
#
# For example, with two experts, four tokens, and $k=1$: three tokens chose expert 0, so $f$ is
# [0.75, 0.25]. If $p$ is [0.6, 0.4], the loss is $2 (0.75 \times 0.6 + 0.25 \times 0.4) = 1.1$.
# `load_of(experts, n)` of the lab counts.

# %%
check("{{balancing_loss}}")

# %% [markdown]
# ### Exercise {{moved_bias}} · Update the routing bias
#
# The second remedy, [from DeepSeek](https://arxiv.org/abs/2408.15664), leaves the loss alone. Each
# expert has a **bias**, added to its score where experts are chosen. It goes down after a step in
# which the expert was busy, and up after one in which it was idle.
#
# Write `moved_bias(bias, loads, rate)` in [labs/experts.py](../labs/experts.py). `bias` has one
# number per expert, `loads` the whole numbers of choices. It returns a new tensor: `rate` less for
# each expert that had more than the mean, `rate` more for each that had less, and the same for one
# that had exactly the mean. With a bias of [0, 0, 0], loads [6, 3, 0] and a rate of 0.1 it is
# [-0.1, 0, 0.1].

# %%
check("{{moved_bias}}")

# %% [markdown]
# Now all three trainings, with the same weights at the start and the same batches:

# %% tags=["cover", "nbval-ignore-output"]
trainings = {"no balancing": alone, "balancing loss": train_experts(weight=0.1),
             "router's bias": train_experts(rate=0.01)}
lab("expert_loads").plot_loads(
    {name: loads for name, (*_, loads) in trainings.items()},
    title=f"Load of the {n_experts} experts of the first layer",
)

# %% tags=["nbval-ignore-output"]
shares = {name: 100 * loads / loads.sum(1, keepdim=True) for name, (*_, loads) in trainings.items()}
Table(["training", "busiest, over 20 steps", "idlest", "busiest in a step, mean", "loss"],
      [[name, f"{shares_in_the_end(loads).max():.0f} %", f"{shares_in_the_end(loads).min():.0f} %",
        f"{shares[name][-20:].amax(1).mean():.0f} %",
        f"{sum(losses[-20:]) / 20:.2f}"] for name, (_, losses, loads) in trainings.items()])

# %% [markdown]
# All numbers are of the last 20 steps. Both remedies spread the letters, on average. In each single
# step some expert still gets more than its eighth. The bias needs many steps until the picture
# shows it: it moves by 0.01 a step, and has to overtake the differences of the scores.
#
# The losses have one seed each, and no weight was tuned: they do not say whether balance helps the
# *model*. It does help the *machines*: the busiest rank decides how long a step takes. Part 09e
# measures that.

# %% [markdown]
# **In engines.** DeepSeek-V3 adds its bias to sigmoids of the scores, moves it by 0.001 in most of
# its training, and keeps a small balancing loss as well, says [its
# report](https://arxiv.org/abs/2412.19437). Loads may be counted over a micro-batch, a sequence, or
# all ranks: Megatron-LM has an option for each. Ours counts over all ranks.

# %% [markdown]
# And the z-loss? One more training has both losses. $z^2$ is that of the last step:

# %% tags=["nbval-ignore-output"]
with_z = train_experts(weight=0.1, z_weight=0.01)
models = {"balancing loss": trainings["balancing loss"], "balancing and z-loss": with_z}
scores_of = {name: experts.expert_layers(model)[0].scores for name, (model, *_) in models.items()}
Table(["training", "mean z²", "largest score", "loss"],
      [[name, f"{experts.router_z_loss(of):.2f}", f"{of.max():.1f}",
        f"{sum(models[name][1][-20:]) / 20:.2f}"] for name, of in scores_of.items()])

# %% [markdown]
# Eight equal scores of 0 have $z = \log 8$, so $z^2$ begins near $\log^2 8 = 4.3$. The z-loss pulls
# it to 0, and no score is larger than its token's $z$. A score far *below* 0 does no harm: its
# probability is nearly 0, however it is rounded.
#
# After so few steps these scores are too small for bfloat16 to hurt, with or without the z-loss,
# and one seed's losses decide nothing. It is an insurance for long trainings: that it keeps them
# from diverging is what the paper says, and was not measured here.

# %% [markdown]
# ### What do they know?
#
# Which letters go to which expert? The table shows, for each expert of the model with the balancing
# loss, the letters that it gets most often. The text is one that the model was trained on.

# %% tags=["nbval-ignore-output"]
def favourites(model, samples=32, most=6):
    letters, _ = experts.draw_batch(text, samples, 0)
    model(letters)
    chosen, rows = experts.expert_layers(model)[0].experts[:, 0], []
    for expert in range(n_experts):
        counts = letters.flatten()[chosen == expert].bincount(minlength=128)
        best = counts.argsort(descending=True)[:most]
        told = " ".join(repr(chr(c)) for c in best.tolist() if counts[c])
        rows.append([expert, f"{counts.sum() / letters.numel():.0%}", told])
    return Table(["expert", "gets", "most often"], rows)

favourites(trainings["balancing loss"][0])

# %% [markdown]
# Most letters have one expert that gets most of them, though a frequent letter may go to several:
# what came before it counts as well. The word *expert* promises more than that. In Mixtral, too,
# experts were found to divide by syntax more than by topic: see section 5 of [its
# paper](https://arxiv.org/abs/2401.04088).

# %% [markdown]
# ## 4 · Capacity
#
# A batch of fixed shapes is easier for a machine than one whose shapes change in each step. So many
# systems give each expert room for a fixed number of tokens, its **capacity**. The **capacity
# factor** says how much room that is: 1.0 is what an expert gets if all get the same, rounded up. A
# choice that finds no room is **dropped**: this expert adds nothing for the token, and the residual
# connection carries the token on. What does that cost? After the exercise we train four times with
# a capacity.

# %% [markdown]
# ### Exercise {{kept}} · Drop choices beyond the capacity
#
# Write `kept(experts, n, capacity)` in [labs/experts.py](../labs/experts.py). `experts` has the
# shape (tokens, k): each row holds the token's choices, the best first. Each of `n` experts takes
# `capacity` choices at most. All first choices come before all second ones, and so on. Among these,
# earlier tokens come first. Return a tensor of bool of the same shape: which choices fit.
#
# For example, two experts have room for two each. Tokens 0 and 1 choose [0, 1], token 2 chooses
# [1, 0]. The first choices all fit: expert 0 has two then, and expert 1 has one. Of the second
# choices, token 0 gets the last place at expert 1. The result is [[True, True], [True, False],
# [True, False]].

# %%
check("{{kept}}")

# %%
dropped = predict("Share of the choices that are dropped, without balancing, with factor 1",
                  unit="%")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# What is dropped with a capacity; your prediction, theory, and what was measured.
def train_with_capacity(capacity, **how):
    """In the last 20 steps: which share of the choices is dropped (%), the loss, and the loads."""
    model = experts.make_expert_transformer(n_experts, capacity=capacity)
    layer, lost = experts.expert_layers(model)[0], []
    layer.register_forward_hook(lambda layer, *_: lost.append(1 - layer.fits.float().mean()))
    _, losses, loads = train_experts(model, **how)
    return 100 * sum(lost[-20:]).item() / 20, sum(losses[-20:]) / 20, loads[-20:]

rows = {(name, factor): train_with_capacity(factor, weight=weight) for factor in (1.0, 2.0)
        for name, weight in (("no balancing", 0.0), ("balancing loss", 0.1))}
# An expert that is chosen more often than its share keeps just that share.
of_step = rows["no balancing", 1.0][2].double()
of_step = 100 * of_step / of_step.sum(1, keepdim=True)
computed = (of_step - 100 / n_experts).clamp(min=0).sum(1).mean().item()
dropped.compare(computed, rows["no balancing", 1.0][0], kind="forward")

# %% tags=["nbval-ignore-output"]
Table(["balance", "capacity factor", "dropped, first layer", "loss, mean of the last 20 steps"],
      [["no balancing", "none", "0 %", f"{sum(alone[1][-20:]) / 20:.2f}"],
       *([balance, factor, f"{lost:.0f} %", f"{loss:.2f}"]
         for (balance, factor), (lost, loss, _) in rows.items())])

# %% [markdown]
# A dropped letter goes through no MLP in this layer, so expect a higher loss where many are
# dropped. (With one seed each, small differences say nothing.) Fewer letters are dropped than the
# loads of the training without a capacity suggest. One reason: a dropped choice gives the router no
# gradient, so the router has less cause to like the busiest expert even more.

# %% [markdown]
# With balancing, a capacity factor of 2 drops next to nothing. But it also reserves twice the room,
# and where shapes are fixed, the work on empty places is wasted. Systems *without* capacity compute
# what comes, with uneven shapes. Part 09e does that.
#
# Our rule of who gets a place first is that of GShard and Switch. Megatron-LM drops nothing unless
# you tell it to. Then it drops the choices with the lowest probabilities.

# %% [markdown]
# ## 5 · A shared expert
#
# Some models have one more MLP in each layer, and **all** tokens go through it, in addition to the
# chosen experts. The idea is that this **shared expert** learns what every token needs, so that no
# other expert has to. The lab has it as `shared=True`, and DeepSeek's models use it. It costs as
# much memory as one more expert, and each token meets one more: to keep a token's FLOPs as they
# were, such models make all experts narrower. Whether a shared expert makes a model better was not
# measured here.

# %% [markdown]
# ## Put to the test
#
# What a source says about this, beside what this notebook has found.

# %% jupyter={"source_hidden": true}
put_to_the_test(f"""
- Mixture of experts: training sparse models | web page | right for time, not for memory | a token
  meets {used / whole:.0%} of Mixtral's parameters (section 1); all of them have to be stored, and
  in a training all of them get a gradient and an optimizer's state
""")

# %% [markdown]
# **Sources.** Fedus et al. 2021, *Switch Transformers* ([arXiv](https://arxiv.org/abs/2101.03961)).
# Lepikhin et al. 2020, *GShard* ([arXiv](https://arxiv.org/abs/2006.16668)). Jiang et al. 2024,
# *Mixtral of Experts* ([arXiv](https://arxiv.org/abs/2401.04088)). Wang et al. 2024,
# *Auxiliary-Loss-Free Load Balancing* ([arXiv](https://arxiv.org/abs/2408.15664)). Zoph et al.
# 2022, *ST-MoE* ([arXiv](https://arxiv.org/abs/2202.08906)).

# %% [markdown]
# ## What you have learnt
#
# * A **mixture of experts** has $n$ MLPs in a layer, and a token goes through $k$ of them. Time
#   goes with $k$, memory with $n$.
# * The **router** learns through the weights alone. If nobody keeps balance, few experts get nearly
#   everything. A **z-loss** keeps its scores small; over ranks it is a mean over all tokens.
# * A **balancing loss** pulls on the router's probabilities. A **bias** changes who is chosen, and
#   no weight.
# * A **capacity** makes shapes fixed, and drops what finds no room.
#
# **Your exercises** stand in [labs/experts.py](../labs/experts.py), and one in a cell above.
#
# **Next**: {{next}}.

# %%
progress("09d")
