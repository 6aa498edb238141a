"""The cases, and the code that runs next to the answer."""

import contextlib

import torch
import torch.distributed as dist

from coursekit.kit import RankCase, Rejection, World
from coursekit.kit.collective_exercise import fine_numbers
from coursekit.kit.observed_calls import Requests
from pedagogy_lib.basics.closeness import close
from pedagogy_lib.measuring.messages_in_turn import messages_in_turn

SIZES = {"1 number": (1,), "1 MB": (250, 500)}

TIMES = 2  # each with other numbers, so that the second shows what the first left behind

SPENT, EMPTY = -1.0, -2.0  # `outgoing` after an exchange; `incoming` before it

IN_TURN = RankCase(
    World(2), ("in turn",), ", where messages of a pair take turns, as on NCCL (emulated)"
)

CASES = [RankCase(World(3, pair)) for pair in [(0, 1), (0, 2), (1, 2)]] + [IN_TURN]


class Messages(Requests):
    """A record of messages that refuses other calls, which the other ranks would not join."""

    def judge(self, call, args):
        if call.name not in ("send", "recv"):
            why = (
                "this is for all ranks of the world, and the others have no part in this exchange: "
                "it is a message each way between two"
            )
            raise Rejection(f"it calls {call.name}", why)


def exchange_often(answer, group, case):
    """Run all exchanges on a rank of a pair; return the findings, tensors as sums of rows."""
    rank = dist.get_rank()
    (peer,) = set(case.ranks) - {rank}
    found = {"begun": [], "changed": [], "incoming": {}, "returned": {}, "messages": 1}
    for number in exchanges():
        outgoing = message(rank, number)
        before, incoming = outgoing.clone(), torch.full_like(outgoing, EMPTY)
        in_turn = messages_in_turn() if case == IN_TURN else contextlib.nullcontext()
        with in_turn, Messages() as watch:
            returned = answer(outgoing, incoming, rank, peer)
        is_tensor = isinstance(returned, torch.Tensor)
        found["incoming"][number] = incoming.sum(-1)
        found["returned"][number] = returned.sum(-1) if is_tensor else returned
        found["begun"] += watch.not_waited()
        sends = [call for call in watch.made if call.name == "send"]
        found["messages"] = max(found["messages"], len(sends))
        found["changed"] += [number] * (not close(outgoing, before))
        outgoing.fill_(SPENT)
        watch.wait()
    return found


def exchanges() -> list[str]:
    return [f"{size}, number {time}" for size in SIZES for time in range(TIMES)]


def message(sender, number) -> torch.Tensor:
    size, _, time = number.partition(", number ")
    return fine_numbers(sender, SIZES[size], torch.float64, salt=int(time))
