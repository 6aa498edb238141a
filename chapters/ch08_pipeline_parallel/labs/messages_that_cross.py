"""Two ranks that have something for each other: what comes of an exchange, or where they wait.

python labs/messages_that_cross.py
"""

import contextlib

import torch
import torch.distributed as dist

NUMBERS = 250_000  # 1 MB in float32
PATIENCE = 3.0  # seconds; an exchange takes milliseconds


def exchange_numbers(exchange, in_turn) -> float:
    """On a rank: the number that has come; each rank sends its own number, many times."""
    from pedagogy_lib.measuring.messages_in_turn import messages_in_turn

    rank = dist.get_rank()
    outgoing, incoming = torch.full((NUMBERS,), float(rank)), torch.full((NUMBERS,), -1.0)
    with messages_in_turn() if in_turn else contextlib.nullcontext():
        exchange(outgoing, incoming, rank, 1 - rank)
    return incoming.mean().item()


def try_exchange(exchange, in_turn=False):
    """What both ranks have received, or the error of ranks that wait for ever.

    in_turn  whether messages of a pair wait for their turn, as on NCCL; emulated on Gloo
    """
    from pedagogy_lib import HangError, launch

    try:
        return launch(
            exchange_numbers, exchange, in_turn, world_size=2, device="cpu", timeout=PATIENCE
        ).values
    except HangError as error:
        return error


def describe_result(found) -> str:
    """In a few words what `try_exchange` has found."""
    return f"received {found}" if isinstance(found, list) else "both ranks wait for ever"


def show(found):
    """Print what `try_exchange` has found; of a hang, where each rank waits."""
    print(found.places() if hasattr(found, "places") else describe_result(found))


def exchange_in_batch(outgoing, incoming, rank, peer):
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
