#!/usr/bin/env python3
"""Tests and times the kernels on a GPU: cubins through the driver, PyTorch for memory, references and comparison.

    python measure.py CUBINS OUT [check] [check_dense] [time] [dense] [layers] [torch] [predict] [sanitize] [sanitize_dense] [profile] [profile_dense]

CUBINS is the folder that `cargo xtask kernels` filled. Every result is printed and written to OUT/measure.json.
"""
import ctypes, json, math, os, pathlib, re, statistics, sys, time
import numpy as np
import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
CUBINS, OUT = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
PARTS = sys.argv[3:] or ["check", "time"]
RESULTS = {}
torch.cuda.init()
torch.zeros(1, device="cuda")
cuda = ctypes.CDLL("libcuda.so.1")
ARCH = "sm_%d%d" % torch.cuda.get_device_capability()
I, U, L, P, FL = ctypes.c_int, ctypes.c_uint, ctypes.c_longlong, ctypes.c_void_p, ctypes.c_float


def checked(code, what):
    if code:
        raise RuntimeError(f"{what}: driver error {code}")


def struct(name, fields):
    return type(name, (ctypes.Structure,), {"_fields_": [(f, t) for t, names in fields for f in names.split()]})


Images = struct("Images", [(P, "pixels ready labels tables"), (I, "channels height width")])
Lenet = struct("Lenet", [(I, "classes layer1 layer2"), (U, "threshold"), (FL, "factor"), (L, "features hidden1 hidden2 delta1 delta2 delta3 loss correct partial")])
Stage = struct("Stage", [(I, "batch parameters prepared slice gradients reserved"), (L, "values roots input input_gradient partial"), (I, "drop0 drop1 drop2 drop3 drop4 drop5"), (U, "threshold"), (FL, "factor")])
Head = struct("Head", [(I, "batch classes weight slice gradients predict"), (L, "x dx loss correct logits partial")])
Block = struct("Block", [(I, "batch layers width parameters prepared slice next_channels next_first"), (L, "x g z z_step dz roots z_roots sums next_x next_g next_roots next_sums partial")])
DenseHead = struct("DenseHead", [(I, "channels classes frn weight layer predict"), (U, "threshold"), (FL, "factor"), (L, "x g roots sums features delta loss correct logits partial")])
Conv = struct("Conv", [(I, "in_c in_h in_w out_c out_h out_w kernel stride top left weight bias group accumulate x_stride y_stride relu reserved"), (L, "x y partial")])
Frn = struct("Frn", [(I, "channels plane gamma accumulate x_stride y_stride dx_stride add_stride"), (L, "x y dx partial add")])
Pool = struct("Pool", [(I, "planes in_h in_w out_h out_w kernel_h kernel_w stride x_stride y_stride dx_stride accumulate relu reserved"), (L, "x y dx")])
Flat = struct("Flat", [(I, "size"), (U, "threshold"), (FL, "factor"), (I, "layer x_stride y_stride z_stride accumulate"), (L, "x y z")])
Loss = struct("Loss", [(I, "classes"), (L, "logits gradient loss correct")])
RUN = np.dtype([(n, np.uint64) for n in "theta point gradient momentum curvature envelope values partial prepared visits steps outcomes gradient_mean second_mean seed".split()]
               + [(n, np.uint32) for n in "step stopped rule parameters".split()])
STEP = np.dtype([("first_visit", np.uint32), ("images", np.uint32), ("first_image", np.uint32), ("sample", np.uint32), ("logit", np.uint32), ("reserved", np.uint32), ("noise_step", np.uint64), ("dropout_seed", np.uint64), ("constants", np.float32, 16)])
OUTCOME = np.dtype([("loss", np.float64)] + [(n, np.uint32) for n in "correct unusable floored gap_not_positive clipped overflowed".split()])
VISIT = np.dtype([("image", np.uint32), ("down", np.int8), ("right", np.int8), ("flip", np.uint8), ("reserved", np.uint8)])
SEGMENT = np.dtype([("partial", np.int64), ("gradient", np.int32), ("count", np.int32), ("stride", np.int32), ("group", np.int32)])
DENSE_SUMS = np.dtype(SEGMENT.descr + [("in", np.int32), ("reserved", np.int32)])
assert RUN.itemsize == 136 and STEP.itemsize == 104 and OUTCOME.itemsize == 32 and VISIT.itemsize == 8 and SEGMENT.itemsize == 24 and DENSE_SUMS.itemsize == 32


class Kernels:
    """The functions of a cubin."""

    def __init__(self, name):
        self.module, self.functions = P(), {}
        image = next(CUBINS.glob(f"{name}-{ARCH}-*.cubin")).read_bytes()
        checked(cuda.cuModuleLoadData(ctypes.byref(self.module), image), f"load {name}")

    def get(self, name, shared=0):
        if name not in self.functions:
            f = P()
            checked(cuda.cuModuleGetFunction(ctypes.byref(f), self.module, name.encode()), name)
            self.functions[name] = f
        f = self.functions[name]
        if shared > 48 << 10:
            checked(cuda.cuFuncSetAttribute(f, 8, shared), f"{name}: {shared} bytes of shared memory")
        return f

    def attributes(self, name):
        value, out = I(), {}
        for key, number in [("registers", 4), ("local", 3)]:
            cuda.cuFuncGetAttribute(ctypes.byref(value), number, self.get(name))
            out[key] = value.value
        return out

    def launch(self, name, grid, threads, shared, *arguments):
        f = self.get(name, shared)
        values = [a if isinstance(a, ctypes.Structure) else (P(a.data_ptr()) if isinstance(a, torch.Tensor) else a) for a in arguments]
        array = (P * len(values))(*[ctypes.cast(ctypes.pointer(v), P) for v in values])
        stream = P(torch.cuda.current_stream().cuda_stream)
        checked(cuda.cuLaunchKernel(f, *grid, threads, 1, 1, shared, stream, array, None), name)


def device(array):
    return torch.from_numpy(np.frombuffer(array.tobytes(), dtype=np.uint8).copy()).cuda()


def host(tensor, dtype):
    return np.frombuffer(tensor.cpu().numpy().tobytes(), dtype=dtype)


class Lot:
    """R runs with all their memory; `fill` poisons what the kernels must write."""

    def __init__(self, R, parameters, values, partial, prepared, visits, steps):
        self.R, self.count = R, parameters
        new = lambda n, v: torch.full((R, max(n, 1)), v, device="cuda")
        pad = (parameters + 63) // 64 * 64
        nan = float("nan")
        self.theta, self.gradient, self.momentum = new(pad, 0.0), new(pad, nan), new(pad, 0.0)
        self.curvature, self.envelope = new(pad, 0.05), new(pad, math.inf)
        self.values, self.partial, self.prepared = new(values, nan), new(partial, nan), new(prepared, nan)
        self.visits, self.steps = device(visits), device(steps)
        self.step_count = steps.shape[1]
        self.outcomes = device(np.zeros((R, self.step_count), OUTCOME))
        self.runs = np.zeros(R, RUN)
        for r in range(R):
            for name in "theta gradient momentum curvature envelope values partial prepared".split():
                self.runs[r][name] = getattr(self, name)[r].data_ptr()
            self.runs[r]["point"] = self.runs[r]["theta"]
            self.runs[r]["visits"] = self.visits.data_ptr() + r * visits.shape[1] * 8
            self.runs[r]["steps"] = self.steps.data_ptr() + r * self.step_count * STEP.itemsize
            self.runs[r]["outcomes"] = self.outcomes.data_ptr() + r * self.step_count * 32
            self.runs[r]["parameters"] = parameters
        self.table = device(self.runs)

    def reset(self):
        self.table.copy_(device(self.runs))
        self.outcomes.zero_()

    def results(self):
        return host(self.outcomes, OUTCOME).reshape(self.R, self.step_count)


def ceil(a, b):
    return -(-a // b)


def timed(body, repeat, rounds=7):
    """Median microseconds of one call of `body`, `repeat` of them in a graph."""
    body()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeat):
            body()
    graph.replay()
    torch.cuda.synchronize()
    spans = []
    for _ in range(rounds):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        spans.append(start.elapsed_time(end) * 1000 / repeat)
    return statistics.median(spans)


def error(got, want):
    got, want = got.double().flatten(), want.double().flatten()
    return float((got - want).norm() / want.norm().clamp_min(1e-30))


def report(name, **values):
    RESULTS.setdefault(name, {}).update(values)
    print(name, *[f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in values.items()], flush=True)


def tf32_round(x):
    return ((x.contiguous().view(torch.int32) + 0x1000) & -0x2000).view(torch.float32)


# ---- the nets ---------------------------------------------------------------------------------------------------------------

