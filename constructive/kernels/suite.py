"""The shapes that are tried where none are said.

`battery` knows heads, masks and formats of the kernel, and tries them at `SIZES`. A command knows
nothing of the library that it runs, and tries `SUITE`, where masks and heads are part of a shape.
"""

from functools import partial

from constructive.kernels.masks import (
    Boolean,
    Causal,
    LeftPadding,
    Prefix,
    RightPadding,
    VariableLengths,
    Window,
)  # fmt: skip
from constructive.kernels.spec import Spec

# Queries and keys: squares, a decoding step, more keys, fewer keys. Most are no multiples of the
# blocks of kernels.
SIZES = ((77, 77), (1, 130), (130, 130), (40, 200), (90, 40), (256, 256))

TOP, BOTTOM = Causal("top-left"), Causal("bottom-right")
_large = partial(Spec, queries=65, keys=65, heads=(8, 2))
_small = partial(Spec, queries=40, head_dim=32)

# By the names of `constructive kernels run --shape`, in float32. What a library does not have, its
# adapter refuses.
SUITE: dict[str, Spec] = {
    "plain": Spec(queries=77, keys=77),
    "one query": Spec(queries=1, keys=130),
    "cross, d_v != d": Spec(queries=37, keys=150, value_dim=32),
    "tiny": Spec(queries=3, keys=5, head_dim=16),
    "whole blocks": Spec(queries=128, keys=128),
    "grouped heads": _small(heads=(6, 2), keys=90),
    "one KV head": _small(batch=3, heads=(4, 1), keys=70),
    "shared keys": _small(batch=3, shared=True, keys=50),
    "scale": Spec(queries=30, keys=60, scale=0.25),
    "causal": Spec(queries=130, keys=130, masks=(TOP,)),
    "causal, grouped": _large(batch=2, masks=(TOP,)),
    "causal, more keys": Spec(queries=40, keys=100, masks=(BOTTOM,)),
    "causal, more keys, top-left": Spec(queries=40, keys=100, masks=(TOP,)),
    "causal, fewer keys": Spec(queries=100, keys=40, masks=(BOTTOM,)),
    "causal, fewer keys, top-left": Spec(queries=100, keys=40, masks=(TOP,)),
    "decode": Spec(batch=2, heads=(8, 2), queries=1, keys=300, masks=(BOTTOM,)),
    "decode, unequal": Spec(
        batch=3, heads=(4, 2), queries=2, keys=90, masks=(BOTTOM, RightPadding((90, 31, 2)))
    ),
    "window": Spec(queries=140, keys=140, masks=(TOP, Window(32, 0, "top-left"))),
    "window, more keys": Spec(queries=50, keys=110, masks=(BOTTOM, Window(20, 0))),
    "window, both sides": Spec(queries=90, keys=90, masks=(Window(9, 5, "top-left"),)),
    "right padding": Spec(batch=3, queries=48, keys=48, masks=(RightPadding((48, 17, 1)),)),
    "right padding, causal": Spec(
        batch=3, queries=48, keys=48, masks=(TOP, RightPadding((48, 17, 1)))
    ),
    "left padding": Spec(batch=2, queries=48, keys=48, masks=(LeftPadding((0, 29)),)),
    "variable lengths": Spec(
        batch=3, queries=40, keys=50, masks=(VariableLengths((40, 7, 1), (50, 20, 3)),)
    ),
    "variable lengths, causal": Spec(
        batch=3, queries=40, keys=50, masks=(BOTTOM, VariableLengths((40, 7, 1), (50, 20, 3)))
    ),
    "prefix": Spec(batch=2, queries=60, keys=60, masks=(Prefix((20, 1)),)),
    "boolean mask": Spec(batch=2, queries=70, keys=90, masks=(Boolean(),)),
    "boolean mask per head": Spec(queries=40, keys=60, masks=(Boolean(per_head=True),)),
    "additive mask": Spec(queries=40, keys=60, masks=(Boolean(additive=True),)),
    "rows without keys": Spec(queries=40, keys=60, masks=(Boolean(empty=True),)),
    "long": Spec(heads=(1, 1), queries=16, keys=2000, head_dim=128),
    "odd width": Spec(queries=50, keys=50, head_dim=80, masks=(TOP,)),
    "width 72": Spec(queries=33, keys=129, head_dim=72, value_dim=40),
    "soft cap": Spec(queries=60, keys=60, soft_cap=50.0, masks=(TOP,)),
    "sink": Spec(queries=60, keys=60, sink=True, masks=(TOP,)),
    "ALiBi": Spec(heads=(4, 4), queries=60, keys=60, alibi=True, masks=(TOP,)),
}
