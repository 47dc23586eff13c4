"""The four kinds of certificates, the claims of each, and what is shown of them.

`verify` judges claims about arrays, and `check` requires that files prove what they say.
"""

import math
from collections import namedtuple

from . import pieces
from .capacity import AlmostImpossible, Impossible, Onto
from .claim import PROVED
from .decoders import Decoder, Executed, Recites
from .error import Error, Labels
from .files import read_json, require, require_claims, silent
from .float_model import INTEGER_MODELS, MODELS
from .layers import Layer
from .near import Near
from .paired import PairedLayer, PairedRank
from .rank import Grouping, Rank, RankOfDecoder
from .sequences import Equality, Sequences, Size

# All kinds of certificates, and the claims that each may make: a new claim is a line here.

CLAIMS = {
    Layer: (Grouping, Rank, Error, Labels, Onto, Near, Impossible, AlmostImpossible),
    PairedLayer: (PairedRank, Error),
    Decoder: (RankOfDecoder, Recites, Executed),
    Sequences: (Equality, Size),
}
KINDS = {kind.format: kind for kind in CLAIMS}
STATEMENTS = {claim.name: claim.statement for claim in CLAIMS[Layer]}

Options = namedtuple("Options", "quick asked epsilon most tell bits", defaults=[silent, 4096])


def layer(weights, data, *, hashes=b"", bits=4096, jobs=1, tell=silent):
    """A layer on data, which claims are about: arrays by their names in files.

    hashes: of both, for a quick check of rank;  bits: of digits which may be taken
    jobs: threads, for this process from now on
    """
    pieces.take(jobs)
    about = Layer(weights, data, hashes, Options(False, (), math.inf, math.inf, tell, bits))
    about.solves = True
    return about


def paired_layer(weights, data, *, jobs=1, tell=silent):
    """The same of heads in pairs; contexts may be what has rows, a shape, max and min."""
    pieces.take(jobs)
    return PairedLayer(weights, data, tell)


def decoder(weights, texts, model, *, tell=silent, **others):
    """A decoder on texts of numbers of tokens (N,): arrays by their names in files.

    model: of its programs, by name;  others: prompt, window and period (`Decoder`)
    """
    known = (MODELS | INTEGER_MODELS)[model]
    about = Decoder(weights, texts, known, Options(False, (), math.inf, math.inf, tell), **others)
    about.solves = True
    return about


def sequence_memorizer(weights, data, *, most=8e9, tell=silent):
    """A memorizer of sequences, and data: what their files hold, of which `most` bytes are made."""
    return Sequences(weights, data, Options(False, (), math.inf, most, tell))


def verify(name, evidence, about):
    """What is known of the claim of that name with this evidence: a Found."""
    known = {claim.name: claim for claim in CLAIMS[type(about)]}
    return known[name]({"evidence": evidence}).judge(about)


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
    return statements(KINDS[form], content, others, Options(quick, asked, epsilon, most, tell))


def statements(kind, content, files, options):
    """The statements, if all claims hold: what each shows, and what it says; and all together."""
    known = {claim.name: claim for claim in CLAIMS[kind]}
    told = require_claims(content, known, options.asked)
    claims = {name: known[name](told[name]) for name in told}
    errors = [claim.error for claim in claims.values()]
    errors = [error for error in errors if error is not None]
    claimed = max(errors, default=math.inf) <= options.epsilon
    require(claimed, "error: epsilon is not claimed, or is larger")
    about, shown = kind.read(content, files, claims, options), {}
    for name, claim in claims.items():
        options.tell(name, 0, 1)
        found = claim.judge(about)
        require(found.verdict == PROVED, f"{name}: {found.detail}")
        shown[name] = found.statement
        require(told[name]["statement"] == shown[name], f"it does not state: {shown[name]}")
    return shown
