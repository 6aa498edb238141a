# %% [markdown]
# # {{title}}
#
# **Are eight GPUs with 4 GB as good as one GPU with 32 GB?** That depends on what is split among
# them. Here you see three things that can be split, and what each of them does to the memory of a
# GPU. You also see how little a training program changes if the batch is split.

# %% [markdown]
# ![Bars of parameters in MB for ranks 0 to 3: each holds 4 MB, and an outline shows the 16 MB of a
# complete copy](../assets/covers/00b_what_to_split.png)
#
# *Measured in section 1: a quarter of the model on each rank. The outline is a complete copy.*
#
# **After this part you can** say what each rank holds if the batch, every layer or the list of
# layers is split. You can turn a training loop into one for many ranks, and deal samples to ranks.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import difflib
import inspect

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler

from pedagogy_lib import (
    Table, check, close, explore, lab, launch, measure, plot_peak, predict, progress,
    put_to_the_test,
)

# %% tags=["parameters"]
world_size = 4

# %% [markdown]
# ## 1 · Why distribute at all?
#
# Three reasons are usually given. The **model does not fit** into the memory of one GPU. Only a
# **small batch fits**. Training **takes too long**. Reinforcement learning adds a fourth: the model
# also **generates** what it learns from, so a second job, with another layout, runs next to the
# training ([an example](https://docs.vllm.ai/en/latest/training/weight_transfer/)).
#
# There are two ways to get more. *Vertical* scaling takes a larger GPU, and the program stays as it
# is. *Horizontal* scaling takes more GPUs, and the program changes. In the picture, area is memory
# of GPUs. Both ways end with 32 GB.

# %%
diagrams = lab("splitting_diagrams")
diagrams.draw_scaling()

# %% [markdown]
# Are both worth the same? That depends on what each GPU keeps. The usual way to train on many GPUs
# is PyTorch's `DistributedDataParallel` (**DDP**). It takes the model, and each rank computes a
# part of the batch. The model below has 4 million float32 parameters of 4 bytes. How much of it
# lies on each of the ranks?

# %%
memory_guess = predict(
    f"A 16 MB model under DDP on {world_size} ranks: parameters on each rank", unit="MB"
)

# %%
def hold_a_copy():
    with measure("hold"):
        DistributedDataParallel(nn.Linear(1000, 4000, bias=False))  # 4 million float32 numbers

copies = launch(hold_a_copy, world_size=world_size)["hold"]

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
on_each = copies.peak_bytes[0]["parameters"] / 1e6
memory_guess.compare(theory=16, measured=on_each, kind="parameters")

# %% [markdown]
# The whole model, on every rank. DDP splits the batch, and nothing else.
#
# Now each rank makes only a part of the layer, without DDP. `nn.Linear(1000, rows)` has `rows`
# output features: with four ranks, a quarter of the 4000.

# %% tags=["cover"]
def hold_a_part():
    rows = 4000 // dist.get_world_size()
    with measure("hold"):
        nn.Linear(1000, rows, bias=False)

plot_peak(launch(hold_a_part, world_size=world_size), "hold", predicted={"parameters": 16e6},
          title=f"1/{world_size} of the model on each rank", outline="a complete copy")

# %% [markdown]
# DDP keeps a complete copy on each rank, a **replica**. So eight GPUs of 4 GB are **not** one GPU
# of 32 GB. Replicas help against the second and the third reason. They do not help against the
# first.
#
# **Sharding** helps against the first: each rank keeps a part, a *shard*, as in the last picture. A
# shard travels to other ranks when they need it. Chapters 06 to 09 tell when it travels, how many
# bytes that costs, and how to hide the time. (Here you saw parameters only. Training also keeps
# gradients and more: chapter 05.)

# %% [markdown]
# ## 2 · How much of the program changes?
#
# Here is a training loop for one process, and then the same loop for many. `launch` gives all ranks
# the same random seed. So each rank draws the same 32 samples, and then takes its share of them.
# Rank 1 of 4 takes `x[1::4]`: the rows 1, 5, 9, … of `x`.

# %%
def train_alone():
    x, y = torch.randn(32, 8).double(), torch.randn(32, 1).double()
    model = nn.Linear(8, 1).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()
    return list(model.state_dict().values())

