# %% [markdown]
# # {{title}}
#
# **What does `DistributedDataParallel` do for you, and what does it leave to you?** In
# [03c](03c_inside_ddp.ipynb) and [03d](03d_not_each_time.ipynb) you wrote buckets, hooks and
# `no_sync` yourself. Here you work with the real class. First you compare it with yours. Then you
# look at what it sends and what it keeps in memory. Replicas drift apart, and DDP does not notice
# it. At the end you compile it.

# %% [markdown]
# ![Lines over training steps: the distance between two replicas grows without synchronisation,
# stays if the start was unequal, shrinks with weight decay](../assets/covers/03e_ddp_at_work.png)
#
# *Measured in section 5: how far two replicas drift apart that should be equal. No error is
# raised.*
#
# **After this part you can** read DDP's options, count what it sends and keeps, find replicas that
# drift apart, and say what `torch.compile` does to its buckets.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import copy
import textwrap

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pedagogy_lib import (
    RankError, Table, check, close, hint, lab, launch, measure, plot_against, plot_stacks, predict,
    progress, put_to_the_test,
)

# %% tags=["parameters"]
world_size = 4
drift_steps = 500

# %%
data_parallel, language_model = lab("data_parallel"), lab("language_model")
options, compiled = lab("ddp_options"), lab("compiled_ddp")
text, digits = language_model.standard_library(), lab("gradient_accumulation").digits()

# %% [markdown]
# ## 1 · The same numbers, the same bytes
#
# DDP does the same as your class of 03c, in C++. Does it leave the same gradients, and does it send
# the same number of bytes? Both classes get the same model and the same batch. (The ranks run on
# the CPU wherever bytes are compared: there the operating system counts them.)

# %%
def side_by_side(data_parallel, model, loss_fn, batch):
    yours = data_parallel.DDP(copy.deepcopy(model))
    real = DistributedDataParallel(model)
    inputs, targets = batch
    for label, ddp in {"yours": yours, "DDP": real}.items():
        for _ in range(3):
            ddp.zero_grad()
            loss = loss_fn(ddp(inputs), targets)
            with measure(label):  # three rounds, added up
                loss.backward()
                if ddp is yours:
                    ddp.finish()
    return [[p.grad for p in ddp.parameters()] for ddp in (yours, real)]

# %% tags=["nbval-ignore-output"]
model = language_model.Transformer(16, layers=1, context=16, tied=True).double()
batch = language_model.draw_batch(text, 8, 0, 16)
both = launch(side_by_side, data_parallel, model, language_model.mean_loss, batch,
              world_size=world_size, device="cpu")
print("the same gradients, but for rounding:", all(close(*pair) for pair in both.values))
sent = {label: both[label].sent_bytes[0] for label in ("yours", "DDP")}
print(f"bytes sent by rank 0: yours {sent['yours']:,}, DDP {sent['DDP']:,}")

# %% [markdown]
# To whom do the bytes go? DDP does not choose that: it calls `all_reduce`, and the backend chooses.
# A ring can be recognised by its partners. In a ring, a rank sends everything to one neighbour.

# %% tags=["nbval-ignore-output"]
sent_to = both["DDP"].traffic()
for rank, row in enumerate(sent_to):
    shares = [f"{count / sum(row):.1%}" for count in row]
    print(f"rank {rank} sends to ranks 0, 1, …:", *shares)
print("bytes are", both["DDP"].wire)

# %% [markdown]
# Each rank sends nearly all to one other rank, its neighbour: Gloo uses a ring here. (If the last
# line says *counted*, this system does not tell to whom bytes go. Then the course counts the calls,
# and assumes a ring.) The number of bytes alone would not tell: halving-doubling of part
# [02e](02e_what_a_message_costs.ipynb) sends equally many, to $\log_2 n$ partners.
#
# **On GPUs** NCCL has rings, trees and others. It chooses by the size of the call, the number of
# machines and their links, says one of its developers ([issue
# 754](https://github.com/NVIDIA/nccl/issues/754)). So "DDP uses a ring" is true here, and not in
# general.

