"""The cases, and the code that runs next to the answer."""

from coursekit.kit import Rejection

from .meetings import AFTER, LONG, SAME_MOMENT, Asks, dies, goes_between, hold, synchronise_sets

A, B, C = "000 471 pc", "001 472 pc", "002 473 my pc"  # names may have spaces

D, X = "003 509 pc", "001 47 pc"  # a newcomer; and one that is dead, or dies while it asks

TINY = 0.02  # seconds of patience of a newcomer, which waits for longer all the same

B_LIKE_X = "001 47 pc 2"

NOT_ANNOUNCED = (
    "nobody has written its name into the store, so nobody can know who has come: each one "
    'announces itself first, with store.append(key, f"{me},")'
)

LOST_NAME = (
    "names got lost: several have read the same text, each has added its own name, and the last "
    "one has overwritten what the others wrote. store.append adds to a text in one step"
)

N_ARE_THERE = "n have come, and no more are expected: a list is proposed at once, by newcomers, too"

TOO_FEW = (
    "not all n have come yet, and all are newcomers: they wait. (Of a newcomer, `former` is empty: "
    "all of nobody have come from the beginning)"
)

ALL_FORMER = (
    "all of `former` have come: a list is proposed at once. `patience` is for one that is missing"
)

LEFT_ALONE = (
    "the last group was this one alone: its `former` is not empty, so it is no newcomer. All of "
    "`former` have come"
)

NOT_CHOSEN = (
    "all of `former` have come, and nobody proposes. Each one that has trained with others does. "
    "One chosen for all, such as that of the smallest name, may be a newcomer, which waits"
)

MISSING_ONE = (
    "one of `former` has not come, and will not. When `patience` seconds have passed, a list "
    "without it is proposed, by any that has waited so long. One chosen for all, such as that of "
    "the smallest name, may be dead, or have more patience"
)

IMPATIENT = (
    "one of `former` is missing. It may still come: until `patience` seconds have passed, which "
    "each one counts from its own call"
)

TOO_PATIENT = (
    "one of `former` has not come, and `patience` seconds have passed since the call. They are "
    "counted once: they do not begin anew when another one comes"
)

NEWCOMER_DIED = (
    "a newcomer has announced itself, and has died. So nobody may leave it to a newcomer to "
    "propose: who has trained with others does it, too, when n have come or patience has passed"
)

PART_OF_NAME = (
    f"{X!r} has not come, but its name is a part of {B_LIKE_X!r}: compare whole names, so split "
    "the text at its commas before you look into it"
)

NEWCOMER_PROPOSES = (
    "a newcomer proposes no list before n have come: those who have trained have the state that "
    "it needs. It waits for their list, also for longer than `patience`"
)

NEWCOMER_IS_IN = (
    "the list has all who have come, newcomers as well: `former` only tells how long to wait"
)

DEAD_IS_IN = "the list has those who have come, and nobody else, also if it is one of `former`"

FIRST = (
    "the first proposal counts, for everybody: who comes later gets the same list, without its "
    "own name. Look whether there is a list before you propose one, and return what the store has"
)

KEPT_TO_ITSELF = (
    "another one has returned, and has written no list into the store before that: those who still "
    "wait there cannot know what it has returned"
)

LATE_WAITS = (
    "there is a list already. The first proposal counts, for everybody: look for it again and "
    "again while you wait, and return it at once"
)

OVERWRITTEN = (
    "two have proposed, and not all have the same list. The first proposal counts: set overwrites "
    'it, append adds another one; compare_set(key, "", text) does neither. And return what the '
    "store has, not what you proposed"
)

TWO_STEPS = (
    "one has died while it announced itself, between two calls, and the others wait for what it "
    "did not write any more. store.append announces it in one step"
)

MIXED = (
    "this is the second meeting in this store, and it finds what was written for the first one: "
    "the meeting's name belongs into every key"
)

