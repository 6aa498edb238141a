"""Checks of the messages of trees and rings, and diagnoses of other algorithms."""

from coursekit.kit.diagnoses import ranks_text
from coursekit.kit.message_costs import is_near, megabytes, messages, need_cost, rounds, tree_rounds

SMALL = 10_000  # bytes; in smaller tensors, headers are most of the traffic
SOME_IDLE = (
    "the result is right, but some who could send have nothing to do in a round: whoever has x "
    "goes on sending until everybody has it, so their number doubles in each round (or, for a sum, "
    "halves)."
)


def need_tree(trial, towards_root=False):
    """Require n-1 messages in ⌈log2 n⌉ rounds: from the root, one to each rank, or towards it."""
    n = trial.case.n
    counts = [len(trial.sends(place)) for place in range(n)]
    needed = rounds(trial.calls)
    best = tree_rounds(n)
    receives = [len(trial.calls[place]) - counts[place] for place in range(n)]
    why = star_or_chain(counts, receives, needed, towards_root)
    need_cost(
        trial,
        sum(counts) == n - 1,
        f"{messages(sum(counts))}, {n - 1} are enough",
        why or why_again(counts if towards_root else receives, towards_root, trial.case.root),
    )
    need_cost(trial, needed <= best, f"{rounds_text(needed)}, {best} would do", why or SOME_IDLE)
    need_bytes(trial, n - 1, trial.before[0][0].nbytes)
    return f"cost, {trial.case}: {messages(n - 1)} in {rounds_text(needed)}, the least there is"


def star_or_chain(sends, receives, needed, towards_root) -> str:
    """Diagnose a star or a chain by the messages of each place and the rounds, or return ""."""
    last = len(sends) - 1
    for counts in (sends, receives):
        if last in counts:
            return (
                f"the result is right, but rank {counts.index(last)} exchanges {last} messages, "
                "one after another, while the others idle: this is a star. "
            ) + (
                "In a tree several pairs add up in the same round."
                if towards_root
                else "In a tree, whoever has it helps."
            )
    if needed == last:
        return (
            "the result is right, but it goes from rank to rank, and each waits for the one "
            "before: this is a chain. In a tree several messages travel in the same round."
        )
    return ""


def rounds_text(count) -> str:
    return f"{count} round" + ("" if count == 1 else "s")


def need_bytes(trial, count, size):
    """Require that all ranks together send exactly `count` times `size` bytes."""
    sent = sum(call.sent_bytes for place in range(trial.case.n) for call in trial.sends(place))
    what = f"{sent:,} bytes in all messages; {count * size:,} are enough"
    need_cost(trial, sent == count * size, what, OTHER_SIZE)


OTHER_SIZE = (
    "the messages are as many as they should be, but not as long: they have another dtype than the "
    "tensor, or are filled up to a common length. Send the numbers themselves, in their own dtype."
)


def why_again(counts, towards_root, root) -> str:
    """Diagnose a rank that sends its sum, or receives x, too often; `counts` is by place."""
    if counts[root]:
        return "the result is right, but the root, rank {}, {} as well. {}".format(
            root,
            *(
                ("sends", "Sums go towards it, and it is where they stay: it is the tree's top.")
                if towards_root
                else ("receives", "It has x from the beginning: the tree begins with it.")
            ),
        )
    most = max(counts)
    if most < 2:
        return ""
    who = f"the result is right, but rank {counts.index(most)}"
    if towards_root:
        return f"{who} sends {most} times: whoever has given its sum away is done."
    return f"{who} receives {most} times: whoever has x needs it no more."


