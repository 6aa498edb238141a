# Built from chapters/ch08_pipeline_parallel/labs/emulated_pipelines.py by `make build`.
"""Schedules, simulated and run by real ranks, whose computation is emulated by sleeping.

python labs/emulated_pipelines.py
"""

from pipeline_parallel import one_batch
from schedules import SCHEDULES, rows_of

PACE = {"F": 0.020, "B": 0.040}  # seconds per stage and micro-batch


def emulate(rows, pace=PACE, link_seconds=0.0):
    """Return the simulated timeline of a schedule, and the one measured on real ranks.

    rows          a list of actions per rank
    pace          {kind of action: seconds}
    link_seconds  seconds per message on a throttled link
    """
    from pedagogy_lib import launch, paced, simulate, timeline_of

    run = launch(one_batch, rows, paced(pace), link_seconds, world_size=len(rows), device="cpu")
    return simulate(rows, pace, link_seconds), timeline_of(run, rows)


def take_turns(ways, rounds=3) -> dict[str, list]:
    """Return {name: [the timelines measured on real ranks]} of several ways that take turns.

    ways  {name: arguments of `emulate`}
    """
    found = {name: [] for name in ways}
    for name in [*ways] * rounds:
        found[name].append(emulate(*ways[name])[1])
    return found


def compare_idle(turns, name, other):
    """Compare the idle shares of two ways of `take_turns`, as if they were times."""
    from pedagogy_lib import compare_rounds

    shares = ([max(one.idle_share, 1e-6) for one in turns[way]] for way in (name, other))
    return compare_rounds(*shares)


CHOICES = {  # of the controls; the first one is the default
    "schedule": ["1F1B", "GPipe", "interleaved 1F1B", "zero bubble", "naive"],
    "stages": [4, 1, 2, 3, 6, 8, 16],
    "microbatches": [8, 1, 2, 4, 6, 12, 16, 32, 64],
    "backward": [2, 1, 3],
    "chunks": [2, 3, 4],
    "message": [0, 0.25, 0.5, 1],
    "labels": {
        "microbatches": "micro-batches",
        "backward": "backward (forwards)",
        "chunks": "chunks on each rank",
        "message": "message (forwards)",
    },
    "highest": {"stages": 16},
}


def no_effect(schedule, stages, **others) -> list[str]:
    """Return the controls that change nothing."""
    return ["chunks"] * (schedule != "interleaved 1F1B") + ["message"] * (stages == 1)


def build_schedule(schedule, stages, microbatches, chunks, **times):
    """Return the chosen rows, and the time of each kind of action; `times` go to seconds_of."""
    has_chunks = schedule == "interleaved 1F1B"
    options = {"chunks": chunks} if has_chunks else {}
    rows = rows_of(SCHEDULES[schedule], stages, microbatches, **options)
    return rows, seconds_of(chunks if has_chunks else 1, **times)


def seconds_of(chunks, backward, forward=1.0):
    """Return {kind: time} per chunk of a stage; `backward` is a multiple of `forward`."""
    share = forward / chunks
    return {"F": share, "B": backward * share, "I": backward / 2 * share, "W": backward / 2 * share}


def simulate_schedule(schedule, stages, microbatches, backward, chunks, message):
    """Return a simulated timeline; times are in forwards of a stage."""
    from pedagogy_lib import simulate

    rows, seconds = build_schedule(schedule, stages, microbatches, chunks, backward=backward)
    return simulate(rows, seconds, message, unit="forwards")


def run_on_ranks(schedule, stages, microbatches, backward, chunks, message):
    """Return the simulated and the measured timeline, with a forward of 20 ms.

    Raises  ValueError for more than 256 micro-batches on all stages together
    """
    if stages * microbatches > 256:
        raise ValueError("that would take long: choose fewer stages or micro-batches")
    forward = PACE["F"]
    rows, pace = build_schedule(
        schedule, stages, microbatches, chunks, backward=backward, forward=forward
    )
    return emulate(rows, pace, message * forward)


def main(ranks=3, microbatches=6):
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    for name in ("naive", "GPipe", "1F1B"):
        ideal, real = emulate(rows_of(SCHEDULES[name], ranks, microbatches))
        measured = f"{real.idle_share:.1%} on {ranks} ranks"
        print(f"{name:6} idle {ideal.idle_share:.1%} simulated, {measured}")


if __name__ == "__main__":
    main()
