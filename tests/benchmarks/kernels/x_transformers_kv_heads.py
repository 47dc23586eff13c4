"""x-transformers: query head h reads KV head h % kv_heads; elsewhere it is h // (heads / kv_heads).

Weights of models with grouped heads from elsewhere (Llama, torch's enable_gqa) mix up their heads.
"""

from importlib.metadata import version

import torch
from x_transformers.attend import Attend

q, k = torch.zeros(1, 4, 1, 8), torch.zeros(1, 2, 1, 8)
v = torch.arange(2.0).reshape(1, 2, 1, 1).expand(1, 2, 1, 8)
out, _ = Attend()(q, k, v)
print("x-transformers", version("x-transformers"), out[0, :, 0, 0].tolist())
out = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
print("torch", torch.__version__, out[0, :, 0, 0].tolist())
