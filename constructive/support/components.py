"""The connected components of a graph, by scipy."""

import numpy as np
import numpy.typing as npt

from constructive.support.arrays import Integers


def components(edges: npt.ArrayLike, count: int) -> Integers:
    """Return the number of the component of each vertex, (count,), by pairs of vertices (2, E).

    Example:
        >>> components([[0, 1], [1, 3]], 4)
        array([0, 0, 1, 0])
    """
    from scipy.sparse import coo_array  # noqa: PLC0415 - a quarter of the time to import all
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415

    first, second = np.asarray(edges)
    graph = coo_array((np.ones(len(first)), (first, second)), shape=(count, count))
    labels: Integers = connected_components(graph, directed=False)[1].astype(np.int64)
    return labels
