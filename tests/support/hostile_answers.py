"""Attacks as data: tests/classroom/hostile/NAME.py, each an answer to exercise 1.1 that does harm.

Its first line says which verdict it deserves, and what it tries:

# wrong · ends with exit code 0 in the middle [early]

`right` answers correctly beside what it tries; `any` may get either verdict. `[early]` is tried in
`make test`, too. What stands before each of them (`given`) tells it where the teacher's things are.
"""

import contextlib
import json
import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path

from exercise_names import EX
from helpers import ROOT

from classroom.sandbox import StudentSandbox
from coursekit import check_runner

FOLDER = Path(__file__).parents[1] / "classroom" / "hostile"
FIRST_LINE = re.compile(r"# (right|wrong|any) · (.+?)( \[early\])?\n")
NUMBER, NAME = EX.house_gradients, "house_gradients"
HONEST = """
def honest(x1, x2, price, w1, w2, b):
    d = x1 * w1 + x2 * w2 + b - price
    return [2 * d * x1, 2 * d * x2, 2 * d]
"""
HONEST_ANSWER = HONEST.replace("honest", NAME)


@dataclass(frozen=True)
class Attack:
    name: str
    deserves: str
    is_early: bool
    text: str


def all_attacks() -> list[Attack]:
    found = []
    for path in sorted(FOLDER.glob("*.py")):
        text = path.read_text()
        deserves, _, early = FIRST_LINE.match(text).groups()
        found.append(Attack(path.stem, deserves, bool(early), text))
    return found


def verdict_on(sandbox: StudentSandbox, source: str):
    exercise = check_runner.find_exercise(NUMBER)
    return check_runner.run_check(exercise, sandbox.load_cell_function(source, NAME), NAME)


class Grounds:
    """What a teacher has beside a sandbox: files, sockets. None may be reached from within."""

    def __init__(self, folder: Path):
        self.folder = folder
        (folder / "results.json").write_text('{"scores": [0]}')
        (folder / "other.py").write_text(HONEST_ANSWER)
        self.servers = [socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX),
                        socket.socket(socket.AF_UNIX)]  # fmt: skip
        self.port = self.servers[0].getsockname()[1]
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.datagrams.bind(("127.0.0.1", self.port))
        self.name = f"grader-{os.getpid()}"
        self.servers[1].bind(f"\0{self.name}")
        self.servers[2].bind(str(folder / "socket"))
        for server in self.servers[1:]:
            server.listen()
        self.before = self.state()

    def build_preamble(self) -> str:
        names = {"SECRETS": str(self.folder), "COURSE": str(ROOT), "PORT": self.port,
                 "NAME": self.name, "GRADER": os.getpid()}  # fmt: skip
        return "".join(f"{name} = {json.dumps(value)}\n" for name, value in names.items()) + HONEST

    def state(self) -> list:
        """All that can be changed of the files, and of those of the course."""
        paths = [self.folder, *sorted(self.folder.iterdir()), ROOT, *sorted(ROOT.glob("[!.]*"))]
        paths += sorted((ROOT / "coursekit").rglob("*.py"))
        stats = [(path, path.lstat()) for path in paths if path.suffix != ".egg-info"]
        kept = [(str(path), s.st_mode, s.st_uid, s.st_size, s.st_nlink) for path, s in stats]
        return [*kept, *(path.read_bytes() for path in sorted(self.folder.glob("*.*")))]

    def guests(self) -> list:
        """Who has called."""
        found = []
        for server in (*self.servers, self.datagrams):
            server.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                found.append(server.recvfrom(9) if server is self.datagrams else server.accept())
        return found

    def close(self):
        for one in (*self.servers, self.datagrams):
            one.close()
