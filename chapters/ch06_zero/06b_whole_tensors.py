# %% [markdown]
# # {{title}}
#
# **Must a shard cut through matrices? A rank could own some whole tensors instead.** No flat
# vector, no padding: it sounds simpler. PyTorch's own stage 1 does it, and some optimizers need it.
# You find two bugs that such programs have had, measure what whole tensors cost, and meet an
# optimizer that cannot do without them.

# %% [markdown]
# ![Bars of how many numbers each of four ranks updates. With tensors dealt out in turn the ranks
# differ a lot; with the largest first, and with one flat vector, they are about
# equal](../assets/covers/06b_whole_tensors.png)
#
# *Computed in section 1 from the tensors of a transformer: what each of four ranks updates, in
# three ways to share them out.*
#
# **After this part you can** share out tensors among ranks, find the two usual bugs of stage 1, and
# say which optimizers need whole tensors.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from pedagogy_lib import (
    Table, check, hint, lab, launch, plot_bars, predict, progress,
)

# %% tags=["parameters"]
world_size = 4
layers = 4

# %%
whole, language_model = lab("whole_tensors"), lab("language_model")
text = language_model.standard_library(20_000)

# %% [markdown]
# ## 1 · Who owns how much?
#
# Each tensor gets an **owner**: one rank, which alone keeps the optimizer state of that tensor, and
# updates it. The simplest rule deals tensors out in turn, like cards: tensor $k$ belongs to rank
# $k \bmod n$.
#
# The slowest rank sets the pace of a step, and the fullest one decides whether the model fits. So
# what counts is the rank that owns most. The lab's transformer has 53 tensors. Matrices of a block
# have 4,096 to 16,384 numbers, and its biases 64 to 256. They take turns: a weight, then its bias.
# Call the number of all parameters, divided by $n$, the fair share. How many fair shares does the
# busiest rank of four own?

# %%
busiest = predict(f"Tensors in turn, {world_size} ranks: the busiest rank owns", unit="fair shares")

# %% tags=["cover"]
sizes = [p.numel() for p in language_model.Transformer(layers=layers).parameters()]
numbers = whole.numbers_of_ranks(sizes, world_size)
plot_bars([f"rank {rank}" for rank in range(world_size)],
          {way: [count / 1e3 for count in of] for way, of in numbers.items()},
          "numbers to update (thousand)", title=f"{len(sizes)} tensors on {world_size} ranks")

# %% jupyter={"source_hidden": true}
# Your prediction, theory (every n-th tensor, added up), and what the lab has counted.
fair = sum(sizes) / world_size
in_theory = max(sum(sizes[rank::world_size]) for rank in range(world_size))
busiest.compare(in_theory / fair, max(numbers["in turn"]) / fair, kind="optimizer_state",
                wire="counted")

# %% [markdown]
# A block has 12 tensors, a multiple of four. So a rank gets the same kinds of tensor in every
# block: ranks 1 and 3 get nothing but biases, and rank 0 gets two large matrices. A better rule:
# take the largest tensor first, and give it to the rank that has least so far. It comes close to
# the flat vector here. PyTorch's `ZeroRedundancyOptimizer` does this, says its
# [documentation](https://docs.pytorch.org/docs/stable/distributed.optim.html).
#
# It cannot help where a single tensor is larger than a fair share. Llama 3 8B has 8.03 billion
# parameters. Its embedding is one tensor of 128,256 × 4,096 numbers.

# %%
for ranks in (8, 64, 512):
    fair_share = 8.03e9 / ranks
    print(f"{ranks:3} ranks: the owner of the embedding has at least "
          f"{max(1, 128_256 * 4_096 / fair_share):.1f} fair shares")

# %% [markdown]
# ## 2 · What does it send?
#
# The gradient of a tensor travels to its owner: a **reduce**, once for each tensor. The new tensor
# travels back from its owner to everybody: a **broadcast**, once for each tensor. PyTorch's
# `ZeroRedundancyOptimizer` is used together with DDP. DDP's all-reduce has already given the whole
# mean gradient to everybody. The broadcasts come on top.
#
# (`device="cpu"` stands here because the operating system counts the bytes.)

# %%
ways = {"flat": "one flat vector for each unit", "owners": "reduce and broadcast",
        "ZeroRedundancyOptimizer": "DDP and ZeroRedundancyOptimizer"}
costs = {way: launch(whole.costs, way, text, layers, world_size=world_size, device="cpu")
         for way in ways}

# %%
Table(["stage 1 with", "collectives", "most bytes sent by a rank", "busiest rank's optimizer"],
      [whole.row_of(run, ways[way]) for way, run in costs.items()])