# %% [markdown]
# ## 2 · Its buckets
#
# Which gradients travel together? DDP does not print it. But it lets you replace its all-reduce by
# a function of your own, a **communication hook**. DDP calls the hook with each bucket that is
# full. The hook begins an all-reduce and returns a *future*, which will have the result. This hook
# does what DDP does: it divides by the number of ranks, and sums over the ranks. It also notes the
# bucket's size.

# %%
def note_size(sizes, bucket):
    sizes.append(round(bucket.buffer().nbytes / 2**20, 2))  # in MiB
    average = bucket.buffer() / dist.get_world_size()
    future = dist.all_reduce(average, async_op=True).get_future()
    return future.then(lambda done: done.value()[0])  # the result is a list with one tensor

# %% [markdown]
# The model has eight layers of 512 × 512, which are 8 MiB of gradients. Each choice of options gets
# a model of its own. The times are medians. In brackets stands the range that holds eight of ten
# rounds: the fastest and the slowest tenth are left out.

# %%
choices = {"default": {}, "bucket_cap_mb=25": {"bucket_cap_mb": 25},
           "bucket_cap_mb=4": {"bucket_cap_mb": 4}, "bucket_cap_mb=0.1": {"bucket_cap_mb": 0.1},
           "find_unused_parameters=True": {"find_unused_parameters": True}}
buckets = {name: launch(options.buckets_of, note_size, chosen, world_size=2).values[0]
           for name, chosen in choices.items()}
times = launch(options.step_times, list(choices.values()), world_size=2).values[0]

# %% tags=["nbval-ignore-output"]
def format_sizes(sizes):
    return " ".join(map(str, sizes)) if len(sizes) < 6 else f"{len(sizes)} × {sizes[0]}"

Table(["options", "first iteration (MiB)", "from the second on", "forward and backward"],
      [[name, format_sizes(first), format_sizes(last), options.median_and_range(seconds)]
       for (name, (first, _, last)), seconds in zip(buckets.items(), times)])  # 3 iterations

# %% [markdown]
# * **Buckets are not equally large.** A bucket is closed when it reaches the cap. A tensor is never
#   split.
# * **In the first iteration all gradients are in one bucket.** DDP does not know yet in which order
#   they become ready. After it, DDP knows, and builds its buckets anew. Where `bucket_cap_mb` is
#   not set, the first bucket has only 1 MiB, so that communication can begin early.
# * **With `find_unused_parameters=True`** DDP makes its buckets at once and keeps them (two, for 8
#   MiB): the order of gradients may change. The small one holds the *first* layers. It leaves last,
#   and helps nothing.
#
# Which cap is best depends on model and links. Where two ranges overlap, these times do not tell.

# %% [markdown]
# ## 3 · What else travels
#
# DDP expects a gradient of every parameter in every backward. What if a layer is not used? Then its
# bucket never becomes full. DDP notices it when the next forward begins.

# %%
def skip_a_layer(options, find):
    ddp = DistributedDataParallel(options.TwoLayers(), find_unused_parameters=find)
    for _ in range(2):
        ddp(options.some_inputs(), both=False).sum().backward()
    return ddp.module.second.weight.grad is None

try:
    launch(skip_a_layer, options, False, world_size=2)
except RankError as error:
    print(textwrap.fill(str(error.exception).split(" to `torch")[0], 84))
found = launch(skip_a_layer, options, True, world_size=2)
print("with find_unused_parameters=True, .grad of the unused layer is None:", found.values[0])

# %% [markdown]
# With `find_unused_parameters=True`, DDP walks through the graph before each backward. Then all
# ranks tell each other which parameters they have used. That is one more all-reduce. Are the same
# parameters unused in every step? Then `static_graph=True` tells DDP so, and it walks only once: in
# its first backward, which therefore must not be inside `no_sync`.
#
# Gradients are not all that travels. In a forward, DDP also sends the buffers of rank 0 to all
# others (part 03: tensors that are not trained, such as BatchNorm's running mean). Under `no_sync`
# it does so only in the first forward after gradients were sent.

# %% [markdown]
# Eight linear layers of width 512 have a BatchNorm after each. Its buffers are a mean and a
# variance for each feature, and a counter of 8 bytes. How many kilobytes does rank 0 send in a
# forward, to one rank?

