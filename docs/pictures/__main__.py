"""Write the pictures: `python -m docs.pictures [NAME ...]`, by default all of them."""

import sys
from pathlib import Path

from docs.pictures import PICTURES

for name, draw in PICTURES.items():
    if not sys.argv[1:] or name in sys.argv[1:]:
        (Path(__file__).parents[1] / name).write_text(str(draw()), encoding="utf-8")
