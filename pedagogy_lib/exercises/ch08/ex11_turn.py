"""Whose turn it is in an interleaved schedule: exercise 8.11. Arithmetic alone, without ranks."""

from itertools import product

from ...basics.units import counted
from ...course.checking import Exercise, Wrong
from ...schedules.timelines import LABELS, simulate, text_of
from .generators import need_action, offence, told, told_case, value_of

SHOWN = [(3, 2), (2, 3)]  # ranks, chunks; those that have a line of their own
ALL = list(product(range(1, 5), range(1, 4)))
INTERLEAVED = [(2, 4, 2), (4, 8, 2), (3, 6, 3)]  # ranks, micro-batches, chunks


def examine_turn(answer):
    for kind, sizes in product("FB", SHOWN):
        yield judge_turns(answer, kind, *sizes)
    for kind, sizes in product("FB", ALL):
        judge_turns(answer, kind, *sizes)
    yield "1 to 4 ranks, 1 to 3 chunks: all turns of two groups of micro-batches, and one more"
    for sizes in INTERLEAVED:
        yield judge_interleaved(answer, *sizes)


def judge_turns(answer, kind, ranks, chunks) -> str:
    case = f"{LABELS[kind]}s, {counted(ranks, 'rank')}, {counted(chunks, 'chunk')}"
    wanted = turns(ranks, chunks, kind)[: 2 * ranks * chunks + 1]
    got = [turn_from(case, answer, k, ranks, chunks, kind) for k in range(len(wanted))]
    if got != wanted:
        k = next(k for k, pair in enumerate(zip(got, wanted)) if pair[0] != pair[1])
        what = (
            f"k = {k}: expected {text_of(*wanted[k])}, got {text_of(*got[k])}; "
            f"in all\n  {told(got)}\nexpected\n  {told(wanted)}"
        )
        raise Wrong(case, what, why_turns(got, ranks, chunks, kind))
    return f"{case}: {told(wanted[: 2 * ranks])} …"


def turn_from(case, answer, k, ranks, chunks, kind) -> tuple:
    case = f"{case}, k = {k}"
    by_default = () if kind == "F" and k % 2 else (kind,)  # forwards are the default
    action = value_of(case, answer, k, ranks, chunks, *by_default)
    if action is None:
        raise Wrong(case, "it gives None", "`return` the action: Action(kind, microbatch, chunk)")
    if hasattr(action, "__next__"):
        raise Wrong(case, "it gives a generator", "asked is one action: `return`, not `yield`")
    need_action(case, f"it gives {action!r:.60}", action)
    return tuple(action)


def turns(ranks, chunks, kind):
    """Three groups of micro-batches: each goes through all chunks before the next one begins."""
    through = range(chunks) if kind == "F" else range(chunks - 1, -1, -1)
    groups = [range(g * ranks, (g + 1) * ranks) for g in range(3)]
    return [(kind, i, chunk) for group in groups for chunk in through for i in group]


def why_turns(got, ranks, chunks, kind) -> str:
    for why, guess in GUESSES_AT_TURNS.items():
        wrong = [guess(k, ranks, chunks, kind == "B") for k in range(len(got))]
        if [action[1:] for action in got] == wrong:
            return why
    if any(action[0] != kind for action in got):
        return "the kind of the action is the argument `kind`; forwards are only the default"
    return STAGE_OF_THE_MODEL if are_stages(got, ranks, chunks, kind) else ""


