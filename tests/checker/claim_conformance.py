"""`check_claim`: what every kind of claim has to do, whatever it claims."""

import dataclasses
import json
import re

from constructive import Certificate, Verdict, check
from constructive.certificates.claims.impossible import AllWeights
from constructive.certificates.claims.kind import CertifyOptions
from constructive.certificates.families import ALL_WEIGHTS, family_of

OPTIONS = {field.name for field in dataclasses.fields(CertifyOptions)}
FORGED = "123456789"


def family(weights):
    """The family of weights, or of all weights."""
    return ALL_WEIGHTS if isinstance(weights, AllWeights) else family_of(weights)


def certified(name, subject, **options):
    """A certificate with that claim (and those that it brings with it)."""
    weights, data = subject
    return family(weights).prove(weights, data, (name,), CertifyOptions(**options))


def checked(certificate, subject):
    """What the independent checker says of a certificate about these weights and data."""
    weights, data = subject
    return check(certificate, None if isinstance(weights, AllWeights) else weights, data)


def altered(certificate, name, **changes):
    """The certificate with another claim of that name, which is called PROVED."""
    claims = tuple(
        dataclasses.replace(claim, **changes) if claim.name == name else claim
        for claim in certificate.claims
    )
    return dataclasses.replace(certificate, claims=claims)


def check_claim(kind, holds, fails, *, statements, folder):
    """Look at all that is asked of a kind of claim.

    Args:
        kind: the `ClaimKind`
        holds: weights and data of which it can be proved
        fails: other weights and data, of which it is false or cannot be proved
        statements: the sentences of the checker
        folder: for files
    """
    name = kind.name
    # What it says of itself.
    assert family(holds[0]).available(holds[0])[name] is kind
    assert kind.options <= OPTIONS
    assert kind.statement in statements.values()
    # What holds is proved, in the words of its sentence, twice the same, and survives a file.
    certificate = certified(name, holds)
    claim = certificate[name]
    assert (claim.name, claim.verdict, claim.witness) == (name, Verdict.PROVED, None)
    places = re.sub(r"\\\{(!r)?\\\}", ".*", re.escape(kind.statement))
    assert re.fullmatch(places, claim.statement)
    assert claim.detail
    assert json.loads(json.dumps(claim.evidence)) == claim.evidence
    assert certified(name, holds) == certificate
    if "seed" in kind.options:
        assert certified(name, holds, seed=5)[name].proved
    certificate.save(folder / "c.json")
    assert Certificate.load(folder / "c.json") == certificate
    # What does not hold is not proved: a witness refutes it, or words say what to try.
    failing = certified(name, fails)
    assert failing[name].verdict is not Verdict.PROVED, "it is PROVED where it is false"
    assert failing[name].verdict is not Verdict.REFUTED or failing[name].witness is not None
    assert failing[name].detail
    # Whoever checks it needs no trust in it.
    assert checked(certificate, holds).proved, "the checker refuses what holds"
    statement = re.sub(r"\d+", FORGED, claim.statement, count=1)
    assert statement != claim.statement
    assert not checked(altered(certificate, name, statement=statement), holds).proved
    if claim.evidence:
        assert not checked(altered(certificate, name, evidence={}), holds).proved
    forged = dataclasses.replace(failing, claims=certificate.claims, format=certificate.format)
    assert not checked(forged, fails).proved