# %%
of_buffers = predict("Rank 0 sends in a forward, with 8 BatchNorm layers of width 512", unit="kB")

# %% tags=["nbval-ignore-output"]
models = {  # name: (layers between the linear ones, options of DDP)
    "plain": ([], {}),
    "find_unused_parameters": ([], {"find_unused_parameters": True}),
    "static_graph": ([], {"static_graph": True}),
    "with BatchNorm": ([nn.BatchNorm1d], {}),
    "BatchNorm, buffers not synced": ([nn.BatchNorm1d], options.BUFFERS_NOT_SYNCED),
}
sent_with = launch(options.send_with, models, world_size=2, device="cpu")
Table(["", "rank 0 sends in a forward", "in a backward", "all-reduces"],
      [options.what_was_sent(name, sent_with) for name in models])

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured: two float32 a feature, one int64 a layer.
buffers = sent_with["with BatchNorm: forward"].sent_bytes[0] / 1e3
of_buffers.compare(8 * (2 * 512 * 4 + 8) / 1e3, buffers, kind="communication")

# %% [markdown]
# `find_unused_parameters` costs one small all-reduce more. BatchNorm costs a broadcast in each
# forward. Its weights are trained, so their gradients add 33 kB to the backward.
#
# The option of the last row is called `forward_sync_buffers` since PyTorch 2.13. Until 2.12 it was
# `broadcast_buffers`, and the lab takes whichever your PyTorch has. There is one difference:
# `broadcast_buffers=False` also leaves the buffers unequal at the start.

# %% [markdown]
# A hook may send something else than the gradients. PyTorch has hooks that send fewer bytes; part
# [03j](03j_fewer_bytes.ipynb) measures them. `note_size` divided by the number of ranks. What if a
# hook forgets it? Here is one that sums up, and does nothing more.

# %%
def only_sum(state, bucket):
    future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
    return future.then(lambda done: done.value()[0])

def gradient_with(options, hook=None):
    ddp = DistributedDataParallel(options.eight_layers())
    if hook:
        ddp.register_comm_hook(None, hook)
    ddp(options.some_inputs()).sum().backward()
    return ddp.module[0].weight.grad

plain = launch(gradient_with, options, world_size=world_size).values[0]
summed = launch(gradient_with, options, only_sum, world_size=world_size).values[0]
print(f"with this hook, gradients are {summed.norm() / plain.norm():.2f} times as large")

# %% [markdown]
# The gradients are $n$ times too large. `all_reduce` sums. It is DDP that divides, and it does so
# only if there is no hook. **Your hook has to divide.** Nothing reports it if it does not.
#
# With SGD the training goes on with $n$ times the learning rate. Adam hides the mistake (part
# [03](03_data_parallel.ipynb), section 3), until you clip gradients.

# %% [markdown]
# ## 4 · Memory
#
# Take plain SGD, without momentum. Count in sizes of the model: when the optimizer takes its step,
# the weights are 1 and the gradients are 1. How much does a rank hold with DDP?

# %%
held = predict("Memory of a rank in the optimizer's step, in sizes of the model", unit="models")

# %%
def hold(options, view):
    with measure("from the start"):  # so that all its tensors are known
        ddp = DistributedDataParallel(options.eight_layers(), gradient_as_bucket_view=view)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-3)
        for step in range(3):
            optimizer.zero_grad()
            ddp(options.some_inputs()).sum().backward()
            with measure(f"step {step}"):
                optimizer.step()
    return sum(p.nbytes for p in ddp.parameters())

# %% tags=["nbval-ignore-output"]
of_view = {view: launch(hold, options, view, world_size=2, device="cpu") for view in (False, True)}
model_bytes = of_view[False].values[0]
names = {False: "default", True: "gradient_as_bucket_view=True"}
plot_stacks({names[view]: run["step 2"].peak_bytes[0] for view, run in of_view.items()},
            title="What a rank holds in the optimizer's step (communication: the buckets)")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
peak = {view: run["step 2"].peak_bytes[0]["total"] / model_bytes
        for view, run in of_view.items()}
