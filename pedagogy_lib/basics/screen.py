"""What the notebook itself prints, and whether anybody is there to read it."""

import contextlib
import os
import sys
from pathlib import Path

VIEWS = "PEDAGOGY_VIEWS"  # the environment's name for where the build wants all views of pictures
EXPLORER = "explorer"  # in the metadata of an output: the name of the record of its views


def say(text):
    """Print what the screen can show. One that is full or closed must not end a launch."""
    with contextlib.suppress(Exception):
        try:
            print(text)
        except UnicodeEncodeError:
            print(text.encode(sys.stdout.encoding, "backslashreplace").decode(sys.stdout.encoding))


def kernel_here():
    """The kernel of the notebook whose process this is; None if it is no notebook's."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "kernel", None)


def is_notebook() -> bool:
    return kernel_here() is not None


def someone_watches() -> bool:
    """Whether a person could answer: false in nbval, nbclient, papermill and pipes."""
    kernel = kernel_here()
    if kernel is not None:
        return bool(getattr(kernel, "_allow_stdin", False))
    stdin = sys.stdin
    return stdin is not None and not stdin.closed and stdin.isatty()  # exit() closes it


def views_wanted() -> Path | None:
    """FOLDER/STEM of the part whose pictures with controls are recorded: only while it is built."""
    place = os.environ.get(VIEWS)
    return Path(place) if place else None
