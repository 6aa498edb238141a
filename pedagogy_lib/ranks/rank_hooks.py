"""Changes of Python's own modules in a rank, where no person answers and no cell is imported."""

import bdb
import builtins
import code
import os
import sys
from inspect import isclass, isfunction
from multiprocessing.reduction import ForkingPickler

import cloudpickle

NOBODY = (
    "nobody can answer a debugger inside a rank: print() what you want to see, or call a function "
    "that needs no other rank without launch(), where a debugger works"
)
NO_INPUT = "nobody can answer input() inside a rank: pass what it needs as an argument"


def install():
    """Refuse questions to a person, explain `plt.show()`, and let cells' classes reach workers."""
    sys.breakpointhook = bdb.Bdb.__init__ = code.InteractiveConsole.interact = refuse_debugger
    builtins.input = refuse_input
    ForkingPickler.reducer_override = reduce_by_value
    os.environ["MPLBACKEND"] = "module://pedagogy_lib.ranks.figures"


def refuse_debugger(*args, **kwargs):
    raise RuntimeError(NOBODY)


def refuse_input(*args):
    raise EOFError(NO_INPUT)


def reduce_by_value(pickler, value):
    """Return how a worker process rebuilds a learner's class or function, which no import finds."""
    if (isclass(value) or isfunction(value)) and getattr(value, "__module__", "") == "__main__":
        return cloudpickle.loads, (cloudpickle.dumps(value),)
    return NotImplemented
