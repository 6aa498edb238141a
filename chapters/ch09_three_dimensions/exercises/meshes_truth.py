"""What is right, and what mistakes give: see meshes.py."""

from .meshes import all_places


def first_axis_fastest(sizes) -> list[dict[str, int]]:
    """The mistake to count from the other side."""
    turned = all_places(dict(reversed(sizes.items())))
    return [{axis: at[axis] for axis in sizes} for at in turned]
