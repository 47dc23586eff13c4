"""Arguments; the four kinds of certificates, and the claims of each; or folders of instances."""

import argparse
import math
import sys
from collections import namedtuple

from . import pieces
from .decoders import Decoder, ExecutedOfDecoder, Recites
from .executed import Executed
from .files import Told, confine, read_json, require, require_claims, silent
from .folder import check_folder
from .labels import Inseparable, Labels
from .layers import Impossible, Layer
from .paired import PairedLayer, PairedRank
from .rank import Grouping, Rank, RankOfDecoder, WideGrouping
from .real import Error, Readout
from .sequences import Equality, Sequences, Size

# All kinds of certificates, and the claims that each may make: a new claim is a line here.

CLAIMS = {
    Layer: (
        Grouping,
        WideGrouping,
        Rank,
        Error,
        Readout,
        Labels,
        Inseparable,
        Executed,
        Impossible,
    ),
    PairedLayer: (PairedRank, Error, Readout),
    Decoder: (RankOfDecoder, Recites, ExecutedOfDecoder),
    Sequences: (Equality, Size),
}
KINDS = {kind.format: kind for kind in CLAIMS}

Options = namedtuple("Options", "quick asked epsilon most tell", defaults=[silent])
INSTANCES = "instances"  # the first word for folders of instances
MOST_WORKERS = 64


def check(files, *, quick=False, asked=(), epsilon=math.inf, most=8e9, tell=silent):
    """The statements which the files of these names prove, by claim; whatever is wrong raises.

    files: certificate, weights and data; no weights for an upper bound
    quick: the claim rank by random products, where there is one
    asked: claims which have to be there;  epsilon: no larger error may be claimed
    most:  bytes of memory which may be taken
    tell:  called with (step, done, total) while it goes on
    """
    certificate, *others = files
    require(1 <= len(others) <= 2, "the files are CERTIFICATE [WEIGHTS] DATA")
    tell("read the certificate", 0, 1)
    content = read_json(certificate, "certificate", most)
    form = content["format"]
    require(form in KINDS, f"the format of the certificate is {str(form)[:60]!r}")
    return verdict(KINDS[form], content, others, Options(quick, asked, epsilon, most, tell))


def verdict(kind, content, files, options):
    """The statements, if all claims hold: what each shows, and what it says; and all together."""
    known = {claim.name: claim for claim in CLAIMS[kind]}
    told = require_claims(content, known, options.asked)
    claims = {name: known[name](told[name]) for name in told}
    errors = [claim.error for claim in claims.values()]
    errors = [error for error in errors if error is not None]
    claimed = max(errors, default=math.inf) <= options.epsilon
    require(claimed, "error: epsilon is not claimed, or is larger")
    about, shown = kind(content, files, claims, options), {}
    for name, claim in claims.items():
        options.tell(name, 0, 1)
        shown[name] = claim.statement.format(*claim.check(about))
        require(told[name]["statement"] == shown[name], f"it does not state: {shown[name]}")
    about.conclude(claims)
    return shown


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
