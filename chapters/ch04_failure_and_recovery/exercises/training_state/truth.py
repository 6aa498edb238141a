"""The right results, and the results of known mistakes."""

from pedagogy_lib.basics.units import format_count

from .cases import WHY

GOES_ON = (
    "right after loading everything is as it was saved, and yet the next steps differ. Does some "
    "part still belong to the fresh training? The schedule and the scaler know one optimizer, and "
    "that the model's parameters: load into these objects, and make no new ones"
)

CHANGED_BY = "state_dict() only looks: it draws nothing, takes no step, and sets nothing"


def faults(trial):
    for place, of in enumerate(trial):
        who = trial.name_of_rank(place)
        changed, missing = (
            [name for name in WHY if now[name] != of.saved[name]] for now in (of.looked, of.loaded)
        )
        if changed:
            yield f"{who}: after state_dict(), the training has another {changed[0]}", CHANGED_BY
        if missing:
            others = f"; so are: {', '.join(missing[1:])}" * (len(missing) > 1)
            what = f"{who}: after load_state_dict(), this is not what was saved: {missing[0]}"
            yield what + others, WHY[missing[0]]
    for place, of in enumerate(trial):
        losses, again = of.losses, of.again
        step = next((k for k, pair in enumerate(zip(losses, again)) if pair[0] != pair[1]), None)
        if step is not None:
            what = f"the loss {format_count(step + 1, 'step')} later is {again[step]:.9g}, and was "
            yield f"{trial.name_of_rank(place)}: {what}{losses[step]:.9g}", GOES_ON


def describe_trial(trial) -> str:
    return f"{format_count(len(trial[0].losses), 'step')} after resuming, every loss is the same"
