"""Calls of an answer in the process where it lives: this one, or another, untrusted one.

A check calls an answer, and runs its own functions next to it, with `call_next_to_answer`. In a
learner's notebook that is an ordinary call. A grader gives checks a `RemoteAnswer` instead of the
answer: function and arguments then go to the process where the answer lives, and the value is sent
back as text of exact types. The truth is therefore computed, and compared, outside of such calls.
"""

import functools
import io
import pickle
from collections.abc import Callable
from typing import Protocol

from pedagogy_lib.basics.errors import HangError, LaunchError, RankError
from pedagogy_lib.ranks.launcher import launch
from pedagogy_lib.ranks.packing import Pickler
from pedagogy_lib.ranks.rank_listener import patiently
from pedagogy_lib.ranks.run import Run

from ..labs.module import NotSolvedYet
from ..protocol import Wrong

TIMEOUT_SECONDS = 5.0  # per case: its tensors are small, and a hang is reported within six seconds
PROTOCOL = pickle.HIGHEST_PROTOCOL


class AnswerProcess(Protocol):
    """A process in which an answer lives."""

    def run(self, data: bytes):
        """Return the value of a call that `pickle_value` has packed; raise what the call raises.

        Raises  AnswerProcessFailed if nothing is left that could answer
        """

    def read_output(self) -> str:
        """Return what the answer has printed so far."""


class AnswerProcessFailed(BaseException):
    """An error about an answer's process that has ended, or does not answer: no value will come.

    what, why  the texts for the verdict
    """

    def __init__(self, what, why=""):
        super().__init__(what, why)
        self.what, self.why = what, why


class RemoteAnswer:
    """A stand-in for an answer that lives in another process: a call of it happens there.

    name  the function's name
    lab   the name of its lab, which becomes a `RemoteLab`; None for an answer in a cell
    """

    def __init__(self, process: AnswerProcess, name: str, lab: str | None = None):
        self.process, self.__name__ = process, name
        if lab is not None:
            self.lab = RemoteLab(process, lab)

    def __call__(self, *args, **kwargs):
        return call_next_to_answer(self, *args, **kwargs)

    def find_dependency(self, lab: str, name: str) -> "RemoteAnswer":
        """Return another function of the same submission, which this one is built on."""
        return RemoteAnswer(self.process, name, lab)


class RemoteLab:
    """A stand-in for a lab that lives in another process: nothing in it can be read from here."""

    def __init__(self, process, name):
        self._process, self._name = process, name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"{name} of a submitted lab: call_next_to_answer alone reaches it")


def call_next_to_answer(function: Callable, *args, **kwargs):
    """Return function(*args, **kwargs), run where the answer among these lives, which may be here.

    The value of another process has exact types, whatever it was there: tensors lose their graphs,
    and several names of one tensor become several tensors.
    """
    process = find_process(function, *args, *kwargs.values())
    if process is None:
        return function(*args, **kwargs)
    return process.run(pickle_value((function, args, kwargs)))


def launch_next_to_answer(function: Callable, *args, **settings) -> Run:
    """Return launch(function, *args, **settings), run where the answer among the arguments lives.

    The Run of another process has no `cards`.
    """
    if find_process(function, *args) is None:
        return launch(function, *args, **settings)
    parts = call_next_to_answer(parts_of_launch, function, args, settings)
    return Run(**parts, machines=settings.get("machines"))


def parts_of_launch(function, args, settings) -> dict:
    """Launch in the answer's process, and return the arguments of a Run."""
    run = launch(function, *args, **settings)
    blocks = [run[label] for label in run.labels]
    uses = [
        [use for block in blocks for use in block._uses[rank]] for rank in range(run.world_size)
    ]
    return {
        "values": run.values,
        "uses": uses,
        "output": run.output,
        "backend": run.backend,
        "devices": run.devices,
        "seconds": run.seconds,
        "wire": blocks[0].wire if blocks else "counted",
        "lost": run.lost,
    }


def find_process(*values) -> AnswerProcess | None:
    """Return the process of the answer among these; None if it lives here, or if there is none."""
    for value in values:
        if isinstance(value, (RemoteAnswer, RemoteLab)):
            return vars(value).get("process") or vars(value).get("_process")
        found = find_process(*list_contents(value))
        if found is not None:
            return found
    return None


def list_contents(value):
    """Return the values that a function or a sequence holds, one of which may be an answer."""
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, functools.partial):
        return (value.func, *value.args, *value.keywords.values())
    owner = getattr(value, "__self__", None)
    cells = getattr(value, "__closure__", None) or ()
    held = [cell.cell_contents for cell in cells if is_filled(cell)]
    return [*held, owner] if isinstance(owner, (RemoteAnswer, RemoteLab)) else held


def is_filled(cell) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # the cell of a name without a value yet
        return False


# ---- Packing --------------------------------------------------------------------------------


class AnswerPickler(Pickler):
    """A pickler that packs an answer, and its lab, by name."""

    def persistent_id(self, value):
        if isinstance(value, RemoteAnswer):
            lab = getattr(value, "lab", None)
            return "answer", value.__name__, lab and lab._name
        if isinstance(value, RemoteLab):
            return "lab", value._name, None
        return None


def pickle_value(value) -> bytes:
    buffer = io.BytesIO()
    AnswerPickler(buffer, protocol=PROTOCOL).dump(value)
    return buffer.getvalue()


class AnswerUnpickler(pickle.Unpickler):
    """An unpickler in the answer's process: `answers` returns the value for (kind, name, lab)."""

    def __init__(self, data: bytes, answers: Callable):
        super().__init__(io.BytesIO(data))
        self.answers = answers

    def persistent_load(self, pid):
        return self.answers(*pid)


def try_on_ranks(
    case, function, *args, world_size, explain=lambda error: "", timeout=None, **more
) -> Run:
    """Run `function(*args)` on ranks that are seeded differently; raise `Wrong` if it fails.

    explain  takes a LaunchError and returns the misconception, or ""
    timeout  seconds until it counts as hung; TIMEOUT_SECONDS if there is none
    more     further arguments of launch: replacements, machines
    """
    timeout = TIMEOUT_SECONDS if timeout is None else timeout
    settings = {"device": "cpu", "timeout": timeout, "seed": list(range(world_size)), **more}
    try:
        with patiently():
            return launch_next_to_answer(function, *args, world_size=world_size, **settings)
    except HangError as error:
        why = explain(error)
        raise Wrong(case, f"it hangs: {error.format_message(why)}", why) from None
    except RankError as error:
        if isinstance(error.exception, NotSolvedYet):
            raise Wrong(case, str(error.exception)) from None
        raise Wrong(case, str(error), explain(error)) from None
    except LaunchError as error:
        raise Wrong(case, str(error), explain(error)) from None
