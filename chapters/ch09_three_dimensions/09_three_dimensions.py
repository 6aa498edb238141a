# %% [markdown]
# # {{title}}
#
# **How do a thousand ranks know with whom to talk?** Data, tensor and pipeline parallel can all be
# used at the same time. Then each rank belongs to three groups at once. This part is about these
# groups: how ranks are numbered, how each rank finds its groups, and what happens if one rank makes
# a mistake.

# %% [markdown]
# ![A square table of eight ranks: large squares between neighbours, smaller ones between ranks that
# are two apart, and between ranks that are four
# apart](../assets/covers/09_three_dimensions.png)
#
# *Measured in section 1: who sends how much to whom along three axes, in one training step on
# 2 × 2 × 2 ranks. Each rank has one partner on each axis.*
#
# **After this part you can** lay out ranks in a mesh, say in which groups a rank is, make these
# groups by hand and with `DeviceMesh`, and recognise the typical mistakes.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import textwrap

import torch
import torch.distributed as dist

from pedagogy_lib import (
    HangError, Machines, RankError, Table, check, draw_groups, explore, hint, lab, launch,
    plot_traffic, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
sizes = {"dp": 2, "pp": 2, "tp": 2}
rank_shown = 5

# %% [markdown]
# ## 1 · Who talks to whom
#
# Here is one training step of a small transformer on eight ranks. The model exists twice: that is
# data parallel, **dp** for short. Each copy is divided into two stages: that is pipeline parallel,
# **pp**. In each stage every matrix is cut into two parts: that is tensor parallel, **tp**. So
# there are $2 \cdot 2 \cdot 2 = 8$ ranks. You will write this training yourself in part 09b; now we
# only watch it.
#
# The eight ranks are on two machines, four on each, where your system allows that.

# %%
partners = predict("Other ranks to which rank 0 sends more than a few numbers", unit="ranks")

# %%
meshes, three_dimensions = lab("meshes"), lab("three_dimensions")
text = lab("language_model").standard_library(100_000)
world_size = sizes["dp"] * sizes["pp"] * sizes["tp"]
machines = Machines.here(2) if world_size % 2 == 0 else None

run = launch(three_dimensions.one_step, sizes, text, world_size=world_size, machines=machines,
             device="cpu")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
in_theory = sum(size > 1 for size in sizes.values())
partners.compare(in_theory, sum(sent > 10_000 for sent in run["step"].traffic()[0]))

# %% tags=["cover", "nbval-ignore-output"]
plot_traffic(run, "step", [axis for axis in sizes if sizes[axis] > 1],
             title="Bytes from rank to rank in one step")

# %% [markdown]
# The areas of the squares are in proportion to the bytes. Eight ranks form 8 · 7 = 56 pairs of a
# sender and a receiver, and only 24 of them have a square. Rank 0 has one partner for each kind of
# parallelism. Rank 1 has the other part of its matrices, rank 2 has the next stage, and rank 4 has
# the same part of the other copy. The picture leaves out two all-reduces of a single number each:
# the loss, and the length of the gradient.

# %% [markdown]
# The shaded fields are pairs of ranks on one machine. Outside of them, bytes pass a network card.
# In this order of ranks only the gradients along dp leave a machine. The traffic along tp, which is
# the largest, stays inside. Part [09c](09c_which_axis_where.ipynb) is about the choice of this
# order.
#
# The operating system counted these bytes, connection by connection. On GPUs with NCCL they are
# counted from the calls.

# %% [markdown]
# ## 2 · Coordinates
#
# Think of the ranks as little cubes, stacked to a block of dp × pp × tp. Such a block is called a
# **mesh**, and dp, pp and tp are its **axes**. The place of a rank on each axis is a coordinate.
#
# The usual order is that of digits. With sizes dp 2, pp 2, tp 2, the coordinates of rank 5 are 1 0
# 1, its number in the binary system. The last axis changes from one rank to the next one; the first
# axis changes most slowly. With sizes dp 2, pp 3, tp 4, rank 17 has the coordinates 1 1 1, because
# $17 = 1 \cdot (3 \cdot 4) + 1 \cdot 4 + 1$.

# %% [markdown]
# ### Exercise {{coordinates}} · A rank's coordinates on a mesh
#
# Write `coordinates(rank, sizes)` in [labs/meshes.py](../labs/meshes.py).
#
# * It gets a rank, a whole number, and `sizes`, a dict that says how many ranks each axis has. The
#   axis that changes fastest is the last one in the dict. There may be any number of axes, with any
#   names, and of any size from 1 on.
# * It returns a dict with the place on each axis, from 0 on.
#
# `coordinates(17, {"dp": 2, "pp": 3, "tp": 4})` is `{"dp": 1, "pp": 1, "tp": 1}`.

# %%
check("{{coordinates}}")

# %% [markdown]
# Two ranks belong to the same tp group if they differ on the axis tp **and on no other**. Ranks 4
# and 5 do: 1 0 0 and 1 0 1. Ranks 3 and 5 do not: 0 1 1 and 1 0 1.

# %% [markdown]
# ### Exercise {{groups_along}} · List the groups along an axis
#
# Write `groups_along(axes, sizes)` in [labs/meshes.py](../labs/meshes.py).
#
# * `axes` is the name of one axis, such as `"tp"`, or a tuple of several names, such as
#   `("pp", "tp")`. Ranks are in one group if they differ on these axes alone.
# * `sizes` is the dict of exercise {{coordinates}}.
# * It returns the list of all groups. A group is the list of its ranks, in ascending order. Groups
#   come in the order of their first ranks. Every rank is in exactly one group.
#
# For `sizes = {"dp": 2, "tp": 2}`, `groups_along("tp", sizes)` is `[[0, 1], [2, 3]]`,
# `groups_along("dp", sizes)` is `[[0, 2], [1, 3]]`, and `groups_along(("dp", "tp"), sizes)` is
# `[[0, 1, 2, 3]]`.

# %%
check("{{groups_along}}")

# %%
along = {axis: meshes.groups_along(axis, sizes) for axis in sizes}
Table(["axis", "groups", "members of each", "all groups"],
      [[axis, len(lists), len(lists[0]), " ".join(map(str, lists))]
       for axis, lists in along.items()])

# %% [markdown]
# Compare this with the picture of section 1: each square is a pair of one of these groups. In
# general, an axis of size $a$ in a world of $n$ ranks makes $n / a$ groups of $a$ ranks each.
#
# Now a larger mesh: 4 × 4 × 4 ranks on eight machines. Move the rank, and choose the order of the
# axes. A row is a machine.

# %%
def show_groups(rank, order):
    sizes = dict.fromkeys(order.split(), 4)
    return draw_groups({axis: meshes.groups_along(axis, sizes) for axis in ("dp", "pp", "tp")},
                       machines=8, rank=rank, title=f"Rank {rank}, order {order}")

explore(show_groups, rank=[21, *range(64)], order=["dp pp tp", "tp pp dp", "pp dp tp"],
        labels={"rank": "rank", "order": "order of the axes"})

# %% [markdown]
# A group of the last axis in the order has neighbouring ranks. Here each such group fits into a
# machine, because 4 divides 8. All members of a group of the first axis are on different machines.

# %% [markdown]
# ## 3 · Groups that talk
#
# A list of ranks cannot talk yet. `dist.new_group(ranks)` makes a **process group** of it. On Gloo,
# its members open connections to each other at once. Then `dist.all_reduce(x, group=group)` adds up
# over this group alone. There is one rule, in the documentation of
# [`new_group`](https://docs.pytorch.org/docs/stable/distributed.html#groups): all ranks of the
# world have to call it, for all groups, in the same order, even for groups to which they do not
# belong.

# %% [markdown]
# Why this rule? In PyTorch, the members of a group find each other through a store, under the
# number of the group. The first group that a rank makes is number 1, the second one number 2, and
# so on. Nobody compares lists. (With an option, `use_local_synchronization=True`, only the members
# call, and a group's name comes from its ranks. Here we leave it out.)

# %% [markdown]
# ### Exercise {{my_group}} · Debug the creation of process groups
#
# Somebody does not want all ranks to wait for the same group. So every second rank goes through the
# list from its end. The cell below tries it on the rows of a 2 × 2 mesh. Each rank brings
# $10^{\text{rank}}$, so that a sum shows who took part. There is no error. What is wrong?

# %%
def my_group_staggered(groups):
    """The process group of the list in which this rank is."""
    in_turn = groups if dist.get_rank() % 2 == 0 else groups[::-1]
    for ranks in in_turn:
        group = dist.new_group(ranks)
        if dist.get_rank() in ranks:
            mine = group
    return mine

def who_takes_part(make, groups):
    x = torch.tensor(10 ** dist.get_rank())
    dist.all_reduce(x, group=make(groups))
    return f"{x.item():04d}"

rows = [[0, 1], [2, 3]]
print(launch(who_takes_part, my_group_staggered, rows, world_size=4, device="cpu").values)

# %% [markdown]
# Ranks 0 and 1 should both have 0011, and ranks 2 and 3 both 1100. Mend the function. It gets the
# lists of all groups, the same on all ranks; every rank is in exactly one of them. It returns this
# rank's process group. It may call `dist.new_group` once for each list, with the list alone.

# %%
def my_group(groups):
    """The process group of the list in which this rank is."""
    ### BEGIN SOLUTION
    for ranks in groups:
    ### IT WAS
    # in_turn = groups if dist.get_rank() % 2 == 0 else groups[::-1]
    # for ranks in in_turn:
    ### END SOLUTION
        group = dist.new_group(ranks)
        if dist.get_rank() in ranks:
            mine = group
    return mine

check("{{my_group}}", my_group)

# %% [markdown]
# That was the worst kind of mistake: no error and no hang, only wrong sums. The first group that
# rank 0 makes is [0, 1], and rank 0 is its first member. The first group that rank 3 makes is
# [2, 3], and rank 3 is its second member. Both look into the store under number 1. There they find
# each other, and Gloo connects them. That is why both have 1001.
#
# On a cluster such a difference comes, for example, from a loop over a `set` of names: in Python
# its order may differ from process to process. Or it comes from code that only some ranks run.

# %% [markdown]
# ## 4 · A mesh by hand
#
# `Mesh` in [labs/meshes.py](../labs/meshes.py) puts your functions together. It knows the
# coordinates of its rank, and makes one group for each axis. It also makes groups for several axes
# together, such as all ranks that share one copy of the model.

# %%
def look_around(meshes, sizes):
    mesh = meshes.Mesh(sizes, joint=[("pp", "tp")])
    return mesh.at, {name: dist.get_process_group_ranks(mesh[name]) for name in mesh.groups}

found = launch(look_around, meshes, sizes, world_size=world_size, device="cpu").values
at, groups = found[min(rank_shown, world_size - 1)]
print("coordinates of this rank:", at)
Table(["group", "ranks"], [[meshes.name_of(name), str(ranks)] for name, ranks in groups.items()])

# %% [markdown]
# ## 5 · The real one
#
# PyTorch's own mesh is the
# [`DeviceMesh`](https://docs.pytorch.org/docs/stable/distributed.html#device-mesh). It takes a
# tuple of sizes and a tuple of names. `mesh["tp"]` is the mesh of one axis, with a process group.
# Engines take such a mesh as an argument: `fully_shard(model, mesh=mesh["dp"])`,
# `parallelize_module(model, mesh["tp"], plan)`.

# %%
def look_around_with_pytorch(sizes):
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))
    at = {axis: mesh.get_local_rank(axis) for axis in sizes}
    return at, {axis: dist.get_process_group_ranks(mesh.get_group(axis)) for axis in sizes}

