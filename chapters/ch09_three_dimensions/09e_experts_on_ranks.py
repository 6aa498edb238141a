# %% [markdown]
# # {{title}}
#
# **How do tokens get to experts that are on other ranks, and back?** You write the exchange and its
# backward, put it into the layer of part 09d, and compare it with one process. Then you measure
# what imbalance costs, hide the exchange behind the other half of the batch, and send rows in 8
# bits.

# %% [markdown]
# ![Squares of the bytes that each of four ranks sends to each other one: rank 0 gets most, and
# sends most back](../assets/covers/09e_experts_on_ranks.png)
#
# *Measured in section 4: what four ranks send each other if one of the four experts gets 70 % of
# the tokens.*
#
# **After this part you can** exchange rows between ranks in uneven numbers, forward and backward,
# say over which ranks an expert's gradient is averaged, find out which rank a step waits for, and
# overlap an exchange with computing.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
from statistics import median

import torch
import torch.distributed as dist

from pedagogy_lib import (
    HangError, Machines, Table, check, compare_rounds, explore, hint, lab, launch, plot_against,
    plot_timeline, plot_traffic, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
busiest_share = 0.7  # of the tokens, for one expert, in section 4
card_megabytes_per_second = 4.0  # in section 5

# %% [markdown]
# ## 1 · There and back
#
# A mixture of experts computes with few of its parameters, and has to store all of them (09d). So
# each rank keeps some of the experts. This is **expert parallelism**. Attention, norms and the
# router are copied to every rank, and each rank has samples of its own, as in data parallel.
#
# A token may choose any expert. Its rank sends the token's row of numbers to the rank that has the
# expert, and gets a row back. All ranks do that at the same time: it is an **all-to-all**. It is
# uneven, because the numbers of rows differ. There are two all-to-alls of rows in the forward, and
# two in the backward.

# %% [markdown]
# ### Exercise {{exchange_rows}} · Write a differentiable all-to-all
#
# Write `forward` and `backward` of the class `Exchange` in
# [labs/expert_parallel.py](../labs/expert_parallel.py). It is called as
# `Exchange.apply(x, send, receive, group)`.
#
# * `x` has a row for each choice of a token: (sum(send), …). `send` and `receive` are lists with a
#   number for each rank of the group. Rank r gets the next `send[r]` rows of `x`, and gives
#   `receive[r]` rows. Any of them may be 0.
# * `forward` returns what comes, in the order of the ranks. What the backward needs, it keeps in
#   `ctx`, as in chapter 07.
# * `backward` gets the gradient of that, and returns one value for each of the four arguments: the
#   gradient of `x`, and None for the rest.

# %% [markdown]
# For example, on two ranks: rank 0 has the rows a, b, c and sends [1, 2]; rank 1 has d and sends
# [1, 0]. Rank 0 then has a, d, and rank 1 has b, c. In the backward the gradients of b and c return
# to rank 0, and that of d to rank 1.
#
# `exchanged(x, send, receive, group)` of the lab makes one such all-to-all. Autograd does not see
# it. `forward` may make one call of it, and `backward` one.

# %%
check("{{exchange_rows}}")

# %% [markdown]
# ### Exercise {{by_expert}} · Sort rows by expert
#
# Rows arrive rank after rank, and those of a rank expert after expert. An expert needs all its rows
# side by side.
#
# Write `by_expert(counts)` in [labs/expert_parallel.py](../labs/expert_parallel.py). `counts` has
# the shape (ranks, experts): `counts[r, e]` rows came from rank r for expert e of this rank. It
# returns a tensor with the numbers of the rows, so that `x[by_expert(counts)]` is in the order of
# the experts. Rows of one expert stay in the order in which they came.
#
# For example, counts of [[2, 1], [1, 2]]: rows 0 and 1 came from rank 0 for expert 0, row 2 for
# expert 1, row 3 from rank 1 for expert 0. The result is [0, 1, 3, 2, 4, 5].

# %%
check("{{by_expert}}")

# %% [markdown]
# The lab's `RemoteExperts` puts the two together. It has the form of the `Experts` of 09d, so the
# layer around it does not know that its experts are elsewhere:
#
# ```
# all-to-all of counts:   how many rows will come, from whom, for which expert
# Exchange                the rows themselves
# by_expert, the MLPs     on the rank that has them
# Exchange                the results, back to the ranks of the tokens
# ```
#
# The first line is needed because nobody can receive rows without knowing how many.
#
# ## 2 · A rank with nothing to do
#
# ### Exercise {{through_my_experts}} · Debug a hang with idle experts
#
# Sometimes nobody needs the experts of some rank. Somebody saves the work then. The forward is
# right. But in the backward, this happens:

# %%
def skip_idle_experts(experts, rows, counts):
    if len(rows) == 0:
        return rows.new_zeros(rows.shape)  # there is nothing to compute
    return experts(rows, counts)

def train_with(expert_training, through_my_experts):
    """One forward and backward, in which all tokens choose the experts of rank 0."""
    layer = expert_training.layer_with_favourite(through_my_experts)
    x = torch.ones(3, 8, requires_grad=True)
    (x + layer(x)).sum().backward()  # added to what came in, as in a block

expert_training = lab("expert_training")
try:
    launch(train_with, expert_training, skip_idle_experts, world_size=2, device="cpu", timeout=3)
except HangError as error:
    print(error)

# %% [markdown]
# Mend the function. `experts` are the MLPs of this rank, called as `experts(rows, counts)`; `rows`
# has the shape (rows, width), with 0 rows or more; `counts` says how many of them each of these
# experts gets. It returns a tensor of the same shape as `rows`. After a backward, everything that
# went in has a gradient, on every rank: the rows, and all of the experts' weights.

# %%
def through_my_experts(experts, rows, counts):
    ### BEGIN SOLUTION
    return experts(rows, counts)
    ### IT WAS
    # if len(rows) == 0:
    #     return rows.new_zeros(rows.shape)  # there is nothing to compute
    # return experts(rows, counts)
    ### END SOLUTION

check("{{through_my_experts}}", through_my_experts)

# %% [markdown]
# `new_zeros` makes a tensor without a history. So on rank 1 autograd never came to
# `Exchange.backward`: it took only the path around the layer, through `x` in the sum. Rank 0 waited
# for rank 1's part of the exchange.
#
# All ranks have to make a collective call. A rank with nothing to send makes it as well, with empty
# tensors, forward and backward. A product of an empty tensor and a matrix costs next to nothing,
# and keeps the path of the gradients.

# %% [markdown]
# ## 3 · Experts and data parallel
#
# With many ranks there are several copies of each expert. The mesh has two axes: along **ep** ranks
# have different experts, and exchange rows. Along **edp** they have copies of the same experts. All
# ranks, along both, have samples of their own.
#
# What does the gradient lack after the backward?
#
# | parameter | on which ranks | what its gradient has | what it lacks |
# |---|---|---|---|
# | attention, norms, router | all | this rank's samples | the samples of all other ranks |
# | experts | along edp | all samples of its ep group | the samples of the other ep groups |

# %% [markdown]
# ### Exercise {{average_gradients_of_experts}} · Debug the averaging of expert gradients
#
# Somebody averages each parameter over the ranks that have it. On a mesh of edp 2 × ep 2, these are
# the gradients after one step, as multiples of those of one process with the same batch:

# %%
def average_over_those_who_have_it(parameters, mesh):
    for p in parameters:
        is_of_expert = getattr(p, "is_of_expert", False)
        group = mesh["edp"] if is_of_expert else mesh["edp", "ep"]
        dist.all_reduce(p.grad, group=group)
        p.grad /= dist.get_world_size(group)

experts = lab("experts")
text = experts.standard_library(100_000)
found = launch(expert_training.gradient_ratios, average_over_those_who_have_it,
               {"edp": 2, "ep": 2}, text, world_size=4, device="cpu").values[0]
Table(["gradient of", "multiple of one process's"],
      [[name, f"{ratio:.3f}"] for name, ratio in found.items()])

# %% [markdown]
# Mend it. `parameters` are this rank's, each with a gradient. Those of experts have an attribute
# `is_of_expert`. `mesh.sizes` has the sizes of the axes `"edp"` and `"ep"`, in any order.
# `mesh["edp"]`, `mesh["ep"]` and `mesh["edp", "ep"]`, all ranks, are this rank's groups. Afterwards
# each `p.grad` is that of the mean loss over all samples of all ranks. Every rank has equally many
# samples. The function returns nothing.
#
# For example, edp 1 × ep 2, and an expert on rank 0. Its gradient is 6: 2 by tokens of rank 0 and 4
# by tokens of rank 1. Each rank's loss is a mean, so the gradient of the mean over all is 3.

# %%
def average_gradients(parameters, mesh):
    ### BEGIN SOLUTION
    for p in parameters:
        is_of_expert = getattr(p, "is_of_expert", False)
        dist.all_reduce(p.grad, group=mesh["edp"] if is_of_expert else mesh["edp", "ep"])
        p.grad /= mesh.sizes["edp"] * mesh.sizes["ep"]
    ### IT WAS
    # for p in parameters:
    #     is_of_expert = getattr(p, "is_of_expert", False)
    #     group = mesh["edp"] if is_of_expert else mesh["edp", "ep"]
    #     dist.all_reduce(p.grad, group=group)
    #     p.grad /= dist.get_world_size(group)
    ### END SOLUTION

check("{{average_gradients_of_experts}}", average_gradients)

# %% [markdown]
# So experts' gradients are added up over fewer ranks than all other gradients, and divided by the
# same number. Adam hides such a mistake if its `eps` is small: it divides by the gradient's size,
# so a constant factor has no effect. With SGD, or with clipping by the global norm, the mistake
# changes the training.
#
# **In engines.** `fully_shard` on the edp axis averages over edp alone: it *has* this bug, unless
# you set another divisor. torchtitan does, with `set_gradient_divide_factor`.

# %% [markdown]
# ### The proof
#
# Each mesh below trains for three steps in float64, with the balancing loss and the bias of 09d.
# Each rank also trains the whole model alone, with the whole batch. With a capacity, one process
# drops what each rank would drop. Equal means that no weight and no gradient differs by more than
# $10^{-12}$ of the largest one, the router's included. A choice is a jump, though: if two scores
# were equal to the last digits, rounding could send a token elsewhere. In these steps that did not
# happen.

# %%
trainings = {
    "edp 2 × ep 2, 4 experts, 1 for each token": ({"edp": 2, "ep": 2}, {"n": 4}),
    "edp 1 × ep 4, 8 experts, 2 for each token": ({"edp": 1, "ep": 4}, {"n": 8, "k": 2}),
    "edp 4 × ep 1, 4 experts, 2 for each token": ({"edp": 4, "ep": 1}, {"n": 4, "k": 2}),
    "edp 2 × ep 2, capacity 1, and a shared one": (
        {"edp": 2, "ep": 2}, {"n": 4, "k": 2, "capacity": 1.0, "shared": True}),
    "edp 2 × ep 4, 8 experts, 2 for each token": ({"edp": 2, "ep": 4}, {"n": 8, "k": 2}),
}
for name, (sizes, model) in trainings.items():
    gaps = launch(expert_training.compare_with_one_process, sizes, model, text, device="cpu",
                  world_size=sizes["edp"] * sizes["ep"]).values
    print(f"{name}: equal to one process to 1e-12: {max(gap for *_, gap in gaps) < 1e-12}")

# %% [markdown]
# ## 4 · What imbalance costs
#
# A rank whose expert is popular computes more, and gets more bytes. All others wait for its
# results. Here four ranks have one expert each, and one expert gets a share of all tokens that we
# choose. Computing is emulated: each product takes as long as at 0.4 GFLOPS, whatever the cores do.

# %%
slower = predict(f"Time in the busiest expert: {busiest_share:.0%} of the tokens, beside 25%",
                 unit="times")

# %%
shares, flops = [0.25, 0.4, 0.55, 0.7, 0.85, 1.0], 4e8
runs = {share: launch(expert_training.unequal_load, share, flops, world_size=4, device="cpu")
        for share in sorted({*shares, busiest_share})}
times = {share: max(run["experts"].seconds) for share, run in runs.items()}

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
slower.compare(busiest_share / 0.25, times[busiest_share] / times[0.25], kind="forward")

# %% tags=["nbval-ignore-output"]
def milliseconds(label, of):
    return [1e3 * of(runs[share][label].seconds) for share in shares]

computed = [1e3 * 4 * 480 * share * 2 * 2 * 64 * 256 / flops for share in shares]
plot_against(shares, {"busiest expert": milliseconds("experts", max),
                      "idlest expert": milliseconds("experts", min),
                      "whole layer": milliseconds("layer", max)},
             "share of the tokens that one expert gets", "time of a forward (ms)",
             predicted={"busiest expert": computed}, title="Four ranks, an expert on each")

# %% [markdown]
# The layer takes as long as its busiest rank, and a little more for the exchange and for sorting.
# On a laptop, ranks also wait for cores. The theory for the busiest expert is the number of its
# tokens, times the FLOPs per token, divided by the speed. The other ranks wait in the all-to-all
# back, for the rows of the busy rank. In bytes, rows go from all ranks to rank 0, and as many come
# back:

# %% tags=["cover", "nbval-ignore-output"]
run = runs[busiest_share]
plot_traffic(run, "layer", title=f"One expert gets {busiest_share:.0%} of the tokens")

# %% [markdown]
# A rank sends the rows of its tokens to their experts, and the results of its own expert to their
# tokens. With $T$ tokens on each of $n$ ranks, $b$ bytes a row, and a share $s$ for expert 0, rank
# 0 sends $(1-s)\,T b$ there and $(n-1)\,s\,T b$ back. With equal shares, each rank sends
# $2\,\frac{n-1}{n} T b$. This holds for one expert a token. With $k$ of them it is $k$ times as
# much. The counts travel before the rows, 8 bytes for each expert, and every message has a header.

# %% tags=["nbval-ignore-output"]
def bytes_of_rank_0(share, tokens=480, n=4, row=64 * 4):
    favoured = round(share * tokens)
    counts = 8 * (n - 1)  # a count for each expert, an int64
    return (tokens - favoured) * row + (n - 1) * favoured * row + counts

Table(["share of expert 0", "rank 0 sends, theory", "measured"],
      [[f"{share:.0%}", f"{bytes_of_rank_0(share):,}", f"{runs[share]['layer'].sent_bytes[0]:,}"]
       for share in shares])

# %% [markdown]
# Imbalance costs memory as well: the busiest rank keeps the activations of all rows that it got, so
# it is the first to run out of memory. Balancing is one remedy. Another one is to give a popular
# expert to several ranks.
#
# Published throughputs may leave this cost out. In NVIDIA's table for its container 25.11, models
# with experts had their tokens balanced by force, [says its last
# line](https://github.com/NVIDIA-NeMo/Megatron-Bridge/blob/00b7660be0254ac6f95f44164ddd0c3e9cc798ed/docs/performance-summary.md).

# %% [markdown]
# ## 5 · Hide the all-to-all
#
# Balanced or not, the rows have to travel, and the experts wait for them. The rank could compute
# meanwhile, but the next layer needs these rows. The *other half of the batch* does not. So cut the
# batch in two, and let the halves take turns:
#
# ```
# half A   attention | rows travel . . . . | experts | rows travel back . . .| attention
# half B             | attention           | rows travel . . . . | experts   | rows travel …
# ```
#
# In [labs/overlapped_experts.py](../labs/overlapped_experts.py) a half is a generator. It begins an
# all-to-all with `async_op=True`, and yields where it would have to wait. `in_turns` runs each half
# to its next yield.

# %% [markdown]
# Autograd goes through all this in the reverse order. The lab makes two functions of the exchange,
# a beginning and an end, and their backwards change places: the backward of the end begins to send
# gradients back, and the backward of the beginning waits for them. So gradients overlap, too.
#
# Two ranks are on two machines with slow cards, where your system allows that. Products are
# emulated (1 GFLOPS). Each rank trains with two texts of each half, k is 2, and three ways take
# turns. What remains of the step if the cards are always hidden behind computing?

# %%
shorter = predict("A step with two halves in turns, relative to the whole batch at once", unit="%")

# %%
overlapped, flops = lab("overlapped_experts"), 1e9
machines = Machines.here(2, bytes_per_second=card_megabytes_per_second * 1e6)
names = list(overlapped.WAYS)
race = launch(overlapped.race, text, flops, world_size=2, machines=machines, device="cpu")
at_once = {names[0]: overlapped.WAYS[names[0]]}
quick = launch(overlapped.race, text, flops, 3, None, 4, at_once, world_size=2, device="cpu")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction; as theory the step without slow cards; and the median of rounds in turns.
halved, ratio = (compare_rounds(race[way].rounds, race[names[0]].rounds) for way in names[1:])
without_cards = median(quick[names[0]].rounds) / median(race[names[0]].rounds)
for way, of in zip(names[1:], (halved, ratio)):
    print(f"{way}, beside the whole:\n  {of.word}, {of}")
shorter.compare(100 * without_cards, 100 * ratio.median, kind="communication")

# %% tags=["nbval-ignore-output"]
def waited(way, what, rank):
    return f"{1e3 * race[f'{way}: {what}'].seconds[rank] / len(race[way].rounds):.0f} ms"

Table(["way", "a step, median", "rank", "waits for rows", "waits for counts"],
      [[way, f"{1e3 * median(race[way].rounds):.0f} ms", rank,
        waited(way, "waiting", rank), waited(way, "counts", rank)]
       for way in names for rank in range(2)], title="Exposed communication, mean of five rounds")

# %% tags=["nbval-ignore-output"]
def show_way(way):
    run = launch(overlapped.race, text, flops, 0, way, 4, {way: overlapped.WAYS[way]},
                 world_size=2, machines=machines, device="cpu")
    return plot_timeline(run, ["attention", "experts", "backward", "waiting"], below=["waiting"],
                         cards=machines is not None, title=f"One step: {way}",
                         until=1.2 * median(race[names[0]].rounds))

explore(show_way, way=[names[-1], *names[:-1]])

# %% [markdown]
# In turns, the rows of one half pass the cards while the other half is computed. Two kinds of
# waiting remain: for the other rank where more tokens went, and for the **counts**, since a rank
# cannot receive rows before it knows how many there are. Without turns, each half waits for its own
# rows. If halving alone is quicker, one reason is the emulated card, which lets some kilobytes pass
# at once after a pause.
#
# Halving has a price: products are smaller, and a rank needs two samples. The halves together
# keep the whole batch's activations. Peak memory was not measured.
#
# Are the numbers right? In float64, forward and backward, with an odd number of samples per rank:

# %%
for parts, order in ((2, overlapped.in_turns), (3, overlapped.in_turns),
                     (2, overlapped.one_after_another)):
    gaps_of = launch(overlapped.compare_with_one_process, text, parts, order, 5, world_size=2,
                     device="cpu").values
    print(f"{parts} parts, {order.__name__}: equal to one process to 1e-12: {max(gaps_of) < 1e-12}")

# %% [markdown]
# ### Exercise {{experts_in_halves}} · Debug an overlapped all-to-all
#
# The function below exchanges the rows of two halves, and computes with one while the other is
# under way. The cell prints which share of the rows is wrong on each rank, without slow cards and
# with them. Where a share is 0, the rows came in time by luck, or the tensor that is being filled
# lies where the same numbers were before.

# %% tags=["nbval-ignore-output"]
def experts_in_halves_early(halves, there, experts, back):
    coming = [there(rows, number) for number, rows in enumerate(halves)]  # all under way
    returning = []
    for number, transfer in enumerate(coming):
        returning.append(back(experts(transfer.rows, number), number))
        transfer.wait()
    return [transfer.wait() for transfer in returning]

for links in (None, machines):
    wrong = launch(overlapped.try_halves, experts_in_halves_early, world_size=2, machines=links,
                   device="cpu").values
    print("slow cards:" if links else "no slow cards:", *(f"{share:.0%}" for share in wrong))

# %% [markdown]
# Mend it. `halves` is a list of one or more tensors (rows, width), to be left as it is.
# `there(rows, number)` begins to send half `number` to the experts, and `back(rows, number)` to
# send its results back. Both return a *transfer* at once. Its `rows` is the tensor that is being
# filled, and `wait()` returns it when all rows are in it. `experts(rows, number)` returns the
# results for rows that have come.
#
# Return the list of the halves' results. Each half goes there, through the experts and back once,
# half 0 first. While experts compute with any half, the next one is on its way there, and the one
# before on its way back. A single half goes: there, wait, experts, back, wait.

# %%
def experts_in_halves(halves, there, experts, back):
    coming = [there(rows, number) for number, rows in enumerate(halves)]
    returning = []
    for number, transfer in enumerate(coming):
        ### BEGIN SOLUTION
        rows = transfer.wait()
        returning.append(back(experts(rows, number), number))
        ### IT WAS
        # returning.append(back(experts(transfer.rows, number), number))
        # transfer.wait()
        ### END SOLUTION
    return [transfer.wait() for transfer in returning]

check("{{experts_in_halves}}", experts_in_halves)

# %% [markdown]
# ## 6 · Rows in 8 bits
#
# What cannot be hidden can be made smaller. Each row is rounded on its way *to* the experts, with
# a scale per row, per 128 numbers, or per 32 (MXFP8, which you wrote in 05i). The results come back
# in bfloat16, because they are added up. With width $w$, a row is $2w$ bytes in bfloat16, and in
# E4M3 $w$ bytes and its scales: 4, $4 \lceil w / 128 \rceil$, or $\lceil w / 32 \rceil$.

# %% tags=["nbval-ignore-output"]
narrow = lab("narrow_dispatch")
run_8 = launch(narrow.compare, world_size=2, device="cpu")
beside = {name: narrow.error_beside_outlier(there, 1e6) for name, (there, _) in narrow.WAYS.items()}
Table(["rows there", "rank 0 sends, theory", "measured", "output off by", "beside an outlier"],
      [[name, f"{narrow.predict_bytes(narrow.WAYS, name, there, back, 8, 2):,}",
        f"{run_8[name].sent_bytes[0]:,}", f"{error:.2%}", f"{beside[name]:.1%}"]
       for name, (there, back, error) in run_8.values[0].items()], note="one forward, width 256")

# %% [markdown]
# The error is the length of the output's difference from float32, relative to the output, for
# normal tokens: a few per cent, as in 05i. Rows in 8 bits save half of the way there, so a quarter
# of all bytes in bfloat16. In 8 bits both ways the error grows. What this does to a training was
# not measured here, and gradients need separate scales.
#
# Normal tokens do not tell the three scales apart, because E4M3 has an exponent as well. In the
# last column, the first number of each row is a million times larger, and the error is that of the
# *others*: an outlier spoils numbers that share its scale, so finer scales help.

# %% [markdown]
# ## 7 · Engines
#
# [labs/expert_engines.py](../labs/expert_engines.py) has the same layer twice more. One is made of
# what PyTorch has: `all_to_all_single_autograd` for the exchange, and
# `torch.nn.functional.grouped_mm` for the MLPs. The other one is DeepSpeed's `MoE`, if it is
# installed. Each gets the same weights and tokens, one expert for each. Outputs, the tokens'
# gradients and the experts' are compared with one process, in float32.
# (`all_to_all_single_autograd` lies in a private module of PyTorch, and may move.)

# %% tags=["nbval-ignore-output"]
expert_engines = lab("expert_engines")
beside = {name: launch(expert_engines.compare, name, world_size=2, device="cpu")
          for name in expert_engines.all_engines()}
if not expert_engines.HAS_DEEPSPEED:
    print(expert_engines.NO_DEEPSPEED)
Table(["layer", "largest difference from one process", "sent by rank 0"],
      [[name, f"{max(run.values[0]):.0e}", f"{run['layer'].sent_bytes[0]:,} B"]
       for name, run in beside.items()])

# %% [markdown]
# If DeepSpeed is installed, the table has a row for it, and it sends more than ours: each expert's
# rows are padded to the number of the fullest expert, so that all parts of its all-to-all are
# equally long. With `drop_tokens=True`, its default, the capacity decides how long they are.
#
# Formats of 8 bits pad as well: for MXFP8, each expert's rows must be padded to a multiple of 32,
# because so many numbers share a scale, [says
# torchao](https://github.com/pytorch/ao/blob/0b1bb117287085f325161acd6a0bce8fb443936c/torchao/prototype/moe_training/README.md).
# This is at most 31 rows per expert, which matters if many experts have few rows each.

# %% [markdown]
# **On GPUs**
#
# * Over NCCL, PyTorch makes an uneven all-to-all of sends and receives
#   ([NCCL](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/p2p.html)). `send` and
#   `receive` are numbers on the CPU, so a layer waits until the GPU has counted.
# * A layer that waits so, or whose shapes change, cannot be recorded as a CUDA graph. Megatron Core
#   records attention and router alone, or gives each rank room for a [fixed number of
#   rows](https://github.com/NVIDIA/Megatron-LM/blob/main/docs/user-guide/features/cuda_graph.md). Its
#   [paged stash](https://github.com/NVIDIA/Megatron-LM/blob/main/docs/user-guide/features/paged_stash.md)
#   (experimental) then keeps only the rows that came for the backward, in pages, and a step with
#   too many rows runs again without the limit.

# %% [markdown]
# * Megatron-Core's `--overlap-moe-expert-parallel-comm` pairs one micro-batch's forward with
#   another's backward, as [DeepSeek-V3](https://arxiv.org/abs/2412.19437) does (3.2). Two
#   micro-batches' forwards side by side would double the peak of activations, says its
#   [guide](https://docs.nvidia.com/megatron-core/developer-guide/nightly/user-guide/features/moe_a2a_overlap.html).
#   Those are two whole micro-batches, where ours are halves of one. Megatron-Core asks for
#   `CUDA_DEVICE_MAX_CONNECTIONS` above 1, so that both streams make progress.
# * Overlap is not free: kernels that communicate occupy SMs of the GPU, which then do not compute.
#   For a training like DeepSeek-V3's, DeepEP's
#   [README](https://github.com/deepseek-ai/DeepEP) gives 24 SMs for its first version, and 4 to 6
#   for its second. It measures its kernels with rows in FP8 to the experts and in bfloat16 back, as
#   DeepSeek-V3 (3.3) was trained.
# * NVIDIA's counterpart is HybridEP, in Megatron Core [since
#   0.15](https://docs.nvidia.com/megatron-core/developer-guide/0.16.0/user-guide/features/moe.html).

# %% [markdown]
# * On [GB200 NVL72](https://www.nvidia.com/en-us/data-center/gb200-nvl72/), NVLink joins 72 GPUs, so
#   an ep group of 64 need not cross a network card. HybridEP is the strongest candidate there, says
#   this [guide](https://docs.nvidia.com/nemo/megatron-bridge/0.7.0/skills/nemo-mbridge-perf-moe-dispatcher-selection/SKILL.html),
#   which asks to compare both on one's own machine.
# * With many small experts, a loop starts kernels for each of them.
#   [grouped_mm](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.grouped_mm.html)
#   is one call for all; torchtitan computes its experts with it.
# * With few rows, a product is expected to take as long as reading the expert's weights (the
#   roofline of chapter 10). Then its time does not follow the number of tokens.
#
# None of this was measured here, and a time over Gloo says nothing about NCCL.

# %% [markdown]
# ## Put to the test
#
# What a source says about this, beside what this notebook has found.

# %% jupyter={"source_hidden": true}
sent, theory = runs[0.25]["layer"].sent_bytes[0], bytes_of_rank_0(0.25)
gap, on = max(gap for *_, gap in gaps), " × ".join(f"{axis} {size}" for axis, size in sizes.items())
put_to_the_test(f"""
- [C197] MoE layers are trained with expert parallelism and DP | web page, “Mixture-of-Experts
  Training” | {"right" if gap < 1e-12 else "not here"} | {on} ranks equal one process to 1e-12, and
  an expert's gradient is added up over its copies alone (section 3, runs). It costs two all-to-alls
  of rows in each layer and direction: in a forward rank 0 of 4 sent {sent:,} bytes, by the formula
  {theory:,} (section 4, table) | measured: the time, which was not measured. Numbers and bytes are
  expected to be the same; NCCL's documentation makes an all-to-all of sends and receives
""")

# %% [markdown]
# **Sources.** *Distributed Parallelism in Deep Learning* (web page). Lepikhin et al. 2020, *GShard*
# ([arXiv](https://arxiv.org/abs/2006.16668)). Rajbhandari et al. 2022, *DeepSpeed-MoE*
# ([arXiv](https://arxiv.org/abs/2201.05596)). DeepSeek-AI 2024, *DeepSeek-V3*
# ([arXiv](https://arxiv.org/abs/2412.19437)). [torchtitan](https://github.com/pytorch/torchtitan).

# %% [markdown]
# ## What you have learnt
#
# * Tokens travel to experts and back in **uneven all-to-alls**: two in a layer's forward, two in
#   its backward. First come the counts.
# * A rank with nothing to compute still takes part in each exchange, also in the **backward**.
# * An expert's gradient has all samples of its ep group already. It is added up over its
#   **copies**, and divided by **all** ranks.
# * A layer waits for its **busiest rank**. That is what balancing is for.
# * Two **halves in turns** hide an all-to-all behind computing, if rows are used only after
#   `wait()`. Rows in **8 bits** save a quarter of the bytes.
#
# **Your exercises** are in [labs/expert_parallel.py](../labs/expert_parallel.py), and three in
# cells above.
#
# **Next**: {{next}}.

# %%
progress("09e")
