"""The bytes that network cards carry over time, as the switch sees them."""

import time

from .machine import port_name

LOOK_SECONDS, MOST_LOOKS = 0.005, 10_000


class History:
    """The bytes that each machine has sent and received, read repeatedly at the switch's ports."""

    def __init__(self, machines):
        self.ports = {port_name(machine.number, card): machine.number
                      for machine in machines for card in range(len(machine.ports))}  # fmt: skip
        self.count = len(machines)
        self.times, self.sent, self.received, self.events = [], [], [], []
        self.period = LOOK_SECONDS
        self.last, self.before = {}, {}  # a card that replaces another one counts from 0
        self.look()

    def compute_timeout(self) -> float:
        return max(0.0, self.times[-1] + self.period - time.perf_counter())

    def look(self):
        """Note each machine's bytes so far, unless the last note is younger than `period`.

        Once there are too many notes, every second one goes and the period doubles.
        """
        now = time.perf_counter()
        if self.times and now < self.times[-1] + self.period:
            return
        sent, received = [0] * self.count, [0] * self.count
        seen = set()
        with open("/proc/self/net/dev") as file:
            for line in file:
                name, _, counts = line.partition(":")
                port = name.strip()
                number = self.ports.get(port)
                if number is not None:  # bytes into the switch are those that the machine has sent
                    into, out = (int(counts.split()[column]) for column in (0, 8))
                    sent[number] += self.accumulate_count("sent", port, into)
                    received[number] += self.accumulate_count("received", port, out)
                    seen.add(port)
        for port in self.ports.keys() - seen:  # its machine has been killed
            sent[self.ports[port]] += self.so_far("sent", port)
            received[self.ports[port]] += self.so_far("received", port)
        self.times.append(now)
        self.sent.append(sent)
        self.received.append(received)
        if len(self.times) > MOST_LOOKS:
            self.period *= 2
            for looks in (self.times, self.sent, self.received):
                del looks[1:-1:2]

    def so_far(self, way, port) -> int:
        return self.before.get((way, port), 0) + self.last.get((way, port), 0)

    def accumulate_count(self, way, port, count) -> int:
        key = way, port
        if count < self.last.get(key, 0):
            self.before[key] = self.before.get(key, 0) + self.last[key]
        self.last[key] = count
        return self.before.get(key, 0) + count

    def export_lists(self) -> dict:
        self.period = 0.0
        self.look()
        return {"times": self.times, "sent": self.sent, "received": self.received,
                "events": self.events}  # fmt: skip
