"""Misconceptions about collectives, and how their traces are recognised.

Each diagnosis takes a `Trial` and says which misconception it shows, or "".
"""

import torch

from ...basics.closeness import close_in_float32
from ..kit.trials import contributions, ranks_text, same, told_contributions


def total(before, index):
    """The sum over all ranks of one tensor of the list."""
    return sum(tensors[index] for tensors in before)


# ---- What a hang means ---

NOT_A_POWER_OF_TWO = (
    "with 2 and 4 ranks it is right, with 3 it is not: in the last round some have no partner, "
    "because place + reach is n or more. They have nothing to do then."
)
IN_A_GROUP = (
    "in the whole world it is right, in a group of some ranks it is not: pass `group` on, and use "
    "only ranks within it."
)


def hang_between_neighbours(case, error, both="exchange(…) does that") -> str:
    if case.members:
        return IN_A_GROUP
    if len(error.waits) > 1 and len(set(calls_in(error))) == 1 and None not in calls_in(error):
        return (
            "each rank waits for the other side of a message, and nobody gets to begin it. Begin "
            f"both, and wait then: {both}"
        )
    return (
        "a message and its other side do not match. For every receive one rank has to send, to "
        "exactly this one; and a request has to be kept, and waited for, or its message is lost."
    )


def hang_in_a_swap(case, error) -> str:
    return hang_between_neighbours(case, error, "dist.batch_isend_irecv(…) begins several messages")


def calls_in(error) -> list:
    """In what each rank waits: the line of its function, or None if it has returned."""
    return [place and place.line for place in error.waits.values()]


def hang_in_a_tree(case, error) -> str:
    if case.members:
        return IN_A_GROUP
    if case.n == 3 and not case.root:
        return NOT_A_POWER_OF_TWO
    return (
        "somebody waits for a message that nobody sends, or that nobody receives. In each round "
        "every rank is one of three: it sends, or it receives from exactly the one that sends to "
        "it, or it has nothing to do."
    )


# ---- What wrong values mean ------------------------------------------------------------------


def worked_with_root_0(trial) -> str:
    if not trial.case.root:
        return ""
    return (
        f"with root 0 it is right, with root {trial.case.root} it is not. Number the ranks from "
        "the root, (rank - root) % n, and add the root again to find a peer."
    )


def group_ignored(trial) -> str:
    return IN_A_GROUP if trial.case.members else ""


def not_a_power_of_two(trial) -> str:
    return NOT_A_POWER_OF_TWO if trial.case.n == 3 and not trial.case.root else ""


def received_over_it(trial) -> str:
    """A reduce that ends with one rank's numbers."""
    root = trial.case.root
    for other, tensors in enumerate(trial.before):
        if other != root and same(trial.after[root][0], tensors[0]):
            return (
                f"the root now has what rank {other} had: receiving into x overwrites it. Receive "
                "into another tensor, and add that to x."
            )
    return ""


def sent_before_it_had(trial) -> str:
    """A broadcast in which a rank passed on its own x."""
    root = trial.case.root
    for place in range(trial.case.n):
        for other in range(trial.case.n):
            is_others = same(trial.after[place][0], trial.before[other][0])
            if other not in (root, place) and is_others and not trial.is_right(place):
                return (
                    f"rank {place} now has what rank {other} had at the start: rank {other} sent "
                    "before it had received. Whoever gets x in a round sends it in the next one."
                )
    return ""


def some_left_out(trial) -> str:
    """Some ranks have neither sent nor received, or just kept what they had."""
    left = [
        place for place in range(trial.case.n)
        if not trial.is_right(place) and same(trial.before[place][0], trial.after[place][0])
    ]  # fmt: skip
    if not left or len(left) == trial.case.n:
        return ""
    return (
        f"{ranks_text(left)} never got it. With each round the number of ranks that have it "
        "doubles: 1, 2, 4, … until all n have it; reach has to grow until it is n or more."
    )


