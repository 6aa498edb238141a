# Built from chapters/ch08_pipeline_parallel/labs/schedules.py by `make build`. Write your answers here.
"""Schedules of a pipeline: the actions of each rank, one after another, as lists.

python labs/schedules.py
"""

from typing import NamedTuple


class Action(NamedTuple):
    """An action of a rank.

    kind        "F": forward; "B": the whole backward. Or its two halves: "I": the gradient of the
                input, "W": those of the weights
    microbatch  the number of the micro-batch, from 0 on
    chunk       the number of this rank's piece of the model, from 0 on; most ranks have just one
    """

    kind: str
    microbatch: int
    chunk: int = 0

    def __str__(self):
        return f"{self.kind}{self.microbatch}" + (f".{self.chunk}" if self.chunk else "")


# ---- One rank's list ------------------------------------------------------------------------
# Each takes the rank, the number of ranks, and the number of micro-batches of a batch.


def naive(rank, ranks, microbatches):
    """Yield actions without a pipeline: each micro-batch goes forward and back before the next."""
    for i in range(microbatches):
        yield Action("F", i)
        yield Action("B", i)


def gpipe(rank, ranks, microbatches):
    """Exercise 8.1. Yield all forwards, then all backwards, both in order: 0, 1, 2, …

    Source  Huang et al. 2018, "GPipe"
    """
    ...  # your code here


def one_f_one_b(rank, ranks, microbatches):
    """Exercise 8.4. Yield warm-up forwards, then one forward and one backward in turns.

    A rank warms up with as many forwards as there are ranks after it (and at most all). Then each
    further forward is followed by the oldest backward; the rest are backwards. All are in order.

    Source  Narayanan et al. 2020, "PipeDream-2BW": PipeDream-Flush
    """
    ...  # your code here


def turn(k, ranks, chunks, kind="F") -> Action:
    """Exercise 8.11. Return the k-th forward or backward of an interleaved schedule, k from 0.

    Micro-batches come in groups of as many as there are ranks: one group goes through the first
    chunk, then through the second, …, and then the next group follows. Backwards take the chunks
    in the opposite order, the last one first; their micro-batches are in order, too.
    """
    ...  # your code here


def interleaved(rank, ranks, microbatches, chunks=2):
    """Yield 1F1B with several chunks per rank: stages rank, rank + ranks, rank + 2 ranks, …

    Raises  ValueError if the micro-batches do not come in groups of `ranks`
    Source  Narayanan et al. 2021, "Efficient Large-Scale Language Model Training", section 2.2
    """
    if microbatches % ranks:
        raise ValueError(
            f"an interleaved schedule on {ranks} ranks takes {ranks}, {2 * ranks}, … micro-batches"
            f", not {microbatches}"
        )
    total = microbatches * chunks
    warm_up = min(2 * (ranks - 1 - rank) + (chunks - 1) * ranks, total)
    for k in range(warm_up):
        yield turn(k, ranks, chunks)
    for k in range(warm_up, total):
        yield turn(k, ranks, chunks)
        yield turn(k - warm_up, ranks, chunks, "B")
    for k in range(total - warm_up, total):
        yield turn(k, ranks, chunks, "B")


def order_forwards(microbatches, chunks, size) -> list[tuple[int, int]]:
    """Exercise 8.12. Return all forwards of a rank, in order: (micro-batch, chunk).

    Micro-batches come in groups of `size`, and the last group has those that are left. A group goes
    through chunk 0, then through chunk 1, and so on, before the next group begins. If `size` is
    larger than the number of micro-batches, they are one group.
    """
    ...  # your code here


def interleaved_in_groups(rank, ranks, microbatches, chunks=2, size=None):
    """Yield interleaved 1F1B for any number of micro-batches, in groups of `size`.

    The bubble is that of `interleaved` if each group has at least `ranks` micro-batches. With a
    smaller one it is longer, or ranks wait for each other forever, which check_schedule reports.
    In groups of as many as there are ranks, with none left over, it is `interleaved`.

    size    by default as many as there are ranks
    Source  Llama Team 2024, "The Llama 3 Herd of Models", section 3.3.2
    """
    size = min(size or ranks, microbatches)
    forwards = order_forwards(microbatches, chunks, size)
    backwards = [(i, chunks - 1 - chunk) for i, chunk in forwards]
    warm_up = min(2 * (ranks - 1 - rank) + (chunks - 1) * size, len(forwards))
    for k, forward in enumerate(forwards):
        yield Action("F", *forward)
        if k >= warm_up:
            yield Action("B", *backwards[k - warm_up])
    for backward in backwards[len(forwards) - warm_up :]:
        yield Action("B", *backward)


def breadth_first(rank, ranks, microbatches, chunks=2):
    """Yield all forwards, chunk by chunk, then all backwards, the last chunk first.

    Source  Lamy-Poirier 2022, "Breadth-First Pipeline Parallelism"
    """
    forwards = order_forwards(microbatches, chunks, microbatches)
    for i, chunk in forwards:
        yield Action("F", i, chunk)
    for i, chunk in forwards:
        yield Action("B", i, chunks - 1 - chunk)


def zero_bubble(rank, ranks, microbatches):
    """Yield 1F1B with split backwards: no rank waits for "W", so it fills idle time.

    Rank r postpones its weight gradients by r micro-batches, so that all ranks hold as much as the
    first one does under 1F1B. With at least as many micro-batches as ranks, and if all kinds take
    the same time, a third of 1F1B's bubble is left.

    Source  Qi et al. 2024, "Zero Bubble Pipeline Parallelism": ZB-H1
    """
    warm_up = min(ranks - 1 - rank, microbatches)
    for i in range(warm_up):
        yield Action("F", i)
    for i in range(microbatches):
        if warm_up + i < microbatches:
            yield Action("F", warm_up + i)
        yield Action("I", i)
        if i >= rank:
            yield Action("W", i - rank)
    for i in range(max(microbatches - rank, 0), microbatches):
        yield Action("W", i)


SCHEDULES = {
    "naive": naive,
    "GPipe": gpipe,
    "1F1B": one_f_one_b,
    "interleaved 1F1B": interleaved,
    "zero bubble": zero_bubble,
}


def rows_of(schedule, ranks, microbatches, **options) -> list[list[Action]]:
    """Return all ranks' lists: rows[rank] has the actions of that rank."""
    return [list(schedule(rank, ranks, microbatches, **options)) for rank in range(ranks)]


# ---- The program ----------------------------------------------------------------------------


def main(ranks=4, microbatches=8):
    for name, schedule in SCHEDULES.items():
        try:
            rows = rows_of(schedule, ranks, microbatches)
        except TypeError:  # an exercise's three dots return None, which is no list
            rows = [[None]]
        if any(None in row for row in rows):
            print(f"{name}: still to be written")
            continue
        print(f"{name}, {ranks} ranks, {microbatches} micro-batches")
        for rank, row in enumerate(rows):
            print(f"  rank {rank}: ", *row)


if __name__ == "__main__":
    main()
