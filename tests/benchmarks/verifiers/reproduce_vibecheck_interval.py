"""vibecheck-nn: the interval of softmax clamps the denominator at 1e-30, so it is too small.

The second of the logits (x, -80) has the weight 1 / (1 + exp(x + 80)), 0.982 at x = -84.
"""

from importlib.metadata import version

import torch
from vibecheck.core.relax import softmax_interval

low, high = torch.tensor([[-84.0, -80.0]]), torch.tensor([[0.0, -80.0]])
bounds = softmax_interval(low, high, {"pre": 1, "k": 2, "post": 1})
print(version("vibecheck-nn"), "softmax_interval claims:", bounds[1][0, 1].item(), "at most")
print("true at x = -84:", torch.softmax(low, dim=1)[0, 1].item())
