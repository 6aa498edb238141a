"""The exercises of chapter 02 that communicate: their tasks, and what is tried."""

import torch

from ...course.checking import Wrong
from ..kit.trials import (
    LARGE,
    Case,
    Task,
    compare,
    megabytes,
    messages,
    near,
    need_cost,
    numbers,
    ranks_text,
    rounds,
    run_trial,
    tree_rounds,
)
from .misconceptions import (
    added_twice,
    changes_nothing,
    copied_back_into_new_tensors,
    divided,
    gathered_before_summing,
    group_ignored,
    hang_between_neighbours,
    hang_in_a_swap,
    hang_in_a_tree,
    inputs_changed,
    inputs_mixed_up,
    last_elements_left_out,
    mixed_up_in_the_bucket,
    neighbours_chunk,
    not_a_power_of_two,
    only_own_chunk_is_summed,
    only_some_have_the_sum,
    overwritten_before_it_was_sent,
    own_output_forgotten,
    own_returned,
    partial_sums_left_behind,
    passed_on_what_it_had,
    put_into_the_list,
    received_over_it,
    replaced_instead_of_added,
    sent_before_it_had,
    some_chunks_missing,
    some_left_out,
    steps_missing,
    sum_of_the_wrong_ranks,
    sum_returned,
    summed_in_a_gather,
    total,
    uses_the_backends_own,
    worked_with_root_0,
    wrong_partner,
    wrong_place_in_list,
)

# ---- One tensor on every rank ----------------------------------------------------------------


class OneTensor(Task):
    def inputs(self, place, case):
        return [
            numbers(place, case.shape if case.shape is not None else (case.length,), case.dtype)
        ]


class Broadcast(OneTensor):
    def call(self, answer, tensors, case, group):
        answer(tensors[0], case.root, group)

    def truth(self, before, place, case):
        return before[case.root]


class Reduce(Broadcast):
    def truth(self, before, place, case):
        return [total(before, 0) if place == case.root else None]


class AllReduce(OneTensor):
    def call(self, answer, tensors, case, group):
        answer(tensors[0], group)

    def truth(self, before, place, case):
        return [total(before, 0)]


class Swap(OneTensor):
    """In a cell, and it returns its result."""

    def inputs(self, place, case):
        x = super().inputs(place, case)[0]
        return [x, torch.zeros_like(x)]

    def call(self, answer, tensors, case, group):
        returned = answer(tensors[0])
        if not isinstance(returned, torch.Tensor):
            raise TypeError(f"return a tensor, not {returned!r}; without `return` it is None")
        tensors[1] = returned

    def truth(self, before, place, case):
        return [None, before[place ^ 1][0]]

    def name_of(self, index, case):
        return "the returned tensor" if index else "x"


TREE_CASES = [
    Case(1),
    Case(2),
    Case(4),
    Case(3),
    Case(4, root=2),
    Case(3, dtype=torch.int64, root=1),
    Case(4, shape=()),
    Case(3, shape=(2, 3), dtype=torch.bfloat16),
    Case(2, length=0),
    Case(4, members=(1, 3)),
    Case(5, root=4),
]


# ---- n chunks on every rank ------------------------------------------------------------------


class Chunks(Task):
    """A list of tensors, which the answer writes into."""

    def inputs(self, place, case):
        lengths = [case.length + (k if case.uneven else 0) for k in range(case.n)]
        return [numbers(place, (length,), case.dtype, salt=k) for k, length in enumerate(lengths)]

    def call(self, answer, tensors, case, group):
        chunks = list(tensors)
        answer(chunks, group)
        return chunks

    def name_of(self, index, case):
        return f"chunks[{index}]"


class ReduceScatter(Chunks):
    def truth(self, before, place, case):
        return [total(before, k) if k == place else None for k in range(case.n)]


class AllGather(Chunks):
    def truth(self, before, place, case):
        return [before[k][k] for k in range(case.n)]


