"""Paddle, float32 on CPUs: a row whose mask hides all keys is NaN, or their average.

It is the average where the number of keys is a multiple of 8. In float64 it is always NaN.
"""

import numpy as np
import paddle

attention = paddle.nn.functional.scaled_dot_product_attention
for keys in (4, 8, 40, 60, 64):
    q, k, v = (np.ones((1, tokens, 1, 16), np.float32) for tokens in (2, keys, keys))
    mask = np.zeros((1, 1, 2, keys), bool)
    mask[..., 1, :] = True
    out = attention(*map(paddle.to_tensor, (q, k, v)), attn_mask=paddle.to_tensor(mask)).numpy()
    print(paddle.__version__, f"{keys} keys:", out[0, 0, 0, 0])
