# %% [markdown]
# # {{title}}
#
# **A schedule is a list. What computes, sends and waits as the list says, and gives the gradients
# of one process?** You write both parts of that machine: a stage, which computes, and a pipeline,
# which moves activations and gradients from rank to rank. Then you meet two bugs that are easy to
# write: a wrong loss, and two ranks that wait for each other for ever.

# %% [markdown]
# ![1F1B on four real ranks, with arrows for its messages: activations go down to the next rank,
# gradients come up; in the middle both cross](../assets/covers/08c_a_machine_for_schedules.png)
#
# *Measured in section 5: a schedule on four real ranks, with its messages (computing is emulated).*
#
# **After this part you can** write a pipeline that trains like one process, predict what it sends,
# and exchange messages without a deadlock, on Gloo and on NCCL.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch
import torch.distributed as dist
import torch.nn.functional as F

from pedagogy_lib import (
    Table, check, hint, lab, launch, predict, progress, put_to_the_test,
)

# %% tags=["parameters"]
world_size = 4
width = 32
steps = 15

# %%
schedules, pipeline_parallel = lab("schedules"), lab("pipeline_parallel")
measured, language_model = lab("pipelines_measured"), lab("language_model")
text = language_model.standard_library(100_000)
p = world_size  # stages

# %% [markdown]
# ## 1 · A stage
#
# Autograd stops where a process ends: no graph leads from one rank to another. So each rank has a
# graph of its own, for each micro-batch, and messages carry what autograd would have carried.
#
# A `Stage` is a piece of the model. Its forward returns an output that is sent to the next rank. It
# keeps its input and its output, with the graph between them. Its backward gets the gradient of
# that output from the next rank. It returns the gradient of its input, which is sent to the rank
# before.

# %% [markdown]
# Two tools of autograd are enough. `x.detach()` is a tensor with the same numbers and without
# history. After `x.requires_grad_()` it is a **leaf**: a backward ends there, and leaves the
# gradient in `x.grad`. And `y.backward(gradient)` goes back from an output whose gradient is known.

# %%
x = torch.tensor([2.0]).detach().requires_grad_()
y = 3 * x
y.backward(torch.tensor([10.0]))  # the next rank says: the loss grows by 10 for each 1 of y
print("gradient of x:", x.grad.item())

# %% [markdown]
# ### Exercise {{stage}} · Write a pipeline stage
#
# In [labs/pipeline_parallel.py](../labs/pipeline_parallel.py), write two methods of `Stage`.
#
# `forward(i, x, then)` computes `then(self.piece(x))` for micro-batch `i`, and returns it without
# its graph. `then` is a function that follows the piece: on the last stage it computes the loss,
# elsewhere it changes nothing. The graph begins at a leaf of this rank; the caller's `x` stays as
# it is. Call `self.keep(i, input, output)` once, with the leaf, and with the output that has its
# graph. On the first stage `x` is tokens (int64), which can have no gradient: check
# `x.is_floating_point()`.

# %% [markdown]
# `backward(i, gradient)` takes the pair (input, output) of micro-batch `i` out of the dictionary
# `self.kept`. It goes back from the output, where the weights' gradients are added to `.grad`, and
# returns the gradient of the input, which is None for tokens. `gradient` is None on the last stage,
# whose output is the loss. Backwards come in any order.
#
# For example, let the piece be a multiplication by a weight of 3. `forward(0, 2.0)` returns 6, and
# then `backward(0, 10.0)` returns 30 and adds 20 to the weight's gradient.

# %%
check("{{stage}}")

# %% [markdown]
# ## 2 · A pipeline
#
# Who moves the numbers? A `Pipeline` goes through the row of its rank, and does each action.
# `self.send(y, action)` is written: it begins a message to the neighbour, and goes on at once.
# `step` waits for all messages at the end. The backward is written as well; read it first.

