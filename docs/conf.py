"""Settings of the documentation site: ``sphinx-build -W -b html docs docs/_build/html``."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from zoo._version import __version__

HERE = Path(__file__).resolve().parent

project = "zoo"
author = "the zoo developers"
copyright = "the zoo developers"
release = version = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx-mathjax-offline",  # copies MathJax into _static: the site needs no network to show formulas
    "sphinx_copybutton",
    "sphinx_design",
    "sphinxcontrib.bibtex",
]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
exclude_patterns = ["_build", "jupyter_execute"]
html_theme = "furo"
html_title = "zoo"
html_static_path = ["_static"]
html_css_files = ["zoo.css"]

nb_execution_mode = "off"  # the notebooks are stored with their outputs
nb_merge_streams = True
myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
myst_heading_anchors = 3

mathjax_path = "mathjax/tex-chtml.js"  # in _static

# What the button copies: of a block with prompts the commands alone, of any other block all of it.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"

bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "plain"
bibtex_reference_style = "author_year"

for name in ("arviz", "pytensor"):  # what they say about their configuration is no news here
    logging.getLogger(name).setLevel(logging.WARNING)

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings name the types
napoleon_google_docstring = False
napoleon_numpy_docstring = True
napoleon_use_rtype = False
# Words such as "noise" in the type of a parameter are the names of several attributes, and links to none.
suppress_warnings = ["ref.python"]


def copy_notebooks(app) -> None:
    """Copy the notebooks under the root of the site: Sphinx reads nothing outside it."""
    target = HERE / "notebooks"
    target.mkdir(exist_ok=True)
    source = HERE.parent / "notebooks"
    for old in target.glob("*.ipynb"):
        if not (source / old.name).exists():
            old.unlink()
    for notebook in sorted(source.glob("*.ipynb")):
        shutil.copyfile(notebook, target / notebook.name)


def setup(app) -> None:
    """Called by Sphinx."""
    app.connect("builder-inited", copy_notebooks)
