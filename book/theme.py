"""Repairs to the theme's pages, so that everybody can use them."""

import re
from html import escape, unescape

from .widgets import MOUNTS, SCRIPT

AFTER_THE_THEME = 900  # priority: by then the theme has added its own functions
EMPTY_HEAD = re.compile(r"<th class=\"head[^\"]*\">(?:<p></p>)?</th>")
BRANCH = re.compile(r"(>([^<>]+)</a>\s*<details[^>]*>\s*<summary)>")


def mend(app, pagename, templatename, context, doctree):
    """Turn empty table heads into cells, load the widgets' script and name the sidebar's arrows."""
    if "body" in context:
        body = EMPTY_HEAD.sub("<td></td>", context["body"])
        script = f'<script defer src="{context["pathto"](SCRIPT, resource=True)}"></script>'
        context["body"] = body + script * (MOUNTS in body)
    if (made := context.get("generate_toctree_html")) is not None:
        context["generate_toctree_html"] = lambda *args, **add_label: name_branches(
            made(*args, **add_label)
        )


def name_branches(toctree) -> str:
    return BRANCH.sub(add_label, str(toctree))


def add_label(found) -> str:
    title = " ".join(unescape(found[2]).split())
    return f'{found[1]} aria-label="{escape(title)}: its pages">'


def setup(app):
    app.connect("html-page-context", mend, priority=AFTER_THE_THEME)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
