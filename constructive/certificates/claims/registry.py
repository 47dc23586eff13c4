"""All kinds of claims by name, in the order in which they are judged: a row for each family.

A new one is a file, and a line here (and its check among those of the checker). A claim about
several families has a line in each of their rows.
"""

from typing import TYPE_CHECKING

from constructive.support.registry import Registry

if TYPE_CHECKING:
    from constructive.certificates.claims.kind import ClaimKind

HOMES = {
    "layer": {
        "grouping": "constructive.certificates.claims.grouping:GROUPING",
        "wide_grouping": "constructive.certificates.claims.grouping:WIDE_GROUPING",
        "rank": "constructive.certificates.claims.rank:RANK",
        "error": "constructive.certificates.claims.error:ERROR",
        "readout": "constructive.certificates.claims.readout:READOUT",
        "executed": "constructive.certificates.claims.executed:EXECUTED",
    },
    "decoder": {
        "rank": "constructive.certificates.claims.rank:DECODER_RANK",
        "recites": "constructive.certificates.claims.recites:RECITES",
        "executed": "constructive.certificates.claims.executed:DECODER_EXECUTED",
    },
    "sequences": {
        "equality": "constructive.certificates.claims.sequences:EQUALITY",
        "size": "constructive.certificates.claims.sequences:SIZE",
    },
    "all weights": {
        "impossible": "constructive.certificates.claims.impossible:IMPOSSIBLE",
    },
}

CLAIMS: "dict[str, Registry[ClaimKind]]" = {row: Registry(homes) for row, homes in HOMES.items()}