class AllToAll(Task):
    """The outputs, then the inputs."""

    def inputs(self, place, case):
        def length(sender, receiver):
            return case.length + (sender + 2 * receiver if case.uneven else 0)

        n = case.n
        outputs = [torch.zeros(length(k, place), dtype=case.dtype) for k in range(n)]
        return outputs + [numbers(place, (length(place, k),), case.dtype, salt=k) for k in range(n)]

    def call(self, answer, tensors, case, group):
        outputs, inputs = tensors[: case.n], tensors[case.n :]
        answer(outputs, inputs, group)
        return outputs + inputs

    def truth(self, before, place, case):
        n = case.n
        return [before[k][n + place] for k in range(n)] + [before[place][n + k] for k in range(n)]

    def name_of(self, index, case):
        return f"outputs[{index}]" if index < case.n else f"inputs[{index - case.n}]"


RING_CASES = [
    Case(1),
    Case(2),
    Case(3),
    Case(4),
    Case(4, uneven=True),
    Case(3, length=0, uneven=True),
    Case(3, dtype=torch.int32),
    Case(2, dtype=torch.bfloat16, uneven=True),
    Case(4, members=(0, 2, 3)),
]


# ---- Several tensors on every rank -----------------------------------------------------------


class Buckets(Task):
    """Lengths of 3, 50, 1, … elements; buckets of 400 bytes."""

    bucket_bytes = 400
    LENGTHS = (3, 50, 1, 20, 20, 20, 90, 4, 7)

    def inputs(self, place, case):
        lengths = self.LENGTHS[: case.length]
        tensors = [numbers(place, (n,), case.dtype, salt) for salt, n in enumerate(lengths)]
        return [x.view(2, -1) if x.numel() == 20 else x for x in tensors]

    def call(self, answer, tensors, case, group):
        given = list(tensors)
        answer(given, self.bucket_bytes, group)
        return given

    def truth(self, before, place, case):
        return [total(before, k) for k in range(len(before[0]))]

    def name_of(self, index, case):
        return f"tensors[{index}]"


BUCKET_CASES = [
    Case(1, length=4),
    Case(2, length=9),
    Case(3, length=9, dtype=torch.float32),
    Case(4, length=3, dtype=torch.int64),
    Case(2, length=0),
    Case(3, length=5, members=(0, 2)),
]


# ---- Cost ------------------------------------------------------------------------------------


def need_tree(trial):
    """n-1 messages, in ⌈log2 n⌉ rounds."""
    n = trial.case.n
    counts = [len(trial.sends(place)) for place in range(n)]
    needed = rounds(trial.calls)
    best = tree_rounds(n)
    hub = max(range(n), key=lambda place: counts[place])
    busiest = counts[hub]
    receives = [len(trial.calls[place]) - counts[place] for place in range(n)]
    why = ""
    if busiest == n - 1 or max(receives) == n - 1:
        centre = hub if busiest == n - 1 else receives.index(n - 1)
        why = (
            f"the result is right, but rank {centre} exchanges {n - 1} messages, one after "
            "another, while the others idle: this is a star. In a tree, whoever has it helps."
        )
    elif needed == n - 1:
        why = (
            "the result is right, but it goes from rank to rank, and each waits for the one "
            "before: this is a chain. In a tree several messages travel in the same round."
        )
    need_cost(
        trial,
        sum(counts) == n - 1,
        f"{messages(sum(counts))}, {n - 1} are enough",
        why or "the result is right, but some rank gets more than one message that it needs not.",
    )
    need_cost(trial, needed <= best, f"{needed} rounds, {best} are enough", why)
    return f"cost, {trial.case}: {messages(n - 1)} in {needed} rounds, the least there is"


