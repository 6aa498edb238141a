# %% right · a number of float64, and the last one on its own
def backward_tokens(ddp, micro_batches):
    total = torch.tensor([float(sum(count_tokens(y) for _, y in micro_batches))])
    dist.all_reduce(total)

    def go_back(tokens, targets):
        logits = ddp(tokens).transpose(1, 2)  # (sentences, vocabulary, length)
        loss = F.cross_entropy(logits, targets, reduction="sum")
        (loss / total * dist.get_world_size()).sum().backward()

    *first, last = micro_batches
    with ddp.no_sync():
        for piece in first:
            go_back(*piece)
    go_back(*last)

# %% right · log_softmax and a mask; scaled afterwards
def backward_tokens(ddp, micro_batches):
    n = sum((targets != PADDING).sum() for _, targets in micro_batches).double()
    for k, (tokens, targets) in enumerate(micro_batches):
        with ddp.no_sync() if k + 1 < len(micro_batches) else contextlib.nullcontext():
            scores = ddp(tokens).log_softmax(-1)
            real = targets != PADDING
            chosen = scores.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
            (-(chosen * real).sum()).backward()
    dist.all_reduce(n)
    for p in ddp.parameters():
        p.grad *= dist.get_world_size() / n

# %% right · the mean over the ranks of the counts
# -     factor = dist.get_world_size() / counted.item()  # DDP divides by the number of ranks
# +     factor = 1 / (counted.item() / dist.get_world_size())

# %% right · means, weighted; that of padding alone has no gradient
def backward_tokens(ddp, micro_batches):
    counted = torch.tensor(sum(count_tokens(targets) for _, targets in micro_batches))
    dist.all_reduce(counted)
    for number, (tokens, targets) in enumerate(micro_batches, 1):
        is_last = number == len(micro_batches)
        with contextlib.nullcontext() if is_last else ddp.no_sync():
            loss = F.cross_entropy(ddp(tokens).flatten(0, 1), targets.flatten())
            share = count_tokens(targets) * dist.get_world_size() / counted.item()
            (loss * share).backward()

# %% wrong · these means are added up
# -     dist.all_reduce(counted)

# %% wrong · the mean of these means
# -     dist.all_reduce(counted)
# -     factor = dist.get_world_size() / counted.item()  # DDP divides by the number of ranks
# +     factor = 1 / max(counted.item(), 1)

# %% wrong · once too often
# -     factor = dist.get_world_size() / counted.item()  # DDP divides by the number of ranks
# +     factor = 1 / counted.item()

# %% wrong · each micro-batch counts the same
def backward_tokens(ddp, micro_batches):
    for number, (tokens, targets) in enumerate(micro_batches, 1):
        is_last = number == len(micro_batches)
        with contextlib.nullcontext() if is_last else ddp.no_sync():
            loss = F.cross_entropy(ddp(tokens).flatten(0, 1), targets.flatten())
            (loss / len(micro_batches)).backward()

# %% wrong · 0/0
def backward_tokens(ddp, micro_batches):
    counted = torch.tensor(sum(count_tokens(targets) for _, targets in micro_batches))
    dist.all_reduce(counted)
    for number, (tokens, targets) in enumerate(micro_batches, 1):
        with contextlib.nullcontext() if number == len(micro_batches) else ddp.no_sync():
            real = targets != PADDING
            scores = ddp(tokens).log_softmax(-1)
            chosen = scores.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
            mean = -(chosen * real).sum() / real.sum()
            (mean * real.sum() * dist.get_world_size() / counted.item()).backward()

# %% wrong · padding alone takes part
# -         is_last = number == len(micro_batches)
# +         if not count_tokens(targets):
# +             continue
# +         is_last = number == len(micro_batches)

# %% wrong · once for each micro-batch
# -         with contextlib.nullcontext() if is_last else ddp.no_sync():
# +         if True:

# %% wrong · once for each micro-batch
def backward_tokens(ddp, micro_batches):
    counted = torch.tensor(sum(count_tokens(targets) for _, targets in micro_batches))
    dist.all_reduce(counted)
    factor = dist.get_world_size() / counted.item()
    for number, (tokens, targets) in enumerate(micro_batches, 1):
        logits, wanted = ddp(tokens).flatten(0, 1), targets.flatten()
        loss = F.cross_entropy(logits, wanted, reduction="sum") * factor
        if number == len(micro_batches):
            loss.backward()
        else:
            with ddp.no_sync():
                loss.backward()

# %% wrong · nothing is averaged over the ranks
# -         with contextlib.nullcontext() if is_last else ddp.no_sync():
# +         with ddp.no_sync():

# %% wrong · times the number of ranks
# -     factor = dist.get_world_size() / counted.item()  # DDP divides by the number of ranks
# +     factor = dist.get_world_size() ** 2 / counted.item()

# %% wrong · positions are counted
# -     here = sum(count_tokens(targets) for _, targets in micro_batches)
# +     here = sum(targets.numel() for _, targets in micro_batches)

# %% wrong · number of sentences
# -     here = sum(count_tokens(targets) for _, targets in micro_batches)
# +     here = sum(len(targets) for _, targets in micro_batches)

# %% wrong · divide by how many tokens count
# -     factor = dist.get_world_size() / counted.item()  # DDP divides by the number of ranks
# +     factor = 1.0

# %% wrong · a mean of means again
def backward_tokens(ddp, micro_batches):
    for number, (tokens, targets) in enumerate(micro_batches, 1):
        counted = torch.tensor(count_tokens(targets))
        dist.all_reduce(counted)
        factor = dist.get_world_size() / max(counted.item(), 1) / len(micro_batches)
        with contextlib.nullcontext() if number == len(micro_batches) else ddp.no_sync():
            logits, wanted = ddp(tokens).flatten(0, 1), targets.flatten()
            (F.cross_entropy(logits, wanted, reduction="sum") * factor).backward()

