import copy
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import maxitive.torch as optim
from common import Scales, cases, ids

CLASSES = [optim.UCBOpt, optim.UCBOptAdapt, optim.LCBOptAdapt]
# where each learns quickly
RATES = {optim.UCBOpt: 0.01, optim.UCBOptAdapt: 0.002, optim.LCBOptAdapt: 0.0005}
every = pytest.mark.parametrize("make", CLASSES, ids=lambda c: c.__name__)


def run_case(name, case, dtype, **options):
    w = torch.nn.Parameter(torch.tensor(case["theta0"], dtype=dtype))
    hyper = {k: v for k, v in case["hyper"].items() if v is not None}
    optimizer = getattr(optim, name)([w], lr=case["lr"][0], **hyper, **options)
    for lr, grads in zip(case["lr"], case["grads"], strict=True):
        optimizer.param_groups[0]["lr"] = lr
        w.grad = torch.tensor(grads, dtype=dtype)
        optimizer.step()
        yield w.detach(), optimizer.state[w]


@pytest.mark.parametrize("name,case", cases(), ids=ids())
@pytest.mark.parametrize("way", ["rust", "foreach32", "foreach64"])
def test_golden(name, case, way):
    dtype = torch.float64 if way == "foreach64" else torch.float32
    scales = Scales(case, double=way == "foreach64")
    foreach = True if way == "foreach32" else None
    steps = run_case(name, case, dtype, foreach=foreach)
    names = {"m": "momentum", "h": "curvature", "c": "envelope"}
    for (w, state), after in zip(steps, case["after"], strict=True):
        for key, want in after.items():
            scales.check(key, w if key == "theta" else state[names[key]], want)


def network(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 5, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(180, 4)
    )


