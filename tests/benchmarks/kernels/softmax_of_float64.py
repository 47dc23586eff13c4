"""Float64 inputs, float32 softmax: jax.nn.dot_product_attention (and Keras and flax.nnx, which call
it), transformers, x-transformers.

The average of 3 values, 1, 1 and 2, with equal logits: the error is 1e-8, not 1e-16. Each library
does so on purpose, and says so in its code; a user of float64 may not know. Runs what is installed.
"""

from importlib.metadata import version
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np

q, k = np.zeros((1, 1, 1, 8)), np.zeros((1, 1, 3, 8))
v = np.array([1.0, 1.0, 2.0]).reshape(1, 1, 3, 1) * np.ones((1, 1, 3, 8))
if find_spec("jax"):
    import jax

    with jax.enable_x64(True):  # noqa: FBT003 - of jax
        heads_last = (x.swapaxes(1, 2) for x in (q, k, v))
        out = jax.nn.dot_product_attention(*heads_last)
    print("jax", version("jax"), out.dtype, abs(float(out.max()) - 4 / 3))
if find_spec("transformers"):
    import torch
    from transformers.models.llama.modeling_llama import eager_attention_forward

    module = SimpleNamespace(num_key_value_groups=1, training=False)
    out, _ = eager_attention_forward(module, *map(torch.tensor, (q, k, v)), None, 1.0)
    print("transformers", version("transformers"), out.dtype, abs(out.max().item() - 4 / 3))
if find_spec("x_transformers"):
    import torch
    from x_transformers.attend import Attend

    out, _ = Attend()(*map(torch.tensor, (q, k, v)))
    print("x-transformers", version("x-transformers"), out.dtype, abs(out.max().item() - 4 / 3))
