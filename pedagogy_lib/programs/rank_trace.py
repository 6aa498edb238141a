"""The trace of a whole run: what each rank has noted, by kind and by step."""

from collections import defaultdict
from functools import cached_property
from typing import NamedTuple

from ..basics.source_lines import SourceLine
from .trace import read_events

GRADIENT_CALLS = ("all_reduce", "reduce_scatter", "all_gather")  # that may carry gradients


class Call(NamedTuple):
    """A collective or message of one rank, as in `trace`, with the step in which it began."""

    step: int
    begin: float
    name: str
    group: str
    number: int
    dtype: str
    shape: tuple
    nbytes: int
    formula: int
    line: int
    operation: int | None


class Span(NamedTuple):
    step: int
    kind: str
    begin: float
    end: float
    line: int

    @property
    def seconds(self) -> float:
        return self.end - self.begin


class RankTrace:
    """The events of one rank."""

    def __init__(self, rank, events):
        self.rank = rank
        self.lines, self.groups, self.labels = {}, {}, {}
        self.calls, self.spans, self.waits, self.steps = [], [], [], []
        self.done, self.sent = {}, {}
        self.digests = defaultdict(dict)  # {kind: {step: numbers}}
        self.values = defaultdict(dict)
        self.names, self.replicas, self.facts, self.losses = [], {}, [], []
        self.batches, self.random, self.wire = defaultdict(list), defaultdict(list), []
        self.memory, self.cost, self.first, self.last = [], 0.0, None, None
        step = 0
        for kind, *told in events:
            if kind == "step":
                self.steps.append(told)
                step += 1
            else:
                getattr(self, f"add_{kind}")(step, *told)

    def add_line(self, step, number, filename, line, function, text):
        self.lines[number] = SourceLine(filename, line, function, text=text)

    def add_group(self, step, name, label, ranks):
        self.groups[name], self.labels[name] = ranks, label

    def add_call(self, step, *told):
        self.calls.append(Call(step, *told))

    def add_bytes(self, step, group, number, sent, received):
        self.sent[group, number] = sent

    def add_done(self, step, group, number, end):
        self.done[group, number] = end

    def add_wait(self, step, begin, end):
        self.waits.append((begin, end))

    def add_span(self, step, *told):
        self.spans.append(Span(step, *told))

    def add_wire(self, step, time, sums):
        self.wire.append((step, sums))

    def add_memory(self, step, time, kinds):
        self.memory.append((time, kinds))

    def add_digest(self, now, step, kind, numbers):
        self.digests[kind][step] = numbers

    def add_values(self, now, step, kind, values):
        self.values[kind][step] = values

    def add_names(self, step, names):
        self.names = names

    def add_replicas(self, step, names, ranks):
        self.replicas |= dict.fromkeys(names, ranks)

    def add_loss(self, now, step, value, operation, mean):
        self.losses.append((step, value, operation, mean))

    def add_batch(self, now, step, rows, number, line):
        self.batches["batch"].append((step, rows, number, line))

    def add_input(self, now, step, rows, number, line):
        self.batches["input"].append((step, rows, number, line))

    def add_random(self, now, step, phase, number):
        self.random[phase].append((step, number))

    def add_fact(self, step, name, value, line):
        self.facts.append((name, value, line))

    def add_cost(self, step, number, seconds):
        self.cost = seconds

    def list_facts(self, name) -> list:
        """Return (value, line) of each fact of this name."""
        return [(value, line) for told, value, line in self.facts if told == name]

    def spans_of(self, kind) -> list[Span]:
        return [span for span in self.spans if span.kind == kind]

    def times_of_step(self, step) -> tuple[float, float]:
        """Return when a step began and ended; the first began with the first batch, or forward."""
        begin = self.steps[step - 1][1] if step else min(span.begin for span in self.spans)
        return begin, self.steps[step][1]

    @cached_property
    def gradient_bytes(self) -> int:
        """The bytes of the gradients of all parameters that this rank trains."""
        sizes = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
        total = 0
        for _, shape, dtype, is_trained, _ in self.names:
            count = 1
            for size in shape:
                count *= size
            total += count * sizes.get(dtype.removeprefix("torch."), 4) * is_trained
        return total

    @cached_property
    def exposed(self) -> list[tuple[float, float]]:
        """When the rank did nothing but wait for communication: (begin, end), in order.

        DDP waits in C++ at the end of a backward, which then lasts from its last call to its end.
        """
        tails = []
        for span in self.spans_of("backward"):
            inside = [call.begin for call in self.calls if span.begin <= call.begin < span.end]
            waited = any(span.begin <= begin and end <= span.end for begin, end in self.waits)
            if inside and not waited:
                tails.append((max(inside), span.end))
        return sorted([*self.waits, *tails])


class ProgramTrace:
    """The traces of all ranks of a program."""

    def __init__(self, ranks: dict[int, RankTrace]):
        self.ranks = ranks

    @classmethod
    def read(cls, folder) -> "ProgramTrace":
        """Read what the ranks have written into a `WatchFolder`."""
        traces = {rank: read_events(folder.file(rank, "trace")) for rank in folder.ranks()}
        return cls({rank: RankTrace(rank, events) for rank, events in traces.items()})

    def __iter__(self):
        return iter(self.ranks.values())

    def __len__(self):
        return len(self.ranks)

    @cached_property
    def steps(self) -> int:
        """The number of optimizer steps that every rank has ended."""
        return min((len(one.steps) for one in self), default=0)

    @cached_property
    def first(self) -> RankTrace:
        return next(iter(self))

    @cached_property
    def averaging_groups(self) -> list[tuple[int, ...]]:
        """The groups of ranks that average gradients: those of DDP, or that move as many bytes."""
        found = {}
        for one in self:
            of_rank = [told["ranks"] for told, _ in one.list_facts("ddp")]
            if not of_rank and one.steps:
                moved = defaultdict(int)
                for call in one.calls:
                    if call.name in GRADIENT_CALLS and call.name != "all_gather":
                        moved[one.groups[call.group]] += call.nbytes
                enough = 0.5 * one.gradient_bytes * len(one.steps)
                of_rank = [ranks for ranks, nbytes in moved.items() if nbytes >= enough > 0]
            found |= dict.fromkeys(ranks for ranks in of_rank if len(ranks) > 1)
        return list(found)

    def of(self, ranks) -> list[RankTrace]:
        return [self.ranks[rank] for rank in ranks if rank in self.ranks]