# %% [markdown]
# Three costs, in one table.
#
# * **More calls.** Two for each tensor, in place of two for each unit. Each call has its latency
#   (part [02f](02f_what_a_call_costs.ipynb)).
# * **More bytes for some.** All ranks together have to send as much as with a flat vector. But a
#   reduce or a broadcast has a root, and its load is not the same for all ranks. With DDP,
#   $2\frac{n-1}{n}$ models for the all-reduce and $\frac{n-1}{n}$ for the broadcasts make
#   $3\frac{n-1}{n}$.
# * **Uneven ranks.** The last column says how uneven.

# %% [markdown]
# > **On GPUs** engines for Adam cut flat vectors: DeepSpeed's stages 1 and 2, and Megatron-LM's
# > distributed optimizer. FSDP2 cuts each tensor by its rows
# > (part [06h](06h_sharding_engines.ipynb)).

# %% [markdown]
# ## 3 · Two bugs
#
# Both programs have a mistake that is easy to make: in both, the loss goes down nicely.
#
# ### Exercise {{train_in_parts}} · Debug ZeRO-1 on a flat vector
#
# `train_in_parts(values, gradient_of, make_optimizer, steps)` is stage 1 for one flat vector.
# `values` has one dimension, any length, and is the same on all ranks. `gradient_of(flat, step)`
# returns this rank's gradient for all numbers, as a vector of that length.
# `make_optimizer([parameter])` makes an optimizer. The function returns, on every rank, what one
# process would have after `steps` steps with the mean of the ranks' gradients. It leaves `values`
# as it is. Each rank has an optimizer for its own part alone. (More zeros than needed do no harm.)

# %% [markdown]
# For example, two ranks, SGD with rate 0.5, one step, and `values` [1, 2, 3]. The gradients are
# [2, 2, 2] and [4, 4, 4], so the mean is [3, 3, 3]. The result is [-0.5, 0.5, 1.5] on both.
#
# Run the next two cells. The second one trains five numbers on two ranks, and on one process. Look
# for what is wrong, and mend the function.

