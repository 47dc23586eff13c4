"""FlagGems: a boolean mask hides the keys that it should show.

Expected: 0 twice, as the second key is hidden; it is 1 and 0. `attn_mask.to(query.dtype) * -1.0e6`
puts -1,000,000 at keys whose mask is True, which means visible in PyTorch.
"""

import torch
from flag_gems.ops import scaled_dot_product_attention_forward

torch.set_default_device("cuda")
q, k, v = torch.zeros(1, 1, 1, 16), torch.zeros(1, 1, 2, 16), torch.zeros(1, 1, 2, 16)
v[0, 0, 1] = 1.0
mask = torch.tensor([[[[True, False]]]])
print(scaled_dot_product_attention_forward(q, k, v, attn_mask=mask)[0][0, 0, 0, 0])
print(torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)[0, 0, 0, 0])
