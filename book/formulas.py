"""Formulas as MathML, written with the site, so that no script and no network has to show them."""

import re
from html import escape

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.util import logging

END = re.compile(r"\{([.,;:?!])\}$")  # a sentence's punctuation, in the formula to share its line
SHORT_FRACTION = re.compile(r"\\(frac|dfrac|tfrac)\s*(\d)\s*(\d)")
SAME = {r"\dots": r"\ldots ", "…": r"\ldots ", "·": r"\cdot "}
SAME_PATTERN = re.compile(r"\\dots(?![a-zA-Z])|…|·")
log = logging.getLogger(__name__)


def mathml(latex: str, is_block=False) -> str:
    """Return a formula as MathML.

    Raises  latex2mathml.MathError if it cannot be read
    """
    return latex2mathml.tex2mathml(plain(latex), as_block=is_block)


def plain(latex: str) -> str:
    """Return LaTeX that docutils' own parser can read."""
    text = SAME_PATTERN.sub(lambda found: SAME[found[0]], " ".join(latex.split()))
    return SHORT_FRACTION.sub(r"\\\1{\2}{\3}", text)


def render_formula(node, is_block=False) -> str:
    latex = node.astext().strip()
    sign = END.search(latex)
    latex = END.sub("", latex)
    try:
        return mathml(latex, is_block) + (sign[1] if sign else "")
    except latex2mathml.MathError as error:
        log.warning("a formula cannot be read: %s: %s", latex, error)
        return f"<code>{escape(latex)}</code>"


def visit_math(self, node):
    self.body.append(f'<span class="course-formula">{render_formula(node)}</span>')
    raise nodes.SkipNode


def visit_math_block(self, node):
    block = render_formula(node, is_block=True)
    self.body.append(f'<div class="course-equation" tabindex="0">{block}</div>')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
