"""The CBOpt rules as PyTorch optimizers.

Instead of ``torch.optim.AdamW(model.parameters(), lr=1e-3)``::

    from maxitive.torch import UCBOptAdapt
    optimizer = UCBOptAdapt(model.parameters(), lr=1e-3)

All three have moments ``m`` and ``h`` of the gradient and divide by a curvature gap ``H``::

    m <- beta1 m + (1 - beta1) g        h <- beta2 h + (1 - beta2) g^2
    theta <- theta - lr (m / (1 - beta1^t) + weight_decay theta) / H

========================  ==================================================================
`UCBOpt`                  ``H = h + weight_decay - vartheta``
`UCBOptAdapt`             ``H = (h + weight_decay) - gamma c``, ``c`` a running minimum of
                          ``h + weight_decay`` that may grow by ``beta3 > 1`` a step
`LCBOptAdapt`             ``H = gamma c - (h + weight_decay)``, ``c`` a running maximum of
                          ``h + weight_decay`` that may fall by ``beta3 < 1`` a step
========================  ==================================================================

Weight decay is part of the rule: it is the precision of the prior, and must be positive. A scheduler
that cycles the momentum, too, looks for `betas` or `momentum`, which these rules call `beta1`: give
`OneCycleLR` and `CyclicLR` `cycle_momentum=False`.

Contiguous `float32` parameters on the CPU take one fused pass in Rust, large `float32` parameters
on a CUDA device one fused Triton kernel, and everything else torch's foreach operations; the
numbers are the same within rounding. On the CPU a gradient that is not finite raises `ValueError`
before anything changes; elsewhere it goes on into the parameters, as in torch's own optimizers.

What a training leaves is more than weights: `precisions` are those of the possibility function
around them, and `gram` turns them into the covariance of a network's logits, from which
`maxitive.bounds` says what the weights still allow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, overload

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, ParamsT

from . import _maxitive
from ._rule import rule

__all__ = ["LCBOptAdapt", "UCBOpt", "UCBOptAdapt", "gram"]

# below this, many tensors in one foreach operation cost less than a kernel each
_TRITON_FROM = 1 << 16
# two large pages
_LARGE_PAGES_FROM = 1 << 20
# torch gives it no types
_cuda_is_started: Callable[[], bool] = torch.cuda.is_initialized
_OPTIONS = ("lr", "foreach", "capturable", "differentiable", "maximize")


class _CBOpt(Optimizer):
    """What the three rules share."""

    _id: ClassVar[str]

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor,
        hyper: dict[str, Any],
        *,
        foreach: bool | None,
        capturable: bool,
        differentiable: bool,
        maximize: bool,
    ) -> None:
        if differentiable:
            raise ValueError(f"{type(self).__name__}: differentiable=True is not supported")
        _, everything = rule(self._id, hyper)
        options = {"foreach": foreach, "capturable": capturable, "differentiable": False}
        super().__init__(params, {"lr": lr, **everything, **options, "maximize": maximize})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        try:
            self._rule(self.param_groups[-1])
        except ValueError:
            self.param_groups.pop()
            raise

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # a loaded state has its own hyper-parameters
        self._rules: list[tuple[dict[str, Any], Any]] = []

    def _rule(self, group: dict[str, Any]) -> Any:
        """The compiled rule of a group; schedulers may change hyper-parameters at any time."""
        if not hasattr(self, "_rules"):
            self._rules = []
        lr = group["lr"]
        if isinstance(lr, Tensor):
            if lr.numel() != 1:
                raise ValueError(f"lr is a tensor of {lr.numel()} numbers, not of one")
            if not group["capturable"] and lr.is_cuda:
                raise ValueError("lr is a CUDA tensor: that needs capturable=True")
        elif not 0.0 <= lr < float("inf"):
            raise ValueError(f"lr {lr} is not in [0, inf)")
        hyper = {name: group[name] for name in self.defaults if name not in _OPTIONS}
        for known, found in self._rules:
            if known == hyper:
                return found
        found, _ = rule(self._id, hyper)
        self._rules.append((hyper, found))
        return found

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Makes one step; a closure evaluates the model again and returns the loss."""
        self._check_capture()
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            compiled = None if torch.compiler.is_compiling() else self._rule(group)
            members = [self._member(group, p) for p in group["params"] if p.grad is not None]
            if members:
                self._step_group(group, compiled, members)
        return loss

    @torch.no_grad()
    def precisions(self, examples: int) -> dict[Tensor, Tensor]:
        """The precision of every parameter, after a training on so many examples.

        They are those of the candidate, the possibility function that the rule fits around the
        weights: ``examples`` times ``vartheta`` for `UCBOpt` (``h + weight_decay`` where that is
        0), and ``gamma c`` for the adaptive rules.
        """
        if examples < 1:
            raise ValueError(f"examples {examples} is not in 1..")
        found: dict[Tensor, Tensor] = {}
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if self._id == "ucbopt" and group["vartheta"] > 0.0:
                    found[p] = torch.full_like(p, examples * group["vartheta"])
                elif not state:
                    raise ValueError("a parameter has made no step yet: it has no precision")
                elif self._id == "ucbopt":
                    found[p] = examples * (state["curvature"] + group["weight_decay"])
                else:
                    found[p] = examples * group["gamma"] * state["envelope"]
        return found

    def _check_capture(self) -> None:
        """A graph that is captured without `capturable=True` would keep its first step's number."""
        # without a context nothing is captured
        if not torch.compiler.is_compiling() and _cuda_is_started():
            capturable = all(group["capturable"] for group in self.param_groups)
            if torch.cuda.is_current_stream_capturing() and not capturable:
                raise RuntimeError(f"{type(self).__name__}: capturing needs capturable=True")

    def _member(self, group: dict[str, Any], p: Tensor) -> tuple[Tensor, Tensor, dict[str, Any]]:
        grad = p.grad
        assert grad is not None
        name = type(self).__name__
        if grad.is_sparse:
            raise RuntimeError(f"{name} does not support sparse gradients")
        if not p.is_floating_point():
            raise RuntimeError(f"{name} does not support parameters of {p.dtype}")
        state = self.state[p]
        if not state:
            on_device = group["capturable"]
            state["step"] = torch.zeros(
                (), dtype=torch.float32, device=p.device if on_device else "cpu"
            )
            total = group["hess_init"] + group["weight_decay"]
            state["momentum"] = _filled(p, 0.0)
            state["curvature"] = _filled(p, group["hess_init"])
            if self._id != "ucbopt":
                start = float("inf") if self._id == "ucbopt-adapt" else total
                state["envelope"] = _filled(p, start)
            for t in (p, grad):
                if _likes_large_pages(t):
                    _maxitive.move_to_large_pages(_flat(t))
        return p, -grad if group["maximize"] else grad, state

    def _step_group(
        self,
        group: dict[str, Any],
        compiled: Any,
        members: list[tuple[Tensor, Tensor, dict[str, Any]]],
    ) -> None:
        for _, _, state in members:
            state["step"] += 1
        # tensors that take the same way at the same step go together
        ways: dict[Any, list[tuple[Tensor, Tensor, dict[str, Any]]]] = {}
        for p, grad, state in members:
            step = None if group["capturable"] else int(state["step"].item())
            way = self._way(group, compiled, p, grad, state)
            ways.setdefault((way, step, p.device, p.dtype), []).append((p, grad, state))
        try:
            for (way, step, _, _), some in ways.items():
                if way == "rust":
                    self._step_rust(group, compiled, step, some)
                else:
                    self._step_torch(group, step, some, fused=way == "triton")
        except ValueError:
            for _, _, state in members:
                state["step"] -= 1
            raise

    def _way(
        self, group: dict[str, Any], compiled: Any, p: Tensor, grad: Tensor, state: dict[str, Any]
    ) -> str:
        plain = p.dtype == grad.dtype == torch.float32 and group["foreach"] is not True
        if compiled is None or not plain or type(p.data) is not Tensor:
            return "foreach"
        if p.device.type == "cpu" and not group["capturable"]:
            tensors = [p, grad, *(t for name, t in state.items() if name != "step")]
            if all(_dense(t) and t.stride() == p.stride() for t in tensors):
                return "rust"
        if p.device.type == "cuda" and p.numel() >= _TRITON_FROM and _triton() is not None:
            if _dense(p) and grad.stride() == p.stride():
                return "triton"
        return "foreach"

    def _step_rust(
        self,
        group: dict[str, Any],
        compiled: Any,
        step: int,
        members: Iterable[tuple[Tensor, Tensor, dict[str, Any]]],
    ) -> None:
        tensors = [
            (
                _flat(p),
                _flat(grad),
                _flat(state["momentum"]),
                _flat(state["curvature"]),
                _flat(state["envelope"]) if "envelope" in state else None,
            )
            for p, grad, state in members
        ]
        compiled.step(float(group["lr"]), step, min(torch.get_num_threads(), 64), tensors)

    def _step_torch(
        self,
        group: dict[str, Any],
        step: int | None,
        members: list[tuple[Tensor, Tensor, dict[str, Any]]],
        *,
        fused: bool,
    ) -> None:
        """With `step` a number, or, if it must stay on the device, with that of the state."""
        lr = group["lr"]
        if isinstance(lr, Tensor) and not group["capturable"]:
            lr = lr.item()
        if group["rescale_lr"]:
            lr = lr * (group["hess_init"] + group["weight_decay"])
        if step is None:
            count = members[0][2]["step"]
            push: Any = lr / (1.0 - group["beta1"] ** count)
        else:
            push = lr / (1.0 - group["beta1"] ** step)
        pull: Any = lr * group["weight_decay"]
        radius = None if group["clip_radius"] is None else lr * group["clip_radius"]
        if fused:
            kernel = _triton()
            assert kernel is not None
            for p, grad, state in members:
                kernel.step(self._id, group, push, pull, radius, p, grad, state)
        else:
            _foreach(self._id, group, push, pull, radius, members)


