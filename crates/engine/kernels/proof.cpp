// Every kernel through the emulation, on odd shapes, with one run and with three, against the twin in f64; rules and noise to
// the bit. Outputs are poisoned with NaN first. Build and run:
//     g++ -std=c++17 -O2 -mfma -ffp-contract=off -U_FORTIFY_SOURCE proof.cpp -o proof && ./proof [GOLDEN_NETS_FOLDER]
#include "emulate.h"
#include "layers.cu"
#include "rules.cu"
#include "lenet.cu"
#include "resnet.cu"
#include "gram.cu"
#include "twin.h"
#include <string>

static int failures = 0, checks = 0;
static void check(bool good, const char* format, const std::string& what, double value = 0) {
    checks++;
    if (good) return;
    failures++;
    printf("FAILED "); printf(format, what.c_str(), value); printf("\n");
}
static void close(const std::string& what, const float* got, const D& want, double tolerance) {
    double error = 0, norm = 1e-30;
    for (size_t i = 0; i < want.size(); i++) { const double e = got[i] - want[i]; error += e * e; norm += want[i] * want[i]; if (e != e) error = NAN; }
    error = std::sqrt(error / norm);
    check(error <= tolerance, "%s: relative error %.2e", what, error);
}
static D widen(const float* x, size_t n) { return D(x, x + n); }
static float round_tf32(float v) { return tf32_nearest(v); }

// R runs of one shape with all their memory.
struct Lot {
    std::vector<F> theta, point, gradient, momentum, curvature, envelope, values, partial, prepared;
    std::vector<std::vector<Visit>> visits;
    std::vector<std::vector<Step>> steps;
    std::vector<std::vector<Outcome>> outcomes;
    std::vector<Run> runs;
    Lot(int R, int parameters, size_t value_count, size_t partial_count, int images, int step_count = 1, size_t prepared_count = 0) {
        for (int r = 0; r < R; r++) {
            theta.emplace_back(parameters, 0); point.emplace_back(parameters, NAN);
            gradient.emplace_back(parameters, NAN); momentum.emplace_back(parameters, 0); curvature.emplace_back(parameters, 0);
            envelope.emplace_back(parameters, 0); values.emplace_back(value_count, NAN); partial.emplace_back(partial_count, NAN);
            prepared.emplace_back(prepared_count, NAN);
            visits.emplace_back(); outcomes.emplace_back(step_count, Outcome{});
            steps.emplace_back(step_count, Step{});
            for (auto& s : steps.back()) s.images = images;
            for (int i = 0; i < images * step_count; i++) visits.back().push_back({(uint32_t)((i * 7 + r) % 5), 0, 0, 0, 0});
        }
        for (int r = 0; r < R; r++)
            runs.push_back({theta[r].data(), point[r].data(), gradient[r].data(), momentum[r].data(), curvature[r].data(), envelope[r].data(),
                            values[r].data(), partial[r].data(), prepared[r].data(), visits[r].data(), steps[r].data(), outcomes[r].data(), nullptr, nullptr, 0, 0, 0, 0, (uint32_t)parameters});
    }
};
static int ceil_div(int a, int b) { return (a + b - 1) / b; }

static void conv_case(const ConvShape& s, int images, int group, bool bias, bool tf32) {
    const int capacity = images + 1, taps = s.kernel * s.kernel, weights = s.out.c * s.in.c * taps, width = s.in.c * taps + bias;
    // the images stand further apart than they are long, as parts of larger tensors do
    const int in = s.in.size(), out = s.out.size(), x_stride = in + 5, y_stride = out + 3;
    const size_t x0 = 0, y0 = (size_t)capacity * x_stride, dy0 = y0 + (size_t)capacity * y_stride, dx0 = dy0 + (size_t)capacity * y_stride, total = dx0 + (size_t)capacity * x_stride;
    const int slots = ceil_div(images, group);
    F keep;
    for (int R : {1, 3}) {
        Lot lot(R, weights + s.out.c, total, (size_t)slots * s.out.c * width, images);
        for (int r = 0; r < R; r++) {
            // the last run of three is the only run of one
            const int id = R - r;
            for (int i = 0; i < weights + s.out.c; i++) lot.point[r][i] = signed_unit(id, i);
            for (int n = 0; n < images; n++) {
                for (int i = 0; i < in; i++) lot.values[r][x0 + n * x_stride + i] = signed_unit(id + 10, n * in + i), lot.values[r][dx0 + n * x_stride + i] = 0.5;
                for (int i = 0; i < out; i++) lot.values[r][dy0 + n * y_stride + i] = signed_unit(id + 20, n * out + i);
            }
        }
        Conv c{s.in.c, s.in.h, s.in.w, s.out.c, s.out.h, s.out.w, s.kernel, s.stride, s.top, s.left, 0, bias ? weights : -1, group, 0, x_stride, y_stride, 0, 0, (long long)x0, (long long)y0, 0};
        const int rows = s.out.c > 16 ? 64 : 16, back_rows = s.in.c > 16 ? 64 : 16;
        auto forward = tf32 ? (rows == 64 ? conv_forward64_tf32 : conv_forward16_tf32) : (rows == 64 ? conv_forward64_f32 : conv_forward16_f32);
        auto input = tf32 ? (back_rows == 64 ? conv_input64_tf32 : conv_input16_tf32) : (back_rows == 64 ? conv_input64_f32 : conv_input16_f32);
        emu::launch(forward, dim3(ceil_div(capacity * s.out.plane(), COLUMNS), ceil_div(s.out.c, rows), R), 128, lot.runs.data(), c);
        c.y = dy0;
        Conv back = c;
        back.x = dx0, back.accumulate = 1;
        emu::launch(input, dim3(ceil_div(capacity * s.in.plane(), COLUMNS), ceil_div(s.in.c, back_rows), R), 128, lot.runs.data(), back);
        emu::launch(tf32 ? conv_weights_tf32 : conv_weights_f32, dim3(ceil_div(width, COLUMNS) * ceil_div(s.out.c, 16), slots, R), 128, lot.runs.data(), c);
        const Segment segment{0, 0, s.out.c * width, s.out.c * width, group};
        emu::launch(reduce, dim3(ceil_div(s.out.c * width, 256), 1, R), 256, lot.runs.data(), &segment);
        for (int r = 0; r < R; r++) {
            const float* v = lot.values[r].data();
            auto packed = [&](size_t at, int stride, int size) { F d; for (int n = 0; n < images; n++) d.insert(d.end(), v + at + n * stride, v + at + n * stride + size); return d; };
            auto factor = [&](const F& f) { D d; for (float x : f) d.push_back(tf32 ? round_tf32(x) : x); return d; };
            D b(s.out.c), dx, dw(weights, 0), db(s.out.c, 0);
            const D w = factor(F(lot.point[r].begin(), lot.point[r].begin() + weights));
            for (int i = 0; i < s.out.c; i++) b[i] = lot.point[r][weights + i];
            const D x = factor(packed(x0, x_stride, in)), dy = factor(packed(dy0, y_stride, out));
            const std::string what = std::string(tf32 ? "tf32 " : "f32 ") + std::to_string(s.in.c) + "x" + std::to_string(s.in.h) + " k" + std::to_string(s.kernel) + " s" + std::to_string(s.stride) + " -> " + std::to_string(s.out.c);
            close("conv forward " + what, packed(y0, y_stride, out).data(), conv(s, images, x, w.data(), bias ? b.data() : nullptr), 1e-6);
            conv_back(s, images, x, w.data(), dy, dx, dw.data(), db.data());
            for (double& d : dx) d += 0.5;
            close("conv input " + what, packed(dx0, x_stride, in).data(), dx, 1e-6);
            close("conv weights " + what, &lot.gradient[r][0], dw, 1e-6);
            if (bias) close("conv bias " + what, &lot.gradient[r][weights], db, 1e-6);
            bool untouched = true;
            for (int n = 0; n < capacity; n++)
                for (int i = n < images ? out : 0; i < y_stride; i++) untouched &= std::isnan(v[y0 + n * y_stride + i]);
            check(untouched, "%s: wrote where it should not", what);
        }
        if (R == 1) keep = lot.gradient[0], keep.insert(keep.end(), lot.values[0].begin(), lot.values[0].end());
        else {
            F other = lot.gradient[2];
            other.insert(other.end(), lot.values[2].begin(), lot.values[2].end());
            check(!memcmp(keep.data(), other.data(), 4 * keep.size()), "%s: alone and among others differ", "conv");
        }
    }
}

