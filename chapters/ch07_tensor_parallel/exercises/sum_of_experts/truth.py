"""The right results, and the results of known mistakes."""

from pedagogy_lib.basics.closeness import format_gap

from .cases import BEFORE, expert_inputs

CHANGED = "the argument is changed in place, and somebody may still need it"


def parts_of(trial) -> list:
    """Return the summands of all ranks."""
    before, _ = BEFORE[trial.case.args[0]]
    return [before(x @ a) for x, a, _ in map(expert_inputs, range(trial.n))]


def y_of(trial, place):
    parts = parts_of(trial)
    return sum(parts), {
        "this is the rank's own part: an all-reduce of a copy leaves the sum in the copy":
            parts[place],
        "this is the mean of all experts; asked is the sum": sum(parts) / trial.n,
    }  # fmt: skip


def gradients_of(trial, place):
    n, (name,), parts = trial.n, trial.case.args, parts_of(trial)
    x, _, slope = expert_inputs(place)
    wanted, damaged = (x.T @ (slope * BEFORE[name][1](h)) for h in (parts[place], sum(parts)))
    if name != "relu":
        damage = (
            f"after relu it is right, after {name} not: the function cannot know what stands "
            "before it, so it cannot put that right in its own backward. Its forward does the "
            "damage"
        )
    elif trial[place].is_copy:
        damage = (
            "the result has memory of its own now, but the sum was written into y before it was "
            "copied: what stands before has still lost its result"
        )
    else:
        damage = (
            "in the backward relu is asked where it let something through, sigmoid what its result "
            "was. Neither computes it again: it has kept its result. What is in that memory by "
            "then? (detach() makes no copy of it)"
        )
    return {"its matrix": wanted}, {why: {"its matrix": wrong} for why, wrong in {
        "the backward was right: behind the sum all ranks compute the same, so each has the sum's "
        "gradient already. Added up over the ranks it is n times too large": n * wanted,
        "the backward was right: the derivative of a sum by each of its summands is 1": wanted / n,
        "backward returns None, or nothing: the gradient of the sum is that of each summand": None,
    }.items()} | ({damage: {"its matrix": damaged}} if name != "nothing" else {})  # fmt: skip


def gates(trial, place) -> str:
    """Return how wrong a matrix's gradient is, and in how many places it passes a closed relu."""
    got, own = trial[place].gradients["its matrix"], parts_of(trial)[place]
    told = f"the sum is right on {trial.name_of_rank(place)}, the gradient of its matrix is "
    if got is None:
        return f"{told}None"
    told += f"off by up to {format_gap(got, gradients_of(trial, place)[0]['its matrix'])}"
    closed, leaks = own == 0, (own == 0) & (trial[place].argument != 0)
    if trial.case.args != ("relu",) or not leaks.any():
        return told
    passed = f"in {leaks.sum()} of them a gradient passes"
    return f"{told}. Its own relu is 0 in {closed.sum()} places; {passed}"
