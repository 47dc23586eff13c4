"""A small construction: the product hash by comparisons that suit floats."""

from constructive.sequences.constructions import ProductHash
from constructive.sequences.dictionary import SATURATING


class Toy(ProductHash):
    name = "toy"
    comparison = SATURATING


TOY = Toy()