static void frn_case(Shape3 s, int images) {
    for (int R : {1, 3}) {
        const size_t n = (size_t)images * s.size();
        Lot lot(R, 3 * s.c, 4 * n, (size_t)images * 3 * s.c, images);
        for (int r = 0; r < R; r++) {
            for (size_t i = 0; i < n; i++) lot.values[r][i] = 2 * signed_unit(r + 1, i), lot.values[r][2 * n + i] = signed_unit(r + 5, i);
            for (int i = 0; i < s.c; i++) lot.point[r][i] = 1 + 0.2 * signed_unit(9, i), lot.point[r][s.c + i] = 0.2 * signed_unit(8, i), lot.point[r][2 * s.c + i] = 0.2 * signed_unit(7, i);
        }
        Frn f{s.c, s.plane(), 0, 0, s.size(), s.size(), s.size(), 0, 0, (long long)n, (long long)(3 * n), 0, -1};
        emu::launch(frn_forward, dim3(s.c, images, R), 128, lot.runs.data(), f);
        f.y = 2 * n;
        emu::launch(frn_backward, dim3(s.c, images, R), 128, lot.runs.data(), f);
        const Segment segment{0, 0, 3 * s.c, 3 * s.c, 1};
        emu::launch(reduce, dim3(ceil_div(3 * s.c, 256), 1, R), 256, lot.runs.data(), &segment);
        for (int r = 0; r < R; r++) {
            const D x = widen(&lot.values[r][0], n), dy = widen(&lot.values[r][2 * n], n), p = widen(&lot.point[r][0], 3 * s.c);
            D dp(3 * s.c, 0);
            close("frn forward", &lot.values[r][n], frn(s, images, x, p.data()), 1e-6);
            close("frn input", &lot.values[r][3 * n], frn_back(s, images, x, p.data(), dy, dp.data()), s.plane() == 1 ? 1e-1 : 2e-6);
            close("frn parameters", &lot.gradient[r][0], dp, 1e-6);
        }
    }
}

static void pool_case(Shape3 in, int kernel, int stride, int images) {
    const Shape3 out{in.c, (in.h - kernel) / stride + 1, (in.w - kernel) / stride + 1};
    const size_t n = (size_t)images * in.size(), m = (size_t)images * out.size();
    Lot lot(3, 1, 2 * n + 2 * m, 1, images);
    for (auto& v : lot.values) { for (size_t i = 0; i < n; i++) v[i] = signed_unit(3, i); for (size_t i = 0; i < m; i++) v[n + i] = signed_unit(4, i); }
    Pool p{in.c, in.h, in.w, out.h, out.w, kernel, kernel, stride, in.size(), out.size(), in.size(), 0, 0, 0, 0, (long long)(n + m), (long long)(n + 2 * m)};
    Pool back = p;
    back.y = n;
    const D x = widen(&lot.values[1][0], n), dy = widen(&lot.values[1][n], m);
    for (bool is_max : {true, false}) {
        emu::launch(is_max ? max_pool_forward : avg_pool_forward, dim3(ceil_div(out.size(), 256), images, 3), 256, lot.runs.data(), p);
        emu::launch(is_max ? max_pool_backward : avg_pool_backward, dim3(ceil_div(in.size(), 256), images, 3), 256, lot.runs.data(), back);
        D y(m, 0), dx(n, 0);
        windows(images * in.c, in.h, in.w, out.h, out.w, kernel, stride, [&](int o, const std::vector<int>& w) {
            if (is_max) y[o] = x[first_max(x, w)], dx[first_max(x, w)] += dy[o];
            else for (int i : w) y[o] += x[i] / w.size(), dx[i] += dy[o] / w.size();
        });
        close("pool forward", &lot.values[1][n + m], y, 1e-6);
        close("pool backward", &lot.values[1][n + 2 * m], dx, 1e-6);
    }
}

