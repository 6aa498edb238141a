"""Exercise 3.6: time_step."""

from ...course.checking import Exercise
from .shares import examine_time_step

EXERCISE = Exercise(
    "3.6", "time_step", examine_time_step,
    (
        "Two steps: one under `with ddp.no_sync():`, and one outside of it. Each is a forward "
        "and a backward; nothing else is needed.",
        "In each, read now() before what you time and after it. The first step gives forward "
        "and backward, the second one the backward with communication.",
        "Under no_sync belong loss = loss_fn(ddp(inputs), targets) and loss.backward(), both: "
        "DDP decides in the forward whether to communicate.",
        "Communication is the second backward minus the first one.",
    ),
    lab="simple_ddp",
)  # fmt: skip