held.compare(3, peak[False], kind="communication")

# %% [markdown]
# Weights, gradients, and the buckets: three models. Buckets are tensors of their own. DDP copies
# each gradient into its bucket, and the average back.
#
# With `gradient_as_bucket_view=True`, each `.grad` is a piece of its bucket. Nothing is copied, and
# one model of memory is saved. One restriction, says its documentation: you cannot call `detach_()`
# on such gradients. With Adam a rank holds two models more in any case (chapter 05).

# %% [markdown]
# ## 5 · Replicas that drift
#
# DDP never compares weights. It makes the start equal and the gradients equal. Replicas stay equal
# as long as all ranks take the same steps. Here are five mistakes. **None of them raises an
# error**:
#
# * every backward stands under `no_sync`;
# * the forward calls `ddp.module` in place of `ddp`;
# * gradients are averaged by hand, and the start was not made equal;
# * gradients are averaged by hand, the start was not made equal, and there is a weight decay of
#   0.02;
# * each rank sets its learning rate by its own loss.

# %%
apart = {mistake: launch(options.drift, mistake, digits, drift_steps, world_size=2).values[0]
         for mistake in options.MISTAKES}
print("without a mistake, replicas are bitwise equal:", not any(apart["none"]))
same = apart["ddp.module called"] == apart["no_sync everywhere"]
print("ddp.module gives the same as no_sync, bit by bit:", same)

# %% tags=["nbval-ignore-output"]
marks = [mark for mark in options.MARKS if mark <= drift_steps]
Table(["mistake", "distance after step 1", f"after step {marks[-1]}", "grown by"],
      [[name, f"{far[0]:.3f}", f"{far[-1]:.3f}", f"{far[-1] / far[0]:.2f} ×"]
       for name, far in apart.items() if name != "none"])

# %% tags=["cover", "nbval-ignore-output"]
lines = {name: apart[name] for name in options.MISTAKES[1:] if name != "ddp.module called"}
plot_against(marks, lines, "training steps", "distance between two replicas", logarithmic=True,
             title="Two replicas that should be one")

# %% [markdown]
# * `ddp.module` goes past DDP's forward, in which DDP prepares to communicate. So it does the same
#   as `no_sync`: two trainings, each on half of the data. The distance grows.
# * An unequal start stays unequal: the same gradient moves both replicas by the same step. Weight
#   decay shrinks the difference, by a factor of 1 − learning rate × decay in each step.
# * With learning rates of their own, replicas are closer than with the other mistakes at first. But
#   the distance grows about as fast as without any communication. You would notice this one last.

# %% [markdown]
# What helps is to compare the replicas now and then. `apart` in
# [labs/data_parallel.py](../labs/data_parallel.py) does it with one broadcast of the model and one
# all-reduce of a number. Part [04c](04c_finding_out.ipynb) does it with a few bytes, and finds the
# rank that is wrong.

# %% [markdown]
# ## 6 · DDP and torch.compile
#
# `torch.compile` turns a forward into a **graph**, makes the graph of its backward as well, and
# runs each of them as one piece. DDP needs the opposite: its all-reduces start while the backward
# is running, because a bucket leaves as soon as its gradients are ready. One backward graph for the
# whole model returns all gradients at its end.
#
# The compiler therefore cuts the model, from the last layer on, into pieces of `bucket_cap_mb`,
# unless `torch._dynamo.config.optimize_ddp` is off. Its first piece is full with 1 MiB, as DDP's
# first bucket is where no cap is set (section 2). The model has eight layers of 1 MiB. How many
# graphs does it become with `bucket_cap_mb=2`?

# %%
pieces = predict("Eight layers of 1 MiB, bucket_cap_mb=2: the model is cut into", unit="graphs")

# %% tags=["nbval-ignore-output"]
traced = {(cut, cap): launch(compiled.run_compiled, cut, cap, world_size=2).values[0]
          for cut, cap in ((True, 2), (True, 1), (True, None), (False, 1), (None, 1))}
for (cut, cap), (events, *_) in list(traced.items())[:-1]:
    print(f"optimize_ddp={cut!s:5}, cap {cap!s:4}: {compiled.describe_events(events)}")
