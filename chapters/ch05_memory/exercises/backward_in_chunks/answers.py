# %% right · one leaf, and slices of it
def backward_in_chunks(hidden, weight, targets, size):
    leaf, total = hidden.detach().requires_grad_(), 0.0
    for first in range(0, len(targets), size):
        logits = F.linear(leaf[first : first + size], weight)
        loss = F.cross_entropy(logits, targets[first : first + size], reduction="sum")
        loss = loss / len(targets)
        loss.backward()
        total += loss.item()
    hidden.backward(leaf.grad)
    return total

# %% right · computed twice, by PyTorch
def backward_in_chunks(hidden, weight, targets, size):
    from torch.utils.checkpoint import checkpoint

    def sum_chunk_loss(part, answers):
        return F.cross_entropy(part @ weight.T, answers, reduction="sum")

    parts = zip(hidden.split(size), targets.split(size))
    losses = [checkpoint(sum_chunk_loss, *pair, use_reentrant=False) for pair in parts]
    loss = sum(losses) / len(targets)
    loss.backward()
    return loss.detach()

# %% right · gradients by hand
@torch.no_grad()
def backward_in_chunks(hidden, weight, targets, size):
    n, total, gradient = len(targets), 0.0, torch.zeros_like(hidden)
    of_weight = torch.zeros_like(weight)
    for first in range(0, n, size):
        part, answers = hidden[first : first + size], targets[first : first + size]
        logits = part @ weight.T
        total -= logits.log_softmax(-1).gather(1, answers[:, None]).sum() / n
        slope = logits.softmax(-1)
        slope[torch.arange(len(answers)), answers] -= 1
        gradient[first : first + size] = slope @ weight / n
        of_weight += slope.T @ part / n
    hidden.backward(gradient)
    weight.grad = of_weight if weight.grad is None else weight.grad + of_weight
    return total

# %% right · the graph of a mean, weighted
def backward_in_chunks(hidden, weight, targets, size):
    gradient, total = torch.empty_like(hidden), 0
    for index in torch.arange(len(targets)).split(size):
        part = hidden[index].detach().requires_grad_(True)
        share = len(index) / len(targets)
        loss = share * F.cross_entropy(part @ weight.t(), targets[index])
        gradient[index], of_weight = torch.autograd.grad(loss, (part, weight))
        weight.grad = of_weight if weight.grad is None else weight.grad.add_(of_weight)
        total = total + loss.detach()
    torch.autograd.backward(hidden, gradient)
    return total

# %% wrong · the mean of the chunks' means
def backward_in_chunks(hidden, weight, targets, size):
    total, gradients = 0.0, []
    parts = hidden.detach().split(size)
    for part, answers in zip(parts, targets.split(size)):
        part.requires_grad_()
        loss = F.cross_entropy(part @ weight.T, answers) / len(parts)
        loss.backward()
        total += loss.detach()
        gradients.append(part.grad)
    hidden.backward(torch.cat(gradients))
    return total

# %% wrong · too large by the number of chunks
# -         loss = F.cross_entropy((part @ weight.T).to(exact), answers, reduction="sum") / count
# +         loss = F.cross_entropy(part @ weight.T, answers)

# %% wrong · asked is the mean
# -         loss = F.cross_entropy((part @ weight.T).to(exact), answers, reduction="sum") / count
# +         loss = F.cross_entropy(part @ weight.T, answers, reduction="sum")

# %% wrong · this is the last chunk alone
# -         total += loss.detach()
# +         total = loss.detach()