# %%
def train_together():
    x, y = torch.randn(32, 8).double(), torch.randn(32, 1).double()
    rank, n = dist.get_rank(), dist.get_world_size()
    x, y = x[rank::n], y[rank::n]
    model = nn.Linear(8, 1).double()
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()
    return list(model.module.state_dict().values())

# %% jupyter={"source_hidden": true}
# The lines of the second program that are not in the first.
programs = [inspect.getsource(f).splitlines()[1:] for f in (train_alone, train_together)]
changed = [line for line in difflib.ndiff(*programs) if line.startswith("+ ")]
print(*changed, sep="\n")

# %% [markdown]
# Only these lines are new. A program without `launch` also needs the lines of part 00 that connect
# its ranks, and `torch.manual_seed(0)` on all of them: otherwise they cut different batches. (From
# there on, dropout needs another seed on each rank: part 03.) And only one rank may
# write the files. (Tensor and pipeline parallel change much more: they change the model.)
#
# Does it train the same model? In each step DDP takes the mean of the ranks' gradients with an
# all-reduce. Many ranks add in another order than one process. So the last digits may differ, and
# `close` accepts that; part 00c says how much. (Both launches stay on the CPU: GPUs would draw
# other random numbers.)

# %%
alone = launch(train_alone, world_size=1, device="cpu").values[0]
together = launch(train_together, world_size=world_size, device="cpu").values
print("equal to one process, but for rounding:",
      all(close(weights, alone, steps=5) for weights in together))

# %% [markdown]
# That is the test which every technique of this course has to pass: **the same values and gradients
# as one process, in float64.**
#
# *Break it.* In the cell above, take `world_size=3`. It prints False: the ranks get 11, 11 and 10
# samples, and DDP gives each rank the same weight. Part 01b mends this.

# %% [markdown]
# ## 3 · What can be split
#
# Each way to split saves another part of the memory, and makes ranks talk at other times. So know
# them before you choose.
#
# Three things can be split: the batch, every layer, or the list of layers. Each row below is a
# rank, and what it holds is filled. Move the slider. Which of the three gives each rank a smaller
# part of the *model*? Which one a smaller part of the *batch*? (The picture shows *how many*
# samples a rank takes. *Which* ones is asked below.)

# %%
explore(diagrams.draw_three_splits, ranks=[4, 2, 8])

# %% [markdown]
# * **Data parallel**: each rank has the whole model, and its own samples. Once a step all must
#   agree on the gradients.
# * **Tensor parallel**: each rank has a part of every layer, so it computes a part of every result.
#   Ranks must talk inside of every layer.
# * **Pipeline parallel**: each rank has some of the layers. It hands their results, the
#   **activations**, to the next rank. Ranks wait for each other.
#
# *Model parallel* means tensor parallel to some authors, pipeline parallel to others, and both to a
# third group. Say which split you mean.

# %% [markdown]
# All can be combined, and there are more:
#
# * **Sharded data parallel** splits what data parallel copies (chapter 06).
# * **Expert parallel**: each rank has some of the experts of a mixture, and tokens travel to them
#   (part 09e).
# * **Context parallel**: each rank has a part of every text (part 09f).
#
# Programs call the axes dp, tp, pp, ep and cp.

# %% [markdown]
# ### Exercise {{my_samples}} · Deal the samples
#
# Write `my_samples(n, rank, world_size)`. A batch of `n` samples, numbered 0 to n − 1, is shared by
# `world_size` ranks. They are dealt out like cards: sample 0 to rank 0, sample 1 to rank 1, and so
# on. After the last rank comes rank 0 again, until no sample is left. Return the list of the
# samples that `rank` gets, in this order.
#
# With `n = 7` and `world_size = 3`, rank 0 gets `[0, 3, 6]`, rank 1 gets `[1, 4]`, and rank 2 gets
# `[2, 5]`. So if `n` cannot be divided evenly, the first ranks get one sample more. No sample is
# dealt twice.

# %%
def my_samples(n, rank, world_size):
    ### BEGIN SOLUTION
    return list(range(rank, n, world_size))
    ### END SOLUTION

# %%
check("{{my_samples}}", my_samples)

# %%
def sampler_indices(n):
    return list(DistributedSampler(range(n), shuffle=False))

