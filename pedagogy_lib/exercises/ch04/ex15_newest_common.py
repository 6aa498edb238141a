"""The newest step whose states are all somewhere."""

from ..kit import Formula
from ..kit.values import NO_RETURN

CASES = {
    "all have the same two steps": [[(0, 8), (0, 9)], [(1, 8), (1, 9)], [(2, 8), (2, 9)]],
    "rank 0 is a step ahead": [[(0, 8), (0, 9)], [(1, 7), (1, 8)], [(2, 7), (2, 8)]],
    "rank 1 died, its states are on rank 2": [
        [(0, 6), (0, 7)], [], [(2, 6), (2, 7), (1, 6), (1, 7)]],
    "rank 1 died, its copy is a step behind": [
        [(0, 6), (0, 7)], [], [(2, 6), (2, 7), (1, 5), (1, 6)]],
    "rank 2 died, its copy is a step behind": [
        [(0, 6), (0, 7)],
        [(1, 6), (1, 7), (2, 5), (2, 6)],
        [],
    ],
    "all have died but one that holds everything": [
        [], [(1, 4), (0, 4), (2, 4), (0, 3), (1, 3), (2, 3)], []],
    "rank 0 knows of a newer step of all but one": [
        [(0, 5), (1, 5), (0, 6), (1, 6)], [(1, 5), (1, 6)], [(2, 5), (0, 5)]],
    "a state of rank 0 is in three places": [
        [(0, 2), (0, 3)], [(1, 2), (0, 3), (1, 3)], [(2, 2), (0, 3)]],
    "the newest step that all have is step 0": [[(0, 0), (0, 1)], [(1, 0), (0, 0)]],
    "steps that are far apart": [[(0, 100), (0, 90)], [(1, 90), (1, 1_000)]],
    "copies alone, each at another rank": [
        [(2, 11), (2, 12)], [(0, 11), (0, 12)], [(1, 11), (1, 12)]],
    "one rank": [[(0, 3), (0, 4)]],
    "four of which two have died": [
        [], [], [(2, 20), (0, 20), (0, 21), (2, 21)], [(3, 20), (1, 20), (3, 21)]],
    "nobody has a state of rank 1": [[(0, 6), (0, 7)], [], [(2, 6), (2, 7)]],
    "no two have the same step": [[(0, 7)], [(1, 8)]],
    "all have just begun": [[], [], []],
}  # fmt: skip


class Step(list):
    """[step], or [] for None: so values are of one kind, which can be told."""


def stepped(function):
    def call(held):
        value = function(held)
        return value if isinstance(value, Step) else Step([value] if value is not None else [])

    return call


class Stepped(Formula):
    def examine(self, answer):
        return super().examine(stepped(answer))


def truth(held) -> int | None:
    """By trying every step, from the newest one on."""
    steps = [step for of_rank in held for _, step in of_rank]
    for step in range(max(steps, default=-1), -1, -1):
        missing = set(range(len(held)))
        for of_rank in held:
            missing -= {owner for owner, at in of_rank if at == step}
        if not missing:
            return step
    return None


# ---- Mistakes: wrong functions ---


def everything(held):
    return [state for of_rank in held for state in of_rank]


def nothing(held):
    return None


def newest(held):
    return max((step for _, step in everything(held)), default=None)


def oldest(held):
    return min((step for step in range(2000) if truth_at(held, step)), default=None)


def truth_at(held, step):
    return {owner for owner, at in everything(held) if at == step} == set(range(len(held)))


def newest_of_the_slowest(held):
    """The smallest of what each rank's newest is."""
    return min((max(step for _, step in of_rank) for of_rank in held if of_rank), default=None)


def newest_of_each_owner(held):
    """The smallest of what is newest of each owner."""
    newest_of = {
        owner: [s for o, s in everything(held) if o == owner] for owner in range(len(held))
    }
    return min((max(steps) for steps in newest_of.values() if steps), default=None)


