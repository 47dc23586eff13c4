"""Named models of floating-point programs, each a row of numbers (`exact.float_model`).

"pairwise" is what usual libraries do; "any contraction" is what einsum of many arrays may do;
"scaled" is for libraries that multiply by 1 / sqrt(d_h) or fold log2 e, and for split softmax.
"products" are for tensor cores, which round factors: certificates know them for decoders of
integers only (`layers.margins`).
"""

from collections.abc import Iterator
from dataclasses import replace

from constructive.exact.contractions import AnyContraction, Projected
from constructive.exact.float_model import MOST_TERMS, FloatModel
from constructive.exact.formats import FORMATS, TF32
from constructive.support.errors import ParameterError, shown

EXP_ULPS = 32  # Units in the last place by which exponentials in float32 may be off: 64 u
# Tokens of a block of softmax, at least: in usual libraries, and in fused kernels.
BLOCK, SMALL_BLOCK = 512, 16
# Roundings by constants: a scale on W_Q and its inverse on queries and keys (two for a constant,
# one for a product, each twice), log2 e and its product.
SCALES = 8


STORAGES = "float32", "bfloat16", "float16"  # Formats in which decoders may be stored


def _rows() -> Iterator[FloatModel]:
    """Yield all models of certificates."""
    in_float32 = FORMATS["float32"]
    for storage in STORAGES:
        pairwise = FloatModel(
            f"{storage}, pairwise",
            FORMATS[storage],
            in_float32.unit,
            2.0 * EXP_ULPS * in_float32.unit,
            BLOCK,
            in_float32.smallest,
            in_float32.largest,
        )
        small = replace(pairwise, name=f"{pairwise.name}, blocks of 16", block=SMALL_BLOCK)
        yield from (pairwise, small)
        if storage == "float32":
            yield replace(small, name="float32, scaled", constants=SCALES, merged=True)
            yield replace(small, name="float32, any contraction", contraction=AnyContraction())


# By name: "float32, pairwise", "float32, any contraction" and so on; sums and products are in
# float32 in all, whatever is stored.
MODELS = {model.name: model for model in _rows()}

# Models of decoders whose weights are integers: "float32, TF32 products" and so on.
INTEGER_MODELS = {
    model.name: model
    for form in (TF32, FORMATS["bfloat16"], FORMATS["float16"])
    for model in (
        replace(
            MODELS["float32, pairwise, blocks of 16"],
            name=f"float32, {form.name} products",
            factors=form,
            contraction=Projected(),
        ),
    )
}

FLOAT32 = MODELS["float32, pairwise"]

# Our own evaluation, with exponentials from a table that arb made.
FLOAT64 = FloatModel(
    "float64", FORMATS["float64"], 2.0**-53, 2.0**-51, MOST_TERMS, 2.0**-1022, 2.0**1023
)


def model_named(name: object, storage: str = "float32", *, decoder: bool = False) -> FloatModel:
    """Return a model of certificates.

    Example:
        >>> model_named(None).name, model_named("float32, scaled").constants
        ('float32, pairwise', 8)
    """
    wanted = f"{storage}, pairwise" if name is None else name
    models = MODELS | INTEGER_MODELS if decoder else MODELS
    known = [model.name for model in models.values() if model.storage.name == storage]
    if wanted not in known:
        raise ParameterError(
            f"model={shown(name)} is not a model of evaluations stored in {storage}",
            witness=shown(name),
            suggestion="one of " + ", ".join(map(repr, known)),
        )
    return models[str(wanted)]
