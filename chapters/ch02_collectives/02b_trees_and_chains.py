# %% [markdown]
# # {{title}}
#
# **How fast can one computer give a file to all others?** At the start of training one rank has the
# weights, and all others need them. Here you send a file in four ways, and count the rounds. Then
# you write the way of most libraries, a tree, in both directions.
#
# Exercises stand in cells and in [labs/collectives.py](../labs/collectives.py). Open that file, and
# drag its tab to the right edge of the notebook: then you see both. A function of a lab that you
# have not written yet is taken from our solution. A function that you have begun is run as it is,
# finished or not. To run our solution instead, write `lab("collectives", ours="broadcast_tree")`.

# %% [markdown]
# ![Four columns of eight boxes, one for each rank: at the start each box has one colour; after
# three rounds the box of rank 0 has the stripes of all
# eight](../assets/covers/02b_trees_and_chains.png)
#
# *Measured in section 2: eight ranks add up their numbers along a tree. Each stripe is one rank's
# number.*
#
# **After this part you can** say how long a tree and a chain take, and build a broadcast and a
# reduce as trees.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch
import torch.distributed as dist

from pedagogy_lib import (
    Table, check, compare_rounds, hint, lab, launch, plot_holdings, plot_timeline, predict,
    progress, put_to_the_test,
)

# %% tags=["parameters"]
pieces = 20  # of the file, along the chain
latency = 0.0  # seconds that each message needs, however short it is

# %% [markdown]
# ## 1 · A file for seven friends
#
# Take a file of 0.2 MB and seven friends. How fast can all of them have it? Each computer's link
# has a **bandwidth** of 2 MB/s: it carries so many bytes out, and at the same time as many in. So
# one copy over one link takes 0.1 s. On real links each message also has a **latency**: seconds
# that it needs, however short it is. Here the latency is 0. (You may change it in the cell of
# parameters.)

# %% [markdown]
# The links here are emulated: `throttle` makes each message take as long as it would on such a
# link. It works on the CPU only. The pictures say so.
#
# Two ways come to mind first. Send the file to one friend after another. Or cut it into pieces, and
# send a piece to each friend in turn, so that all are served at once.

# %%
def one_by_one(x):
    if dist.get_rank():
        dist.recv(x, 0)
    else:
        for friend in range(1, dist.get_world_size()):
            dist.send(x, friend)

def all_at_once(x):
    for piece in x.chunk(20):
        one_by_one(piece)

# %% [markdown]
# In both, rank 0 does all the sending. Two other ways let the friends help.
#
# * Along a **tree**: whoever has the file gives a copy to somebody who has not.
# * Along a **chain**: rank 0 sends to rank 1, rank 1 to rank 2, and so on. The file is cut into
#   pieces. Each rank passes on the first piece while the second one comes in.
#
# The tree is in the lab; you write it in section 2.

# %%
def chain(x, pieces=pieces):
    rank, n, sending = dist.get_rank(), dist.get_world_size(), []
    for piece in x.chunk(pieces):
        if rank > 0:
            dist.recv(piece, rank - 1)
        if rank < n - 1:
            sending.append(dist.isend(piece, rank + 1))
    for request in sending:
        request.wait()

collectives, shown = lab("collectives"), lab("collectives_shown")

# %% [markdown]
# Rank 7 is at the end of the chain. A piece has to pass seven links to get there, and there are
# twenty pieces. After how many seconds does rank 7 have all twenty?

# %%
chain_guess = predict("The chain: until all seven friends have the file", unit="s")

# %% tags=["nbval-ignore-output"]
ways = [one_by_one, all_at_once, collectives.broadcast_tree, chain]
friends = launch(shown.deliver, ways, 200_000, 2e6, latency, world_size=8, device="cpu")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
copy = 200_000 / 2e6  # seconds for the file over one link
theory = {"one_by_one": 7 * copy + latency, "all_at_once": 7 * copy + latency,
          "broadcast_tree": 3 * (copy + latency),
          "chain": (6 + pieces) * copy / pieces + 7 * latency}
