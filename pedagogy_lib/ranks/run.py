"""The results of a launch: the `Run`, and a `Block` for each measured label."""

import difflib

from ..basics.errors import LaunchError
from ..basics.tables import Table
from ..basics.units import brief, format_bytes, format_count, format_seconds
from ..measuring.card_bytes import card_of
from ..measuring.connections import groups_of, traffic_of
from ..measuring.memory_log import KINDS

SHOWN_RANKS = 16
SHOWN_LABELS = 50
NO_PEAK = {False: "–", True: "not counted"}  # without a reason, and with one


class Block:
    """One measured label; its attributes are lists indexed by rank, except the last five.

    seconds                      time inside the block, summed over all uses of the label
    sent_bytes, received_bytes   bytes on the wire, likewise; None if they are not counted
    peak_bytes                   {kind: most bytes reached, …, "total": highest sum}, or None
    at_peak                      {kind: bytes} at the moment of the highest sum, or None
    not_counted                  [reason, …]: why a figure is None although it was asked for
    spans                        [(start, end), …] in seconds since the launch began
    calls                        [`Call`, …]: the communication calls that torch.distributed's
                                 operators made
    memory                       [(times, bytes), …] for each outermost use: when memory changed,
                                 and the bytes of each of `KINDS` from then on
    wire                         "measured": the kernel's counters; "counted": from the calls
    links                        one text for all ranks: how they were slowed down, or ""
    cards                        what the network card of each machine carried; without machines, []
    groups                       the names of the process groups that were used
    rounds                       seconds of each use of the label, of the slowest rank in each
    """

    def __init__(self, label, wire, uses, machines=None):
        self.label, self.wire, self._uses = label, wire, uses
        self._places = machines.places(len(uses)) if machines else [0] * len(uses)
        self.spans = [[(use.start, use.end) for use in rank] for rank in uses]
        self.seconds = [sum(end - start for start, end in rank) for rank in self.spans]
        self.calls = [[call for use in rank for call in use.calls] for rank in uses]
        unknown = [
            [call.not_counted for call in calls if call.not_counted and wire == "counted"]
            for calls in self.calls
        ]
        left_out = [[reason for use in rank for reason in use.left_out] for rank in uses]
        self.not_counted = [list(dict.fromkeys([*a, *b])) for a, b in zip(unknown, left_out)]
        self.sent_bytes, self.received_bytes = (
            [None if why else sum(getattr(use, name) for use in rank)
             for rank, why in zip(uses, unknown)]
            for name in ("sent_bytes", "received_bytes")
        )  # fmt: skip
        known = [[use for use in rank if use.peak and not why] for rank, why in zip(uses, left_out)]
        self.memory = [[use.memory for use in rank if use.memory is not None] for rank in known]
        self.peak_bytes = [highest([use.peak for use in rank]) for rank in known]
        self.at_peak = [find_peak_bytes(rank) for rank in known]
        slowed = max((use.links for rank in uses for use in rank), default="")
        self.links = "; ".join(filter(None, [machines and machines.text(), slowed]))
        self.cards = [
            card_of(ranks, uses, machines.all_cards)
            for ranks in (machines.ranks_of_each(len(uses)) if machines else ())
        ]

    @property
    def rounds(self) -> list[float]:
        return [max(end - start for start, end in each) for each in zip(*filter(None, self.spans))]

    @property
    def groups(self) -> list[str]:
        return groups_of(self._uses, self.wire)

    def traffic(self, group=None) -> list[list[int]]:
        """Return the bytes sent from rank to rank: `traffic()[0][3]` from rank 0 to rank 3.

        group  count only process groups of this name: the `group_desc` that they were made with
               (for a DeviceMesh, the name of the axis), or "world" for the group of all ranks

        If wire is "counted", the bytes of a collective go to the next rank of the group, as in a
        ring, except those of all_to_all, scatter and gather.
        """
        if group is not None and group not in self.groups:
            known = list_labels(self.groups)
            raise LaunchError(
                f"no group {brief(group)} has sent anything; those that have: {known}"
            )
        return traffic_of(self._uses, self.wire, self._places, group)

    def __getattr__(self, name):
        raise AttributeError(no_attribute(self, name))

    def __repr__(self):
        return f"Block({self.label!r}, sent_bytes={self.sent_bytes}, seconds={self.seconds})"


