"""The right results, and the results of known mistakes."""

from coursekit.kit.results import NO_RETURN

from .cases import wrap_step


def truth(held) -> int | None:
    """Return the newest common step, found by trying every step from the newest one on."""
    steps = [step for of_rank in held for _, step in of_rank]
    for step in range(max(steps, default=-1), -1, -1):
        missing = set(range(len(held)))
        for of_rank in held:
            missing -= {owner for owner, at in of_rank if at == step}
        if not missing:
            return step
    return None


def list_states(held):
    return [state for of_rank in held for state in of_rank]


def return_none(held):
    return None


def newest(held):
    return max((step for _, step in list_states(held)), default=None)


def oldest(held):
    return min((step for step in range(2000) if truth_at(held, step)), default=None)


def truth_at(held, step):
    return {owner for owner, at in list_states(held) if at == step} == set(range(len(held)))


def newest_of_the_slowest(held):
    """Return the smallest of the newest steps that each rank holds."""
    return min((max(step for _, step in of_rank) for of_rank in held if of_rank), default=None)


def newest_of_each_owner(held):
    """Return the smallest of the newest steps of each owner's states."""
    newest_of = {
        owner: [s for o, s in list_states(held) if o == owner] for owner in range(len(held))
    }
    return min((max(steps) for steps in newest_of.values() if steps), default=None)


def newest_where(is_there):
    def find_newest(held):
        steps = {step for _, step in list_states(held)}
        return max((step for step in steps if is_there(held, step)), default=None)

    return find_newest


@newest_where
def own_alone(held, step):
    return all((rank, step) in of_rank for rank, of_rank in enumerate(held))


@newest_where
def everybody_has_one(held, step):
    return all(any(at == step for _, at in of_rank) for of_rank in held)


@newest_where
def has_states_of_holders(held, step):
    return all((k, step) in list_states(held) for k, of_rank in enumerate(held) if of_rank)


@newest_where
def has_as_many_owners(held, step):
    return all((k, step) in list_states(held) for k in range(sum(map(bool, held))))


@newest_where
def has_known_owners(held, step):
    return all((owner, step) in list_states(held) for owner, _ in list_states(held))


@newest_where
def has_enough_states(held, step):
    return sum(at == step for _, at in list_states(held)) >= len(held)


@newest_where
def one_has_all(held, step):
    return any(all((k, step) in of_rank for k in range(len(held))) for of_rank in held)


def none_for_zero(held):
    return truth(held) or None


ALL_OWNERS = (
    "the states of all ranks are needed, also of those that hold nothing now: there are len(held) "
    "of them."
)

MISTAKES = [
    (NO_RETURN, return_none),
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
    (ALL_OWNERS, has_states_of_holders),
    (ALL_OWNERS, has_as_many_owners),
    ("the states of all ranks are needed. Rank numbers go from 0 to len(held) - 1, also if nobody "
     "holds a state of one of them.", has_known_owners),
    ("of that step there are as many states as ranks, but one of them is there more than once: "
     "count owners, each once.", has_enough_states),
    ("no single rank has to hold them all: the states may be on several ranks.", one_has_all),
    ("step 0 is a step as well: `or`, and `if step`, take 0 for nothing. Compare with None.",
     none_for_zero),
]  # fmt: skip

truth_stepped = wrap_step(truth)

ALL_MISTAKES = [(why, wrap_step(function)) for why, function in MISTAKES]  # fmt: skip