def _likes_large_pages(p: Tensor) -> bool:
    """Whether the fused pass on the CPU will see it and it is long.

    That pass waits for memory, and less so in pages of 2 MiB than in torch's of 4 KiB.
    """
    if p.device.type != "cpu" or p.dtype != torch.float32 or type(p.data) is not Tensor:
        return False
    return p.numel() >= _LARGE_PAGES_FROM and _dense(p) and not torch.compiler.is_compiling()


def _filled(p: Tensor, value: float) -> Tensor:
    """A tensor like `p` full of one value."""
    if _likes_large_pages(p):
        flat = torch.from_numpy(_maxitive.filled(p.numel(), value))
        return flat.as_strided(p.size(), p.stride())
    return torch.full_like(p, value, memory_format=torch.preserve_format)


def _dense(t: Tensor) -> bool:
    """Whether its numbers lie in memory without gaps, in a layout that has a name."""
    if t.is_contiguous():
        return True
    if t.dim() == 4:
        return t.is_contiguous(memory_format=torch.channels_last)
    return t.dim() == 5 and t.is_contiguous(memory_format=torch.channels_last_3d)


def _flat(t: Tensor) -> Any:
    """The memory of a dense tensor as an array of one axis."""
    return t.detach().as_strided((t.numel(),), (1,)).numpy()