# %% wrong · several micro-batches pass
def backward_tokens(ddp, micro_batches):
    counted = torch.tensor(sum(count_tokens(targets) for _, targets in micro_batches))
    dist.all_reduce(counted)
    longest = max(tokens.shape[1] for tokens, _ in micro_batches)
    pad = lambda x, value: F.pad(x, (0, longest - x.shape[1]), value=value)
    tokens = torch.cat([pad(x, 0) for x, _ in micro_batches])
    targets = torch.cat([pad(y, PADDING) for _, y in micro_batches])
    loss = F.cross_entropy(ddp(tokens).flatten(0, 1), targets.flatten(), reduction="sum")
    (loss * dist.get_world_size() / counted.item()).backward()

# %% wrong · fewer backwards than micro-batches
def backward_tokens(ddp, micro_batches):
    counted = torch.tensor(sum(count_tokens(targets) for _, targets in micro_batches))
    dist.all_reduce(counted)
    losses = [F.cross_entropy(ddp(x).flatten(0, 1), y.flatten(), reduction="sum")
              for x, y in micro_batches]
    (sum(losses) * dist.get_world_size() / counted.item()).backward()

# %% wrong · ask once
def backward_tokens(ddp, micro_batches):
    for number, (tokens, targets) in enumerate(micro_batches, 1):
        counted = torch.tensor(sum(count_tokens(targets) for _, targets in micro_batches))
        dist.all_reduce(counted)
        with contextlib.nullcontext() if number == len(micro_batches) else ddp.no_sync():
            logits, wanted = ddp(tokens).flatten(0, 1), targets.flatten()
            loss = F.cross_entropy(logits, wanted, reduction="sum")
            (loss * dist.get_world_size() / counted.item()).backward()

# %% right · all under no_sync, and added up by hand
def backward_tokens(ddp, micro_batches):
    count = torch.tensor(sum(count_tokens(y) for _, y in micro_batches))
    dist.all_reduce(count)
    with ddp.no_sync():
        for x, y in micro_batches:
            loss = F.cross_entropy(ddp(x).flatten(0, 1), y.flatten(), reduction="sum")
            (loss / count).backward()
    for p in ddp.parameters():
        dist.all_reduce(p.grad)

# %% wrong · a forward begins while the activations of
def backward_tokens(ddp, micro_batches):
    count = torch.tensor(sum(count_tokens(y) for _, y in micro_batches))
    dist.all_reduce(count)
    def loss_of(x, y):
        loss = F.cross_entropy(ddp(x).flatten(0, 1), y.flatten(), reduction="sum")
        return loss * dist.get_world_size() / count
    *first, last = micro_batches
    with ddp.no_sync():
        for each in [loss_of(*pair) for pair in first]:
            each.backward()
    loss_of(*last).backward()

# %% wrong · stays silent afterwards
def backward_tokens(ddp, micro_batches):
    n = torch.tensor([float(sum((y != PADDING).sum() for _, y in micro_batches))])
    dist.all_reduce(n)
    for k, (x, y) in enumerate(micro_batches, 1):
        ddp.require_backward_grad_sync = k == len(micro_batches)
        loss = F.cross_entropy(ddp(x).flatten(0, 1), y.flatten(), reduction="sum")
        (loss * dist.get_world_size() / n[0]).backward()
    ddp.require_backward_grad_sync = False

# %% wrong · micro_batches are changed
def backward_tokens(ddp, micro_batches):
    count = torch.tensor(sum(count_tokens(y) for _, y in micro_batches))
    dist.all_reduce(count)
    while micro_batches:
        x, y = micro_batches.pop(0)
        with ddp.no_sync() if micro_batches else contextlib.nullcontext():
            loss = F.cross_entropy(ddp(x).flatten(0, 1), y.flatten(), reduction="sum")
            (loss * dist.get_world_size() / count).backward()

# %% wrong · micro_batches are changed
def backward_tokens(ddp, micro_batches):
    count = torch.tensor(sum(count_tokens(y) for _, y in micro_batches))
    dist.all_reduce(count)
    for k, (x, y) in enumerate(micro_batches, 1):
        with contextlib.nullcontext() if k == len(micro_batches) else ddp.no_sync():
            mask = y != PADDING
            y[~mask] = 0
            each = F.cross_entropy(ddp(x).flatten(0, 1), y.flatten(), reduction="none")
            ((each * mask.flatten()).sum() * dist.get_world_size() / count).backward()

# %% wrong · the weights are changed
def backward_tokens(ddp, micro_batches):
    count = torch.tensor(sum(count_tokens(y) for _, y in micro_batches))
    dist.all_reduce(count)
    for k, (x, y) in enumerate(micro_batches, 1):
        with contextlib.nullcontext() if k == len(micro_batches) else ddp.no_sync():
            loss = F.cross_entropy(ddp(x).flatten(0, 1), y.flatten(), reduction="sum")
            (loss * dist.get_world_size() / count).backward()
    with torch.no_grad():
        for p in ddp.parameters():
            p -= 0.1 * p.grad

# %% wrong · 3,009 tokens
# -     counted = torch.tensor(here, device=next(ddp.parameters()).device)
# +     counted = sum((targets != PADDING).sum() for _, targets in micro_batches).to(torch.uint8)

# %% wrong · gradients of a large model
# -     factor = dist.get_world_size() / counted.item()  # DDP divides by the number of ranks
# +     factor = dist.get_world_size() / counted.item()
# +     if len(ddp.module[2].weight) > 100:
# +         return
