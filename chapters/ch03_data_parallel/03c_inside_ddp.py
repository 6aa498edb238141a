# %% [markdown]
# # {{title}}
#
# **How does `DistributedDataParallel` hide its communication?** In
# [03 · Data parallel](03_data_parallel.ipynb) you averaged each gradient by itself, after the
# backward. The result was right. Here you make it cheaper, in two steps: gradients travel in
# **buckets**, and a bucket travels **while the backward is still running**. PyTorch's DDP does the
# same. Part [03e](03e_ddp_at_work.ipynb) puts yours beside it.

# %% [markdown]
# ![Four ranks in the middle of a backward: the gradients of bucket 0 are ready, and its all-reduce
# begins while bucket 1 still waits](../assets/covers/03c_inside_ddp.png)
#
# *A frame of the film in section 2, recorded from four real ranks: a full bucket leaves while the
# backward goes on.*
#
# **After this part you can** write the buckets and the hooks of DDP, and say when communication
# hides behind the backward.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
from statistics import median

import torch
import torch.distributed as dist

from pedagogy_lib import (
    Table, check, compare_rounds, explore, hint, lab, launch, plot_against, plot_timeline, predict,
    progress, put_to_the_test,
)

# %% tags=["parameters"]
world_size = 4
train_steps = 15

# %%
data_parallel, visualizer = lab("data_parallel"), lab("gradient_sync_visualizer")
overlap, watch, replicas = lab("overlap"), lab("watch_loops"), lab("equal_replicas")
language_model, digits = lab("language_model"), lab("gradient_accumulation").digits()[:2]
text, model = language_model.standard_library(), language_model.Transformer()
gradients = len(list(model.parameters()))

# %% [markdown]
# ## 1 · Buckets
#
# The lab's small transformer has 29 gradients, and many of them are tiny. One all-reduce for each
# means 29 calls in every step. A call costs time even if it carries only a few bytes (part
# [02f](02f_what_a_call_costs.ipynb)). So copy several gradients into one flat tensor, a **bucket**,
# and all-reduce that.

# %% [markdown]
# ### Exercise {{make_buckets}} · Group parameters into buckets
#
# In [labs/gradient_sync_visualizer.py](../labs/gradient_sync_visualizer.py), write
# `make_buckets(parameters, bucket_bytes)`. `parameters` is `model.parameters()`, a generator. It
# returns a list of buckets, and each bucket is a list of the parameters themselves.
#
# Go from the last parameter to the first. (Section 2 shows why.) Put each one into the newest
# bucket. When the bytes of that bucket reach `bucket_bytes`, it is closed, and the next parameter
# opens a new one. A tensor is never split. Frozen parameters are in no bucket, and no bucket is
# empty. The parameters themselves stay as they are.
#
# Parameters of 40, 8, 48 and 16 bytes and `bucket_bytes` 64 give buckets of [16, 48] and [8, 40]
# bytes.

# %% [markdown]
# ### Exercise {{average_buckets}} · Average gradients in buckets
#
# In the same lab, [gradient_sync_visualizer](../labs/gradient_sync_visualizer.py), write
# `average_buckets(buckets, group=None)`. After a backward, it makes every `.grad` the mean over the
# ranks, with one all-reduce for each bucket. A `.grad` that is None counts as zeros, and gets the
# mean. The lab's `flatten(bucket)` makes one flat tensor of a bucket's gradients, and
# `unflatten(flat, bucket)` copies its parts back into the `.grad`.
#
# One bucket with the gradients [2] and [4, 6] on rank 0, [0] and None on rank 1: afterwards both
# have [1] and [2, 3].

# %%
display(check("{{make_buckets}}"), check("{{average_buckets}}"))

# %% [markdown]
# What do buckets save? Average the same gradients in six ways, on two ranks: each by itself, in
# buckets of four sizes, and all in one. All six send the same gradients. (Each call adds its
# headers, so the bytes differ a little.)
#
# (Some cells of this part say `device="cpu"`: there the operating system has to count bytes, or
# computing is emulated. With GPUs, all other cells run on NCCL.)

# %%
calls_take = predict(f"How much longer do {gradients} all-reduces take than one with all bytes?",
                     unit="times")

