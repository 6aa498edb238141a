"""Where in the program a rank is, as the learner is told."""

import linecache
import os
import sys
from typing import NamedTuple

# The `operation` of a place where the rank is in no call of torch.distributed.
FOR_A_THREAD = "a thread"  # it waits for another thread of its rank
STARTING, UNPACKING, MEETING = "to start", "to unpack", "to meet"
STOPPED, LOST, TRAVELLING = "to be continued", "to come back", "to travel"


class Place(NamedTuple):
    """One line of source, and the library call below it in which the rank is."""

    filename: str
    line: int
    function: str
    call: str = ""  # with its arguments: `recv(float32[4], src=1)`
    operation: str = ""  # its name, if it belongs to torch.distributed: `recv`
    text: str = ""  # the source of the line, where the file may have changed by now

    def source(self) -> str:
        if self.text:
            return self.text
        linecache.checkcache(self.filename)  # the file may have been edited since the last launch
        return linecache.getline(self.filename, self.line).strip()

    def or_in_wait(self) -> "Place":
        """This place; with the operation "wait", if its line calls that of a request.

        A request's wait() is written in C++, so it has no frame.
        """
        is_wait = not self.call and not self.operation and ".wait(" in self.source()
        return self._replace(operation="wait") if is_wait else self

    def __str__(self):
        if not self.line:
            return self.function
        source = self.source()
        where = f"{display_name(self.filename)}, line {self.line}, in {self.function}()"
        return f"{where}:  {source}" if source else where


def in_words(text, operation="") -> Place:
    """A place told in words, where there is no line to show."""
    return Place("", 0, text, operation=operation)


def display_name(filename: str) -> str:
    """The name a learner knows: `cell In[3]` for a cell, a relative path for a file."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None and hasattr(shell.compile, "format_code_name"):
        known = shell.compile.format_code_name(filename)
        if known:
            return f"cell {known[1]}"
    try:
        relative = os.path.relpath(filename) if os.path.exists(filename) else filename
    except FileNotFoundError:  # the current folder has been deleted
        return filename
    return filename if relative.startswith("..") else relative
