"""auto_LiRPA: the interval of softmax adds 1e-12 to the denominator, so it is too small.

The second of the logits (x, -40) has the weight 1 / (1 + exp(x + 40)), which is 1 at x = -100.
"""

import auto_LiRPA
import torch

model = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.Softmax(dim=1))
model[0].weight.data, model[0].bias.data = torch.tensor([[1.0], [0.0]]), torch.tensor([0.0, -40.0])
low, high = torch.tensor([[-100.0]]), torch.tensor([[0.0]])
box = auto_LiRPA.BoundedTensor(low, auto_LiRPA.PerturbationLpNorm(x_L=low, x_U=high))
bounds = auto_LiRPA.BoundedModule(model, low).compute_bounds(x=(box,), method="IBP")
print(auto_LiRPA.__version__, "IBP claims:", bounds[1][0, 1].item(), "at most")
print("true at x = -100:", model(low)[0, 1].item())
