"""A machine's network card: how fast it is, and what waits at it. For the switch and its machines.

Source  tc-tbf(8), tc-netem(8), through pyroute2
"""

import errno

from pyroute2.netlink.exceptions import NetlinkError

FRAME_BYTES = 9000  # "jumbo frames", as clusters use them: headers are less than 1 %
BURST_SECONDS = 0.002  # that a card may be ahead of its speed; the kernel's clock needs some
SMALLEST_BURST_BYTES = 2 * (FRAME_BYTES + 100)  # or nothing would ever be sent
LONG_QUEUE = 1 << 14  # messages under way
QUEUE_BYTES = 1 << 24  # that wait at a card; what comes on top is dropped


class Refused(Exception):
    """A wish that cannot be fulfilled; says why."""


class Shaper:
    """Limits the speed of one end of a cable: `index` is the interface's number here."""

    def __init__(self, ip, index):
        self.ip, self.index, self.now = ip, index, None

    def set(self, bytes_per_second, latency_seconds=0.0):
        """None for bytes_per_second: as fast as it goes."""
        wanted = bytes_per_second, latency_seconds
        if wanted == self.now:
            return
        self.now = None
        limited = {"handle": "2:"}
        if latency_seconds:
            self.queue("netem", handle="1:", delay=round(1e6 * latency_seconds), limit=LONG_QUEUE)
            limited = {"handle": "2:", "parent": "1:1"}
        elif not bytes_per_second:
            self.queue("pfifo", handle="3:", limit=LONG_QUEUE)
        if bytes_per_second:
            burst = max(SMALLEST_BURST_BYTES, round(BURST_SECONDS * bytes_per_second))
            self.queue(
                "tbf", rate=round(bytes_per_second), burst=burst, limit=QUEUE_BYTES, **limited
            )
        self.now = wanted

    def queue(self, kind, **settings):
        """What a card's messages wait in, in place of what was there."""
        try:
            self.ip.tc("replace", kind, self.index, **settings)
        except NetlinkError as error:
            if error.code != errno.ENOENT:
                raise
            raise Refused(MISSING[kind]) from None


MISSING = {
    "netem": "this kernel cannot delay messages: it has no netem, so leave latency_seconds out",
    "tbf": "this kernel cannot limit the speed of a card: it has no tbf",
    "pfifo": "this kernel has no queue for a card",
}
