"""A small construction: the product hash by comparisons that suit floats."""

from constructive.sequences.constructions.product_hash import ProductHash
from constructive.sequences.dictionary import SATURATING


class Toy(ProductHash):
    name = "toy"
    comparison = SATURATING


TOY = Toy()
