"""What a launch brings back."""

from html import escape

from .memory import KINDS
from .units import brief, format_bytes, format_seconds

SHOWN_RANKS = 16


class Block:
    """One measured label, on every rank: each attribute is a list indexed by rank.

    seconds                      time inside, all uses of the label added up
    sent_bytes, received_bytes   on the wire, likewise
    peak_bytes                   {kind: most bytes reached, …, "total": highest sum}, or None
    spans                        [(start, end), …] in seconds since the launch began
    calls                        the communication calls that torch.distributed's operators made
    memory                       [(times, bytes), …] for each outermost use: when memory changed,
                                 and the bytes of each of `KINDS` from then on
    wire                         "measured": the kernel's counters; "counted": from the calls
    """

    def __init__(self, label, wire, uses):
        self.label, self.wire = label, wire
        self.spans = [[(use["start"], use["end"]) for use in rank] for rank in uses]
        self.seconds = [sum(end - start for start, end in rank) for rank in self.spans]
        self.sent_bytes = [sum(use["sent"] for use in rank) for rank in uses]
        self.received_bytes = [sum(use["received"] for use in rank) for rank in uses]
        self.calls = [[call for use in rank for call in use["calls"]] for rank in uses]
        self.memory = [[use["memory"] for use in rank if "memory" in use] for rank in uses]
        self.peak_bytes = [highest([use["peak"] for use in rank if use["peak"]]) for rank in uses]

    def __repr__(self):
        return f"Block({self.label!r}, sent_bytes={self.sent_bytes}, seconds={self.seconds})"


def highest(peaks) -> dict[str, int] | None:
    if not peaks:
        return None
    return {kind: max(peak[kind] for peak in peaks) for kind in (*KINDS, "total")}


class Run:
    """The outcome of a launch; shows itself as a table with one row for each rank.

    values        what the function returned on each rank; tensors are copies on the CPU
    output        what each rank printed, complete
    run["label"]  the `Block` measured under that label
    labels        all labels, in the order in which they first began
    backend       "gloo" or "nccl"
    device        "cpu", "cuda:0", …: rank 0's; `devices` has every rank's
    seconds       from the request for processes to the last rank's return
    rank          0 in a notebook; the own rank in a program started by torchrun
    """

    def __init__(self, values, blocks, output, backend, devices, seconds, wire, rank=0):
        self.values, self.output, self.seconds, self.rank = values, output, seconds, rank
        self.backend, self.devices, self.device = backend, devices, devices[0]
        self.world_size = len(values)
        everything = [block for of_rank in blocks for block in of_rank]
        first = sorted(everything, key=lambda block: block["start"])
        self.labels = list(dict.fromkeys(block["label"] for block in first))
        self._blocks = {
            label: Block(label, wire, [[b for b in of if b["label"] == label] for of in blocks])
            for label in self.labels
        }

    def __getitem__(self, label) -> Block:
        if label not in self._blocks:
            known = ", ".join(map(repr, self.labels)) or "none"
            raise KeyError(f"no block {label!r} was measured; this run's labels: {known}")
        return self._blocks[label]

    def title(self) -> str:
        ranks = f"{self.world_size} rank" + ("s" if self.world_size > 1 else "")
        backend = {"gloo": "Gloo", "nccl": "NCCL"}.get(self.backend, self.backend)
        shared = len(set(self.devices)) < self.world_size and self.device != "cpu"
        count = len(set(self.devices))
        place = "the CPU" if self.device == "cpu" else f"{count} GPU" + ("s" if count > 1 else "")
        place += " (shared by the ranks)" if shared else ""
        return f"{ranks} · {backend} on {place} · {format_seconds(self.seconds)}"

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Column heads (`label|quantity`), and one row of text for each rank."""
        heads = ["|rank", "|value"]
        for label in self.labels:
            heads += [f"{label}|{name}" for name in ("sent", "received", "time", "peak memory")]
        return heads, [self.row(rank) for rank in range(self.world_size)]

    def row(self, rank) -> list[str]:
        cells = [str(rank), brief(self.values[rank])]
        for block in self._blocks.values():
            peak = block.peak_bytes[rank]
            cells += [
                format_bytes(block.sent_bytes[rank]),
                format_bytes(block.received_bytes[rank]),
                format_seconds(block.seconds[rank]),
                format_bytes(peak["total"]) if peak else "–",
            ]
        return cells

    def __repr__(self):
        heads, rows = self.table()
        names = [head.strip("|").replace("|", ": ") for head in heads]
        lines = [names, *rows[:SHOWN_RANKS]]
        widths = [max(len(line[i]) for line in lines) for i in range(len(names))]
        rest = self.more("\n")
        text = "\n".join("  ".join(map(str.rjust, line, widths)) for line in lines)
        return f"{self.title()}\n{text}{rest}"

    def more(self, start) -> str:
        hidden = self.world_size - SHOWN_RANKS
        return f"{start}… and {hidden} more ranks" if hidden > 0 else ""

    def _repr_html_(self):
        heads, rows = self.table()
        wire = {block.wire for block in self._blocks.values()}
        note = f" · bytes on the wire: {', '.join(sorted(wire))}" if wire else ""
        labels = "".join(f'<th colspan="4">{escape(label)}</th>' for label in self.labels)
        top = f'<tr><th colspan="2"></th>{labels}</tr>' if labels else ""
        second = "".join(f"<th>{escape(head.split('|')[1])}</th>" for head in heads)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in rows[:SHOWN_RANKS]
        )
        return (
            f'<div style="overflow-x:auto"><p>{escape(self.title() + note)}</p>'
            f"<table>{top}<tr>{second}</tr>{body}</table>{self.more('')}</div>"
        )
