"""The claim *impossible*: no weights of H heads memorize all labellings of these examples.

It is Theorem 3 (`theory.upper_bounds`), with an x of e.x = 1 for every token e as evidence.
"""

import math

from constructive.data.dataset import Dataset
from constructive.support.verdict import Claim, Verdict
from constructive.theory.upper_bounds import least_bound, token_space


def prove(dataset: Dataset, num_heads: int) -> Claim:
    """Prove that T examples are too many for all weights, or leave it undecided."""
    total = dataset.num_examples
    spanned, solution = token_space(dataset)
    # The checker takes k from the shapes alone.
    tokens = dataset.contexts.size // dataset.width
    most = min(tokens, dataset.width)
    bound = num_heads * (most - 1) + 1
    if solution is None or total <= bound:
        statement = f"no weights of H = {num_heads} heads memorize every labelling of T = {total}"
        sharper, why = least_bound(dataset, num_heads, spanned, solution)
        detail = f"rank Z <= {sharper} is proved ({why})"
        detail += "" if sharper >= total else ", by an argument which the checker does not know"
        return Claim("impossible", statement, Verdict.UNDECIDED, detail)
    statement = (
        f"rank Z <= {bound} < T = {total} for all weights of H = {num_heads} heads: "
        "none memorize every labelling"
    )
    denominator = math.lcm(*(x.denominator for x in solution))
    evidence = {
        "heads": num_heads,
        "solution": [hex(int(x * denominator)) for x in solution],
        "denominator": hex(denominator),
    }
    detail = f"all tokens lie on one hyperplane, and span {spanned} dimensions"
    return Claim("impossible", statement, Verdict.PROVED, detail, evidence=evidence)
