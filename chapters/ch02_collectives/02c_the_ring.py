# %% [markdown]
# # {{title}}
#
# **How do ranks add up a tensor with nobody in the middle?** Data parallel training sums all
# gradients in every step. For a model of a billion parameters in float32 that is 4 GB on each rank.
# Here you write the algorithm that shares this work out equally, and count its bytes.

# %% [markdown]
# ![Grids of four ranks and four chunks after each of six steps of a ring all-reduce: stripes of
# colour fill chunk by chunk, and at the end all chunks hold the numbers of all
# ranks](../assets/covers/02c_the_ring.png)
#
# *Recorded in section 2: six steps of a ring all-reduce, and whose numbers are in each chunk.*
#
# **After this part you can** write an all-reduce as a ring, and say what each rank sends in it.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch
import torch.distributed as dist

from pedagogy_lib import (
    Table, check, explore, hint, lab, launch, plot_holdings, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
world_size = 4
megabytes = 4.0

# %% [markdown]
# ## 1 · Somebody in the middle
#
# The plainest all-reduce is a **star**. Every rank sends its tensor to rank 0. Rank 0 adds them up,
# and sends the sum back to each. The lab has it ready made. Let $X$ be the bytes of the tensor and
# $n$ the number of ranks. Each other rank sends $X$. How much does rank 0 send?

# %%
star_guess = predict(f"Star, {world_size} ranks, {megabytes:g} MB: bytes sent by rank 0", unit="MB")

# %%
collectives, measured = lab("collectives"), lab("collectives_measured")
shown, pictures = lab("collectives_shown"), lab("message_pictures")

ways = {"star": collectives.all_reduce_star, "tree": collectives.all_reduce_tree}
summed = launch(measured.sum_up, ways, int(megabytes * 1e6), world_size=world_size, device="cpu")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
star_guess.compare((world_size - 1) * megabytes, summed["star"].sent_bytes[0] / 1e6,
                   kind="communication")

# %%
heads = ["way", "sent by rank 0", "by another, at most", "by all together"]
Table(heads, measured.rows_of_senders(summed))

# %% [markdown]
# (The operating system counts the bytes on each rank, so these cells run on the CPU.) Rank 0 of the
# star is a **hot spot**: all sums wait for its link, and with more ranks it gets worse. The *tree*
# is a reduce and then a broadcast, both of part 02b. It takes some of the load from rank 0. But it
# sends whole tensors, too, and in most rounds many ranks have nothing to do.
#
# All ranks together send $2\,(n-1)\,X$ in both ways: every rank but one has to give its numbers
# away once, and has to get the sum once. Can all ranks have an equal share of that?

# %% [markdown]
# ## 2 · The ring
#
# Put the ranks in a **ring**. Each rank sends to the next one only, and receives from the one
# before. Cut the tensor into $n$ chunks. Then every rank has something to send in every step.
#
# Below is a film of the lab's `all_reduce_ring` on four ranks, with one chunk for each. Move the
# slider. Where is the sum of chunk 0 complete first? Which chunk does a rank pass on?

# %%
films = launch(shown.film_of, collectives.all_reduce_ring, world_size=4, device="cpu").values

def draw_ring(step):
    return pictures.plot_ring(films, step)

explore(draw_ring, step=[1, 0, *range(2, len(films[0].frames))])

# %% [markdown]
# All steps side by side. A row is a rank, a column a chunk. Stripes tell whose numbers are in it,
# and a frame marks a complete sum.

# %% tags=["cover"]
plot_holdings({f"after step {step}" if step else "at the start": [f.frames[step] for f in films]
               for step in range(len(films[0].frames))})

# %% [markdown]
# The first $n-1$ steps **add**. After them rank $k$ has the complete sum of chunk $k$, and no rank
# has the whole sum: this half is a reduce-scatter. The other $n-1$ steps **replace**: complete
# chunks travel round until every rank has all of them. This half is an all-gather.
#
# Follow chunk 0. It begins on rank 1. Rank 1 sends it to rank 2, which adds its own numbers and
# passes the sum on. When it comes to rank 0, all ranks' numbers are in it.
#
# On four ranks each rank sends six messages. On eight it sends fourteen. How many bytes do they
# have in all? (You measure it below, with your own ring.)

# %%
ring_guess = predict(f"Ring, {2 * world_size} ranks, {megabytes:g} MB: bytes sent by each rank",
                     unit="MB")

# %% [markdown]
# ### Exercise {{chunk_to_send}} · Which chunk does a rank send?
#
# Write `chunk_to_send(rank, step, n)`. In the reduce-scatter round a ring of `n` ranks, which chunk
# does `rank` send to the next rank? (After rank n − 1 comes rank 0.) Return its number, from 0 to n
# − 1. `step` counts from 1, as in the film, to n − 1. Rank $k$ has to end with the complete chunk
# $k$.
#
# For example, `chunk_to_send(1, 1, 4)` is 0: in step 1, rank 1 sends chunk 0. The check plays the
# ring with your numbers.

# %%
def chunk_to_send(rank, step, n):
    ### BEGIN SOLUTION
    return (rank - step) % n
    ### END SOLUTION

check("{{chunk_to_send}}", chunk_to_send)

# %% [markdown]
# ### Exercise {{reduce_scatter_ring}} · Reduce-scatter around a ring
#
# In [labs/collectives.py](../labs/collectives.py), write `reduce_scatter_ring(chunks, group)`.
# `chunks` is a list of $n$ contiguous tensors. Chunk k has the same length on every rank. Other
# chunks may be longer or shorter. Afterwards `chunks[k]` of rank k holds the sum of everybody's
# `chunks[k]`. What the other chunks hold then is up to you. The list itself stays as it is: the
# same tensors, in the same order. Each rank may send $n-1$ messages, all to the next rank: each
# chunk but its own, once, in its own dtype.

# %% [markdown]
# For example, 2 ranks hold `[[1], [2]]` and `[[10], [20]]`. Rank 0 ends with 11 in `chunks[0]`, and
# rank 1 with 22 in `chunks[1]`.
#
# `exchange`, in the same file, sends one tensor and receives another in one batch. Receive into a
# tensor of its own. Then add it to the tensor that is in the list: `chunks[k] = …` would only put
# another tensor there.

# %% [markdown]
# ### Exercise {{all_gather_ring}} · All-gather around a ring
#
# In [labs/collectives.py](../labs/collectives.py), write `all_gather_ring(chunks, group)`. `chunks`
# is a list as in {{reduce_scatter_ring}}, and stays as it is. At the start only `chunks[k]` of rank
# k counts.
# Afterwards every rank's `chunks[k]` holds what rank k brought. Each rank may send $n-1$ messages,
# all to the next rank, and each chunk at most once.
#
# For example, rank 0 brings `[7]` as chunk 0, and rank 1 brings `[8]` as chunk 1. Then both hold
# `[[7], [8]]`.

# %% [markdown]
# ### Exercise {{all_reduce_ring}} · All-reduce around a ring
#
# In [labs/collectives.py](../labs/collectives.py), write `all_reduce_ring(x, group)` with these two
# functions. Afterwards every rank's `x` holds the sum. `x` is contiguous and has any shape, and its
# length need not be a multiple of $n$. Each rank may send $2\,(n-1)$ messages in all, to one
# neighbour, in the dtype of `x`.
#
# `x.view(-1)` is flat and shares the memory of `x`. `torch.tensor_split` cuts it into chunks that
# differ by one element at most. It returns a tuple; the other two functions take a list.
#
# For example, 2 ranks hold `[1, 2, 3]` and `[10, 20, 30]`. The chunks of rank 0 are `[1, 2]` and
# `[3]`. Both ranks end with `[11, 22, 33]`.

# %%
display(check("{{reduce_scatter_ring}}"), check("{{all_gather_ring}}"), check("{{all_reduce_ring}}"))

# %% [markdown]
# When your three functions pass, run the film above again: it is your ring now. And how many bytes
# does each of its ranks send?

# %%
ways = {"star": collectives.all_reduce_star, "tree": collectives.all_reduce_tree,
        "ring": collectives.all_reduce_ring, "dist.all_reduce": dist.all_reduce}
summed = launch(measured.sum_up, ways, int(megabytes * 1e6), world_size=world_size, device="cpu")
Table(heads, measured.rows_of_senders(summed))

# %% [markdown]
# All ranks together send as much as in the star, but in equal shares. And on twice as many ranks?

# %%
way = {"ring": collectives.all_reduce_ring}
wider = launch(measured.sum_up, way, int(megabytes * 1e6), world_size=2 * world_size, device="cpu")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
n = 2 * world_size  # ranks
ring_guess.compare(2 * (n - 1) / n * megabytes, max(wider["ring"].sent_bytes) / 1e6,
                   kind="communication")

# %% [markdown]
# Each of the $2\,(n-1)$ messages of a rank has $X/n$ bytes. So every rank sends $2\,(n-1)/n \cdot
# X$. With twice as many ranks there are more than twice as many messages, but each has half the
# bytes. Together they are always less than $2X$, however many ranks there are.

# %% [markdown]
# Can the **busiest rank**, the one that sends most, send still less? Not if the ranks themselves do
# the adding: Patarasuk and Yuan proved it in 2009. The ring is not the only way to reach this
# bound. *Halving-doubling* has the same bytes in fewer messages. [Part
# 02e](02e_what_a_message_costs.ipynb) builds it, and asks which of the two is faster.

# %% [markdown]
# **On GPUs**, NCCL has rings, trees and more, and chooses for each call. [Its
# documentation](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html) lists them
# under `NCCL_ALGO`. It cuts a tensor over several *channels*. More channels take more of the GPU's
# processors away from computing.
#
# * Its tree is a *double binary tree*: each half of the tensor takes a tree of its own, in pieces,
#   as in the chain of part 02b. So there are few rounds, [says NVIDIA's
#   blog](https://developer.nvidia.com/blog/massively-scale-deep-learning-training-nccl-2-4/). No
#   rank is a hot spot in it.
# * Some switches add by themselves: *SHARP*, and *NVLS* with NVLink. Then a rank sends its tensor
#   about once, not nearly twice. The bound above counts [sends between
#   ranks](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md), so it does not hold
#   there.

# %% [markdown]
# ## Put to the test
#
# What our sources say about sums and rings, and what was measured here just now. A click opens the
# statements that hold no surprise.

# %% jupyter={"source_hidden": true}
mb_of = {way: max(summed[way].sent_bytes) / 1e6 for way in ways}  # of the busiest rank
total = sum(summed["ring"].sent_bytes) / 1e6
gloo = summed["dist.all_reduce"].sent_bytes
sent_by_all = ", ".join(f"{count / 1e6:.2f}" for count in gloo)
not_in_the_middle = "wrong over Gloo" if max(gloo) < 1.1 * min(gloo) else "right here"
by_threads = measured.ring_of_threads()
to, in_words = measured.receivers(summed["ring"]), measured.peers(summed["ring"])
steps = len(films[0].moves)
complete = [{film.frames[step].count(15.0) for film in films} for step in range(steps + 1)]
adds_then_replaces = complete == [{0}, {0}, {0}, {1}, {2}, {3}, {4}]
counts = " ".join("/".join(map(str, sorted(its))) for its in complete)

# %% jupyter={"source_hidden": true}
surprises = f"""
- [C033] All-reduce is a reduce to one node, then a broadcast |
  PyTorch slides, “Collective Communication: All-Reduce”; “Distributed Data Parallel: step 3” |
  {"imprecise" if mb_of["dist.all_reduce"] < 0.9 * mb_of["tree"] else "right here"} | the result is
  that, not the traffic. Of a tensor of {megabytes:g} MB, the busiest of {world_size} ranks sent
  {mb_of["star"]:.2f} MB in a star and {mb_of["tree"]:.2f} in a tree, which are a reduce and a
  broadcast. In dist.all_reduce it sent {mb_of["dist.all_reduce"]:.2f} MB (section 2, table) |
  measured: over Gloo; NCCL's trees are a reduce up and a broadcast down, but in pieces and on two
  trees, so no rank is expected to be a hot spot
- [C037] In each iteration a node sends to 2 of its peers | CS 229S, “All-reduce Algorithm” |
  {"wrong" if all(len(its) == 1 for its in to) else "right"} | each rank of the ring sends to one
  other alone, in all steps: {in_words} (counted in the run of section 2). It receives from another
  | measured: nothing about one ring; NCCL runs several at once, one for each channel, which may
  have other neighbours
- [C040] 2 (N - 1) X / N is the “total volume” | CS 229S, “Ring All-reduce Efficiency Analysis” |
  {"imprecise" if total > 1.5 * mb_of["ring"] else "right"} | that is what one rank sends: for a
  tensor of {megabytes:g} MB on {world_size} ranks {mb_of["ring"]:.2f} MB, and all ranks together
  {total:.2f} MB (section 2, table) | measured: nothing about a ring; where a switch adds up (NVLink
  SHARP), ranks are expected to send less
"""

# %% jupyter={"source_hidden": true}
surprises += f"""- [C049] All nodes send their gradients to one node, and get the total back |
  PyTorch slides, “Collective Communication Primitives” | {not_in_the_middle} | nobody is in
  the middle of dist.all_reduce, by which gradients are summed: of a tensor of {megabytes:g} MB,
  ranks 0 to {world_size - 1} sent {sent_by_all} MB (counted in the run of section 2) | measured:
  over Gloo; NCCL has rings, trees and adding switches (documentation of NCCL_ALGO), and in none of
  them does one rank have to take all gradients
- [C050] Rings became possible with multi-process | blog, “Distributed Data Parallelism” |
  {"imprecise" if by_threads == [10] * 4 else "right"} | four threads of one process summed 1, 2, 3
  and 4 in a ring, and ended with {", ".join(map(str, by_threads))} (a run in this section) |
  measured: nothing; NCCL also joins several GPUs of one process (ncclCommInitAll in its
  documentation)
"""

# %% jupyter={"source_hidden": true}
others = f"""
- [C036] A ring all-reduce runs 2 (N - 1) iterations | CS 229S, “All-reduce Algorithm” |
  {"right" if steps == 2 * (4 - 1) else "not here"} | a ring of 4 ranks had {steps} steps
  (section 2, film) | measured: nothing about a ring; NCCL cuts chunks into pieces that follow each
  other, and also has algorithms with fewer steps, such as trees
- [C038] The first N - 1 iterations add, the next N - 1 overwrite |
  CS 229S, “All-reduce Algorithm”; handwritten notes, “Ring AllReduce” |
  {"right" if adds_then_replaces else "not here"} | at the start and after each of {steps} steps,
  every rank has {counts} complete sums of 4 (section 2, film). So from step 4 on, a complete sum
  comes in, and replaces what was there | measured: nothing; that is what a ring all-reduce is, on
  every device
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
put_to_the_test(surprises, more=others)

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)); *CS 229S, lecture 8*
# (Stanford); *Distributed Parallelism in Deep Learning* (web page); *The Evolution of Data
# Parallelism* (blog); handwritten notes.
#
# **To read on.** Patarasuk and Yuan, [Bandwidth optimal all-reduce
# algorithms](https://doi.org/10.1016/j.jpdc.2008.09.002), 2009: why $2(n-1)/n$ is the least among
# ranks that do the adding. Gibiansky, *Bringing HPC techniques to deep learning* (Baidu), 2017, and
# Sergeev and Del Balso, [Horovod](https://arxiv.org/abs/1802.05799), 2018: rings for gradients.

# %% [markdown]
# ## What you have learnt
#
# * In a star all ranks wait for the link of one rank, the hot spot.
# * A ring all-reduce is a reduce-scatter and then an all-gather, chunk by chunk.
# * In it each of $n$ ranks sends $2(n-1)/n$ times the tensor: never twice as much. No rank is in
#   the middle.
#
# **Your exercises**: those in cells above, and [labs/collectives.py](../labs/collectives.py). Later
# chapters run on your ring.
#
# **Next**: {{next}}.

# %%
progress("02c")