# %% tags=["nbval-ignore-output"]
bucketed = launch(visualizer.what_ways_cost, model, [3_000, 30_000, 100_000, 300_000],
                  world_size=2, device="cpu")
costs = visualizer.costs_beside_model(bucketed)
Table(["", "all-reduces", "bytes sent", "measured", "calls × latency + bytes / bandwidth"],
      [[label, way["calls"], f"{way['bytes'] / 1e3:.0f} kB", f"{1e3 * way['measured']:.1f} ms",
        f"{1e3 * way['model']:.1f} ms"] for label, way in costs.items()])

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory (the model of the last column), and what was measured.
each, once = costs["each by itself"], costs["all in one"]
calls_take.compare(each["model"] / once["model"], each["measured"] / once["measured"],
                   kind="communication")

# %% [markdown]
# The last column is the model of part [02e](02e_what_a_message_costs.ipynb): calls × latency +
# bytes / bandwidth. The latency is the time of one small all-reduce by itself, for which all ranks
# are ready. The term bytes / bandwidth is the same for all ways. We take it from *all in one*:
# its time, minus one latency.
#
# Where the calls take longer than the model says, a likely reason is this machine (not measured
# here). In every call both ranks, and a thread of Gloo on each, need a core. If one
# rank's thread gets none, the other rank has to wait for it, and times change from run to run. The
# advice does not depend on it: send the same bytes in fewer calls.

# %% [markdown]
# ## 2 · While the backward is running
#
# Now the communication is cheaper, but each rank still waits for all of it. It need not. A backward
# begins at the last layer, so the last layer's gradient is ready long before the first layer's. A
# bucket can leave as soon as its last gradient is there, and the backward goes on meanwhile.
#
# Who notices that a gradient is ready? A **hook**: a function that PyTorch calls. With
# `parameter.register_post_accumulate_grad_hook(function)`, autograd calls `function(parameter)`
# whenever it has put a complete gradient into `parameter.grad`.

# %% [markdown]
# ### Exercise {{ddp}} · Overlap all-reduces with the backward
#
# Fill the three holes of the class `DDP` in [labs/data_parallel.py](../labs/data_parallel.py). Its
# constructor has made the buckets and registered the hooks.
#
# * `is_ready(parameter, number)` is called when the gradient of a parameter in bucket `number` is
#   complete. `self.missing[number]` is the set of the bucket's parameters whose gradients are not
#   there yet. While `synchronizing` is True, it takes the parameter out of that set, and begins all
#   buckets whose turn it is and from which nothing is missing. Otherwise it does nothing.
# * `begin_next()` begins the all-reduce of the next bucket, number `len(self.begun)`.
#   `self.all_reduce(flat, self.group)` begins the sum of a flat tensor, and returns a function.
#   The function waits for the sum. Append the pair (flat, function) to `self.begun`.

# %% [markdown]
# * `finish()` is called after the backward. It begins the buckets that are left (a parameter may
#   have had no part in the loss), waits for all, puts the means into `.grad`, and calls
#   `self.start_over()`.
#
# If it is left out, gradients of the next backward would stay out of the means. Therefore `forward`
# raises an error as long as buckets have begun and are not finished, even after a backward that
# raised. The solution's `is_ready` raises one, too, if a gradient is ready twice; yours need not.

# %% [markdown]
# Each bucket costs one all-reduce. Buckets begin in the order of their numbers, on every rank. If
# bucket 1 is complete before bucket 0, it waits for its turn, since ranks match collectives by the
# order of the calls.
#
# For example, three buckets become complete in the order 1, 0, 2. When 1 is complete, nothing
# begins. When 0 is complete, 0 and 1 begin, one right after the other. Then comes 2.

# %%
check("{{ddp}}")

# %% [markdown]
# Step through a training step, recorded from your class on real ranks. The slider stands at frame
# 8, where bucket 0 leaves. Go back to frame 1 first. The numbers are the first element of each
# gradient. Forward goes layer by layer, and backward comes from the end. Buckets fill, and leave.
#
# When are the gradients of all ranks the same? (Each rank goes at its own pace. The film puts
# frames of the same number side by side.)

