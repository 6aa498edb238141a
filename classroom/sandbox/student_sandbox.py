"""The sandbox of one student's answers, `StudentSandbox`."""

from types import ModuleType

from coursekit.answers.remote_answer import AnswerProcessFailed, RemoteAnswer

from .connection import Connection, Pipes
from .limits import Limits
from .sandbox_process import SandboxProcess


class SandboxConnection(Connection):
    """A connection to a sandbox, which ends with it; an error says why the sandbox was ended."""

    def __init__(self, walled: SandboxProcess, limits: Limits):
        pipes = Pipes(walled.requests, walled.replies)
        super().__init__(pipes, limits.seconds, limits.seconds_in_all)
        self.walled, self.last_words = walled, ""

    def lose(self, what, why=""):
        fault = self.walled.fault
        self.close()
        super().lose(fault or what, "" if fault else why)

    def read_output(self) -> str:
        return super().read_output() + self.last_words + self.walled.read_output()

    def close(self):
        self.is_lost = True
        self.walled.close()
        self.last_words += self.walled.read_output()


class StudentSandbox:
    """The sandbox of one student. If it dies or hangs, the next answer gets a new one.

    files      the student's files, by their paths in the course: {"labs/ring.py": b"…"}
    exercises  numbers of those that are answered there; by default all
    Raises     Refusal for files that have no place in the course
    """

    def __init__(self, files: dict[str, bytes], way: ModuleType, limits: Limits, exercises=()):
        self.files, self.way, self.limits, self.exercises = files, way, limits, exercises
        self.connection = self.open_connection()

    def open_connection(self) -> SandboxConnection:
        walled = SandboxProcess(self.files, self.way, self.limits, exercises=self.exercises)
        connection = SandboxConnection(walled, self.limits)
        try:
            connection.await_ready()
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def is_lost(self) -> bool:
        """True once the process has ended or was ended: this answer returns nothing more."""
        return self.connection.is_lost

    def load_cell_function(self, source: str, name: str) -> RemoteAnswer:
        """Return the function that a cell's source defines."""
        return self.begin(name, source=source)

    def load_lab_function(self, lab: str, name: str) -> RemoteAnswer:
        """Return a function of the student's labs."""
        return self.begin(name, lab=lab)

    def begin(self, name, **where) -> RemoteAnswer:
        if not self.connection.is_lost:
            try:
                return self.connection.begin(name, **where)
            except AnswerProcessFailed:
                pass  # what the previous answer has left does not end
        self.connection.close()
        self.connection = self.open_connection()
        return self.connection.begin(name, **where)

    def read_output(self) -> str:
        """Return what the student's code has printed since it was asked for, up to a limit."""
        return self.connection.read_output()

    def close(self):
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