def _foreach(
    identifier: str,
    group: dict[str, Any],
    push: Any,
    pull: Any,
    radius: Any,
    members: list[tuple[Tensor, Tensor, dict[str, Any]]],
) -> None:
    """The step in torch's operations on lists of tensors."""
    params = [p for p, _, _ in members]
    grads = [g if g.dtype == p.dtype else g.to(p.dtype) for p, g, _ in members]
    momentum = [state["momentum"] for _, _, state in members]
    curvature = [state["curvature"] for _, _, state in members]
    torch._foreach_lerp_(momentum, grads, 1.0 - group["beta1"])
    torch._foreach_lerp_(curvature, torch._foreach_mul(grads, grads), 1.0 - group["beta2"])
    if identifier == "ucbopt":
        gap = torch._foreach_add(curvature, group["weight_decay"] - group["vartheta"])
    else:
        envelope = [state["envelope"] for _, _, state in members]
        total = torch._foreach_add(curvature, group["weight_decay"])
        torch._foreach_mul_(envelope, group["beta3"])
        # the difference is small beside its terms: the part with gamma is added to it
        if identifier == "ucbopt-adapt":
            torch._foreach_minimum_(envelope, total)
            gap = torch._foreach_sub(total, envelope)
            torch._foreach_add_(gap, torch._foreach_mul(envelope, 1.0 - group["gamma"]))
        else:
            torch._foreach_maximum_(envelope, total)
            gap = torch._foreach_sub(envelope, total)
            torch._foreach_add_(gap, torch._foreach_mul(envelope, group["gamma"] - 1.0))
    if group["eps_policy"] in ("add", "add_then_clamp"):
        torch._foreach_add_(gap, group["eps"])
    if group["eps_policy"] in ("clamp", "add_then_clamp"):
        torch._foreach_clamp_min_(gap, group["eps"])
    step = list(torch._foreach_mul(momentum, push))
    torch._foreach_add_(step, torch._foreach_mul(params, pull))
    torch._foreach_div_(step, gap)
    if radius is not None:
        if isinstance(radius, Tensor):
            step = [torch.clamp(s, -radius, radius) for s in step]
        else:
            torch._foreach_clamp_max_(step, radius)
            torch._foreach_clamp_min_(step, -radius)
    torch._foreach_sub_(params, step)


