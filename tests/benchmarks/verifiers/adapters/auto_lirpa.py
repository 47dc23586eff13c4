"""auto_LiRPA: bounds of the network as a PyTorch module. Arguments: IBP or CROWN, and a format."""

import sys

import torch
from answering import answer_all, by_bounds
from auto_LiRPA import BoundedModule, BoundedTensor, PerturbationLpNorm, __version__
from torch import nn


class Heads(nn.Module):
    def __init__(self, heads, dtype):
        super().__init__()
        self.heads, self.values = nn.ModuleList(), nn.ParameterList()
        for slopes, offsets, values in heads:
            linear = nn.Linear(len(slopes[0]), len(slopes), dtype=dtype)
            linear.weight.data = torch.tensor(slopes, dtype=dtype)
            linear.bias.data = torch.tensor(offsets, dtype=dtype)
            self.heads.append(nn.Sequential(linear, nn.Softmax(dim=1)))
            self.values.append(torch.tensor(values, dtype=dtype))

    def forward(self, x):
        parts = [head(x) @ values for head, values in zip(self.heads, self.values, strict=True)]
        return sum(parts[1:], parts[0])


class Network(nn.Module):
    def __init__(self, problem, dtype):
        super().__init__()
        self.before = Heads(problem["before"], dtype) if problem["before"] else None
        self.heads, self.units = Heads(problem["heads"], dtype), None
        if problem["units"]:
            weights, biases = (torch.tensor(part, dtype=dtype) for part in problem["units"])
            self.units, self.total = nn.Linear(*weights.T.shape), nn.Linear(len(weights), 1)
            self.units.weight.data, self.units.bias.data = weights, biases
            self.total.weight.data = torch.ones((1, len(weights)), dtype=dtype)
            self.total.bias.data = torch.zeros(1, dtype=dtype)

    def forward(self, x):
        f = self.heads(x + self.before(x) if self.before else x)
        return self.total(torch.relu(self.units(f))) if self.units else f


def main(method, dtype):
    def answer(problem):
        low, high = (torch.tensor([problem[k]], dtype=dtype) for k in ("lower", "upper"))
        box = BoundedTensor((low + high) / 2, PerturbationLpNorm(x_L=low, x_U=high))
        network = BoundedModule(Network(problem, dtype), low)

        def upper_bounds(rows):
            rows = torch.tensor([rows], dtype=dtype)
            return network.compute_bounds(x=(box,), C=rows, method=method)[1][0].tolist()

        return by_bounds(problem, upper_bounds)

    answer_all(f"auto_LiRPA {__version__}, torch {torch.__version__}", answer)


main(sys.argv[1], getattr(torch, sys.argv[2]))
