"""Shorten the exit of the programs that tests start: Python imports this file when it starts.

Its last garbage collection takes a third of a second once torch is loaded, and tests start about a
hundred programs.
"""

import atexit
import gc

atexit.register(gc.freeze)
