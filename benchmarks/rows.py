"""One line of the table of results."""

from dataclasses import asdict, dataclass, field


@dataclass
class Row:
    what: str
    ours: str = ""
    peer: str = ""
    ratio: str = ""
    target: str = ""
    met: bool | str = ""
    raw: dict = field(default_factory=dict)

    def cells(self) -> list[str]:
        met = "" if not self.target else "yes" if self.met else "no"
        return [self.what, self.ours, self.peer, self.ratio, self.target or "", met]

    def as_json(self) -> dict:
        return asdict(self) | {"met": bool(self.met) if self.target else None}


HEADS = ["what", "ours", "peer", "ratio", "target", "met"]


def seconds(value) -> str:
    return f"{value:.3f} s" if value < 1 else f"{value:.2f} s"


def milliseconds(value) -> str:
    return f"{value * 1e3:.2f} ms"


def microseconds(value) -> str:
    return f"{value * 1e6:.1f} µs"


def mb(value) -> str:
    return f"{value / 1e6:.1f} MB"