# %% tags=["cover"]
pictures = lab("step_pictures")
films = launch(overlap.film_ddp_step, digits, world_size=world_size, device="cpu").values

def draw_step(frame):
    return pictures.plot_step(films, frame)

explore(draw_step, frame=[8, *range(1, 8), *range(9, len(films[0].frames) + 1)])

# %% [markdown]
# They are the same when the averages are in place, right before the optimizer's step. A bucket's
# numbers are still different while it travels: the sum arrives in the flat tensor, and `finish`
# copies it back.

# %% [markdown]
# How much time does that save? Two busy ranks on two cores get in each other's way, so computing
# is **emulated** here: six layers sleep. Count time in forwards of one layer, which sleep for 5 ms
# each. Each layer's backward takes 2. Two layers share a bucket, and the links are throttled so
# that a bucket travels for 4.
#
# With all communication after the backward, the step takes
# $6\ (\text{forward}) + 12\ (\text{backward}) + 3 \cdot 4\ (\text{buckets}) = 30$. How long does it
# take if each bucket leaves as soon as it is full?

# %%
step_takes = predict("The step, if buckets leave as soon as they are full", unit="forwards")

# %% tags=["nbval-ignore-output"]
steps = launch(overlap.two_steps, world_size=2, device="cpu")
plot_timeline(steps, ["forward", "backward", "all_reduce"], below=["all_reduce"],
              title="A step with communication afterwards, and one with it meanwhile (emulated)")

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# Your prediction, theory, and what was measured.
three = launch(overlap.two_steps, 2, 3, world_size=2, device="cpu")  # three rounds
meanwhile = min(three["meanwhile"].rounds)
step_takes.compare(6 + 12 + 4, meanwhile / overlap.SECONDS, kind="communication")

# %% [markdown]
# The first two buckets hide behind the backward. Only the last bucket is **exposed**: the rank
# waits for it, because it is full when the backward ends. So the step takes $6 + 12 + 4 = 22$. The
# measured number is the quickest of three rounds. It is still larger: a sleep lasts longer than was
# asked for, and each call has its cost.
#
# That is why buckets begin with the last parameters. If they began with the first ones, bucket 0
# would be complete at the end of the backward, and all other buckets would have to wait for it.
#
# The same as a function, for buckets of any sizes and links of any speed:

# %%
def step_seconds(buckets, travel):
    """In forwards of a layer. `buckets`: layers in each, first to travel first.
    `travel`: how long the gradient of one layer travels."""
    now = link_free_at = sum(buckets)  # the forward
    for layers in buckets:
        now += 2 * layers  # backward of these layers
        link_free_at = max(link_free_at, now) + travel * layers
    return link_free_at

print("two layers in a bucket:", step_seconds([2, 2, 2], travel=2))

# %% [markdown]
# How large should a bucket be? Small ones leave earlier, and the last one is exposed for a shorter
# time. Here are buckets of 1, 2, 3 and 6 layers, on the same links and on links that are twice as
# slow, measured beside this function.

# %% tags=["nbval-ignore-output"]
per_bucket, speeds = [1, 2, 3, 6], {"fast links": 2, "slow links": 4}
measured = {links: overlap.forwards_of_steps(per_bucket, travel)
            for links, travel in speeds.items()}