def need_ring(trial, steps, bytes_each):
    """`steps` messages, all to the next rank, and these bytes, on every rank."""
    n = trial.case.n
    each = " and ".join(megabytes(count) for count in sorted(set(rounded(trial.sent_bytes))))
    need_cost(
        trial,
        all(near(sent, bytes_each) for sent in trial.sent_bytes),
        f"ranks sent {each}; a ring sends {megabytes(bytes_each)} everywhere",
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
    return f"cost, {trial.case}: every rank sends {megabytes(bytes_each)} in {messages(steps)}"


def steps_ahead(trial) -> list[int]:
    """How far round the ring each message of each rank goes."""
    n = trial.case.n
    return [(call.peer - place) % n for place in range(n) for call in trial.sends(place)]


def rounded(counts) -> list[float]:
    return [round(count / 1e4) * 1e4 for count in counts]


def shape_of_traffic(trial) -> str:
    """What kind of algorithm sends what these ranks have sent."""
    n, sent = trial.case.n, trial.sent_bytes
    whole = sum(x.nbytes for x in trial.before[0])
    ratio = [count / whole for count in sent]
    said = ", ".join(f"rank {place} {r:.2f}X" for place, r in enumerate(ratio))
    load = [sent + received for sent, received in zip(trial.sent_bytes, trial.received_bytes)]
    if max(load) > 1.5 * min(load):
        return (
            f"the result is right, but the load is not even ({said}): rank {load.index(max(load))} "
            "is a hot spot, as in a star or a tree. In a ring all send the same, chunk by chunk."
        )
    if near(sent[0], (n - 1) * whole):
        return (
            f"the result is right, but each rank sends {n - 1}X: the whole tensor travels round "
            "the ring, or to everybody. Cut it into n chunks, and send one chunk a step."
        )
    if near(sent[0], whole) and n > 2:
        return (
            "the result is right, but each rank sends X: one step too many. After n - 1 steps, "
            "which is (n-1)/n of X, everything is where it belongs."
        )
    return f"the result is right, but the ranks send more than they need ({said})."


# ---- The exercises ---------------------------------------------------------------------------


def examine_all(task, answer, cases, diagnoses, hang=hang_between_neighbours):
    """Yield a line for each right case; raise `Wrong` at the first wrong one."""
    for case in cases:
        trial = run_trial(task, answer, case, hang)
        used = uses_the_backends_own(trial)
        if used:
            raise Wrong(str(case), "this is not written by hand", used)
        compare(trial, diagnoses)
        yield str(case)


def examine_swap(answer):
    cases = [Case(2), Case(4), Case(4, shape=(2, 3)), Case(2, length=LARGE)]
    diagnoses = [own_returned, wrong_partner, sum_returned, overwritten_before_it_was_sent]
    for case in cases:
        trial = run_trial(Swap(), answer, case, hang_in_a_swap)
        used = uses_the_backends_own(trial)
        if used:
            raise Wrong(str(case), "this is no message from rank to rank", used)
        compare(trial, diagnoses)
        why = overwritten_before_it_was_sent(trial)
        if why:
            raise Wrong(str(case), "x itself has changed", why)
        yield str(case)
    for place in range(trial.case.n):
        count = len(trial.sends(place))
        what = f"rank {place} sent {messages(count)}; one is enough"
        need_cost(trial, count == 1, what, "each rank sends its x once, to its partner.")
    yield f"cost, {trial.case}: one message from each rank"


def examine_broadcast(answer):
    diagnoses = [
        changes_nothing,
        group_ignored,
        worked_with_root_0,
        sent_before_it_had,
        not_a_power_of_two,
        some_left_out,
    ]
    yield from examine_all(Broadcast(), answer, TREE_CASES, diagnoses, hang_in_a_tree)
    yield need_tree(run_trial(Broadcast(), answer, Case(8, length=1000)))
    yield need_tree(run_trial(Broadcast(), answer, Case(5, length=1000)))


def examine_reduce(answer):
    diagnoses = [
        changes_nothing,
        group_ignored,
        worked_with_root_0,
        divided,
        received_over_it,
        partial_sums_left_behind,
        not_a_power_of_two,
    ]
    yield from examine_all(Reduce(), answer, TREE_CASES, diagnoses, hang_in_a_tree)
    yield need_tree(run_trial(Reduce(), answer, Case(8, length=1000)))
    yield need_tree(run_trial(Reduce(), answer, Case(5, length=1000)))


def examine_reduce_scatter(answer):
    diagnoses = [
        put_into_the_list,
        changes_nothing,
        group_ignored,
        neighbours_chunk,
        divided,
        added_twice,
        steps_missing,
        replaced_instead_of_added,
    ]
    yield from examine_all(ReduceScatter(), answer, RING_CASES, diagnoses)
    for n in (4, 2):
        trial = run_trial(ReduceScatter(), answer, Case(n, length=LARGE // n))
        yield need_ring(trial, n - 1, (n - 1) * trial.before[0][0].nbytes)


def examine_all_gather(answer):
    diagnoses = [
        put_into_the_list,
        changes_nothing,
        group_ignored,
        passed_on_what_it_had,
        some_chunks_missing,
        wrong_place_in_list,
        summed_in_a_gather,
    ]
    yield from examine_all(AllGather(), answer, RING_CASES, diagnoses)
    for n in (4, 2):
        trial = run_trial(AllGather(), answer, Case(n, length=LARGE // n))
        yield need_ring(trial, n - 1, (n - 1) * trial.before[0][0].nbytes)


ALL_REDUCE_CASES = [
    Case(1),
    Case(2),
    Case(3),
    Case(4, length=8),
    Case(4, length=7),
    Case(3, length=2),
    Case(4, shape=()),
    Case(3, shape=(5, 4), dtype=torch.int64),
    Case(2, length=9, dtype=torch.bfloat16),
    Case(4, length=5, members=(1, 2, 3)),
]


def examine_all_reduce(answer):
    diagnoses = [
        changes_nothing,
        group_ignored,
        divided,
        last_elements_left_out,
        gathered_before_summing,
        only_own_chunk_is_summed,
        only_some_have_the_sum,
        sum_of_the_wrong_ranks,
    ]
    yield from examine_all(AllReduce(), answer, ALL_REDUCE_CASES, diagnoses)
    for n in (4, 2):
        trial = run_trial(AllReduce(), answer, Case(n, length=LARGE))
        yield need_ring(trial, 2 * (n - 1), 2 * (n - 1) / n * trial.before[0][0].nbytes)


def examine_all_to_all(answer):
    diagnoses = [
        put_into_the_list,
        changes_nothing,
        group_ignored,
        inputs_changed,
        own_output_forgotten,
        inputs_mixed_up,
    ]
    yield from examine_all(AllToAll(), answer, RING_CASES, diagnoses)
    trial = run_trial(AllToAll(), answer, Case(4, length=LARGE // 4))
    n, chunk = trial.case.n, trial.before[0][-1].nbytes
    for place in range(n):
        sends, sent = trial.sends(place), trial.sent_bytes[place]
        what = f"rank {place} sent {megabytes(sent)}, {megabytes((n - 1) * chunk)} are enough"
        why = (
            "the result is right, but pieces travel that their receiver does not need, or that "
            "need not travel: send each input straight to the rank that it is for."
        )
        need_cost(trial, near(sent, (n - 1) * chunk), what, why)
        what = f"rank {place} sent {messages(len(sends))}; {n - 1} would do"
        need_cost(trial, len(sends) == n - 1, what, why)
    yield f"cost, {trial.case}: every rank sends {megabytes((n - 1) * chunk)} in {messages(n - 1)}"


# 24 | 400 | 8 160 160 | 160 | 720 | 32 56 bytes: what fits into 400, in order.
NUMBER_OF_BUCKETS = 6


def examine_buckets(answer):
    diagnoses = [
        put_into_the_list,
        group_ignored,
        divided,
        copied_back_into_new_tensors,
        changes_nothing,
        mixed_up_in_the_bucket,
        sum_of_the_wrong_ranks,
    ]
    yield from examine_all(Buckets(), answer, BUCKET_CASES, diagnoses)
    trial = run_trial(Buckets(), answer, Case(2, length=9))
    count, best = len(trial.sends(0)) / 2, NUMBER_OF_BUCKETS
    tensors, limit = len(trial.before[0]), Buckets.bucket_bytes
    if count == tensors:
        why = "the result is right, but every tensor still has an all-reduce of its own."
    elif count == 1:
        why = f"everything is in one bucket; after {limit} bytes a new one has to begin."
    elif count < best:
        why = (
            f"some bucket holds more than {limit} bytes: look whether the next tensor still fits "
            "before it goes in, not after."
        )
    else:
        why = (
            "some tensor began a bucket although it would have fitted into the one before: count "
            "nbytes, and only of what is in that bucket."
        )
    need_cost(trial, count == best, f"{count:g} all-reduces, expected {best}", why)
    yield f"cost, {trial.case}: {best} all-reduces for {tensors} tensors"
