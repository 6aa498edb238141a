"""Pictures in executed records: with a palette, as smaller files."""

import base64
import io

from PIL import Image

from pedagogy_lib.pictures.palette import reduce_colors


def reduce_palettes(notebook):
    """Give all PNG files of a notebook's outputs a palette, in place."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                data["image/png"] = base64.b64encode(compress_png(png_of(output))).decode()


def find_cover(notebook) -> bytes | None:
    """Return the PNG file that the cell with the tag `cover` has drawn in an executed notebook."""
    for cell in notebook.cells:
        if "cover" in cell.metadata.get("tags", []):
            return next(png_of(o) for o in cell.outputs if "image/png" in o.get("data", {}))
    return None


def png_of(output) -> bytes:
    """Return the PNG file that an output shows."""
    return base64.b64decode(output["data"]["image/png"])


def compress_png(png: bytes) -> bytes:
    """Return the picture as a PNG file with a palette, or unchanged if that is smaller."""
    file = io.BytesIO()
    with Image.open(io.BytesIO(png)) as picture:
        reduce_colors(picture).save(file, "PNG", optimize=True)
    return min(file.getvalue(), png, key=len)
