# %% [markdown]
# # {{title}}
#
# **Twelve trainings are broken. Can you say how?** On a cluster nobody tells you. You have a loss
# curve, a timeline, counts of bytes, the calls that a flight recorder kept, and the memory over
# time. Here you get exactly these, of twelve real runs. Each run has one fault, and you name it.

# %% [markdown]
# ![A table of coloured squares: twelve sheets, A to L, in rows; losses, steps, bytes over dp and
# tp, memory and calls in columns; few squares of each row differ from last week's run, and many
# rows look alike](../assets/covers/11b_exam.png)
#
# *Counted in section 5: which evidence of each sheet differs from last week's run. Many rows look
# alike, so this table is not enough to name the faults.*
#
# **After this part you can** read five kinds of evidence together, say what each possible fault
# would change, and rule out all faults but one.
#
# {{takes}}

# %% jupyter={"source_hidden": true}
from IPython.display import display

from pedagogy_lib import (
    Table, check, hint, lab, plot_map, plot_timeline, predict, progress,
)

# %% tags=["parameters"]
seed = 302  # another one draws other faults, and puts them on other sheets

# %% [markdown]
# ## 1 · The patient
#
# All sheets are runs of one program, [labs/exam_training.py](../labs/exam_training.py): a small
# language model on four ranks. Read it. Leave `labs/faults.py` and `labs/exam.py` closed: the
# faults stand in them.

# %% [markdown]
# * **Two copies, each on two ranks.** Ranks 0 and 1 have copy 0, ranks 2 and 3 have copy 1. So the
#   groups along `tp` are 0–1 and 2–3, and those along `dp` are 0–2 and 1–3.
# * **Two blocks, cut over `tp`.** Each block sums once in its forward and once in its backward.
#   Dropout sets one number in ten to 0, and the mask is the same on both ranks of a copy.
# * **A norm inside each block.** It normalises groups of 16 hidden numbers. All share one weight,
#   `inner`, whose gradient is therefore summed over `tp`, once per step (07c).
# * **Momentum, sharded over `dp`** (ZeRO 1). Each copy updates half of the weights.

# %% [markdown]
# It takes 21 steps, which are counted from 0. In each step this happens, in this order:
#
# | in the pictures | what a rank does |
# |---|---|
# | test | the *held-out* loss, of samples that are never trained on; a `tp sum` in each block |
# | data | gets the samples of its copy |
# | forward, backward | four times: one micro-batch, with a `tp sum` in each block |
# | dp sum | sums the gradients over the copies |
# | tp sum | once more: sums the gradient of `inner`, 16 numbers, over the tensor ranks |
# | dp gather | gets the half of the weights that the other copy has updated |
# | log | adds up the losses of all ranks |
#
# An epoch has 6 steps. Before step 15 the training is stopped, and then goes on from a checkpoint.
# The learning rate grows in the first 10 steps.

# %% [markdown]
# Each launch below trains anew. In the last step, which the timeline shows, computing and the link
# between the copies are emulated: they take a fixed time. All else is as fast as your computer. All
# runs have the same seeds. So on your computer, all runs without a fault have the same losses,
# digit for digit.
#
# `show` prints a sheet. All sheets have the same form.

# %%
exam, exam_training = lab("exam"), lab("exam_training")
last_week = exam.train()

def show(name, run):
    """Show a sheet: two pictures and four tables."""
    display(
        exam.plot_losses(run, last_week, title=f"{name}: the loss of each rank's copy"),
        plot_timeline(run, exam_training.LABELS, title=f"{name}: the last step"),
        Table(["step", *exam.COLUMNS * 2], exam.loss_rows(run, last_week),
              groups=exam.group_by_run(exam.COLUMNS), title=f"{name}: losses"),
        Table(["rank", *exam.AXES * 2], exam.byte_rows(run, last_week),
              groups=exam.group_by_run(exam.AXES), title=f"{name}: bytes sent in step 19"),
        Table(["kind", *[*exam.MEASURED.values()] * 2], exam.memory_rows(run, last_week),
              groups=exam.group_by_run(exam.MEASURED), title=f"{name}: most bytes on rank 0"),
        Table(["rank", "its last 16 calls, oldest first"], exam.call_rows(run),
              title=f"{name}: flight recorder"))

# %% [markdown]
# ## 2 · How to read a sheet
#
# This is last week's run, which is healthy. Look at it well: it is what you compare with.

