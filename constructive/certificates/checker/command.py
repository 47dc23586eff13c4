"""Arguments, and which of the four kinds of certificate it is."""

import argparse
import math
import sys
from collections import namedtuple

from files import confine, read_json, require, require_claims
from registry import CLAIMS, KINDS
from steps import Told, silent

Options = namedtuple("Options", "quick asked epsilon most tell", defaults=[silent])


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


def main(arguments=None):
    """Run from the command line, where the process is confined, or from a test: 0 or 1."""
    usage = "python -I checker CERTIFICATE [WEIGHTS] DATA [options]"
    parser = argparse.ArgumentParser(usage=usage, description="Check a certificate.")
    parser.add_argument("files", nargs="+", help="CERTIFICATE [WEIGHTS] DATA")
    parser.add_argument("--quick", action="store_true", help="rank by products, error < 2^-100")
    parser.add_argument("--claims", nargs="*", default=(), help="refuse if one is missing")
    parser.add_argument("--epsilon", type=float, default=math.inf, help="refuse a larger epsilon")
    parser.add_argument("--max-memory", type=gigabytes, default=8.0, help="in GB: refuse more")
    parser.add_argument("--progress", action="store_true", help="tell steps, no terminal needed")
    given = parser.parse_args(arguments)
    most = given.max_memory * 1e9
    if arguments is None:
        confine(most)
    options = {"quick": given.quick, "asked": given.claims, "epsilon": given.epsilon}
    told = Told(sys.stderr)
    if told.terminal or given.progress:
        options["tell"] = told
    try:
        shown = check(given.files, most=most, **options)
        told.end()
    except Exception as failure:  # hostile files make readers raise nearly everything
        told.end()
        print(f"NOT PROVED: {failure!a:.300}")
        return 1
    longest = max([9, *map(len, shown)])
    lines = (f"{name:{longest}} {statement}" for name, statement in shown.items())
    print(*lines, "PROVED", sep="\n")
    return 0
