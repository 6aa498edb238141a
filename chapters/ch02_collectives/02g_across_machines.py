# %% [markdown]
# # {{title}}
#
# **What changes when a link is slow, and several ranks share it?** So far all ranks were on one
# machine, and messages passed through its memory. In a cluster, messages between machines pass a
# network card. It is much slower than memory, and several ranks may share it. You get such a
# cluster on your laptop. As far as the network is concerned, these are separate machines, and the
# operating system limits the speed of their cards.

# %% [markdown]
# ![Timeline of an all-reduce on four ranks of two machines, with two rows for the network cards:
# both are busy in both directions nearly all the time](../assets/covers/02g_across_machines.png)
#
# *Measured in section 1: while four ranks add up 4 MB, both cards are busy in both directions
# nearly all the time.*
#
# **After this part you can** run ranks on several machines, say which bytes pass a network card,
# choose an order of ranks, and write an all-reduce for slow links.
#
# {{takes}}

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
# `Machines(2, bytes_per_second=25e6)` describes two machines. Each has a network card of 25 MB/s,
# which is 200 Mbit/s. A launch with `machines=` puts the ranks on these machines.
#
# Linux makes this possible: it can give a process a network of its own, a **network namespace**,
# and needs no administrator for it. Ranks on one machine talk over its **loopback**, a network
# inside the machine. All other messages leave through the card of one machine, pass a switch, and
# enter through the card of the other one.

# %% [markdown]
# Some systems do not allow namespaces. `Machines.here` gives the same machines where it can.
# Elsewhere it gives `None`, and says why. Then the cells below run on one machine, and show no
# cards.
#
# (The operating system counts what a card carries, and it does that for ranks on the CPU. So these
# cells ask for `device="cpu"`.)

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
# `torchrun` sets the same variables on a cluster. `GROUP_RANK` is the number of the machine. Ranks
# 0 and 1 are on machine 0, and ranks 2 and 3 on machine 1.
#
# Now an all-reduce of $X$ bytes. Part 02d found out that Gloo's all-reduce is a ring. Each rank
# sends $2\,\frac{n-1}{n}X = 1.5\,X$ to the rank before it: 0 → 3 → 2 → 1 → 0. Which of these four
# links pass a network card? How many bytes leave a machine?

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
# Two of the four links leave a machine: 0 → 3 and 2 → 1. So $1.5\,X$ leave each machine, and as
# many bytes come in. In the picture, the area above a card's line is what the card sends, and the
# area below is what it receives. The dotted lines are its full speed. The cards are nearly full,
# and all ranks wait for them: 6 MB at 25 MB/s take 240 ms.
#
# Some ranks end earlier than others. A rank is done when it has the sum, and when the operating
# system has taken its last bytes.
#
# *Break it.* `Machines([3, 1], bytes_per_second=speed)` puts three ranks on machine 0. Do the cards
# carry less? (No: still one link leaves each machine.)

# %% [markdown]
# ## 2 · The order of ranks
#
# A ring may visit the ranks in any order, and the sum is the same. But the bytes that pass a card
# depend on the order. If the ranks of each machine stand side by side, one link leaves each
# machine. What if the ring goes 0, 2, 1, 3?

# %% [markdown]
# ### Exercise {{card_bytes}} · Ring bytes leaving each machine
#
# Write `card_bytes(order, machine_of, nbytes)`. Return a list with the bytes that leave each
# machine in a ring all-reduce, machine 0 first.
#
# * `order` is a list of the ranks, as the ring visits them. From the last one it goes back to the
#   first. It may be any order.
# * `machine_of` is a list of numbers: `machine_of[3]` is the machine of rank 3, and machines are
#   numbered from 0. A machine may have any number of ranks.
# * `nbytes` is the size of the tensor. The number of ranks need not divide it.
#
# If one machine has all ranks, 0 bytes leave it. For example, `card_bytes([0, 1, 2, 3], [0, 0, 1,
# 1], 4e6)` is `[6e6, 6e6]`: one link leaves each machine, and carries 1.5 times 4 MB.

# %%
def card_bytes(order, machine_of, nbytes):
    ### BEGIN SOLUTION
    n, leaving = len(order), [0.0] * (max(machine_of) + 1)
    for rank, following in zip(order, order[1:] + order[:1]):
        if machine_of[rank] != machine_of[following]:
            leaving[machine_of[rank]] += 2 * (n - 1) / n * nbytes
    return leaving
    ### END SOLUTION

