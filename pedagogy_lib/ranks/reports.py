"""What a rank tells the notebook: messages of these classes, and of no others."""

from dataclasses import dataclass, fields

from ..basics.places import Place
from ..measuring.uses import Use
from .stages import STAGES


@dataclass
class StageReport:
    """The rank has come to one of `STAGES`."""

    stage: str


@dataclass
class IsAt:
    """Where the rank is: its answer when it is asked. None if Python cannot tell."""

    place: Place | None


@dataclass
class ReturnReport:
    """The learner's function has returned.

    value          what it returned: a pickle, and the large buffers that this leaves out
    value_type     the name of its class
    uses           of the labels that the function has measured
    wire           "measured": bytes on the wire are the kernel's; "counted": from the calls
    imported_late  whether the rank has imported what the fork server can import beforehand
    """

    value: list
    value_type: str
    uses: list[Use]
    wire: str
    imported_late: bool

    def take_value(self) -> list:
        """The value, which is not kept here any longer: it may be large."""
        value, self.value = self.value, []
        return value


@dataclass
class FailureReport:
    """The rank has failed.

    what       the end of a sentence that begins with the rank
    exception  pickled; None if it cannot travel, or there was none
    place      the learner's line; None if it is not known
    at         when, as of `time.perf_counter()`
    """

    what: str
    exception: bytes | None
    place: Place | None
    at: float


KINDS = StageReport, IsAt, ReturnReport, FailureReport


def is_report(message) -> bool:
    """Whether it is one of these, and whole. What the learner's program may send is anything."""
    if type(message) not in KINDS or vars(message).keys() != {f.name for f in fields(message)}:
        return False
    return not isinstance(message, StageReport) or message.stage in STAGES
