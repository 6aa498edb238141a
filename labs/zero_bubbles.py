# Built from chapters/ch08_pipeline_parallel/labs/zero_bubbles.py by `make build`.
"""Schedules that fill the bubble: backwards in two halves, and two chunks on a way down and up.

python labs/zero_bubbles.py

Each schedule is a short text of letters for a rank. `F`, `B`, `I` and `W` are the kinds of action
on the rank's first chunk, and small letters are the same kinds on its second one. The micro-batch
of an action need not be named, because each kind takes them in order: "FFIW" is F0 F1 I0 W0.
"""

import contextlib
from collections import deque
from dataclasses import replace

from schedules import Action, interleaved, one_f_one_b, rows_of, zero_bubble

# ---- From letters to actions ----------------------------------------------------------------


def actions_of(letters, microbatches):
    """Yield the actions of a text of letters; those beyond the last micro-batch are left out.

    A `W` or `w` belongs to the micro-batch of its chunk that has waited longest since its `I` or
    `i`, and an `x` to the one that has waited longest in either chunk.
    """
    counts, owed = {"F": 0, "f": 0, "B": 0, "b": 0}, []
    for letter in letters:
        if letter in "Wwx":
            kind, (i, chunk) = (
                "W",
                next(one for one in owed if letter == "x" or one[1] == (letter == "w")),
            )
            owed.remove((i, chunk))
        else:
            kind, chunk = letter.upper(), int(letter.islower())
            counted_as = letter.replace("I", "B").replace("i", "b")  # I and B share a count
            i, counts[counted_as] = counts[counted_as], counts[counted_as] + 1
            owed += [(i, chunk)] * (kind == "I")
        if i < microbatches:
            yield Action(kind, i, chunk)


def place_v_stages(ranks) -> list[list[int]]:
    """Return the stages of each rank in a V: the model goes down to the last rank, and up again.

    With 4 ranks: [[0, 7], [1, 6], [2, 5], [3, 4]]
    """
    return [[rank, 2 * ranks - 1 - rank] for rank in range(ranks)]


def both_ways(ranks) -> list[list[int]]:
    """Return the stages of each rank in two copies of the model: one goes down, the other up.

    With 4 ranks: [[0, 3], [1, 2], [2, 1], [3, 0]]
    """
    return [[rank, ranks - 1 - rank] for rank in range(ranks)]


# ---- One chunk on each rank -----------------------------------------------------------------


def zb_h2(rank, ranks, microbatches):
    """Return actions with a doubled warm-up; rank r postpones weight gradients by 2r micro-batches.

    A rank is therefore never idle between its first action and its last one, if F, I and W take
    equally long. It keeps up to 2 * ranks - 1 micro-batches.

    Source  Qi et al. 2024, "Zero Bubble Pipeline Parallelism", section 2.2
    """
    m, after = max(microbatches, 2 * ranks - 1), ranks - 1 - rank
    steady = "IWF" * (m - 2 * ranks + 1)
    letters = "F" * (2 * after + 1) + "IF" * 2 * rank + steady + "IW" * (2 * after + 1)
    return actions_of(letters + "W" * 2 * rank, microbatches)


# ---- Two chunks on each rank, in a V --------------------------------------------------------


def zb_v(rank, ranks, microbatches):
    """Return actions with half of ZB-H1's bubble, where no rank keeps more than 1F1B's first one.

    Source  Qi et al. 2024, "Zero Bubble Pipeline Parallelism", section 6
    """
    m, n = max(microbatches, 2 * ranks - 1), ranks - rank
    warm_up = "F" * (2 * n - 1) + "fF" * rank + "fiw" * n
    steady = "FIWfiw" * (m - 2 * ranks + rank + 1) + "IWfiw" * (n - 1)
    return actions_of(
        warm_up + steady + "Ii" * rank + "IW" * n + "w" * rank + "W" * rank, microbatches
    )


def dual_pipe_v(rank, ranks, microbatches):
    """Return actions whose steady part pairs a forward of one chunk with a backward of the other.

    A pair runs as one block: while one of the two computes, the other's messages travel. See
    join_pairs.

    Raises  ValueError for fewer micro-batches than stages
    Source  DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", section 3.2.1, cut in half (a V)
    """
    if microbatches < 2 * ranks:
        raise ValueError(
            f"DualPipeV on {ranks} ranks takes {2 * ranks} micro-batches or more, "
            f"not {microbatches}"
        )
    n, more = ranks - rank - 1, rank + 1
    warm_up = "F" * 2 * n + "Ff" * more + "iwf" * n
    steady = "FbfB" * (microbatches - 2 * ranks + more) + "bfB" * n
    turns = ("bB" * more)[:more] + ("iI" * more)[more:]  # at the end, only the first halves
    return actions_of(warm_up + steady + turns + "xI" * n + "x" * more, microbatches)


