# %% [markdown]
# # 02d · Across machines
#
# **What changes when a link is slow, and shared?** So far all ranks were on one machine, and talked
# at the speed of its memory. Here the ranks of a machine share one network card, which is much
# slower. You get such a cluster on your laptop: real machines as far as
# the network goes, each with a card whose speed the kernel limits.

# %% [markdown]
# ![Timeline of an all-reduce on four ranks of two machines, with two rows for the network cards:
# both are busy in both directions all the time](../assets/covers/02d_across_machines.png)
#
# *Measured in section 1: while four ranks add up 4 MB, both cards are busy in both directions.*
#
# **After this part you can** run ranks on machines of their own, say which bytes pass a network
# card, choose an order of ranks, and write an all-reduce for slow links.
#
# **It takes** about 20 minutes, and 15 more for 2 exercises. **It needs** [chapter
# 02](02_collectives.ipynb).

# %% jupyter={"source_hidden": true}
import os

import torch
import torch.distributed as dist

from pedagogy_lib import (
    HangError, Machines, RankError, Table, check, hint, lab, launch, measure, plot_bars,
    plot_timeline, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
megabytes = 4.0
card_megabytes_per_second = 25.0

# %% [markdown]
# ## 1 · Two machines
#
# `Machines(2, bytes_per_second=25e6)` describes two machines with network cards of 25 MB/s, which
# is 200 Mbit/s. Linux can give a process a network of its own, without asking an administrator: a
# **network namespace**. A launch with `machines=` puts ranks into two of them. Inside of a machine,
# ranks talk over its **loopback**, a network that every computer has for itself alone. All that
# goes to the other machine passes a card at each end, and a switch between them, as in a rack.
#
# `Machines.here` gives the same, or, where a system does not allow it, nothing, and says why. Then
# the cells below still run; their pictures do not mention machines.

# %%
speed = card_megabytes_per_second * 1e6
machines = Machines.here(2, bytes_per_second=speed)
collectives, across_machines = lab("collectives"), lab("across_machines")

def who_am_i():
    names = ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GLOO_SOCKET_IFNAME")
    return [os.environ[name] for name in names]

found = launch(who_am_i, world_size=4, machines=machines, device="cpu").values
Table(["RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "network card"], found)

# %% [markdown]
# These are the variables that `torchrun` sets on a cluster. `GROUP_RANK` is the number of the
# machine. Ranks 0 and 1 are on machine 0, ranks 2 and 3 on machine 1.
#
# Now the all-reduce of chapter 02. Gloo's ring goes 0 → 1 → 2 → 3 → 0, and each rank sends
# $2\,(n-1)\,X/n = 1.5\,X$ to the next one. Which of these four links pass a network card? How many
# bytes leave each machine?

# %%
card_guess = predict(f"All-reduce of {megabytes:g} MB on 2 × 2 ranks: bytes that leave a machine",
                     unit="MB")

# %%
def all_reduce_of(megabytes):
    x = torch.ones(int(megabytes * 1e6 / 4))
    dist.all_reduce(torch.ones(4))  # the first messages open the connections
    dist.barrier()
    with measure("all_reduce", memory=False):
        dist.all_reduce(x)

run = launch(all_reduce_of, megabytes, world_size=4, machines=machines, device="cpu")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
leaving = run["all_reduce"].cards[0].sent_bytes if machines else run["all_reduce"].sent_bytes[1]
card_guess.compare(1.5 * megabytes, leaving / 1e6, kind="communication")

# %% tags=["cover", "nbval-ignore-output"]
plot_timeline(run, cards=bool(machines), title="An all-reduce across two machines")

# %% [markdown]
# Two of the four links leave a machine: 1 → 2 and 3 → 0. So $1.5\,X$ leave each machine, and as
# much comes in. Above the line of a card you see what it sends, below it what it receives; the
# dotted lines are its full speed. The cards are nearly full, and the ranks wait for them: 6 MB at
# 25 MB/s take 240 ms. Some ranks end earlier: one that has the sum, and whose last bytes the kernel
# has taken, waits for nobody.
#
# *Break it.* `Machines([3, 1], bytes_per_second=speed)` puts three ranks on machine 0. Do the cards
# carry less?

# %% [markdown]
# ## 2 · The order of ranks
#
# A ring may visit the ranks in any order. With the ranks of a machine side by side, two of its
# links leave a machine. What if they come in turns: 0, 2, 1, 3?

# %% [markdown]
# ### Exercise 2.14
#
# Write `card_bytes`. It gets `order`, a list of the ranks as the ring visits them; `machine_of`, a
# list with the number of each rank's machine (`machine_of[3]` is rank 3's; machines are numbered
# from 0); and `nbytes`, the size of the tensor. Return a list with the bytes that leave each
# machine in a ring all-reduce, machine 0 first. Machines may have different numbers of ranks, and
# the order may be any. From a machine that has all ranks, 0 bytes leave.
#
# For example, `card_bytes([0, 1, 2, 3], [0, 0, 1, 1], 4e6)` is `[6e6, 6e6]`.

# %%
def card_bytes(order, machine_of, nbytes):
    ### BEGIN SOLUTION
    n, leaving = len(order), [0.0] * (max(machine_of) + 1)
    for rank, following in zip(order, order[1:] + order[:1]):
        if machine_of[rank] != machine_of[following]:
            leaving[machine_of[rank]] += 2 * (n - 1) / n * nbytes
    return leaving
    ### END SOLUTION

check("2.14", card_bytes)

# %% [markdown]
# The lab's `all_reduce_in_order` is a ring in the order that you give it. Here are the two orders,
# on real cards. Time by formula is the bytes that leave a machine, by the speed of its card.

# %%
def reduce_in_orders(across_machines, orders, nbytes):
    for order in orders:
        x = torch.ones(nbytes // 4)
        across_machines.all_reduce_in_order(torch.ones(4), order)  # opens connections
        dist.barrier()
        with measure(str(order), memory=False):
            across_machines.all_reduce_in_order(x, order)
        assert (x == dist.get_world_size()).all()

orders, nbytes = ([0, 1, 2, 3], [0, 2, 1, 3]), int(megabytes * 1e6)
ordered = launch(reduce_in_orders, across_machines, orders, nbytes, world_size=4,
                 machines=machines, device="cpu")

# %% tags=["nbval-ignore-output"]
def cards_of(run, label):
    """What left each machine, as its card counted it; nothing without machines."""
    return " and ".join(f"{card.sent_bytes / 1e6:.2f} MB" for card in run[label].cards) or "–"

def leaving_links(order):
    """How many links of the ring lead from machine 0 (ranks 0 and 1) to machine 1."""
    return sum(a < 2 <= b for a, b in zip(order, order[1:] + order[:1]))

by_formula = {str(order): leaving_links(order) * 1.5 * megabytes for order in orders}
Table(["order", "leaves a machine, by formula", "its card counted", "time, by formula", "measured"],
      [[label, f"{amount:.2f} MB", cards_of(ordered, label), f"{amount * 1e9 / speed:.0f} ms",
        f"{1e3 * max(ordered[label].seconds):.0f} ms"] for label, amount in by_formula.items()])

# %% [markdown]
# In turns, every link leaves a machine: twice the bytes, twice the time, with the same algorithm
# and the same result. `torchrun` numbers the ranks of a machine one after another: `RANK` is
# `GROUP_RANK × LOCAL_WORLD_SIZE + LOCAL_RANK`. A ring in the order of ranks then crosses least.

# %% [markdown]
# ## 3 · Two levels
#
# Even in the best order, each rank's numbers travel round the whole ring. But the ranks of a
# machine can add up *before* anything leaves it. A **hierarchical all-reduce** has three steps:
#
# 1. a reduce-scatter *inside* each machine: each of its ranks has one chunk of the machine's sum;
# 2. an all-reduce *across* machines, of that chunk, among the ranks with the same place;
# 3. an all-gather *inside*: everybody gets the other chunks.
#
# With $L$ ranks on each of $M$ machines, a rank sends $2\,\frac{M-1}{M}\,\frac{X}{L}$ across. All
# $L$ together send $2\,\frac{M-1}{M}\,X$ through the machine's card: $1\,X$ on two machines,
# however many ranks they have. The flat ring sends $2\,\frac{n-1}{n}\,X$.

# %% [markdown]
# ### Exercise 2.15
#
# Write `hierarchical_all_reduce` in [labs/across_machines.py](../labs/across_machines.py). It gets
# `x`, contiguous and of any shape, which it adds up in place, and two process groups: `inside` has
# the ranks of this machine, `across` those with the same place on every machine. It returns
# nothing. Use `reduce_scatter_ring`, `all_reduce_ring` and `all_gather_ring` of chapter 02; if
# yours are not written yet, it runs on ours. A rank may send as much as the *Cost* in the docstring
# says, across and inside, and no more. A dot is what may be anything:
#
# | | rank 0 | rank 1 | rank 2 | rank 3 |
# |---|---|---|---|---|
# | machine | 0 | 0 | 1 | 1 |
# | at first | [1, 10] | [2, 20] | [3, 30] | [4, 40] |
# | after step 1 | [3, ·] | [·, 30] | [7, ·] | [·, 70] |
# | after step 2 | [10, ·] | [·, 100] | [10, ·] | [·, 100] |
# | after step 3 | [10, 100] | [10, 100] | [10, 100] | [10, 100] |

# %%
check("2.15")

# %%
def add_up(across_machines, collectives, nbytes, local_size):
    inside, across = across_machines.groups_by_machine(local_size)
    ways = {
        "ring": collectives.all_reduce_ring,
        "two levels": lambda x: across_machines.hierarchical_all_reduce(x, inside, across),
        "dist.all_reduce": dist.all_reduce,
    }
    for name, all_reduce in ways.items():
        x = torch.ones(nbytes // 4)
        all_reduce(torch.ones(2 * local_size))
        dist.barrier()
        with measure(name, memory=False):
            all_reduce(x)
        assert (x == dist.get_world_size()).all()

levels = {local_size: launch(add_up, across_machines, collectives, nbytes, local_size,
                             world_size=2 * local_size, machines=machines, device="cpu")
          for local_size in (2, 4)}

# %% tags=["nbval-ignore-output"]
def through_card(way, local_size):
    """By formula, in MB."""
    n = 2 * local_size
    return megabytes * (1 if way == "two levels" else 2 * (n - 1) / n)

Table(["ranks", "way", "leaves a machine, by formula", "its card counted", "time, by formula",
       "measured"],
      [[f"2 × {local_size}", way, f"{through_card(way, local_size):.2f} MB", cards_of(of_size, way),
        f"{through_card(way, local_size) * 1e9 / speed:.0f} ms",
        f"{1e3 * max(of_size[way].seconds):.0f} ms"]
       for local_size, of_size in levels.items() for way in of_size.labels])

# %% tags=["nbval-ignore-output"]
seconds = {way: [1e3 * max(of_size[way].seconds) for of_size in levels.values()]
           for way in levels[2].labels}
plot_bars(["2 × 2 ranks", "2 × 4 ranks"], seconds, "time (ms)",
          predicted={way: [through_card(way, size) * 1e9 / speed for size in levels]
                     for way in seconds},
          title=f"All-reduce of {megabytes:g} MB, by the bytes that leave a machine")

# %% [markdown]
# Two levels send a third less than the ring on 2 × 2 ranks, and $\frac{3}{7}$ less on 2 × 4. Gloo's
# own `all_reduce` is a flat ring: it knows nothing of machines. The formula for the time counts the
# cards alone; the steps inside come on top, and here all ranks share this computer's cores. Where
# links are equal, your function would be no better: each rank also sends $2\,\frac{L-1}{L}\,X$
# inside.

# %% [markdown]
# **On GPUs.** Inside of a machine, GPUs are joined by NVLink or by PCIe, the computer's own bus; of
# an H100, NVLink carries nine times what a network card of 400 Gb/s does (07b). NCCL finds out who
# shares what, and builds rings and trees that leave a machine as rarely as possible. A variable,
# `NCCL_ALGO`, chooses among them, says NCCL's
# [documentation](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html). None of this
# was measured here.

# %% [markdown]
# ## 4 · Pull the cable
#
# A real network fails. `machines.unplug(1, at_block="step", nth=3)` pulls the cable of machine 1 as
# its third step begins. Nobody is told: a network that is silent looks like one that is slow. So
# the ranks wait until the launch's `timeout`.

# %%
def ten_steps():
    for _ in range(10):
        with measure("step", memory=False):
            dist.all_reduce(torch.ones(250_000))

def try_it(machines, timeout=2):
    try:
        return launch(ten_steps, world_size=4, machines=machines, timeout=timeout)
    except (HangError, RankError) as error:
        print(error)

if machines:
    try_it(machines.unplug(1, at_block="step", nth=3))

# %% [markdown]
# If the cable comes back in time, nothing is lost: the kernel sends again what got no answer. It
# waits about 0.2 s before it tries, then 0.4 s more, then 0.8, and so on; so ranks may stand still
# for longer than the cable was out. Seconds of a plan count from the moment at which your function
# begins.

# %% tags=["nbval-ignore-output"]
if machines:
    plan = machines.unplug(1, after_seconds=0.2).plug(1, after_seconds=0.5)
    repaired = try_it(plan, timeout=20)
plot_timeline(repaired, cards=True, title="A cable is out for 0.3 s") if machines else None

# %% [markdown]
# A machine that dies takes its ranks along. *Break it*: also try `machines.slow(1, 5e6,
# at_block="step", nth=3)`, and in place of it `split([1], at_block="step", nth=3)`, which cuts the
# network in two halves.

# %% tags=["nbval-ignore-output"]
if machines:
    try_it(machines.kill(1, at_block="step", nth=3))

# %% [markdown]
# ## Put to the test
#
# What our sources say about links between machines. Most of it waits for chapters 04 and 09.

# %% jupyter={"source_hidden": true}
links = {"HDR": 200, "NDR": 400}  # generations of InfiniBand
put_to_the_test(f"""
- InfiniBand has 100 to 400 GB/s | web page | wrong unit |
  gigabits per second of a port: {", ".join(f"{name} {bits} Gb/s is {bits / 8:g} GB/s"
  for name, bits in links.items())}. Eight ports of a machine reach {8 * 400 / 8:g} GB/s (07b)
- LOCAL_RANK is 0 1 0 1 and RANK 0 1 2 3 on two machines with two ranks each | PyTorch slides |
  {"right" if machines else "not tested"} | LOCAL_RANK {" ".join(names[1] for names in found)},
  RANK {" ".join(names[0] for names in found)} (section 1)
""")

# %% [markdown]
# **Sources.** *Distributed Parallelism in Deep Learning* (web page); *Distributed training with
# PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)).
#
# **To read on.** Linux' manual on [network
# namespaces](https://man7.org/linux/man-pages/man7/network_namespaces.7.html), of which these
# machines are made, and on [tbf](https://man7.org/linux/man-pages/man8/tc-tbf.8.html), which limits
# their cards.

# %% [markdown]
# ## What you have learnt
#
# * The ranks of a machine share its **network card**. What counts is how many bytes leave it.
# * In a ring, the **order of ranks** decides that: side by side, two links leave; in turns, all do.
# * A **hierarchical all-reduce** adds up inside first. Then $2\,\frac{M-1}{M}\,X$ pass each card,
#   however many ranks a machine has.
# * A network that fails is silent. What was lost is sent again, if the cable comes back in time.
#
# **Your exercises** stand in the cells above and in
# [labs/across_machines.py](../labs/across_machines.py).
#
# **Next**: [03 · Data parallel](03_data_parallel.ipynb).

# %%
progress("02d")
