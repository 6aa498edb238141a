# Built from chapters/ch04_failure_and_recovery/labs/goodput.py by `make build`.
"""Goodput: the share of a job's time in which it took steps that count, and a picture of it."""

from itertools import pairwise
from statistics import median
from typing import NamedTuple

from matplotlib.patches import Patch
from restart import log_of

from pedagogy_lib.basics.errors import need
from pedagogy_lib.pictures.legends import legend_above
from pedagogy_lib.pictures.style import (
    BLUE,
    GREEN,
    GROUND,
    ORANGE,
    RED,
    VERMILION,
    Picture,
    new_figure,
    use_course_style,
)

KINDS = {
    "steps that count": BLUE,
    "steps lost": VERMILION,
    "saving": GREEN,
    "starting, leaving": ORANGE,
    "in the queue": GROUND,
}
COUNTS, LOST, SAVING, STARTING, QUEUE = KINDS


class Span(NamedTuple):
    """A part of a job's time: its kind, one of KINDS, and its seconds since the job began."""

    kind: str
    start: float
    end: float


def lives_of(folder) -> list[list[dict]]:
    """Return the lines of each life in a job's log, as rank 0 and the scheduler wrote them."""
    found = []
    for said in sorted(log_of(folder), key=lambda said: said["time"]):
        if said["what"] == "starts":
            found.append([])
        if said["rank"] <= 0:
            found[-1].append(said)
    return found


def step_seconds(folder) -> float:
    """Return the median time from one step to the next one of the same life, without saving."""
    return median(b["time"] - a["time"] for a, b in pairs_of(folder)
                  if a["what"] == b["what"] == "step")  # fmt: skip


def save_seconds(folder) -> float:
    """Return the median time of a save; 0 if there is none."""
    found = [b["time"] - a["time"] for a, b in pairs_of(folder) if b["what"] == "saved"]
    return median(found or [0.0])


def pairs_of(folder) -> list[tuple[dict, dict]]:
    """Return each line of rank 0 in the log with the next one of the same life."""
    lives = ([said for said in life if said["rank"] == 0] for life in lives_of(folder))
    return [pair for life in lives for pair in pairwise(life)]


def spans_of(folder) -> list[Span]:
    """Return a job's time in parts. A step counts if no later life has to take it again."""
    lives, step, found = lives_of(folder), step_seconds(folder), []
    zero = lives[0][0]["time"]

    def add(kind, start, end):
        found.append(Span(kind, start - zero, end - zero))

    for k, life in enumerate(lives):
        kept = steps_kept(life, lives[k + 1 :])
        before, is_first = life[0]["time"], True
        for said in life[1:]:
            now = said["time"]
            if said["what"] == "step":
                begun = max(before, now - step) if is_first else before
                add(STARTING, before, begun)
                add(COUNTS if said["steps"] <= kept else LOST, begun, now)
                is_first = False
            elif said["what"] in ("saved", "begins", "ends"):
                add(SAVING if said["what"] == "saved" else STARTING, before, now)
            else:  # the scheduler's notice, or its kill, in the middle of something
                continue
            before = now
        if k + 1 < len(lives):
            add(QUEUE, before, lives[k + 1][0]["time"])
    return [span for span in found if span.end > span.start]


def steps_kept(life, later) -> int:
    """Return the step from which the next life goes on, or the last one that was saved."""
    if later:
        return min(said["steps"] for said in later[0] if said["what"] == "begins")
    return max((said["steps"] for said in life if said["what"] == "saved"), default=0)


def shares_of(folder) -> dict[str, float]:
    """Return each kind's share in a job's time; that of the steps that count is its goodput."""
    spans = spans_of(folder)
    whole = spans[-1].end - spans[0].start
    return {kind: sum(end - start for name, start, end in spans if name == kind) / whole
            for kind in KINDS}  # fmt: skip


def times_of(folder) -> dict[str, float]:
    """Return the seconds of a job that its goodput follows from: see predict_goodput."""
    spans, lives = spans_of(folder), lives_of(folder)
    starting = sum(end - start for kind, start, end in spans if kind == STARTING)
    queue = sum(end - start for kind, start, end in spans if kind == QUEUE)
    return {"start": starting / len(lives), "queue": queue / max(1, len(lives) - 1),
            "save": save_seconds(folder), "step": step_seconds(folder)}  # fmt: skip


def predict_goodput(start, queue, save, step, life, every, told) -> float:
    """Return the goodput of a job whose lives are all equally long.

    start, queue, save, step  seconds: of starting and leaving, of waiting, of a save, of a step
    life                      steps of a life, of which each `every`-th is followed by a save; told
                              lives that begin off a multiple of it may make one save more
    told                      whether the job gets a notice, saves and leaves; otherwise it is
                              killed, and the steps after its last save do not count
    """
    saves = life // every
    counted = life if told else saves * every
    return counted * step / (start + life * step + (saves + told) * save + queue)


def kills_of(folder) -> list[float]:
    """Return when the job was killed, in seconds since it began."""
    log = log_of(folder)
    return [said["time"] - log[0]["time"] for said in log if said["what"] == "killed"]


@use_course_style
def plot_goodput(jobs, title="") -> Picture:
    """Draw each job's time as a row of parts, with its goodput at the end.

    jobs    {name: the folder of its log}
    Raises  LaunchError if there is no job
    """
    need(jobs, "plot_goodput() takes at least one job")
    figure, axes = new_figure(7.5, 1.1 + 0.6 * len(jobs))
    told, longest = [], 0.0
    for row, (name, folder) in enumerate(jobs.items()):
        spans, share = spans_of(folder), shares_of(folder)
        for kind, start, end in spans:
            axes.barh(row, end - start, 0.6, start, color=KINDS[kind], linewidth=0)
        for at in kills_of(folder):
            axes.plot(at, row, "X", color=RED, markersize=8, markeredgecolor="white")
        axes.text(spans[-1].end, row, f"  {share[COUNTS]:.0%}", va="center")
        longest = max(longest, spans[-1].end)
        parts = ", ".join(f"{kind} {part:.0%}" for kind, part in share.items())
        told.append(f"{' '.join(name.split())}, {spans[-1].end:.1f} s: {parts}")
    axes.set(xlabel="time (s)", ylim=(len(jobs) - 0.5, -0.5), xlim=(0, 1.1 * longest))
    axes.set_yticks(range(len(jobs)), jobs)
    axes.grid(False, axis="y")
    axes.set_title(title, pad=28)
    legend_above(axes, [Patch(color=color, label=kind) for kind, color in KINDS.items()])
    return Picture(figure, f"{title}. {'; '.join(told)}".strip(". "))
