"""Pages that need no other file, and print well."""

import re
from html import escape

LOOK = """
body { max-width: 46rem; margin: 2rem auto; padding: 0 1.5rem; color: #222222; background: white;
  font: 16px/1.5 "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; }
h1 small { font-size: 1rem; font-weight: normal; color: #595959; }
h2 { font-size: 1.1rem; margin: 1.6rem 0 0.3rem; }
.minutes { float: right; font-weight: normal; font-size: 0.9rem; color: #595959; }
.name { border-bottom: 1px solid #222222; padding-bottom: 0.1rem; }
.right { border-left: 4px solid #00694B; padding-left: 0.8rem; font-weight: bold; }
pre { background: #F3F3F3; padding: 0.5rem 0.8rem; font-size: 0.9rem; overflow-wrap: anywhere;
  white-space: pre-wrap; }
section { break-inside: avoid; }
@page { size: A4; margin: 18mm; }
@media print { body { margin: 0; max-width: none; padding: 0; font-size: 11pt; } }
"""


def page(title: str, body: str, look: str = LOOK, script: str = "") -> str:
    code = f"<script>\n{script}\n</script>\n" if script else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{look}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n{code}</body>\n</html>\n"
    )


def prose(text: str) -> str:
    """Return paragraphs as HTML; those whose lines begin with four spaces are code."""
    return "\n".join(
        f"<pre>{escape(re.sub('^    ', '', part, flags=re.M))}</pre>"
        if part.startswith("    ")
        else f"<p>{format_inline_code(escape(part))}</p>"
        for part in text.split("\n\n")
    )


def format_inline_code(escaped: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped)