theirs = launch(look_around_with_pytorch, sizes, world_size=world_size, device="cpu").values
same = all(ours[0] == pytorchs[0] and all(ours[1][axis] == pytorchs[1][axis] for axis in sizes)
           for ours, pytorchs in zip(found, theirs))
print("DeviceMesh has the same coordinates and groups on all ranks:", same)

# %% [markdown]
# ## 6 · What goes wrong
#
# **A wrong world size.** The product of the sizes has to be the number of ranks. One source says
# that otherwise there is a deadlock. Try it: a mesh of 2 × 3 on four ranks.

# %%
def wrong_size(make):
    make({"dp": 2, "tp": 3})

def make_device_mesh(sizes):
    from torch.distributed.device_mesh import init_device_mesh

    init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))

def shorten_error(error):
    """What an error says, without the lines that tell where."""
    return " ".join(str(error).split(" at ")[0].split())

refused = {}
for name, make in {"ours": meshes.Mesh, "DeviceMesh": make_device_mesh}.items():
    try:
        launch(wrong_size, make, world_size=4, device="cpu")
    except RankError as error:
        refused[name] = shorten_error(error)
print("refused by:", ", ".join(refused))

# %% tags=["nbval-ignore-output"]
Table(["", "what it says"], [[name, textwrap.fill(text, 70)] for name, text in refused.items()])