static void small_cases() {
    // loss
    for (int classes : {2, 10, 33, 100}) {
        const int images = 5;
        const size_t n = images * classes;
        Lot lot(2, 1, 2 * n + 2 * images, 1, images);
        std::vector<uint32_t> labels;
        for (int i = 0; i < 5; i++) labels.push_back((i * 3) % classes);
        Images set{nullptr, nullptr, labels.data(), nullptr, 1, 1, 1};
        for (auto& v : lot.values) for (size_t i = 0; i < n; i++) v[i] = 9 * signed_unit(31, i);
        emu::launch(softmax_loss, dim3(images, 1, 2), 32, lot.runs.data(), set, Loss{classes, 0, (long long)n, (long long)(2 * n), (long long)(2 * n + images)});
        emu::launch(tick, dim3(1, 1, 2), 32, lot.runs.data(), (long long)(2 * n), (long long)(2 * n + images));
        for (int r = 0; r < 2; r++) {
            std::vector<int> mine;
            for (int i = 0; i < images; i++) mine.push_back(labels[lot.visits[r][i].image]);
            D grad;
            int correct;
            const double loss = cross_entropy_twin(widen(&lot.values[r][0], n), classes, mine, grad, correct);
            close("loss gradient", &lot.values[r][n], grad, 2e-6);
            check(std::fabs(lot.outcomes[r][0].loss / images - loss) < 1e-6 * loss, "%s %g", "loss", lot.outcomes[r][0].loss / images - loss);
            check((int)lot.outcomes[r][0].correct == correct && lot.runs[r].step == 1, "%s", "correct");
        }
    }
    // pixels, relu, add, dropout, copies
    const Shape3 s{2, 5, 7};
    const int images = 4, n = s.size();
    Lot lot(2, 1, 3 * images * n, 1, images);
    std::vector<uint8_t> pixels(5 * n);
    F tables(2 * 256);
    for (int i = 0; i < 5 * n; i++) pixels[i] = mix64(i);
    for (int i = 0; i < 512; i++) tables[i] = signed_unit(50, i);
    for (int i = 0; i < images; i++) lot.visits[1][i] = {(uint32_t)(i + 1), (int8_t)(i - 2), (int8_t)(3 - 2 * i), (uint8_t)(i & 1), 0};
    lot.steps[1][0].dropout_seed = 99;
    emu::launch(gather, dim3(1, images, 2), 256, lot.runs.data(), Images{pixels.data(), nullptr, nullptr, tables.data(), s.c, s.h, s.w}, 0ll);
    for (int i = 0; i < images * n; i++) {
        const int image = i / n, c = i % n / 35, y = i % 35 / 7, x = i % 7;
        const Visit v = lot.visits[1][image];
        int row = y + v.down, col = x + v.right;
        const bool inside = row >= 0 && row < 5 && col >= 0 && col < 7;
        if (v.flip) col = 6 - col;
        check(lot.values[1][i] == tables[c * 256 + (inside ? pixels[v.image * n + c * 35 + row * 7 + col] : 0)], "%s", "gather");
    }
    const F x = lot.values[1];
    Flat flat{n, 214748364u, (float)(1 / 0.95), 3, n, n, n, 0, 0, images * n, images * n};
    emu::launch(relu_forward, dim3(1, images, 2), 256, lot.runs.data(), flat);
    for (int i = 0; i < images * n; i++) check(lot.values[1][images * n + i] == std::max(x[i], 0.0f), "%s", "relu");
    emu::launch(add, dim3(1, images, 2), 256, lot.runs.data(), flat);
    emu::launch(relu_backward, dim3(1, images, 2), 256, lot.runs.data(), flat);
    for (int i = 0; i < images * n; i++) check(lot.values[1][images * n + i] == (x[i] > 0 ? x[i] + x[i] : 0), "%s", "add, relu backward");
    emu::launch(dropout, dim3(1, images, 2), 256, lot.runs.data(), flat);
    int dropped = 0;
    for (int i = 0; i < images * n; i++) {
        const unsigned key = (unsigned)mix64(mix64(99 ^ (3ull << 40)) ^ (i / n));
        unsigned u = (unsigned)(i % n) * 0x9E3779B9u + key;
        u = (u ^ (u >> 16)) * 0x7FEB352Du; u = (u ^ (u >> 15)) * 0x846CA68Bu; u ^= u >> 16;
        dropped += u < 214748364u;
        check(lot.values[1][images * n + i] == (u < 214748364u ? 0 : x[i] * (float)(1 / 0.95)), "%s", "dropout");
    }
    check(dropped > 2 && dropped < 50, "%s %g", "dropout share", dropped);
    emu::launch(copy, dim3(1, images, 2), 256, lot.runs.data(), Flat{35, 0, 1, 0, 70, 105, 0, 0, 35ll, (long long)(images * n), 0});
    for (int i = 0; i < images * 35; i++) check(lot.values[1][images * n + i / 35 * 105 + i % 35] == x[i / 35 * 70 + 35 + i % 35], "%s", "copy");
}

// ---- rules: digests made by the host's rules on the same numbers ---------------------------------------------------------------

struct Known { const char* name; uint64_t theta, momentum, curvature, envelope; uint64_t counts[4]; };
static const Known KNOWN[] = {
#include "rules.txt"
};
static uint64_t digest(const F& v) { uint64_t s = 0; for (float x : v) s = mix64(s ^ __float_as_uint(x)); return s; }