dealt = {n: launch(sampler_indices, n, world_size=4).values for n in (32, 33, 64)}
Table(["rank", "32 samples", "33 samples"], [[r, dealt[32][r], dealt[33][r]] for r in range(4)],
      title="PyTorch's DistributedSampler: all ranks take equally many steps",
      note=f"so of 33 samples it deals out {sum(map(len, dealt[33]))}: the first ones twice")

# %% [markdown]
# PyTorch's sampler deals as you did where `n` can be divided evenly. Otherwise it deals some
# samples twice, so that no rank waits for a batch that never comes. Blocks of equal size would
# train equally well: rank 0 takes the first 8 samples, rank 1 the next 8, and so on. The mean over
# the whole batch is the same.

# %% [markdown]
# ## Put to the test

# %% jupyter={"source_hidden": true}
# The statements of the sources, and what was found.
per_rank = copies.peak_bytes
replicas = sum(one["parameters"] == 16e6 for one in per_rank)
put_to_the_test(f"""
- [C001] Distribute if the model does not fit, if the batch is forced to be small, or if it takes
  too long | PyTorch slides, “What is distributed training?” | imprecise | copies do not cure the
  first: {replicas} of {len(per_rank)} ranks of DDP held all {on_each:g} MB of a model (counted in
  the run of section 1). Gradient accumulation cures the second on one device (part 01c, section 1)
  | measured: nothing; on GPUs, too, DDP keeps a whole replica on each
- [C002] Vertical scaling needs no change of the program, horizontal scaling a small one | PyTorch
  slides, “Vertical scaling Horizontal scaling” | depends | DDP made
  {len(changed)} lines new (section 2, list), beside those that connect ranks (part 00,
  section 4). Tensor and pipeline parallel change the model (part 07d, part 08) | measured: on GPUs
  one more line gives each process a GPU of its own (part 00, section 4)
- [C003] Scaled vertically, 8 GB of RAM and a GPU of 4 GB become 64 and 32 GB; horizontally, 4
  servers of 8 GB with two GPUs of 4 GB | PyTorch slides, “Vertical scaling Horizontal scaling” |
  imprecise | the four servers have {4 * 8} GB of RAM, not 64, and {4 * 2 * 4} GB of GPU memory, but
  not pooled: {replicas} of {len(per_rank)} ranks of DDP held all {on_each:g} MB of a model (counted
  in the run of section 1) | measured: nothing; DDP keeps a whole replica on each GPU, however fast
  the links between them are
""")

# %% jupyter={"source_hidden": true}
# More statements.
state_gb, gpu_hours = 16 * 70, 1.72e6
per_year = (530 / 1.5) ** (1 / (2 + 8 / 12))
later = (530 / 175) ** (1 / (1 + 5 / 12))
more_statements = f"""
- [C011] Training GPT-4 or Llama 70B needs hundreds or thousands of GPUs | web page, “Overview” |
  depends | on how long one can wait. 16 bytes for each of 70 billion parameters fill
  {state_gb / 80:g} GPUs of 80 GB. Llama 2 70B took 1.72 million GPU hours, say its authors:
  {gpu_hours / 24 / 365:.0f} years on one GPU, {gpu_hours / 24 / 2000:.0f} days on 2000 at best |
  computed: GPUs that are faster need fewer hours; the hours are those of A100s in the Llama 2
  paper. GPT-4's were not published
- [C008] The FLOPS of GPUs double every 2.5 years | CS 229S, “Hardware improvements lag behind LLM
  scaling” | imprecise, not tested | the study that it cites says so of FLOP/s for a dollar: every
  2.46 years, {2 ** (10 / 2.46):.0f} times in ten years. Of FLOP/s alone, the same institute says
  2.7 years, with 16 bits | documented: Epoch, “Trends in GPU Price-Performance”, and “Machine
  Learning Hardware” (January 2025); only other data about prices and GPUs could change it
- [C009] Language models grow ten times every year | CS 229S, “Hardware improvements lag behind LLM
  scaling” | depends, not tested | from GPT-2 (1.5 billion, February 2019) to MT-NLG (530
  billion, October 2021) {per_year:.1f} times a year; from GPT-3 (175 billion, May 2020) to MT-NLG
  {later:.1f} times | computed: nothing about GPUs; sizes and dates are those that the models'
  authors published, and other models and years change the rate
"""

