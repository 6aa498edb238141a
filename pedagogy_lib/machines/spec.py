"""`Machines`: the description of the machines that the ranks of a launch run on."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from ..basics.errors import need
from ..basics.screen import say
from ..basics.units import brief, format_bytes, format_count, format_seconds
from .amounts import Link, is_positive, need_link
from .faults import Faults, PlanEntry, plan_wish

MOST_MACHINES, MOST_CARDS = 64, 8


@dataclass(frozen=True, repr=False)
class Machines(Faults):
    """Machines on this computer for `launch(..., machines=…)`: separate networks on a switch.

    ranks             number of machines, with equally many ranks each; or the number of ranks on
                      each of them: `Machines(2)` and `Machines([3, 1])` both have room for four
    bytes_per_second  speed of every network card, in each direction; None: as fast as possible
    latency_seconds   from card to card, one way
    jitter_seconds    most by which a packet's latency is longer or shorter, drawn evenly
    loss              share of the packets that are lost; TCP sends them again, which takes time
    cards             number of cards per machine, all of that speed. The first cards of all
                      machines form a separate network, as a rail does, and the second cards form
                      another. Gloo takes them in turn, with one collective on each
    plan              planned faults, made by methods that each return new machines:
                      `Machines(2).unplug(1, after_seconds=0.5).plug(1, after_seconds=1.5)`,
                      counted from the moment at which all ranks have met and `fn` begins (a fault
                      planned for 0 happens before they meet, and all seconds count from there); or
                      `Machines(2).kill(1, at_block="step", nth=3)`, when that machine's first rank
                      begins a block with that label for the third time. The other methods are
                      `revive`, `slow`, `split` and `join`

    Raises  LaunchError for numbers that make no sense
    """

    ranks: int | Sequence[int] = 2
    bytes_per_second: float | None = None
    latency_seconds: float = 0.0
    jitter_seconds: float = 0.0
    loss: float = 0.0
    cards: int = 1
    plan: tuple[PlanEntry, ...] = ()

    def __post_init__(self):
        sentence = "Machines() takes a number of machines, or the ranks of each"
        need(self.is_count() or self.is_list(), f"{sentence}, not {brief(self.ranks)}")
        need(self.count <= MOST_MACHINES, f"at most {MOST_MACHINES} machines, not {self.count}")
        need_link(*self.link)
        need(is_positive(self.cards) and self.cards <= MOST_CARDS,
             f"a machine has 1 to {MOST_CARDS} cards, not {brief(self.cards)}")  # fmt: skip

    def __repr__(self):
        """Return the call without default settings, and the number of planned faults."""
        said = [repr(self.ranks)] + [
            f"{one.name}={getattr(self, one.name)!r}" for one in fields(self)[1:]
            if one.name != "plan" and getattr(self, one.name) != one.default
        ]  # fmt: skip
        planned = f" with {format_count(len(self.plan), 'fault')} planned" if self.plan else ""
        return f"Machines({', '.join(said)}){planned}"

    def wish(self, wish, machine, when) -> "Machines":
        return replace(self, plan=(*self.plan, plan_wish(wish, machine, when)))

    @classmethod
    def here(cls, *args, **settings) -> "Machines | None":
        """Make machines if this system allows them; otherwise print the reason and return None."""
        from .network import try_link, try_machines

        machines = cls(*args, **settings)
        if problem := try_machines() or try_link(machines.link):
            say(f"Ranks share this machine, and no link is slow: {problem}.")
            return None
        return machines

    @property
    def link(self) -> Link:
        """The limits of each network card."""
        return Link(self.bytes_per_second, self.latency_seconds, self.jitter_seconds, self.loss)

    @property
    def all_cards(self) -> float | None:
        """The bytes per second of all cards of a machine together; None if they have no limit."""
        return self.bytes_per_second and self.cards * self.bytes_per_second

    def is_count(self) -> bool:
        return is_positive(self.ranks)

    def is_list(self) -> bool:
        is_sequence = isinstance(self.ranks, Sequence) and not isinstance(self.ranks, str)
        return is_sequence and len(self.ranks) > 0 and all(map(is_positive, self.ranks))

    @property
    def count(self) -> int:
        return self.ranks if self.is_count() else len(self.ranks)

    def places(self, world_size) -> list[int]:
        """Return the machine of each rank, in rank order.

        Raises  LaunchError if the machines do not have room for exactly `world_size` ranks
        """
        if self.is_count():
            need(world_size % self.count == 0,
                 f"{world_size} ranks cannot be shared out equally among {self.count} machines: "
                 "name the ranks of each, as in machines=Machines([3, 1])")  # fmt: skip
        sizes = [world_size // self.count] * self.count if self.is_count() else self.ranks
        need(sum(sizes) == world_size,
             f"Machines({list(sizes)}) has room for {sum(sizes)} ranks, and world_size is "
             f"{world_size}")  # fmt: skip
        return [machine for machine, size in enumerate(sizes) for _ in range(size)]

    def ranks_of_each(self, world_size) -> list[list[int]]:
        """Return the ranks on each machine."""
        places = self.places(world_size)
        return [[rank for rank, at in enumerate(places) if at == machine]
                for machine in range(self.count)]  # fmt: skip

    def list_block_faults(self, rank, world_size) -> list[tuple]:
        """Return [(label, nth, name, arguments), …]: the faults planned for blocks of this rank."""
        first = [ranks[0] for ranks in self.ranks_of_each(world_size)]
        return [(one.at_block, one.nth, one.wish.name, one.wish.arguments) for one in self.plan
                if one.at_block is not None and first[one.machine] == rank]  # fmt: skip

    def text(self) -> str:
        """Describe the machines as pictures do: "2 machines, cards of 25.0 MB/s"."""
        words = format_count(self.count, "machine")
        if self.bytes_per_second:
            each = f"{self.cards} cards each" if self.cards > 1 else "cards"
            words += f", {each} of {format_bytes(self.bytes_per_second)}/s"
        if self.latency_seconds:
            words += f", {format_seconds(self.latency_seconds)} apart"
        if self.jitter_seconds:
            words += f" (± {format_seconds(self.jitter_seconds)})"
        if self.loss:
            words += f", {100 * self.loss:.3g} % of packets lost"
        return words
