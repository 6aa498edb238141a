"""What can go wrong in a launch, told in the learner's own lines."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .stack import Place


MOST_TOLD = 8  # ranks that failed beside the first
MOST_CHARACTERS = 200  # of what each of them raised


class ToldBriefly(BaseException):
    """An error whose message alone explains it: a notebook shows that, and no library frames."""

    def _render_traceback_(self):
        return [f"{type(self).__name__}: {self}"]


class LaunchError(ToldBriefly, RuntimeError):
    """A launch that gave no result."""


class Stopped(ToldBriefly, KeyboardInterrupt):
    """The learner has interrupted a launch, with the stop button or Ctrl-C."""

    def __init__(self, waits=None):
        super().__init__(f"where each rank was:\n{describe(waits)}" if waits else NO_RANK_YET)


NO_RANK_YET = "the launch was stopped before its ranks had begun, or while it ended"


class RankError(LaunchError):
    """One rank raised, died or was killed.

    Attributes
        rank: which one; the first to fail, if several did.
        exception: what it raised, or None if it died without a word or cannot travel.
        place: the learner's line, or None if the rank died without a word.
    """

    def __init__(self, rank, what, exception=None, place=None, lost=None, own=None, who=""):
        """`lost`: {rank: place} of those that then lost a neighbour; `own`: {rank: failure}."""
        self.rank, self.exception, self.place = rank, exception, place
        lines = [f"{who or f'rank {rank}'} {what}"]
        if place is not None:
            lines.append(f"  at {place}")
        lines += own_errors(own or {}, place)
        lost = {rank: where for rank, where in (lost or {}).items() if where}
        if lost:
            lines += ["after it, and perhaps because of it, others failed:", describe(lost)]
        super().__init__("\n".join(lines))


def own_errors(failures, known_place) -> list[str]:
    """What ranks raised beside the first, with their lines, where these are not known already."""
    if not failures:
        return []
    lines = ["other ranks failed too, each with an error of its own:"]
    for rank, (what, place) in sorted(failures.items())[:MOST_TOLD]:
        lines.append(f"  rank {rank} {what.splitlines()[0][:MOST_CHARACTERS]}")
        lines += [f"    at {place}"] * (place not in (None, known_place))
    more = len(failures) - MOST_TOLD
    return lines + [f"  … and {more} more"] * (more > 0)


class HangError(LaunchError):
    """Not every rank finished in time.

    Attributes
        waits: for each rank its `Place`; None for a rank that has already returned.
    """

    def __init__(self, waits: dict[int, Place | None], timeout: float):
        self.waits = waits
        done = sum(has_returned(place) for place in waits.values())
        super().__init__(
            f"after {timeout:g} s, {done} of {len(waits)} ranks had returned. "
            f"Where each rank was:\n{describe(waits)}\n{diagnosis(waits)}"
        )


SENDS, RECEIVES = {"send", "isend"}, {"recv", "irecv"}
MESSAGES = SENDS | RECEIVES
FOR_A_THREAD = "a thread"  # the operation of a place that waits for another thread of its rank
REQUESTS = {"wait"}  # of a message or of a collective: nobody can tell from outside

# Operations of a place outside of the learner's function.
STARTING, UNPACKING, MEETING = "to start", "to unpack", "to meet"
STOPPED, LOST, TRAVELLING = "to be continued", "to come back", "to travel"
OUTSIDE = {
    STOPPED: "{} stopped by a signal (SIGSTOP), as a debugger or `kill -STOP` sends it. Run the "
    "cell again.",
    LOST: "{} cut off from the notebook: the process has closed that connection, or become another "
    "program. Close only files that you opened, and start other programs with subprocess.",
    UNPACKING: "{} still unpacking the function and its arguments, before it is called: look at "
    "what these do when they are unpickled. If it only needs longer, pass a larger timeout=.",
    STARTING: "{} still starting. If this machine is very busy, end other programs, or take fewer "
    "ranks; then run the cell again.",
}
ALL_MEET = (
    "All processes have started, but they do not find each other. If this machine is very busy, "
    "end other programs, or take fewer ranks; then run the cell again."
)
NOTHING_ARRIVES = (
    "{} back, but what the function returned does not arrive: look at what it does when it is "
    "pickled or unpickled, or return less."
)

AT_WORK = (
    "{} still at work, in no call of torch.distributed. An endless loop? If it only needs longer, "
    "pass a larger timeout=."
)
WAITS_FOR_A_THREAD = (
    "{} waiting for another thread of the same rank: look at what that thread has to do first. If "
    "it only needs longer, pass a larger timeout=."
)
# What others wait for, if some ranks have returned: by what they wait in.
BACK = [
    (MESSAGES, "{} already back, so the others wait for a message that nobody sends to them, or "
     "that nobody receives. Each send needs its receive, on the rank that it names, and each "
     "request of isend or irecv its wait()."),
    (MESSAGES | REQUESTS, "{} already back, so the others wait for a message or a call that never "
     "comes. Each send needs its receive, and each collective a call on every rank of its group."),
]  # fmt: skip
BACK_FROM_CALLS = (
    "{} already back, so the others wait for a call that never comes (or came with a tensor of "
    "another size). Every rank of a group must make the same calls."
)
# If none has returned.
WAITING = [
    (RECEIVES, "Every rank waits to receive, so nobody gets to send: let one side send first."),
    (SENDS, "Every rank waits for somebody to receive what it sends: let one side receive first, "
     "or begin the send with isend and wait for it later."),
    (MESSAGES, "Every rank waits for the other side of a message. Each send needs its receive, on "
     "the rank that it names."),
    (MESSAGES | REQUESTS, "Every rank waits for what another has not begun. Each send needs its "
     "receive, and each collective a call on every rank of its group; what one side waits for, "
     "the other has to begin before it waits itself."),
]  # fmt: skip
DIFFERENT_CALLS = (
    "The ranks wait in different calls, so each waits for the others to join its own. Every rank "
    "of a group must make the same calls, in the same order."
)
PEER = re.compile(r"\b(src|dst)=(-?\d+)")
NO_SUCH_RANK = (
    "{} names rank {} as the other side, but there are only the ranks 0 to {}. Does the first or "
    "the last rank need a case of its own, or a modulo: (rank + 1) % world_size?"
)
THE_SAME_CALL = (
    "The ranks wait in the same call: look at their arguments above, and at what each did before. "
    "If the work only needs longer, pass a larger timeout=."
)


def diagnosis(waits: dict[int, Place | None]) -> str:
    """What the places of all ranks, taken together, say about the mistake."""
    for rank, place in waits.items():
        for _, peer in PEER.findall(place.call if place is not None else ""):
            if not 0 <= int(peer) < len(waits):
                return NO_SUCH_RANK.format(f"Rank {rank}", peer, len(waits) - 1)
    at = {}  # for each operation, the ranks that are in it
    for rank, place in waits.items():
        at.setdefault(TRAVELLING if place is None else place.operation, []).append(rank)
    returned = at.pop(TRAVELLING, [])
    operations = at.keys()
    for operation in (one for one in OUTSIDE if one in operations):
        return OUTSIDE[operation].format(subject(at[operation]))
    if not operations:
        return NOTHING_ARRIVES.format(subject(returned))
    if operations == {MEETING}:
        return ALL_MEET
    if "" in operations:
        return AT_WORK.format(subject(at[""]))
    if FOR_A_THREAD in operations:
        return WAITS_FOR_A_THREAD.format(subject(at[FOR_A_THREAD]))
    for known, sentence in BACK if returned else WAITING:
        if operations <= known:
            return sentence.format(subject(returned))
    if returned:
        return BACK_FROM_CALLS.format(subject(returned))
    return DIFFERENT_CALLS if len(operations) > 1 else THE_SAME_CALL


def has_returned(place: Place | None) -> bool:
    return place is None or place.operation == TRAVELLING


def ranks_text(ranks) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))


def subject(ranks) -> str:
    return ranks_text(ranks).capitalize() + (" is" if len(ranks) == 1 else " are")


def describe(places: dict[int, Place | None]) -> str:
    """One line for each group of ranks that are at the same place."""
    at = {}
    for rank, place in sorted(places.items()):
        at.setdefault(place, []).append(rank)
    lines = []
    for place, ranks in at.items():
        call = f"\n      inside {place.call}" if place is not None and place.call else ""
        returned = "has returned" if len(ranks) == 1 else "have returned"
        lines.append(f"  {ranks_text(ranks)}: {place or returned}{call}")
    return "\n".join(lines)


def describe_death(status: int, when="") -> str:
    """What `os.waitpid` says of a process that ended without a word."""
    code = -(status & 0x7F) if status & 0x7F else status >> 8
    if code >= 0:
        return f"ended with exit code {code} {when or 'before it returned'}"
    name = signal_name(-code)
    hint = " (often: the machine ran out of memory)" if name == "SIGKILL" else ""
    return f"was killed by {name}{hint} {when}".rstrip()


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # of a real-time signal
        return f"signal {number}"
