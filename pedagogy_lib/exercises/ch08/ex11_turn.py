"""Whose turn it is in an interleaved schedule."""

from ...basics.units import counted
from ...course.checking import Wrong
from ...course.trying import there
from ...schedules.simulations import simulate
from ...schedules.timelines import LABELS
from ..kit import Formula
from .actions import Action, told
from .generators import as_action, need_action, offence, seen, told_case

SIZES = [(3, 2), (2, 3)]  # ranks, chunks
OTHERS = [(4, 1), (1, 3), (4, 3), (1, 1)]
INTERLEAVED = [(2, 4, 2), (4, 8, 2), (3, 6, 3)]  # ranks, micro-batches, chunks


def calls(kind, ranks, chunks) -> list[tuple]:
    """All turns of two groups, and one more; forwards are the default."""
    return [
        (k, ranks, chunks) if kind == "F" and k % 2 else (k, ranks, chunks, kind)
        for k in range(2 * ranks * chunks + 1)
    ]


def told_turns(turns, values) -> str:
    ranks = turns[0][1]
    return "all turns" if turns[-1][1] != ranks else f"{told(values[: 2 * ranks])} …"


def right(k, ranks, chunks, kind="F"):
    """From a list: each group of micro-batches goes through all chunks, then comes the next one."""
    through = range(chunks) if kind == "F" else range(chunks - 1, -1, -1)
    groups = (range(begin, begin + ranks) for begin in range(0, k + 1, ranks))
    return [(kind, i, chunk) for group in groups for chunk in through for i in group][k]


def wrong(function):
    """A wrong answer, from what gives (micro-batch, chunk) for (k, ranks, chunks, is_back)."""

    def answer(k, ranks, chunks, kind="F"):
        return kind, *function(k, ranks, chunks, kind == "B")

    return answer


def in_group(k, ranks, chunks):
    """(micro-batches in the groups before, k's chunk and micro-batch within its group)."""
    rest = k % (ranks * chunks)
    return k // (ranks * chunks) * ranks, rest // ranks, rest % ranks


def turned(chunk, chunks, is_back):
    return chunks - 1 - chunk if is_back else chunk


def without_turning(k, ranks, chunks, is_back):
    before, chunk, i = in_group(k, ranks, chunks)
    return before + i, chunk


def backwards_reversed(k, ranks, chunks, is_back, and_chunks=True):
    before, chunk, i = in_group(k, ranks, chunks)
    return before + turned(i, ranks, is_back), turned(chunk, chunks, is_back and and_chunks)


def for_two_chunks(k, ranks, chunks, is_back):
    before, chunk, i = in_group(k, ranks, chunks)
    return before + i, 1 - chunk if is_back else chunk


def stage_of_the_model(k, ranks, chunks, is_back):
    before, chunk, i = in_group(k, ranks, chunks)
    return before + i, turned(chunk, chunks, is_back) * ranks


def whole_schedules(answer):
    """Each turn was right; now the lab's whole schedule, which asks the answer for each."""
    action, shown = there(first_turn, answer)
    need_action("k = 0, 2 ranks, 2 chunks", f"it gives {shown}", as_action(action))
    for ranks, m, chunks in INTERLEAVED:
        case = f"`interleaved` with it, {told_case(ranks, m)}, {counted(chunks, 'chunk')}"
        rows = [[Action(*parts) for parts in row]
                for row in there(rows_of_lab, answer, ranks, m, chunks)]  # fmt: skip
        what = offence(rows, m)
        if what:
            raise Wrong(case, what, "each turn was right: has `interleaved` itself been changed?")
        line = simulate(rows)
        yield f"{case}: at most {line.most_kept} kept, {line.idle_share:.1%} of the time idle"


def first_turn(answer) -> tuple:
    return seen(answer(0, 2, 2))


def rows_of_lab(answer, ranks, m, chunks) -> list[list[tuple]]:
    rows = (answer.lab.interleaved(rank, ranks, m, chunks) for rank in range(ranks))
    return [[tuple(action) for action in row] for row in rows]


def fractions(found, case) -> str:
    values = [value for values in found.values() for value in values if isinstance(value, list)]
    has_float = any(isinstance(number, float) for value in values for number in value)
    if has_float:
        return "micro-batches and chunks are whole numbers: divide with //"
    if any(len(value) != 3 or isinstance(value[0], list) for value in values):
        return "asked is one action, that of turn k alone: Action(kind, microbatch, chunk)"
    strange = any(value[0] not in [*LABELS] for value in values)
    return "the kind of the action is the argument `kind`, as it is" if strange else ""


