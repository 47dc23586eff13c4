"""The claims about decoders: *rank*, *recites* and *executed*, by name."""

from constructive.certificates.claims.decoders import executed, rank, recites

CLAIMS = {"rank": rank.prove, "recites": recites.prove, "executed": executed.prove}
