"""How many bytes a machine's network card has carried, read from the kernel's counters of it.

Beside what the ranks send to other machines, the card carries headers; what ranks of one machine
send each other, it does not carry.

Source  /proc/net/dev in proc_pid_net(5)
"""

from dataclasses import dataclass

RECEIVED, SENT = 0, 8  # columns, behind the card's name


def card_bytes(card: str) -> tuple[int, int]:
    """(sent, received) since the card was made, in the network of this process."""
    with open("/proc/self/net/dev") as file:
        for line in file:
            name, _, counts = line.partition(":")
            if name.strip() == card:
                columns = counts.split()
                return int(columns[SENT]), int(columns[RECEIVED])
    return 0, 0


@dataclass(frozen=True)
class Card:
    """What one machine's card carried in the blocks of a label, on any of the machine's ranks.

    ranks             of the machine
    sent_bytes, received_bytes   headers included
    seconds           in which at least one of these ranks was in such a block
    bytes_per_second  that the card can carry, in each direction; None: not limited
    """

    ranks: list[int]
    sent_bytes: int
    received_bytes: int
    seconds: float
    bytes_per_second: float | None

    @property
    def busy(self) -> float | None:
        """The share of these seconds that its busier direction needs at full speed."""
        if not self.bytes_per_second or not self.seconds:
            return None
        return max(self.sent_bytes, self.received_bytes) / self.bytes_per_second / self.seconds


def card_of(ranks, uses, bytes_per_second) -> Card:
    """Put together what the ranks of one machine read from their card when blocks began and ended.

    uses  of all ranks of the world, each with `card`: what was read at its begin and end
    """
    own = [use for rank in ranks for use in uses[rank] if use.card is not None]
    sent, received = (
        covered([(use.card[0][way], use.card[1][way]) for use in own]) for way in (0, 1)
    )
    seconds = covered([(use.start, use.end) for use in own])
    return Card(list(ranks), sent, received, seconds, bytes_per_second)


def covered(spans):
    """How much of a line these spans cover together: what several of them cover counts once."""
    total, reached = 0, None
    for begin, end in sorted(spans):
        if reached is None or begin > reached:
            total, reached = total + end - begin, end
        elif end > reached:
            total, reached = total + end - reached, end
    return total
