"""All kinds of claims about a layer, by name, in the order in which they are judged.

A new one is a file, and a line here (and its check among the claims of `checker/layers.py`).
"""

from typing import TYPE_CHECKING

from constructive.support.registry import Registry

if TYPE_CHECKING:
    from constructive.certificates.claims.kind import ClaimKind

HOMES = {
    "grouping": "constructive.certificates.claims.grouping:GROUPING",
    "wide_grouping": "constructive.certificates.claims.wide_grouping:WIDE_GROUPING",
    "rank": "constructive.certificates.claims.rank:RANK",
    "error": "constructive.certificates.claims.error:ERROR",
    "readout": "constructive.certificates.claims.readout:READOUT",
    "executed": "constructive.certificates.claims.executed:EXECUTED",
}

CLAIMS: "Registry[ClaimKind]" = Registry(HOMES)
