"""The seconds that the parts of a step take, on a clock that only work advances."""

from coursekit.kit import Equals, Holds, RankExercise
from coursekit.kit.results import NO_RETURN
from pedagogy_lib.basics.closeness import close_in_float32

from ..shared.state_snapshot_truth import leaves_alone
from .cases import TIMED, Step, time_one
from .truth import mistakes, need_right_times, parts_of

EXERCISE = RankExercise(
    "time_step",
    lab="simple_ddp",
    cases=[
        Step(2, 0.25, 0.5, 5, 11),
        Step(3, 1.5, 0.25, 4, -0.125),  # as a small difference may come out
        Step(1, 0.5, 0.25, 2, 7, behind_the_back=True),
        Step(2, 0.25, 0.5, 1 / 3, 3, later=1),
    ],
    work=time_one,
    facts=[
        Holds("times", lambda times: times is not None, "it returned None", NO_RETURN),
        Holds("times", lambda times: isinstance(times, dict), "it returned {}",
              "return three numbers, in the order forward, backward, communication."),
        need_right_times,
        Equals("times", parts_of, mistakes, "the time", same=close_in_float32),
        Holds("calls", lambda calls: all(calls[what] == 2 for what in TIMED),
              lambda calls: ", ".join(f"{what}: {calls[what]} times" for what in TIMED),
              "the times are right, and two forwards and two backwards are enough: one of each "
              "under no_sync, one of each outside of it."),
        leaves_alone,
    ],
    right="told apart",
    errors={
        "context manager": "no_sync is a method: `with ddp.no_sync():`",
        "loss_fn(": "loss_fn takes what the model gives, and then the targets: (outputs, targets).",
        "second time": "a backward frees its graph: each backward needs a forward of its own.",
    },
    warm=True,
    hints=(
        "Two steps: one under `with ddp.no_sync():`, and one outside of it. Each is a forward "
        "and a backward; nothing else is needed.",
        "In each, read now() before what you time and after it. The first step gives forward "
        "and backward, the second one the backward with communication.",
        "Under no_sync belong loss = loss_fn(ddp(inputs), targets) and loss.backward(), both: "
        "DDP decides in the forward whether to communicate.",
        "Communication is the second backward minus the first one.",
    ),
)  # fmt: skip
