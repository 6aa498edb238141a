"""The process in which a submitted answer runs: python -m coursekit.answers.answer_server IN OUT.

It reads requests from one pipe and writes replies to another; IN and OUT are file descriptors.
A message is its length in eight bytes, followed by its content. The first request for an answer
describes the answer as JSON. For each answer a child is forked, in which no other answer has been.
Further requests are packed by `remote_answer.pickle_value` in the grader's process, and an empty
message ends the child. A reply is JSON, {"value": …} or {"error": …} in exact values, with the
output since the last reply.

Ranks are forked from this process, so it starts in the environment of a fork server: `ENVIRON`.
"""

import contextlib
import ctypes
import importlib
import json
import os
import shutil
import signal
import struct
import sys
import tempfile
from pathlib import Path

from pedagogy_lib.ranks.fork_server import frozen_imports
from pedagogy_lib.ranks.fork_server_client import START_METHOD, take
from pedagogy_lib.ranks.output import ProgressLine
from pedagogy_lib.ranks.preload_modules import PRELOAD, PRELOAD_WHEN_IDLE
from pedagogy_lib.ranks.warm_fork_server import WarmForkServer

from ..labs import ROOT, LabFunction, find_lab
from .answer_limits import Endless, watch_answer
from .exact_values import parts_of
from .remote_answer import AnswerUnpickler

CELLS = "cells"  # the folder for the code of cells: error reports show lines from there
WRITABLE = {ROOT / CELLS, Path(tempfile.gettempdir()), Path("/tmp"), Path("/dev/shm")}
SET_DUMPABLE = 4  # of prctl(2)
LENGTH = struct.Struct(">Q")
TOO_DEEP = "what it returned contains itself, or is nested too deeply"


def main(requests: int, replies: int, is_alone: bool):
    """Serve one answer after another until no request comes any more.

    is_alone  whether all processes that are visible from here belong to this one, so that those
              that an answer has left behind can be killed
    """
    for number in (requests, replies):
        os.set_inheritable(number, False)
    if is_alone:
        let_look_into(False)
    before = {path for folder in WRITABLE for path in list_folder(folder)}
    send(replies, {"ready": os.getpid()})
    while begin := receive_message(requests):
        child = os.fork()
        if child == 0:
            let_look_into(True)  # it reports where its ranks are
            serve(json.loads(begin), requests, replies)
        _, status = os.waitpid(child, 0)
        if is_alone:
            end_all_others()
            remove(before)
        send(replies, {"ended": status})


def end_all_others():
    """Kill all processes in this namespace but this one and the first, which is the sandbox's."""
    while True:
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            break
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


def let_look_into(can: bool):
    """Set whether other processes of this user can read or write the memory of this one."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_DUMPABLE, int(can), 0, 0, 0)


def list_folder(folder) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def remove(before):
    """Delete the files that an answer has left, so that the next one finds space and no traces."""
    for path in (path for folder in WRITABLE for path in list_folder(folder)):
        if path in before:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()


def serve(begin: dict, requests, replies):
    """Answer requests in the child, and exit."""
    try:
        if START_METHOD == "fork":
            take(WarmForkServer())  # before any code of the answer is loaded
        answers = Answers(begin)
        with watch_answer(ProgressLine()) as printed:
            while data := receive_message(requests):
                send(replies, answer_call(data, answers, printed))
    finally:
        os._exit(0)


class Answers:
    """A lookup for what requests name: the answer of a cell, a lab, or a function of a lab."""

    def __init__(self, begin):
        self.source, self.name = begin.get("source"), begin.get("name")
        self.cell = None

    def __call__(self, kind, name, lab):
        if kind == "lab":
            return find_lab(name)
        if lab is not None:
            return LabFunction(find_lab(lab), name)
        self.cell = self.cell or load_cell_function(self.source, self.name)
        return self.cell


def load_cell_function(source: str, name: str):
    """Return the function that a cell defines; a file keeps the cell's lines for error reports."""
    path = ROOT / CELLS / f"{name}.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(source)
    namespace = {"__name__": f"cell_of_{name}", "__file__": str(path)}
    exec(compile(source, str(path), "exec"), namespace)
    return namespace[name]


def answer_call(data, answers, printed) -> dict:
    before = len(printed.kept)
    try:
        function, args, kwargs = AnswerUnpickler(data, answers).load()
        reply = {"value": parts_of(function(*args, **kwargs))}
    except RecursionError as error:
        reply = {"error": parts_of(error), "deep": TOO_DEEP}
    except Endless as endless:
        reply = {"endless": [endless.seconds, str(endless.source_line)]}
    except BaseException as error:  # an exit is an outcome, too
        reply = {"error": parts_of(error)}
    return reply | {"printed": printed.kept[before:], "lines": printed.lines}


# ---- Messages -------------------------------------------------------------------------------


def send(number: int, reply: dict):
    data = json.dumps(reply, separators=(",", ":")).encode(errors="surrogatepass")
    write_all(number, LENGTH.pack(len(data)) + data)


def write_all(number: int, data: bytes):
    view = memoryview(data)
    while view:
        view = view[os.write(number, view) :]


def receive_message(number: int) -> bytes:
    """Return the next message; it is empty at the end of the pipe."""
    head = read_all(number, LENGTH.size)
    return read_all(number, LENGTH.unpack(head)[0]) if head else b""


def read_all(number: int, size: int) -> bytes:
    parts, left = [], size
    while left and (part := os.read(number, min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts) if not left else b""


def import_all():
    """Import the modules that answers and ranks need, once for all of them."""
    with frozen_imports():
        for name in (*PRELOAD, *PRELOAD_WHEN_IDLE):
            importlib.import_module(name)


if __name__ == "__main__":
    import_all()
    main(int(sys.argv[1]), int(sys.argv[2]), "--alone" in sys.argv[3:])
