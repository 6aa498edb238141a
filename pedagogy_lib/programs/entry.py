"""The program that torchrun starts in place of a user's: it watches that one, and runs it as main.

It is started as `entry.py FOLDER program.py ARGUMENTS…`, or `entry.py FOLDER -m module ARGUMENTS…`.
The user's program finds its own name, arguments, folder and main module as if torchrun had started
it alone, and torch not yet imported: it may still set variables that torch reads on its import.
"""

import os
import runpy
import sys
from pathlib import Path
from types import ModuleType

LIBRARY = str(Path(__file__).resolve().parents[2])


def main():
    folder, *command = sys.argv[1:]
    if os.path.realpath(sys.path[0]) == os.path.dirname(os.path.realpath(__file__)):
        del sys.path[0]
    if LIBRARY not in map(os.path.realpath, sys.path):
        sys.path.append(LIBRARY)
    from pedagogy_lib.programs.watcher import Watcher

    watcher = Watcher(folder)
    watcher.start()
    try:
        run_module(*command[1:]) if command[0] == "-m" else run_file(*command)
        watcher.note_end()
    except SystemExit as error:
        watcher.note_failure(error) if error.code else watcher.note_end(error)
        raise
    except Exception as error:
        watcher.note_failure(error)
        error.__traceback__ = trim_traceback(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)


def run_file(program, *arguments):
    """Run a file as Python runs its main program."""
    path = os.path.abspath(program)
    sys.argv[:] = [program, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    module = sys.modules["__main__"] = ModuleType("__main__")
    module.__file__, module.__builtins__ = path, __builtins__
    exec(compile(Path(path).read_bytes(), path, "exec"), vars(module))


def run_module(name, *arguments):
    sys.argv[:] = [name, *arguments]
    sys.path.insert(0, os.getcwd())
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def trim_traceback(traceback):
    """Return the part of a traceback that is the user's: without this file, and without runpy."""
    own = (__file__, runpy.__file__)
    first = traceback
    while first is not None and is_own(first, own):
        first = first.tb_next
    return first if first is not None else traceback


def is_own(traceback, own) -> bool:
    filename = traceback.tb_frame.f_code.co_filename
    return filename in own or filename.startswith("<frozen runpy")


if __name__ == "__main__":
    main()
