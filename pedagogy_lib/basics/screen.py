"""Printing from the notebook's process, and whether a person can read it."""

import contextlib
import os
import sys
from pathlib import Path

VIEWS = "PEDAGOGY_VIEWS"  # environment variable: where the build wants all views of pictures
EXPLORER = "explorer"  # the key in an output's metadata for the record of its views


def say(text):
    """Print what the screen can show of `text`; a full or closed one must not end a launch."""
    with contextlib.suppress(Exception):
        try:
            print(text)
        except UnicodeEncodeError:
            print(text.encode(sys.stdout.encoding, "backslashreplace").decode(sys.stdout.encoding))


def kernel_here():
    """Return the kernel of the notebook whose process this is; None if it is no notebook's."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "kernel", None)


def is_notebook() -> bool:
    return kernel_here() is not None


def someone_watches() -> bool:
    """Return whether a person could answer: False in nbval, nbclient, papermill and pipes."""
    kernel = kernel_here()
    if kernel is not None:
        return bool(getattr(kernel, "_allow_stdin", False))
    stdin = sys.stdin
    return stdin is not None and not stdin.closed and stdin.isatty()  # exit() closes it


def views_wanted() -> Path | None:
    """Return FOLDER/STEM for the recorded views of the part being built; None outside a build."""
    place = os.environ.get(VIEWS)
    return Path(place) if place else None