check("{{card_bytes}}", card_bytes)

# %% [markdown]
# The lab's `ring_messages(x, order)` sends what a ring all-reduce of `x` sends, along a ring in the
# order that you give, and adds nothing up. Here are both orders on real cards. The time by formula
# is the bytes that leave a machine, divided by the speed of its card.

# %%
def measure_orders(across_machines, orders, nbytes):
    for order in orders:
        x = torch.ones(nbytes // 4)
        across_machines.ring_messages(torch.ones(4), order)  # opens the connections
        dist.barrier()
        with measure(str(order), memory=False):
            across_machines.ring_messages(x, order)

orders, nbytes = ([0, 1, 2, 3], [0, 2, 1, 3]), int(megabytes * 1e6)
ordered = launch(measure_orders, across_machines, orders, nbytes, world_size=4, machines=machines,
                 device="cpu")

# %% tags=["nbval-ignore-output"]
crossing = {"[0, 1, 2, 3]": 1, "[0, 2, 1, 3]": 2}  # links of the ring that leave machine 0
side_by_side, in_turns = (min(ordered[order].rounds) for order in crossing)
print(f"in turns: {in_turns / side_by_side:.1f} times as long as side by side")
Table(["order", *across_machines.CARD_COLUMNS],
      [[order, *across_machines.card_row(ordered, order, links * 1.5 * nbytes, speed)]
       for order, links in crossing.items()])

# %% [markdown]
# In turns, every link leaves a machine: two links leave each. So the same algorithm sends twice the
# bytes, and by the formula it takes twice the time. `torchrun` numbers the ranks of a machine one
# after another: if all machines have equally many, `RANK` is `GROUP_RANK × LOCAL_WORLD_SIZE +
# LOCAL_RANK`. A ring in the order of ranks then crosses as rarely as possible.

# %% [markdown]
# ## 3 · Two levels
#
# Even in the best order, each number travels round the whole ring, and passes both cards. But the
# ranks of a machine can add up *before* anything leaves it. A **hierarchical all-reduce** has three
# steps:
#
# 1. a reduce-scatter *inside* each machine. Then each of its ranks has one chunk of the machine's
#    sum;
# 2. an all-reduce of that chunk *across* machines, among the ranks with the same place;
# 3. an all-gather *inside* each machine. Then every rank has all chunks.

# %% [markdown]
# Take $M$ machines with $L$ ranks each. A rank's chunk has $X/L$ bytes, and step 2 is a ring of $M$
# ranks. So a rank sends $2\,\frac{M-1}{M}\,\frac{X}{L}$ to other machines. The $L$ ranks of a
# machine together send $2\,\frac{M-1}{M}\,X$ through its card. On two machines that is $1\,X$,
# however many ranks they have. A ring over all $n$ ranks on one level, a **flat** ring, sends
# $2\,\frac{n-1}{n}\,X$ through it.

# %% [markdown]
# ### Exercise {{hierarchical_all_reduce}} · Write a hierarchical all-reduce
#
# Write `hierarchical_all_reduce(x, inside, across)` in
# [labs/across_machines.py](../labs/across_machines.py). It adds up `x` in place, and returns
# nothing. `x` is contiguous and has any shape; its length need not be a multiple of anything.
# `inside` is the process group of the ranks of this machine. `across` is the group of the ranks
# with the same place on every machine. The ranks may be spread over the machines in any order. Use
# `reduce_scatter_ring`, `all_reduce_ring` and `all_gather_ring` of part 02c. Those that you have
# not written yet are there, solved. A rank may send $2\,\frac{M-1}{M}\frac{X}{L}$ bytes across and
# $2\,\frac{L-1}{L}X$ inside, in the dtype of `x`, and no more.
#
# | | rank 0 | rank 1 | rank 2 | rank 3 |
# |---|---|---|---|---|
# | machine | 0 | 0 | 1 | 1 |
# | at first | [1, 10] | [2, 20] | [3, 30] | [4, 40] |
# | after step 1 | [3, ·] | [·, 30] | [7, ·] | [·, 70] |
# | after step 2 | [10, ·] | [·, 100] | [10, ·] | [·, 100] |
# | after step 3 | [10, 100] | [10, 100] | [10, 100] | [10, 100] |
#
# A dot may be any number.

# %%
check("{{hierarchical_all_reduce}}")

# %% [markdown]
# Halving-doubling (part 02e) sends few bytes in few messages. How many bytes does it send through
# the card of a machine with four ranks? In the lab's order, its first partner is `rank ^ 4`, on the
# other machine.

# %%
far_guess = predict(f"Halving-doubling of {megabytes:g} MB on 2 × 4 ranks: bytes that leave "
                    "a machine", unit="MB")

# %%
levels = {local_size: launch(across_machines.compare_all_reduces, nbytes, local_size, 3,
                             world_size=2 * local_size, machines=machines, device="cpu")
          for local_size in (2, 4)}  # each way three times

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
block = levels[4]["halving-doubling"]
leaving = block.cards[0].sent_bytes if machines else sum(block.sent_bytes[:4])
far_guess.compare(4 * megabytes, leaving / 3 / 1e6, kind="communication")  # of three rounds

# %% tags=["nbval-ignore-output"]
Table(["ranks", "way", *across_machines.CARD_COLUMNS],
      [[f"2 × {size}", way, *across_machines.card_row(
          run, way, across_machines.bytes_through_card(way, size, nbytes), speed)]
       for size, run in levels.items() for way in run.labels],
      title="Quickest of three rounds")

# %% tags=["nbval-ignore-output"]
seconds = {way: [1e3 * min(run[way].rounds) for run in levels.values()]
           for way in levels[2].labels}
theory = {
    way: [across_machines.bytes_through_card(way, size, nbytes) / speed * 1e3 for size in levels]
    for way in seconds
}
plot_bars(["2 × 2 ranks", "2 × 4 ranks"], seconds, "time (ms)", predicted=theory,
          title=f"All-reduce of {megabytes:g} MB, by the bytes that leave a machine")

# %% [markdown]
# Two levels send a third less than the ring on 2 × 2 ranks, and $\frac{3}{7}$ less on 2 × 4. Gloo's
# own `all_reduce` sends as much as a flat ring in the order of ranks. The formula for the time
# counts the cards alone. The steps inside a machine come on top, and here all ranks share this
# computer's cores.
#
# With more machines the gain in bytes shrinks: on 8 machines of 8 ranks, 1.75 X leave a machine,
# and 1.97 X with the flat ring. But there are fewer messages: 28 follow each other, not 126.

# %% [markdown]
# Halving-doubling in the lab's order sends most through the cards. Its largest messages cross:
# $\frac{X}{2}$ from each of four ranks, twice. With the *nearest* partner first, only $\frac{X}{8}$
# from each rank would cross, twice. That is $1\,X$ for the machine, as with two levels. So the best
# algorithm depends on who shares which link.

# %% [markdown]
# And if all links are equal? Then two levels save no bytes: with the $2\,\frac{L-1}{L}\,X$ inside,
# a rank sends $2\,\frac{n-1}{n}\,X$, as in the flat ring. But they save messages: $2(L-1) + 2(M-1)$
# follow each other, where the flat ring has $2(n-1)$. Take 8 ranks as 2 × 4, a small tensor of 12.8
# kB, and links of 10 ms and 20 MB/s between all of them. Then 8 messages follow each other, and not
# 14.

# %% tags=["nbval-ignore-output"]
equal = launch(
    across_machines.time_on_equal_links, 12_800, 4, 0.010, 20e6, world_size=8, device="cpu"
)
took = {way: ms for way, (ms,) in lab("message_costs").slowest_rank(equal.values).items()}
of_bytes = 1.75 * 12_800 / 20e6 * 1e3
Table(["way", "messages in turn", "time, by the model of part 02e", "measured"],
      [[way, count, f"{count * 10 + of_bytes:.0f} ms", f"{took[way]:.0f} ms"]
       for way, count in (("ring", 14), ("two levels", 8))], title="All links equal, 12.8 kB")

# %% [markdown]
# **On GPUs.** Inside a machine, GPUs are joined by NVLink or by PCIe, the computer's own bus. An
# H100's NVLink carries nine times what a network card of 400 Gb/s does (07g). A machine often has
# several cards. In many clusters, the first cards of all machines share one switch, the second
# cards another one, and so on: such a switch is a **rail**.
#
# NCCL cuts a collective into **channels**, and each has its own ring or tree. Between machines a
# channel stays on one rail if it can, says [NCCL's
# documentation](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html) under
# `NCCL_CROSS_NIC`. A GPU may also hand its data over NVLink to the GPU beside the right card (PXN).
# None of this was measured here.

# %% [markdown]
# **The first day on a cluster** often goes wrong because a library takes the wrong network. Two
# variables choose the interface, as the table of section 1 shows for this launch:
# `GLOO_SOCKET_IFNAME` for Gloo, and `NCCL_SOCKET_IFNAME` for NCCL. `NCCL_IB_HCA` names the RDMA
# cards. If NCCL finds none, it sends over TCP, without an error and more slowly. With
# `NCCL_DEBUG=INFO` its log tells: `NET/IB : Using …` is RDMA, and `NET/Socket : Using …` is TCP
# ([NCCL's documentation](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html);
# [its source](https://github.com/NVIDIA/nccl/tree/5067397c2676d5aed50042fc39e5c8ee96eb0027/src/transport)
# prints these lines). No NCCL ran here.

# %% [markdown]
# ## 4 · Pull the cable
#
# Real networks fail. `machines.unplug(1, at_block="step", nth=3)` pulls the cable of machine 1 when
# its third block `step` begins. Nobody is told: a silent network looks like a slow one. So the
# ranks wait until the launch's `timeout`.

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
# The report names the machine: here it can ask the emulated switch. On a real cluster, you only see
# ranks that wait in a call.
#
# If the cable comes back in time, nothing is lost. The operating system sends again what was not
# confirmed. After one early probe, it waits at least 0.2 s before it tries again, and each time
# without an answer twice as long. So ranks may stand still for longer than the cable was out. (The
# seconds of a plan count from the moment at which your function begins.)

# %% tags=["nbval-ignore-output"]
if machines:
    plan = machines.unplug(1, after_seconds=0.2).plug(1, after_seconds=0.5)
    repaired = try_it(plan, timeout=20)
    display(plot_timeline(repaired, cards=True, title="A cable is out for 0.3 s"))

# %% [markdown]
# *Break it.* Three more things can happen:
#
# * a card becomes slow: `slow = try_it(machines.slow(1, 5e6, at_block="step", nth=3), timeout=20)`.
#   Draw it with `plot_timeline(slow, cards=True)`: from the third step on, both cards carry 5 MB/s
#   at most. All ranks succeed, so no error tells you;
# * the network falls in two halves: `try_it(machines.split([1], at_block="step", nth=3))`. All four
#   ranks wait until the timeout. The report names both halves;
# * a machine dies, and takes its ranks along: `try_it(machines.kill(1, at_block="step", nth=3))`.
#   The launch notices that and ends at once, with a `RankError`.

# %% [markdown]
# ## Put to the test
#
# What our sources say about links between machines. More of it follows in chapters 04 and 09.

# %% jupyter={"source_hidden": true}
# Statements of the sources, and what was found.
links = {"HDR": 200, "NDR": 400}  # generations of InfiniBand
put_to_the_test(f"""
- [C162] InfiniBand has 100 to 400 GB/s; or more than 200 GB/s | web page, “High Bandwidth
  Required”; “Communication Hierarchy” | wrong unit |
  gigabits per second of a port: {", ".join(f"{name} {bits} Gb/s is {bits / 8:g} GB/s"
  for name, bits in links.items())}. Eight NDR ports reach {8 * 400 / 8:g} GB/s together, and the
  NVLink beside them is of one GPU |
  documented: NVIDIA's data sheets of InfiniBand adapters give Gb/s for a port; newer generations
  (XDR: 800 Gb/s) are faster, and the unit stays
""")

# %% [markdown]
# **Source.** *Distributed Parallelism in Deep Learning* (web page).
#
# **To read on.** Linux' manual on [network
# namespaces](https://man7.org/linux/man-pages/man7/network_namespaces.7.html), of which these
# machines are made, and on [tbf](https://man7.org/linux/man-pages/man8/tc-tbf.8.html), which limits
# their cards.

# %% [markdown]
# ## What you have learnt
#
# * The ranks of a machine share its **network card**. What counts is how many bytes leave the
#   machine.
# * In a ring, the **order of ranks** decides that. Side by side, one link leaves each machine; in
#   turns, all of them do.
# * A **hierarchical all-reduce** adds up inside first. Then $2\,\frac{M-1}{M}\,X$ pass each card,
#   however many ranks a machine has. On equal links it saves only messages.
# * Which algorithm is best depends on who shares which link. Halving-doubling with the farthest
#   partner first sends most through a card.
# * A network that fails is silent. What was lost is sent again if the cable comes back.
#
# **Your exercises** stand in the cells above and in
# [labs/across_machines.py](../labs/across_machines.py).
#
# **Next**: {{next}}.

# %%
progress("02g")
