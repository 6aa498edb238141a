# %% [markdown]
# # {{title}}
#
# **A question that a number can answer?** In two or three sentences, what the reader will predict,
# run and write.

# %% [markdown]
# ![What the picture shows, in words, and what one sees in it: at least 40 characters
# ](../assets/covers/02h_title.png)
#
# *What was measured for this picture, and in which section.*
#
# **After this part you can** do something that you can name.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
import torch
import torch.distributed as dist

from pedagogy_lib import (
    launch, measure, plot_traffic, predict, progress,
)

# %% tags=["parameters"]
world_size = 4

# %% [markdown]
# ## 1 · What happens
#
# One sentence of motive. Then the reader predicts a number.

# %%
sent = predict("Bytes that rank 0 sends in an all-reduce of 4 MB", unit="MB")

# %%
def sum_of_all_ranks():
    x = torch.ones(1_000_000)
    with measure("all-reduce"):
        dist.all_reduce(x)
    return x[0].item()

run = launch(sum_of_all_ranks, world_size=world_size, device="cpu")
print(f"sum {run.values[0]:g}")

# %% jupyter={"source_hidden": true}
# Your prediction, theory, and what was measured.
n = world_size
sent.compare(theory=2 * (n - 1) / n * 4, measured=run["all-reduce"].sent_bytes[0] / 1e6,
             kind="communication")

# %% tags=["cover"]
plot_traffic(run, "all-reduce")

# %% [markdown]
# Why it is so: one equation, one paragraph.

# %% [markdown]
# ## 2 · Break it
#
# What goes wrong without the part's idea, and how that shows. Then let a real engine compute the
# same numbers.

# %% [markdown]
# ## What you have learnt
#
# * One point.
# * Another point.
# * A third point, up to five.
#
# **Next**: {{next}}.

# %%
progress("02h")