print("number: the backward of a graph starts; [number]: the all-reduce of so many MiB starts")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
pieces.compare(1 + 3 + 1, compiled.count_graphs(traced[True, 2][0]))

# %% tags=["nbval-ignore-output"]
_, eager, _ = traced[None, 1]
Table(["optimize_ddp", "bucket_cap_mb", "graphs", "sent before the last one", "gradients equal",
       "first step"],
      [[cut, "not set" if cap is None else cap, compiled.count_graphs(events),
        f"{compiled.hidden_share(events):.0%}", close(gradients, eager), f"{seconds:.1f} s"]
       for (cut, cap), (events, gradients, seconds) in traced.items() if cut is not None],
      note="share of the bytes whose all-reduces start before the backward of the last graph does")

# %% [markdown]
# With a cap of 1, and where no cap is set, graphs end where buckets do. With 2 they do not, because
# DDP's own first bucket then has 2 MiB and the compiler's first piece has 1: **each bucket is
# complete one graph later**. Without cuts, all buckets start when the only backward has ended, so
# that nothing is left to hide them. The gradients are the same in each case.

# %% [markdown]
# (The graphs ran without generated code here, through a backend that only notes what runs, so that
# no C++ compiler is needed. By default Inductor generates code; part
# [06h](06h_sharding_engines.ipynb) times it.)
#
# **On GPUs** the cuts are the same, because they are made by the tracer before any backend sees a
# graph ([source](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_dynamo/backends/distributed.py)).
# `optimize_ddp="python_reducer"` is another way, without cuts; it was not tried here.
# The names of parameters change: `torch.compile(model)` puts `_orig_mod.` before each.
# `model.compile()` changes the model in place, and leaves its names.

# %% [markdown]
# ### Exercise {{compiled_step}} · Debug a compiled DDP step
#
# A colleague has compiled a training step. The loss falls on every rank. Read the function, then
# its symptoms.

# %%
def compiled_step(model, compile_it, loss_fn):
    ddp = DistributedDataParallel(model)
    ### BEGIN SOLUTION
    forward = compile_it(ddp)
    ### IT WAS
    # forward = compile_it(model)
    ### END SOLUTION

    def step(inputs, targets):
        ddp.zero_grad()
        ### BEGIN SOLUTION
        loss = loss_fn(forward(inputs), targets)
        ### IT WAS
        # loss = loss_fn(forward(inputs), targets) / dist.get_world_size()
        ### END SOLUTION
        loss.backward()
        return loss.detach()

    return step

# %%
found_here = launch(compiled.symptoms, compiled_step, world_size=2).values
print("the gradient begins on ranks 0 and 1 with", *(f"{number:.4f}" for number in found_here))
print(f"in one process with all samples, with {compiled.right_gradient(2):.4f}")

# %% [markdown]
# If the two ranks differ, their replicas drift apart, as in section 5. If they are equal and yet
# not as in one process, a factor is wrong. Repair `compiled_step`, which has two mistakes. It gets
#
# * `model`, the same on every rank,
# * `compile_it(module)`, which is `torch.compile` with a backend,
# * `loss_fn(outputs, targets)`, a mean over this rank's samples.

# %% [markdown]
# It returns `step(inputs, targets)`, which takes this rank's samples, clears old gradients, runs a
# compiled forward, and leaves in `.grad` the mean gradient over the samples of all ranks, for which
# each gradient is exchanged once. It returns this rank's loss, as `loss_fn` gives it, without a
# graph.
#
# For example, with one weight $w = 1$ and the loss $w \cdot x$, rank 0 has $x = 2$ and rank 1 has
# $x = 4$. Both get the gradient 3; rank 0's step returns 2, and rank 1's returns 4.

# %%
check("{{compiled_step}}", compiled_step)

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true}
cap = options.describe_quickest([*choices][:4], times[:4])
default = launch(options.default_cap, world_size=1, device="cpu").values[0] / 2**20  # in MiB
is_ring = both["DDP"].wire == "measured" and options.looks_like_a_ring(sent_to)
more = (sent_with["find_unused_parameters: backward"].sent_bytes[0]
        - sent_with["plain: backward"].sent_bytes[0])