# %% [markdown]
# ### Exercise {{pipeline}} · Connect pipeline stages with messages
#
# In [labs/pipeline_parallel.py](../labs/pipeline_parallel.py), write two methods of `Pipeline`. In
# both, `action` has a kind, a micro-batch `i` and a chunk: `_, i, chunk = action`. `self.rank` is
# this rank, and `self.ranks` is how many there are.
#
# `forward(action)` does four things.
#
# 1. Get the input: `self.inputs[i]` on the model's first stage, else `self.receive(action)`.
#    `self.is_first(chunk)` and `self.is_last(chunk)` tell which stage this is.
# 2. Inside of `with self.around(action):` compute `self.stages[chunk].forward(i, x)`, and nothing
#    else. (`around` measures it.)
# 3. Send what it returns: `self.send(y, action)`.
# 4. The model's last stage sends nothing. Give its `forward` a third argument,
#    `partial(self.part_of_loss, i)`, and append what it returns to `self.losses`. (`partial(f, i)`
#    is a function: with `logits` it calls `f(i, logits)`.)

# %% [markdown]
# `receive(action)` returns the tensor that the action needs, once it has arrived. For `"F"` it
# comes from the rank before, for `"B"` and `"I"` from the rank after. Ranks stand in a circle:
# after the last one comes the first. The message has the shape of `self.inputs[i]`, which is
# (samples, tokens), and one dimension more, `self.width`; its dtype is `self.dtype`. Receive with
# `dist.recv(…, group=self.line(action), group_src=…, tag=tag_of(action))`. If `self.ranks` is 1,
# take the tensor out of the dictionary `self.own` instead, where it is under `tag_of(action)`.
#
# For example, `F2` on rank 1 of 3: it receives micro-batch 2 from rank 0, computes, and sends to
# rank 2. `B2` on rank 1 receives from rank 2.

# %% [markdown]
# `send` refuses a tensor of another shape or dtype, such as a linear layer's output under
# `torch.autocast`: two bfloat16 numbers would be read as one float32. A pipeline has an option
# `dtype` for such messages.

# %%
check("{{pipeline}}")

# %% [markdown]
# ## 3 · The same as one process
#
# A fast pipeline with wrong gradients is worth nothing. Here are the loss and all gradients beside
# those of one process, in float64, for each schedule that you have met. With 3 micro-batches the 8
# samples are shared out unequally.

# %%
Table(["schedule", "micro-batches", "gradients equal, but for rounding", "loss"],
      measured.tabulate_comparison(["naive", "GPipe", "1F1B"], [1, 3, 8], p))

# %% [markdown]
# And a whole training, with the same batches, on one rank and on $p$ ranks:

# %%
sizes = {"width": width, "layers": max(4, p)}
losses = {
    k: launch(measured.train_pipeline, text, sizes, steps, world_size=k).values[-1] for k in (1, p)
}
Table(["ranks", "loss at first", f"after {steps} steps"],
      [[str(k), *(f"{loss:.3f}" for loss in of)] for k, of in losses.items()])

# %% [markdown]
# ### What crosses a boundary
#
# For each micro-batch and boundary, activations travel forward, and a gradient of the same size
# travels back. There is no all-reduce, and a rank talks to its neighbours alone. How much does a
# rank with two neighbours send in a step? The batch has 16 samples of 64 tokens, and a token is 256
# numbers of 4 bytes.

# %%
guess = predict("Sent in a step by a rank with two neighbours", unit="MB")

# %%
wide, samples = {"width": 256, "layers": p, "heads": 4, "context": 64}, 16
rows = schedules.rows_of(schedules.one_f_one_b, p, 8)
crossing = launch(measured.one_step, rows, wide, samples, world_size=p, device="cpu")["step"]

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
one_way = samples * wide["context"] * wide["width"] * 4
boundaries = [(rank < p - 1) + (rank > 0) for rank in range(p)]
busiest = boundaries.index(max(boundaries))
guess.compare(theory=max(boundaries) * one_way / 1e6,
              measured=crossing.sent_bytes[busiest] / 1e6, kind="communication")

# %%
calls = crossing.calls[busiest]
print(f"calls of rank {busiest}:", sorted({f"{call.name}, peer {call.peer}" for call in calls}))
Table(["rank", "boundaries", "predicted", "sent / predicted"],
      [[str(rank), str(count), f"{count * one_way / 1e6:.2f} MB",
        f"{sent / (count * one_way):.3f}" if count else "–"]
       for rank, (count, sent) in enumerate(zip(boundaries, crossing.sent_bytes))])

# %% [markdown]
# The little that is more than predicted are headers, one for each message. (This cell counts bytes
# that the operating system has sent, so it asks for `device="cpu"`.) One activation has the size
# $b\,s\,h$: samples of the micro-batch, tokens, width. It does not depend on how many layers a
# stage has.
#
# Is that much? Part [08g](08g_unequal_stages.ipynb) compares the time of a message with that of a
# forward, for models and links of real size.

