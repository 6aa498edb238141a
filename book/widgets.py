"""Widgets without a kernel: all states of a recorded one; the still picture of any other."""

import json
import shutil
from html import escape
from pathlib import Path

from coursekit.building.build import ROOT

VIEWS = ROOT / "assets" / "views"
FOLDER = "views"
SCRIPT = "_static/recorded.page.js"
MOUNTS = '<div class="course-recorded"'


def embed_widget(name: str, still: str, views: Path = VIEWS, up="../") -> str:
    """Return the place where recorded.js shows all states, and the still picture until then.

    name  of the record: "02c_the_ring-1"; without one, the still picture is returned alone
    """
    path = views / f"{name}.json"
    if not path.exists():
        return still
    record = json.loads(path.read_text(encoding="utf-8"))
    for view in record["views"].values():
        view["src"] = f"{up}{FOLDER}/{view['src'].rpartition('/')[2]}"
    data = json.dumps(record, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    return (
        f'{MOUNTS} data-name="{escape(name)}">'
        f'<script type="application/json">{data}</script>{still}</div>'
    )


def put(site: Path, views: Path = VIEWS):
    """Write the pictures of all states and the script that shows them, if any state is recorded."""
    if not any(views.glob("*.json")):
        return
    from pedagogy_lib.widgets.view_files import page_script

    (site / FOLDER).mkdir(parents=True, exist_ok=True)
    for image in sorted(views.glob("*.webp")):
        shutil.copy(image, site / FOLDER)
    (site / SCRIPT).parent.mkdir(exist_ok=True)
    (site / SCRIPT).write_text(page_script(), encoding="utf-8")
