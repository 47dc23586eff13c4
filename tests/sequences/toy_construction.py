"""A small construction: the product hash by comparisons that suit floats."""

from constructive.sequences.comparisons import SATURATING
from constructive.sequences.constructions.product_hash import ProductHash


class Toy(ProductHash):
    name = "toy"
    comparison = SATURATING


TOY = Toy()
