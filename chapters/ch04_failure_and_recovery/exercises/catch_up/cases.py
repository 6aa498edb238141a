"""The cases, and the code that runs next to the answer."""

import torch
import torch.distributed as dist

from coursekit.kit import Rejection, World, measure_answer

NUMBERS = 20_000  # weights of a state

GROUP_OF_3 = World(5, (1, 2, 4))

OLD = 2**24  # steps; from here on, float32 does not hold every whole number

NOTHING_CAME = (
    "None has come: to all comes what the source has in its list. Is the source the rank that has "
    "its state there?"
)

OTHER_STATE = "it takes what state_dict() of another rank gave"


class Training:
    """A training run with a state of nested parts, each of which records its first owner."""

    def __init__(self, place, steps):
        chance = torch.Generator().manual_seed(place)
        self.steps, self.loads = steps, 0
        self._model = {"weight": torch.randn(NUMBERS, generator=chance), "owner": place}
        self._optimizer = {
            "state": {0: {"step": torch.tensor(float(steps)), "owner": place}},
            "param_groups": [{"lr": 0.1, "betas": (0.9, 0.99), "owner": place}],
        }

    def state_dict(self):
        return {"model": self._model, "optimizer": self._optimizer, "steps": self.steps}

    def load_state_dict(self, state):
        for name in ("model", "optimizer", "steps"):
            if not isinstance(state, dict) or name not in state:
                what = f"load_state_dict got {state!r:.60}"
                raise Rejection(what, OTHER_STATE if state is not None else NOTHING_CAME)
        self.loads += 1
        self._model, self._optimizer = state["model"], state["optimizer"]
        self.steps = state["steps"]

    def owners(self) -> list[int]:
        """Return the first owner of each part of the state."""
        first, (group,) = self._optimizer["state"][0], self._optimizer["param_groups"]
        return [self._model["owner"], first["owner"], group["owner"]]

    def weights(self):
        return self._model["weight"]


def catch(answer, group, case):
    (steps,) = case.args
    place = dist.get_rank(group)
    training = Training(place, steps[place])
    with measure_answer():
        answer(training, group)
    if not isinstance(training.steps, int):
        raise Rejection(f"steps is now {training.steps!r:.40}", "it is a number, such as 7")
    return {
        "steps": training.steps,
        "owners": training.owners(),
        "weights": training.weights(),
        "loads": training.loads,
    }
