"""On a CUDA device: the fused kernel beside the foreach form in float64, alone and captured."""

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no CUDA device", allow_module_level=True)

import maxitive.torch as optim

RULES = [optim.UCBOpt, optim.UCBOptAdapt, optim.LCBOptAdapt]
COUNT = 100_003


def gradients(dtype):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(COUNT, generator=generator).to("cuda", dtype) for _ in range(5)]


def start(dtype):
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(COUNT, generator=generator).to("cuda", dtype)
    small = torch.ones(3, device="cuda", dtype=dtype)
    return [torch.nn.Parameter(w), torch.nn.Parameter(small)]


def run(make, dtype, **options):
    params = start(dtype)
    optimizer = make(params, lr=0.01, **options)
    for grad in gradients(dtype):
        params[0].grad, params[1].grad = grad, grad[:3]
        optimizer.step()
    return params, optimizer


def close(found, want):
    scale = want.abs().max().item()
    assert (found.double() - want).abs().max().item() <= 2e-6 * scale


@pytest.mark.parametrize("make", RULES, ids=lambda c: c.__name__)
@pytest.mark.parametrize("policy", ["none", "add", "clamp", "add_then_clamp"])
@pytest.mark.parametrize("radius", [None, 0.5])
def test_fused_kernel(make, policy, radius, monkeypatch):
    options = {"eps_policy": policy, "clip_radius": radius, "eps": 1e-3}
    want, exact = run(make, torch.float64, **options)
    calls = []
    fused = optim._triton().step
    monkeypatch.setattr(optim._triton(), "step", lambda *a: (calls.append(a[0]), fused(*a)))
    params, optimizer = run(make, torch.float32, **options)
    assert calls == [make._id] * 5
    for p, q in zip(params, want, strict=True):
        close(p, q)
        for name, state in exact.state[q].items():
            close(optimizer.state[p][name].double(), state.double())


@pytest.mark.parametrize("make", RULES, ids=lambda c: c.__name__)
def test_captured_in_a_graph(make):
    want, _ = run(make, torch.float32)
    params = start(torch.float32)
    rate = torch.tensor(0.01, device="cuda")
    optimizer = make(params, lr=rate, capturable=True)
    grads = gradients(torch.float32)
    params[0].grad, params[1].grad = grads[0].clone(), grads[0][:3].clone()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        optimizer.step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        optimizer.step()
    for grad in grads[1:]:
        params[0].grad.copy_(grad)
        params[1].grad.copy_(grad[:3])
        graph.replay()
    for p, q in zip(params, want, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-5)


def test_capturing_needs_capturable():
    params = start(torch.float32)
    optimizer = optim.UCBOpt(params, lr=0.01)
    for p in params:
        p.grad = torch.ones_like(p)
    optimizer.step()
    with pytest.raises(RuntimeError, match="capturable=True"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            optimizer.step()


def test_scaler_and_autocast():
    torch.manual_seed(0)
    model = torch.nn.Linear(300, 300).cuda()
    optimizer = optim.UCBOptAdapt(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cuda")
    x = torch.randn(64, 300, device="cuda")
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = (model(x) - x.half()).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
