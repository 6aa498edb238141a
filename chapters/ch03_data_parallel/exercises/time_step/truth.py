"""The right results, and the results of known mistakes."""

from itertools import permutations

from coursekit.kit import complains, first_true
from pedagogy_lib.basics.closeness import close_in_float32

from .cases import PARTS, START


def parts_of(trial, place):
    """Return the right times; either of the two forwards may be returned."""
    step, times = trial.case, trial[place].times
    parts = {name: getattr(step, name) for name in PARTS}
    if isinstance(times, dict) and close_in_float32(times["forward"], step.forward + step.later):
        parts["forward"] += step.later
    return parts


def digits_left(times, parts) -> int | None:
    """Return the digits after the point to which the right times were rounded, or None."""
    for digits in range(8):
        if all(times[name] == round(parts[name], digits) for name in PARTS):
            return digits
    return None


@complains
def need_right_times(trial):
    """Complain of wrong times if a pass did not run, or the clock was read or used wrongly."""
    times, calls = trial[0].times, trial[0].calls
    if close_in_float32(times, parts_of(trial, 0)):
        return
    digits = digits_left(times, parts_of(trial, 0))
    why = first_true({
        f"this is rounded to {digits} digits: return what the clock gives.": digits is not None,
        "these are readings of the clock; a duration is the difference of two.":
            any(x > START / 2 for x in times.values()),
        "no backward has run.": not calls["backward of the model"],
        "there is one forward for both backwards. DDP decides in the forward whether its backward "
        "communicates: each backward needs a forward of its own.": calls["model"] == 1,
        "read the clock with now(), before and after what you time.":
            not trial.case.behind_the_back and all(abs(x) < 0.1 for x in times.values()),
    })  # fmt: skip
    if why:
        yield f"the seconds are {list(times.values())}", why


def mistakes(trial, place):
    step = trial.case
    f, b, c = parts_of(trial, place).values()
    m, loss = step.model, step.loss
    two_steps = "the two forwards take different times, and the difference is in it: subtract one "
    two_steps += "backward from the other."
    ratio = "this is a ratio; the seconds that communication adds are asked for."
    sign = "the sign is turned round: the backward with communication, minus the one without."
    out = "the loss is part of the forward: read the clock after loss_fn."
    gives = {
        "backward is that of the one which communicates; the computing alone is asked for, which "
        "is the one under no_sync.": (f, b + c, c),
        "the third is the whole backward with communication; subtract the backward without it.":
            (f, b, b + c),
        "the second forward is in it: read the clock again between forward and backward.":
            (f, b, f + c),
        "the third is the whole second step; subtract what the first one took, forward and "
        "backward.": (f, b, f + b + c),
        two_steps: (f, b, c + step.later),
        f"{two_steps} No forward belongs in it.": (f, b, c - step.later),
        sign: (f, b, -c),
        f"{sign} And the computing alone is the backward under no_sync.": (f, b + c, -c),
        f"{ratio} Leave out the division.": (f, b, c / b),
        f"{ratio} Subtract the backward alone.": (f, b, c / (f + b)),
        f"{ratio} Subtract, and do not divide.": (f, b, (b + c) / b),
        f"{ratio} Subtract only.": (f, b, c / (b + c)),
        f"{out} It is in no part here.": (m, b, c),
        f"{out} Here it is in the backward.": (m, loss + b, c),
        f"{out} Here it is in the backward, and in what communication adds.":
            (m, loss + b, loss + c),
        f"{out} Here it is in what communication adds.": (m, b, loss + c),
        "backward begins when the forward is done: read the clock between them, too.":
            (f, f + b, c),
        "backward is timed from the beginning of the forward, and communication with it.":
            (f, f + b, b + c),
        "the forward ends before loss.backward(): read the clock between them.": (f + b, b, c),
        "both forwards are in it; the time of one is asked for.": (2 * f, b, c),
        "both backwards communicate, so they differ by nothing. Run one of them under "
        "ddp.no_sync(), and its forward as well: DDP decides in the forward.": (f, b + c, 0),
        "neither backward communicates: the second forward and backward are run outside of "
        "no_sync.": (f, b, 0),
    }  # fmt: skip
    for unit, factor in {"milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}.items():
        gives[f"these are {unit}; seconds are asked for."] = (factor * f, factor * b, factor * c)
    asked = ", ".join(PARTS)
    for names in list(permutations(PARTS))[1:]:
        told = f"right, but in another order: these are {', '.join(names)}; asked are {asked}."
        gives[told] = [getattr(step, name) for name in names]
    if c < 0:
        below = "two backwards never take quite the same time, so the difference may come out "
        below += "negative, as here. It is to be returned as it is: "
        gives = {f"{below}abs() turns its sign round.": (f, b, -c),
                 f"{below}0 in its place would hide it.": (f, b, 0)} | gives  # fmt: skip
    if step.behind_the_back:
        gives["on a GPU a call returns before its work is done. Read the clock with now(), which "
              "waits for all that has begun."] = (0, 0, 0)  # fmt: skip
    return {sentence: dict(zip(PARTS, seconds)) for sentence, seconds in gives.items()}