static void rule_cases() {
    constexpr int N = 1000, STEPS = 5;
    constexpr int KINDS[] = {UCBOPT, UCBOPT, UCBOPT_ADAPT, LCBOPT_ADAPT, SGD, SGD, SGD, ADAMW, IVON, IVON};
    Lot lot(10, N, 1, 1, 1, STEPS);
    for (int r = 0; r < 10; r++) {
        Run& run = lot.runs[r];
        run.rule = KINDS[r], run.seed = 77;
        for (int i = 0; i < N; i++) run.theta[i] = (float)signed_unit(1, i);
        if (run.rule != IVON) run.point = run.theta;
        const float h0 = r < 3 ? 0.05f : r == 3 ? 0.1f : r == 7 ? 0.0f : 0.5f;
        for (int i = 0; i < N; i++) run.curvature[i] = h0, run.envelope[i] = r == 2 ? INFINITY : (float)(0.1 + 2e-3);
        for (int t = 1; t <= STEPS; t++) {
            Step& s = lot.steps[r][t - 1];
            s.noise_step = t;
            float* k = s.constants.v;
            auto averages = [&](double b1, double b2) {
                k[MOMENTUM] = b1 >= 0.5 ? 1 - b1 : b1, k[MOMENTUM_OLD] = b1 >= 0.5, k[CURVATURE] = b2 >= 0.5 ? 1 - b2 : b2, k[CURVATURE_OLD] = b2 >= 0.5;
            };
            auto cbo = [&](double lr, double b1, double b2, double d) {
                averages(b1, b2);
                k[PUSH] = lr / (1 - std::pow(b1, t)), k[PULL] = lr * d, k[ADDED] = 0, k[FLOOR] = -INFINITY, k[RADIUS] = INFINITY, k[DECAY] = d;
            };
            if (r == 0) cbo(0.1 * t, 0.9, 0.99999, 2e-3), k[DECAY] = (float)(2e-3 - 8e-6);
            if (r == 1) {
                const double lr = 0.1 * t * (0.05 + 2e-3);
                cbo(lr, 0.3, 0.99999, 2e-3), k[DECAY] = (float)(2e-3 - 8e-6), k[FLOOR] = 0.055f, k[RADIUS] = (float)(lr * 3.0);
            }
            if (r == 2) cbo(0.01 * t, 0.9, 0.99999, 2e-3), k[ADDED] = 1e-8f, k[ENVELOPE] = (float)1.001, k[COMPLEMENT] = (float)(1 - 0.9);
            if (r == 3) cbo(0.002 * t, 0.9, 0.99999, 2e-3), k[ADDED] = 1e-8f, k[ENVELOPE] = (float)0.999, k[COMPLEMENT] = (float)(1.02 - 1.0);
            if (run.rule == SGD) k[SGD_MOMENTUM] = r == 6 ? 0 : 0.9f, k[SGD_DECAY] = 2e-4f, k[SGD_RATE] = (float)(0.1 * t), k[SGD_AHEAD] = r == 5, k[SGD_BUFFER] = r != 6;
            if (r == 7) averages(0.9, 0.999), k[SHRINK] = (float)(0.01 * t * 2e-4), k[SCALE] = (float)(1 / std::sqrt(1 - std::pow(0.999, t))), k[EPS] = 1e-8f, k[RATE] = (float)(0.01 * t / (1 - std::pow(0.9, t)));
            if (run.rule == IVON) {
                averages(0.9, 0.5);
                k[CURVATURE_RATE] = (float)(1 - 0.99999), k[CORRECTION] = (float)(1 / (1 - std::pow(0.9, t))), k[IVON_DECAY] = 2e-3f, k[ESS] = 54000, k[FIXED_SCALE] = 54000;
                k[IVON_RADIUS] = INFINITY, k[IVON_RATE] = (float)(0.2 * t * (0.5 + 2e-3)), k[HAS_FIXED_SCALE] = r == 9;
            }
        }
    }
    const int blocks = ceil_div(N, 256);
    for (int t = 1; t <= STEPS; t++) {
        emu::launch(perturb, dim3(blocks, 1, 10), 256, lot.runs.data());
        for (int r = 0; r < 10; r++) for (int i = 0; i < N; i++) lot.gradient[r][i] = (float)signed_unit(100 + t, i) * 0.1f + lot.runs[r].point[i] * 0.25f;
        emu::launch(update, dim3(blocks, 1, 10), 256, lot.runs.data());
        for (auto& v : lot.values) v[0] = 0;
        emu::launch(tick, dim3(1, 1, 10), 32, lot.runs.data(), 0ll, 0ll);
    }
    for (int r = 0; r < 10; r++) {
        const Known& k = KNOWN[r];
        uint64_t counts[4] = {};
        for (auto& o : lot.outcomes[r]) counts[0] += o.floored, counts[1] += o.gap_not_positive, counts[2] += o.clipped, counts[3] += o.overflowed;
        check(digest(lot.theta[r]) == k.theta, "%s: theta is not the host's", k.name);
        if (k.momentum) check(digest(lot.momentum[r]) == k.momentum, "%s: momentum is not the host's", k.name);
        if (k.curvature) check(digest(lot.curvature[r]) == k.curvature, "%s: curvature is not the host's", k.name);
        if (k.envelope) check(digest(lot.envelope[r]) == k.envelope, "%s: envelope is not the host's", k.name);
        check(!memcmp(counts, k.counts, sizeof counts), "%s: counts are not the host's", k.name);
    }
    // an unusable gradient stops its run alone, before the update
    const F before = lot.theta[0];
    for (Run& run : lot.runs) run.step = 0;
    for (auto& o : lot.outcomes) o[0] = Outcome{};
    const F other = lot.theta[4];
    store_gradient(lot.runs[0], 17, NAN);
    emu::launch(update, dim3(blocks, 1, 10), 256, lot.runs.data());
    emu::launch(tick, dim3(1, 1, 10), 32, lot.runs.data(), 0ll, 0ll);
    check(lot.theta[0] == before && lot.runs[0].stopped && lot.outcomes[0][0].unusable == 1 && lot.runs[0].step == 0, "%s", "unusable gradient");
    check(lot.theta[4] != other && !lot.runs[4].stopped && lot.runs[4].step == 1, "%s", "the others go on");
}

// ---- whole nets: against the twin, and the twin against the golden file ---------------------------------------------------------

