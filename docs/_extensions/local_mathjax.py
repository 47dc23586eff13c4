"""MathJax as a part of the site, so that formulas need no other server; or from its CDN.

`mathjax_from = "site"` in conf.py takes it from the package sphinx-mathjax-offline;
`sphinx-build -D mathjax_from=cdn docs build/site` leaves it to the CDN that Sphinx knows.
"""

from importlib.metadata import files
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import ENUM, Config
from sphinx.util.fileutil import copy_asset

PACKAGE = "sphinx-mathjax-offline"
PROGRAM = "tex-chtml.js"
PARTS = [PROGRAM, "output/chtml/fonts/woff-v2"]
"""Of 24 MB those which TeX needs in a browser: the program and its fonts, 2 MB."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx calls this."""
    app.add_config_value("mathjax_from", "site", "html", ENUM("site", "cdn"))
    app.connect("config-inited", _choose)
    app.connect("build-finished", _ship)
    return {"parallel_read_safe": True}


def _choose(_app: Sphinx, config: Config) -> None:
    if config.mathjax_from == "site":
        config.mathjax_path = f"mathjax/{PROGRAM}"


def _ship(app: Sphinx, failed: Exception | None) -> None:
    if failed or app.config.mathjax_from != "site" or app.builder.format != "html":
        return
    program = next(file for file in files(PACKAGE) or [] if file.name == PROGRAM)
    source = Path(str(program.locate())).parent
    target = Path(app.outdir) / "_static" / "mathjax"
    for part in PARTS:
        copy_asset(source / part, (target / part).parent if part == PROGRAM else target / part)