def highest(peaks) -> dict[str, int] | None:
    """Return the highest peak of each kind; None if there is no peak."""
    if not peaks:
        return None
    return {kind: max(peak[kind] for peak in peaks) for kind in (*KINDS, "total")}


def find_peak_bytes(uses) -> dict[str, int] | None:
    """Return the bytes of each kind when their sum was highest; None if there is no use."""
    return max(uses, key=lambda use: use.peak["total"]).at_peak if uses else None


def format_known(count) -> str:
    """Format bytes, or say that they are not counted."""
    return "not counted" if count is None else format_bytes(count)


def list_labels(labels) -> str:
    """Format the first labels of a run for a sentence."""
    more = len(labels) - SHOWN_LABELS
    known = ", ".join(map(brief, labels[:SHOWN_LABELS])) or "none"
    return known + (f", … and {more} more" if more > 0 else "")


def no_attribute(thing, name) -> str:
    """Build the error message for a missing attribute, suggesting the nearest name.

    Tools probe for attributes such as `_repr_png_` and `__deepcopy__`; these get no suggestion.
    """
    message = f"a {type(thing).__name__} has no {name!r}"
    if name.startswith("_"):
        return message
    there = [one for one in dir(thing) if not one.startswith("_")]
    near = [x for x in there if x.startswith(name)] or difflib.get_close_matches(name, there, n=1)
    return message + (f": did you mean {near[0]!r}?" if near else f"; it has {', '.join(there)}")