// A tensor of a golden net: entries, fan-in of a weight or the kind of the others.
struct Tensor { int count; double scale, shift; };
static F golden_parameters(int seed, const std::vector<Tensor>& tensors) {
    F out;
    for (size_t t = 0; t < tensors.size(); t++)
        for (int i = 0; i < tensors[t].count; i++) out.push_back((float)(tensors[t].shift + tensors[t].scale * signed_unit(seed * 65536 + t, i)));
    return out;
}
// Loss and the sum and norm of every tensor's gradient against the first case of the file, if it is there.
static void against_golden(const std::string& path, const std::vector<Tensor>& tensors, double loss, const D& gradient, double tolerance) {
    std::string text = read_file(path);
    if (text.empty()) { printf("(no %s)\n", path.c_str()); return; }
    const size_t second = text.find("{\"name\":\"batch", text.find("{\"name\":\"batch") + 1);
    if (second != std::string::npos) text.resize(second);
    check(std::fabs(golden_numbers(text, "\"loss\":")[0] - loss) < tolerance * loss, "golden loss %s %g", path, loss);
    const D norms = golden_numbers(text, "\"grad_l2\":"), sums = golden_numbers(text, "\"grad_sum\":"), absolute = golden_numbers(text, "\"grad_abs_sum\":");
    check(norms.size() == tensors.size(), "golden tensors %s %g", path, norms.size());
    size_t at = 0;
    for (size_t t = 0; t < tensors.size() && t < norms.size(); t++) {
        double square = 0, sum = 0;
        for (int i = 0; i < tensors[t].count; i++, at++) square += gradient[at] * gradient[at], sum += gradient[at];
        check(std::fabs(std::sqrt(square) - norms[t]) <= tolerance * norms[t], "golden gradient norm %s of tensor %g", path, t);
        check(std::fabs(sum - sums[t]) <= tolerance * absolute[t], "golden gradient sum %s of tensor %g", path, t);
    }
}

static double lenet_twin(const D& p, const D& x, const std::vector<int>& labels, int classes, D& grad, int& correct) {
    const int n = labels.size();
    const ConvShape s1{{1, 28, 28}, {6, 24, 24}, 5, 1, 0, 0}, s2{{6, 12, 12}, {16, 8, 8}, 5, 1, 0, 0};
    const ConvShape f1{{256, 1, 1}, {120, 1, 1}, 1, 1, 0, 0}, f2{{120, 1, 1}, {84, 1, 1}, 1, 1, 0, 0}, f3{{84, 1, 1}, {classes, 1, 1}, 1, 1, 0, 0};
    auto pool = [&](const D& x, int c, int h) { D y(x.size() / 4); windows(n * c, h, h, h / 2, h / 2, 2, 2, [&](int o, const std::vector<int>& w) { y[o] = x[first_max(x, w)]; }); return y; };
    auto unpool = [&](const D& x, const D& dy, int c, int h) { D d(x.size(), 0); windows(n * c, h, h, h / 2, h / 2, 2, 2, [&](int o, const std::vector<int>& w) { d[first_max(x, w)] += dy[o]; }); return d; };
    const int B3 = F3 + classes * 84;
    const D z1 = conv(s1, n, x, &p[W1], &p[B1]), r1 = relu(z1), p1 = pool(r1, 6, 24), z2 = conv(s2, n, p1, &p[W2], &p[B2]), r2 = relu(z2), p2 = pool(r2, 16, 8);
    const D a1 = conv(f1, n, p2, &p[F1], &p[C1]), h1 = relu(a1), a2 = conv(f2, n, h1, &p[F2], &p[C2]), h2 = relu(a2), z = conv(f3, n, h2, &p[F3], &p[B3]);
    D d, e;
    const double loss = cross_entropy_twin(z, classes, labels, d, correct);
    grad.assign(p.size(), 0);
    conv_back(f3, n, h2, &p[F3], d, e, &grad[F3], &grad[B3]), d = relu_back(a2, e);
    conv_back(f2, n, h1, &p[F2], d, e, &grad[F2], &grad[C2]), d = relu_back(a1, e);
    conv_back(f1, n, p2, &p[F1], d, e, &grad[F1], &grad[C1]), d = relu_back(z2, unpool(r2, e, 16, 8));
    conv_back(s2, n, p1, &p[W2], d, e, &grad[W2], &grad[B2]), d = relu_back(z1, unpool(r1, e, 6, 24));
    conv_back(s1, n, x, &p[W1], d, e, &grad[W1], &grad[B1]);
    return loss;
}

