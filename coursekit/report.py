"""`make report`: an HTML page about this machine, measured when it is made."""

import ast
import platform
import re
import tempfile
from html import escape
from pathlib import Path

import nbformat
import numpy as np

from pedagogy_lib.basics.errors import LaunchError, need_course

from .building.build import ENCRYPTED, ROOT, dump, make_notebook

SOURCE = ROOT / "reports" / "machine.py"
PAGE = ROOT / "reports" / "machine.html"
HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ max-width: 52rem; margin: 2.5rem auto; padding: 0 1.5rem; color: #222222;
  font: 16px/1.5 "Helvetica Neue", Arial, sans-serif; background: white; }}
h1 {{ font-size: 1.75rem; line-height: 1.25; }}
h2 {{ font-size: 1.25rem; margin: 2.5rem 0 0.5rem; }}
table {{ border-collapse: collapse; margin: 1rem 0; font-size: 0.9rem; }}
th, td {{ padding: 0.3rem 1.5rem 0.3rem 0; border-bottom: 1px solid #DDDDDD; }}
thead th {{ border-bottom: 1px solid #777777; }}
img {{ max-width: 100%; height: auto; }}
</style>
</head>
"""


def write_report(settings=(), page: Path = PAGE) -> Path:
    """Run the machine report with some parameters changed, and write it as HTML without code.

    settings  texts such as `world_sizes=[2, 4, 8]`
    Raises    LaunchError with one sentence for a setting that cannot be used
    """
    import papermill
    from traitlets.config import Config

    need_course(SOURCE.parent)
    notebook = make_notebook(SOURCE.read_text(), SOURCE.stem)
    defaults = defaults_of(notebook)
    parameters = {"world_sizes": add_gpu_world_size(defaults["world_sizes"])}
    parameters |= read_settings(settings, defaults)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "machine.ipynb"
        path.write_text(dump(notebook))
        try:
            papermill.execute_notebook(
                path,
                path,
                parameters,
                cwd=ROOT,
                progress_bar=False,
                kernel_name="python3",
                config=Config(ENCRYPTED),
            )
        except papermill.PapermillExecutionError as error:
            raise LaunchError(f"the report stopped: {error.evalue}") from None
        page.write_text(render_page(path))
    return page


def defaults_of(notebook) -> dict:
    """Return the report's parameters with their defaults, from its cell tagged `parameters`."""
    cells = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", [])]
    assignments = ast.parse(cells[0].source).body
    return {line.targets[0].id: ast.literal_eval(line.value) for line in assignments}


def add_gpu_world_size(world_sizes) -> list[int]:
    """Return these world sizes, and one of a rank per GPU if there are more GPUs than in any."""
    import torch

    gpus = torch.cuda.device_count()
    return [*world_sizes, gpus] if gpus > max(world_sizes) else world_sizes


def read_settings(settings, defaults) -> dict:
    """Return the settings as values; each must be known, given once, and of its default's type."""
    values = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        if name not in defaults:
            raise LaunchError(f"no parameter {name!r}: the report has {', '.join(defaults)}")
        if name in values:
            raise LaunchError(f"{name} is given twice: leave one out")
        values[name] = read_value(name, text, defaults[name])
    return values


def read_value(name, text, default):
    """Return a parameter's value from the command line.

    Raises  LaunchError unless it is of the default's kind
    """
    if text.count("[") > text.count("]"):  # a shell has cut the list at a space
        raise LaunchError(
            f"write the list without spaces, for example {name}={remove_spaces(default)}, or in "
            f"quotes of its own, REPORT_ARGS=\"'{name}={default}'\""
        )
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = None
    if not alike(value, default):
        example = f"{name}={default}"
        raise LaunchError(
            f"{name} is {describe_kind(default)}, for example {example}, not {text or 'nothing'}"
        )
    return value


def remove_spaces(value) -> str:
    return str(value).replace(" ", "")


def describe_kind(default) -> str:
    """Describe the values that can stand in for a default."""
    first = default[0] if isinstance(default, list) else default
    kind = "number" if isinstance(first, float) else "whole number"
    return f"a list of positive {kind}s" if first is not default else f"a positive {kind}"


def alike(value, default) -> bool:
    """Return whether a value can stand in for a default: lists not empty, all numbers positive."""
    if isinstance(default, list):
        return isinstance(value, list) and bool(value) and all(alike(v, default[0]) for v in value)
    wanted = (int, float) if isinstance(default, float) else int
    return isinstance(value, wanted) and not isinstance(value, bool) and value > 0


def render_page(path: Path) -> str:
    """Return a self-contained page: without code, and with nothing to fetch from anywhere."""
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(
        template_name="basic",
        exclude_input=True,
        exclude_output_prompt=True,
        exclude_anchor_links=True,
    )
    notebook = nbformat.read(path, as_version=4)
    body, _ = exporter.from_notebook_node(notebook)
    title = notebook.cells[0].source.splitlines()[0].strip("# ").replace("`", "")
    return f"{HEAD.format(title=escape(title))}<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"


def cpu_name() -> str:
    """Return the processor's name as its maker writes it, where the system reports it."""
    info = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*: (.+)", info.read_text() if info.exists() else "", re.M)
    return found[1] if found else platform.processor() or platform.machine()


def straight_line(sizes, seconds):
    """Fit seconds = latency + size / bandwidth, with each point weighted by its relative error.

    Returns  latency in seconds, bandwidth in units of size per second, and the largest relative
             error; three times None where there are too few points, or no such line is near them
    """
    sizes, seconds = np.array(sizes, float), np.array(seconds, float)
    if len(set(sizes)) < 2:
        return None, None, None
    slope, latency = np.polyfit(sizes, seconds, 1, w=1 / seconds)
    if slope <= 0 or latency <= 0:
        return None, None, None
    error = np.abs((latency + slope * sizes) / seconds - 1).max()
    return float(latency), float(1 / slope), float(error)