# %% [markdown]
# Both refuse at once, on all ranks: no deadlock. Megatron-LM checks it as well, in its
# [`initialize_model_parallel`](https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/parallel_state.py):
# the world size has to be divisible by the product of the other sizes, and data parallel gets the
# rest.
#
# A mesh that is *smaller* than the world is another matter. `DeviceMesh` allows it, and leaves the
# last ranks out: they have no coordinates in it.

# %%
def smaller():
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (3,), mesh_dim_names=("tp",))
    return mesh.get_coordinate()

print("coordinates on a mesh of 3, in a world of 4:",
      launch(smaller, world_size=4, device="cpu").values)

# %% [markdown]
# **A rank that skips a call.** This is what really ends in a deadlock. Below, rank 3 thinks that it
# has nothing to do along dp. Its partner there waits, and the message says where each rank is.

# %%
def skip_one(meshes):
    mesh = meshes.Mesh({"dp": 2, "tp": 2})
    gradient = torch.ones(4)
    if dist.get_rank() != 3:
        dist.all_reduce(gradient, group=mesh["dp"])
    dist.all_reduce(gradient, group=mesh["tp"])

try:
    launch(skip_one, meshes, world_size=4, device="cpu", timeout=3)
except HangError as error:
    print(error)

# %% [markdown]
# Rank 3 went on to its tp group, met rank 2 there, and both have returned. Rank 1 waits for rank 3
# along dp. Rank 0 waits for rank 1 along tp, though neither of them made a mistake. So the mistake
# of one rank spreads over the groups. In the next step, all four would wait. The guilty rank is the
# one whose list of calls differs from its partners'. Here the guilty rank is *further* than its
# partner. If it had made one call too many, it would itself be waiting. Part
# [04c](04c_finding_out.ipynb) shows how to find it on a cluster.

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true}
# The mesh of a source on 64 processes: does it fit, and is each tp group on one machine of 8?
of_source = {"dp": 2, "pp": 4, "tp": 8}
places = launch(look_around, meshes, of_source, world_size=64, device="cpu").values
inside = all(len({rank // 8 for rank in groups["tp"]}) == 1 for _, groups in places)
everywhere = {tuple(at.values()) for at, _ in places}

# %% jupyter={"source_hidden": true}
shown = min(rank_shown, world_size - 1)
mine = found[shown][1]["dp"]
put_to_the_test(f"""
- [C187] TP 8 × PP 4 × DP 2 makes 64 GPUs, TP 8 × PP 8 × DP 16 makes 1,024 | web page, “Megatron-LM
  3D Parallelism Configuration”, “Pre-training Foundation Models” |
  {"right" if len(everywhere) == 64 and inside else "not here"} | as a mesh, {len(places)} processes
  had {len(everywhere)} places, and each tp group was within one machine of 8: {inside} (a run in
  this section); 8 · 8 · 16 = {8 * 8 * 16:,} | measured: nothing, since a product is the same on
  GPUs. 64 processes were run; 1,024 are multiplied
- [C189] 3D parallelism requires world_size = DP × TP × PP; mismatched sizes cause deadlocks |
  web page, “Incorrect World Size Calculation” |
  {"imprecise" if len(refused) == 2 else "not refuted"} | 2 × 3 on 4 ranks, {len(refused)} of 2
  meshes, ours and `DeviceMesh`, refuse at once; `DeviceMesh` takes a smaller mesh, and leaves ranks
  out. A skipped call is what hangs (section 6, runs). Groups made in another order give wrong sums
  (section 3, run) | measured: expected to be the same on GPUs, as sizes are compared before NCCL is
  used. Megatron-LM compares them, too, says its source
- [C190] DP groups span everything | web page, “Incorrect World Size Calculation” |
  {"imprecise" if len(mine) < world_size else "right"} | they may span all machines, not all ranks:
  the dp group of rank {shown} had the ranks {mine} of {world_size}, those with the same stage and
  the same part (section 4, table) | measured: nothing, since groups are lists of ranks.
  `DeviceMesh` makes the same ones (section 5)
""")

# %% [markdown]
# **Source.** *Distributed Parallelism in Deep Learning* (web page).
#
# **To read on.** [Getting started with
# DeviceMesh](https://docs.pytorch.org/tutorials/recipes/distributed_device_mesh.html), a recipe of
# PyTorch.

# %% [markdown]
# ## What you have learnt
#
# * Ranks of a **mesh** have coordinates, as a number has digits: the last axis changes fastest.
# * A rank's group along an axis has the ranks that differ **on this axis alone**.
# * All ranks make **all groups in the same order**. Otherwise they may talk to the wrong ranks, and
#   nobody notices.
# * `DeviceMesh` does the same. A mesh larger than the world is refused; a **skipped call** is what
#   hangs.
#
# **Your exercises** stand in the cells above and in [labs/meshes.py](../labs/meshes.py).
#
# **Next**: {{next}}.

# %%
progress("09")
