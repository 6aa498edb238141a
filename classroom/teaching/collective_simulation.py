"""Simulated collectives, with their bytes and times: the second way to an exam's answers."""

import torch


def simulate_ring(
    n: int, nbytes: float = 1.0, latency: float = 0.0, bandwidth: float = 1.0
) -> dict:
    """Simulate a ring all-reduce, chunk by chunk, until every rank holds every sum.

    Returns  {"sent": bytes of one rank, "total": of all, "messages": of one rank, "seconds": …}
    """
    held = [[{rank} for _ in range(n)] for rank in range(n)]  # summed ranks, by rank and chunk
    sent, messages, seconds, step = [0.0] * n, [0] * n, 0.0, 0
    while any(len(summands) < n for chunks in held for summands in chunks):
        moving = [(rank, (rank - step) % n) for rank in range(n)]
        copies = [set(held[rank][chunk]) for rank, chunk in moving]
        for (rank, chunk), summands in zip(moving, copies):
            held[(rank + 1) % n][chunk] |= summands
            sent[rank] += nbytes / n
            messages[rank] += 1
        seconds += latency + nbytes / n / bandwidth
        step += 1
    return {"sent": max(sent), "total": sum(sent), "messages": max(messages), "seconds": seconds}


def simulate_ring_pass(n: int, nbytes: float = 1.0) -> float:
    """Return the bytes that a rank sends in a ring's all-gather or reduce-scatter: one round."""
    held, sent = [{rank} for rank in range(n)], 0.0
    newest = list(range(n))
    while any(len(chunks) < n for chunks in held):
        newest = [newest[rank - 1] for rank in range(n)]
        for rank, chunk in enumerate(newest):
            held[rank].add(chunk)
        sent += nbytes / n
    return sent


def simulate_tree(n: int) -> int:
    """Return the rounds until `n` ranks have what one had; each owner gives it to one a round."""
    have, rounds = 1, 0
    while have < n:
        have = min(n, 2 * have)
        rounds += 1
    return rounds


def simulate_chain(n: int, chunks: int) -> int:
    """Return the turns until the last of `n` ranks has all chunks; each passes on one a turn."""
    has = [chunks] + [0] * (n - 1)
    turns = 0
    while has[-1] < chunks:
        passes = [has[rank] > has[rank + 1] for rank in range(n - 1)]
        for rank, happens in enumerate(passes):
            has[rank + 1] += happens
        turns += 1
    return turns


def bytes_of(tensors) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def bytes_per_parameter(optimizer_of, dtype=torch.float32, numbers=4096) -> dict[str, float]:
    """Return bytes per parameter, by kind, of a real optimizer's step, without its counters.

    optimizer_of  takes a list of parameters, and returns the optimizer
    """
    weight = torch.nn.Parameter(torch.ones(numbers, dtype=dtype))
    optimizer = optimizer_of([weight])
    weight.sum().backward()
    optimizer.step()
    states = [x for state in optimizer.state.values() for x in state.values()
              if isinstance(x, torch.Tensor) and x.numel() == numbers]  # fmt: skip
    kinds = {"parameters": [weight], "gradients": [weight.grad], "states": states}
    return {kind: bytes_of(tensors) / numbers for kind, tensors in kinds.items()}


def empty(*shape, dtype=torch.float32) -> torch.Tensor:
    """Return a tensor that has a size and takes no memory."""
    return torch.empty(*shape, dtype=dtype, device="meta")