# %%
def train_in_parts(values, gradient_of, make_optimizer, steps):
    rank, n, length = dist.get_rank(), dist.get_world_size(), len(values)
    ### BEGIN SOLUTION
    each = -(-length // n)
    flat = F.pad(values, (0, each * n - length))
    ### IT WAS
    # each = length // n
    # flat = values.clone()
    ### END SOLUTION
    parts = [flat[k * each :][:each] for k in range(n)]
    mine = nn.Parameter(parts[rank].clone())
    optimizer = make_optimizer([mine])
    for step in range(steps):
        gradient = F.pad(gradient_of(flat[:length], step), (0, len(flat) - length))
        dist.all_reduce(gradient)
        mine.grad = gradient[rank * each :][:each] / n
        optimizer.step()
        dist.all_gather(parts, mine.detach())
    return flat[:length]

# %%
for steps in (0, 1, 2):
    on_ranks = launch(whole.try_in_parts, train_in_parts, 5, steps, world_size=2).values[0]
    alone = whole.alone_in_parts(5, 2, steps)
    print(f"after {steps} steps: one process {alone}")
    print(f"              on two ranks {on_ranks}")

# %%
check("{{train_in_parts}}", train_in_parts)

# %% [markdown]
# ### Exercise {{train_by_owner}} · Debug ZeRO-1 with whole tensors
#
# `train_by_owner(model, loss_fn, batches, make_optimizer)` is stage 1 with whole tensors.
# `batches` is a list of pairs (inputs, targets), one for each step: this rank's samples.
# `loss_fn(outputs, targets)` returns the loss, and `make_optimizer([parameters])` an optimizer.
#
# * Afterwards all ranks have the weights that one process would have with the mean of the ranks'
#   gradients.
# * Only one rank, the owner, has optimizer state for a parameter, from the first step to the last.
#   Ranks own parameters in turn, or as evenly as that.
# * In each step, all ranks use the same layers. From step to step these may differ. A parameter
#   that is not used has None as its gradient, and stays as it is, like in PyTorch's optimizers.

# %% [markdown]
# For example, on two ranks a model of three parameters $a$, $b$ and $c$ may belong to ranks 0, 1
# and 0. If a step does not use $b$, then rank 0 updates $a$ and $c$, and $b$ does not change.
#
# The second of the next cells trains three layers on two ranks. The second step does not use the
# middle layer. It shows how far each layer is from one process. Find the bug.

# %%
def train_by_owner(model, loss_fn, batches, make_optimizer):
    rank, n = dist.get_rank(), dist.get_world_size()
    optimizers = {}  # of the parameters that this rank owns
    for inputs, targets in batches:
        model.zero_grad()
        loss_fn(model(inputs), targets).backward()
        ### BEGIN SOLUTION
        numbered = [(k, p) for k, p in enumerate(model.parameters()) if p.grad is not None]
        ### IT WAS
        # numbered = list(enumerate(p for p in model.parameters() if p.grad is not None))
        ### END SOLUTION
        for number, p in numbered:
            owner = number % n
            dist.reduce(p.grad, owner)
            if rank == owner:
                p.grad /= n
                if p not in optimizers:
                    optimizers[p] = make_optimizer([p])
                optimizers[p].step()
            dist.broadcast(p.detach(), owner)

# %%
distances = launch(whole.gaps_by_owner, train_by_owner, world_size=2).values[0]
for steps, gaps in enumerate(distances, 1):
    print(f"after {steps} steps, distance of the three layers:", *(f"{gap:.3f}" for gap in gaps))

# %%
check("{{train_by_owner}}", train_by_owner)

# %% [markdown]
# (This program makes an optimizer for each parameter, because its owner meets parameters one by
# one. In your own code, make one optimizer for the list of all parameters that a rank owns: PyTorch
# then updates many tensors in one call.)

# %% [markdown]
# ## 4 · When you need whole tensors
#
# Adam treats each number by itself, so cutting a matrix changes nothing. **Muon** is different
# (part [05h](05h_optimizers_for_matrices.ipynb)). It takes the whole matrix of a gradient and makes
# its singular values nearly equal. So the update of one number depends on all others.
#
# What happens if two ranks have half of the rows each, and run Muon on their half?

# %%
torch.manual_seed(0)
weight, gradient = torch.zeros(8, 4), torch.randint(-3, 4, (8, 4)).float()
right = whole.step_alone(weight, gradient)
halves = torch.cat([whole.step_alone(weight[rows], gradient[rows])
                    for rows in (slice(0, 4), slice(4, 8))])
print(f"the updates differ by {(halves - right).norm() / right.norm():.0%} of their norm")

# %% [markdown]
# That is another optimizer, and no error tells you. (Megatron-LM does this on purpose where tensor
# parallelism has cut a matrix: `muon_tp_mode` is *blockwise* by default. Part
# [05h](05h_optimizers_for_matrices.ipynb) measures how far 2, 4 and 8 pieces are from the whole.) A
# flat shard is refused at least, since it has
# lost its shape:

# %%
try:
    torch.optim.Muon([nn.Parameter(gradient.flatten())])
except ValueError as error:
    print(error)

# %% [markdown]
# With an owner for each whole matrix, the result is right to the last bit:

# %%
matrices, gradients = [weight] * 4, [k * gradient for k in (1, 2, -1, 3)]
equal = launch(whole.owners_equal_alone, matrices, gradients, world_size=2).values
print(f"two ranks equal one process: {all(equal)}")

# %% [markdown]
# > **On GPUs** there are three ways. Megatron-LM has a layer-wise distributed optimizer for Muon,
# > in which each rank owns whole matrices, as in this part ([its
# > source](https://github.com/NVIDIA/Megatron-LM/blob/b7153faf7a64949fea6bda8f2b9e178ac3e79260/megatron/core/optimizer/layer_wise_optimizer.py)).
# > Moonshot's [report](https://arxiv.org/abs/2502.16982) keeps shards as in ZeRO, and gathers the
# > gradient of a matrix before its step. That costs one more all-gather. DeepSpeed's stages 1 and 2
# > make the gradient orthogonal [before they cut
# > it](https://github.com/deepspeedai/DeepSpeed/pull/7509); its stage 3 gathers the momentum and
# > [shares the matrices out](https://github.com/deepspeedai/DeepSpeed/pull/7919) among the ranks.
#
# The rule: ask of every optimizer what the update of *one number* depends on. On this number alone:
# cut anywhere. On its tensor (Muon; Adafactor and LAMB need sums over it): keep the tensor whole,
# or communicate in the step.

# %% [markdown]
# ## What you have learnt
#
# * With an **owner** for each tensor, the busiest rank sets memory and pace. Deal out the largest
#   tensors first.
# * Whole tensors cost two calls for each tensor, and ranks are uneven. With DDP a rank sends
#   $3\frac{n-1}{n}$ models in place of $2\frac{n-1}{n}$.
# * Two bugs of published programs: numbers that are left over belong to nobody, and owners that
#   change from step to step.
# * **Muon** needs whole matrices. Cut by rows it runs, and is another optimizer.
#
# **Your exercises** stand in cells above.
#
# **Next**: {{next}}.

# %%
progress("06b")
