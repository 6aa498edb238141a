# %% given
import torch.nn.functional as F

mean_loss = lab("language_model").mean_loss

# %% right · a sum over the tokens
def part_of_loss(logits, targets, batch_samples):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction='sum') / (
        batch_samples * targets.shape[1])

# %% right · the tokens' logits in another order
def part_of_loss(logits, targets, batch_samples):
    return F.cross_entropy(logits.movedim(-1, 1), targets) * len(targets) / batch_samples

# %% wrong · Adam hides it
# -     return mean_loss(logits, targets) * len(targets) / batch_samples
# +     return mean_loss(logits, targets)

# %% wrong · every micro-batch has the same share
# -     return mean_loss(logits, targets) * len(targets) / batch_samples
# +     return mean_loss(logits, targets) / 4

# %% wrong · a number that autograd knows
# -     return mean_loss(logits, targets) * len(targets) / batch_samples
# +     return mean_loss(logits, targets).detach() * len(targets) / batch_samples

# %% wrong · a number that autograd knows
# -     return mean_loss(logits, targets) * len(targets) / batch_samples
# +     loss = mean_loss(logits, targets).item() * len(targets) / batch_samples
# +     return torch.tensor(loss, requires_grad=True)

# %% wrong · what a micro-batch adds is one number
# -     return mean_loss(logits, targets) * len(targets) / batch_samples
# +     losses = F.cross_entropy(logits.movedim(-1, 1), targets, reduction="none")
# +     return losses.mean(1) / batch_samples

# %% wrong · it returned None
# -     return mean_loss(logits, targets) * len(targets) / batch_samples
# +     mean_loss(logits, targets) * len(targets) / batch_samples

# %% wrong · call no backward() here
def part_of_loss(logits, targets, batch_samples):
    loss = mean_loss(logits, targets) * len(targets) / batch_samples
    loss.backward()
    return loss

# %% wrong · what a micro-batch adds is one number
def part_of_loss(logits, targets, batch_samples):
    return mean_loss(logits, targets), len(targets) / batch_samples
