"""Pictures of pages, drawn from real objects: `python -m docs.pictures` writes them.

Each chapter has one at least. A file for each part of the book draws its pictures;
`docs/drawing.py` has the boxes, arrows, bars and grids that all share.
"""

from collections.abc import Callable

from docs.drawing import Picture
from docs.pictures import capture, captures, charts, gradients, house, loops

PICTURES: dict[str, Callable[[], Picture]] = {
    **capture.PICTURES,
    **gradients.PICTURES,
    **loops.PICTURES,
    **captures.PICTURES,
    **house.PICTURES,
    **charts.PICTURES,
}
"""The drawing function of each picture, by its path below `docs/`."""
