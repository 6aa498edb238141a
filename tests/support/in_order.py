"""Messages on Gloo as NCCL runs them, and labs that take the backend for NCCL."""

import contextlib

from pedagogy_lib.measuring.messages_in_turn import messages_in_turn

MIXED = "cpu:gloo,cuda:nccl"  # what a rank of `launch` with a GPU has


@contextlib.contextmanager
def messages_in_order(one_order=False):
    """In a rank: all messages wait for their turn, and labs take the backend for NCCL."""
    with messages_in_turn(one_order, get_backend_config=lambda group=None: MIXED):
        yield
