"""Notebooks as files and as data, without validation, which would take longer than all else."""

from pathlib import Path

from nbformat import NotebookNode, from_dict, v4

KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


def read(path: Path) -> list:
    """Return the cells of a notebook."""
    return v4.reads(path.read_text(encoding="utf-8")).cells


def write(path: Path, cells):
    notebook = {"cells": cells, "metadata": KERNEL, "nbformat": 4, "nbformat_minor": 5}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(v4.writes(from_dict(notebook)), encoding="utf-8")


def markdown(source: str, name: str) -> NotebookNode:
    return from_dict({"cell_type": "markdown", "id": name, "metadata": {}, "source": source})


def code(source: str, name: str, outputs, tags) -> NotebookNode:
    metadata = {"tags": list(tags)}
    return from_dict({"cell_type": "code", "id": name, "metadata": metadata, "source": source,
                      "outputs": list(outputs), "execution_count": None})  # fmt: skip


def new_stream_output(text: str, stream="stdout") -> NotebookNode:
    return from_dict({"output_type": "stream", "name": stream, "text": text})


def new_display_output(kind: str, text: str) -> NotebookNode:
    """Return an output of one MIME type, such as "text/html"."""
    return from_dict({"output_type": "display_data", "data": {kind: text}, "metadata": {}})


def new_html_output(html: str) -> NotebookNode:
    return new_display_output("text/html", html)