CASES = [
    Asks("n newcomers", 3, [(C, [], LONG, 0), (A, [], LONG, 0), (B, [], LONG, 0.3)],
         [A, B, C], waits=N_ARE_THERE, not_before=(B, 0, TOO_FEW)),
    Asks("n newcomers at the same moment", 3,
         [(name, [], LONG, SAME_MOMENT) for name in (B, A, C)],
         [A, B, C], waits=N_ARE_THERE, why=LOST_NAME, plot=synchronise_sets),
    Asks("all who have trained together come", 4,
         [(B, [A, B], LONG, 0), (A, [A, B], LONG, 0.1)],
         [A, B], waits=ALL_FORMER, not_before=(A, 0, IMPATIENT)),
    Asks("one is left alone", 4, [(A, [A], LONG, 0)], [A], waits=LEFT_ALONE),
    Asks("one of three is dead", 4, [(B, [A, B, C], LONG, 0), (C, [A, B, C], 0.3, 0.5)],
         [B, C], waits=MISSING_ONE, why=DEAD_IS_IN, not_before=(C, 0.3, IMPATIENT)),
    Asks("one is dead, and has nearly the name of another", 4,
         [(B_LIKE_X, [A, X, B_LIKE_X], LONG, 0), (A, [A, X, B_LIKE_X], 0.3, 0)],
         [A, B_LIKE_X], waits=MISSING_ONE, not_before=(A, 0.3, PART_OF_NAME)),
    Asks("a newcomer is there long before the others", 4,
         [(A, [], TINY, 0), (B, [B, C], LONG, 0.6), (C, [B, C], LONG, 0)],
         [A, B, C], waits=NOT_CHOSEN, why=NEWCOMER_IS_IN, not_before=(B, 0, NEWCOMER_PROPOSES)),
    Asks("a newcomer comes while one is awaited", 4,
         [(A, [A, B], LONG, 0), (D, [], TINY, 0), (B, [A, B], LONG, 0.3)],
         [A, B, D], waits=NOT_CHOSEN, why=NEWCOMER_IS_IN, not_before=(B, 0, NEWCOMER_PROPOSES)),
    Asks("one is dead, and a newcomer takes its place", 3,
         [(A, [A, B, X], LONG, 0), (B, [A, B, X], LONG, 0), (D, [], LONG, 0.1)],
         [A, B, D], waits=N_ARE_THERE, why=NEWCOMER_IS_IN),
    Asks("others come while a dead one is awaited", 9,
         [(A, [A, B, X], 1.8, 0), (D, [], LONG, 0.7), (B, [A, B, X], LONG, 0.7)],
         None, waits=TOO_PATIENT, why=OVERWRITTEN, not_before=(A, 1.8, IMPATIENT),
         not_after=(A, 1.8, TOO_PATIENT)),
    Asks("two come when there is a list", 4,
         [(A, [A, B], 0.2, 0), (B, [A, B], LONG, AFTER), (D, [], LONG, AFTER)],
         [A], waits=LATE_WAITS, why=FIRST),
    Asks("two propose at the same time", 4, [(A, [A, B], 0.2, 0), (B, [A, B], LONG, goes_between)],
         None, waits=LATE_WAITS, why=OVERWRITTEN, plot=hold),
    Asks("one dies while it announces itself", 4,
         [(X, [A, B, X], LONG, 0), (B, [A, B, X], LONG, 0), (A, [A, B, X], 0.3, 0)],
         None, waits=TWO_STEPS, why=OVERWRITTEN, plot=dies(X)),
    Asks("a newcomer dies when it has announced itself", 3,
         [(D, [], LONG, 0), (A, [A, B, X], 0.3, 0), (B, [A, B, X], LONG, 0)],
         None, waits=NEWCOMER_DIED, why=OVERWRITTEN, plot=dies(D)),
    Asks("a second meeting in the same store", 3,
         [(C, [], LONG, 0), (A, [], LONG, 0), (B, [], LONG, 0),
          (B, [A, B, C], LONG, AFTER), (A, [A, B, C], 0.2, 0)],
         [A, B], waits=MISSING_ONE, why=MIXED, second=3),
]  # fmt: skip


def meet(answer, asks):
    """Hold a meeting in a rank, a process that can be ended; each participant is a thread."""
    meeting = asks.begin(answer)
    if meeting.late():  # a busy machine may be late once
        meeting = asks.begin(answer)
    if waiting := meeting.name_waiter():
        raise Rejection(f"{waiting} still waits, after {meeting.LIMIT:g} s", why_waits(meeting))
    return {"got": meeting.list_results(), "early": meeting.early(), "late": meeting.late()}


def why_waits(meeting) -> str:
    if not meeting.has_announced():
        return NOT_ANNOUNCED
    if meeting.overwritten():
        return LOST_NAME
    if meeting.has_a_list():
        return LATE_WAITS
    return KEPT_TO_ITSELF if meeting.list_returned() else meeting.asks.waits