_TRITON: Any = False


def _triton() -> Any:
    """The module with the fused kernel, or `None` where there is no Triton."""
    global _TRITON
    if _TRITON is False:
        try:
            from . import _triton as found

            _TRITON = found
        except ImportError:
            _TRITON = None
    return _TRITON


class UCBOpt(_CBOpt):
    """uCBOpt: the curvature gap is ``h + weight_decay - vartheta``, with a fixed ``vartheta``.

    Hyper-parameters that are `None` have the paper's Fashion-MNIST values; all of them, with their
    ranges, are those of the rule `ucbopt` of the command line.

    >>> import torch
    >>> from maxitive.torch import UCBOpt
    >>> w = torch.nn.Parameter(torch.tensor([0.7]))
    >>> optimizer = UCBOpt([w], lr=0.1)
    >>> w.grad = torch.tensor([0.3])
    >>> optimizer.step()
    >>> f"{w.item():.6f}"
    '0.120300'
    >>> UCBOpt([w], lr=0.1, vartheta=0.5)
    Traceback (most recent call last):
    ValueError: vartheta 0.5 is not in [0, weight_decay]
    """

    _id = "ucbopt"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        *,
        beta1: float | None = None,
        beta2: float | None = None,
        weight_decay: float | None = None,
        hess_init: float | None = None,
        vartheta: float | None = None,
        eps: float | None = None,
        eps_policy: str | None = None,
        rescale_lr: bool = False,
        clip_radius: float | None = None,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        maximize: bool = False,
    ) -> None:
        hyper = {
            "beta1": beta1,
            "beta2": beta2,
            "weight_decay": weight_decay,
            "hess_init": hess_init,
            "vartheta": vartheta,
            "eps": eps,
            "eps_policy": eps_policy,
            "rescale_lr": rescale_lr,
            "clip_radius": clip_radius,
        }
        super().__init__(
            params,
            lr,
            hyper,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
            maximize=maximize,
        )


class _Adaptive(_CBOpt):
    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        *,
        beta1: float | None = None,
        beta2: float | None = None,
        beta3: float | None = None,
        weight_decay: float | None = None,
        hess_init: float | None = None,
        gamma: float | None = None,
        eps: float | None = None,
        eps_policy: str | None = None,
        rescale_lr: bool = False,
        clip_radius: float | None = None,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        maximize: bool = False,
    ) -> None:
        hyper = {
            "beta1": beta1,
            "beta2": beta2,
            "beta3": beta3,
            "weight_decay": weight_decay,
            "hess_init": hess_init,
            "gamma": gamma,
            "eps": eps,
            "eps_policy": eps_policy,
            "rescale_lr": rescale_lr,
            "clip_radius": clip_radius,
        }
        super().__init__(
            params,
            lr,
            hyper,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
            maximize=maximize,
        )