def need_ring(trial, steps, bytes_each):
    """Require of every rank `steps` messages to one neighbour, of `bytes_each` bytes together.

    Where chunks differ in length, `bytes_each` is an average, so only large ones are compared.
    """
    n, (sent_by, _) = trial.case.n, traffic(trial)
    is_small = trial.before[0][0].nbytes < SMALL
    why = "no message was seen. Is it sent in a thread of its own, or through something else?"
    need_cost(trial, any(map(trial.sends, range(n))), "no rank sent a message", why)
    size_of, most = (
        ("{:.0f} bytes".format, sent_by) if is_small else (megabytes, round_counts(sent_by))
    )
    each = " and ".join(map(size_of, sorted(set(most))))
    need_cost(
        trial,
        (is_small and trial.case.uneven) or all(is_near(sent, bytes_each) for sent in sent_by),
        f"ranks sent {each}; a ring sends {size_of(bytes_each)} everywhere",
        shape_of_traffic(trial),
    )
    to = ranks_text(sorted({call.peer for call in trial.sends(0)}))
    need_cost(
        trial,
        len(set(steps_ahead(trial))) == 1,
        f"rank 0 sent to {to}; in a ring to one neighbour alone",
        "the bytes are right, but every rank talks to all others. In a ring it has two "
        "neighbours: it sends to one and receives from the other, and needs no other link.",
    )
    counts = [len(trial.sends(place)) for place in range(n)]
    need_cost(
        trial,
        set(counts) == {steps},
        f"rank 0 sent {messages(counts[0])}; {steps} would do",
        "the bytes are right, but in more pieces than there are chunks: each message costs a "
        "latency.",
    )
    size = "" if is_small else f"{megabytes(bytes_each)} in "
    return f"cost, {trial.case}: every rank sends {size}{messages(steps)}"


def traffic(trial) -> tuple[list, list]:
    """Return the bytes that ranks sent and received, counted without headers for small tensors."""
    if trial.before[0][0].nbytes >= SMALL:
        return trial.sent_bytes, trial.received_bytes
    return (
        [sum(call.sent_bytes for call in calls) for calls in trial.calls],
        [sum(call.received_bytes for call in calls) for calls in trial.calls],
    )


def need_next_alone(trial):
    """Require that all messages go to the next rank."""
    n = trial.case.n
    need_cost(
        trial,
        set(steps_ahead(trial)) <= {1},
        f"rank 0 sent to rank {n - 1}; asked is the next one alone",
        "this ring runs the other way round. It is as good, but whoever calls it counts on the "
        "links from each rank to the next: send to rank + 1, and receive from rank - 1.",
    )


def steps_ahead(trial) -> list[int]:
    """Return the distance round the ring of each message of each rank."""
    n = trial.case.n
    return [(call.peer - place) % n for place in range(n) for call in trial.sends(place)]


def round_counts(counts) -> list[float]:
    return [round(count / 1e4) * 1e4 for count in counts]


def shape_of_traffic(trial) -> str:
    """Diagnose the kind of algorithm from the bytes that each rank has sent."""
    n, (sent, received) = trial.case.n, traffic(trial)
    whole = sum(x.nbytes for x in trial.before[0])
    ratio = [count / whole for count in sent]
    said = ", ".join(f"rank {place} {r:.2f}X" for place, r in enumerate(ratio))
    load = [sum(pair) for pair in zip(sent, received)]
    if max(load) > 1.5 * min(load):
        return (
            f"the result is right, but the load is not even ({said}): rank {load.index(max(load))} "
            "is a hot spot, as in a star or a tree. In a ring all send the same, chunk by chunk."
        )
    if is_near(sent[0], (n - 1) * whole):
        return (
            f"the result is right, but each rank sends {n - 1}X: the whole tensor travels round "
            "the ring, or to everybody. Cut it into n chunks, and send one chunk a step."
        )
    if is_near(sent[0], whole) and n > 2:
        return (
            "the result is right, but each rank sends X: one step too many. After n - 1 steps, "
            "which is (n-1)/n of X, everything is where it belongs."
        )
    return f"the result is right, but the ranks send more than they need ({said})."


def need_half_a_ring(trial):
    """Require that each rank sends all chunks but one, and all ranks each chunk n - 1 times."""
    n, whole = trial.case.n, sum(chunk.nbytes for chunk in trial.before[0])
    told = need_ring(trial, n - 1, (n - 1) * trial.before[0][0].nbytes)
    need_next_alone(trial)
    need_bytes(trial, n - 1, whole)
    return told
