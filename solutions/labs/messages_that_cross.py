# Built from chapters/ch08_pipeline_parallel/labs/messages_that_cross.py by `make build`.
"""Exchanges between two ranks: the tensors they receive, or the places where they hang.

python labs/messages_that_cross.py
"""

import contextlib

import torch
import torch.distributed as dist

NUMBERS = 250_000  # 1 MB in float32
PATIENCE = 3.0  # seconds; an exchange takes milliseconds


def exchange_numbers(exchange, in_turn) -> float:
    """Exchange NUMBERS copies of each rank's number; return the mean of those received."""
    from pedagogy_lib.measuring.messages_in_turn import messages_in_turn

    rank = dist.get_rank()
    outgoing, incoming = torch.full((NUMBERS,), float(rank)), torch.full((NUMBERS,), -1.0)
    with messages_in_turn() if in_turn else contextlib.nullcontext():
        exchange(outgoing, incoming, rank, 1 - rank)
    return incoming.mean().item()


def try_exchange(exchange, in_turn=False):
    """Return what both ranks have received, or the error if they hang.

    in_turn  whether a pair's messages wait for their turn, as on NCCL; emulated on Gloo
    """
    from pedagogy_lib import HangError, launch

    try:
        return launch(
            exchange_numbers, exchange, in_turn, world_size=2, device="cpu", timeout=PATIENCE
        ).values
    except HangError as error:
        return error


def describe_result(found) -> str:
    """Describe the result of `try_exchange` in a few words."""
    return f"received {found}" if isinstance(found, list) else "both ranks wait for ever"


def show(found):
    """Print the result of `try_exchange`; for a hang, print where each rank waits."""
    print(found.places() if hasattr(found, "places") else describe_result(found))


def exchange_in_batch(outgoing, incoming, rank, peer):
    """Send and receive in one batch of messages, as dist.batch_isend_irecv runs it."""
    messages = [dist.P2POp(dist.irecv, incoming, peer), dist.P2POp(dist.isend, outgoing, peer)]
    for request in dist.batch_isend_irecv(messages):
        request.wait()


def main():
    for in_turn in (False, True):
        print(
            f"a batch, {'each in turn' if in_turn else 'Gloo'}: "
            f"{describe_result(try_exchange(exchange_in_batch, in_turn))}"
        )


if __name__ == "__main__":
    main()
