"""Diagnosis of a hang: the mistake that the source lines of all ranks point to."""

import re

from .group_diagnosis import Calls, find_circle, find_difference, find_unfit_groups
from .rank_texts import ranks_text, subject
from .source_lines import (
    ASLEEP,
    BUFFERS,
    FOR_A_FILE,
    FOR_A_KEY,
    FOR_A_PROCESS,
    FOR_A_THREAD,
    FOR_DATA,
    FOR_INPUT,
    FOR_THE_NETWORK,
    IDLE,
    LOST,
    MEETING,
    STARTING,
    STOPPED,
    TRAVELLING,
    UNPACKING,
    SourceLine,
)

SENDS, RECEIVES = {"send", "isend"}, {"recv", "irecv"}
MESSAGES = SENDS | RECEIVES
REQUESTS = {"wait"}  # for a message or a collective, which look alike from outside

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
LONGER = " If it only needs longer, pass a larger timeout=."
# What a rank waits for in a call that is none of torch.distributed. Other ranks wait for it.
WAITS_ALONE = {
    FOR_A_THREAD: "{} waiting for another thread of the same rank: look at what that thread has to "
    "do first." + LONGER,
    FOR_DATA: "{} waiting for a batch from the workers of a DataLoader: look at what the dataset, "
    "or the collate_fn, does there, for example with num_workers=0." + LONGER,
    FOR_A_PROCESS: "{} waiting for another process on the same machine: look at what that process "
    "waits for itself." + LONGER,
    FOR_A_FILE: "{} waiting for a file or for its lock: look at who holds it, or should write it.",
    FOR_A_KEY: "{} waiting for a key in the store that no rank has set yet: some rank has to call "
    "set() with the same key, or to come to the same place.",
    FOR_THE_NETWORK: "{} waiting for the other end of a connection, or for an event loop: look at "
    "what should answer." + LONGER,
    ASLEEP: "{} asleep, in time.sleep() or the like: in a loop, look at the condition that should "
    "end it." + LONGER,
    FOR_INPUT: "{} waiting for input, which nobody can give to a rank.",
    IDLE: "{} waiting in a call that is none of torch.distributed, without computing: look at what "
    "that call waits for." + LONGER,
}
WAITS_FOR_BUFFERS = (
    "{} in the forward of DistributedDataParallel, which first broadcasts the module's buffers, "
    "such as BatchNorm's statistics, to all ranks, also without gradients. Call it on every rank; "
    "a rank that evaluates alone calls its .module, or pass broadcast_buffers=False."
)
# What the other ranks wait for if some have returned, by the operations they are in.
BACK = [
    (
        MESSAGES,
        "{} already back, so the others wait for a message that nobody sends to them, or "
        "that nobody receives. Each send needs its receive, on the rank that it names, and each "
        "request of isend or irecv its wait().",
    ),
    (
        MESSAGES | REQUESTS,
        "{} already back, so the others wait for a message or a call that never comes. Each send "
        "needs its receive, and each collective a call on every rank of its group.",
    ),
]
BACK_FROM_CALLS = (
    "{} already back, so the others wait for a call that never comes (or came with a tensor of "
    "another size). Every rank of a group must make the same calls."
)
# What the ranks wait for if none has returned, by the operations they are in.
WAITING = [
    (RECEIVES, "Every rank waits to receive, so nobody gets to send: let one side send first."),
    (
        SENDS,
        "Every rank waits for somebody to receive what it sends: let one side receive first, "
        "or begin the send with isend and wait for it later.",
    ),
    (
        MESSAGES,
        "Every rank waits for the other side of a message. Each send needs its receive, on "
        "the rank that it names.",
    ),
    (
        MESSAGES | REQUESTS,
        "Every rank waits for what another has not begun. Each send needs its "
        "receive, and each collective a call on every rank of its group; what one side waits for, "
        "the other has to begin before it waits itself.",
    ),
]
DIFFERENT_CALLS = (
    "The ranks wait in different calls, so each waits for the others to join its own. Every rank "
    "of a group must make the same calls, in the same order."
)
PEER = re.compile(r"\b(group_)?(?:src|dst)=(-?\d+)")
NO_SUCH_RANK = (
    "{} names rank {} as the other side, but there are only the ranks 0 to {}. Does the first or "
    "the last rank need a case of its own, or a modulo: (rank + 1) % world_size?"
)
GROUP = re.compile(r"group of ranks \[([^]]*)\]")
NO_SUCH_MEMBER = (
    "{} names number {} of its group as the other side, but the numbers in that group are 0 to {}."
)
THE_SAME_CALL = (
    "The ranks wait in the same call: look at their arguments above, and at what each did before. "
    "If the work only needs longer, pass a larger timeout=."
)


