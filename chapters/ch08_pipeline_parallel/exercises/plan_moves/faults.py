"""Whether a plan is right for a row, and what is wrong with it."""

from collections import Counter
from itertools import groupby, pairwise


def actions_in(plan) -> list:
    return [one for one in plan if isinstance(one, list) and len(one) == 3]


def find_fault(plan, row) -> tuple[str, str]:
    """Return (what is wrong, the misconception) of a plan for a row, both "" for a right one."""
    forms = {"gather": 2, "free": 2, "reduce": 2} | dict.fromkeys("FBIW", 3)
    for number, one in enumerate(plan, 1):
        if not isinstance(one, list) or not one or forms.get(one[0]) != len(one):
            return (
                f"number {number} of the plan is {one!r:.40}",
                'a plan has actions, as they are in the row, and moves: Move("gather", 0)',
            )
    if actions_in(plan) != row and [one[:2] for one in actions_in(plan)] == [
        one[:2] for one in row
    ]:
        return (
            "the actions have other chunks than in the row",
            "an action has lost its chunk: add the actions of the row as they are",
        )
    if actions_in(plan) != row:
        return (
            f"the plan has {len(actions_in(plan))} actions in their order, and the row has "
            f"{len(row)}" if len(actions_in(plan)) != len(row) else "the actions are in another "
            "order",
            "a plan adds moves to a row: all of its actions stay, in their order",
        )  # fmt: skip
    chunks = sorted({action[2] for action in row})
    early = next(filter(None, (explain_early(plan, chunk) for chunk in chunks)), None)
    return early or find_wrong_move(plan) or find_wrong_count(plan, row) or ("", "")


def find_wrong_move(plan):
    """Return the first move or action that cannot run, with its misconception, or None."""
    held = set()
    for kind, *rest in plan:
        chunk = rest[-1]
        if kind == "gather" and chunk in held:
            return (
                f"chunk {chunk} is gathered while it is whole",
                "a gather of a chunk that is gathered sends its weights again, for nothing",
            )
        if kind == "gather" and held:
            return (
                f"chunk {chunk} is gathered while chunk {min(held)} is whole, too",
                "two chunks are whole at a time, and memory is meant for one: free the one before "
                "you gather the next",
            )
        if kind != "gather" and chunk not in held:
            name = {"free": "is freed", "reduce": "is reduced"}.get(kind, f"runs {kind}{rest[0]}")
            return (f"chunk {chunk} {name} while it is not gathered", WHOLE[kind in "FBIW", kind])
        held ^= {chunk} if kind in ("gather", "free") else set()
    if held:
        return (
            f"in the end, chunk {min(held)} is still gathered",
            "the step ends with whole weights: free them after the chunk's last action",
        )
    return None


class Whole(dict):
    """The misconceptions of moves without whole weights, by (is an action, kind of move)."""

    def __missing__(self, key):
        return (
            "an action needs the whole weights of its chunk: gather them when the chunk is another "
            "one, or has been freed"
        )


WHOLE = Whole(
    {
        (False, "free"): "what is not gathered cannot be freed: free a chunk once, and remember "
        "that it is gone",
        (False, "reduce"): "reduce_gradients() reads the gradients of whole weights: reduce a "
        "chunk before it is freed",
    }
)


def find_wrong_count(plan, row):
    """Return the first wrong number, or place, of reductions or gathers, or None."""
    moves = Counter((one[0], one[1]) for one in plan if len(one) == 2)
    for chunk in sorted({action[2] for action in row}):
        count = moves["reduce", chunk]
        if count > 1:
            return (
                f"chunk {chunk} is reduced {count} times in a step",
                "gradients are reduced again and again: those of all micro-batches add up in "
                "`.grad`, so one reduction is enough, after the chunk's last backward",
            )
        if not count and any(one == ["reduce", row[-1][2]] for one in plan):
            return (
                f"chunk {chunk} is never reduced",
                "only the chunk of the row's last backward is reduced: each chunk has its own last "
                "backward",
            )
        if not count:
            return (
                f"chunk {chunk} is never reduced",
                "each replica would step with the gradient of its own samples: reduce every chunk "
                "once in a step",
            )
        after = plan[plan.index(["reduce", chunk]) :]
        if any(one[2] == chunk for one in actions_in(after)):
            return (
                f"chunk {chunk} is reduced before its last backward",
                "what later backwards add is never reduced: the reduction comes after the last one",
            )
    needed = sum(1 for _ in groupby(row, key=lambda action: action[2]))
    count = sum(one[0] == "gather" for one in plan)
    for before, after in pairwise(plan):
        if (before[0], after[0]) == ("gather", "reduce"):
            return (
                f"it gathers {count} times; {needed} are enough",
                "chunks are gathered once more only to be reduced: reduce a chunk after its last "
                "backward, while it is whole",
            )
    if count > needed:
        return (
            f"it gathers {count} times; {needed} are enough",
            "a chunk is freed although the next action needs it again: keep it until an action of "
            "another chunk comes",
        )
    return None


def explain_early(plan, chunk):
    """Return a reduction before the chunk's last backward that a usual mistake puts there, or None.

    The mistakes wait for as many backwards as forwards, or for the last micro-batch.
    """
    if ["reduce", chunk] not in plan:
        return None
    first = plan.index(["reduce", chunk])
    done = [one for one in actions_in(plan[:first]) if one[2] == chunk]
    later = [one for one in actions_in(plan[first:]) if one[2] == chunk]
    kinds = Counter(one[0] for one in done)
    what = f"chunk {chunk} is reduced before its last backward"
    if later and kinds["F"] == kinds["B"]:
        return what, "as many backwards as forwards of it have run, but more of both follow"
    if later and done and done[-1][:2] == ["B", max(one[1] for one in actions_in(plan))]:
        return what, "the last backward need not be that of the last micro-batch"
    return None
