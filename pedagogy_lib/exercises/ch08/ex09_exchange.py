"""Two ranks that send to each other, and wait for ever: exercise 8.9."""

from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import torch
import torch.distributed as dist

from ...basics.errors import HangError
from ...course.checking import Exercise, Wrong, try_on_ranks
from ..kit.message_watch import Requests
from ..kit.outcomes import NO_RETURN
from ..kit.trials import RAISED, kind_of, numbers, same

SIZES = {"1 number": (1,), "1 MB": (250, 500)}
TIMEOUT_SECONDS = 2.5  # an exchange takes milliseconds; wrong ones hang, and more than once
TIMES = 2  # with other numbers: what the first leaves behind would show in the second
SPENT = -1.0  # what `outgoing` is overwritten with
EMPTY = torch.nan  # what is in `incoming` before


@dataclass(frozen=True)
class World:
    """Pairs of ranks that exchange something, one pair after another."""

    size: int
    pairs: tuple[tuple[int, int], ...]

    def __str__(self):
        return f"ranks 0 and 1 of {self.size}" if self.size == 2 else f"{self.size} ranks"


WORLDS = [World(2, ((0, 1),)), World(3, ((0, 2), (1, 2)))]
BOTH_SEND = (
    "both ranks wait in send. With Gloo a send is over when the other side receives, and that side "
    "has come no further than its own send"
)
BOTH_RECEIVE = (
    "both ranks wait for a message, and neither gets as far as its own send. One of them may wait "
    "first, if the other one sends first"
)
WAITS_EARLY = (
    "isend begins a message, and returns. Its wait() waits until the other side receives: if both "
    "do that before they receive, it is as with send"
)
PARITY = (
    "ranks 0 and 1 of a world of 2 were right. Here both sides take the same turn: a pair need not "
    "be an even and an odd rank, nor rank 0 and another one. Does each side know who goes first? "
    "One of the two has the lower number"
)
ONE_IS_BACK = "one side has returned, and the other one waits: each send needs its receive"
COLLECTIVE = (
    "this is for all ranks of the world, and the others have no part in this exchange: it is a "
    "message each way between two"
)
SEND_NOT_WAITED = (
    "isend has only begun to send: it reads `outgoing` until its wait() returns, and the caller "
    "may overwrite that at once. request.wait() before you return"
)
RECV_NOT_WAITED = (
    "irecv returns at once, and the numbers come later: request.wait() before you return"
)
UNTOUCHED = "`incoming` is as before: the caller looks there for what the peer has sent"
OVERWRITTEN = (
    "the numbers that have come are those of the caller's next turn: `outgoing` was overwritten "
    "before it was sent. Wait for the request before you return"
)
OWN = "these are the rank's own numbers: receive into `incoming`"
RETURNED = "return `incoming`, as it did"
ARGUMENT = "`outgoing` is only to be sent: the caller overwrites it when it likes"
ERRORS = {
    "no attribute 'sendrecv'": "torch.distributed has no call for both: batch_isend_irecv begins "
    "several messages at once",
    "P2POp": "batch_isend_irecv takes a list of dist.P2POp(dist.isend, outgoing, peer) and alike",
    "'Tensor' object has no attribute 'wait'": "send and recv return when they are done; isend and "
    "irecv return a request, with wait()",
    "'NoneType' object has no attribute 'wait'": "send and recv return when they are done; isend "
    "and irecv return a request, with wait()",
    "'int' object has no attribute 'wait'": "send and recv return when they are done; isend and "
    "irecv return a request, with wait()",
    "should not be the same as the rank": "a rank sends to itself: the other one is `peer`",
} | RAISED


# ---- On the ranks ------------------------------------------------------------------------------


def try_pairs(answer, world):
    """On a rank: for each of its exchanges what came of it."""
    rank, found = dist.get_rank(), []
    for pair in world.pairs:
        if rank in pair:
            (peer,) = set(pair) - {rank}
            for size in SIZES:
                found += [try_exchange(answer, peer, size, time) for time in range(TIMES)]
    return found


