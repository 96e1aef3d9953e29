"""Muon: momentum whose every step is made orthogonal, for the matrices between layers."""

import torch

# The quintic of Newton and Schulz whose iterates come near 1 for every singular value in (0, 1].
QUINTIC = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5


def orthogonal(update):
    """The matrices [n, rows, cols] with their singular values set to about one."""
    a, b, c = QUINTIC
    wide = update.shape[-2] <= update.shape[-1]
    x = update if wide else update.transpose(-1, -2)
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.transpose(-1, -2)
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x if wide else x.transpose(-1, -2)


class Muon(torch.optim.Optimizer):
    def __init__(self, weights, momentum=0.95, weight_decay=0.1):
        super().__init__(weights, {"lr": 0.0, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            shapes = {}
            for weight in group["params"]:
                shapes.setdefault(weight.shape, []).append(weight)
            for shape, weights in shapes.items():
                updates = []
                for weight in weights:
                    state = self.state[weight]
                    if not state:
                        state["mean"] = torch.zeros_like(weight)
                    mean = state["mean"].lerp_(weight.grad, 1 - group["momentum"])
                    updates.append(weight.grad.lerp(mean, group["momentum"]))
                # 0.2 sqrt(longer side) gives the step the size that Adam's would have.
                size = 0.2 * max(shape) ** 0.5
                for weight, step in zip(weights, orthogonal(torch.stack(updates))):
                    weight.mul_(1 - group["lr"] * group["weight_decay"])
                    weight.add_(step, alpha=-group["lr"] * size)
