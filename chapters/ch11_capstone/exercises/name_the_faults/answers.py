# %% right · of another seed, and in another order
def name_the_faults():
    names = (
        "not divided, backwards last, inner not summed, nothing sharded, slow link, "
        "no sum backward, summed, same order, same samples, slow rank, other order, graphs kept"
    ).split(", ")
    return dict(zip("LKJIHGFEDCBA", reversed(names))) | {"seed": 138}

# %% right · by kinds of fault
def name_the_faults():
    found = {
        "data": {"B": "same samples", "L": "same order"},
        "gradients": {"E": "not cleared", "I": "summed", "D": "nothing sharded"},
        "tensor ranks": {"A": "inner not summed", "J": "own masks"},
        "memory": {"H": "graphs kept", "K": "backwards last"},
        "time": {"C": "slow link", "G": "slow rank", "F": "other order"},
    }
    answer = {"seed": 302}
    for some in found.values():
        answer.update(some)
    return answer

# %% wrong · 10 of 12 are right: sheet C is not “slow rank”; sheet G is not “slow link” C: with “slow rank”, the forwards and backwards of one rank are long without its sums. Here “dp sum” and “dp gather” are long on all ranks
# -         "C": "slow link",
# +         "C": "slow rank",
# -         "G": "slow rank",
# +         "G": "slow link",

# %% wrong · I: with “not divided”, in step 0 the held-out loss falls 4 times as much as last week's. Here in step 0 the held-out loss falls 2 times as much as
# -         "I": "summed",
# +         "I": "not divided",

# %% wrong · H: with “backwards last”, activations are four times last week's in each step, and are freed in it. Here activations grow from step to step
# -         "H": "graphs kept",
# +         "H": "backwards last",

# %% wrong · D: with “never exchanged”, a rank sends 0.33 times as much as last week over dp. Here a rank sends 0.67 times
# -         "D": "nothing sharded",
# +         "D": "never exchanged",

# %% wrong · L: with “epoch anew”, losses are not last week's from step 15 on. Here losses are not last week's from step 6 on
# -         "L": "same order",
# +         "L": "epoch anew",

# %% wrong · A: with “no sum backward”, a rank sends 0.56 times as much as last week over tp. Here a rank sends 0.99 times
# -         "A": "inner not summed",
# +         "A": "no sum backward",

# %% wrong · A: with “no sum forward”, a rank sends 0.45 times as much as last week over tp. Here a rank sends 0.99 times
# -         "A": "inner not summed",
# +         "A": "no sum forward",

# %% wrong · F: with “batch less”, one rank has made no call of the last step. Here one rank has made its call over all ranks before
# -         "F": "other order",
# +         "F": "batch less",

# %% wrong · J: with “own shuffles”, some loss of step 0 is more than 0.05 from last week's. Here all losses of step 0 are less
# -         "J": "own masks",
# +         "J": "own shuffles",

# %% wrong · B: with “own masks”, the two ranks of a copy disagree on its loss from step 0 on. Here the ranks of each copy agree
# -         "B": "same samples",
# +         "B": "own masks",

# %% wrong · 11 of 12 are right: nothing is wrong; still open: E
# -         "E": "not cleared",
# +         "E": None,

# %% wrong · there is nothing on K
# -         "K": "backwards last",

# %% wrong · did you mean 'slow tensor link'?
# -         "C": "slow link",
# +         "C": "slow tensor links",

# %% wrong · the dict has the seed of your exam, too
# -         "seed": 302,

# %% wrong · the sheets are A to L
# -         "B": "same samples",
# +         "b": "same samples",

# %% wrong · return a dict
def name_the_faults():
    return ["same samples", "slow link", "nothing sharded"]

# %% right · a subclass of dict, and a negative seed
def name_the_faults():
    from collections import OrderedDict
    found = OrderedDict(lab("exam").draw_faults(-5))
    found["seed"] = -5
    return found

# %% wrong · 0 of 12 are right: nothing is wrong; still open: A, B, C
def name_the_faults():
    return {"seed": 302, **dict.fromkeys("ABCDEFGHIJKL")}

# %% wrong · the seed is True the seed of your exam is a whole number
def name_the_faults():
    return {"seed": True, **lab("exam").draw_faults(True)}

# %% wrong · the seed is '302' the seed of your exam is a whole number
def name_the_faults():
    return {"seed": "302", **lab("exam").draw_faults(302)}

# %% wrong · the seed is a number of 5000 digits
def name_the_faults():
    return {"seed": 10 ** 5000, **lab("exam").draw_faults(302)}

# %% wrong · each sheet has one name, as a text
# -         "I": "summed",
# +         "I": ["summed", "not divided"],

# %% wrong · or None, without quotes, where you cannot tell
# -         "I": "summed",
# +         "I": "None",

# %% wrong · did you mean 'summed'?
# -         "I": "summed",
# +         "I": "Summed",

# %% wrong · there is no sheet 'a'
def name_the_faults():
    return {"seed": 302, **{k.lower(): v for k, v in lab("exam").draw_faults(302).items()}}
