"""How many heads can be asked for: what they would take, before it is taken.

More heads than examples memorize nothing more: where differences of tokens span a dimension at
all, k + (H - 1) delta >= T for H >= T, so that c(E; H) = c(E; T).
"""

from constructive.support.errors import ParameterError
from constructive.support.memory import physical_memory

MOST = 10**5  # Heads that nobody needs for fewer examples; as many take a minute or two to build

_COPIES = 4  # Arrays of the size of weights and Z that are in memory together, about

_SHORT = 10**30  # Numbers below it are printed in full


def require_heads(num_heads: int, num_examples: int, each: int) -> None:
    """Require that H heads are not far too many, and fit into the memory of this machine.

    each: entries of weights, and of Z where it is formed, for each head

    Example:
        >>> require_heads(10**6, 7, 20)
        Traceback (most recent call last):
            ...
        constructive.ParameterError: 1,000,000 heads for 7 examples take 1 GB and 20 minutes, about
          witness: 1000000
          try: at most 7 heads: more heads than examples memorize nothing more
    """
    needed = 8 * _COPIES * num_heads * each
    if needed <= physical_memory() and num_heads <= max(num_examples, MOST):
        return
    gigabytes, minutes = -(-needed // 10**9), -(-2 * num_heads // MOST)
    most = min(num_examples, num_heads)
    raise ParameterError(
        f"{_count(num_heads)} heads for {num_examples:,} examples take {_count(gigabytes)} GB and "
        f"{_count(minutes)} minutes, about",
        witness=num_heads if num_heads < _SHORT else _count(num_heads),
        suggestion=f"at most {most:,} heads: more heads than examples memorize nothing more"
        if num_heads > num_examples
        else "fewer heads, or smaller dimensions of a head",
    )


def _count(number: int) -> str:
    return f"{number:,}" if number < _SHORT else "more than 10^30"
