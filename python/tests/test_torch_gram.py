import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import maxitive
import maxitive.torch as optim


def test_linear_model_has_a_closed_form():
    torch.manual_seed(0)
    layer = torch.nn.Linear(4, 3).double()
    x = torch.randn(5, 4, dtype=torch.float64)
    precisions = {p: 0.5 + torch.rand_like(p) for p in layer.parameters()}
    logits, gram = optim.gram(layer, x, precisions, together=2)
    torch.testing.assert_close(logits, layer(x))
    weight, bias = (1 / precisions[p] for p in layer.parameters())
    # logit k depends on row k of the weights alone
    want = torch.diag_embed(torch.einsum("ni,ki->nk", x * x, weight) + bias)
    torch.testing.assert_close(gram, want, rtol=1e-12, atol=1e-12)
    _, plain = optim.gram(layer, x)
    torch.testing.assert_close(plain, (1 + (x * x).sum(1))[:, None, None] * torch.eye(3).double())
    _, scaled = optim.gram(layer, x, 4.0)
    torch.testing.assert_close(scaled, plain / 4.0)


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 3, 3),
        torch.nn.BatchNorm2d(3),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Dropout(0.5),
        torch.nn.Linear(48, 4),
    )


def test_a_network_against_one_gradient_at_a_time():
    model = network()
    model[0].bias.requires_grad_(False)
    x = torch.randn(3, 1, 6, 6)
    before = copy.deepcopy(model.state_dict())
    logits, gram = optim.gram(model, x)
    assert model.training and all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    model.eval()
    trained = [p for p in model.parameters() if p.requires_grad]
    for image in range(3):
        found = model(x[image : image + 1])[0]
        torch.testing.assert_close(logits[image], found)
        rows = [torch.autograd.grad(z, trained, retain_graph=True) for z in found]
        rows = torch.stack([torch.cat([g.flatten() for g in row]) for row in rows])
        torch.testing.assert_close(gram[image], rows @ rows.T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [optim.UCBOpt, optim.UCBOptAdapt, optim.LCBOptAdapt])
def test_from_a_training_to_bounds(make):
    model = network()
    optimizer = make(model.parameters(), lr=1e-3)
    x, y = torch.randn(64, 1, 6, 6), torch.randint(4, (64,))
    for _ in range(3):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    precisions = optimizer.precisions(64)
    weight = model[5].weight
    group, state = optimizer.param_groups[0], optimizer.state[weight]
    if make is optim.UCBOpt:
        want = torch.full_like(weight, 64 * group["vartheta"])
    else:
        want = 64 * group["gamma"] * state["envelope"]
    torch.testing.assert_close(precisions[weight], want)
    logits, gram = optim.gram(model, x[:6], precisions)
    found = maxitive.bounds(logits.double().numpy(), gram.double().numpy())
    assert (found.lower <= found.probabilities + 1e-9).all()
    assert (found.probabilities <= found.upper + 1e-9).all()
    np.testing.assert_array_equal(found.answer, logits.argmax(1).numpy())


def test_without_vartheta_the_curvature_is_the_precision():
    w = torch.nn.Parameter(torch.tensor([0.7]))
    optimizer = optim.UCBOpt([w], lr=0.1, vartheta=0.0)
    with pytest.raises(ValueError, match="made no step yet"):
        optimizer.precisions(10)
    w.grad = torch.tensor([0.3])
    optimizer.step()
    group = optimizer.param_groups[0]
    h = group["beta2"] * group["hess_init"] + (1 - group["beta2"]) * 0.09
    want = 10 * (h + group["weight_decay"])
    assert optimizer.precisions(10)[w].item() == pytest.approx(want, rel=1e-6)


def test_mistakes_are_named():
    layer = torch.nn.Linear(2, 2)
    x = torch.ones(1, 2)
    with pytest.raises(KeyError, match="no precision of the parameter bias"):
        optim.gram(layer, x, {layer.weight: torch.ones(2, 2)})
    with pytest.raises(ValueError, match="parameter weight is not in"):
        optim.gram(layer, x, 0.0)
    with pytest.raises(ValueError, match="together 0"):
        optim.gram(layer, x, together=0)
    with pytest.raises(ValueError, match="no inputs"):
        optim.gram(layer, x[:0])
    with pytest.raises(ValueError, match="does not give logits"):
        optim.gram(torch.nn.Sequential(layer, torch.nn.Unflatten(1, (2, 1))), x)
    with pytest.raises(ValueError, match="examples 0"):
        optim.UCBOpt(layer.parameters()).precisions(0)
