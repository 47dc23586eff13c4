"""An evaluator of networks of its own: dense rational matrices of flint."""

from fractions import Fraction

import flint


def dense(network, inputs):
    """The outputs for one input, by rational matrices of flint; an evaluator of its own."""

    def exact(number):
        return flint.fmpq(Fraction(number).numerator, Fraction(number).denominator)

    vector = flint.fmpq_mat(len(inputs), 1, [exact(x) for x in inputs])

    def affine(layer, x):
        weights = [[flint.fmpq(0)] * layer.width for _ in layer.biases]
        for row, columns, values in zip(weights, layer.columns, layer.values, strict=True):
            for column, value in zip(columns, values, strict=True):
                row[column] += exact(value)
        bias = [exact(b) for b in layer.biases]
        product = flint.fmpq_mat(len(weights), layer.width, sum(weights, [])) * x  # noqa: RUF017
        return product + flint.fmpq_mat(len(bias), 1, bias)

    def relu(x):
        return flint.fmpq_mat(x.nrows(), 1, [max(entry, flint.fmpq(0)) for entry in x.entries()])

    vector = affine(network.layers[0], vector)
    for first, second in zip(network.layers[1:-1:2], network.layers[2:-1:2], strict=True):
        vector += affine(second, relu(affine(first, vector)))
    return [Fraction(int(e.p), int(e.q)) for e in affine(network.layers[-1], vector).entries()]
