# %% right · numbers are added up
def accumulate_tokens(model, micro_batches):
    model.zero_grad()
    n, total = sum((targets != PADDING).sum().item() for _, targets in micro_batches), 0.0
    for tokens, targets in micro_batches:
        logits = model(tokens).flatten(0, 1)
        loss = F.cross_entropy(logits, targets.flatten(), reduction="sum") * (1 / n)
        loss.backward()
        total += loss.item()
    return total

# %% right · a mask, and divided afterwards
def accumulate_tokens(model, micro_batches):
    model.zero_grad()
    total, n = 0.0, 0
    for tokens, targets in micro_batches:
        real = targets != PADDING
        if real.any():
            loss = F.cross_entropy(model(tokens)[real], targets[real]) * real.sum()
            loss.backward()
            total, n = total + loss.item(), n + real.sum().item()
    for parameter in model.parameters():
        parameter.grad /= n
    return total / n

# %% wrong · mean of means
# -         loss = F.cross_entropy(logits, wanted, ignore_index=PADDING, reduction="sum") / counted
# +         loss = F.cross_entropy(logits, wanted, ignore_index=PADDING) / len(micro_batches)

# %% wrong · each sentence counts the same
def accumulate_tokens(model, micro_batches):
    model.zero_grad()
    rows, total = sum(len(t) for _, t in micro_batches), 0.0
    for tokens, targets in micro_batches:
        for one, wanted in zip(tokens, targets):
            loss = F.cross_entropy(model(one), wanted) / rows
            loss.backward()
            total += loss.item()
    return total

# %% wrong · the last micro-batch has counted
# -     for tokens, targets in micro_batches:
# +     for tokens, targets in micro_batches:
# +         model.zero_grad()

# %% wrong · 0/0
# -         loss = F.cross_entropy(logits, wanted, ignore_index=PADDING, reduction="sum") / counted
# +         share = count_tokens(targets) / counted
# +         loss = F.cross_entropy(logits, wanted, ignore_index=PADDING) * share

# %% wrong · earlier step
# -     model.zero_grad()

# %% wrong · when every graph is there
# -         loss.backward()
# -         losses.append(loss.detach())
# +         losses.append(loss)
# +     sum(losses).backward()

# %% wrong · flatten: logits (n, vocabulary), targets (n)
# -         logits, wanted = model(tokens).flatten(0, 1), targets.flatten()
# +         logits, wanted = model(tokens), targets

# %% wrong · flatten: logits (n, vocabulary), targets (n)
# -         logits, wanted = model(tokens).flatten(0, 1), targets.flatten()
# +         logits, wanted = model(tokens).flatten(0, 1).T, targets.flatten()

# %% wrong · logits and targets are in different orders
# -         logits, wanted = model(tokens).flatten(0, 1), targets.flatten()
# +         logits, wanted = model(tokens).transpose(0, 1).flatten(0, 1), targets.flatten()

# %% wrong · all scores of one token
# -         logits, wanted = model(tokens).flatten(0, 1), targets.flatten()
# +         scores, wanted = model(tokens), targets.flatten()
# +         logits = scores.transpose(1, 2).reshape(-1, scores.shape[-1])

# %% wrong · all scores of one token
# -         logits, wanted = model(tokens).flatten(0, 1), targets.flatten()
# +         scores, wanted = model(tokens), targets.flatten()
# +         logits = scores.permute(2, 0, 1).reshape(-1, scores.shape[-1])

# %% wrong · the targets change their order
# -         logits, wanted = model(tokens).flatten(0, 1), targets.flatten()
# +         logits, wanted = model(tokens).flatten(0, 1), targets.T.flatten()

# %% right · transposed logits, as F.cross_entropy takes them
def accumulate_tokens(model, micro_batches):
    model.zero_grad()
    n, total = sum(map(count_tokens, (t for _, t in micro_batches))), 0.0
    for tokens, targets in micro_batches:
        loss = F.cross_entropy(model(tokens).transpose(1, 2), targets, reduction="sum") / n
        loss.backward()
        total += loss.item()
    return total

# %% right · log_softmax and gather
def accumulate_tokens(model, micro_batches):
    for p in model.parameters():
        p.grad = None
    n, total = sum((t != -100).sum() for _, t in micro_batches), 0.0
    for tokens, targets in micro_batches:
        logp = model(tokens).log_softmax(-1)
        mask = targets != PADDING
        picked = logp.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
        loss = -(picked * mask).sum() / n
        loss.backward()
        total += loss.item()
    return total

# %% right · mean with nan passed over
def accumulate_tokens(model, micro_batches):
    model.zero_grad()
    n, total = sum(count_tokens(t) for _, t in micro_batches), 0.0
    for tokens, targets in micro_batches:
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        if loss.isnan():
            continue
        loss = loss * count_tokens(targets) / n
        loss.backward()
        total += loss.item()
    return total

# %% wrong · it returned a text
# -     return float(sum(loss.double() for loss in losses))
# +     return str(float(sum(losses)))

# %% wrong · what costs time
def accumulate_tokens(model, micro_batches):
    model.zero_grad()
    n, total = sum(count_tokens(t) for _, t in micro_batches), 0.0
    for tokens, targets in micro_batches:
        for i in range(len(tokens)):
            loss = F.cross_entropy(model(tokens[i : i + 1])[0], targets[i], reduction="sum") / n
            loss.backward()
            total += loss.item()
    return total

# %% wrong · what costs time
def accumulate_tokens(model, micro_batches):
    model.zero_grad()
    n, total = sum(count_tokens(t) for _, t in micro_batches), 0.0
    for tokens, targets in micro_batches:
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), reduction="sum") / n / 2
        loss.backward(retain_graph=True)
        loss.backward()
        total += 2 * loss.item()
        del loss
    return total

# %% wrong · belongs to the caller
def accumulate_tokens(model, micro_batches):
    model.zero_grad()
    n, total = sum(count_tokens(t) for _, t in micro_batches), 0.0
    for tokens, targets in micro_batches:
        real = targets != PADDING
        targets[targets == PADDING] = 0
        loss = (F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), reduction="none") * real.flatten()).sum() / n
        loss.backward()
        total += loss.item()
    return total

# %% wrong · the perplexity
# -     return float(sum(loss.double() for loss in losses))
# +     return float(torch.exp(sum(losses)))

# %% wrong · takes the scores as they are
# -         loss = F.cross_entropy(logits, wanted, ignore_index=PADDING, reduction="sum") / counted
# +         loss = F.cross_entropy(logits.softmax(-1), wanted, ignore_index=PADDING, reduction="sum") / counted

# %% wrong · what it gives is enough
def accumulate_tokens(model, micro_batches):
    model.zero_grad()
    n = sum(count_tokens(t) for _, t in micro_batches)
    for tokens, targets in micro_batches:
        (F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), reduction="sum") / n).backward()
    with torch.no_grad():
        return sum(F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), reduction="sum").item() for tokens, targets in micro_batches) / n

# %% wrong · pass over that one alone
def accumulate_tokens(model, micro_batches):
    model.zero_grad()
    n, total = sum(count_tokens(t) for _, t in micro_batches), 0.0
    for tokens, targets in micro_batches:
        if not count_tokens(targets):
            break
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), reduction="sum") / n
        loss.backward()
        total += loss.item()
    return total

# %% wrong · this is the sum over all tokens
# -     return float(sum(loss.double() for loss in losses))
# +     return float(sum(losses)) * counted