took = {name: max(friends[name].seconds) for name in theory}
chain_guess.compare(theory["chain"], took["chain"])

# %% tags=["nbval-ignore-output"]
plot_timeline(friends, title="A file from rank 0 to seven friends, in four ways")

# %% [markdown]
# A bar is the time that a rank spends in the call, waiting included. In the first two ways seven
# copies leave rank 0 by the same link: 7 × 0.1 s. It makes no difference whether they leave one
# after another or side by side.
#
# Along the tree, the number of those who have the file doubles in each **round**: 1, 2, 4, 8. So
# three rounds are enough. In the chain, once it is filled, all seven links are busy at the same
# time. While it fills, and while it empties, some of them wait. And the link of the last rank sends
# nothing. So the share in the table below, of all eight links, is not 100 %.

# %% tags=["nbval-ignore-output"]
links = 8 * 2e6  # bytes that all eight could send in a second
Table(["way", "theory", "measured", "share of the links in use"],
      [[name, f"{theory[name]:.2f} s", f"{took[name]:.2f} s",
        f"{sum(friends[name].sent_bytes) / links / took[name]:.0%}"] for name in theory])

# %% [markdown]
# And with a latency? On these links a send is done when its bytes have left. So the latencies of
# one sender's messages overlap, and only the last one counts. In the tree each round waits for the
# one before, and pays a latency. In the chain the first piece pays one on each of its seven links.

# %% [markdown]
# Let $n$ be the number of computers, $X$ the bytes of the file, $B$ the bytes per second of a link,
# and $p$ the number of pieces. One piece takes $X/(pB)$ seconds: call this a step. The first piece
# reaches the last rank after $n-1$ steps. After that, one more piece arrives in each step: $p-1$
# more steps.
#
# $$t_\text{chain} = (n - 1 + p - 1)\,\frac{X}{p\,B}$$
#
# With many pieces this approaches $X/B$, the time of a single copy. Does it in practice?

# %% tags=["nbval-ignore-output"]
counts = [1, 5, 20, 100, 200]
by_pieces = launch(shown.deliver_in_pieces, chain, counts, 200_000, 2e6, world_size=8,
                   device="cpu")
slowest = torch.tensor(by_pieces.values).amax(0)  # rank, for each round and number of pieces
Table(["pieces", "theory", "measured"],
      [[p, f"{(6 + p) * copy / p:.3f} s", f"{seconds:.3f} s"]
       for p, seconds in zip(counts, slowest.amin(0).tolist())])

# %% [markdown]
# In theory, more pieces are always better. Measured, the gap grows with their number: each message
# also costs the processor some time, and 200 pieces make 1400 messages. [Part
# 02e](02e_what_a_message_costs.ipynb) measures that cost.
#
# *Break it.* Set `pieces = 1` or `latency = 0.005` in the cell of parameters, and run again from
# there. Which way suffers most? (Both times it is the chain. With one piece nobody can pass on
# anything before the whole file is there. And the chain pays a latency on each of its seven links.)

# %% [markdown]
# ### Exercise {{tree_seconds}} · Broadcast time along a tree
#
# One of `n` computers has a file of `megabytes`. Every link carries `megabytes_per_second`, in each
# direction. Return the seconds until all `n` have the whole file along a tree: in each round, each
# computer that has the file gives one copy to a computer that has none. There is no latency. `n` is
# 1 or more, and need not be a power of two.
#
# For example, `tree_seconds(4, 6.0, 2.0)` is 6.0: two rounds of 3 s.

# %%
def tree_seconds(n, megabytes, megabytes_per_second):
    ### BEGIN SOLUTION
    rounds = (n - 1).bit_length()
    return rounds * megabytes / megabytes_per_second
    ### END SOLUTION

check("{{tree_seconds}}", tree_seconds)

# %% [markdown]
# ## 2 · Trees
#
# A collective may be for some ranks only: a **process group**. Chapter 09 splits a thousand ranks
# into hundreds of them. In a group, ranks are numbered anew, from 0 to n − 1. The lab's `send` and
# `receive` take these numbers. So your functions work in every group if they hand `group` to every
# call that takes it. (`None` is the group of all ranks.)

