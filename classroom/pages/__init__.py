"""The pages of a class's results: the teacher's, one for each student, and a zip to give back.

Others need only `write`; `python -m classroom.pages OUT` does it again for a folder.
"""

from .write_pages import write

__all__ = ["write"]
