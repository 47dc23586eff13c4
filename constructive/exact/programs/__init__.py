"""An interpreter of the programs that `exact.float_model` describes, with emulated rounding.

    machine   one operation: rounded to nearest, or off by the most that the standard model allows
    sums      sums of products, in an order that is drawn
    trees     contractions of arrays with named indices, one tree of them
    softmax   averages with attention weights: blocks, forms of division, parts that are merged

`layers.programs` evaluates layers and decoders with these. Nothing here imports a bound: what
comes out is compared with bounds by tests, for any kernel or any model.
"""
