# %% right · with divmod
def contradictions(row):
    found, dp = [], row["dp"]
    whole, rest = divmod(row["gpus"], row["tp"] * row["pp"])
    if dp is None:
        dp = whole if rest == 0 else 0
    if dp == 0 or dp * row["tp"] * row["pp"] != row["gpus"]:
        found.append("ranks")
    if dp and row["batch"] % (dp * row["micro_batch"]):
        found.append("batch")
    rate = row["flops"] * row["batch"] / (row["gpus"] * row["seconds"] * 1e12)
    if rate > row["tflops"] * 1.05 or rate < row["tflops"] * 0.95:
        found.append("rate")
    return found

# %% right · with fractions and a generator
def contradictions(row):
    from fractions import Fraction
    dp = row["dp"] if row["dp"] is not None else Fraction(row["gpus"], row["tp"] * row["pp"])
    known = Fraction(dp).denominator == 1
    steps = Fraction(row["batch"]) / (dp * row["micro_batch"])
    ratio = row["batch"] * row["flops"] / (row["seconds"] * row["gpus"]) / 1e12 / row["tflops"]
    wrong = {"ranks": not known or dp * row["tp"] * row["pp"] != row["gpus"],
             "batch": known and steps.denominator != 1, "rate": abs(ratio - 1) > 0.05}
    return [name for name in wrong if wrong[name]]

# %% wrong · dp is None where the row does not print it
def contradictions(row):
    found = []
    if row["dp"] * row["tp"] * row["pp"] != row["gpus"]:
        found.append("ranks")
    if row["batch"] % (row["dp"] * row["micro_batch"]):
        found.append("batch")
    rate = row["batch"] * row["flops"] / row["seconds"] / row["gpus"]
    if abs(rate / 1e12 / row["tflops"] - 1) > 0.05:
        found.append("rate")
    return found

# %% wrong · the whole batch with one micro-batch
# -     if copies and row["batch"] % (copies * row["micro_batch"]):
# +     if row["batch"] % row["micro_batch"]:

# %% wrong · not of samples alone
# -     if copies and row["batch"] % (copies * row["micro_batch"]):
# +     if copies and row["batch"] % copies:

# %% wrong · a share of the printed rate
# -     if abs(rate - row["tflops"]) > 0.05 * row["tflops"]:
# +     if abs(rate - row["tflops"]) > 0.05 * rate:

# %% wrong · both are contradictions
# -     if abs(rate - row["tflops"]) > 0.05 * row["tflops"]:
# +     if rate - row["tflops"] > 0.05 * row["tflops"]:

# %% wrong · even if dp × tp × pp is another number
def contradictions(row):
    dp = row["dp"] or row["gpus"] // (row["tp"] * row["pp"])
    ranks = dp * row["tp"] * row["pp"]
    whole = row["dp"] or row["gpus"] % (row["tp"] * row["pp"]) == 0
    found = ["ranks"] if ranks != row["gpus"] else []
    if whole and row["batch"] % (dp * row["micro_batch"]):
        found.append("batch")
    if not ranks:
        return found + ["rate"]
    if abs(row["batch"] * row["flops"] / row["seconds"] / ranks / 1e12 / row["tflops"] - 1) > 0.05:
        found.append("rate")
    return found

# %% wrong · return a list of words
def contradictions(row):
    return row["dp"] * row["tp"] * row["pp"] != row["gpus"] if row["dp"] else False

# %% wrong · not the first alone
def contradictions(row):
    dp = row["dp"]
    if dp is None and row["gpus"] % (row["tp"] * row["pp"]) == 0:
        dp = row["gpus"] // (row["tp"] * row["pp"])
    if dp is None or dp * row["tp"] * row["pp"] != row["gpus"]:
        return ["ranks"]
    if row["batch"] % (dp * row["micro_batch"]):
        return ["batch"]
    rate = row["batch"] * row["flops"] / row["seconds"] / row["gpus"] / 1e12
    return ["rate"] if abs(rate / row["tflops"] - 1) > 0.05 else []

# %% wrong · what an earlier call has left
# - def contradictions(row):
# -     found, copies = [], row["dp"]
# + def contradictions(row, found=[]):
# +     copies = row["dp"]

# %% wrong · how many copies there are, the batch contradicts nothing
def contradictions(row):
    found, copies = [], row["dp"] or -(-row["gpus"] // (row["tp"] * row["pp"]))
    if copies * row["tp"] * row["pp"] != row["gpus"]:
        found.append("ranks")
    if row["batch"] % (copies * row["micro_batch"]):
        found.append("batch")
    rate = row["batch"] * row["flops"] / (row["seconds"] * row["gpus"]) / 1e12
    if abs(rate - row["tflops"]) > 0.05 * row["tflops"]:
        found.append("rate")
    return found

# %% wrong · 300 TFLOP/s that is 15
# -     if abs(rate - row["tflops"]) > 0.05 * row["tflops"]:
# +     if abs(rate - row["tflops"]) > 0.05:

# %% wrong · is none of them
# -         found.append("rate")
# +         found.append("Rate")
