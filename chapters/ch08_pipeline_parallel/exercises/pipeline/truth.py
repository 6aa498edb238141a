"""The right results, and the results of known mistakes."""

from pedagogy_lib.basics.errors import HangError

from .cases import Model, actions_in, part_of

ONE_EACH = (
    "a loss comes from the model's last stage alone, one for each micro-batch. step() adds up what "
    "is in self.losses: append what that stage's forward returns"
)


def right_losses(trial, place):
    """Return a rank's number of losses and the batch's loss; (0, None) except on the last rank."""
    model = Model(trial.case, trial.n)
    return (len(model.sizes), model.loss()) if place == trial.n - 1 else (0, None)


def right_ones(trial, place) -> dict:
    """Return the tensors that a rank's stages should get, and the parts of the loss, by name."""
    model, found = Model(trial.case, trial.n), {}
    for action in actions_in(trial.case, place, trial.n):
        kind, i, chunk = action
        stage = chunk * trial.n + place
        found[str(action)] = model.comes(kind, i, stage)
        if kind == "F" and stage == model.stages - 1:
            found[part_of(i)] = model.mean(i) * model.sizes[i] / sum(model.sizes)
    return {name: value for name, value in found.items() if value is not None}


def summary(trial) -> str:
    sent = [size for of in trial for size in of.sent]
    return f"{len(sent)} messages, {sum(sent)} bytes; loss {trial[trial.n - 1].loss:.4f}"


def why_it_failed(case, error) -> str:
    if len(case.ranks) == 1 and "KeyError" in str(error):
        return "what a rank sends to itself, send puts into self.own, under tag_of(action)"
    places = [error.waits[rank] for rank in case.ranks] if isinstance(error, HangError) else []
    sending = [place for place in places if place and place.function in ("send", "forward")]
    if not {"send", "wait"} & {place.or_in_wait().operation for place in sending}:
        return ""
    return (
        "two neighbours send to each other at the same time, as under 1F1B: an input goes one way, "
        "a gradient the other. A send that is waited for at once is over when the other side "
        "receives, and that side waits in its own send. self.send only begins a message, and "
        "step() waits for all of them at its end"
    )
