"""The folder chapters/ as a package: coursekit.content.ch06_zero is chapters/ch06_zero."""

from pedagogy_lib.basics.folders import PUBLISHED

__path__ = [str(PUBLISHED / "chapters")]
