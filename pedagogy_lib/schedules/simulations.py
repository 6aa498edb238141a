"""Simulations of schedules: when each action would happen on ranks that do nothing else.

Chunk c of rank r is stage c * ranks + r of the model, unless `stages` places it elsewhere: it is
then stages[r][c], with one list per rank. If each chunk has all stages, the chunks are copies of
the model, and a micro-batch goes through one of them.
"""

from itertools import zip_longest

from ..basics.errors import WrongInput
from ..basics.units import brief
from .timelines import LABELS, ScheduleError, Timeline, parse_schedule, text_of

EVEN = {"F": 1.0, "B": 2.0, "I": 1.0, "W": 1.0}  # a backward is twice the work of a forward


def simulate(rows, seconds=None, link_seconds=0.0, waits=False, unit="", stages=None) -> Timeline:
    """Simulate when each action happens on ranks that do nothing else.

    An action begins when its rank has finished the one before and its input has arrived.

    rows          one list per rank: its actions (kind, microbatch) or (kind, microbatch, chunk) in
                  their order, with the kinds of `timelines.LABELS`
    seconds       {kind: duration}, each a number, or a list with one per stage of the model; by
                  default a forward takes 1 and a backward twice as long
    link_seconds  time for which a message from rank to rank occupies its sender's link
    waits         whether the sender waits meanwhile or goes on
    unit          unit of the times; by default "s" if `seconds` is given, else "forwards"
    stages        the stages of the model on each rank: [[stage of each of its chunks], …]; each
                  chunk may be a copy of the model
    Raises        ScheduleError if `rows` has another form, or the input of an action never arrives;
                  WrongInput if `seconds` lacks a kind or a stage, or `stages` does not fit
    """
    rows = parse_schedule(rows)
    simulation = Simulation(rows, seconds or EVEN, link_seconds, waits, stages)
    spans = simulation.run()
    if any(len(done) < len(row) for done, row in zip(spans, rows)):
        raise ScheduleError(simulation.describe_deadlock())
    return Timeline(rows, spans, unit=unit or ("s" if seconds else "forwards"))


class Simulation:
    """The state of a simulation: how far each rank is, and when each result became available.

    spans      [(start, end), …] of the actions so far, for each rank
    clock      time at which each rank has finished these actions
    link_free  time at which each rank's link becomes free
    there      {need: time since which it is available}
    waiting    {need: ranks that cannot go on without it}
    stages     stages[rank][chunk]
    places     {stage: [(its rank, its chunk), …]}, with one place per copy
    """

    def __init__(self, rows, seconds, link_seconds, waits, stages=None):
        self.rows, self.link_seconds, self.waits = rows, link_seconds, waits
        ranks = self.ranks = len(rows)
        self.stages = stages_of(rows, stages)
        self.places = places_of(self.stages)
        occur = [self.stages[r][c] for r, row in enumerate(rows) for _, _, c in row]
        self.last = max(occur, default=0)
        self.takes = seconds_of(self.places, rows, seconds)
        self.spans, self.there, self.waiting = [[] for _ in rows], {}, {}
        self.clock, self.link_free = [0.0] * ranks, [0.0] * ranks

    def run(self) -> list[list[tuple[float, float]]]:
        """Run every rank as far as it can go; return the spans."""
        ready = list(range(self.ranks))
        while ready:
            rank = ready.pop()
            row, spans = self.rows[rank], self.spans[rank]
            while len(spans) < len(row):
                action = row[len(spans)]
                need = self.need_of(rank, *action)
                if need is not None and need not in self.there:
                    self.waiting.setdefault(need, []).append(rank)
                    break
                made = self.do(rank, action, self.there.get(need, 0.0))
                ready += self.waiting.pop(made, [])
        return self.spans

    def do(self, rank, action, earliest):
        """Do an action; return the result that other ranks may wait for, or None."""
        kind, microbatch, chunk = action
        stage = self.stages[rank][chunk]
        start = max(self.clock[rank], earliest)
        end = self.clock[rank] = start + self.takes[kind, stage]
        self.spans[rank].append((start, end))
        if kind == "W":
            return None
        goes_on = stage < self.last if kind == "F" else stage > 0
        if goes_on and self.place(stage + (1 if kind == "F" else -1), chunk)[0] != rank:
            end = self.link_free[rank] = max(end, self.link_free[rank]) + self.link_seconds
            self.clock[rank] = end if self.waits else self.clock[rank]
        made = ("F" if kind == "F" else "B", microbatch, stage)
        self.there[made] = end
        return made

    def place(self, stage, chunk) -> tuple[int, int]:
        """Return the rank and the chunk of a stage; of a model with copies, in the copy `chunk`."""
        places = self.places[stage]
        return next((place for place in places if place[1] == chunk), places[0])

    def need_of(self, rank, kind, microbatch, chunk):
        """Return the result that an action needs from another stage, or None."""
        stage = self.stages[rank][chunk]
        if kind == "F":
            return ("F", microbatch, stage - 1) if stage else None
        return ("B", microbatch, stage + 1) if kind != "W" and stage < self.last else None

    def describe_deadlock(self) -> str:
        """Describe the ranks that wait in a circle, or one whose input no rank will ever send."""
        waits_for = {rank: need for need, ranks in self.waiting.items() for rank in ranks}
        rank, path = min(waits_for), []
        while rank in waits_for and rank not in path:
            path.append(rank)
            rank = self.source_of(rank, waits_for[rank][2])[0]
        circle = path[path.index(rank) :] if rank in path else path[-1:]
        return "nobody can go on: " + "; ".join(
            self.describe_wait(rank, *waits_for[rank]) for rank in circle
        )

    def describe_wait(self, rank, kind, microbatch, stage) -> str:
        action = self.rows[rank][len(self.spans[rank])]
        other, chunk = self.source_of(rank, stage)
        needed = text_of(kind, microbatch, chunk)
        never = "" if len(self.spans[other]) < len(self.rows[other]) else ", which is at its end"
        return f"rank {rank} waits at {text_of(*action)} for {needed} of rank {other}{never}"

    def source_of(self, rank, stage) -> tuple[int, int]:
        """Return the rank and the chunk of the stage that a rank's next action waits for."""
        return self.place(stage, self.rows[rank][len(self.spans[rank])][2])


