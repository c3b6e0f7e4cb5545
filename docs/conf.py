"""The documentation site: ``scripts/docs`` builds it, warnings are errors."""

import os
import sys
from pathlib import Path

import matplotlib as mpl

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS / "_extensions"), str(DOCS.parent)]
os.environ.setdefault("KERAS_BACKEND", "torch")  # Keras reads it when it is imported
mpl.use("Agg")

import nearcal  # noqa: E402

project = "nearcal"
author = "The nearcal developers"
copyright = author
release = version = nearcal.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_design",
    "executed",
    "mathml",
    "results",
]
exclude_patterns = ["_build", "_generated"]
templates_path = ["_templates"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "tasklist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say it in words
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the template of a class lists them

toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
html_title = f"nearcal {version}"
html_static_path = ["_static"]
html_css_files = ["nearcal.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "nearcal"},
    "navbar_align": "left",
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": [], "getting_started": [], "changelog": []}