NEW_GROUP = "new_group"
WAITS_FOR_A_GROUP = (
    "{} in new_group(), which connects the ranks of the new group. Every rank must call "
    "new_group() for every group, in the same order, also for the groups that it is not in."
)


def diagnosis(
    waits: dict[int, SourceLine | None], world_size: int, calls: Calls | None = None
) -> str:
    """Diagnose the mistake from the source lines of all ranks, and from their collectives."""
    calls = calls or {}
    of_lines = diagnose_lines(waits, world_size)
    if not is_general(of_lines) and not of_lines.endswith(WAITS_FOR_A_GROUP[2:]):
        return of_lines
    of_groups = find_unfit_groups(calls) or find_circle(calls)
    return of_groups or " ".join(filter(None, [of_lines, find_difference(calls)]))


def diagnose_lines(waits: dict[int, SourceLine | None], world_size: int) -> str:
    for rank, source_line in waits.items():
        call = source_line.call if source_line is not None else ""
        for in_group, peer in PEER.findall(call):
            ranks = GROUP.findall(call) if in_group else []  # dst= is a rank of the world
            of_group = len(ranks[0].split(",")) if ranks else len(waits)
            size = of_group if in_group else world_size
            if not 0 <= int(peer) < size:
                sentence = NO_SUCH_MEMBER if ranks else NO_SUCH_RANK
                return sentence.format(f"Rank {rank}", peer, size - 1)
    at = {}  # {operation: the ranks that are in it}
    for rank, source_line in waits.items():
        at.setdefault(TRAVELLING if source_line is None else source_line.operation, []).append(rank)
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
    for operation in (one for one in WAITS_ALONE if one in operations):
        return WAITS_ALONE[operation].format(subject(at[operation]))
    if BUFFERS in operations and (returned or len(operations) > 1):
        return WAITS_FOR_BUFFERS.format(subject(at[BUFFERS]))
    if NEW_GROUP in operations:
        return WAITS_FOR_A_GROUP.format(subject(at[NEW_GROUP]))
    for known, sentence in BACK if returned else WAITING:
        if operations <= known:
            return sentence.format(subject(returned))
    if returned:
        return BACK_FROM_CALLS.format(subject(returned))
    return DIFFERENT_CALLS if len(operations) > 1 else THE_SAME_CALL


def is_general(advice) -> bool:
    """Return whether a diagnosis names no mistake but only what to look at in such a hang."""
    beginnings = [DIFFERENT_CALLS, THE_SAME_CALL, *(sentence for _, sentence in WAITING)]
    after_subject = [BACK_FROM_CALLS, AT_WORK, *(sentence for _, sentence in BACK)]
    return advice in beginnings or any(
        advice.endswith(sentence.removeprefix("{}")) for sentence in after_subject
    )


def has_returned(source_line: SourceLine | None) -> bool:
    return source_line is None or source_line.operation == TRAVELLING


def describe(source_lines: dict[int, SourceLine | None]) -> str:
    """Describe each group of ranks at the same source line in one line, followed by its details."""
    at = {}
    for rank, source_line in sorted(source_lines.items()):
        at.setdefault(source_line, []).append(rank)
    lines = []
    for source_line, ranks in at.items():
        returned = "has returned" if len(ranks) == 1 else "have returned"
        lines.append(f"  {ranks_text(ranks)}: {source_line or returned}")
        details = source_line.list_details() if source_line is not None else ()
        lines += [f"      {more}" for more in details]
    return "\n".join(lines)