others = f"""
- [C082] Set find_unused_parameters=True for dynamic graphs | web page, “Key DDP Behaviors” |
  {"right" if found.values[0] else "wrong here"} | without it, the next forward raises an error;
  with it, .grad of the unused layer is None: {found.values[0]} (section 3, run) | measured: nothing
  about the error; how long the search takes is expected to differ on GPUs. With
  static_graph=True, DDP does not search in each step (its documentation)
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
surprises = f"""
- [C061] Buckets are of equal size | PyTorch slides, “Computation-Communication overlap:
  bucketing” | {"wrong" if len(set(buckets["default"][-1])) > 1 else "right here"} | a model of 8
  MiB, by default: buckets of {format_sizes(buckets["default"][-1]).replace(" ", " and ")} MiB,
  and of {format_sizes(buckets["default"][0])} in the first iteration (section 2, table) |
  measured: nothing; the reducer cuts by its caps, whatever the backend
- [C062] PyTorch recommends 25 MB as the size | PyTorch slides, “Computation-Communication overlap:
  bucketing” | {"imprecise" if default == 25 else "wrong here"} | {default:g} MiB is what DDP takes
  if nobody says otherwise (a run in this section). Quickest of four in this run: {cap} (section 2,
  table, compared round by round) | measured: nothing about the default; on GPUs, too, the best size
  depends on model and links, as DDP's paper measures (arXiv 2006.15704)
- [C065] Sending gradients is the only communication of DDP in a batch | web note, “Conclusion” |
  {"imprecise" if buffers > 1 else "right here"} | buffers go in a forward: {buffers:.1f} kB
  with 8 BatchNorm layers (section 3, table). With find_unused_parameters a rank sends {more:,}
  bytes more (of the same run, counted in this section) | measured: over Gloo; DDP sends buffers
  over NCCL, too (its documentation)
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
put_to_the_test(surprises + f"""
- [C078] DDP uses a ring all-reduce | handwritten notes, “DDP Distributed Data Parallel”; blog,
  “Distributed Data Parallelism” | imprecise | the backend chooses, says NCCL's documentation
  (NCCL_ALGO). Gloo's messages here {"do form" if is_ring else "were not seen as"} a ring: rank 0
  sends {sent_to[0][-1] / sum(sent_to[0]):.1%} of its bytes to rank {world_size - 1} (section 1,
  run) | documented: the ring was measured over Gloo; NCCL has trees and sums in the switch, too,
  and chooses for each call, says its documentation
- [C081] All-reduce divides by the world size automatically | web page, “Key DDP Behaviors” |
  {"imprecise" if summed.norm() > 1.5 * plain.norm() else "right here"} | DDP divides, and the
  all-reduce does not. With a hook that only sums, gradients are
  {summed.norm() / plain.norm():.2f} times as large (section 3, run) | measured: nothing; DDP's own
  code divides, on every backend. NCCL also has an all-reduce that averages
  (ReduceOp.AVG in PyTorch's documentation)
""", more=others)

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)); *Distributed Parallelism in
# Deep Learning* (web page); *The Evolution of Data Parallelism* (blog); a web note on types of
# distributed training; handwritten notes.
#
# **To read on.** PyTorch's
# [DistributedDataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html),
# all options; Li et al., [PyTorch Distributed](https://arxiv.org/abs/2006.15704), 2020.

# %% [markdown]
# ## What you have learnt
#
# * DDP gives the gradients of your own class, and sends the same bytes. It is the backend that
#   chooses a ring.
# * It sends buffers in each forward, and keeps buckets beside the gradients. With
#   `gradient_as_bucket_view=True` they are the same memory. A hook has to divide by itself.
# * DDP never compares weights. Replicas drift apart without an error.
# * `torch.compile` cuts a model by `bucket_cap_mb`, so that all-reduces still start during the
#   backward. Where a cap is set, its cuts need not be DDP's. Compile the DDP module, and call what
#   `torch.compile` returns.
#
# **Your exercise**, {{compiled_step}}, stands in a cell above.
#
# **Next**: {{next}}.

# %%
progress("03e")