class UCBOptAdapt(_Adaptive):
    """uCBOpt-adapt: the gap is ``(h + weight_decay) - gamma c`` with an envelope ``c`` from below.

    Hyper-parameters that are `None` have the paper's Fashion-MNIST values; all of them, with their
    ranges, are those of the rule `ucbopt-adapt` of the command line.
    """

    _id = "ucbopt-adapt"


class LCBOptAdapt(_Adaptive):
    """lCBOpt-adapt: the gap is ``gamma c - (h + weight_decay)`` with an envelope ``c`` from above.

    Hyper-parameters that are `None` have the paper's Fashion-MNIST values; all of them, with their
    ranges, are those of the rule `lcbopt-adapt` of the command line.
    """

    _id = "lcbopt-adapt"


def gram(
    model: torch.nn.Module,
    inputs: Tensor,
    precisions: Mapping[Tensor, Tensor] | float = 1.0,
    *,
    together: int = 16,
) -> tuple[Tensor, Tensor]:
    """Logits `[n, classes]` and the Gram matrices `[n, classes, classes]` of their gradients.

    The entry of two logits of an image is the inner product of their gradients by the weights
    that are trained, each product divided by the weight's precision: a number for all of them, or
    one for each, as `precisions` of the optimizers gives them. The network is run in evaluation
    mode, on `together` images at a time; of these the gradients of all logits are held in memory.

    For a linear layer with a bias it is ``(x . x + 1) I``:

    >>> import torch
    >>> from maxitive.torch import gram
    >>> layer = torch.nn.Linear(2, 3)
    >>> logits, found = gram(layer, torch.tensor([[1.0, 2.0]]))
    >>> found[0].tolist()
    [[6.0, 0.0, 0.0], [0.0, 6.0, 0.0], [0.0, 0.0, 6.0]]
    """
    if together < 1:
        raise ValueError(f"together {together} is not in 1..")
    if not len(inputs):
        raise ValueError("there are no inputs")
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    weights: dict[str, Tensor | float] = {}
    for name, p in trained.items():
        if isinstance(precisions, Mapping):
            if p not in precisions:
                raise KeyError(f"there is no precision of the parameter {name}")
            weights[name] = precisions[p].flatten()
        else:
            weights[name] = precisions
        if not bool(torch.all(torch.as_tensor(weights[name]) > 0.0)):
            raise ValueError(f"a precision of the parameter {name} is not in (0, inf)")
    fixed = {name: p.detach() for name, p in model.named_parameters() if not p.requires_grad}
    rest = {**fixed, **dict(model.named_buffers())}
    values = {name: p.detach() for name, p in trained.items()}

    def logits_of(params: dict[str, Tensor], image: Tensor) -> Tensor:
        found = torch.func.functional_call(model, (params, rest), (image.unsqueeze(0),))
        if not isinstance(found, Tensor) or found.dim() != 2:
            raise ValueError("the network does not give logits [images, classes]")
        return found.squeeze(0)

    def both(params: dict[str, Tensor], image: Tensor) -> tuple[Tensor, Tensor]:
        found = logits_of(params, image)
        return found, found

    was_training = model.training
    model.eval()
    try:
        parts = []
        jacobian = torch.func.vmap(torch.func.jacrev(both, has_aux=True), (None, 0))
        for first in range(0, len(inputs), together):
            some = inputs[first : first + together]
            gradients, logits = jacobian(values, some)
            total = logits.new_zeros(len(some), logits.shape[1], logits.shape[1])
            for name, gradient in gradients.items():
                flat = gradient.flatten(2)
                total += torch.einsum("nkp,nlp->nkl", flat / weights[name], flat)
            parts.append((logits.detach(), total))
    finally:
        model.train(was_training)
    return torch.cat([logits for logits, _ in parts]), torch.cat([total for _, total in parts])