def batch(seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(16, 3, 8, 8, generator=generator)
    return x, torch.randint(4, (16,), generator=generator)


def train(model, optimizer, steps, first=0):
    losses = []
    for step in range(first, first + steps):
        x, y = batch(step % 3)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@every
def test_learns_and_all_ways_agree(make):
    losses = {}
    ways = {"rust": {}, "foreach": {"foreach": True}, "captured": {"capturable": True}}
    for way, options in ways.items():
        model = network()
        losses[way] = train(model, make(model.parameters(), lr=RATES[make], **options), 30)
    assert losses["rust"][-1] < 0.5 * losses["rust"][0]
    np.testing.assert_allclose(losses["foreach"], losses["rust"], rtol=2e-3)
    np.testing.assert_allclose(losses["captured"], losses["foreach"], rtol=2e-3)


@every
def test_takes_the_fused_pass(make, monkeypatch):
    called = []
    plain = optim._CBOpt._step_rust
    monkeypatch.setattr(optim._CBOpt, "_step_rust", lambda self, *a: (called.append(len(a[3])), plain(self, *a)))
    model = network().to(memory_format=torch.channels_last)
    train(model, make(model.parameters(), lr=0.01), 1)
    assert called == [4]


@every
def test_state_dict_round_trip_to_the_bit(make):
    model = network()
    optimizer = make(model.parameters(), lr=0.01)
    train(model, optimizer, 5)
    other = network(1)
    other.load_state_dict(model.state_dict())
    again = make(other.parameters(), lr=0.5, weight_decay=0.01)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    train(model, optimizer, 5, first=5)
    train(other, again, 5, first=5)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    assert pickle.loads(pickle.dumps(optimizer)).state_dict()["param_groups"] == optimizer.state_dict()["param_groups"]


@every
def test_a_large_state_is_like_a_small_one(make, monkeypatch):
    """Its memory comes from elsewhere: the numbers, the layout and what is done with it stay."""
    shape = (64, 128, 9, 16)
    start = torch.randn(shape).to(memory_format=torch.channels_last)
    grads = [torch.randn(shape).to(memory_format=torch.channels_last) for _ in range(3)]
    made = []
    filled = optim._maxitive.filled
    monkeypatch.setattr(optim._maxitive, "filled", lambda *a: (made.append(a), filled(*a))[1])
    ends = []
    for fewest in [1, start.numel() + 1]:
        monkeypatch.setattr(optim, "_LARGE_PAGES_FROM", fewest)
        w = torch.nn.Parameter(start.clone(memory_format=torch.preserve_format))
        optimizer = make([w], lr=0.01)
        for grad in grads:
            w.grad = grad
            optimizer.step()
            # the state of a copy is torch's own again
            other = make([w], lr=0.01)
            other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
            optimizer = other
        state = {name: t for name, t in optimizer.state[w].items() if name != "step"}
        assert all(t.stride() == w.stride() for t in state.values())
        ends.append([w.detach(), *state.values()])
    assert {count for count, _ in made} == {start.numel()}
    assert len(made) == len(ends[0]) - 1
    assert all(torch.equal(a, b) for a, b in zip(*ends, strict=True))


@every
def test_groups_and_schedulers(make):
    model = network()
    groups = [
        {"params": model[0].parameters(), "lr": 0.0, "name": "frozen"},
        {"params": model[3].parameters(), "weight_decay": 0.01},
    ]
    optimizer = make(groups, lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    before = [p.detach().clone() for p in model.parameters()]
    for step in range(3):
        train(model, optimizer, 1, first=step)
        schedule.step()
    moved = [not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
    assert moved == [False, False, True, True]
    assert 0 < optimizer.param_groups[1]["lr"] < 0.01


@every
def test_closure_gives_its_loss(make):
    w = torch.nn.Parameter(torch.tensor([2.0]))
    optimizer = make([w], lr=0.01)

    def closure():
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 4.0
    assert w.item() < 2.0


@every
def test_maximize_is_the_step_on_the_negated_gradient(make):
    ends = []
    for sign, maximize in [(1.0, False), (-1.0, True)]:
        w = torch.nn.Parameter(torch.tensor([0.7, -0.2]))
        optimizer = make([w], lr=0.1, maximize=maximize)
        w.grad = sign * torch.tensor([0.3, 0.1])
        optimizer.step()
        ends.append(w.detach())
    assert torch.equal(*ends)


@every
def test_grad_scaler_skips_what_overflowed(make):
    w = torch.nn.Parameter(torch.tensor([0.7]))
    optimizer = make([w], lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale((w * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert w.item() == pytest.approx(0.7) and scaler.get_scale() == 2.0
    optimizer.zero_grad()
    scaler.scale((w * 0.3).sum()).backward()
    scaler.step(optimizer)
    assert w.item() != pytest.approx(0.7)


@every
def test_compiled_step(make):
    model, other = network(), network()
    plain = make(model.parameters(), lr=0.01, foreach=True)
    optimizer = make(other.parameters(), lr=torch.tensor(0.01), capturable=True)
    step = torch.compile(optimizer.step, backend="eager", fullgraph=False)
    for number in range(3):
        train(model, plain, 1, first=number)
        x, y = batch(number % 3)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(other(x), y).backward()
        step()
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


@every
def test_refused_gradient_changes_nothing(make):
    first = torch.nn.Parameter(torch.ones(3))
    second = torch.nn.Parameter(torch.ones(2))
    optimizer = make([first, second], lr=0.1)
    first.grad, second.grad = torch.ones(3), torch.tensor([1.0, float("nan")])
    with pytest.raises(ValueError, match="NaN"):
        optimizer.step()
    assert first.tolist() == [1.0] * 3 and optimizer.state[first]["step"].item() == 0
    second.grad = torch.ones(2)
    optimizer.step()
    assert first[0] < 1.0 and optimizer.state[second]["step"].item() == 1


@pytest.mark.parametrize(
    "make,options,message",
    [
        (optim.UCBOpt, {"lr": -1.0}, "lr -1.0 is not in"),
        (optim.UCBOpt, {"lr": float("nan")}, "lr nan is not in"),
        (optim.UCBOpt, {"vartheta": 0.5}, r"vartheta 0.5 is not in \[0, weight_decay\]"),
        (optim.UCBOpt, {"weight_decay": 0.0}, "weight_decay 0"),
        (optim.UCBOpt, {"beta1": 1.0}, "beta1 1"),
        (optim.UCBOpt, {"eps_policy": "sometimes"}, "unknown variant `sometimes`"),
        (optim.UCBOpt, {"differentiable": True}, "differentiable=True is not supported"),
        (optim.UCBOptAdapt, {"gamma": 1.0}, "gamma 1"),
        (optim.UCBOptAdapt, {"beta3": 0.99}, "beta3 0.99"),
        (optim.LCBOptAdapt, {"gamma": 1.0}, "gamma 1"),
        (optim.LCBOptAdapt, {"clip_radius": -1.0}, "clip_radius -1"),
        (optim.LCBOptAdapt, {"lr": torch.ones(2)}, "tensor of 2 numbers"),
    ],
)
def test_mistakes_are_named(make, options, message):
    with pytest.raises(ValueError, match=message):
        make([torch.nn.Parameter(torch.ones(1))], **options)


@every
def test_mistakes_in_a_group_and_in_gradients(make):
    w = torch.nn.Parameter(torch.ones(4))
    optimizer = make([w], lr=0.1)
    with pytest.raises(ValueError, match="beta2"):
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))], "beta2": 2.0})
    assert len(optimizer.param_groups) == 1
    w.grad = torch.ones(4).to_sparse()
    with pytest.raises(RuntimeError, match="does not support sparse gradients"):
        optimizer.step()