EXERCISE = Formula(
    "8.11",
    "turn",
    cases={
        f"{LABELS[kind]}s, {counted(ranks, 'rank')}, {counted(chunks, 'chunk')}":
            calls(kind, ranks, chunks) for kind in "FB" for ranks, chunks in SIZES
    } | {
        "1 to 4 ranks, 1 to 3 chunks":
            [call for kind in "FB" for sizes in OTHERS for call in calls(kind, *sizes)]
    },
    truth=right,
    told=told_turns,
    differs=lambda call, wanted, got: f"k = {call[0]}: expected {told([wanted])}, got {got}",
    asked="an action",
    errors={"out of range": "k counts on over all groups: after the turns of the first group come "
            "those of the second one"},
    shape="asked is Action(kind, microbatch, chunk)",
    explain=fractions,
    also=whole_schedules,
    mistakes=[
        ("the backwards take the chunks in the order of the forwards. What went through the last "
         "chunk last can go back there first: chunks - 1 - chunk", wrong(without_turning)),
        ("only the chunks are the other way round: within a group, micro-batches go back in order, "
         "as they went forward", wrong(backwards_reversed)),
        ("within a group, micro-batches go back in order, 0 first; the other way round are the "
         "chunks", wrong(lambda *k: backwards_reversed(*k, and_chunks=False))),
        ("with two chunks it is right: 1 - chunk, or what does the same, is the other way round "
         "for two alone", wrong(for_two_chunks)),
        ("the micro-batches of the second group have the numbers of the first: what is missing is "
         "`ranks` for each group that has gone before",
         wrong(lambda k, ranks, chunks, back:
               (k % ranks, turned(k // ranks % chunks, chunks, back)))),
        ("the second group begins with micro-batch 1: it begins where the first one ends, after as "
         "many as there are ranks",
         wrong(lambda k, ranks, chunks, back:
               (k // (ranks * chunks) + k % ranks, turned(k // ranks % chunks, chunks, back)))),
        ("each micro-batch goes through all chunks before the next one: then a rank would wait for "
         "it to come round. A whole group, one for each rank, goes through the first chunk first",
         wrong(lambda k, ranks, chunks, back: (k // chunks, turned(k % chunks, chunks, back)))),
        ("the chunk changes with each action: k % chunks. A whole group, one for each rank, goes "
         "through a chunk before the next one",
         wrong(lambda k, ranks, chunks, back:
               (in_group(k, ranks, chunks)[0] + k % ranks, turned(k % chunks, chunks, back)))),
        ("the chunk is counted on beyond the last one: it begins anew with each group",
         wrong(lambda k, ranks, chunks, back:
               (in_group(k, ranks, chunks)[0] + k % ranks, turned(k // ranks, chunks, back)))),
        ("a group has as many micro-batches as there are ranks. It takes ranks * chunks turns, but "
         "the next one begins only `ranks` micro-batches later",
         wrong(lambda k, ranks, chunks, back:
               (k // (ranks * chunks) * ranks * chunks + k % ranks,
                turned(k // ranks % chunks, chunks, back)))),
        ("this is how far k has come: with several chunks, a micro-batch has more than one turn",
         wrong(lambda k, ranks, chunks, back: (k, turned(k // ranks % chunks, chunks, back)))),
        ("ranks and chunks are mixed up: a group has as many micro-batches as there are ranks",
         wrong(lambda k, ranks, chunks, back:
               (k // (ranks * chunks) * chunks + k % chunks,
                turned(k // chunks % ranks, ranks, back)))),
        ("this is the stage of the model; a chunk counts the pieces of one rank: 0, 1, …",
         wrong(stage_of_the_model)),
        ("the kind of the action is the argument `kind`; forwards are only the default",
         lambda k, ranks, chunks, kind="F": ("F", *right(k, ranks, chunks, kind)[1:])),
        ("micro-batch and chunk are in each other's place: Action(kind, microbatch, chunk)",
         lambda k, ranks, chunks, kind="F": (kind, *right(k, ranks, chunks, kind)[:0:-1])),
        ("as if there were always 2 ranks and 2 chunks, as in an example",
         lambda k, ranks, chunks, kind="F": right(k, 2, 2, kind)),
        ("asked is one action: `return`, not `yield`", lambda *turn: iter([right(*turn)])),
    ],
    hints=(
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