# %% [markdown]
# ## 4 · The loss of a batch
#
# The last stage computes a loss for each micro-batch. The gradients of all micro-batches add up,
# and nobody divides the sum. So which loss must each micro-batch have, if the sum is to be the mean
# over the whole batch?
#
# Somebody has used the function below as the loss of each micro-batch. SGD with a small learning
# rate went well, and Adam went as well as ever. With more micro-batches, SGD exploded. The cell
# shows the loss and the norm of the gradient of one batch of 8 samples, cut into 1, 2, 4 and 8
# micro-batches.

# %%
mean_loss = language_model.mean_loss

def part_of_loss(logits, targets, batch_samples):
    ### BEGIN SOLUTION
    return mean_loss(logits, targets) * len(targets) / batch_samples
    ### IT WAS
    # return mean_loss(logits, targets)
    ### END SOLUTION

for m, loss, norm in measured.sums_of_parts(part_of_loss):
    print(f"micro-batches: {m}, loss {loss:.2f}, norm of the gradient {norm:.2f}")

# %% [markdown]
# ### Exercise {{part_of_loss}} · Debug the loss of micro-batches
#
# Mend `part_of_loss(logits, targets, batch_samples)`. It gets the logits and targets of one
# micro-batch, (samples, tokens, vocabulary) and (samples, tokens), and how many samples the *whole*
# batch has. It returns what this micro-batch adds to the batch's loss, the mean over all its
# tokens. Micro-batches may have different numbers of samples; all samples have equally many tokens.
# `mean_loss(logits, targets)` is the mean over the tokens that it gets.
#
# For example, micro-batches of 3 samples and 1 sample have means of 2 and 6. The batch's mean is (3
# × 2 + 1 × 6) / 4 = 3. Each of the two parts is 1.5.

# %%
check("{{part_of_loss}}", part_of_loss)

# %% [markdown]
# Adam divides a gradient by its own size, so its steps do not feel a factor of $m$. SGD feels it,
# and so does clipping of gradients. The loss that was reported was $m$ times too large, too: a
# first loss far from $\ln(\text{vocabulary})$, here 4.85, is a warning.

# %% [markdown]
# ## 5 · Messages that cross
#
# Here is 1F1B on real ranks, with its messages. An arrow leaves where something has been computed,
# and ends where it is used. (Computing is emulated.)

# %% tags=["cover", "nbval-ignore-output"]
pipelines = lab("emulated_pipelines")
crossings = pipelines.emulate(schedules.rows_of(schedules.one_f_one_b, p, p + 2))[1]
lab("crossing_messages").plot_messages(
    crossings, title="1F1B on real ranks, with its messages (computing emulated)"
)

# %% [markdown]
# Look at the middle. Two neighbours have something for each other at the same time: the upper rank
# an activation, the lower rank a gradient. This exchange is the most dangerous place of a pipeline.
#
# Somebody wrote the exchange as below. Both ranks of a pair call this function. The cell tries it
# on two ranks, with 1 MB each way. Where does each rank wait?

# %%
def exchange(outgoing, incoming, rank, peer):
    ### BEGIN SOLUTION
    messages = [dist.P2POp(dist.isend, outgoing, peer), dist.P2POp(dist.irecv, incoming, peer)]
    for request in dist.batch_isend_irecv(messages):
        request.wait()
    ### IT WAS
    # dist.send(outgoing, peer)
    # dist.recv(incoming, peer)
    ### END SOLUTION
    return incoming

crossing_lab = lab("messages_that_cross")
crossing_lab.show(crossing_lab.try_exchange(exchange))

# %% [markdown]
# One way out seems easy: begin to send, receive meanwhile, and wait for the send at the end. It
# works on Gloo. But on NCCL a message is a kernel on a stream of the GPU. If messages between two
# ranks are begun one by one, they take turns, in the order of the calls. Both directions share
# these turns. If the send comes first on *both* ranks, each of the sends waits for a receive that
# has not begun.
#
# Your machine may have no two GPUs. So the lab emulates that rule on Gloo: messages of a pair take
# turns.

# %%
def send_in_background(outgoing, incoming, rank, peer):
    request = dist.isend(outgoing, peer)
    dist.recv(incoming, peer)
    request.wait()

