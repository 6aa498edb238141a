# %% right · ZeRO over copies inside of a machine
def my_recipe():
    return dict(dp=4, pp=2, zero=1, half=True)

# %% right · each stage is cut, too [deep]
def my_recipe():
    return {"pp": 2, "dp": 2, "tp": 2, "zero": 1, "half": True, "micro_batch": 2}

# %% right · two stages on each machine [deep]
def my_recipe():
    recipe = {"pp": 4, "dp": 2, "zero": 1}
    recipe["half"] = True
    return recipe

# %% right · more than asked is saved [deep]
def my_recipe():
    return {"pp": 2, "dp": 4, "zero": 1, "half": True, "recompute": "full"}

# %% wrong · copies of the model stand on both machines
def my_recipe():
    return {"dp": 8, "zero": 1, "half": True, "recompute": "full"}

# %% wrong · copies of the model stand on both machines [deep]
def my_recipe():
    return {"dp": 2, "tp": 4, "half": True, "micro_batch": 8}

# %% wrong · a layer is cut across the machines [deep]
def my_recipe():
    return {"tp": 8, "half": True, "micro_batch": 16}

# %% wrong · each rank along tp has the whole output of its stage [deep]
def my_recipe():
    return {"pp": 2, "tp": 4, "half": True, "micro_batch": 4}

# %% wrong · each weight has 4 bytes, its gradient 4 [deep]
def my_recipe():
    return {"pp": 2, "dp": 4, "zero": 1}

# %% wrong · every copy keeps all states of the optimizer [deep]
def my_recipe():
    return {"pp": 2, "dp": 4, "half": True}

# %% wrong · what fills the memory are activations [deep]
def my_recipe():
    return {"pp": 2, "dp": 4, "zero": 1, "half": True, "micro_batch": 4}

# %% wrong · each of the 8 ranks has one place on the mesh
def my_recipe():
    return {"pp": 2, "dp": 2, "zero": 1, "half": True}

# %% wrong · there are more stages, or chunks of them, than layers
def my_recipe():
    return {"pp": 8, "half": True}

# %% wrong · which gather or reduce for each micro-batch
def my_recipe():
    return {"pp": 2, "dp": 4, "zero": 3, "half": True}

# %% wrong · does not divide the batch
def my_recipe():
    return {"pp": 2, "dp": 4, "zero": 1, "half": True, "micro_batch": 3}

# %% wrong · settings: dp, tp, pp
def my_recipe():
    return {"pp": 2, "dp": 4, "zero": 1, "bfloat16": True}

# %% wrong · return a dict of settings
def my_recipe():
    return "dp 4 pp 2, ZeRO 1"

# %% wrong · sizes are whole numbers from 1 on
def my_recipe():
    return {"pp": 2, "dp": "4", "zero": 1, "half": True}

# %% wrong · sizes are whole numbers from 1 on
def my_recipe():
    return {"pp": 2, "dp": 0, "half": True}

# %% wrong · half is True or False, without quotes
def my_recipe():
    return {"pp": 2, "dp": 4, "zero": 1, "half": "False"}

# %% wrong · sizes are whole numbers from 1 on
def my_recipe():
    return {"pp": 2.0, "dp": 8 / 2, "zero": 1, "half": True}

# %% wrong · sizes are whole numbers from 1 on
def my_recipe():
    return {"pp": 2, "dp": 4, "zero": 1, "half": True, "micro_batch": -1}

# %% wrong · zero is 0, 1, 2 or 3
def my_recipe():
    return {"dp": 8, "zero": 4, "half": True}

# %% wrong · recompute is "none" or "full"
def my_recipe():
    return {"pp": 2, "dp": 4, "zero": 1, "half": True, "recompute": None}

# %% wrong · recompute is "none" or "full"
def my_recipe():
    return {"pp": 2, "dp": 4, "zero": 1, "half": True, "recompute": "Full"}

# %% wrong · it makes a number of 5000 digits ranks, and there are 8
def my_recipe():
    return {"pp": 2, "dp": 10 ** 5000, "zero": 1, "half": True}

# %% wrong · it raised StopIteration
def my_recipe():
    judged = lab("capstone_scores")
    return vars(next(r for r in judged.all_recipes(lab("capstone").SETTING) if r.dp == 3))

# %% wrong · missing 1 required positional argument: 'setting'
def my_recipe(setting):
    return {"pp": 2, "dp": 4, "zero": 1, "half": True}

# %% wrong · settings: dp, tp, pp
def my_recipe():
    return {"pp": 2, "dp": 4, "zero": 1, "half": True, "sequence": True}
