"""`make report`: an HTML page on this machine, measured when it is made."""

import ast
import tempfile
from pathlib import Path

import nbformat

from .build import ROOT, dump, to_notebook
from .errors import LaunchError

SOURCE = ROOT / "reports" / "machine.py"
PAGE = ROOT / "reports" / "machine.html"


def write_report(settings=(), page: Path = PAGE) -> Path:
    """Run the machine report with some parameters changed, and write it as HTML without code.

    settings  texts like `world_sizes=[2, 4, 8]`
    Raises    LaunchError with one sentence for a setting that cannot be used
    """
    import papermill

    notebook = to_notebook(SOURCE.read_text(), SOURCE.stem)
    parameters = read_settings(settings, defaults_of(notebook))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "machine.ipynb"
        path.write_text(dump(notebook))
        try:
            papermill.execute_notebook(
                path, path, parameters, cwd=ROOT, progress_bar=False, kernel_name="python3"
            )
        except papermill.PapermillExecutionError as error:
            raise LaunchError(f"the report stopped: {error.evalue}") from None
        page.write_text(to_html(path))
    return page


def defaults_of(notebook) -> dict:
    """The report's parameters with their defaults, from its cell tagged `parameters`."""
    cells = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", [])]
    assignments = ast.parse(cells[0].source).body
    return {line.targets[0].id: ast.literal_eval(line.value) for line in assignments}


def read_settings(settings, defaults) -> dict:
    """The settings as values; each must be known and of its default's type."""
    values = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        if name not in defaults:
            raise LaunchError(f"no parameter {name!r}: the report has {', '.join(defaults)}")
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = None
        if not alike(value, defaults[name]):
            raise LaunchError(f"{name} is given like {name}={defaults[name]}, not {setting!r}")
        values[name] = value
    return values


def alike(value, default) -> bool:
    """Whether a value can stand in for a default: lists not empty, all numbers positive."""
    if isinstance(default, list):
        return isinstance(value, list) and bool(value) and all(alike(v, default[0]) for v in value)
    wanted = (int, float) if isinstance(default, float) else int
    return isinstance(value, wanted) and not isinstance(value, bool) and value > 0


def to_html(path: Path) -> str:
    """A page that stands alone: no code, and nothing to fetch from anywhere."""
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(exclude_input=True, exclude_output_prompt=True)
    exporter.require_js_url = exporter.mathjax_url = exporter.mermaid_js_url = ""
    exporter.mermaid_layout_elk_js_url = exporter.jquery_url = exporter.widget_renderer_url = ""
    notebook = nbformat.read(path, as_version=4)
    html, _ = exporter.from_notebook_node(notebook)
    return with_alt_texts(html, notebook)


def with_alt_texts(html: str, notebook) -> str:
    """Give each picture the description that its output carries; nbconvert leaves it out."""
    from bs4 import BeautifulSoup

    page = BeautifulSoup(html, "html.parser")
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    hints = [o.metadata["image/png"] for o in outputs if "image/png" in o.get("data", {})]
    for image, hint in zip(page.select("img"), hints, strict=True):
        image["alt"] = hint["alt"]
    return str(page)