# %% wrong · the last chunk is missing
def backward_in_chunks(hidden, weight, targets, size):
    leaf, total = hidden.detach().requires_grad_(), 0.0
    for k in range(len(targets) // size or 1):
        part = slice(k * size, (k + 1) * size)
        loss = F.cross_entropy(leaf[part] @ weight.T, targets[part], reduction="sum")
        (loss / len(targets)).backward()
        total += loss.item() / len(targets)
    hidden.backward(leaf.grad)
    return total

# %% wrong · get no gradient
# -     hidden.backward(torch.cat(gradients))

# %% wrong · get their gradient twice
# -     hidden.backward(torch.cat(gradients))
# +     hidden.backward(torch.cat(gradients), retain_graph=True)
# +     hidden.backward(torch.cat(gradients))

# %% wrong · collect its gradient, and go on into these layers once
def backward_in_chunks(hidden, weight, targets, size):
    total = 0.0
    for part, answers in zip(hidden.split(size), targets.split(size)):
        loss = F.cross_entropy(part @ weight.T, answers, reduction="sum") / len(targets)
        loss.backward()
        total += loss.detach()
    return total

# %% wrong · has a graph
def backward_in_chunks(hidden, weight, targets, size):
    total = 0.0
    for part, answers in zip(hidden.split(size), targets.split(size)):
        total = total + F.cross_entropy(part @ weight.T, answers, reduction="sum") / len(targets)
    total.backward()
    return total

# %% wrong · Go back through each chunk before the next one
def backward_in_chunks(hidden, weight, targets, size):
    total = 0.0
    for part, answers in zip(hidden.split(size), targets.split(size)):
        total = total + F.cross_entropy(part @ weight.T, answers, reduction="sum") / len(targets)
    total.backward()
    return total.detach()

# %% wrong · Go back through each chunk before the next one
def backward_in_chunks(hidden, weight, targets, size):
    loss = F.cross_entropy(hidden @ weight.T, targets)
    loss.backward()
    return loss.detach()

# %% wrong · a gradient that was in .grad already is gone
def backward_in_chunks(hidden, weight, targets, size):
    total, gradients = 0.0, []
    hidden_grad = []
    of_weight = torch.zeros_like(weight)
    for part, answers in zip(hidden.detach().split(size), targets.split(size)):
        part.requires_grad_()
        loss = F.cross_entropy(part @ weight.T, answers, reduction="sum") / len(targets)
        slope, one = torch.autograd.grad(loss, (part, weight))
        of_weight += one
        hidden_grad.append(slope)
        total += loss.detach()
    weight.grad = of_weight
    hidden.backward(torch.cat(hidden_grad))
    return total

# %% wrong · added to its gradient, and does not replace it
def backward_in_chunks(hidden, weight, targets, size):
    total, gradients, of_weight = 0.0, [], torch.zeros_like(weight)
    for part, answers in zip(hidden.detach().split(size), targets.split(size)):
        part.requires_grad_()
        loss = F.cross_entropy(part @ weight.T, answers, reduction="sum") / len(targets)
        slope, one = torch.autograd.grad(loss, (part, weight))
        of_weight += one
        gradients.append(slope)
        total += loss.detach()
    hidden.backward(torch.cat(gradients))
    weight.grad = of_weight
    return total

# %% wrong · has to be told the gradient of each
# -     hidden.backward(torch.cat(gradients))
# +     hidden.backward()

# %% wrong · is no leaf, and its .grad stays None
def backward_in_chunks(hidden, weight, targets, size):
    total, gradients = torch.zeros((), dtype=hidden.dtype), []
    for part, answers in zip(hidden.detach().requires_grad_().split(size), targets.split(size)):
        loss = F.cross_entropy(part @ weight.T, answers, reduction="sum") / len(targets)
        loss.backward()
        total += loss.detach()
        gradients.append(part.grad)
    hidden.backward(torch.cat(gradients))
    return total

# %% wrong · what the logits are computed from has no gradient
def backward_in_chunks(hidden, weight, targets, size):
    total, gradients = 0.0, []
    for part, answers in zip(hidden.detach().split(size), targets.split(size)):
        loss = F.cross_entropy(part @ weight.detach().T, answers, reduction="sum") / len(targets)
        loss.backward()
        total += loss.detach()
        gradients.append(part.grad)
    hidden.backward(torch.cat(gradients))
    return total

# %% wrong · times the transpose of `weight`
# -         loss = F.cross_entropy((part @ weight.T).to(exact), answers, reduction="sum") / count
# +         loss = F.cross_entropy(part @ weight, answers, reduction="sum") / len(targets)

# %% wrong · the gradient of `hidden` has its shape
# -     hidden.backward(torch.cat(gradients))
# +     hidden.backward(gradients[0])

# %% wrong · only gradients change
# -         gradients.append(of_part)
# +         gradients.append(of_part)
# +     hidden.data.zero_()

# %% wrong · their backward runs once
def backward_in_chunks(hidden, weight, targets, size):
    total = 0.0
    for part, answers in zip(hidden.split(size), targets.split(size)):
        loss = F.cross_entropy(part @ weight.T, answers, reduction="sum") / len(targets)
        loss.backward(retain_graph=True)
        total += loss.detach()
    return total

# %% wrong · it is not the number of chunks
# -     for part, answers in zip(hidden.detach().split(size), targets.split(size)):
# +     for part, answers in zip(hidden.detach().chunk(size), targets.chunk(size)):

# %% wrong · gets no gradient from the logits
def backward_in_chunks(hidden, weight, targets, size):
    total, gradients = torch.zeros((), dtype=hidden.dtype), []
    for part, answers in zip(hidden.detach().split(size), targets.split(size)):
        part.requires_grad_()
        loss = F.cross_entropy(part @ weight.detach().T, answers, reduction="sum")
        loss = loss / len(targets)
        loss.backward()
        total += loss.detach()
        gradients.append(part.grad)
    hidden.backward(torch.cat(gradients))
    return total

# %% wrong · the last chunk has fewer, and counts for less
# -         loss = F.cross_entropy((part @ weight.T).to(exact), answers, reduction="sum") / count
# +         loss = F.cross_entropy(part @ weight.T, answers) * size / len(targets)

# %% wrong · are told a gradient of ones
# -     hidden.backward(torch.cat(gradients))
# +     hidden.sum().backward()

# %% wrong · one number is asked
# -     return total
# +     return [total]

# %% right · the gradient by formula
def backward_in_chunks(hidden, weight, targets, size):
    h, w, n = hidden.detach(), weight.detach(), len(targets)
    dh, dw, total = torch.zeros_like(h), torch.zeros_like(w), 0.0
    for hp, tp, dp in zip(h.split(size), targets.split(size), dh.split(size)):
        z = hp @ w.T
        z -= z.logsumexp(1, keepdim=True)
        total += -z.gather(1, tp[:, None]).sum().item() / n
        z.exp_()
        z[torch.arange(len(tp)), tp] -= 1
        z /= n
        dp.copy_(z @ w)
        dw.addmm_(z.T, hp)
    weight.grad = dw if weight.grad is None else weight.grad + dw
    hidden.backward(dh)
    return torch.tensor(total, dtype=torch.float64)

# %% right · each chunk recomputed
def backward_in_chunks(hidden, weight, targets, size):
    from torch.utils.checkpoint import checkpoint
    f = lambda h, t: F.cross_entropy(h @ weight.T, t, reduction="sum")
    l = sum(checkpoint(f, h, t, use_reentrant=False) for h, t in zip(hidden.split(size), targets.split(size))) / len(targets)
    l.backward(); return l.detach()

# %% wrong · what cross_entropy has made of them
def backward_in_chunks(hidden, weight, targets, size):
    total, gradients, kept = torch.zeros((), dtype=hidden.dtype), [], []
    for part, answers in zip(hidden.detach().split(size), targets.split(size)):
        part.requires_grad_()
        loss = F.cross_entropy(part @ weight.T, answers, reduction="sum") / len(targets)
        loss.backward(); kept.append(torch.softmax((part @ weight.T).detach(), 1))
        total += loss.detach()
        gradients.append(part.grad)
    hidden.backward(torch.cat(gradients))
    return total

# %% wrong · The last chunk may be shorter
# -     for part, answers in zip(hidden.detach().split(size), targets.split(size)):
# +     for i in range(len(targets) // size):
# +         part, answers = hidden.detach()[i*size:(i+1)*size], targets[i*size:(i+1)*size]
