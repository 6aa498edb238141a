# Built from chapters/ch08_pipeline_parallel/labs/vocabulary_schedules.py by `make build`.
"""A 1F1B schedule whose output layer is cut by tokens over all stages.

python labs/vocabulary_schedules.py

Each rank has two more kinds of action. "S" computes its part of the logits, and what the gradient
of their input needs of it; "T" computes the gradient of its rows of the output layer.
"""

from schedules import Action

KINDS = "BSFT"  # of several actions that can begin at once, the first kind is taken


def list_schedule(ranks, microbatches, seconds, extra=1, unfinished=2):
    """Return the rows of all ranks, and the spans of their actions, as a list scheduler finds them.

    The action that can begin first is taken, again and again. A rank keeps as many micro-batches as
    under 1F1B, and `extra` ones, because a backward on the last rank waits for all ranks' S.

    seconds     {kind: time}, a number for all ranks or a list with one for each
    unfinished  how many micro-batches may be between a rank's S and its T
    Source      Yeung et al. 2024, "Balancing Pipeline Parallelism with Vocabulary Parallelism"
    """
    rows, spans = ([[] for _ in range(ranks)] for _ in range(2))
    ends, done = {}, [dict.fromkeys(KINDS, 0) for _ in range(ranks)]
    clock = [0.0] * ranks
    while min(count for of_rank in done for count in of_rank.values()) < microbatches:
        choices = []
        for rank, counts in enumerate(done):
            room = {"F": ranks - rank + extra - (counts["F"] - counts["B"]),
                    "S": unfinished - (counts["S"] - counts["T"])}  # fmt: skip
            for place, kind in enumerate(KINDS):
                needed = needs_of(kind, counts[kind], rank, ranks)
                if counts[kind] < microbatches and room.get(kind, 1) and needed <= ends.keys():
                    begin = max([clock[rank], *(ends[need] for need in needed)])
                    choices.append((begin, place, rank))
        begin, place, rank = min(choices)
        action = Action(KINDS[place], done[rank][KINDS[place]])
        clock[rank] = begin + time_of(seconds, action.kind, rank)
        ends[action.kind, action.microbatch, rank] = clock[rank]
        done[rank][action.kind] += 1
        rows[rank].append(action)
        spans[rank].append((begin, clock[rank]))
    return rows, spans


def needs_of(kind, i, rank, ranks) -> set:
    """Return the results, (kind, micro-batch, rank), that an action needs."""
    last = ranks - 1
    if kind == "F":
        return {("F", i, rank - 1)} if rank else set()
    if kind == "S":
        return {("F", i, last)}
    if kind == "B" and rank < last:
        return {("B", i, rank + 1)}
    return {("S", i, other) for other in range(ranks)}  # the barrier: T, and B on the last rank


def time_of(seconds, kind, rank) -> float:
    return seconds[kind][rank] if isinstance(seconds[kind], list) else seconds[kind]


def bubble_of(rows, spans) -> float:
    """Return how much longer a step is than the work of the busiest rank."""
    busy = [sum(end - begin for begin, end in of_rank) for of_rank in spans]
    return max(end for of_rank in spans for _, end in of_rank) - max(busy)


def most_kept(rows) -> list[int]:
    """Return the most micro-batches that each rank keeps between their F and B."""
    found = []
    for row in rows:
        kept = [sum((one.kind == "F") - (one.kind == "B") for one in row[: number + 1])
                for number in range(len(row))]  # fmt: skip
        found.append(max(kept))
    return found


# ---- The program ----------------------------------------------------------------------------


def main(ranks=4, microbatches=8):
    seconds = {"F": 2.0, "B": 4.0, "S": 1.5, "T": 0.75}
    for extra in (0, 1, 2):
        rows, spans = list_schedule(ranks, microbatches, seconds, extra)
        print(f"keeps {max(most_kept(rows))}: bubble {bubble_of(rows, spans):g}")


if __name__ == "__main__":
    main()
