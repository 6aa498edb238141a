"""All views of a picture with controls, as files, for pages that have no kernel.

The build of a part names a place, assets/views/STEM. The views of the part's first explore() are
then in STEM-1.json, and their pictures are in files named after their content:

    controls     for each: name, label, the texts of its values, and whether it is a slider
    chosen       the choice at the start: {name: index of the value}
    is_film, action, height    as in the live controls; nothing is measured without a kernel
    views        {key of the choice: see `view_of`; src is the name of a file in the same folder}

If no picture can be drawn for a choice, its view has a message and the picture of another choice.
recorded.js shows the views.
"""

import hashlib
import io
import itertools
import json
from dataclasses import replace
from pathlib import Path

from ..basics.screen import EXPLORER
from ..pictures.palette import reduce_colors
from ..pictures.style import Picture
from .controls import Control, is_film
from .views import Views, key_of

MOST_VIEWS = 48
EFFORT = 4  # of the encoder; 6, the maximum, saves at most 7 % and takes ten times as long
HERE = Path(__file__).parent
EXPORT, IMPORT = "export default { render };\n", 'import explorer from "./explorer.js";\n'


class ExplorerPicture(Picture):
    """The first picture; the metadata of its output names the record of all views."""

    def __init__(self, picture: Picture, name):
        super().__init__(picture.figure, picture.alt)
        self.drawn, self.name = picture.png(), name

    def _repr_mimebundle_(self, **settings):
        data, metadata = super()._repr_mimebundle_(**settings)
        return data, metadata | {EXPLORER: self.name}


def record_views(draw, controls, start: Picture, no_effect, place: Path) -> ExplorerPicture:
    """Draw all views, write them to files and return the first picture.

    draw, no_effect  see `explore`
    controls         the controls, with the values that a learner can choose
    start            the picture of the first values, already drawn
    place            FOLDER/STEM of the part
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    name = f"{place.name}-{1 + len(list(place.parent.glob(f'{place.name}-*.json')))}"
    film = is_film(controls)  # even if some of its pictures are left out
    controls, choices = choices_of(controls)
    views = Views(draw, controls, start, no_effect, lambda png: write_picture(png, place))
    seen = {key_of(views.chosen): views.start}
    seen |= {key_of(each): views.draw_view(each) for each in choices if each != views.chosen}
    record = {
        "controls": [control.serialise() for control in controls],
        "chosen": views.chosen,
        "is_film": film,
        "action": "",
        "height": max(view["height"] for view in seen.values()),
        "views": seen,
    }
    text = json.dumps(record, ensure_ascii=False, indent=1)
    place.with_name(f"{name}.json").write_text(text + "\n", encoding="utf-8")
    return ExplorerPicture(start, name)


def choices_of(controls: list[Control]) -> tuple[list[Control], list[dict]]:
    """Return the controls with the values that are recorded, and the choices.

    These are all choices if there are at most MOST_VIEWS; otherwise each control changes alone,
    while the others keep their first value.
    """
    numbers = {control.name: range(len(control.values)) for control in controls}
    product = itertools.islice(itertools.product(*numbers.values()), MOST_VIEWS + 1)
    every = [dict(zip(numbers, each)) for each in product]
    if len(every) <= MOST_VIEWS:
        return controls, every
    controls = thin_controls(controls)
    start = {control.name: control.first for control in controls}
    alone = [start | {c.name: n} for c in controls for n in range(len(c.values)) if n != c.first]
    return controls, [start, *alone]


def thin_controls(controls: list[Control]) -> list[Control]:
    """Reduce each control's values until changing one at a time needs at most MOST_VIEWS views."""

    def choices(most):
        return 1 + sum(min(len(control.values), most) - 1 for control in controls)

    most = max(most for most in range(1, MOST_VIEWS + 1) if choices(most) <= MOST_VIEWS)
    return [thin_control(control, most) for control in controls]


def thin_control(control: Control, most: int) -> Control:
    """Keep at most `most` evenly spaced values, including the first and the one at the start."""
    kept = evenly(len(control.values), most)
    if control.first not in kept:
        kept = sorted({*evenly(len(control.values), most - 1), control.first})
    values = tuple(control.values[number] for number in kept)
    return replace(control, values=values, first=kept.index(control.first))


def evenly(count: int, most: int) -> list[int]:
    """Return at most `most` of the numbers below `count`, evenly spaced from first to last."""
    if count <= most:
        return list(range(count))
    return sorted({round(step * (count - 1) / max(most - 1, 1)) for step in range(most)})


def write_picture(png: bytes, place: Path) -> str:
    """Write a picture and return the name of its file; equal pictures share one file."""
    content = encode_webp(png)
    path = place.with_name(f"{place.name}-{hashlib.sha256(content).hexdigest()[:12]}.webp")
    path.write_bytes(content)
    return path.name


def encode_webp(png: bytes) -> bytes:
    """Encode a PNG file as a WebP file with a palette, in a fifth of the bytes."""
    from PIL import Image

    buffer = io.BytesIO()
    with Image.open(io.BytesIO(png)) as picture:
        few = reduce_colors(picture).convert("RGB")
    few.save(buffer, "WEBP", lossless=True, quality=100, method=EFFORT)
    return buffer.getvalue()


def page_script() -> str:
    """Return recorded.js with all that it imports, as one program for `<script defer>`.

    Browsers load no modules from a folder on the disk, but they do load such a program.
    """
    explorer = (HERE / "explorer.js").read_text(encoding="utf-8")
    recorded = (HERE / "recorded.js").read_text(encoding="utf-8")
    assert EXPORT in explorer and IMPORT in recorded
    explorer = explorer.replace(EXPORT, "const explorer = { render };\n")
    return f"(() => {{\n{explorer}{recorded.replace(IMPORT, '')}}})();\n"