# %% [markdown]
# ### Exercise {{broadcast_tree}} · Broadcast along a tree
#
# In [labs/collectives.py](../labs/collectives.py), write `broadcast_tree(x, root, group)`. The
# **root** is the rank that has the tensor. `x` has the same shape on every rank. It is
# **contiguous**: its numbers lie one after another in memory, in the order of reading. The function
# returns nothing: afterwards every rank's `x` holds the root's numbers. All ranks together may send
# $n-1$ messages of the whole `x`, in its own dtype, in $\lceil\log_2 n\rceil$ rounds. Use the
# `send` and `receive` of that file. They begin a message and return its request.

# %% [markdown]
# For example, with 4 ranks and root 0: in round 1 rank 0 sends to rank 1. In round 2 rank 0 sends
# to rank 2, and rank 1 to rank 3. With 3 ranks, one of them has nothing to do in round 2. The root
# may be any rank.

# %%
check("{{broadcast_tree}}")

# %% [markdown]
# A **reduce** goes the other way: everybody's numbers flow to the root, and are added up on their
# way. Eight ranks hold 0.1, −0.2, −0.3, 0.5, −0.6, −0.1, 0.2 and 0.3. What do the pairs of
# neighbours add up to? Groups of four? All eight?
#
# The cell runs the lab's `reduce_tree` in groups of 2, of 4 and of 8 ranks. The root of each group
# is its first rank. `dist.new_group` makes a group, and all ranks have to call it, also those that
# are not in it.

# %%
numbers = [0.1, -0.2, -0.3, 0.5, -0.6, -0.1, 0.2, 0.3]
run = launch(shown.sums_in_groups, collectives.reduce_tree, numbers, world_size=8)
levels = shown.pick_root_sums(run.values)
for size, level in levels.items():
    print(f"sums of {size}:", *(f"{number:.1f}" for number in level))

# %% [markdown]
# And which numbers are in each sum? Rank r now brings $2^r$, so that the bits of a sum tell whose
# numbers are in it, as in part 02. A group of 2 needs one round, a group of 4 two rounds, a group
# of 8 three. Side by side they are the rounds of one tree. A rank that has sent its sum is done:
# its box is empty.

# %% tags=["cover"]
powers = [2**rank for rank in range(8)]
run = launch(shown.sums_in_groups, collectives.reduce_tree, powers, world_size=8)
plot_holdings(shown.rounds_of_a_tree(powers, run.values))

# %% [markdown]
# ### Exercise {{reduce_tree}} · Reduce along a tree
#
# In the same [labs/collectives.py](../labs/collectives.py), write `reduce_tree(x, root, group)`.
# `x` is contiguous, and has the same shape on every rank. Afterwards the root's `x` holds the sum
# of everybody's `x`. On the other ranks `x` may hold anything. All ranks together may send $n-1$
# messages of the whole `x`, in its own dtype, in $\lceil\log_2 n\rceil$ rounds. The root may be any
# rank.
#
# For example, 4 ranks hold 1, 2, 3, 4, and the root is 0. In round 1 rank 1 sends 2 to rank 0, and
# rank 3 sends 4 to rank 2. Ranks 0 and 2 now hold 3 and 7. In round 2 rank 2 sends 7 to rank 0,
# which holds 10.

# %%
check("{{reduce_tree}}")

# %% [markdown]
# ## Put to the test
#
# What our sources say about trees, and what was measured here just now. A click opens the
# statements that hold no surprise.

# %% jupyter={"source_hidden": true}
# The tree and the chain once more, in turns; and figures for the statements below.
race = launch(shown.deliver, [collectives.broadcast_tree, chain] * 6, 200_000, 2e6, latency,
              world_size=8, device="cpu")  # in turns; the first round does not count
chain_to_tree = compare_rounds(*(race[way].rounds[1:] for way in ("chain", "broadcast_tree")))
seconds = {way: f"{took[way]:.2f} s" for way in took}
busy = {way: sum(friends[way].sent_bytes) / links / took[way] for way in took}
in_use = {way: f"{share:.0%}" for way, share in busy.items()}
at_once = friends["all_at_once"].sent_bytes[0] / 200_000  # copies that left rank 0

