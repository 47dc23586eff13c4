"""Arguments: of certificates, or of folders of instances."""

import argparse
import math
import sys

from . import pieces
from .files import Told, confine, silent
from .instances import check_folder
from .verify import check

INSTANCES = "instances"  # the first word for folders of instances
MOST_WORKERS = 64


def gigabytes(text):
    size = float(text)
    if not 0 < size < math.inf:
        raise ValueError
    return size


def workers(text):
    """A number of threads or processes."""
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= MOST_WORKERS):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MOST_WORKERS}")
    return int(text)


def certificates(parser):
    """The arguments for certificates, and what to run: the lines, and whether all is proved."""
    parser.add_argument("files", nargs="+", help="CERTIFICATE [WEIGHTS] DATA")
    parser.add_argument("--quick", action="store_true", help="rank by products, error < 2^-100")
    parser.add_argument("--claims", nargs="*", default=(), help="refuse if one is missing")
    parser.add_argument("--epsilon", type=float, default=math.inf, help="refuse a larger epsilon")
    usual = pieces.usual()
    parser.add_argument("--jobs", type=workers, default=usual, help="threads, 1 to 64")

    def run(given, **options):
        pieces.take(given.jobs)
        asked = {"quick": given.quick, "asked": given.claims, "epsilon": given.epsilon}
        shown = check(given.files, **asked, **options)
        longest = max([9, *map(len, shown)])
        return [f"{name:{longest}} {statement}" for name, statement in shown.items()], True

    return run


def instances(parser):
    """The same for folders of instances."""
    parser.add_argument("folder", help="FOLDER")
    parser.add_argument("--jobs", type=workers, default=1, help="processes, 1 to 64")

    def run(given, most, tell=silent):
        pieces.take(1)
        return check_folder(given.folder, given.jobs, most, tell)

    return run


def reason_of(failure):
    """The words of a requirement, on one line and in ASCII; what else was raised with its class."""
    plain = type(failure) is ValueError and len(failure.args) == 1
    return ascii(str(failure))[1:-1] if plain else ascii(failure)


def main(arguments=None):
    """Run from the command line, where the process is confined, or from a test: 0 or 1."""
    words = sys.argv[1:] if arguments is None else arguments
    of_folder = words[:1] == [INSTANCES]
    what = f"{INSTANCES} FOLDER" if of_folder else "CERTIFICATE [WEIGHTS] DATA"
    usage = f"python -I checker {what} [options]"
    parser = argparse.ArgumentParser(usage=usage, description="Check a certificate, or instances.")
    run = (instances if of_folder else certificates)(parser)
    parser.add_argument("--max-memory", type=gigabytes, default=8.0, help="in GB: refuse more")
    parser.add_argument("--progress", action="store_true", help="tell steps, no terminal needed")
    given = parser.parse_args(words[of_folder:])
    options = {"most": given.max_memory * 1e9}
    if arguments is None:
        confine(options["most"] + (given.jobs - 1) * pieces.ADDRESSES)
    told = Told(sys.stderr)
    if told.terminal or given.progress:
        options["tell"] = told
    try:
        lines, proved = run(given, **options)
        told.end()
    except Exception as failure:  # hostile files make readers raise nearly everything
        told.end()
        print(f"NOT PROVED: {reason_of(failure):.300}")
        return 1
    print(*lines, "PROVED" if proved else "NOT PROVED: not all answers", sep="\n")
    return 0 if proved else 1
