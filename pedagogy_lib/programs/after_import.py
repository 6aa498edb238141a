"""Calls of a function as soon as a program has imported a module."""

import importlib.abc
import importlib.util
import sys


def call_after_import(name, function):
    """Call `function()` once the module is imported, by whoever imports it; now, if it is."""
    if name in sys.modules:
        function()
    else:
        sys.meta_path.insert(0, ImportNoticed(name, function))


class ImportNoticed(importlib.abc.MetaPathFinder):
    """A finder that finds one module as the others would, and calls a function once it is there."""

    def __init__(self, name, function):
        self.name, self.function = name, function

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                self.function()

            spec.loader.exec_module = exec_module
        return spec