def divided(trial) -> str:
    for place in range(trial.case.n):
        for got, wanted in zip(trial.after[place], trial.truth(place)):
            if wanted is None or not wanted.numel() or got.shape != wanted.shape:
                continue
            if trial.case.n > 1 and close_in_float32(got.double() * trial.case.n, wanted):
                return (
                    "this is the mean. The sum was asked for: dividing by n is a step of its own, "
                    "which not everybody who needs the sum wants."
                )
    return ""


def sum_of_the_wrong_ranks(trial) -> str:
    """Which ranks' numbers are in a wrong sum."""
    for place in range(trial.case.n):
        for index, wanted in enumerate(trial.truth(place)):
            got = trial.after[place][index]
            if wanted is None or same(got, wanted) or got.shape != wanted.shape or not got.numel():
                continue
            times = contributions(got, [tensors[index] for tensors in trial.before])
            if times is not None and sum(times) > 1:
                name = trial.task.name_of(index, trial.case)
                return f"in rank {place}'s {name}, {told_contributions(times)}."
    return ""


def partial_sums_left_behind(trial) -> str:
    said = sum_of_the_wrong_ranks(trial)
    if not said:
        return ""
    return said + (
        " What a rank sends up the tree has to be its sum so far, with all that it has received "
        "before; and each rank sends once."
    )


def only_some_have_the_sum(trial) -> str:
    have = [place for place in range(trial.case.n) if trial.is_right(place)]
    if not have or len(have) == trial.case.n:
        return ""
    return (
        f"{ranks_text(have)} alone got the sum, as in a reduce. In an all-reduce it also has to "
        "come back to everybody."
    )


def only_own_chunk_is_summed(trial) -> str:
    """The first half of an all-reduce."""
    n = trial.case.n
    if n == 1:
        return ""
    for place in range(n):
        got = trial.after[place][0].view(-1).tensor_split(n)
        wanted = trial.truth(place)[0].view(-1).tensor_split(n)
        right = [k for k in range(n) if same(got[k], wanted[k])]
        if len(right) != 1:
            return ""
    return (
        "each rank has one chunk of the sum, and the rest is unfinished: this is the "
        "reduce-scatter. The all-gather, which brings the finished chunks to everybody, is missing."
    )


def gathered_before_summing(trial) -> str:
    """The second half alone, or first."""
    n = trial.case.n
    for place in range(n):
        got = trial.after[place][0].view(-1).tensor_split(n)
        own = [t[0].view(-1).tensor_split(n)[k] for k, t in enumerate(trial.before)]
        if n == 1 or not all(map(same, got, own)):
            return ""
    return (
        "x now holds chunk k as rank k had it: an all-gather without the sums. The reduce-scatter "
        "comes first."
    )


def last_elements_left_out(trial) -> str:
    """Lengths that n does not divide."""
    n, length = trial.case.n, trial.before[0][0].numel()
    if n == 1 or length % n == 0:
        return ""
    for place in range(n):
        got, wanted = trial.after[place][0].view(-1), trial.truth(place)[0].view(-1)
        whole = length // n * n
        if not same(got[:whole], wanted[:whole]):
            return ""
    return (
        f"the last {length % n} of {length} elements are not summed: n chunks of length // n leave "
        "a rest. x.view(-1).tensor_split(n) makes chunks that differ by one element at most."
    )


def neighbours_chunk(trial) -> str:
    """A reduce-scatter whose finished chunks are on other ranks than they should be."""
    n = trial.case.n
    for shift in range(1, n):
        if all(
            same(trial.after[place][(place + shift) % n], total(trial.before, (place + shift) % n))
            for place in range(n)
        ):
            return (
                f"the sums are right, but on the wrong ranks: rank 0 has finished chunk {shift}, "
                f"not chunk 0. Follow chunk 0 backwards: it has to arrive at rank 0 in the last "
                "step, so rank 1 begins with it."
            )
    return ""


def steps_missing(trial) -> str:
    said = sum_of_the_wrong_ranks(trial)
    if "missing" not in said:
        return ""
    return said + (
        " A chunk is complete when it has passed every rank: n - 1 steps, and in each a rank adds "
        "its own numbers and passes on the sum, not what it had at the start."
    )