# %% jupyter={"source_hidden": true}
surprises = f"""
- [C027] 5 MB to 7 friends one after another at 1 MB/s: 5 s in all; on the next slide 35 s |
  PyTorch slides, “Point-To-Point” | contradicts itself |
  over links on which a copy takes {copy:g} s, seven copies one after another took
  {seconds["one_by_one"]} (section 1, table). So it is 7 × 5 s, and 5 s is one copy | measured:
  nothing, with one link; a sender with seven links of its own could send seven copies at once
- [C029] A tree reaches 8 ranks in 5, 10, 15 s |
  PyTorch slides, “Collective Communication: Broadcast” |
  {"depends" if chain_to_tree.word == "quicker" else "not refuted here"} | over links on which a
  copy takes {copy:g} s, the tree took {seconds["broadcast_tree"]}, so three copies' time: each rank
  has a link of its own, and passes on whole copies. A chain of {pieces} pieces took
  {seconds["chain"]} (section 1, table). Against the tree: {chain_to_tree.word} (five rounds in this
  section) | measured: on throttled links; NCCL's broadcast passes pieces round a ring, so on GPUs a
  time near one copy is expected
- [C030] Divide and conquer avoids idle time |
  PyTorch slides, “Collective Communication: Broadcast” |
  {"imprecise" if busy["broadcast_tree"] < 0.9 else "right"} | the tree kept
  {in_use["broadcast_tree"]} of eight links in use. One copy after another kept
  {in_use["one_by_one"]}, and a chain of {pieces} pieces {in_use["chain"]} (section 1, table). By
  the tree's rule, six of eight ranks have nothing to do in the first round | measured: nothing
  about a tree of whole copies; faster links leave the same share of them idle
"""

# %% jupyter={"source_hidden": true}
partial = "; ".join(" ".join(f"{v:.1f}" for v in level) for level in levels.values())
others = f"""
- [C028] To all 7 at once gives each 143 kB/s, and still takes 35 s |
  PyTorch slides, “Point-To-Point” | {"right" if abs(at_once - 7) < 0.3 else "not here"} |
  {at_once:.1f} copies, with headers, left by the sender's one link (counted in the run of section
  1): so 7 × 5 s, and 1 MB/s / 7 = {1000 / 7:.0f} kB/s for each. On links on which a copy takes
  {copy:g} s, this took {seconds["all_at_once"]} (section 1, table): seven copies' time, and the
  work of many small messages | measured: nothing, as long as all seven share the sender's one link
- [C031] Pairs of .1 -.2 -.3 .5 -.6 -.1 .2 .3 add up to -.1 .2 -.7 .5, then .1 -.2, then -.1 |
  PyTorch slides, “Collective Communication: Reduce” |
  {"right" if partial == "-0.1 0.2 -0.7 0.5; 0.1 -0.2; -0.1" else "not here"} |
  {partial} (section 2, run) | measured: nothing; GPUs add the same numbers, and may round otherwise
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
put_to_the_test(surprises, more=others)

# %% [markdown]
# **Source.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)).
#
# **To read on.** Thakur, Rabenseifner and Gropp, [Optimization of Collective Communication
# Operations in MPICH](https://doi.org/10.1177/1094342005051521), 2005: trees and other algorithms,
# and which one for which size.

# %% [markdown]
# ## What you have learnt
#
# * In each round of a tree, twice as many ranks have the file. It needs $\lceil\log_2 n\rceil$
#   rounds.
# * A chain of many pieces uses all links at once, and takes little more than one copy.
# * A reduce is a broadcast in the other direction, which adds on its way.
#
# **Your exercises**: {{tree_seconds}} stands in a cell above, and [labs/collectives.py](../labs/collectives.py)
# has {{broadcast_tree}} and {{reduce_tree}}. Later chapters run on what you write there.
#
# **Next**: {{next}}.

# %%
progress("02b")
