"""AdamW without torch's compiler, which any optimizer of ``torch.optim`` imports: a second, and memory to the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

BETAS, EPS = (0.9, 0.999), 1e-8


class AdamW:
    """Loshchilov & Hutter 2019, equal in every bit to ``torch.optim.AdamW(groups, lr, fused=True)``.

    It resumes from the states of that optimizer too.
    """

    def __init__(self, groups: Iterable[Mapping[str, Any]], lr: float) -> None:
        self.param_groups = [{"lr": lr, "betas": BETAS, "eps": EPS, **group} for group in groups]
        self.state: dict[nn.Parameter, dict[str, Tensor]] = {}

    def zero_grad(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Update the parameters that have gradients."""
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not parameters:
                continue
            states = [self._state(parameter) for parameter in parameters]
            steps, means, squares = ([state[name] for state in states] for name in ("step", "exp_avg", "exp_avg_sq"))
            torch._foreach_add_(steps, 1)
            # Unfused square roots are MKL's, whose last bit differs between processors whatever its settings.
            torch._fused_adamw_(
                parameters,
                [parameter.grad for parameter in parameters],
                means,
                squares,
                [],
                steps,
                lr=group["lr"],
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                amsgrad=False,
                maximize=False,
            )

    def _state(self, parameter: nn.Parameter) -> dict[str, Tensor]:
        if parameter not in self.state:
            self.state[parameter] = {
                "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
        return self.state[parameter]

    def state_dict(self) -> dict[str, Any]:
        """States by the number of their parameter, and the groups with these numbers."""
        numbers = {parameter: number for number, parameter in enumerate(self._parameters())}
        groups = [{**group, "params": [numbers[each] for each in group["params"]]} for group in self.param_groups]
        return {"state": {numbers[each]: state for each, state in self.state.items()}, "param_groups": groups}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Continue from a state dict of the same parameters."""
        parameters = self._parameters()
        self.state = {
            parameters[number]: {name: value.to(parameters[number].device) for name, value in state.items()}
            for number, state in saved["state"].items()
        }
        for group, kept in zip(self.param_groups, saved["param_groups"], strict=True):
            group.update({name: value for name, value in kept.items() if name in group and name != "params"})

    def _parameters(self) -> list[nn.Parameter]:
        return [parameter for group in self.param_groups for parameter in group["params"]]