# ---- Two copies of the model ----------------------------------------------------------------


def dual_pipe(rank, ranks, microbatches):
    """Yield actions that send half of the micro-batches down one copy, the others up the other.

    The first half of the ranks does what DualPipeV does on that many ranks, with half of the
    micro-batches; the second half does the same, mirrored.

    Raises  ValueError for an odd number of ranks or of micro-batches, or for fewer than two
            micro-batches for each rank
    Source  DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", section 3.2.1
    """
    if ranks % 2 or microbatches % 2 or microbatches < 2 * ranks:
        raise ValueError(
            "DualPipe takes an even number of ranks, and an even number of micro-batches, at least "
            f"two for each rank; not {ranks} ranks with {microbatches} micro-batches"
        )
    mirrored, half = ranks - 1 - rank, microbatches // 2
    for kind, i, chunk in dual_pipe_v(min(rank, mirrored), ranks // 2, half):
        copy = 1 - chunk if rank > mirrored else chunk
        yield Action(kind, copy * half + i, copy)


SCHEDULES = {  # {name: (schedule, whether its two chunks go down and up)}
    "1F1B": (one_f_one_b, False),
    "interleaved": (interleaved, False),
    "ZB-H1": (zero_bubble, False),
    "ZB-H2": (zb_h2, False),
    "ZB-V": (zb_v, True),
    "DualPipeV": (dual_pipe_v, True),
}
TWO_COPIES = {"DualPipe": dual_pipe}
IN_PAIRS = ("DualPipeV", "DualPipe")


def rows_and_stages(name, ranks, microbatches):
    """Return all ranks' actions, and which stages each rank has: (rows, stages)."""
    if name in TWO_COPIES:
        return rows_of(TWO_COPIES[name], ranks, microbatches), both_ways(ranks)
    schedule, in_a_v = SCHEDULES[name]
    rows = rows_of(schedule, ranks, microbatches)
    chunks = 1 + max(chunk for row in rows for _, _, chunk in row)
    round_about = [[c * ranks + rank for c in range(chunks)] for rank in range(ranks)]
    return rows, place_v_stages(ranks) if in_a_v else round_about


# ---- Pairs ----------------------------------------------------------------------------------


def blocks_of(row) -> list[list[Action]]:
    """Group a row into blocks: a pair is an F with a B of the other chunk right after it.

    Each other action is a block with one action.
    """
    blocks = []
    for action in row:
        alone = blocks[-1][0] if blocks and len(blocks[-1]) == 1 else action
        if (alone.kind, action.kind) == ("F", "B") and alone.chunk != action.chunk:
            blocks[-1].append(action)
        else:
            blocks.append([action])
    return blocks


def join_pairs(timeline, stages, pair_seconds=None):
    """Return a simulated timeline in which each pair runs as one block.

    A block begins when the inputs of both actions have arrived, and both results leave at its end.

    pair_seconds  the time of a pair; by default that of both actions together, as if no message
                  took time. Each of them is drawn with its share of it

    Source  DeepSeek's dualpipe.py, `_forward_backward_chunk`
    """
    last, ends, spans = max(map(max, stages)), {}, [[] for _ in timeline.rows]
    waiting = [deque(blocks_of(map(Action._make, row))) for row in timeline.rows]
    clock, has_run = [0.0] * timeline.ranks, True
    while has_run:
        has_run = False
        for rank, blocks in enumerate(waiting):
            needs = needs_of(blocks[0], stages[rank], last) if blocks else {None}
            if not needs <= ends.keys():
                continue
            has_run, first, block = True, len(spans[rank]), blocks.popleft()
            clock[rank] = max([clock[rank], *(ends[need] for need in needs)])
            took = [end - begin for begin, end in timeline.spans[rank][first : first + len(block)]]
            is_joined = pair_seconds is not None and len(block) == 2
            scale = pair_seconds / sum(took) if is_joined else 1.0
            for one in took:
                spans[rank].append((clock[rank], clock[rank] + scale * one))
                clock[rank] = spans[rank][-1][1]
            for kind, i, chunk in block:
                if kind != "W":
                    ends["F" if kind == "F" else "B", i, stages[rank][chunk]] = clock[rank]
    if any(waiting):
        raise ValueError("some blocks wait for each other: this schedule cannot run in pairs")
    return replace(timeline, spans=spans)


def needs_of(block, stages, last) -> set:
    """Return the results, (kind, micro-batch, stage), that a rank's block needs from others."""
    found = set()
    for kind, i, chunk in block:
        stage = stages[chunk]
        if kind == "F" and stage > 0:
            found.add(("F", i, stage - 1))
        if kind in "BI" and stage < last:
            found.add(("B", i, stage + 1))
    return found


# ---- Scores ---------------------------------------------------------------------------------

HALVES = {"F": 1.0, "I": 1.0, "W": 1.0, "B": 2.0}  # times on a rank's whole part of the model


def seconds_of_chunks(rows, seconds=HALVES) -> dict[str, float]:
    """Return each kind's seconds on a chunk, given those on a rank's whole part of the model.

    Copies of a part do not count as chunks, because a micro-batch goes through one of them.
    """
    chunks = {chunk for _, i, chunk in rows[0] if i == 0}
    return {kind: took / len(chunks) for kind, took in seconds.items()}


def twice(rows):
    """Return rows for two batches in succession; no rank waits for others in between."""
    m = 1 + max(action.microbatch for action in rows[0])
    return [
        row + [action._replace(microbatch=action.microbatch + m) for action in row] for row in rows
    ]


def simulate_schedule(name, ranks, microbatches, seconds=HALVES, unit="forwards"):
    """Return the simulated timeline of a schedule, in which pairs of IN_PAIRS are blocks.

    seconds  of F, I, W and B on a rank's whole part of the model
    """
    rows, stages = rows_and_stages(name, ranks, microbatches)
    return simulate_rows(rows, stages, seconds_of_chunks(rows, seconds), name in IN_PAIRS, unit)


def simulate_rows(rows, stages, paces, in_pairs=False, unit="forwards"):
    from pedagogy_lib import simulate

    timeline = simulate(rows, paces, unit=unit, stages=stages)
    return join_pairs(timeline, stages) if in_pairs else timeline


class ScheduleScore:
    """The figures of a schedule under the course's simulator.

    idle     the idle share of all ranks' time
    length   of a step, in forwards of a rank's part of the model
    further  the length a second step adds, if no rank waits for others in between
    kept     the most that any rank keeps, in micro-batches of its part of the model
    copies   how many copies of the model there are
    """

    def __init__(self, rows, stages=None, seconds=HALVES, in_pairs=False):
        from pedagogy_lib import check_schedule

        check_schedule(rows, stages=stages)
        paces = seconds_of_chunks(rows, seconds)
        self.timeline = simulate_rows(rows, stages, paces, in_pairs)
        self.idle, self.length = self.timeline.idle_share, self.timeline.seconds
        both = simulate_rows(twice(rows), stages, paces, in_pairs)
        self.further = both.seconds - self.length
        self.kept = max(self.timeline.most_kept) / self.timeline.chunks
        named = [stage for of_rank in stages or [[0]] for stage in of_rank]
        self.copies = len(named) // len(set(named))


def can_run(name, ranks, microbatches) -> bool:
    """Return whether a schedule can run on so many ranks and micro-batches."""
    with contextlib.suppress(ValueError):
        return bool(rows_and_stages(name, ranks, microbatches))
    return False


def score_schedules(names, ranks, microbatches, seconds=HALVES) -> dict[str, ScheduleScore]:
    """Return {name: score} of the schedules that can run on so many ranks and micro-batches."""
    found = {}
    for name in names:
        if can_run(name, ranks, microbatches):
            rows, stages = rows_and_stages(name, ranks, microbatches)
            found[name] = ScheduleScore(rows, stages, seconds, name in IN_PAIRS)
    return found


def tabulate_ranking(mine, ranks, microbatches, most) -> list[list[str]]:
    """Return a table's rows, the shortest step first: the learner's schedule and published ones.

    mine  a schedule of one chunk, like those above; one that cannot run is left out
    most  how many micro-batches a rank may keep
    """
    found = score_schedules(SCHEDULES, ranks, microbatches)
    with contextlib.suppress(ValueError, TypeError, AttributeError):
        found["yours"] = ScheduleScore(rows_of(mine, ranks, microbatches))
    in_order = sorted(found.items(), key=lambda one: (one[1].length, one[1].kept, one[0]))
    return [
        [name, f"{one.length:g}", f"{one.idle:.1%}", f"{one.kept:g}", describe_room(one.kept, most)]
        for name, one in in_order
    ]


def describe_room(kept, most) -> str:
    return "yes" if kept <= most else f"no, {kept - most:g} too many"


# ---- The program ----------------------------------------------------------------------------


def main(ranks=4, microbatches=8):
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    for name, one in score_schedules([*SCHEDULES, *TWO_COPIES], ranks, microbatches).items():
        print(
            f"{name:12} a step {one.length:g}, each further one {one.further:g}, "
            f"idle {one.idle:.1%}, keeps {one.kept:g}"
        )


if __name__ == "__main__":
    main()
