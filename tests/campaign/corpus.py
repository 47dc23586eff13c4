"""Certificates of the honest cases of the campaign, to compare two versions byte for byte.

Run it once with each version and compare the folders; what differs is what a change means to
change, or a fault::

    PYTHONPATH=before python tests/campaign/corpus.py before-corpus
    PYTHONPATH=after python tests/campaign/corpus.py after-corpus
    diff -r before-corpus after-corpus

All weights are built anew from seeds, so a certificate, which names the hashes of weights and data,
differs where these do. A version of the library itself (`made_by`) is left out. With `--check` each
certificate is also given to the checker of the version that runs, and its last line is recorded.
"""

import argparse
import contextlib
import io
import json
import sys
import tempfile
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import decoder_forgeries
import hostile
import triples


def cases():
    """Of every kind: a name, the content of a certificate, and how its files are written."""
    layers, pairs, bounds = (
        pool() for pool in (triples.honest_layers, triples.honest_pairs, triples.honest_bounds)
    )
    pools = {"layer": layers, "pairs": pairs, "bound": bounds}
    for kind, pool in (pools | {"decoder": decoder_forgeries.honest()}).items():
        for number, case in enumerate(pool):
            yield f"{kind}-{number}", case.content, case.write
    for number, contents in enumerate(triples.honest_sequences()):
        write = partial(triples.written_sequences, contents=contents)
        yield f"sequences-{number}", contents[0], write


def said_of(write):
    """The last line of the checker."""
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
        files = write(Path(folder))
        with contextlib.redirect_stderr(io.StringIO()):
            hostile.load_checker().main(files)
    return printed.getvalue().splitlines()[-1]


def record(folder, *, checked):
    """Write each certificate as JSON with sorted keys, and return how many there are."""
    made = list(cases())
    for name, content, write in made:
        said = {"checker": said_of(write)} if checked else {}
        kept = {key: value for key, value in content.items() if key != "made_by"} | said
        text = json.dumps(kept, indent=1, sort_keys=True)
        (folder / f"{name}.json").write_text(text + "\n")
    return len(made)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--check", action="store_true", help="give each to the checker, too")
    given = parser.parse_args()
    given.folder.mkdir(parents=True)
    print(record(given.folder, checked=given.check), "certificates")