# %% tags=["nbval-ignore-output"]
show("Last week", last_week)

# %% [markdown]
# * **Losses.** Both ranks of a copy have the same loss, so one line lies on the other. The two
#   copies have different samples, so their lines differ. `test` is the held-out loss; it is
#   computed *before* the step. Losses above 5 leave the picture. On all later sheets, thin black
#   lines are last week's losses, so that you see from which step on a run differs.
# * **Timeline.** In a bar of communication a rank waits until all ranks are there, and then the
#   message travels. The bar has no border between the two. The rank that comes last does not wait.
#   A rank that makes none of these steps any more has an empty row.

# %% [markdown]
# * **Bytes.** The operating system counts what is sent. Each call sends some hundred bytes more
#   than its tensor has.
# * **Memory.** The most that rank 0 had of each kind within two steps, and within the whole
#   training. At the restart there are three sets of weights for a moment: the old model, the new
#   one, and the flat tensor into which these move. That is why "all steps" has more parameters.
# * **Flight recorder.** Each rank's last 16 calls, in the order in which it made them; a barrier is
#   a call, too. Behind a call stands the length of its tensor; 1k is about a thousand. Equal calls
#   in a row are counted: `4 ×`.

# %% [markdown]
# ## 3 · A sheet, solved together
#
# Here is a thirteenth fault. Look for yourself before you read on.

# %% tags=["nbval-ignore-output"]
show("Example", exam.train(exam.EXAMPLE))

# %% [markdown]
# **What is as last week?** All losses. So the mean of the gradients is right, and so are the
# samples and the update. The bytes over `tp` and the memory are as last week, too.
#
# **What differs?** The bytes over `dp`: they are three times as many. Before you look for a name,
# take them apart. Let G be the bytes of all gradients of a rank. Between two ranks, the sum of the
# gradients sends G, and the gather G / 2: that was last week's 1.5 G. Now it is 4.5 G. If the
# gather is as before, 4 G are left: **four sums in a step, and a step has four micro-batches.**

# %% [markdown]
# **What does a second witness say?** In the recorder, a `dp: all_reduce` stands behind the sums of
# each micro-batch, and there is one `all_gather`. The timeline has four bars "dp sum". All three
# agree: **the copies exchange gradients after each micro-batch**, as DDP does without `no_sync`
# (03d).
#
# **What else might it be?** If the copies never exchanged gradients, the bytes over `dp` would
# differ, too. But they would be fewer, and the losses would differ. Always ask this last question:
# a fault that explains one number often contradicts another.

# %% [markdown]
# ## 4 · The candidates, and the sheets
#
# Each sheet has exactly one of these faults. No fault is on two sheets, and many are on none. The
# example is on no sheet.

# %%
sheets = {}  # for the runs
Table(["name", "what is wrong"], exam.TOLD.items())

# %% [markdown]
# Take a piece of paper. For each sheet write what differs, what does *not* differ, and which
# candidates remain. Times vary from run to run, and more so on a busy computer. So trust the length
# of a forward, a backward or a `tp sum` only if all four micro-batches agree. If in doubt, run the
# cell again.

# %% [markdown]
# ### Sheet A

# %% tags=["nbval-ignore-output"]
sheets["A"] = exam.run_of("A", seed)
show("Sheet A", sheets["A"])

# %% [markdown]
# ### Sheet B

# %% tags=["nbval-ignore-output"]
sheets["B"] = exam.run_of("B", seed)
show("Sheet B", sheets["B"])

# %% [markdown]
# ### Sheet C

# %% tags=["nbval-ignore-output"]
sheets["C"] = exam.run_of("C", seed)
show("Sheet C", sheets["C"])

# %% [markdown]
# ### Sheet D

# %% tags=["nbval-ignore-output"]
sheets["D"] = exam.run_of("D", seed)
show("Sheet D", sheets["D"])

# %% [markdown]
# ### Sheet E

# %% tags=["nbval-ignore-output"]
sheets["E"] = exam.run_of("E", seed)
show("Sheet E", sheets["E"])

# %% [markdown]
# ### Sheet F

# %% tags=["nbval-ignore-output"]
sheets["F"] = exam.run_of("F", seed)
show("Sheet F", sheets["F"])

# %% [markdown]
# ### Sheet G

# %% tags=["nbval-ignore-output"]
sheets["G"] = exam.run_of("G", seed)
show("Sheet G", sheets["G"])

