"""The right results, and the results of known mistakes."""

import torch

from pedagogy_lib.basics.errors import HangError

from .cases import CASES, EMPTY, IN_TURN, exchanges, message

TIMEOUT_SECONDS = 2.5  # an exchange takes milliseconds, but wrong ones hang, more than once

HANGS = {  # {the call in which both ranks of a pair wait: the diagnosis}
    "send": "both ranks wait in send. With Gloo a send is over when the other side receives, and "
    "that side has come no further than its own send",
    "recv": "both ranks wait for a message, and neither gets as far as its own send. One of them "
    "may wait first, if the other one sends first",
    "wait": "isend begins a message, and returns. Its wait() waits until the other side receives: "
    "if both do that before they receive, it is as with send",
}


def expect_from_peer(trial, place):
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
    if None in places:  # one rank has returned
        return "one side has returned, and the other one waits: each send needs its receive"
    doing = {place.or_in_wait().operation for place in places}
    if len(doing) == 1 and case != CASES[0]:
        return (
            "ranks 0 and 1 were right. Here both sides take the same turn: a pair need not be an "
            "even and an odd rank, nor rank 0 and another one. Does each side know who goes first? "
            "One of the two has the lower number"
        )
    return HANGS.get(doing.pop(), "") if len(doing) == 1 else ""
