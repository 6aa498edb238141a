"""The call with which the program of a lab says which holes are left; `coursekit` has it."""

from coursekit.labs.unwritten import misses_something

__all__ = ["misses_something"]
