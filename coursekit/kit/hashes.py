"""Python's hash(): the same everywhere in a check, and nowhere else."""

import builtins
import contextlib
import sys

from pedagogy_lib.ranks.call_stack import is_library

HASHES = (
    "hash() of a text or of bytes is another one in each process (see PYTHONHASHSEED): ranks that "
    "torchrun starts would all differ. checksum([…]), from the lab, is the same everywhere"
)


@contextlib.contextmanager
def hashes_as_elsewhere(rank):
    """Let hash() of texts and bytes differ between ranks, as between processes of torchrun.

    The ranks of a check are forked from one process, and so have its seed. Yields the list of what
    has been hashed.
    """
    usual, hashed = builtins.hash, []

    def salted(value):
        is_salted = isinstance(value, str | bytes | tuple | frozenset)
        if not is_salted or is_library(sys._getframe(1).f_code.co_filename):
            return usual(value)
        hashed.append(type(value).__name__)
        return usual((rank, value))

    builtins.hash = salted
    try:
        yield hashed
    finally:
        builtins.hash = usual
