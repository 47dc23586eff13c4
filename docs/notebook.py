"""A page as a Jupyter notebook: `python docs/notebook.py docs/tutorial.md` writes tutorial.ipynb.

The page is what is written and tested; the notebook has its text and its code, with what they
show, for those who want to run it. Both lie beside each other, so that their links are the same.
Needs nbclient and ipykernel.
"""

import doctest
import json
import re
import sys
from pathlib import Path
from typing import Any

NOTEBOOKS = ["tutorial.md"]
"""The pages which have one."""


def cells(page: str) -> list[dict[str, Any]]:
    """The cells of a page: its text, and its examples up to each output, which a cell shows."""
    found: list[dict[str, Any]] = []
    for index, part in enumerate(re.split(r"(?ms)^```pycon\n(.*?)^```\n", page)):
        if index % 2 == 0:
            if part.strip():
                found.append({"cell_type": "markdown", "metadata": {}, "source": part.strip("\n")})
            continue
        lines = ""
        examples = doctest.DocTestParser().get_examples(part)
        for example in examples:
            lines += example.source
            if example.want or example is examples[-1]:
                found.append(_code(lines.rstrip("\n"), fails=example.exc_msg is not None))
                lines = ""
    return [cell | {"id": f"cell-{number}"} for number, cell in enumerate(found, 1)]


def notebook(page: str) -> str:
    """The notebook of a page, as the text of an .ipynb file (nbformat 4.5)."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {
        "cells": cells(page),
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def executed(text: str) -> str:
    """The notebook with the outputs of its cells, but not when they ran or on what."""
    import nbclient  # noqa: PLC0415 - the tests of pages need the rest
    import nbformat  # noqa: PLC0415

    ran = nbclient.NotebookClient(nbformat.reads(text, 4), timeout=600).execute()
    nbformat.validate(ran)
    content = json.loads(text)
    for cell, done in zip(content["cells"], ran.cells, strict=True):
        if cell["cell_type"] == "code":
            cell |= {"execution_count": done.execution_count, "outputs": done.outputs}
            for each in cell["outputs"]:
                each.pop("traceback", None)  # which names files of this machine
                if each["output_type"] == "error":
                    each["traceback"] = [f"{each['ename']}: {each['evalue']}"]
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _code(source: str, *, fails: bool) -> dict[str, Any]:
    tags = {"tags": ["raises-exception"]} if fails else {}  # then the cells after it run as well
    empty = {"execution_count": None, "outputs": []}
    return {"cell_type": "code", "metadata": tags, "source": source, **empty}


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        path.with_suffix(".ipynb").write_text(executed(notebook(path.read_text("utf-8"))), "utf-8")