# %% [markdown]
# ### Sheet H

# %% tags=["nbval-ignore-output"]
sheets["H"] = exam.run_of("H", seed)
show("Sheet H", sheets["H"])

# %% [markdown]
# ### Sheet I

# %% tags=["nbval-ignore-output"]
sheets["I"] = exam.run_of("I", seed)
show("Sheet I", sheets["I"])

# %% [markdown]
# ### Sheet J

# %% tags=["nbval-ignore-output"]
sheets["J"] = exam.run_of("J", seed)
show("Sheet J", sheets["J"])

# %% [markdown]
# ### Sheet K

# %% tags=["nbval-ignore-output"]
sheets["K"] = exam.run_of("K", seed)
show("Sheet K", sheets["K"])

# %% [markdown]
# ### Sheet L

# %% tags=["nbval-ignore-output"]
sheets["L"] = exam.run_of("L", seed)
show("Sheet L", sheets["L"])

# %% [markdown]
# ## 5 · Can a script do it?
#
# A script can compare all numbers of a sheet with last week's, and note which of six kinds of
# evidence differ. (It leaves times out, as they always differ.) Each kind differs or does not: this
# makes 64 patterns, more than enough for twelve sheets. If no other sheet has the same pattern, the
# script may know the fault. How many of the twelve sheets have a pattern of their own?

# %%
own_patterns = predict("Sheets of 12 with a pattern of their own", unit="sheets")

# %% tags=["cover", "nbval-ignore-output"]
squares = exam.difference_squares(sheets, last_week)
plot_map({"each sheet beside last week's run": squares}, exam.VERDICTS.values(),
         title="Which evidence differs")

# %% jupyter={"source_hidden": true}
# Your prediction; as "theory" all twelve, for which 64 patterns would be enough; and the count.
own_patterns.compare(12, exam.count_unique_patterns(squares), kind="forward", wire="counted")

# %% [markdown]
# Such a script cannot tell sheets with equal rows apart. You can, as you also ask *where*, *when*
# and *how much*. Check your notes with the picture, and then decide.

# %% [markdown]
# ### Exercise {{name_the_faults}} · Name the faults
#
# Write `name_the_faults()`. It takes nothing, and returns a dict with a name for each sheet, `"A"`
# to `"L"`. The name is a text from the list of candidates, exactly as it stands there, or `None` if
# you cannot tell. The dict also has `"seed"`: the number behind `seed =` at the top of this
# notebook. For example, if there were three sheets:
#
# `{"seed": 7, "A": "summed", "B": None, "C": "slow link"}`
#
# The check says how many names are right. For up to three wrong names, it says what these faults
# would show, and what the sheet shows.

# %%
def name_the_faults():
    """Exercise {{name_the_faults}}. The fault of each sheet, and the seed that they were drawn with."""
    ### BEGIN SOLUTION
    return {
        "seed": 302,
        "A": "inner not summed",
        "B": "same samples",
        "C": "slow link",
        "D": "nothing sharded",
        "E": "not cleared",
        "F": "other order",
        "G": "slow rank",
        "H": "graphs kept",
        "I": "summed",
        "J": "own masks",
        "K": "backwards last",
        "L": "same order",
    }
    ### END SOLUTION

# %%
check("{{name_the_faults}}", name_the_faults)

# %% [markdown]
# Once more? Change the number behind `seed =` at the top, and run all. Another seed draws other
# faults.

# %% [markdown]
# ## Your passport
#
# This is the end of the course. Here is all of it once more, and what you have done of it. A part
# gets a stamp when all its exercises have passed, with the day on which the last one passed. The
# link under the bar leads to the first exercise that is still open.
#
# Each check has tried your program on many cases, or on real ranks. So a stamp says: *I have
# written this, and it works.*
#
# (The executed copy of this notebook shows only what was checked in it. Your own record is in
# `work/`, beside your notebooks.)

# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## What you have learnt
#
# * **What is as before is evidence, too**: equal losses rule out half of all candidates.
# * The **first step** at which losses leave those of a healthy run says where to look.
# * A number becomes a fault when you **take it apart**: which message, how often, how long?
# * A rank that waits is seldom guilty. In a timeline look for the rank that comes last, in a
#   recorder for the first call that differs.
# * Ask a second witness, and ask what another fault would have changed.
#
# **Your exercise** stands in a cell above. You have come to the end of the course.

# %%
progress("11b")
