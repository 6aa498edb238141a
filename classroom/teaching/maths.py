"""The text of notebooks as HTML: Markdown by mistune, formulas as pictures by matplotlib."""

import io
import re
from base64 import b64encode
from functools import cache
from html import escape

import mistune
from matplotlib import mathtext
from matplotlib.font_manager import FontProperties

FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$\n]+(?:\n[^$\n]+)?)\$", re.DOTALL)
SHORT_FRACTION = re.compile(r"\\frac\s*(\w)\s*(\w)")
SHORT_ROOT = re.compile(r"\\sqrt\s*(\w)")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:)[^)]*\)")
POINTS = 12  # of a formula's letters; pages scale it by `em`
SAME = {
    r"\bmod": r"\;\mathrm{mod}\;",
    r"\dfrac": r"\frac",
    r"\tfrac": r"\frac",
    r"\lVert": r"\Vert",
    r"\rVert": r"\Vert",
}


def render_markdown(markdown: str) -> str:
    """Return a notebook's text as HTML; links to other parts keep only their words."""
    formulas = []

    def keep(found):
        formulas.append(draw_formula(found[1] or found[2], is_block=found[1] is not None))
        return f"FORMULA{len(formulas) - 1}END"

    text = LINK.sub(r"\1", FORMULA.sub(keep, markdown))
    html = mistune.create_markdown(plugins=["table"])(text)
    return re.sub(r"FORMULA(\d+)END", lambda found: formulas[int(found[1])], html)


@cache
def draw_formula(latex: str, is_block=False) -> str:
    """Draw a formula as an image within a line, or in its own line."""
    latex = plain(latex)
    where = io.BytesIO()
    depth = mathtext.math_to_image(
        f"${latex}$", where, prop=FontProperties(size=POINTS), dpi=72, format="svg"
    )
    text = where.getvalue().decode()
    width, height = (float(x) for x in re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', text)
                     .groups())  # fmt: skip
    source = b64encode(text.encode()).decode()
    style = (
        f"width:{width / POINTS:.3f}em;height:{height / POINTS:.3f}em;"
        f"vertical-align:{-depth / POINTS:.3f}em"
    )
    kind = "formula block" if is_block else "formula"
    return (
        f'<img class="{kind}" alt="{escape(latex)}" style="{style}" '
        f'src="data:image/svg+xml;base64,{source}">'
    )


def plain(latex: str) -> str:
    """Return LaTeX that matplotlib's own parser can read."""
    latex = SHORT_FRACTION.sub(r"\\frac{\1}{\2}", " ".join(latex.split()))
    latex = SHORT_ROOT.sub(r"\\sqrt{\1}", latex)
    for name, known in SAME.items():
        latex = re.sub(re.escape(name) + r"(?![a-zA-Z])", lambda _, known=known: known, latex)
    return latex.strip()