def added_twice(trial) -> str:
    said = sum_of_the_wrong_ranks(trial)
    if "twice" not in said:
        return ""
    return said + " One step too many, or a chunk that went on after it was complete: n - 1 steps."


def replaced_instead_of_added(trial) -> str:
    n = trial.case.n
    for place in range(n):
        others = [t[place] for k, t in enumerate(trial.before) if k != place]
        if n == 1 or not any(same(trial.after[place][place], x) for x in others):
            return ""
    return (
        "each rank ends with another rank's chunk, not with a sum: receiving into a chunk "
        "overwrites it. Receive into another tensor, and add that."
    )


def where_it_came_from(trial, place, index):
    """(rank, k) whose chunk k this is; None if it is nobody's."""
    for other, tensors in enumerate(trial.before):
        for k, tensor in enumerate(tensors):
            if tensor.numel() and same(trial.after[place][index], tensor):
                return other, k
    return None


def some_chunks_missing(trial) -> str:
    """An all-gather that stops early: chunks still hold what they held before."""
    n = trial.case.n
    missing = [
        [k for k in range(n) if where_it_came_from(trial, place, k) == (place, k) != (k, k)]
        for place in range(n)
    ]
    if not all(missing):
        return ""
    return (
        f"{len(missing[0])} of {n} chunks on each rank are still what they were: after n - 1 steps "
        "a rank has received all chunks but its own."
    )


def wrong_place_in_list(trial) -> str:
    """An all-gather that files chunks where they do not belong, or passes on the wrong one."""
    n = trial.case.n
    for place in range(n):
        for index in range(n):
            found = where_it_came_from(trial, place, index)
            if found and found[0] == found[1] != index:
                return (
                    f"rank {place}'s chunks[{index}] holds chunk {found[1]}. In each step a rank "
                    "passes on the chunk that came in last, and files what comes in under that "
                    "chunk's own number: (rank - step - 1) % n."
                )
    return ""


def passed_on_what_it_had(trial) -> str:
    n = trial.case.n
    for place in range(n):
        for index in range(n):
            found = where_it_came_from(trial, place, index)
            if found and found[1] == index and found[0] not in (index, place):
                return (
                    f"rank {place}'s chunks[{index}] is what rank {found[0]} had there at the "
                    f"start, not what rank {index} brought: a chunk went on before it had come. "
                    "Wait for the receive of one step before the send of the next."
                )
    return ""


def summed_in_a_gather(trial) -> str:
    n = trial.case.n
    for place in range(n):
        for k in range(n):
            got = trial.after[place][k]
            times = contributions(got, [tensors[k] for tensors in trial.before])
            if times is not None and sum(times) > 1:
                return (
                    f"rank {place}'s chunks[{k}] holds a sum. In an all-gather what comes in "
                    "replaces what was there; nothing is added."
                )
    return ""


def put_into_the_list(trial) -> str:
    """The right numbers, in other tensors than the caller's."""
    for place in range(trial.case.n):
        triples = zip(trial.after[place], trial.listed[place], trial.truth(place))
        for index, (own, listed, wanted) in enumerate(triples):
            is_right = isinstance(listed, torch.Tensor) and wanted is not None
            if is_right and not same(own, wanted) and same(listed, wanted):
                name = trial.task.name_of(index, trial.case)
                return (
                    f"the numbers are right, but in a new tensor. `{name} = …` only puts another "
                    "tensor into the list; the one that the caller looks at stays as it was. Write "
                    "into that: by receiving into it, with += or with .copy_(…)."
                )
    return ""


def own_output_forgotten(trial) -> str:
    n = trial.case.n
    wrong = [
        [k for k in range(n) if not same(trial.after[place][k], trial.truth(place)[k])]
        for place in range(n)
    ]
    if wrong != [[place] for place in range(n)]:
        return ""
    return (
        "all that travels is right; what stays is missing: outputs[rank] is the own inputs[rank], "
        "which is sent nowhere, but copied: outputs[rank].copy_(…). (outputs[rank] = … only puts "
        "another tensor into the list.)"
    )