# %% jupyter={"source_hidden": true}
more_statements += """
- [C013] Model parallel means pipeline; or layers, and parts of layers; or layers only | web note,
  “Pipeline Parallel (Model Parallel)”; CS 229S, “Model Parallelism”; blog, “Q2: How does FSDP
  compare to model parallelism?” | they contradict each other | three documents use these words for
  three things. So say which of the three splits of section 3 you mean | documented: nothing about
  GPUs, as it is a question of words; Megatron-LM's paper (arXiv 1909.08053) calls tensor parallel
  model parallel
- [C014] There are three widely adopted techniques: data, model and pipeline parallelism |
  CS 229S, “What are the main techniques for parallelizing LLMs?” | imprecise | three more are in
  use: sharded data parallel (chapter 06), sequence parallel (part 07e) and expert parallel (part
  09e) | documented: nothing; PyTorch's and Megatron-LM's documentation list more, and a later slide
  says “not exhaustive”
"""

# %% jupyter={"source_hidden": true}
# Statements that are right and surprise nobody, or cannot be tested, are folded.
dealt[256] = launch(sampler_indices, 256, world_size=8).values
shares = {n: sorted({len(indices) for indices in ranks}) for n, ranks in dealt.items()}
each = {n: " or ".join(map(str, lengths)) for n, lengths in shares.items()}
put_to_the_test(more_statements, more=f"""
- [C012] 32 samples over 4 ranks are 8 each, 64 are 16; 256 are split equally over 8 | web page,
  “Three Dimensions of Parallelism”; CS 229S, “Data parallelism”; book chapter, “What is Data
  Parallelism?” |
  {"right" if [shares[n] for n in (32, 64, 256)] == [[8], [16], [32]] else "not here"} |
  DistributedSampler dealt {each[32]} of 32 to each of 4 ranks (section 3, table), {each[64]} of 64
  (counted in the run of section 3), and {each[256]} of 256 to each of 8 (a run in this section) |
  measured: nothing; the sampler deals out numbers, on GPUs the same
- [C010] Language models get better with computing, data and size, and new abilities emerge |
  CS 229S, “Model performance improves from all forms of scale”; “LLMs exhibit emergent properties
  at scale” | depends, not tested | power laws: Kaplan et al. 2020, revised by Hoffmann et al. 2022;
  emergence is disputed by Schaeffer et al. 2023 | documented: arXiv 2001.08361, 2203.15556 and
  2304.15004; only runs much larger than a laptop's could change it
""")

# %% [markdown]
# **Sources.** *Distributed training with PyTorch*, slides of a video course
# ([hkproj](https://github.com/hkproj/pytorch-transformer-distributed)); *CS 229S, lecture 8*
# (Stanford); *Data Parallelism Deep Dive* (book chapter); *Distributed Parallelism in Deep
# Learning* (web page); *The Evolution of Data Parallelism* (blog); a web note on types of
# distributed training; handwritten notes.
#
# **To read on.** Scaling laws: [Kaplan et al.](https://arxiv.org/abs/2001.08361), [Hoffmann et
# al.](https://arxiv.org/abs/2203.15556), and, on emergence, [Schaeffer et
# al.](https://arxiv.org/abs/2304.15004). Hardware: [Hobbhahn and
# Besiroglu](https://epochai.org/blog/trends-in-gpu-price-performance). [Llama
# 2](https://arxiv.org/abs/2307.09288). All axes, with measurements on up to 512 GPUs: the
# [Ultra-Scale Playbook](https://huggingface.co/spaces/nanotron/ultrascale-playbook) (2025).
# Courses: [MIT
# 6.5940](https://hanlab.mit.edu/courses/2023-fall-65940), lectures 17 and 18; Stanford CS 224N,
# lecture 12; CS 149 for parallel computing in general.

# %% [markdown]
# ## What you have learnt
#
# * Data parallel splits the **batch**, tensor parallel every **layer**, pipeline parallel the
#   **list of layers**.
# * **Replicas** do not add up their memory: eight GPUs of 4 GB hold no model of 32 GB. **Shards**
#   do.
# * With DDP, a training loop changes by a few lines. It trains the same model as one process, if
#   the loss is a mean over equally many terms on every rank, and no layer mixes samples.
# * Deal samples like cards: sample $i$ goes to rank $i \bmod n$.
#
# **Your exercise** stands in a cell above.
#
# **Next**: {{next}}.

# %%
progress("00b")
