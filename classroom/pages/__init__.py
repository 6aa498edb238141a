"""From a class's results to pages: the teacher's, one for each student, and a zip to give back.

`write` is all that others need; `python -m classroom.pages OUT` does it again for a folder.
"""

from .write_pages import write

__all__ = ["write"]