def inputs_mixed_up(trial) -> str:
    n = trial.case.n
    for place in range(n):
        for k in range(n):
            if same(trial.after[place][k], trial.truth(place)[k]):
                continue
            for other in range(n):
                for j in range(n):
                    if same(trial.after[place][k], trial.before[other][n + j]):
                        return (
                            f"rank {place}'s outputs[{k}] holds inputs[{j}] of rank {other}; it "
                            f"should hold inputs[{place}] of rank {k}. A rank sends inputs[peer] "
                            "to that peer, and what comes from a peer is outputs[peer]."
                        )
    return ""


def inputs_changed(trial) -> str:
    n = trial.case.n
    for place in range(n):
        for k in range(n, 2 * n):
            if not same(trial.after[place][k], trial.before[place][k]):
                return f"rank {place}'s inputs[{k - n}] has been overwritten; only outputs change."
    return ""


def own_returned(trial) -> str:
    if all(same(a[1], b[0]) for a, b in zip(trial.after, trial.before)):
        return (
            "every rank returns its own x. What is received needs a tensor of its own: "
            "torch.empty_like(x)."
        )
    return ""


def wrong_partner(trial) -> str:
    for place, (_, got) in enumerate(trial.after):
        for other in range(trial.case.n):
            if other != place ^ 1 and other != place and same(got, trial.before[other][0]):
                return (
                    f"rank {place} got what rank {other} had. 0 and 1 are partners, and 2 and 3: "
                    "an even rank's partner is rank + 1, an odd one's rank - 1."
                )
    return ""


def sum_returned(trial) -> str:
    for place, (_, got) in enumerate(trial.after):
        if same(got, trial.before[place][0] + trial.before[place ^ 1][0]):
            return "this is the sum of both. Only the partner's x was asked for."
    return ""


def overwritten_before_it_was_sent(trial) -> str:
    for place, (x, _) in enumerate(trial.after):
        if not same(x, trial.before[place][0]):
            return (
                f"rank {place}'s x has changed: it received into the tensor that it was sending. "
                "Receive into another one: torch.empty_like(x)."
            )
    return ""


def copied_back_into_new_tensors(trial) -> str:
    unchanged = [
        k
        for k in range(len(trial.before[0]))
        if all(same(trial.before[p][k], trial.after[p][k]) for p in range(trial.case.n))
    ]
    if not unchanged or trial.case.n == 1:
        return ""
    if len(unchanged) == len(trial.before[0]):
        return (
            "the tensors are what they were: torch.cat makes a copy, so the sum of the bucket has "
            "to be copied back into each of its tensors."
        )
    last = unchanged[-1] == len(trial.before[0]) - 1
    hint = " The last bucket is never full: it still has to be sent after the loop." if last else ""
    return f"tensors {unchanged} have not been reduced.{hint}"


def mixed_up_in_the_bucket(trial) -> str:
    got = torch.cat([x.reshape(-1) for x in trial.after[0]]).sort().values
    wanted = torch.cat([x.reshape(-1) for x in trial.truth(0)]).sort().values
    if not same(got, wanted):
        return ""
    return (
        "the sums are right, but come back into the wrong places: cut the bucket in the order in "
        "which it was filled, tensor by tensor."
    )


def uses_the_backends_own(trial) -> str:
    others = {call.name for calls in trial.calls for call in calls} - {"send", "recv"}
    if not others:
        return ""
    return (
        f"it calls dist.{sorted(others)[0]}, which is one of those that are to be written here: "
        "use send and receive alone."
    )


def changes_nothing(trial) -> str:
    unchanged = all(same(a, b) for pair in zip(trial.before, trial.after) for a, b in zip(*pair))
    if not unchanged or trial.case.n == 1:
        return ""
    if not any(trial.calls):
        return "nothing has been sent, and every rank still has what it had."
    return (
        "every rank still has what it had: the result went into another tensor. `x = …` gives the "
        "name x to a new tensor; the caller's is changed by x.copy_(…), x += … or by receiving "
        "into it."
    )