def mix(x):
    x = (x + np.uint64(0x9E3779B97F4A7C15))
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def signed_unit(stream, n):
    with np.errstate(over="ignore"):
        bits = mix((np.uint64(stream) << np.uint64(32)) + np.arange(n, dtype=np.uint64))
    return 2.0 * ((bits >> np.uint64(11)).astype(np.float64) / 2.0**53) - 1.0


def golden_parameters(seed, shapes, frn):
    out = []
    for t, (shape, kind) in enumerate(shapes):
        s = signed_unit(seed * 65536 + t, int(np.prod(shape)))
        out.append(s * math.sqrt(6 / np.prod(shape[1:])) if kind == "weight" else 0.1 * s if kind == "bias" else 1 + 0.2 * s if kind == "gamma" else 0.2 * s)
    return np.concatenate(out).astype(np.float32)


LENET_SHAPES = [((6, 1, 5, 5), "weight"), ((6,), "bias"), ((16, 6, 5, 5), "weight"), ((16,), "bias"), ((120, 256), "weight"), ((120,), "bias"),
                ((84, 120), "weight"), ((84,), "bias"), ((10, 84), "weight"), ((10,), "bias")]


def resnet_shapes():
    def conv(o, i, k):
        return [((o, i, k, k), "weight"), ((o,), "bias"), ((o,), "gamma"), ((o,), "beta"), ((o,), "beta")]
    out = conv(16, 3, 3)
    for s, c in enumerate([16, 32, 64]):
        for k in range(3):
            if s and k == 0:
                out += conv(c, c // 2, 3) + conv(c, c, 3) + conv(c, c // 2, 1)
            else:
                out += conv(c, c, 3) + conv(c, c, 3)
    return out + [((10, 64), "weight"), ((10,), "bias")]


def split(flat, shapes):
    out, at = [], 0
    for shape, _ in shapes:
        n = int(np.prod(shape))
        out.append(flat[at:at + n].view(shape))
        at += n
    return out


def lenet(p, x):
    x = F.max_pool2d(F.relu(F.conv2d(x, p[0], p[1])), 2)
    x = F.max_pool2d(F.relu(F.conv2d(x, p[2], p[3])), 2).flatten(1)
    x = F.relu(F.linear(x, p[4], p[5]))
    return F.linear(F.relu(F.linear(x, p[6], p[7])), p[8], p[9])


def frn(x, gamma, beta, tau):
    shape = (1, -1, 1, 1)
    x = x * torch.rsqrt(x.square().mean((2, 3), keepdim=True) + 1e-6)
    return torch.maximum(gamma.view(shape) * x + beta.view(shape), tau.view(shape))


def resnet(p, x):
    p = list(p)

    def layer(x, stride):
        w, b, gamma, beta, tau = p[:5]
        del p[:5]
        if stride == 2 and w.shape[2] == 3:
            x = F.pad(x, (0, 1, 0, 1))
        return frn(F.conv2d(x, w, b, stride, padding=1 if w.shape[2] == 3 and stride == 1 else 0), gamma, beta, tau)
    x = layer(x, 1)
    for s in range(3):
        for k in range(3):
            stride = 2 if s and k == 0 else 1
            y = layer(layer(x, stride), 1)
            x = (layer(x, 2) if stride == 2 else x) + y
    return F.linear(x.mean((2, 3)), p[0], p[1])


def adamw_steps(R, steps, batch, visits_per_run, lr=1e-3):
    """Constants of AdamW as the host forms them."""
    table = np.zeros((R, steps), STEP)
    t = np.arange(1, steps + 1)
    k = table["constants"]
    k[..., 0], k[..., 1], k[..., 2], k[..., 3] = np.float32(1 - 0.9), 1, np.float32(1 - 0.999), 1
    k[..., 4], k[..., 5], k[..., 6], k[..., 7] = lr * 2e-4, 1 / np.sqrt(1 - 0.999**t), 1e-8, lr / (1 - 0.9**t)
    table["images"], table["noise_step"] = batch, t
    table["first_visit"] = (np.arange(steps) * batch) % (visits_per_run - batch + 1)
    return table


class Net:
    """A net with R runs: its memory, its launches, and one training step."""
    STEPS, VISITS = 4096, 8192

    def __init__(self, R, batch, shape, parameters, values, partial, prepared, pictures=2048, ready=None, labels=None, same=False):
        c, h, w = shape
        rng = np.random.default_rng(5)
        visits = np.zeros((R, self.VISITS), VISIT)
        for r in range(R):
            # run r has its own order, the same wherever it stands
            own = np.random.default_rng(100 + (0 if same else r))
            visits[r]["image"] = own.integers(0, pictures if ready is None else len(ready), self.VISITS)
            if ready is None and c == 3:
                visits[r]["down"], visits[r]["right"] = own.integers(-4, 5, (2, self.VISITS))
                visits[r]["flip"] = own.integers(0, 2, self.VISITS)
            if ready is not None:
                visits[r]["image"] = np.arange(self.VISITS) % len(ready)
        self.pixels = torch.from_numpy(rng.integers(0, 256, (pictures, c * h * w), dtype=np.uint8)).cuda()
        self.labels = torch.from_numpy((rng.integers(0, 10, pictures) if labels is None else np.array(labels)).astype(np.int32)).cuda()
        self.tables = torch.from_numpy(np.tile(((np.arange(256) / 255 - 0.45) / 0.25).astype(np.float32), (c, 1))).cuda()
        self.ready = None if ready is None else torch.from_numpy(ready).cuda()
        self.set = Images(self.pixels.data_ptr(), self.ready.data_ptr() if ready is not None else 0, self.labels.data_ptr(), self.tables.data_ptr(), c, h, w)
        self.visits = visits
        steps = adamw_steps(R, self.STEPS, batch, self.VISITS)
        if ready is not None:
            steps["first_visit"] = 0
        self.lot = Lot(R, parameters, values, partial, prepared, visits, steps)
        self.lot.runs["rule"] = 4
        self.lot.curvature.zero_()
        self.lot.reset()
        self.R, self.batch, self.count = R, batch, parameters
        self.rules = Kernels("rules")

    def batch_of(self, r, step=0):
        """Images and labels of a step in f32, as PyTorch sees them."""
        first = (step * self.batch) % (self.VISITS - self.batch + 1) if self.ready is None else 0
        c, h, w = self.set.channels, self.set.height, self.set.width
        rows = self.visits[r][first:first + self.batch]
        index = torch.from_numpy(rows["image"].astype(np.int64)).cuda()
        if self.ready is not None:
            return self.ready[index].view(-1, c, h, w), self.labels[index].long()
        x = self.pixels[index].view(-1, c, h, w).long()
        out = torch.empty(x.shape, device="cuda")
        black = self.tables[0, 0]
        for i, v in enumerate(rows):
            p = self.tables[0][x[i]]
            if v["flip"]:
                p = p.flip(2)
            d, e = int(v["down"]), int(v["right"])
            big = torch.full((c, h + 8, w + 8), float(black), device="cuda")
            big[:, 4:4 + h, 4:4 + w] = p
            out[i] = big[:, 4 + d:4 + d + h, 4 + e:4 + e + w]
        return out, self.labels[index].long()

    def finish(self):
        n = ceil(self.count, 256)
        return [("update", lambda: self.rules.launch("update", (n, 1, self.R), 256, 0, self.lot.table)),
                ("tick", lambda: self.rules.launch("tick", (1, 1, self.R), 32, 0, self.lot.table, L(self.loss_at), L(self.correct_at)))]

    def step(self):
        for _, body in self.launches():
            body()

    def step_in_halves(self):
        """The step as two halves of the runs, each a chain of its own, so that the blocks of one are there where a kernel of
        the other ends, as the engine does for many runs."""
        main, R, table = torch.cuda.current_stream(), self.R, self.lot.table
        self.side = getattr(self, "side", None) or torch.cuda.Stream()
        self.side.wait_stream(main)
        for stream, first, count in ((main, 0, ceil(R, 2)), (self.side, ceil(R, 2), R // 2)):
            with torch.cuda.stream(stream):
                self.R, self.lot.table = count, table[first * RUN.itemsize:]
                self.step()
        self.R, self.lot.table = R, table
        main.wait_stream(self.side)

    def gradient(self):
        for _, body in self.launches()[:-2]:
            body()


class LenetNet(Net):
    def __init__(self, R, G, batch=128, **more):
        widths, at, offsets = [256, 120, 84, 120, 84, 10, 1, 1], 0, []
        for w in widths:
            offsets.append(at)
            at += batch * w
        self.args = Lenet(10, 0, 0, 0, 1.0, *offsets, 0)
        self.loss_at, self.correct_at, self.G = offsets[6], offsets[7], G
        super().__init__(R, batch, (1, 28, 28), 44426, at, batch * 2572, 0, **more)
        self.kernels = Kernels("lenet")

    def launches(self):
        out = 8 if self.G == 1 else 32
        shared = self.G * (4 * (1056 + 6 * 146 + 864 + 256 + 120 + 84 + 32 + 32 + 84 + 120) + 8 * (256 + 590) + 864) + 4 * (200 + 2 * 2336) + max(4 * 150 * 20, self.G * 8 * 864) + 8
        return [(f"lenet{self.G}", lambda: self.kernels.launch(f"lenet{self.G}", (ceil(self.batch, self.G), 1, self.R), 320, shared, self.lot.table, self.set, self.args)),
                ("lenet_gradients", lambda: self.kernels.launch(f"lenet_gradients{out}", (21 + 2 * ceil(120, out) + ceil(84, out) + ceil(10, out), 1, self.R), 512, 4 * 128 * (128 + out), self.lot.table, self.args))] + self.finish()


class ResnetNet(Net):
    TOGETHER = [1, 1, 2]  # images of a block of threads

    def __init__(self, R, precision, batch=128, **more):
        self.precision = precision
        prepare, stages, self.shared, at, ready, values, source, source_gradient, piece_sum = [], [], [], 0, 0, 0, 0, 0, 0

        def conv(o, i, k, padded, back):
            nonlocal at, ready, piece_sum
            taps = k * k
            row = [at, o, i, padded, taps, ready, -1, piece_sum, self.TOGETHER[s], 0]
            piece_sum += o * padded * taps + 4 * o
            ready += padded * taps * o
            if back:
                row[6] = ready
                ready += o * taps * i
            prepare.append(row)
            at += o * i * taps + 4 * o
        for s, (S, C) in enumerate([(32, 16), (16, 32), (8, 64)]):
            images = self.TOGETHER[s]
            own = ceil(batch, images) * images
            size = own * C * S * S
            stage = Stage(own, at, ready, 0, piece_sum, 0, values, values + 13 * size, source, source_gradient, 0)
            source, source_gradient = values + 9 * size, values + 11 * size
            values += 13 * size + 7 * own * C
            if s == 0:
                conv(C, 3, 3, 8, False)
            else:
                conv(C, C // 2, 3, C // 2, True), conv(C, C, 3, C, True), conv(C, C // 2, 1, C // 2, True)
            for _ in range(1 if s else 0, 3):
                conv(C, C, 3, C, True), conv(C, C, 3, C, True)
            stages.append(stage)
            plane = (S + 2) * (S + 4)
            pixel_warps = 256 // C
            first = max((1 if s == 0 else 2) * C * plane, images * C * plane, 2 * images * C * S * S, 9 * C * C // images if images > 1 else 0)
            self.shared.append(4 * (first + images * C * plane + min(C, 32) * 9 * C + 4 * (pixel_warps + images) * C + 7 * (4 + images) * C))
        self.head = Head(batch, 10, at, 0, piece_sum, 0, source, source_gradient, values, values + batch, values + 2 * batch, 0)
        self.loss_at, self.correct_at = values, values + batch
        values += 2 * batch + batch * 10
        prepare.append([at, 650, 0, 0, 0, 0, -1, piece_sum, 1, 0])
        at += 650
        self.slice = (piece_sum + 650 + 3) // 4 * 4
        for stage in stages:
            stage.slice = self.slice
        self.head.slice = self.slice
        assert at == 274042
        self.stages = stages
        self.prepare_table = device(np.array(prepare, dtype=np.int32))
        self.prepares = len(prepare)
        super().__init__(R, batch, (3, 32, 32), at, values, batch * self.slice, ready, **more)
        self.kernels = Kernels("resnet")

    def launches(self):
        R, B, p, k = self.R, self.batch, self.precision, self.kernels
        def stage(i, way):
            return (f"stage{i + 1}_{way}", lambda: k.launch(f"stage{i + 1}_{way}_{p}", (ceil(B, self.TOGETHER[i]), 1, R), 512, self.shared[i], self.lot.table, self.set, self.stages[i]))
        return ([("prepare", lambda: k.launch(f"prepare_{p}", (20, self.prepares - 1, R), 256, 0, self.lot.table, self.prepare_table))]
                + [stage(i, "forward") for i in range(3)]
                + [("resnet_head", lambda: k.launch("resnet_head", (B, 1, R), 256, 4 * (64 + 20), self.lot.table, self.set, self.head))]
                + [stage(i, "backward") for i in (2, 1, 0)]
                + [("reduce", lambda: k.launch("resnet_reduce", (73, self.prepares, R), 256, 0, self.lot.table, self.prepare_table, L(0), I(self.slice)))]
                + self.finish())


class ResnetPrediction(ResnetNet):
    """Logits and means of R weight sets; two tensors per stage."""

    def __init__(self, R, precision, batch, **more):
        super().__init__(R, precision, 1, **more)
        self.batch, at, output = batch, 0, 0
        for stage, size in zip(self.stages, (16384, 8192, 4096)):
            own = ceil(batch, 2) * 2
            stage.batch, stage.values, stage.input = own, at, output
            output, at = at + own * size, at + 2 * own * size
        self.head.batch, self.head.predict, self.head.x, self.head.logits, self.head.dx = batch, 1, output, at, at + 10 * batch
        self.lot.values = torch.full((R, at + 76 * batch), float("nan"), device="cuda")
        steps = host(self.lot.steps, STEP).reshape(R, -1).copy()
        steps["images"], steps["first_visit"] = batch, 0
        self.lot.steps.copy_(device(steps))
        for r in range(R):
            self.lot.runs[r]["values"] = self.lot.values[r].data_ptr()
        self.lot.reset()

    def launches(self):
        k, p, R, B = self.kernels, self.precision, self.R, self.batch
        def stage(i):
            return (f"stage{i + 1}_predict", lambda: k.launch(f"stage{i + 1}_predict_{p}", (ceil(B, self.TOGETHER[i]), 1, R), 512, self.shared[i], self.lot.table, self.set, self.stages[i]))
        return ([("prepare", lambda: k.launch(f"prepare_{p}", (20, self.prepares - 1, R), 256, 0, self.lot.table, self.prepare_table))] + [stage(i) for i in range(3)]
                + [("resnet_head", lambda: k.launch("resnet_head", (B, 1, R), 256, 4 * (64 + 20), self.lot.table, self.set, self.head))])


class DenseNet(Net):
    """DenseNet with one kernel per block and direction."""
    IMAGES, WARPS = [int(v) for v in os.environ.get("DENSE_IMAGES", "1,1,2,4").split(",")], [int(v) for v in os.environ.get("DENSE_WARPS", "16,16,16,16").split(",")]
    CUBIN = os.environ.get("DENSE_CUBIN", "densenet")

    def __init__(self, R, precision, batch=128, layers=(6, 12, 24, 16), classes=100, **more):
        self.precision = precision
        forward, backward = lambda n: ceil(n, 8) * 8 * 48, lambda n: ceil(n, 16) * 16 * 48
        at = ready = values = partial = 0
        prepare, self.blocks, sums, self.shared = [], [], [], []

        def conv(out, n, taps):
            nonlocal at, ready
            prepare.append((at, out, n, taps, ready, 0))
            ready += out // 48 * (forward(n) + backward(n)) if taps == 1 else 8 * 9 * 24 if n == 3 else 48 * 9 * 16 + 16 * 9 * 48
            at += out * n * taps

        def take(n):
            nonlocal values
            values += n
            return values - n

        def slice_of(block, last):
            """Stretches of a block's partial sums, (place, parameter, count, inputs of a 1x1 convolution in tiles or 0); their length."""
            if block is self.blocks[0]:
                return [(0, block.parameters, at - block.parameters, 0)], at - block.parameters
            rows, size, first = [], 0, block.parameters

            def stretch(count, tiles=0, inputs=0):
                nonlocal size, first
                rows.append((size, first, tiles or count, inputs))
                size, first = size + (tiles or count), first + count
            for layer in range(block.layers + (not last)):
                n, pooled = block.width + 12 * layer, layer == block.layers
                stretch(3 * n)
                for _ in range(n // 96 if pooled else 1):
                    stretch(48 * n, backward(n), n)
                if not pooled:
                    stretch(3 * 48 + 12 * 48 * 9)
            assert first == at
            return rows, size
        width = 24
        for b, count in enumerate(layers):
            area, every = 1024 >> 2 * b, width + 12 * count
            block = Block(batch=batch, layers=count, width=width, parameters=at, prepared=ready, partial=partial, z_step=batch * 48 * area)
            block.x, block.g, block.z = take(batch * every * area), take(batch * every * area), take(count * block.z_step)
            block.dz = self.blocks[0].dz if b else take(block.z_step)
            block.roots, block.sums, block.z_roots = take(batch * every), take(batch * every), take(count * batch * 48)
            if b == 0:
                conv(24, 3, 9)
            for i in range(count):
                at += 3 * (width + 12 * i)
                conv(48, width + 12 * i, 1)
                at += 3 * 48
                conv(12, 48, 9)
            if b + 1 < len(layers):
                at += 3 * every
                conv(every // 2, every, 1)
            self.blocks.append(block)
            rows, block.slice = slice_of(block, b + 1 == len(layers))
            sums += [(partial + place, first, count, block.slice, self.IMAGES[b], inputs, 0) for place, first, count, inputs in rows]
            partial += ceil(batch, self.IMAGES[b]) * block.slice
            width = every // 2 if b + 1 < len(layers) else every
            self.shared.append(self.shared_sizes(32 >> b, self.IMAGES[b], self.WARPS[b]))
        for block, after in zip(self.blocks, self.blocks[1:]):
            block.next_channels, block.next_first = after.width + 12 * after.layers, 12 * after.layers
            block.next_x, block.next_g, block.next_roots, block.next_sums = after.x, after.g, after.roots, after.sums
        last = self.blocks[-1]
        self.head = DenseHead(channels=width, classes=classes, frn=at, weight=at + 3 * width, factor=1.0, x=last.x, g=last.g, roots=last.roots, sums=last.sums, partial=partial)
        self.head.features, self.head.delta, self.head.loss, self.head.correct, self.head.logits = take(batch * width), take(batch * classes), take(batch), take(batch), take(batch * classes)
        self.loss_at, self.correct_at = self.head.loss, self.head.correct
        sums.append((partial, at, 3 * width, 3 * width, 1, 0, 0))
        partial += batch * 3 * width
        at += 3 * width + classes * (width + 1)
        self.most = max(row[2] for row in sums)
        self.sums_table, self.sums = device(np.array(sums, DENSE_SUMS)), len(sums)
        self.prepare_table, self.prepares = device(np.array(prepare, np.int32)), len(prepare)
        super().__init__(R, batch, (3, 32, 32), at, values, partial, ready, **more)
        self.kernels = Kernels(self.CUBIN)

    @staticmethod
    def shared_sizes(S, images, warps):
        """Bytes forward and backward, as BlockOf counts them."""
        strips, area, channels = (4 if S == 32 else 1), S * S, {32: 96, 16: 192}.get(S, 384)
        px = images * area // strips
        plane = (S + 2) * (S + 4)
        def product(rows, px):
            return warps * min(768 // rows, px) // px * rows * (px + 4)
        tile = max(warps * 24 * 32 + 8 * 52, product(48, px), product(12, images * area), product(24, px))
        forward = tile + (16 if strips > 1 else 48) * images * plane + channels * 48 + 48 * 9 * 16 + images * (5 * channels + 4 * 48) + 3 * channels + 288
        nine, middle, dz, shifted = min(warps // 3, px // 8) * 12 * 436, 16 * 9 * 48, 48 * px, 12 * images * plane
        after = 48 * (px + 4) if strips > 1 else 3 * 8 * 52 if px == 256 else product(48, px)
        layer = max(nine, 48 * (px + 4) + after + middle)
        if strips > 1:
            work = max(shifted + layer, 3 * dz + warps // 2 * 48 * 32 + 3 * warps * channels + 48 * 48)
        else:
            team = px // 64
            work = 2 * dz + shifted + max(layer, 2 * warps * (768 if team > 1 else 0) + 3 * team * max(1, 64 // area) * channels)
        backward = work + images * 6 * channels + images * 8 * 48 + 48
        return 4 * forward, 4 * backward

    def launches(self):
        R, B, p, k = self.R, self.batch, self.precision, self.kernels
        def block(b, way):
            return (f"dense{b + 1}_{way}", lambda: k.launch(f"dense{b + 1}_{way}_{p}", (ceil(B, self.IMAGES[b]), 1, R), 32 * self.WARPS[b], self.shared[b][way == "backward"], self.lot.table, self.set, self.blocks[b]))
        head = self.head
        return ([("prepare", lambda: k.launch(f"dense_prepare_{p}", (8, self.prepares, R), 256, 0, self.lot.table, self.prepare_table))]
                + [block(b, "forward") for b in range(4)]
                + [("dense_head", lambda: k.launch("dense_head", (B, 1, R), 512, 4 * (head.channels + 2 * head.classes), self.lot.table, self.set, head))]
                + [block(b, "backward") for b in (3, 2, 1, 0)]
                + [("dense_head_gradients", lambda: k.launch("dense_head_gradients", (ceil(head.classes * (head.channels + 1), 256), 1, R), 256, 0, self.lot.table, head)),
                   ("reduce", lambda: k.launch("dense_reduce", (ceil(self.most, 1024), self.sums, R), 256, 0, self.lot.table, self.sums_table))]
                + self.finish())


class LayerNet(Net):
    """Any net, layer by layer, from the general kernels. Values of a batch are [image, channel, row, column]."""

    def __init__(self, R, precision, build, shape, classes, batch=128, **more):
        self.precision, self.capacity = precision, batch
        self.at, self.memory, self.partial_size, self.segments = 0, 0, 0, []
        self.forward_ops, self.backward_ops, self.written = [], [], set()
        self.shapes, self.places, self.slopes, self.strides = [], [], [], []
        x = self.value(shape)
        self.forward_ops.append(("gather", lambda: self.layers.launch("gather", (ceil(int(np.prod(shape)), 256), batch, self.R), 256, 0, self.lot.table, self.set, L(self.places[x]))))
        logits = build(self, x)
        self.loss_at, self.correct_at = self.memory, self.memory + batch
        self.memory += 2 * batch
        super().__init__(R, batch, shape, self.at, self.memory, self.partial_size, 0, **more)
        loss = Loss(classes, self.places[logits], self.slopes[logits], self.loss_at, self.correct_at)
        self.forward_ops.append(("softmax_loss", lambda: self.layers.launch("softmax_loss", (batch, 1, R), 32, 0, self.lot.table, self.set, loss)))
        self.segment_table = device(np.array(self.segments, SEGMENT))
        most = max(row[2] for row in self.segments)
        self.reduce = ("reduce", lambda: self.layers.launch("reduce", (ceil(most, 256), len(self.segments), R), 256, 0, self.lot.table, self.segment_table))
        self.layers = Kernels("layers")

    def value(self, shape):
        size = self.capacity * int(np.prod(shape))
        self.shapes.append(shape), self.places.append(self.memory), self.slopes.append(self.memory + size), self.strides.append(int(np.prod(shape)))
        self.memory += 2 * size
        return len(self.shapes) - 1

    def part(self, whole, first, channels):
        """Some channels of a tensor, as a tensor."""
        _, h, w = self.shapes[whole]
        self.shapes.append((channels, h, w)), self.strides.append(self.strides[whole])
        self.places.append(self.places[whole] + first * h * w), self.slopes.append(self.slopes[whole] + first * h * w)
        return len(self.shapes) - 1

    def back(self, name, body):
        self.backward_ops.insert(0, (name, body))

    def first(self, x, later, always_add=False):
        """Backward runs in reverse: the last layer that reads x writes its gradient, the earlier ones add to it."""
        self.readers = getattr(self, "readers", {})
        self.readers.setdefault(x, []).append(later)

    def adds(self, x, me):
        return int(self.readers[x][-1] is not me)

    def conv(self, x, out, kernel, stride=1, top=0, shape=None, bias=False, to=None):
        c, h, w = self.shapes[x]
        oh, ow = shape or ((h + 2 * top - kernel) // stride + 1,) * 2
        # about a thousand pixels are summed by a block
        group = max(1, min(16, 1024 // (oh * ow)))
        y, me, width = self.value((out, oh, ow)) if to is None else to, object(), c * kernel**2 + bias
        self.first(x, me)
        weight, partial = self.at, self.partial_size
        self.at += out * width
        self.partial_size += ceil(self.capacity, group) * out * width
        self.segments.append((partial, weight, out * width, out * width, group))
        B, p, shared = self.capacity, self.precision, 4 * 16 * (72 + 136)
        def args(x_at, y_at, add=0):
            return Conv(c, h, w, out, oh, ow, kernel, stride, top, top, weight, weight + out * c * kernel**2 if bias else -1, group, add, self.strides[x], self.strides[y], 0, 0, x_at, y_at, partial)
        rows, back = (64 if out > 16 else 16), (64 if c > 16 else 16)
        self.forward_ops.append((f"conv {kernel}x{kernel}", lambda: self.layers.launch(f"conv_forward{rows}_{p}", (ceil(B * oh * ow, 128), ceil(out, rows), self.R), 128, shared, self.lot.table, args(self.places[x], self.places[y]))))
        if x:
            self.back(f"conv {kernel}x{kernel} input", lambda: self.layers.launch(f"conv_input{back}_{p}", (ceil(B * h * w, 128), ceil(c, back), self.R), 128, shared, self.lot.table, args(self.slopes[x], self.slopes[y], self.adds(x, me))))
        self.back(f"conv {kernel}x{kernel} weights", lambda: self.layers.launch(f"conv_weights_{p}", (ceil(width, 128) * ceil(out, 16), ceil(B, group), self.R), 128, shared, self.lot.table, args(self.places[x], self.slopes[y])))
        return y

    def frn(self, x, adds=None):
        """`adds`: whether its gradient is added to that of x, where x is part of a tensor that others read too."""
        c, h, w = self.shapes[x]
        y, me, gamma, partial = self.value((c, h, w)), object(), self.at, self.partial_size
        self.first(x, me)
        self.at += 3 * c
        self.partial_size += self.capacity * 3 * c
        self.segments.append((partial, gamma, 3 * c, 3 * c, 1))
        def go(name, dy):
            return lambda: self.layers.launch(name, (c, self.capacity, self.R), 128 if h * w > 64 else 32, 256, self.lot.table, Frn(c, h * w, gamma, self.adds(x, me) if adds is None else int(adds), self.strides[x], c * h * w, self.strides[x], 0, self.places[x], self.slopes[y] if dy else self.places[y], self.slopes[x], partial, -1))
        self.forward_ops.append(("frn", go("frn_forward", False)))
        self.back("frn back", go("frn_backward", True))
        return y

    def relu(self, x):
        y, size = self.value(self.shapes[x]), int(np.prod(self.shapes[x]))
        self.first(x, object())
        self.slopes[y] = self.slopes[x]  # changed in place
        grid = lambda: (ceil(size, 256), self.capacity, self.R)
        self.forward_ops.append(("relu", lambda: self.layers.launch("relu_forward", grid(), 256, 0, self.lot.table, Flat(size, 0, 1, 0, size, size, size, 0, self.places[x], self.places[y], 0))))
        self.back("relu back", lambda: self.layers.launch("relu_backward", grid(), 256, 0, self.lot.table, Flat(size, 0, 1, 0, size, size, size, 0, self.places[x], self.slopes[x], self.slopes[x])))
        return y

    def avg_pool(self, x, kernel, to=None):
        c, h, w = self.shapes[x]
        y = self.value((c, h // kernel, w // kernel)) if to is None else to
        self.first(x, object())
        pool = lambda at: Pool(c, h, w, h // kernel, w // kernel, kernel, kernel, kernel, c * h * w, self.strides[y], c * h * w, 0, 0, 0, self.places[x], at, self.slopes[x])
        self.forward_ops.append(("pool", lambda: self.layers.launch("avg_pool_forward", (ceil(c * (h // kernel)**2, 256), self.capacity, self.R), 256, 0, self.lot.table, pool(self.places[y]))))
        self.back("pool back", lambda: self.layers.launch("avg_pool_backward", (ceil(c * h * w, 256), self.capacity, self.R), 256, 0, self.lot.table, pool(self.slopes[y])))
        return y

    def launches(self):
        return self.forward_ops + self.backward_ops + [self.reduce] + self.finish()


def build_densenet(blocks, classes):
    def build(net, x):
        # a block's features lie in one tensor, the newest first; every layer reads its end
        side, width = 32, 24
        for b, layers in enumerate(blocks):
            whole = net.value((width + 12 * layers, side, side))
            old = net.part(whole, 12 * layers, width)
            x = net.conv(x, 24, 3, top=1, to=old) if b == 0 else net.avg_pool(x, 2, to=old)
            for i in range(layers):
                # the block's last reader writes the gradient, the others add to theirs
                net.conv(net.frn(net.conv(net.frn(x, adds=True), 48, 1)), 12, 3, top=1, to=net.part(whole, 12 * (layers - 1 - i), 12))
                x = net.part(whole, 12 * (layers - 1 - i), width + 12 * (i + 1))
            width, side = (width + 12 * layers) // 2, side // 2
            if b + 1 < len(blocks):
                x = net.conv(net.frn(x, adds=False), width, 1)
        x = net.avg_pool(net.relu(net.frn(x, adds=False)), 4)
        c, h, w = net.shapes[x]
        net.shapes[x] = (c * h * w, 1, 1)
        net.strides[x] = c * h * w
        return net.conv(x, classes, 1, bias=True)
    return build


def densenet(blocks):
    def model(p, x):
        p = list(p)
        def take():
            return p.pop(0)
        x = F.conv2d(x, take(), padding=1)
        for b, layers in enumerate(blocks):
            for _ in range(layers):
                y = F.conv2d(frn(x, take(), take(), take()), take())
                x = torch.cat([F.conv2d(frn(y, take(), take(), take()), take(), padding=1), x], 1)
            if b + 1 < len(blocks):
                x = F.avg_pool2d(F.conv2d(frn(x, take(), take(), take()), take()), 2)
        x = F.avg_pool2d(F.relu(frn(x, take(), take(), take())), 4).flatten(1)
        return F.linear(x, take(), take())
    return model


def densenet_shapes(blocks, classes):
    norm = lambda c: [((c,), "gamma"), ((c,), "beta"), ((c,), "beta")]
    out, c = [((24, 3, 3, 3), "weight")], 24
    for b, layers in enumerate(blocks):
        for _ in range(layers):
            out += norm(c) + [((48, c, 1, 1), "weight")] + norm(48) + [((12, 48, 3, 3), "weight")]
            c += 12
        if b + 1 < len(blocks):
            out += norm(c) + [((c // 2, c, 1, 1), "weight")]
            c //= 2
    return out + norm(c) + [((classes, c), "weight"), ((classes,), "bias")]


DENSE = (6, 12, 24, 16)


def dense_net(R, precision, **more):
    return LayerNet(R, precision, build_densenet(DENSE, 100), (3, 32, 32), 100, **more)


DENSE_MACS = {1: 50.76e6 + 2.4e6, 2: 37.5e6, 3: 29.9e6, 4: 4.8e6}


def check_dense():
    """DenseNet-121: the golden batch, 128 pictures, and alone or among 29 others."""
    shapes = densenet_shapes(DENSE, 100)
    for precision in ("f32", "tf32"):
        check_net(f"densenet121 {precision}", lambda R, **m: DenseNet(R, precision, **m), densenet(DENSE), shapes, 31, 5.321051511628799, 1e-4, labels=[1, 4, 7, 10], classes=100)
        torch.cuda.empty_cache()


def time_dense():
    shapes = densenet_shapes(DENSE, 100)
    for precision in ("f32", "tf32"):
        for R in RUNS:
            time_net(f"densenet121 {precision}", DenseNet(R, precision, classes=100), shapes, 4 if R == 1 else 1, rounds=5 if R == 1 else 3)
            torch.cuda.empty_cache()


def predictions():
    """64 weight sets of ResNet-20 on 10,000 images, 500 of them at a time; and the logits against those of training."""
    for precision in ("f32", "tf32"):
        net, train = ResnetPrediction(64, precision, 500), ResnetNet(1, precision)
        start_values(net, resnet_shapes()), start_values(train, resnet_shapes())
        us = timed(lambda: [body() for _, body in net.launches()], 1, 3)
        for _, body in train.launches()[:5]:
            body()
        torch.cuda.synchronize()
        a = net.lot.values[0, net.head.logits:net.head.logits + 1280]
        b = train.lot.values[0, train.head.logits:train.head.logits + 1280]
        report(f"resnet20 {precision} prediction", sets_64_images_10000_s=us * 20 / 1e6, equal_to_the_bit=bool(torch.equal(a, b)))
        del net, train
        torch.cuda.empty_cache()
        dense = DenseNet(2, precision)
        start_values(dense, densenet_shapes(DENSE, 100))
        forward = [body for _, body in dense.launches()[:6]]
        [body() for body in forward]
        span = slice(dense.head.logits, dense.head.logits + 12800)
        before = dense.lot.values[:, span].clone()
        dense.lot.values[:, span] = float("nan")
        dense.head.predict = 1
        for block in dense.blocks:
            block.z_step = 0
        us = timed(lambda: [body() for body in forward], 1, 3)
        report(f"densenet121 {precision} prediction", images_per_s=256 / us * 1e6, equal_to_the_bit=bool(torch.equal(before, dense.lot.values[:, span])))
        del dense
        torch.cuda.empty_cache()


def sanitize_dense():
    """One step of DenseNet in both precisions, for compute-sanitizer."""
    for precision in ("f32", "tf32"):
        net = DenseNet(1, precision, batch=2)
        start_values(net, densenet_shapes(DENSE, 100))
        net.step()
        torch.cuda.synchronize()
        print("DenseNet", precision, net.lot.results()[0][0]["loss"])


def profile_dense():
    """One step of each, for ncu; of PROFILE_RUNS runs."""
    for precision in ("f32", "tf32"):
        net = DenseNet(int(os.environ.get("PROFILE_RUNS", 1)), precision)
        start_values(net, densenet_shapes(DENSE, 100))
        net.step()
        torch.cuda.synchronize()
        del net
        torch.cuda.empty_cache()


def layer_by_layer():
    """DenseNet-121 by the general kernels."""
    for precision in ("f32", "tf32"):
        net = dense_net(1, precision)
        start_values(net, densenet_shapes(DENSE, 100))
        net.lot.reset()
        report(f"densenet121 {precision}, layer by layer, 1 run", step_ms=timed(net.step, 1, 5) / 1000, launches=len(net.launches()))
        del net
        torch.cuda.empty_cache()


# ---- tests ---------------------------------------------------------------------------------------------------------------------

def check_layers():
    k = Kernels("layers")
    g = torch.Generator(device="cuda").manual_seed(int(time.time()) % 10000)
    worst = {}
    random = np.random.default_rng(int(time.time()))
    for case in range(24):
        R, images, batch = int(random.choice([1, 3])), int(random.integers(1, 9)), 9
        ci, co, kernel, stride = int(random.integers(1, 70)), int(random.integers(1, 70)), int(random.choice([1, 3, 5])), int(random.choice([1, 2]))
        h, w = int(random.integers(kernel, 17)), int(random.integers(kernel, 17))
        top, left = int(random.integers(0, (kernel + 1) // 2)), int(random.integers(0, (kernel + 1) // 2))
        oh, ow = (h + 2 * top - kernel) // stride + 1, (w + 2 * left - kernel) // stride + 1
        group, precision = int(random.integers(1, 5)), ["f32", "tf32"][case % 2]
        n_in, n_out, weights, width = batch * ci * h * w, batch * co * oh * ow, co * ci * kernel**2, ci * kernel**2 + 1
        visits, steps = np.zeros((R, batch), VISIT), np.zeros((R, 1), STEP)
        steps["images"] = images
        lot = Lot(R, weights + co, 2 * n_in + 2 * n_out, ceil(images, group) * co * width, 0, visits, steps)
        lot.theta[:, :weights + co] = torch.randn((R, weights + co), generator=g, device="cuda")
        lot.values[:, :n_in] = torch.randn((R, n_in), generator=g, device="cuda")
        lot.values[:, n_in + n_out:n_in + 2 * n_out] = torch.randn((R, n_out), generator=g, device="cuda")
        conv = Conv(ci, h, w, co, oh, ow, kernel, stride, top, left, 0, weights, group, 0, ci * h * w, co * oh * ow, 0, 0, 0, n_in, 0)
        shared = 4 * 16 * (72 + 136)
        rows = 64 if co > 16 else 16
        k.launch(f"conv_forward{rows}_{precision}", (ceil(batch * oh * ow, 128), ceil(co, rows), R), 128, shared, lot.table, conv)
        conv.y = n_in + n_out
        k.launch(f"conv_weights_{precision}", (ceil(width, 128) * ceil(co, 16), ceil(images, group), R), 128, shared, lot.table, conv)
        back = Conv.from_buffer_copy(conv)
        back.x = n_in + 2 * n_out
        rows = 64 if ci > 16 else 16
        k.launch(f"conv_input{rows}_{precision}", (ceil(batch * h * w, 128), ceil(ci, rows), R), 128, shared, lot.table, back)
        segment = device(np.array([(0, 0, co * width, co * width, group)], SEGMENT))
        k.launch("reduce", (ceil(co * width, 256), 1, R), 256, 0, lot.table, segment)
        torch.cuda.synchronize()
        for r in range(R):
            to = (lambda t: tf32_round(t).double()) if precision == "tf32" else (lambda t: t.double())
            x = to(lot.values[r, :images * ci * h * w]).view(images, ci, h, w).requires_grad_()
            weight = to(lot.theta[r, :weights]).view(co, ci, kernel, kernel).requires_grad_()
            bias = lot.theta[r, weights:weights + co].double().requires_grad_()
            dy = lot.values[r, n_in + n_out:n_in + n_out + images * co * oh * ow].view(images, co, oh, ow)
            y = F.conv2d(F.pad(x, (left, left, top, top)), weight, bias, stride)
            y = y[:, :, :oh, :ow]
            torch.autograd.backward(y, to(dy))
            db = to(dy).sum((0, 2, 3)) if precision == "tf32" else bias.grad
            for name, got, want in [("forward", lot.values[r, n_in:n_in + images * co * oh * ow], y), ("input", lot.values[r, n_in + 2 * n_out:n_in + 2 * n_out + x.numel()], x.grad),
                                    ("weights", lot.gradient[r, :weights], weight.grad), ("bias", lot.gradient[r, weights:weights + co], db)]:
                e = error(got, want.detach())
                worst[f"conv {name} {precision}"] = max(worst.get(f"conv {name} {precision}", 0), e if e == e else math.inf)
            if not torch.isnan(lot.values[r, n_in + images * co * oh * ow:n_in + n_out]).all():
                worst["conv wrote beyond the images"] = math.inf
    for case in range(8):
        R, images, c, h = 2, int(random.integers(1, 5)), int(random.integers(1, 20)), int(random.integers(2, 33))
        n = images * c * h * h
        steps = np.zeros((R, 1), STEP)
        steps["images"] = images
        lot = Lot(R, 3 * c, 4 * n, images * 3 * c, 0, np.zeros((R, images), VISIT), steps)
        lot.theta[:, :3 * c] = torch.randn((R, 3 * c), generator=g, device="cuda")
        lot.values[:, :n], lot.values[:, 2 * n:3 * n] = torch.randn((R, n), generator=g, device="cuda"), torch.randn((R, n), generator=g, device="cuda")
        k.launch("frn_forward", (c, images, R), 128, 256, lot.table, Frn(c, h * h, 0, 0, c * h * h, c * h * h, c * h * h, 0, 0, n, 3 * n, 0, -1))
        k.launch("frn_backward", (c, images, R), 128, 256, lot.table, Frn(c, h * h, 0, 0, c * h * h, c * h * h, c * h * h, 0, 0, 2 * n, 3 * n, 0, -1))
        k.launch("reduce", (1, 1, R), 256, 0, lot.table, device(np.array([(0, 0, 3 * c, 3 * c, 1)], SEGMENT)))
        torch.cuda.synchronize()
        for r in range(R):
            x = lot.values[r, :n].double().view(images, c, h, h).requires_grad_()
            p = lot.theta[r, :3 * c].double().requires_grad_()
            y = frn(x, p[:c], p[c:2 * c], p[2 * c:])
            torch.autograd.backward(y, lot.values[r, 2 * n:3 * n].double().view(y.shape))
            for name, got, want in [("forward", lot.values[r, n:2 * n], y), ("input", lot.values[r, 3 * n:4 * n], x.grad), ("parameters", lot.gradient[r, :3 * c], p.grad)]:
                e = error(got, want.detach())
                worst[f"frn {name}"] = max(worst.get(f"frn {name}", 0), e if e == e else math.inf)
    report("layers", **worst)


def check_rules():
    """The digests of the host's rules, on the numbers of proof.cpp."""
    known = re.findall(r'\{"([^"]+)", (\w+)ull, (\w+)ull, (\w+)ull, (\w+)ull, \{([^}]*)\}\}', (HERE / "rules.txt").read_text())
    N, T = 1000, 5
    kinds = [0, 0, 1, 2, 3, 3, 3, 4, 5, 5]
    R = len(kinds)
    steps = np.zeros((R, T), STEP)
    steps["images"] = 1
    inf = np.float32(np.inf)
    for t in range(1, T + 1):
        steps["noise_step"][:, t - 1] = t
        k = steps["constants"][:, t - 1]
        far = lambda b: (1 - b if b >= 0.5 else b, float(b >= 0.5))
        def cbo(r, lr, b1, b2, d):
            k[r, :4] = *far(b1), *far(b2)
            k[r, 4:10] = lr / (1 - b1**t), lr * d, 0, -inf, inf, d
        cbo(0, 0.1 * t, 0.9, 0.99999, 2e-3); k[0, 9] = 2e-3 - 8e-6
        lr = 0.1 * t * (0.05 + 2e-3)
        cbo(1, lr, 0.3, 0.99999, 2e-3); k[1, 9], k[1, 7], k[1, 8] = 2e-3 - 8e-6, 0.055, lr * 3.0
        cbo(2, 0.01 * t, 0.9, 0.99999, 2e-3); k[2, 6], k[2, 10], k[2, 11] = 1e-8, 1.001, 1 - 0.9
        cbo(3, 0.002 * t, 0.9, 0.99999, 2e-3); k[3, 6], k[3, 10], k[3, 11] = 1e-8, 0.999, 1.02 - 1.0
        for r in (4, 5, 6):
            k[r, :5] = 0 if r == 6 else 0.9, 2e-4, 0.1 * t, r == 5, r != 6
        k[7, :8] = *far(0.9), *far(0.999), 0.01 * t * 2e-4, 1 / math.sqrt(1 - 0.999**t), 1e-8, 0.01 * t / (1 - 0.9**t)
        for r in (8, 9):
            k[r, :2] = far(0.9)
            k[r, 2:10] = 1 - 0.99999, 1 / (1 - 0.9**t), 2e-3, 54000, 54000, inf, 0.2 * t * (0.5 + 2e-3), r == 9
    lot = Lot(R, N, 2, 1, 0, np.zeros((R, 1), VISIT), steps)
    point = torch.full((R, N), float("nan"), device="cuda")
    theta0 = torch.from_numpy(signed_unit(1, N).astype(np.float32)).cuda()
    lot.theta[:, :N] = theta0
    for r, kind in enumerate(kinds):
        lot.curvature[r] = 0.05 if r < 3 else 0.1 if r == 3 else 0.0 if r == 7 else 0.5
        lot.envelope[r] = math.inf if r == 2 else float(np.float32(0.1 + 2e-3))
        lot.runs[r]["rule"], lot.runs[r]["seed"] = kind, 77
        if kind == 5:
            lot.runs[r]["point"] = point[r].data_ptr()
    lot.reset()
    lot.values.zero_()
    k = Kernels("rules")
    for t in range(1, T + 1):
        k.launch("perturb", (4, 1, R), 256, 0, lot.table)
        noise = torch.from_numpy(signed_unit(100 + t, N).astype(np.float32)).cuda()
        for r in range(R):
            at = point[r] if kinds[r] == 5 else lot.theta[r, :N]
            lot.gradient[r, :N] = noise * 0.1 + at * 0.25
        k.launch("update", (4, 1, R), 256, 0, lot.table)
        k.launch("tick", (1, 1, R), 32, 0, lot.table, L(0), L(1))
    torch.cuda.synchronize()
    outcomes = lot.results()
    good = 0
    for r, (name, *digests) in enumerate(known):
        def digest(t):
            s = np.uint64(0)
            with np.errstate(over="ignore"):
                for b in t[:N].cpu().numpy().view(np.uint32):
                    s = mix(s ^ np.uint64(b))
            return int(s)
        mine = [digest(t[r]) for t in (lot.theta, lot.momentum, lot.curvature, lot.envelope)]
        counts = [int(outcomes[r][c].sum()) for c in ("floored", "gap_not_positive", "clipped", "overflowed")]
        same = all(int(d, 16) in (0, m) for d, m in zip(digests[:4], mine)) and counts == [int(c) for c in digests[4].split(",")]
        good += same
        if not same:
            print("RULE DIFFERS", name, counts)
    report("rules", equal_to_the_bit=good, of=len(known))


def reference(net, model, shapes, r=0, precise=True):
    """Loss and gradient by PyTorch, in f64 or in f32 without TF32."""
    torch.backends.cudnn.conv.fp32_precision = torch.backends.cuda.matmul.fp32_precision = "ieee"
    x, labels = net.batch_of(r)
    flat = net.lot.theta[r, :net.count].to(torch.float64 if precise else torch.float32).clone().requires_grad_()
    loss = F.cross_entropy(model(split(flat, shapes), x.to(flat.dtype)), labels)
    loss.backward()
    return float(loss.detach()), flat.grad


def torch_error(net, model, shapes, want):
    """Median over tensors of the error of PyTorch's own f32 gradient: what kinks do to any f32 arithmetic."""
    got = reference(net, model, shapes, precise=False)[1]
    return statistics.median(error(a, b) for a, b in zip(split(got, shapes), split(want, shapes)))


def check_net(name, make, model, shapes, golden_seed, loss_want, tolerance, labels=(1, 4, 7, 0), classes=10):
    # the golden batch
    parameters = torch.from_numpy(golden_parameters(golden_seed, shapes, True)).cuda()
    c, h = (1, 28) if name.startswith("lenet") else (3, 32)
    x = (1.5 * signed_unit(golden_seed * 65536 + 60000, 4 * c * h * h)).astype(np.float32).reshape(4, -1)
    net = make(1, batch=4, ready=x, labels=list(labels))
    net.lot.theta[:, :net.count] = parameters
    want, grad = reference(net, model, shapes)
    net.step()
    torch.cuda.synchronize()
    got = net.lot.results()[0][0]
    errors = [error(a, b) for a, b in zip(split(net.lot.gradient[0, :net.count], shapes), split(grad, shapes))]
    report(f"{name} golden", loss_error=abs(got["loss"] / 4 - loss_want) / loss_want, median=statistics.median(errors), worst=max(errors))
    # random pictures, 128 of them; then the same run alone and among 29 others, three steps
    net = make(1)
    generator = torch.Generator(device="cuda").manual_seed(3)
    start = torch.cat([(torch.rand(int(np.prod(s)), generator=generator, device="cuda") * 2 - 1) * (1 / math.sqrt(np.prod(s[1:])) if kind == "weight" else 0.05) + (kind == "gamma") for s, kind in shapes])
    net.lot.theta[:, :net.count] = start
    want, grad = reference(net, model, shapes)
    theirs = torch_error(net, model, shapes, grad)
    net.step()
    torch.cuda.synchronize()
    errors = [error(a, b) for a, b in zip(split(net.lot.gradient[0, :net.count], shapes), split(grad, shapes))]
    got = net.lot.results()[0][0]
    report(f"{name} batch 128", torch_f32_median=theirs, loss_error=abs(got["loss"] / 128 - want) / want, median=statistics.median(errors), worst=max(errors))
    net.step(), net.step()
    torch.cuda.synchronize()
    many = make(30)
    for place in range(30):
        many.lot.theta[place, :net.count] = start * (1 if place in (0, 17) else 1 + 0.01 * place)
    # run 17 gets run 0's order
    v = host(many.lot.visits, VISIT).reshape(30, -1).copy()
    v[17] = v[0]
    many.lot.visits.copy_(device(v))
    for _ in range(3):
        many.step()
    torch.cuda.synchronize()
    equal = all(torch.equal(getattr(net.lot, t)[0].view(torch.int32), getattr(many.lot, t)[place].view(torch.int32)) for t in ("theta", "momentum", "curvature", "gradient") for place in (0, 17))
    finite = bool(torch.isfinite(many.lot.theta[:, :net.count]).all())
    report(f"{name} alone and among 29 others", equal_to_the_bit=equal, finite=finite, differ_otherwise=not torch.equal(many.lot.theta[0], many.lot.theta[1]))


def nets():
    return {"lenet": (LenetNet, lenet, LENET_SHAPES, 11, 10.380043475399784), "resnet20": (ResnetNet, resnet, resnet_shapes(), 21, 6.7702816484469945)}


def check():
    check_rules()
    check_layers()
    _, model, shapes, seed, loss = nets()["lenet"]
    bits = []
    for G in (1, 2):
        check_net(f"lenet{G}", lambda R, **m: LenetNet(R, G, **m), model, shapes, seed, loss, 1e-5)
        net = LenetNet(1, G)
        net.lot.theta[:, :net.count] = torch.from_numpy(golden_parameters(11, shapes, False)).cuda() * 0.3
        net.step()
        torch.cuda.synchronize()
        bits.append(net.lot.theta.clone())
    report("lenet, images per block", equal_to_the_bit=bool(torch.equal(bits[0], bits[1])))
    check_resnet()


def check_resnet():
    _, model, shapes, seed, loss = nets()["resnet20"]
    for precision in ("f32", "tf32"):
        check_net(f"resnet20 {precision}", lambda R, **m: ResnetNet(R, precision, **m), model, shapes, seed, loss, 1e-4)


# ---- times -----------------------------------------------------------------------------------------------------------------------

FLOPS = {"lenet": 0.19e9, "resnet20": 31.0e9}
STAGE_MACS = {1: 0.442368e6 + 6 * 2.359296e6, 2: 1.179648e6 + 5 * 2.359296e6 + 0.131072e6, 3: 1.179648e6 + 5 * 2.359296e6 + 0.131072e6}


def start_values(net, shapes):
    generator = torch.Generator(device="cuda").manual_seed(3)
    start = torch.cat([(torch.rand(int(np.prod(s)), generator=generator, device="cuda") * 2 - 1) * (1 / math.sqrt(np.prod(s[1:])) if kind == "weight" else 0.05) + (kind == "gamma") for s, kind in shapes])
    net.lot.theta[:, :net.count] = start


def time_net(name, net, shapes, repeat, kernels=True, rounds=7):
    start_values(net, shapes)
    kernels &= "RUNS" not in os.environ  # whoever asks for other numbers of runs wants the steps alone
    net.lot.reset()
    step = timed(net.step, repeat, rounds)
    report(f"{name}, {net.R} runs", step_ms=step / 1000)
    if net.R > 1:
        net.lot.reset()
        report(f"{name}, {net.R} runs", step_in_halves_ms=timed(net.step_in_halves, repeat, rounds) / 1000)
    if kernels:
        net.lot.reset()
        # all launches once, so that every kernel finds what it needs; the step counter stays
        for _, body in net.launches()[:-1]:
            body()
        for label, body in net.launches()[:-1]:
            us = timed(body, max(1, repeat // 2), rounds)
            found = re.match(r"stage(\d)_(forward|backward)", label)
            more = {}
            if found:
                flop = 2 * STAGE_MACS[int(found[1])] * (1 if found[2] == "forward" else 2) * net.batch * net.R
                if found[1] == "1" and found[2] == "backward":
                    flop -= 2 * 0.442368e6 * net.batch * net.R
                more = {"tflops": flop / us / 1e6}
            found = re.match(r"dense(\d)_(forward|backward)", label)
            if found:
                more = {"tflops": 2 * DENSE_MACS[int(found[1])] * (1 if found[2] == "forward" else 2) * net.batch * net.R / us / 1e6}
            if label.startswith("lenet") and label != "lenet_gradients":
                more = {"tflops": 2 * 0.715e6 * net.batch * net.R / us / 1e6}
            if label == "reduce":
                more = {"gb_per_s": 4 * net.count * (net.batch + 1) * net.R / us / 1e3}
            if label == "update":
                more = {"gb_per_s": 28 * net.count * net.R / us / 1e3}
            report(f"{name}, {net.R} runs", **{f"{label}_us": us}, **{f"{label}_{k}": v for k, v in more.items()})


def time_all():
    a = torch.empty(1 << 29, device="cuda")
    b = torch.randn(1 << 29, device="cuda")
    us = timed(lambda: a.copy_(b), 3)
    report("ceilings", copy_gb_per_s=2 * b.numel() * 4 / us / 1e3)
    del a, b
    for name in ("lenet", "resnet", "layers", "rules"):
        k = Kernels(name)
        names = {"lenet": ["lenet1", "lenet2", "lenet_gradients8", "lenet_gradients32"], "rules": ["update", "perturb", "tick"],
                 "resnet": [f"stage{s}_{w}_{p}" for s in (1, 2, 3) for w in ("forward", "backward") for p in ("f32", "tf32")] + ["resnet_head"],
                 "layers": [f"conv_{w}_{p}" for w in ("forward16", "forward64", "input16", "input64", "weights") for p in ("f32", "tf32")]}[name]
        report(f"registers {name}", **{n: "%(registers)d/%(local)d" % k.attributes(n) for n in names})
    time_lenet()
    time_resnet()


def time_lenet():
    for R in (1, 30):
        for G in (1, 2):
            time_net(f"lenet G={G}", LenetNet(R, G), LENET_SHAPES, 50 if R == 1 else 20)


def time_resnet():
    for precision in ("f32", "tf32"):
        for R in RUNS:
            net = ResnetNet(R, precision)
            time_net(f"resnet20 {precision}", net, resnet_shapes(), 10 if R == 1 else 2)
            del net
            torch.cuda.empty_cache()


def torch_step(model, shapes, shape, tf32, channels_last, compiled):
    torch.backends.cudnn.conv.fp32_precision = "tf32" if tf32 else "ieee"
    torch.backends.cuda.matmul.fp32_precision = "tf32" if tf32 else "ieee"
    torch.backends.cudnn.benchmark = True
    generator = torch.Generator(device="cuda").manual_seed(3)
    p = [((torch.rand(s, generator=generator, device="cuda") * 2 - 1) * (1 / math.sqrt(np.prod(s[1:])) if kind == "weight" else 0.05) + (kind == "gamma")) for s, kind in shapes]
    if channels_last:
        p = [t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 else t for t in p]
    for t in p:
        t.requires_grad_()
    x = torch.randn((128, *shape), device="cuda")
    if channels_last:
        x = x.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (128,), device="cuda")
    optimizer = torch.optim.AdamW(p, lr=1e-3, weight_decay=2e-4, fused=True, capturable=True)
    def loss(x, labels):
        return F.cross_entropy(model(p, x), labels)
    if compiled:
        loss = torch.compile(loss)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss(x, labels).backward()
        optimizer.step()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(4):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        step()
    graph.keep = (x, labels, p, optimizer, loss)  # a graph does not hold what lies outside its pool
    return graph


def replay_us(graph, repeat):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(repeat):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1000 / repeat


def own_graph(net, shapes, steps):
    start_values(net, shapes)
    net.step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(steps):
            net.step()
    net.lot.reset()
    return graph


def beside_torch():
    """Ours and PyTorch's best mode of the same precision, in turn, in the same process."""
    jobs = [("lenet f32", lenet, LENET_SHAPES, (1, 28, 28), False, lambda R: LenetNet(R, 1 if R == 1 else BEST_G)),
            ("resnet20 f32", resnet, resnet_shapes(), (3, 32, 32), False, lambda R: ResnetNet(R, "f32")),
            ("resnet20 tf32", resnet, resnet_shapes(), (3, 32, 32), True, lambda R: ResnetNet(R, "tf32"))]
    for name, model, shapes, shape, tf32, make in jobs:
        graphs = {}
        for last in (False, True):
            try:
                torch._dynamo.reset()
                graphs["torch compiled, " + ("channels last" if last else "contiguous")] = (torch_step(model, shapes, shape, tf32, last, True), 1)
            except Exception as e:
                print("compiled PyTorch failed:", repr(e)[:300])
                graphs["torch graph, " + ("channels last" if last else "contiguous")] = (torch_step(model, shapes, shape, tf32, last, False), 1)
        kept = [make(1), make(30)]
        graphs["ours, 1 run"] = (own_graph(kept[0], shapes, 16), 16)
        graphs["ours, 30 runs"] = (own_graph(kept[1], shapes, 4), 4)
        spans = {k: [] for k in graphs}
        for round in range(7):
            for k, (graph, steps) in graphs.items():
                for net in kept:
                    net.lot.reset()
                torch.cuda.synchronize()
                spans[k].append(replay_us(graph, 8 if "30" in k else 20 if "resnet" in name else 100) / steps)
        for k, v in spans.items():
            report(f"beside torch: {name}", **{f"{k}, ms": statistics.median(v) / 1000, f"{k}, spread": (max(v) - min(v)) / statistics.median(v)})
        del graphs, kept
        torch.cuda.empty_cache()


RUNS = [int(r) for r in os.environ.get("RUNS", "1,30").split(",")]
BEST_G = int(os.environ.get("BEST_G", "2"))


def sanitize():
    """A short training of each net, for compute-sanitizer."""
    for make in (lambda: LenetNet(2, 1, batch=8), lambda: LenetNet(2, 2, batch=8), lambda: ResnetNet(2, "f32", batch=2), lambda: ResnetNet(2, "tf32", batch=2)):
        net = make()
        start_values(net, LENET_SHAPES if isinstance(net, LenetNet) else resnet_shapes())
        net.step(), net.step()
        torch.cuda.synchronize()
        print(type(net).__name__, net.lot.results()[0][:2]["loss"])


def profile():
    """One step of each, for ncu."""
    for make in (lambda: LenetNet(16, 2), lambda: ResnetNet(2, "f32"), lambda: ResnetNet(2, "tf32")):
        net = make()
        start_values(net, LENET_SHAPES if isinstance(net, LenetNet) else resnet_shapes())
        net.step()
        torch.cuda.synchronize()


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    print(torch.cuda.get_device_name(), torch.__version__, ARCH)
    for part in PARTS:
        try:
            {"check": check, "time": time_all, "lenet": time_lenet, "dense": time_dense, "check_dense": check_dense, "check_resnet": check_resnet, "profile_dense": profile_dense, "predict": predictions, "sanitize_dense": sanitize_dense, "layers": layer_by_layer, "resnet": time_resnet, "torch": beside_torch, "sanitize": sanitize, "profile": profile}[part]()
        except Exception as e:
            import traceback
            traceback.print_exc()
        (OUT / "measure.json").write_text(json.dumps(RESULTS, indent=1, default=str))
