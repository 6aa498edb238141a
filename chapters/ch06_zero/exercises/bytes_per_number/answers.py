# %% right · a dictionary of defaults
def bytes_per_number(param, reduce, output, autocast):
    gathered = 4 if param is None else param
    product = 2 if autocast else gathered
    logits = product if output is None else output
    loss = 4 if autocast else logits
    reduced = gathered if reduce is None else reduce
    return [gathered, product, logits, loss, reduced]

# %% right · case by case
def bytes_per_number(param, reduce, output, autocast):
    weights = param or 4
    if autocast:
        return weights, 2, output or 2, 4, reduce or weights
    return weights, weights, output or weights, output or weights, reduce or weights

# %% wrong · autocast gathers nothing in bfloat16
# -     weights = param or 4
# +     weights = 2 if autocast else param or 4
# -     return weights, product, logits, 4 if autocast else logits, reduce or weights
# +     return weights, product, logits, 4 if autocast else logits, reduce or param or 4

# %% wrong · the dtype of the weights does not matter there
# -     logits = output or product
# +     logits, product = output or product, weights

# %% wrong · it is not cast back to float32
# -     logits = output or product
# +     loss, logits = output or product, output or 4
# -     return weights, product, logits, 4 if autocast else logits, reduce or weights
# +     return weights, product, logits, 4 if autocast else loss, reduce or weights

# %% wrong · under autocast the cross-entropy is computed in float32
# -     return weights, product, logits, 4 if autocast else logits, reduce or weights
# +     return weights, product, logits, logits, reduce or weights

# %% wrong · the cross-entropy has their dtype
# -     return weights, product, logits, 4 if autocast else logits, reduce or weights
# +     return weights, product, logits, 4, reduce or weights

# %% wrong · and not in that of the stored ones
# -     return weights, product, logits, 4 if autocast else logits, reduce or weights
# +     return weights, product, logits, 4 if autocast else logits, reduce or 4

# %% wrong · they do not travel in its bfloat16
# -     return weights, product, logits, 4 if autocast else logits, reduce or weights
# +     return weights, product, logits, 4 if autocast else logits, reduce or (2 if autocast else weights)

# %% wrong · five numbers
# -     return weights, product, logits, 4 if autocast else logits, reduce or weights
# +     return weights, product, logits, reduce or weights

# %% wrong · reduce_dtype decides about the gradients
# -     return weights, product, logits, 4 if autocast else logits, reduce or weights
# +     reduced = (reduce if param or output else None) or weights
# +     return weights, product, logits, 4 if autocast else logits, reduced
