"""Lines of source at which a rank is or an error was raised, as they are shown to the learner."""

import linecache
import sys
from typing import NamedTuple
from urllib.parse import unquote

from .folders import short_path

VS_CODE_CELL = "vscode-notebook-cell:"  # prefix of the addresses of its cells

# Values of `operation` for a rank that is in no call of torch.distributed, and waits
FOR_A_THREAD = "a thread"  # of the same rank
FOR_A_PROCESS, FOR_DATA = "a process", "data"  # of a DataLoader's workers
FOR_A_FILE, FOR_A_KEY, FOR_THE_NETWORK = "a file", "a key", "the network"
ASLEEP, FOR_INPUT, IDLE = "asleep", "input", "idle"  # idle: in no known call, without computing
BUFFERS = "buffers"  # DDP's forward waits for all ranks to broadcast them
STARTING, UNPACKING, MEETING = "to start", "to unpack", "to meet"
STOPPED, LOST, TRAVELLING = "to be continued", "to come back", "to travel"


class SourceLine(NamedTuple):
    """A line of source, and the library call made from it in which the rank is."""

    filename: str
    line: int
    function: str
    call: str = ""  # with its arguments: `recv(float32[4], src=1)`
    operation: str = ""  # its name, if it is one of torch.distributed: `recv`
    text: str = ""  # the source of the line, if the file may have changed since
    block: str = ""  # the label of the innermost `measure` block around it
    callers: tuple["SourceLine | str", ...] = ()  # callers of the function, nearest first

    def source(self) -> str:
        if self.text:
            return self.text
        linecache.checkcache(self.filename)  # the file may have been edited since the last launch
        return linecache.getline(self.filename, self.line).strip()

    def where(self) -> str:
        return where_is(self.filename, self.line)

    def or_in_wait(self) -> "SourceLine":
        """Return this line, with the operation "wait" if its line calls wait() of a request.

        A request's wait() is written in C++, so it has no Python frame.
        """
        is_wait = not self.call and not self.operation and ".wait(" in self.source()
        return self._replace(operation="wait") if is_wait else self

    def __str__(self):
        if not self.line:
            return self.function
        source = self.source()
        where = f"{self.where()}, in {self.function}()"
        return f"{where}:  {source}" if source else where

    def list_details(self) -> list[str]:
        """List the details beyond the line: the call and the block around it, and the callers."""
        is_told = self.block and not self.block.startswith("_")  # as labels of checks do
        block = f'in the block "{self.block}"' if is_told else ""
        call = f"inside {self.call}" if self.call else ""
        is_in = ", ".join(filter(None, [call, block]))
        return [is_in] * bool(is_in) + [
            f"called from {caller}" if isinstance(caller, SourceLine) else caller
            for caller in self.callers
        ]


class SourceLineElsewhere(SourceLine):
    """A line that another process has reported. No file of this name is opened in this process."""

    def source(self) -> str:
        return self.text

    def where(self) -> str:
        return f"{self.filename}:{self.line}"


def make_source_line(text, operation="") -> SourceLine:
    """Make a description in words, for a rank that is at no line that can be shown."""
    return SourceLine("", 0, text, operation=operation)


def where_is(filename: str, line: int) -> str:
    """Return a line as a learner knows it: `line 4 of a cell`, or `./labs/collectives.py:57`.

    A cell has no number here, because the number changes each time the cell runs, so a record would
    differ from a new execution of it. JupyterLab (in errors) and many terminals turn the second
    form into a link.
    """
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    name_cell = getattr(shell and shell.compile, "format_code_name", None)
    if name_cell and name_cell(filename):
        return f"line {line} of a cell"
    if filename.startswith(VS_CODE_CELL):
        notebook = unquote(filename.partition("#")[0].rpartition("/")[2])
        return f"line {line} of a cell of {notebook}"
    return f"{short_path(filename)}:{line}"