def stages_of(rows, stages=None) -> list[list[int]]:
    """Return the stages of each rank's chunks; by default, stages go round the ranks."""
    ranks = len(rows)
    chunks = 1 + max((c for row in rows for _, _, c in row), default=0)
    if stages is None:
        return [[c * ranks + rank for c in range(chunks)] for rank in range(ranks)]
    stages = [list(of_rank) for of_rank in stages]
    named = sorted(stage for of_rank in stages for stage in of_rank)
    once = named == list(range(len(named)))
    if len(stages) != ranks or not (once or are_copies(stages)):
        raise WrongInput(
            f"`stages` is {brief(stages)}: give a list for each of {ranks} ranks, with the "
            "stages of its chunks; together they are 0, 1, 2, …, each once, or each chunk has them "
            "all, and is a copy"
        )
    if min(map(len, stages), default=chunks) < chunks:
        raise WrongInput(
            f"chunk {chunks - 1} occurs, but `stages` gives some rank only "
            f"{min(map(len, stages))} of them"
        )
    return stages


def are_copies(stages) -> bool:
    """Return whether each chunk has all stages of the model, as a single chunk always has."""
    whole = list(range(len(stages)))
    return all(sorted(of_chunk) == whole for of_chunk in zip_longest(*stages, fillvalue=-1))


def places_of(stages) -> dict[int, list[tuple[int, int]]]:
    """Return {stage: [(its rank, its chunk), …]}."""
    places = {}
    for rank, of_rank in enumerate(stages):
        for chunk, stage in enumerate(of_rank):
            places.setdefault(stage, []).append((rank, chunk))
    return places


def seconds_of(places, rows, seconds) -> dict[tuple[str, int], float]:
    """Return {(kind, stage): duration} for those that occur."""
    used = {(kind, rank, c) for rank, row in enumerate(rows) for kind, _, c in row}
    return {
        (kind, stage): pick_seconds(seconds, kind, stage)
        for stage, there in places.items()
        for kind in LABELS
        if any((kind, *place) in used for place in there)
    }


def pick_seconds(seconds, kind, stage) -> float:
    if kind not in seconds:
        raise WrongInput(f"{kind!r} is done, but `seconds` has only {', '.join(seconds)}")
    one = seconds[kind]
    if not isinstance(one, (list, tuple)):
        return one
    if stage >= len(one):
        raise WrongInput(f"seconds[{kind!r}] has {len(one)} numbers, and none for stage {stage}")
    return one[stage]