// The golden batch, or, where no folder is named, any other.
static void lenet_case(const std::string& golden, int images, int classes) {
    const int seed = 11;
    std::vector<int> labels = {1, 4, 7, 0};
    for (int i = 4; i < images; i++) labels.push_back(i * 7 % classes);
    const std::vector<Tensor> tensors = {{150, std::sqrt(6 / 25.), 0}, {6, .1, 0}, {2400, std::sqrt(6 / 150.), 0}, {16, .1, 0}, {30720, std::sqrt(6 / 256.), 0}, {120, .1, 0},
                                         {10080, std::sqrt(6 / 120.), 0}, {84, .1, 0}, {84 * classes, std::sqrt(6 / 84.), 0}, {classes, .1, 0}};
    const F parameters = golden_parameters(seed, tensors);
    F x;
    for (int i = 0; i < images * 784; i++) x.push_back((float)(1.5 * signed_unit(seed * 65536 + 60000, i)));
    std::vector<uint32_t> set_labels(labels.begin(), labels.end());
    const Images set{nullptr, x.data(), set_labels.data(), nullptr, 1, 28, 28};
    const int widths[] = {256, 120, 84, 120, 84, classes, 1, 1};
    long long offsets[9] = {0};
    for (int i = 0; i < 8; i++) offsets[i + 1] = offsets[i] + (images + 1) * widths[i];
    const Lenet net{classes, 0, 0, 0, 1.0f, offsets[0], offsets[1], offsets[2], offsets[3], offsets[4], offsets[5], offsets[6], offsets[7], 0};
    D grad;
    int correct;
    const double loss = lenet_twin(widen(parameters.data(), parameters.size()), widen(x.data(), x.size()), labels, classes, grad, correct);
    if (!golden.empty()) against_golden(golden + "/lenet.json", tensors, loss, grad, 1e-6);
    F keep;
    for (int G : {1, 2}) for (int R : {1, 3}) {
        Lot lot(R, parameters.size(), offsets[8], (images + 1) * CONV_PARAMETERS, images);
        for (int r = 0; r < R; r++) {
            // the last run is the golden one; one of the others has a short batch
            const float factor = r == R - 1 ? 1 : 0.5f;
            for (size_t i = 0; i < parameters.size(); i++) lot.point[r][i] = factor * parameters[i];
            for (int i = 0; i < images; i++) lot.visits[r][i] = {(uint32_t)i, 0, 0, 0, 0};
            if (r != R - 1) lot.steps[r][0].images = 3 - r;
        }
        emu::launch(G == 1 ? lenet1 : lenet2, dim3(ceil_div(images, G), 1, R), THREADS, lot.runs.data(), set, net);
        const int out = G == 1 ? 8 : 32;
        emu::launch(G == 1 ? lenet_gradients8 : lenet_gradients32, dim3(21 + 2 * ceil_div(120, out) + ceil_div(84, out) + ceil_div(classes, out), 1, R), 512, lot.runs.data(), net);
        emu::launch(tick, dim3(1, 1, R), 32, lot.runs.data(), net.loss, net.correct);
        size_t at = 0;
        for (const Tensor& t : tensors) close("lenet gradient", &lot.gradient[R - 1][at], D(grad.begin() + at, grad.begin() + at + t.count), 2e-6), at += t.count;
        check(std::fabs(lot.outcomes[R - 1][0].loss / images - loss) < 1e-6 * loss && (int)lot.outcomes[R - 1][0].correct == correct, "%s %g", "lenet loss", lot.outcomes[R - 1][0].loss / images);
        if (keep.empty()) keep = lot.gradient[R - 1];
        check(!memcmp(keep.data(), lot.gradient[R - 1].data(), 4 * keep.size()), "%s %g", "lenet bits differ, G", G);
        if (R == 3) for (int r = 0; r < 2; r++) {
            int aside;
            D half(parameters.size()), other;
            for (size_t i = 0; i < half.size(); i++) half[i] = lot.point[r][i];
            lenet_twin(half, widen(x.data(), (3 - r) * 784), std::vector<int>(labels.begin(), labels.begin() + 3 - r), classes, other, aside);
            close("lenet gradient of a short batch", lot.gradient[r].data(), other, 2e-6);
        }
    }
}

// ResNet-20: how its tensors, tensors of values and prepared weights lie; the host code of the engine does the same.
struct ResnetPlan {
    static constexpr int SIDE[3] = {32, 16, 8}, WIDTH[3] = {16, 32, 64}, TOGETHER[3] = {1, 1, 2};  // images of a block of threads
    std::vector<Tensor> tensors;
    std::vector<Prepare> prepare;
    Stage stages[3];
    Head head;
    int parameters = 0, prepared = 0, slice = 0;
    long long values = 0;
    void tensor(int count, double scale, double shift) { tensors.push_back({count, scale, shift}), parameters += count; }
    void conv(int out, int in, int kernel, int padded, bool back) {
        const int taps = kernel * kernel;
        Prepare p{parameters, out, in, padded, taps, prepared, -1, slice, out == 64 ? 2 : 1};
        slice += out * padded * taps + 4 * out;
        prepared += padded * taps * out;
        if (back) p.backward = prepared, prepared += out * taps * in;
        prepare.push_back(p);
        tensor(out * in * taps, std::sqrt(6.0 / (in * taps)), 0), tensor(out, .1, 0), tensor(out, .2, 1), tensor(out, .2, 0), tensor(out, .2, 0);
    }
    ResnetPlan(int batch, int classes) {
        long long input = 0, input_gradient = 0;
        for (int s = 0; s < 3; s++) {
            const int C = WIDTH[s], own = ceil_div(batch, TOGETHER[s]) * TOGETHER[s];
            const long long size = (long long)own * C * SIDE[s] * SIDE[s];
            stages[s] = {own, parameters, prepared, 0, slice, 0, values, 0, input, input_gradient, 0};
            input = values + 9 * size, input_gradient = values + 11 * size;
            values += 13 * size, stages[s].roots = values, values += 7 * own * C;
            if (s == 0) conv(C, 3, 3, 8, false);
            else conv(C, C / 2, 3, C / 2, true), conv(C, C, 3, C, true), conv(C, C / 2, 1, C / 2, true);
            for (int k = s ? 1 : 0; k < 3; k++) conv(C, C, 3, C, true), conv(C, C, 3, C, true);
        }
        head = {batch, classes, parameters, 0, slice, 0, input, input_gradient, values, values + batch, values + 2 * batch, 0};
        values += 2 * batch + (long long)batch * classes;
        tensor(classes * 64, std::sqrt(6.0 / 64), 0), tensor(classes, .1, 0);
        prepare.push_back({head.weight, classes * 65, 0, 0, 0, 0, -1, slice, 1});
        slice = (slice + classes * 65 + 3) / 4 * 4;
        for (Stage& s : stages) s.slice = slice;
        head.slice = slice;
    }
};
constexpr int ResnetPlan::SIDE[3], ResnetPlan::WIDTH[3], ResnetPlan::TOGETHER[3];

