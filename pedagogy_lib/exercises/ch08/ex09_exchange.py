"""Two ranks that send to each other, and wait for ever: on Gloo, or where messages take turns."""

import contextlib

import torch
import torch.distributed as dist

from ...basics.closeness import close
from ...basics.errors import HangError
from ...measuring.messages_in_turn import messages_in_turn
from ..kit import At, Equals, Holds, RankExercise, World, never
from ..kit.outcomes import NO_RETURN
from ..kit.refused import Refused
from ..kit.requests import Requests
from ..kit.trials import RAISED, fine_numbers

FINDS_A_BUG = True

SIZES = {"1 number": (1,), "1 MB": (250, 500)}
TIMES = 2  # with other numbers: what the first leaves behind would show in the second
TIMEOUT_SECONDS = 2.5  # an exchange takes milliseconds; wrong ones hang, and more than once
SPENT, EMPTY = -1.0, -2.0  # what `outgoing` is overwritten with; what is in `incoming` before
IN_TURN = At(World(2), ("in turn",), ", where messages of a pair take turns, as on NCCL (emulated)")
CASES = [At(World(3, pair)) for pair in [(0, 1), (0, 2), (1, 2)]] + [IN_TURN]
HANGS = {  # what both ranks of a pair wait in: what that means
    "send": "both ranks wait in send. With Gloo a send is over when the other side receives, and "
    "that side has come no further than its own send",
    "recv": "both ranks wait for a message, and neither gets as far as its own send. One of them "
    "may wait first, if the other one sends first",
    "wait": "isend begins a message, and returns. Its wait() waits until the other side receives: "
    "if both do that before they receive, it is as with send",
}


class Messages(Requests):
    """Refuses what is no message: nobody else would join it."""

    def judge(self, call, args):
        if call.name not in ("send", "recv"):
            why = (
                "this is for all ranks of the world, and the others have no part in this exchange: "
                "it is a message each way between two"
            )
            raise Refused(f"it calls {call.name}", why)


def exchange_often(answer, group, case):
    """On a rank of a pair: what came of each exchange; of many numbers, the sums of their rows."""
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


# ---- What is right, and what is not ---


def from_peer(trial, place):
    return {number: message(trial.case.ranks[1 - place], number).sum(-1) for number in exchanges()}


def mistakes(trial, place):
    own = {number: message(trial.case.ranks[place], number) for number in exchanges()}
    return {
        "`incoming` is as before: the caller looks there for what the peer has sent":
            {number: torch.full_like(x, EMPTY).sum(-1) for number, x in own.items()},
        "these are the rank's own numbers: receive into `incoming`":
            {number: x.sum(-1) for number, x in own.items()},
    }  # fmt: skip


def why_begun(trial, place) -> str:
    if "send" in trial[place].begun:
        return (
            "isend has only begun to send: it reads `outgoing` until its wait() returns, and the "
            "caller may overwrite that at once. request.wait() before you return"
        )
    return "irecv returns at once, and the numbers come later: request.wait() before you return"


def why_it_hangs(case, error) -> str:
    if not isinstance(error, HangError):
        return ""
    if case == IN_TURN:
        return (
            "it is right on Gloo. On NCCL, messages between two ranks that are begun one by one "
            "take turns, in the order of the calls, for both directions together. If both ranks "
            "begin with the same kind of message, neither is ever over. A batch runs as one; or "
            "the two ranks call send and receive in opposite orders"
        )
    places = [error.waits[rank] for rank in case.ranks]
    if None in places:  # it is done
        return "one side has returned, and the other one waits: each send needs its receive"
    doing = {place.or_in_wait().operation for place in places}
    if len(doing) == 1 and case != CASES[0]:
        return (
            "ranks 0 and 1 were right. Here both sides take the same turn: a pair need not be an "
            "even and an odd rank, nor rank 0 and another one. Does each side know who goes first? "
            "One of the two has the lower number"
        )
    return HANGS.get(doing.pop(), "") if len(doing) == 1 else ""


EXERCISE = RankExercise(
    "8.9",
    "exchange",
    cases=CASES,
    timeout=TIMEOUT_SECONDS,
    work=exchange_often,
    facts=[
        never("begun", lambda names: f"it returns before its i{names[0]} is over", why_begun),
        Equals("incoming", from_peer, mistakes, called="`incoming` in the exchange"),
        never("changed", "`outgoing` has changed",
              "`outgoing` is only to be sent: the caller overwrites it when it likes"),
        Holds("messages", lambda count: count == 1, "it sends {} messages in one exchange",
              "the numbers are right, but one message each way is enough: each one has a latency. "
              "(Objects travel as two: a length, and what they are pickled to)"),
        Equals("returned", from_peer, lambda trial, place: {
            f"return `incoming`, as it did: {NO_RETURN}": dict.fromkeys(exchanges()),
        }, "what is returned by the exchange", "return `incoming`, as it did"),
    ],
    told=f"{' and '.join(SIZES)} each way, {TIMES} times",
    explain=why_it_hangs,
    lost="each send needs its receive, on the rank that it names",
    errors={
        "no attribute 'sendrecv'": "torch.distributed has no call for both: batch_isend_irecv "
        "begins several messages at once",
        "P2POp": "batch_isend_irecv takes a list of dist.P2POp(dist.isend, outgoing, peer) and "
        "alike",
        "object has no attribute 'wait'": "send and recv return when they are done; isend and "
        "irecv return a request, with wait()",
        "should not be the same as the rank": "a rank sends to itself: the other one is `peer`",
    } | RAISED,
    hints=(
        "Draw both ranks below each other, each with its send and its recv. Who receives what "
        "the first send sends?",
        "One way: begin both messages, and wait then. dist.batch_isend_irecv begins all of a "
        "list, and returns their requests.",
        "The list: dist.P2POp(dist.isend, outgoing, peer), dist.P2POp(dist.irecv, incoming, "
        "peer). Wait for each request: before that `outgoing` may not be overwritten. Or: the "
        "lower of the two ranks sends first, and the other one receives first.",
    ),
)  # fmt: skip