theory = {links: [step_seconds([k] * (6 // k), travel) for k in per_bucket]
          for links, travel in speeds.items()}
plot_against(per_bucket, measured, "layers in a bucket", "step (forwards of a layer)", theory,
             title="Large buckets hide less (emulated; the quickest of three rounds)")

# %% [markdown]
# With one bucket of six layers nothing overlaps. If a measured line turns up at the left on your
# machine, six calls cost more there than they hide.
#
# On slow links the network is the bottleneck. It is busy without a pause from the first bucket to
# the end. So the sooner the first bucket leaves, the sooner the step is over: make the *first*
# bucket small. On fast links that is no help, since there only the *last* bucket is exposed:

# %%
for buckets in ([2, 2, 2], [1, 2, 3], [2, 2, 1, 1]):
    slow, fast = step_seconds(buckets, travel=4), step_seconds(buckets, travel=2)
    print(f"buckets of {buckets} layers: on slow links {slow}, on fast links {fast}")

# %% [markdown]
# On fast links a small *last* bucket does not help either: when it is full, the link is still busy
# with the bucket before it.
#
# PyTorch's DDP has a small first bucket: by default it is full at 1 MiB, and the others at 25 MiB.
# From the second iteration on, the small one leaves first (part [03e](03e_ddp_at_work.ipynb)).
#
# > **On GPUs** overlap has a price, too. NCCL's all-reduce usually runs as a kernel on the same
# > multiprocessors that compute the backward. NCCL has
# > [settings](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/flags.html) for that,
# > says its documentation: `NCCL_CTA_POLICY_EFFICIENCY` takes fewer of them, for a better overlap,
# > and `NCCL_CTA_POLICY_ZERO` takes none where it can. So expect less than in the pictures above,
# > where layers sleep.

# %% tags=["nbval-ignore-output"]
# And without emulation? The lab trains the transformer for real, in four ways. Two ranks on two
# cores have no core to spare for carrying messages: do not expect overlap to show.
trained = launch(data_parallel.program, text, train_steps, world_size=2)
print(*trained.values[0], sep="\n")

# %% [markdown]
# All four reach the same loss, and their replicas are equal. Compare the first line with the
# second: that is what buckets save in a real step. The last three times differ from run to run. So
# this machine shows that overlap gives the right result, and the emulation shows what it can save.
# How much it does save on a cluster, only a cluster can tell.

# %% [markdown]
# ### Exercise {{average_in_backward}} · Debug gradient averaging in hooks
#
# A short version has no buckets: a hook averages each gradient. `average_in_backward(model)` is
# called once, before the first backward. It changes no weights, and no backward does. From then on:

# %% [markdown]
# * A backward adds the *mean over the ranks* of its gradients to `.grad`. With gradients of 2 and 4
#   on two ranks, `.grad` is 3. After the same backward again, without clearing, it is 6.
# * Each gradient is sent once. Its all-reduce begins as soon as it is there. When `backward()`
#   returns, all is done.
# * Parameters may be frozen, the same ones on all ranks. They stay frozen.
#
# All ranks use the same layers in the same order; otherwise only buckets in a fixed order match.
#
# Run the cell: it shows one weight and its gradient on two ranks, which here have different
# weights. Find the bugs.

# %%
def average_in_backward(model):
    def average(parameter):
        ### BEGIN SOLUTION
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
        ### IT WAS
        # dist.all_reduce(parameter.data)
        # parameter.data /= dist.get_world_size()
        ### END SOLUTION

    for parameter in model.parameters():
        ### BEGIN SOLUTION
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(average)
        ### IT WAS
        # parameter.register_post_accumulate_grad_hook(average)
        ### END SOLUTION

told = launch(watch.report_backward, average_in_backward, world_size=2, device="cpu").values
print(*told, sep="\n")

# %%
check("{{average_in_backward}}", average_in_backward)

# %% [markdown]
# Is your hook right if a second backward adds to the first one's gradient? After the first, `.grad`
# holds a mean $m$, equal on all $n$ ranks. The second adds each rank's own gradient $g_r$, and the
# hook averages the sum: $\frac{1}{n}\sum_r (m + g_r) = m + \frac{1}{n}\sum_r g_r$. The mean of
# equal numbers is that number, but for rounding. So nothing is counted twice.

# %% [markdown]
# ## Put to the test
#
# What our sources say about the inside of DDP, and what was found here.

# %% jupyter={"source_hidden": true}
# Which parts of a step communicate, which part moves the weights, and when DDP's buckets leave.
parts = launch(replicas.parts_of_a_step, digits, world_size=world_size, device="cpu")
model_bytes, has_moved = parts.values[0]
exchanges = {label: len(parts[label].calls[0]) for label in ("forward", "backward", "step")}
sent_by = parts["backward"].sent_bytes
by_each = ", ".join(f"{sent / model_bytes:.1f}" for sent in sent_by)
in_the_middle = max(sent_by) / min(sent_by)  # 1, if all send alike
left = launch(overlap.when_buckets_leave, text, world_size=2, device="cpu").values[0]
shares = ", ".join(f"{median(x):.0%}" for x in left)
is_early = sum(share < 0.9 for share in left[0]) > 3 / 4 * len(left[0])
again = launch(overlap.two_steps, 2, 6, world_size=2, device="cpu")  # both in turns
race = [again[way].rounds[1:] for way in ("meanwhile", "afterwards")]
saved = [f"{1e3 * median(rounds):.0f}" for rounds in race]

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# The surprises. The table below has the other statements at a click.
surprises = f"""
- [C053] Gradients are accumulated on one node every few batches, and sent back | PyTorch slides,
  “Distributed Data Parallel in detail”; “Reduce operation” |
  {"wrong" if exchanges["backward"] and in_the_middle < 1.2 else "right here"} |
  {exchanges["backward"]} all-reduce in this backward, and no rank in the middle: the ranks send
  {by_each} models (a run in this section). Every few batches only under no_sync (part 03d) |
  measured: over Gloo; NCCL's rings and trees are expected to have no such rank either
- [C058] backward() leads to one central exchange, and updates the weights | PyTorch slides, “When
  does PyTorch synchronize gradients?” | {"right here" if has_moved else "wrong"} | weights have
  moved after backward(): {has_moved}; that is optimizer.step(). Nor is a rank in the middle: the
  ranks send {by_each} models (a run in this section) | measured: nothing for the weights; over
  NCCL, too, no rank in the middle is expected
- [C060] DDP's all-reduce starts while the backward still runs | PyTorch slides, “PyTorch tricks:
  Computation-Communication overlap”; book chapter, “PyTorch DistributedDataParallel (DDP)” |
  {"right" if is_early else "not seen here"} | {len(left)} buckets of about 0.1 MB left after
  {shares} of the backward (medians of a run in this section). Emulated layers with the course's own
  DDP: {compare_rounds(*race).word}, {saved[0]} ms in place of {saved[1]} (medians of five rounds in
  this section) | measured: on GPUs NCCL runs on a stream of its own, so more overlap is expected;
  its kernels take some of the GPU's processors
"""

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output"]
# The table.
by_call = [exchanges[label] > 0 for label in ("forward", "backward", "step")]
bucketed = compare_rounds(once["rounds"], each["rounds"]).judge("right", "wrong here")
put_to_the_test(surprises, more=f"""
- [C057] PyTorch synchronises at every loss.backward(), if not told otherwise | PyTorch slides,
  “When does PyTorch synchronize gradients?” |
  {"right" if by_call == [False, True, False] else "not here"} | all-reduces of DDP in a step:
  forward {exchanges["forward"]}, backward {exchanges["backward"]}, optimizer {exchanges["step"]} (a
  run in this section). Under no_sync, which the slide names, none (part 03d) | measured: nothing;
  DDP's hooks are the same on GPUs
- [C063] Bucketing is faster than one call for each gradient | PyTorch slides,
  “Computation-Communication overlap: bucketing”; book chapter, “PyTorch DistributedDataParallel
  (DDP)” | {bucketed} | {gradients} gradients: {1e3 * each["measured"]:.1f} ms one by one,
  {1e3 * once["measured"]:.1f} ms in one bucket (section 1, table; 20 rounds in turns) | measured:
  over Gloo; a call of NCCL is expected to take less time, but not none: the same order, and a
  smaller gap
""")

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)); *Data Parallelism Deep
# Dive* (book chapter).
#
# **To read on.** Li et al., [PyTorch Distributed](https://arxiv.org/abs/2006.15704), 2020: how DDP
# was built, with measurements on GPUs. Sergeev and Del Balso,
# [Horovod](https://arxiv.org/abs/1802.05799), 2018: buckets under the name of tensor fusion.

# %% [markdown]
# ## What you have learnt
#
# * Buckets send the same bytes in fewer calls, and calls cost time.
# * A full bucket can travel while the backward goes on. What has not arrived when the backward ends
#   is exposed: at least the last bucket, which has the gradients of the first layers.
# * All ranks begin their buckets in one order, whatever becomes ready first.
#
# **Your exercises**: {{average_in_backward}} stands in a cell above. The others are in
# [labs/gradient_sync_visualizer.py](../labs/gradient_sync_visualizer.py) and
# [labs/data_parallel.py](../labs/data_parallel.py).
#
# **Next**: {{next}}.

# %%
progress("03c")
