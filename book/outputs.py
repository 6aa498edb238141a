"""The outputs of an executed record's cells, as a page shows them: without any answer."""

import re
from html import escape, unescape

from coursekit.building.record_pictures import png_of

from .notebook_format import new_display_output, new_html_output, new_stream_output
from .pictures import Pictures, decode_data_url
from .widgets import embed_widget

ABOUT_LABS = re.compile(r"^(?:solutions/)?labs/\w+\.py[,:].*\n?", re.MULTILINE)
ASKED = re.compile(r"^Predict: (.+) \(([^()]*(?:\([^()]*\))?[^()]*)\)\n?$", re.MULTILINE)
STYLE = re.compile(r"<style>.*?</style>", re.DOTALL)
PICTURE = re.compile(
    r'<div class="course-picture" tabindex="0"><img alt="([^"]*)"[^>]*?'
    r'src="(data:image/png;base64,[^"]+)"[^>]*></div>'
)
VERDICT = re.compile(r"(?:Exercise \d+\.\d+ ·|Part \d\d\w? ·)")
TABLE = '<div style="overflow-x:auto" tabindex="0">'
NOT_PREDICTED = " no prediction; "
FOCUSABLE = '<div class="course-table" role="group" aria-label="Table" tabindex="0">'


class PageOutputs:
    """The outputs of the cells of one part, in their order.

    stem      name of the part's notebook
    pictures  receives the pictures that the outputs show
    """

    def __init__(self, stem: str, pictures: Pictures):
        self.stem, self.pictures = stem, pictures

    def outputs_of(self, cell) -> list:
        """Return an executed cell's outputs without verdicts, which judge the record's answers."""
        return [made for output in cell.outputs for made in self.convert_output(output)]

    def convert_output(self, output) -> list:
        if output.output_type == "stream":
            return self.convert_stream(output)
        html, plain = (output.data.get(kind, "") for kind in ("text/html", "text/plain"))
        if VERDICT.match(plain):
            return []
        if "image/png" in output.data:
            html = self.picture(plain, png_of(output))
        if html:
            return [new_html_output(self.html_of(html, output.metadata))]
        return [new_display_output("text/plain", plain)]

    def convert_stream(self, output) -> list:
        """Convert printed text: without the lines on labs, and with a form for each question."""
        text = ABOUT_LABS.sub("", output.text)
        questions = ASKED.findall(text)
        rest = ASKED.sub("", text)
        kept = [new_stream_output(rest, output.name)] if rest.strip() else []
        return kept + [new_html_output(question_of(*one)) for one in questions]

    def html_of(self, html: str, metadata) -> str:
        """Return HTML with pictures as files and, for a widget's picture, with all its states."""
        html = PICTURE.sub(self.picture_found, STYLE.sub("", html)).replace(TABLE, FOCUSABLE)
        return embed_widget(metadata["explorer"], html) if "explorer" in metadata else html

    def picture_found(self, found) -> str:
        return self.picture(unescape(found[1]), decode_data_url(found[2]))

    def picture(self, alt: str, png: bytes) -> str:
        question, is_answer, told = alt.partition(NOT_PREDICTED)
        guessed = render_prediction(question) if is_answer else ""
        alt = f"{question}: {told}" if is_answer else alt
        return guessed + self.pictures.html(png, alt, self.stem)


def question_of(question: str, unit: str) -> str:
    """Return a box for the reader's number, which book.js keeps in the browser and shows later."""
    asked = escape(question)
    return (
        f'<form class="course-guess" data-question="{asked}" data-unit="{escape(unit)}">'
        f'<label><span>Predict: {asked}</span> <input type="text" inputmode="decimal" '
        f'autocomplete="off"></label> <span>{escape(unit)}</span></form>'
    )


def render_prediction(question: str) -> str:
    """Return the place above an answer's picture where book.js shows the reader's prediction."""
    return f'<p class="course-guessed" data-question="{escape(question)}" hidden></p>'