static double resnet_twin(const ResnetPlan& plan, const D& p, const D& x, const std::vector<int>& labels, int classes, D& grad, int& correct) {
    const int n = labels.size();
    struct Node { ConvShape s; int at; D in, z; };
    std::vector<Node> nodes;
    int at = 0;
    auto forward = [&](const D& in, ConvShape s) {
        Node node{s, at, in, {}};
        const int weights = s.out.c * s.in.c * s.kernel * s.kernel;
        node.z = conv(s, n, in, &p[at], &p[at + weights]);
        at += weights + 4 * s.out.c;
        nodes.push_back(node);
        return frn(s.out, n, node.z, &p[at - 3 * s.out.c]);
    };
    auto same = [](int ci, int co, int side) { return ConvShape{{ci, side, side}, {co, side, side}, 3, 1, 1, 1}; };
    auto sum = [](D a, const D& b) { for (size_t i = 0; i < a.size(); i++) a[i] += b[i]; return a; };
    D v = forward(x, same(3, 16, 32));
    for (int s = 0; s < 3; s++) for (int k = 0; k < 3; k++) {
        const int side = plan.SIDE[s], C = plan.WIDTH[s];
        if (s && k == 0) {
            const D a = forward(forward(v, {{C / 2, 2 * side, 2 * side}, {C, side, side}, 3, 2, 0, 0}), same(C, C, side));
            v = sum(forward(v, {{C / 2, 2 * side, 2 * side}, {C, side, side}, 1, 2, 0, 0}), a);
        } else {
            v = sum(v, forward(forward(v, same(C, C, side)), same(C, C, side)));
        }
    }
    D mean(n * 64, 0), d, e;
    for (size_t i = 0; i < v.size(); i++) mean[i / 64] += v[i] / 64;
    const ConvShape fc{{64, 1, 1}, {classes, 1, 1}, 1, 1, 0, 0};
    const bool products_rounded = rounded;
    rounded = false;  // the dense layer stays f32
    const double loss = cross_entropy_twin(conv(fc, n, mean, &p[at], &p[at + classes * 64]), classes, labels, d, correct);
    grad.assign(p.size(), 0);
    conv_back(fc, n, mean, &p[at], d, e, &grad[at], &grad[at + classes * 64]);
    rounded = products_rounded;
    for (size_t i = 0; i < v.size(); i++) v[i] = e[i / 64] / 64;
    auto backward = [&](const D& dy) {
        const Node node = nodes.back();
        nodes.pop_back();
        const int weights = node.s.out.c * node.s.in.c * node.s.kernel * node.s.kernel, tail = node.at + weights + node.s.out.c;
        const D dz = frn_back(node.s.out, n, node.z, &p[tail], dy, &grad[tail]);
        D dx;
        conv_back(node.s, n, node.in, &p[node.at], dz, dx, &grad[node.at], &grad[node.at + weights]);
        return dx;
    };
    for (int s = 2; s >= 0; s--) for (int k = 2; k >= 0; k--) {
        D other = v;
        if (s && k == 0) other = backward(v);
        v = sum(other, backward(backward(v)));
    }
    backward(v);
    return loss;
}

template <bool TF32> static void resnet_step(ResnetPlan& plan, Lot& lot, const Images& set, int batch) {
    const int R = lot.runs.size();
    Run* runs = lot.runs.data();
    emu::launch(TF32 ? prepare_tf32 : prepare_f32, dim3(1, plan.prepare.size() - 1, R), 256, runs, plan.prepare.data());
    emu::launch(TF32 ? stage1_forward_tf32 : stage1_forward_f32, dim3(batch, 1, R), THREADS_R, runs, set, plan.stages[0]);
    emu::launch(TF32 ? stage2_forward_tf32 : stage2_forward_f32, dim3(batch, 1, R), THREADS_R, runs, set, plan.stages[1]);
    emu::launch(TF32 ? stage3_forward_tf32 : stage3_forward_f32, dim3(ceil_div(batch, 2), 1, R), THREADS_R, runs, set, plan.stages[2]);
    emu::launch(resnet_head, dim3(batch, 1, R), 256, runs, set, plan.head);
    emu::launch(TF32 ? stage3_backward_tf32 : stage3_backward_f32, dim3(ceil_div(batch, 2), 1, R), THREADS_R, runs, set, plan.stages[2]);
    emu::launch(TF32 ? stage2_backward_tf32 : stage2_backward_f32, dim3(batch, 1, R), THREADS_R, runs, set, plan.stages[1]);
    emu::launch(TF32 ? stage1_backward_tf32 : stage1_backward_f32, dim3(batch, 1, R), THREADS_R, runs, set, plan.stages[0]);
    emu::launch(resnet_reduce, dim3(ceil_div(64 * 64 * 9 + 256, 512), plan.prepare.size(), R), 256, runs, plan.prepare.data(), 0ll, plan.slice);
    emu::launch(tick, dim3(1, 1, R), 32, runs, plan.head.loss, plan.head.correct);
}

