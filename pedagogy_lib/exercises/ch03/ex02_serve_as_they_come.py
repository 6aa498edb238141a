"""Exercise 3.2: serve_as_they_come."""

from ...course.checking import Exercise
from .servers import examine_server

EXERCISE = Exercise(
    "3.2", "serve_as_they_come", examine_server,
    (
        "serve_together, above, has all the pieces. What changes is who is received from, and "
        "when an answer goes out: after each single push, to the one that pushed.",
        "worker = dist.recv(gradient) receives from anybody, and says who it was. For each "
        "worker that computes, keep the number of updates that its weights had when they were "
        "sent: a dictionary.",
        "Start: order_of(model, True) to each worker, with version 0. Then, as long as one "
        "computes: receive; staleness is updates so far minus its version; step; answer.",
        "Ask is_over after the step. If it is over, the answer is order_of(model, False), and "
        "this worker leaves the dictionary; the loop ends when the dictionary is empty.",
    ),
    lab="data_parallel",
)  # fmt: skip
