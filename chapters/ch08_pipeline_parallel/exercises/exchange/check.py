"""Two ranks that send to each other and hang, on Gloo or where messages take turns."""

from coursekit.kit import Equals, Holds, RankExercise, never
from coursekit.kit.collective_exercise import RAISED
from coursekit.kit.results import RETURNS_NONE

from .cases import CASES, SIZES, TIMES, exchange_often, exchanges
from .truth import TIMEOUT_SECONDS, expect_from_peer, mistakes, why_begun, why_it_hangs

FINDS_A_BUG = True

EXERCISE = RankExercise(
    "exchange",
    cases=CASES,
    timeout=TIMEOUT_SECONDS,
    work=exchange_often,
    facts=[
        never("begun", lambda names: f"it returns before its i{names[0]} is over", why_begun),
        Equals("incoming", expect_from_peer, mistakes, called="`incoming` in the exchange"),
        never("changed", "`outgoing` has changed",
              "`outgoing` is only to be sent: the caller overwrites it when it likes"),
        Holds("messages", lambda count: count == 1, "it sends {} messages in one exchange",
              "the numbers are right, but one message each way is enough: each one has a latency. "
              "(Objects travel as two: a length, and what they are pickled to)"),
        Equals("returned", expect_from_peer, lambda trial, place: {
            f"return `incoming`, as it did: {RETURNS_NONE}": dict.fromkeys(exchanges()),
        }, "what is returned by the exchange", "return `incoming`, as it did"),
    ],
    right=f"{' and '.join(SIZES)} each way, {TIMES} times",
    explain=why_it_hangs,
    on_hang="each send needs its receive, on the rank that it names",
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