Table(["way", "on Gloo", "where messages of a pair take turns (emulated)"],
      [["send in the background", *(crossing_lab.describe_result(
          crossing_lab.try_exchange(send_in_background, in_turn)) for in_turn in (False, True))]])

# %% [markdown]
# What works on both? A **batch** of messages runs as one. `dist.P2POp(dist.isend, tensor, peer)`
# describes a message, and so does `dist.P2POp(dist.irecv, tensor, peer)`.
# `dist.batch_isend_irecv([…])` begins all messages of a list together, and returns a list of
# requests. [Its
# documentation](https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.batch_isend_irecv)
# says that the order of sends and receives in the list does not matter. Between the same two ranks
# and in the same direction it does.

# %% [markdown]
# ### Exercise {{exchange}} · Debug a hang between two ranks
#
# Mend `exchange(outgoing, incoming, rank, peer)` above. Two ranks call it, each with the other
# one's number as `peer`; any two ranks of the world may be such a pair. It sends `outgoing`, fills
# `incoming` with what the peer sends, and returns `incoming`. Both tensors have the same shape, of
# any size. When it returns, `outgoing` may be overwritten. There is one message each way.
#
# It has to work on Gloo, and where messages of a pair take turns, as on NCCL. For example, rank 0
# sends 7 and rank 1 sends 8. Then rank 0 returns 8, and rank 1 returns 7.

# %%
check("{{exchange}}", exchange)

# %% [markdown]
# Another way passes, too: one rank of the pair sends first, and the other one receives first. Then
# the two messages take turns. In a batch both travel at once.

# %% [markdown]
# > **On GPUs.** An `ncclSend` blocks the GPU, and calls that have to progress at the same time must
# > be merged into one group to avoid deadlocks, says [NCCL's
# > documentation](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/p2p.html).
# > PyTorch's batch is such a group. A test with small tensors may pass without it, as NCCL has
# > buffers between GPUs.

# %% [markdown]
# > PyTorch 2.13's own pipelines put a send and a receive of the same moment into a batch, and begin
# > messages of one kind singly (`_batch_p2p` in `torch.distributed.pipelining`). Your `Pipeline`
# > begins all messages singly. On NCCL it takes a group of ranks for each direction, which is a
# > communicator of its own (`lines_of`), so an activation and a gradient never take turns. That is
# > weaker: communicators that work at the same time [need care as
# > well](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/communicators.html). The
# > tests of this course run it under the emulated rule. They do not prove NCCL.

# %% [markdown]
# ## Put to the test
#
# What our sources say about what pipelines send, and what was found here.

# %% jupyter={"source_hidden": true}
# What the statements of the sources are judged by.
names = sorted({call.name for call in calls})

# %% jupyter={"source_hidden": true}
# Statements of the sources, and what was found.
put_to_the_test(f"""
- [C180] Pipelines need point-to-point sends, and no all-reduces | CS 229S, “Pipeline Parallelism”
  and “Tensor Model Parallelism” | {"right" if {*names} <= {"send", "recv"} else "wrong"}, but for
  shared weights | all calls of the busiest rank: {", ".join(names)} (section 3, run). Weights that
  two stages share need an all-reduce (part 08j, section 3) | measured: nothing, since the calls are
  those of the program; NCCL has send and recv, too (its documentation)
""")

# %% [markdown]
# **Sources.** *Distributed Parallelism in Deep Learning* (web page); *CS 229S, lecture 8*
# (Stanford).
#
# **To read on.** PyTorch's
# [pipelining](https://docs.pytorch.org/docs/stable/distributed.pipelining.html), which part
# [08j](08j_pipelines_at_work.ipynb) puts beside your machine.

# %% [markdown]
# ## What you have learnt
#
# * Autograd ends at the borders of a rank. Messages carry activations forward and their gradients
#   back.
# * For each micro-batch a boundary carries $b\,s\,h$ numbers forward, and as many back, however
#   many layers a stage has.
# * A micro-batch adds its share of the batch's mean loss, not its own mean.
# * Messages that cross go into one batch. What works on Gloo may hang on NCCL.
#
# **Your exercises**: {{part_of_loss}} and {{exchange}} stand in cells above, and {{stage}} and {{pipeline}} in
# [labs/pipeline_parallel.py](../labs/pipeline_parallel.py).
#
# **Next**: {{next}}.

# %%
progress("08c")