def try_exchange(answer, peer, size, time) -> SimpleNamespace:
    rank, shape = dist.get_rank(), SIZES[size]
    outgoing, wanted = (message(sender, shape, time) for sender in (rank, peer))
    incoming, before = torch.full(shape, EMPTY, dtype=torch.float64), outgoing.clone()
    with Requests() as watch:
        returned = answer(outgoing, incoming, rank, peer)
    got, not_waited = incoming.clone(), watch.not_waited()
    changed = not same(outgoing, before)
    outgoing.fill_(SPENT)
    watch.wait()
    of = SimpleNamespace(peer=peer, size=size, not_waited=not_waited, changed=changed)
    of.calls = [call.name for call in watch.made]
    of.what = told_incoming(got, wanted, before)
    is_tensor = isinstance(returned, torch.Tensor)
    of.returned = "" if is_tensor and same(returned, wanted) else describe(returned)
    return of


def message(sender, shape, time):
    return numbers(sender, shape, torch.float64, salt=time)


def told_incoming(got, wanted, own) -> tuple[str, str]:
    """What is wrong with the numbers that have come, and why; empty if nothing is."""
    if same(got, wanted):
        return "", ""
    if bool(got.isnan().all()):
        return "is as it was before", UNTOUCHED
    if same(got, own):
        return "has the rank's own numbers", OWN
    if bool((got == SPENT).any()):
        return "has numbers that were written after the exchange", OVERWRITTEN
    return "has wrong numbers", ""


def describe(returned) -> str:
    return kind_of(returned) if isinstance(returned, torch.Tensor) else f"{returned!r:.40}"


# ---- What is wrong -----------------------------------------------------------------------------


def examine_exchange(answer):
    for world in WORLDS:
        run = try_on_ranks(str(world), try_pairs, answer, world, world_size=world.size,
                           explain=partial(explain, world), timeout=TIMEOUT_SECONDS)  # fmt: skip
        for rank, found in enumerate(run.values):
            for of in found:
                judge(f"{world}, {of.size} each way", rank, of)
        for pair in world.pairs:
            sizes = " and ".join(SIZES)
            yield f"ranks {pair[0]} and {pair[1]} of {world.size}: {sizes} each way, {TIMES} times"


def judge(case, rank, of):
    who = f"rank {rank} and its peer {of.peer}"
    others = [name for name in of.calls if name not in ("send", "recv")]
    if others:
        raise Wrong(case, f"{who}: it calls {others[0]}", COLLECTIVE)
    for name, why in {"send": SEND_NOT_WAITED, "recv": RECV_NOT_WAITED}.items():
        if name in of.not_waited:
            raise Wrong(case, f"{who}: it returns before its i{name} is over", why)
    what, why = of.what
    if what:
        raise Wrong(case, f"{who}: `incoming` {what}", why)
    if of.changed:
        raise Wrong(case, f"{who}: `outgoing` has changed", ARGUMENT)
    if of.returned:
        why = f"{RETURNED}: {NO_RETURN}" if of.returned == "None" else RETURNED
        raise Wrong(case, f"{who}: it returned {of.returned}", why)


def explain(world, error) -> str:
    if not isinstance(error, HangError):
        return next((why for words, why in ERRORS.items() if words in str(error)), "")
    pair = hung_pair(world, error.waits)
    doing = {error.waits[rank].or_in_wait().operation for rank in pair if error.waits[rank]}
    if doing - {"send", "isend", "recv", "irecv", "wait", ""}:
        return COLLECTIVE
    if any(error.waits[rank] is None for rank in pair):
        return ONE_IS_BACK
    if world.size > 2 and len(doing) == 1:
        return PARITY
    known = {"send": BOTH_SEND, "recv": BOTH_RECEIVE, "wait": WAITS_EARLY}
    return next((why for name, why in known.items() if doing == {name}), "")


def hung_pair(world, waits) -> tuple[int, int]:
    """The first pair whose first rank, which is in no other one, has not come back."""
    return next((pair for pair in world.pairs if waits[pair[0]] is not None), world.pairs[-1])


EXERCISE = Exercise(
    "8.9", "exchange", examine_exchange,
    (
        "Draw both ranks below each other, each with its send and its recv. Who receives what "
        "the first send sends?",
        "One way: begin both messages, and wait then. dist.batch_isend_irecv begins all of a "
        "list, and returns their requests.",
        "The list: dist.P2POp(dist.isend, outgoing, peer), dist.P2POp(dist.irecv, incoming, "
        "peer). Wait for each request: before that `outgoing` may not be overwritten. Or: the "
        "lower of the two ranks sends first, and the other one receives first.",
    ),
)  # fmt: skip
