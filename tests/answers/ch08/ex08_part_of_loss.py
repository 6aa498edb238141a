# %% given
mean_loss = lab("language_model").mean_loss

# %% right · a sum over the letters
def part_of_loss(scores, targets, batch_samples):
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten(), reduction='sum') / (
        batch_samples * targets.shape[1])

# %% right · the letters' scores in another order
def part_of_loss(scores, targets, batch_samples):
    return F.cross_entropy(scores.movedim(-1, 1), targets) * len(targets) / batch_samples

# %% wrong · Adam hides it
def part_of_loss(scores, targets, batch_samples):
    return mean_loss(scores, targets)

# %% wrong · every micro-batch has the same share
def part_of_loss(scores, targets, batch_samples):
    return mean_loss(scores, targets) / 4

# %% wrong · this divides by the number of micro-batches
def part_of_loss(scores, targets, batch_samples):
    return mean_loss(scores, targets) / (batch_samples // len(targets))

# %% wrong · divided by the micro-batch's samples once more
def part_of_loss(scores, targets, batch_samples):
    return mean_loss(scores, targets) / len(targets)

# %% wrong · it has lost how many samples
def part_of_loss(scores, targets, batch_samples):
    return mean_loss(scores, targets) / batch_samples

# %% wrong · divided by the letters of a sample, too
def part_of_loss(scores, targets, batch_samples):
    return mean_loss(scores, targets) * len(targets) / batch_samples / targets.shape[1]

# %% wrong · upside down
def part_of_loss(scores, targets, batch_samples):
    return mean_loss(scores, targets) * batch_samples / len(targets)

# %% wrong · a number that autograd knows
def part_of_loss(scores, targets, batch_samples):
    return mean_loss(scores, targets).detach() * len(targets) / batch_samples

# %% wrong · the sum over the samples of the micro-batch
def part_of_loss(scores, targets, batch_samples):
    return mean_loss(scores, targets) * len(targets)
