"""What `certify` proposes of heads in pairs, whose proof takes no T x T matrix.

That is the order in which pairs take the examples. What the checker makes of it is in the last
section of proofs/12-paired-heads.md.
"""

from constructive import checker
from constructive.certificates.claims.kind import Subject
from constructive.certificates.claims.layers import claim_of, epsilon_of
from constructive.data.dataset import Dataset
from constructive.layers.memorizer import Memorizer
from constructive.support.errors import ParameterError
from constructive.support.verdict import Claim, Evidence, Verdict, pack
from constructive.support.work import report, workers

CLAIMS = "rank", "error"  # Those of certificates of paired heads, in their order
# Examples up to which paired heads are judged as any others, where this proof fails, or is asked
# for together with other claims: its certificates have no place for those.
_LARGEST_DENSE = 2000


def attempt(
    subject: Subject[Memorizer, Dataset], asked: tuple[str, ...]
) -> tuple[Claim, ...] | None:
    """Return the claims, or None where they are to be judged as those of any other heads.

    That is where these are not paired, or other claims are asked for, too, or some are undecided
    and the examples are few. Raises ParameterError where other claims are asked for, and a large
    matrix would be needed.
    """
    total = subject.data.num_examples
    order = order_of(subject.weights, subject.data)
    about = None if order is None else paired_layer(subject.weights, subject.data, order)
    if order is None or about is None:
        return None
    others = [name for name in asked if name not in CLAIMS]
    if "rank" in asked and others and total > _LARGEST_DENSE:
        raise ParameterError(
            f"rank beside {', '.join(others)} would take a T x T matrix for "
            f"T={total} examples; alone, the proof of paired heads takes none",
            witness=total,
            suggestion=f"two certificates: one of {','.join(x for x in asked if x in CLAIMS)}, and "
            f"one of {','.join(others)}",
        )
    if others:
        return None
    proposed = {"rank": order, "error": {"bound": epsilon_of(subject).hex()}}
    claims = tuple(
        claim_of(checker.verify(name, proposed[name], about), proposed[name])
        for name in CLAIMS
        if name in asked
    )
    decided = all(claim.verdict is not Verdict.UNDECIDED for claim in claims)
    return claims if decided or total > _LARGEST_DENSE else None


def order_of(memorizer: Memorizer, dataset: Dataset) -> Evidence | None:
    """Return the order on record, and where the examples of each pair end, if it is of these."""
    record, pairs = memorizer.record, memorizer.layer.num_heads // 2
    if set(record.order) != set(range(dataset.num_examples)):
        return None
    stops = [head.stop for head in record.heads[1 : 2 * pairs : 2]]
    return {"order": pack(record.order), "stops": pack(stops)}


def paired_layer(
    memorizer: Memorizer, dataset: Dataset, order: Evidence
) -> checker.PairedLayer | None:
    """Return the layer as the checker has it, or None for others than pairs along one key."""
    if dataset.lengths is not None:
        return None
    arrays = {
        "contexts": dataset.on_disk or dataset.contexts,
        "queries": dataset.queries,
        "targets": dataset.targets,
    }
    tensors = memorizer.layer.tensors
    try:
        about: checker.PairedLayer = checker.paired_layer(
            tensors, arrays, jobs=workers(), tell=report
        )
        about.arrange(order)
    except ValueError:
        return None
    return about