static void resnet_case(const std::string& golden) {
    const int images = 4, classes = 10, seed = 21;
    const std::vector<int> labels = {1, 4, 7, 0};
    ResnetPlan plan(images, classes);
    check(plan.parameters == 274042, "%s %g", "resnet parameters", plan.parameters);
    const F parameters = golden_parameters(seed, plan.tensors);
    F x;
    for (int i = 0; i < images * 3072; i++) x.push_back((float)(1.5 * signed_unit(seed * 65536 + 60000, i)));
    const std::vector<uint32_t> set_labels(labels.begin(), labels.end());
    const Images set{nullptr, x.data(), set_labels.data(), nullptr, 3, 32, 32};
    const D wide = widen(parameters.data(), parameters.size());
    int correct;
    // the golden batch by the twin alone: four images through the emulation would take long
    D grad;
    if (!golden.empty()) against_golden(golden + "/resnet20_frn.json", plan.tensors, resnet_twin(plan, wide, widen(x.data(), x.size()), labels, classes, grad, correct), grad, 1e-4);
    // f32; the paths of TF32 with nothing rounded, to see their sums; TF32 itself, whose rounding moves values over kinks
    for (int mode : {0, 1, 2}) {
        const int own = 2;
        const bool tf32 = mode > 0;
        emu::exact = mode == 1, rounded = mode == 2;
        const double loss = resnet_twin(plan, wide, widen(x.data(), own * 3072), {1, 4}, classes, grad, correct);
        F keep;
        for (int R : {1, 3}) {
            if (R == 3 && mode == 2) continue;
            Lot lot(R, plan.parameters, plan.values, (size_t)images * plan.slice, own, 1, plan.prepared);
            for (int r = 0; r < R; r++) {
                lot.point[r] = parameters, lot.runs[r].point = lot.point[r].data();
                for (int i = 0; i < own; i++) lot.visits[r][i] = {(uint32_t)i, 0, 0, 0, 0};
                if (r != R - 1) lot.steps[r][0].images = r;  // one run without images, one with a short batch
            }
            tf32 ? resnet_step<true>(plan, lot, set, images) : resnet_step<false>(plan, lot, set, images);
            size_t at = 0;
            D errors;
            for (const Tensor& t : plan.tensors) {
                double error = 0, norm = 0;
                for (int i = 0; i < t.count; i++, at++) error += std::pow(lot.gradient[R - 1][at] - grad[at], 2), norm += grad[at] * grad[at];
                errors.push_back(std::sqrt(error / norm));
            }
            const double worst = *std::max_element(errors.begin(), errors.end());
            std::nth_element(errors.begin(), errors.begin() + errors.size() / 2, errors.end());
            const char* names[] = {"f32", "tf32 unrounded", "tf32"};
            printf("resnet %s: median gradient error %.2e, worst tensor %.2e\n", names[mode], errors[errors.size() / 2], worst);
            check(errors[errors.size() / 2] < (mode == 2 ? 5e-2 : 1e-5) && worst < (mode == 2 ? 0.2 : 1e-3), "%s %g", "resnet gradient", worst);
            check(std::fabs(lot.outcomes[R - 1][0].loss / own - loss) < (mode == 2 ? 5e-3 : 1e-5) * loss, "%s %g", "resnet loss", lot.outcomes[R - 1][0].loss / own - loss);
            if (keep.empty()) keep = lot.gradient[R - 1];
            check(!memcmp(keep.data(), lot.gradient[R - 1].data(), 4 * keep.size()), "%s %g", "resnet bits differ", R);
        }
        emu::exact = rounded = false;
    }
}

// Gram matrices of random gradients, with one precision for all parameters or one for each; entries are the same whatever the
// other classes and images are.
static void gram_case(int classes, int parameters, int images) {
    const int tiles = ceil_div(classes, GRAM_TILE), pairs = tiles * (tiles + 1) / 2, chunks = ceil_div(parameters, GRAM_CHUNK);
    for (int common : {0, 1}) {
        Lot lot(classes * images, parameters, 1, 1, 1);
        for (int r = 0; r < classes * images; r++) for (int i = 0; i < parameters; i++) lot.gradient[r][i] = signed_unit(r + 40, i);
        F inverse(common ? 1 : parameters);
        for (size_t i = 0; i < inverse.size(); i++) inverse[i] = 1.5f + signed_unit(7, i);
        const Gram gram{classes, parameters, chunks, common};
        auto matrices = [&](int first, int count) {
            D parts((size_t)count * pairs * chunks * GRAM_ENTRIES, NAN), out((size_t)count * classes * classes, NAN);
            const Run* runs = lot.runs.data() + first * classes;
            emu::launch(gram_parts, dim3(chunks, pairs, count), GRAM_THREADS, runs, gram, (const float*)inverse.data(), parts.data());
            emu::launch(gram_sum, dim3(pairs, 1, count), GRAM_ENTRIES, gram, (const double*)parts.data(), out.data());
            return out;
        };
        const D got = matrices(0, images), last = matrices(images - 1, 1);
        D want(got.size());
        for (int n = 0; n < images; n++) for (int k = 0; k < classes; k++) for (int l = 0; l < classes; l++) {
            double sum = 0;
            for (int i = 0; i < parameters; i++)
                sum += (double)lot.gradient[n * classes + k][i] * lot.gradient[n * classes + l][i] * inverse[common ? 0 : i];
            want[((size_t)n * classes + k) * classes + l] = sum;
        }
        close("gram", F(got.begin(), got.end()).data(), want, 2e-6);
        bool symmetric = true;
        for (int n = 0; n < images; n++) for (int k = 0; k < classes; k++) for (int l = 0; l < k; l++)
            symmetric &= got[((size_t)n * classes + k) * classes + l] == got[((size_t)n * classes + l) * classes + k];
        check(symmetric, "%s is not symmetric", "gram");
        check(std::equal(last.begin(), last.end(), got.end() - classes * classes), "%s depends on the other images", "gram");
    }
}

int main(int count, char** arguments) {
    const std::string golden = count > 1 ? arguments[1] : "";
    for (bool tf32 : {false, true}) {
        conv_case({{3, 9, 7}, {5, 9, 7}, 3, 1, 1, 1}, 3, 2, true, tf32);
        conv_case({{17, 8, 8}, {18, 4, 4}, 3, 2, 0, 0}, 3, 1, true, tf32);
        conv_case({{6, 12, 12}, {16, 8, 8}, 5, 1, 0, 0}, 2, 2, true, tf32);
        conv_case({{9, 7, 7}, {70, 4, 4}, 1, 2, 0, 0}, 3, 4, false, tf32);
        conv_case({{37, 1, 1}, {11, 1, 1}, 1, 1, 0, 0}, 19, 8, true, tf32);
        conv_case({{20, 5, 5}, {33, 5, 5}, 3, 1, 1, 1}, 2, 1, false, tf32);
    }
    frn_case({3, 5, 5}, 3), frn_case({5, 1, 1}, 2), frn_case({2, 17, 13}, 2);
    pool_case({3, 8, 8}, 2, 2, 2), pool_case({2, 9, 7}, 3, 2, 3), pool_case({4, 4, 4}, 4, 4, 2);
    gram_case(10, 20011, 2), gram_case(3, 700, 3), gram_case(17, 1000, 1);
    small_cases();
    rule_cases();
    lenet_case(golden, 4, 10), lenet_case("", 141, 13);
    resnet_case(golden);
    check(!race::found(), "%s: %g", "races", race::found());
    printf("%d checks, %d failures\n", checks, failures);
    return failures != 0;
}