def are_stages(got, ranks, chunks, kind) -> bool:
    """Whether each chunk is the number of a stage that belongs to the right one."""
    in_chunks = [(kind, i, stage // ranks) for kind, i, stage in got]
    return in_chunks == turns(ranks, chunks, kind)[: len(got)]


def group_of(k, ranks, chunks):
    """(micro-batches in the groups before, k's chunk and micro-batch within its group)."""
    in_group = k % (ranks * chunks)
    return k // (ranks * chunks) * ranks, in_group // ranks, in_group % ranks


def without_turning(k, ranks, chunks, back):
    before, chunk, i = group_of(k, ranks, chunks)
    return before + i, chunk


def all_reversed(k, ranks, chunks, back):
    before, chunk, i = group_of(k, ranks, chunks)
    return (before + ranks - 1 - i, chunks - 1 - chunk) if back else (before + i, chunk)


def with_reversed_batches(k, ranks, chunks, back):
    before, chunk, i = group_of(k, ranks, chunks)
    return before + (ranks - 1 - i if back else i), chunk


def turned(chunk, chunks, back):
    return chunks - 1 - chunk if back else chunk


STAGE_OF_THE_MODEL = (
    "this is the stage of the model; a chunk counts the pieces of one rank: 0, 1, …"
)
# {sentence: (k, ranks, chunks, is it a backward) -> (micro-batch, chunk)}
GUESSES_AT_TURNS = {
    "the backwards take the chunks in the order of the forwards. What went through the last chunk "
    "last can go back there first: chunks - 1 - chunk": without_turning,
    "only the chunks are the other way round: within a group, micro-batches go back in order, as "
    "they went forward": all_reversed,
    "the micro-batches of the second group have the numbers of the first: what is missing is "
    "`ranks` for each group that has gone before":
        lambda k, ranks, chunks, back: (
            k % ranks, turned(k // ranks % chunks, chunks, back)
        ),
    "each micro-batch goes through all chunks before the next one: then a rank would wait for it "
    "to come round. A whole group, one for each rank, goes through the first chunk first":
        lambda k, ranks, chunks, back: (k // chunks, turned(k % chunks, chunks, back)),
    "the chunk changes with each action: k % chunks. A whole group, one for each rank, goes "
    "through a chunk before the next one":
        lambda k, ranks, chunks, back: (
            group_of(k, ranks, chunks)[0] + k % ranks, turned(k % chunks, chunks, back)
        ),
    "the chunk is counted on beyond the last one: it begins anew with each group":
        lambda k, ranks, chunks, back: (
            group_of(k, ranks, chunks)[0] + k % ranks, turned(k // ranks, chunks, back)
        ),
    "a group has as many micro-batches as there are ranks. It takes ranks * chunks turns, but the "
    "next one begins only `ranks` micro-batches later":
        lambda k, ranks, chunks, back: (
            k // (ranks * chunks) * ranks * chunks + k % ranks,
            turned(k // ranks % chunks, chunks, back),
        ),
    "within a group, micro-batches go back in order, 0 first; the other way round are the chunks":
        with_reversed_batches,
    "this is how far k has come: with several chunks, a micro-batch has more than one turn":
        lambda k, ranks, chunks, back: (k, turned(k // ranks % chunks, chunks, back)),
    "ranks and chunks are mixed up: a group has as many micro-batches as there are ranks":
        lambda k, ranks, chunks, back: (
            k // (ranks * chunks) * chunks + k % chunks,
            turned(k // chunks % ranks, chunks, back),
        ),
}  # fmt: skip


def judge_interleaved(answer, ranks, m, chunks) -> str:
    """The lab's whole schedule, which asks the answer for each turn."""
    case = f"`interleaved` with it, {told_case(ranks, m)}, {counted(chunks, 'chunk')}"
    rows = [list(answer.lab.interleaved(rank, ranks, m, chunks)) for rank in range(ranks)]
    what = offence(rows, m)
    if what:
        raise Wrong(case, what, "each turn was right: has `interleaved` itself been changed?")
    timeline = simulate(rows)
    return f"{case}: at most {timeline.most_kept} kept, {timeline.idle_share:.1%} of the time idle"


EXERCISE = Exercise(
    "8.11", "turn", examine_turn,
    (
        "Write down the forwards of 2 ranks with 2 chunks, micro-batch and chunk: 0 and 1 "
        "through chunk 0, 0 and 1 through chunk 1, then 2 and 3 through chunk 0, …",
        "A group takes ranks * chunks turns. divmod(k, ranks * chunks) gives how many groups "
        "have gone before, and how far k is in its own.",
        "Within a group, divmod(…, ranks) gives the chunk and the place in the group. The "
        "micro-batch is group * ranks + place.",
        "Backwards: the same, with the chunk chunks - 1 - chunk.",
    ),
    lab="schedules",
)  # fmt: skip
