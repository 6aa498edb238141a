"""What the notebook itself prints, and whether anybody is there to read it."""

import contextlib
import sys


def say(text):
    """Print what the screen can show. One that is full or closed must not end a launch."""
    with contextlib.suppress(Exception):
        try:
            print(text)
        except UnicodeEncodeError:
            print(text.encode(sys.stdout.encoding, "backslashreplace").decode(sys.stdout.encoding))


def someone_watches() -> bool:
    """Whether a person could answer: false in nbval, nbclient, papermill and pipes."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    kernel = getattr(shell, "kernel", None)
    if kernel is not None:
        return bool(getattr(kernel, "_allow_stdin", False))
    return sys.stdin is not None and sys.stdin.isatty()
