"""The proofs as pages of the site.

They lie in `proofs/`, beside `docs/`, and are read, run and packaged from there. The site takes
copies of them (`docs/proofs/`, which git ignores), in which links are those of their new place;
links of the other pages are turned to the copies while they are read.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("config-inited", _copy)
    app.connect("source-read", _turn)
    return {"parallel_read_safe": True}


def moved(text: str) -> str:
    """A page of proofs with its links as they are one folder below `docs/`."""
    text = text.replace("](../docs/", "](../")
    return text.replace("](rocq/", "](../../proofs/rocq/")


def turned(text: str) -> str:
    """A page of `docs/` which points at the copies: links, and lines of tables of contents."""
    return re.sub(r"(\]\(|^)(?:\.\./)+proofs/(?=\d)", r"\1/proofs/", text, flags=re.MULTILINE)


def _copy(app: Sphinx, _config: object) -> None:
    source, copies = Path(app.srcdir).parent / "proofs", Path(app.srcdir) / "proofs"
    pages = {page.name: moved(page.read_text("utf-8")) for page in source.glob("*.md")}
    if not pages:  # another folder is built with this configuration
        return
    copies.mkdir(exist_ok=True)
    for copy in copies.glob("*.md"):
        if copy.name not in pages:
            copy.unlink()
    for name, text in pages.items():
        copy = copies / name
        if not copy.exists() or copy.read_text("utf-8") != text:  # else it is not read again
            copy.write_text(text, "utf-8")


def _turn(_app: Sphinx, _name: str, source: list[str]) -> None:
    source[0] = turned(source[0])
