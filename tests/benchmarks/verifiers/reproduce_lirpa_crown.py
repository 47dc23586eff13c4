"""auto_LiRPA: CROWN's upper bound of softmax cuts logarithms off at 1e-8, and uses a tangent.

f(x) = softmax(x, 0)_1 + 6 softmax(-(x + 50) / 49, 0)_1 is 4.386 at x = -99.
"""

import auto_LiRPA
import torch
from torch import nn


def head(slope, offset):
    linear = nn.Linear(1, 2)
    linear.weight.data, linear.bias.data = torch.tensor([[slope], [0.0]]), torch.tensor([offset, 0])
    return nn.Sequential(linear, nn.Softmax(dim=1))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = head(1.0, 0.0), head(-1 / 49, -50 / 49)

    def forward(self, x):
        return self.first(x) @ torch.tensor([[1.0], [0]]) + self.second(x) @ torch.tensor(
            [[6.0], [0]]
        )


low, high = torch.tensor([[-99.0]]), torch.tensor([[-1.0]])
box = auto_LiRPA.BoundedTensor(low, auto_LiRPA.PerturbationLpNorm(x_L=low, x_U=high))
bounds = auto_LiRPA.BoundedModule(Network(), low).compute_bounds(x=(box,), method="CROWN")
print(auto_LiRPA.__version__, "CROWN claims:", bounds[1].item(), "at most")
print("true at x = -99:", Network()(low).item())
