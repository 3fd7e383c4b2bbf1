"""Sphinx: MyST Markdown pages that quote the shipped code."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "minitorch2"
author = "the minitorch2 authors"
copyright = f"2026, {author}"

extensions = ["myst_parser", "generated_tables", "reference_pages", "source_pages"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "minitorch2"
html_static_path = ["static"]
html_css_files = ["book.css"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
python_maximum_signature_line_length = 88
highlight_language = "python"
suppress_warnings = [
    "misc.highlighting_failure",  # `output` blocks are no language
    "ref.python",  # two classes may have one short name; signatures name them as the code does
]