def newest_where(is_there):
    def found(held):
        steps = {step for _, step in everything(held)}
        return max((step for step in steps if is_there(held, step)), default=None)

    return found


@newest_where
def own_alone(held, step):
    return all((rank, step) in of_rank for rank, of_rank in enumerate(held))


@newest_where
def everybody_has_one(held, step):
    return all(any(at == step for _, at in of_rank) for of_rank in held)


@newest_where
def of_those_that_hold_something(held, step):
    return all((k, step) in everything(held) for k, of_rank in enumerate(held) if of_rank)


@newest_where
def of_as_many_as_hold_something(held, step):
    return all((k, step) in everything(held) for k in range(sum(map(bool, held))))


@newest_where
def of_owners_that_are_known(held, step):
    return all((owner, step) in everything(held) for owner, _ in everything(held))


@newest_where
def counted(held, step):
    return sum(at == step for _, at in everything(held)) >= len(held)


@newest_where
def one_has_all(held, step):
    return any(all((k, step) in of_rank for k in range(len(held))) for of_rank in held)


def none_for_zero(held):
    return truth(held) or None


def told(call, wanted, got) -> str:
    return f"expected {in_words(wanted)}, got {in_words(got)}"


def in_words(step) -> str:
    return f"{step[0]!r:.60}" if step else "None"


ALL_OWNERS = (
    "the states of all ranks are needed, also of those that hold nothing now: there are len(held) "
    "of them."
)
MISTAKES = [
    (NO_RETURN, nothing),
    ("this is the newest step of all. Some rank's state of that step is nowhere, and all have to "
     "go on from the same step.", newest),
    ("this is the oldest step that can be had; asked is the newest one.", oldest),
    ("this is the newest step of the rank that is furthest behind. Whether somebody holds every "
     "rank's state of that step, it does not tell.", newest_of_the_slowest),
    ("for each rank, the newest of its states was looked for, and then the smallest step. Of that "
     "step, another rank's state may be gone, or a rank has left none at all.",
     newest_of_each_owner),
    ("only own states were looked at. A rank that died holds nothing any more: its state is a copy "
     "that another rank holds, and a copy is as good.", own_alone),
    ("every rank holds something of that step. It need not be that: a newcomer holds nothing, and "
     "yet its state may be somewhere; what counts is who owns the states.", everybody_has_one),
    (ALL_OWNERS, of_those_that_hold_something),
    (ALL_OWNERS, of_as_many_as_hold_something),
    ("the states of all ranks are needed. Rank numbers go from 0 to len(held) - 1, also if nobody "
     "holds a state of one of them.", of_owners_that_are_known),
    ("of that step there are as many states as ranks, but one of them is there more than once: "
     "count owners, each once.", counted),
    ("no single rank has to hold them all: the states may be on several ranks.", one_has_all),
    ("step 0 is a step as well: `or`, and `if step`, take 0 for nothing. Compare with None.",
     none_for_zero),
]  # fmt: skip

EXERCISE = Stepped(
    "4.15",
    "newest_common",
    lab="memory_copies",
    cases={case: [(held,)] for case, held in CASES.items()},
    truth=stepped(truth),
    mistakes=[(why, stepped(function)) for why, function in MISTAKES],
    errors={
        "empty": "a rank that is new holds nothing, and there may be no step at all: max and min "
        "take default=None",
    },
    differs=told,
    told=lambda calls, values: in_words(values[0]),
    explain=lambda found, case: (
        "if there is none, the result is None, and no number: 0 is a step"
        if found[case][0] in ([0], [-1]) and not EXERCISE.truth(CASES[case]) else ""
    ),
    hints=(
        "Whose states of step 7 are there? It does not matter where.",
        "Put all (owner, step) into one set. Then step 7 can be had if (0, 7), (1, 7), … are in "
        "it, up to owner n - 1, with n = len(held).",
        "max(…, default=None) over all steps of which that is true.",
    ),
)  # fmt: skip