class Run:
    """The outcome of a launch, which makes it and which it shows as a table, one row per rank.

    values        what the function returned on each rank; tensors are copies on the CPU
    output        what each rank printed: all of it up to 2 MB, or the first 2 MB and the end
    run["label"]  the `Block` measured under that label
    labels        all labels, in the order in which they first began
    backend       "gloo" or "nccl"
    device        rank 0's: "cpu", "cuda:0", …; `devices` has every rank's
    seconds       from the request for processes to the last rank's return
    rank          0 in a notebook; this process's rank in a program started by torchrun
    machines      the `Machines` that the ranks were on; None if they shared this one
    cards         what their network cards carried over time: `.times`, `.sent`, `.received`, and
                  what happened to them: `.events`; None without machines
    lost          ranks that died while the others went on, in the order of their deaths, with
                  `.rank`, `.seconds` (since the launch began), `.what` and `.was_replaced`
    """

    def __init__(
        self,
        values,
        uses,
        output,
        backend,
        devices,
        seconds,
        wire,
        rank=0,
        machines=None,
        cards=None,
        lost=(),
    ):
        self.machines, self.cards, self.lost = machines, cards, list(lost)
        self.values, self.output, self.seconds, self.rank = values, output, seconds, rank
        self.backend, self.devices, self.device = backend, devices, devices[0]
        self.world_size = len(values)
        in_time = sorted((use for of_rank in uses for use in of_rank), key=lambda use: use.start)
        self.labels = list(dict.fromkeys(use.label for use in in_time))
        by_label = {label: [[] for _ in uses] for label in self.labels}
        for rank, of_rank in enumerate(uses):
            for use in of_rank:
                by_label[use.label][rank].append(use)
        self._blocks = {
            label: Block(label, wire, by_label[label], machines) for label in self.labels
        }

    def __getitem__(self, label) -> Block:
        if label not in self._blocks:
            known = list_labels(self.labels)
            raise KeyError(f"no block {label!r} was measured; this run's labels: {known}")
        return self._blocks[label]

    def __getattr__(self, name):
        raise AttributeError(no_attribute(self, name))

    def title(self) -> str:
        ranks = f"{self.world_size} rank" + ("s" if self.world_size > 1 else "")
        backend = {"gloo": "Gloo", "nccl": "NCCL"}.get(self.backend, self.backend)
        shared = len(set(self.devices)) < self.world_size and self.device != "cpu"
        count = len(set(self.devices))
        place = "the CPU" if self.device == "cpu" else f"{count} GPU" + ("s" if count > 1 else "")
        place += " (shared by the ranks)" if shared else ""
        where = f" · {self.machines.text()}" if self.machines else ""
        return f"{ranks} · {backend} on {place}{where} · {format_seconds(self.seconds)}"

    def table(self) -> Table:
        """Return a table with one row for each rank and four columns for each label."""
        quantities = ["sent", "received", "time", "peak memory"]
        labels = self.labels[:SHOWN_LABELS]
        wire = {block.wire for block in self._blocks.values()}
        return Table(
            ["rank", "value", *quantities * len(labels)],
            [self.row(rank) for rank in range(min(self.world_size, SHOWN_RANKS))],
            title=self.title() + "".join(f" · wire bytes {how}" for how in sorted(wire)),
            note="\n".join(
                filter(
                    None,
                    [
                        self._describe_hidden(),
                        *self._describe_not_counted(),
                        *self.describe_card_traffic(),
                        *map(str, self.lost),
                    ],
                )
            ),
            groups=[("", 2), *((label, 4) for label in labels)] if labels else (),
        )

    def _describe_hidden(self) -> str:
        """Return a line on the ranks and labels that the table leaves out."""
        ranks, labels = self.world_size - SHOWN_RANKS, len(self.labels) - SHOWN_LABELS
        hidden = [format_count(ranks, "more rank")] * (ranks > 0)
        hidden += [f"{format_count(labels, 'more label')} (run.labels)"] * (labels > 0)
        return f"… and {' and '.join(hidden)}" if hidden else ""

    def _describe_not_counted(self) -> list[str]:
        """Return a line for each label with figures that are not counted, with their reasons."""
        shown = [(label, self._blocks[label].not_counted) for label in self.labels[:SHOWN_LABELS]]
        reasons = {
            label: dict.fromkeys(one for rank in ranks for one in rank) for label, ranks in shown
        }
        return [f"{label}, not counted: {'; '.join(why)}" for label, why in reasons.items() if why]

    def describe_card_traffic(self) -> list[str]:
        """Return a line for each label on what each machine's card has carried."""
        shown = [
            block for block in map(self._blocks.get, self.labels[:SHOWN_LABELS]) if block.cards
        ]
        return [
            f"{block.label}, network cards: " + "; ".join(
                f"machine {number} sent {format_bytes(card.sent_bytes)}"
                + (f", busy {card.busy:.0%}" if card.busy is not None else "")
                for number, card in enumerate(block.cards)
            )
            for block in shown
        ]  # fmt: skip

    def row(self, rank) -> list[str]:
        """Return the cells of one rank: its value, then bytes, seconds and peak of each block."""
        labels = self.labels[:SHOWN_LABELS]
        if any(one.rank == rank and not one.was_replaced for one in self.lost):
            return [str(rank), "lost", *["–"] * 4 * len(labels)]
        cells = [str(rank), brief(self.values[rank])]
        for block in map(self._blocks.get, labels):
            peak = block.peak_bytes[rank]
            cells += [
                format_known(block.sent_bytes[rank]),
                format_known(block.received_bytes[rank]),
                format_seconds(block.seconds[rank]),
                format_bytes(peak["total"]) if peak else NO_PEAK[bool(block.not_counted[rank])],
            ]
        return cells

    def __repr__(self):
        return repr(self.table())

    def _repr_html_(self):
        return self.table()._repr_html_()
