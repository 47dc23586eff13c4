"""Paddle: is_causal=True on CPUs hides keys by a finite number, which large logits outweigh.

Query 0 may see key 0 alone, whose logit is -20000; key 1 has 0. The output is that of key 1.
"""

import numpy as np
import paddle

attention = paddle.nn.functional.scaled_dot_product_attention
q = np.full((1, 2, 1, 8), -50.0, np.float32)
k = np.array([50.0, 0.0], np.float32).reshape(1, 2, 1, 1) * np.ones((1, 2, 1, 8), np.float32)
v = np.array([1.0, 10.0], np.float32).reshape(1, 2, 1, 1) * np.ones((1, 2, 1, 8), np.float32)
q, k, v = map(paddle.to_tensor, (q, k, v))
mask = paddle.to_tensor(np.tril(np.ones((1, 1, 2, 2), bool)))
for options in ({"is_causal": True}, {"attn_mask": mask}):
    out = attention(q, k, v, scale=1.0, **options).numpy()
    print(paddle.__version__, next(iter(options)), out[0, 0, 0, 0])
