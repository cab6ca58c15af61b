// DenseNet through the emulation, f32 and TF32, with one run and with three, short batches among them, against the twin in
// f64, and the twin against the golden net. Everything that is written is poisoned with NaN first. Build and run:
//     g++ -std=c++17 -O2 -mfma -ffp-contract=off -U_FORTIFY_SOURCE proof_dense.cpp -o proof && ./proof [GOLDEN_NETS_FOLDER]
#include "emulate.h"
#include "layers.cu"
#include "rules.cu"
#include "densenet.cu"
#include "tape.h"
#include <string>

static int failures = 0, checks = 0;
static void check(bool good, const std::string& what, double value = 0) {
    checks++;
    if (good) return;
    failures++;
    printf("FAILED %s %g\n", what.c_str(), value);
}
static int ceil_div(int a, int b) { return (a + b - 1) / b; }

// A tensor of a golden net: uniform in shift ± scale.
struct Tensor { int count; double scale, shift; };

// How parameters, prepared weights, values and partial sums lie; the host code of the engine does the same.
struct DensePlan {
    int parameters = 0, prepared = 0, classes, batch, channels = 24;
    long long values = 0, partial = 0;
    std::vector<int> layers;
    std::vector<Tensor> tensors;
    std::vector<dense::Prepare> prepare;
    std::vector<dense::Block> blocks;
    std::vector<DenseSums> sums;
    DenseHead head;
    void tensor(int count, double scale, double shift) { tensors.push_back({count, scale, shift}), parameters += count; }
    void frn(int c) { tensor(c, .2, 1), tensor(c, .2, 0), tensor(c, .2, 0); }
    void conv(int out, int in, int taps) {
        prepare.push_back({parameters, out, in, taps, prepared, 0});
        prepared += taps == 1 ? out / 48 * (dense::point_forward(in) + dense::point_backward(in)) : in == 3 ? dense::STEM_FORWARD : dense::MIDDLE_FORWARD + dense::MIDDLE_BACKWARD;
        tensor(out * in * taps, std::sqrt(6.0 / (in * taps)), 0);
    }
    // Partial sums of the parameters from `first` on: a stretch of them, or with `in` those of 48 outputs of a 1x1 convolution.
    int stretch(int slice, int first, int count, int in = 0) {
        sums.push_back({partial + slice, first, count, 0, 0, in, 0});
        return slice + count;
    }
    // All of a block of layers, those of the convolutions beginning anywhere between: the slice's length.
    int slice_of(const dense::Block& at, int block, bool last) {
        if (block == 0) return stretch(0, at.parameters, parameters - at.parameters);
        int slice = 0, first = at.parameters, in = at.width;
        for (int l = 0; l <= at.layers; l++, in += 12) {
            const bool pooled = l == at.layers;
            if (pooled && last) return slice;
            slice = stretch(slice, first, 3 * in), first += 3 * in;
            for (int part = 0; part < (pooled ? in / 96 : 1); part++) slice = stretch(slice, first, dense::point_backward(in), in), first += 48 * in;
            if (!pooled) slice = stretch(slice, first, 3 * 48 + 12 * 48 * 9), first += 3 * 48 + 12 * 48 * 9;
        }
        return slice;
    }
    long long take(long long count) { values += count; return values - count; }
    static int images_together(int block) { return 1 << (block >= 2) << (block == 3); }
    DensePlan(std::vector<int> layers, int classes, int batch) : layers(layers), classes(classes), batch(batch) {
        const int last = layers.size() - 1;
        int most = 0;
        for (int b = 0; b <= last; b++) {
            const int area = 1024 >> 2 * b, width = channels, all = width + 12 * layers[b];
            dense::Block at{};
            at.batch = batch, at.layers = layers[b], at.width = width, at.parameters = parameters, at.prepared = prepared;
            at.x = take((long long)batch * all * area), at.g = take((long long)batch * all * area);
            at.z_step = (long long)batch * 48 * area, at.z = take(layers[b] * at.z_step), at.dz = b ? blocks[0].dz : take(at.z_step);
            at.roots = take(batch * all), at.sums = take(batch * all), at.z_roots = take((long long)layers[b] * batch * 48);
            if (b == 0) conv(24, 3, 9);
            for (int l = 0; l < layers[b]; l++) frn(width + 12 * l), conv(48, width + 12 * l, 1), frn(48), conv(12, 48, 9);
            if (b < last) frn(all), conv(all / 2, all, 1);
            const size_t begin = sums.size();
            at.slice = slice_of(at, b, b == last), at.partial = partial;
            for (size_t i = begin; i < sums.size(); i++) sums[i].stride = at.slice, sums[i].group = images_together(b);
            partial += (long long)ceil_div(batch, images_together(b)) * at.slice;
            channels = b < last ? all / 2 : all;
            blocks.push_back(at);
        }
        for (int b = 0; b < last; b++) {
            const dense::Block& next = blocks[b + 1];
            blocks[b].next_channels = next.width + 12 * next.layers, blocks[b].next_first = 12 * next.layers;
            blocks[b].next_x = next.x, blocks[b].next_g = next.g, blocks[b].next_roots = next.roots, blocks[b].next_sums = next.sums;
        }
        const dense::Block& end = blocks[last];
        const int C = channels;
        head = {C, classes, parameters, parameters + 3 * C, 0, 0, 0, 1.0f, end.x, end.g, end.roots, end.sums, 0, 0, 0, 0, 0, partial};
        head.features = take(batch * C), head.delta = take(batch * classes), head.loss = take(batch), head.correct = take(batch), head.logits = take(batch * classes);
        sums.push_back({partial, parameters, 3 * C, 3 * C, 1, 0, 0});
        partial += (long long)batch * 3 * C;
        frn(C), tensor(classes * C, std::sqrt(6.0 / C), 0), tensor(classes, .1, 0);
    }
};

struct Lot {
    std::vector<F> theta, gradient, values, partial, prepared;
    std::vector<std::vector<Visit>> visits;
    std::vector<std::vector<Step>> steps;
    std::vector<std::vector<Outcome>> outcomes;
    std::vector<Run> runs;
    Lot(int R, const DensePlan& plan, const F& parameters, int images) {
        for (int r = 0; r < R; r++) {
            theta.push_back(parameters), gradient.emplace_back(plan.parameters, NAN), values.emplace_back(plan.values, NAN);
            partial.emplace_back(plan.partial, NAN), prepared.emplace_back(plan.prepared, NAN);
            visits.emplace_back(), steps.emplace_back(1, Step{}), outcomes.emplace_back(1, Outcome{});
            steps.back()[0].images = images, steps.back()[0].dropout_seed = 5, steps.back()[0].first_image = 3;
            for (int i = 0; i < images; i++) visits.back().push_back({(uint32_t)i, 0, 0, 0, 0});
        }
        for (int r = 0; r < R; r++)
            runs.push_back({theta[r].data(), theta[r].data(), gradient[r].data(), nullptr, nullptr, nullptr, values[r].data(), partial[r].data(), prepared[r].data(),
                            visits[r].data(), steps[r].data(), outcomes[r].data(), nullptr, nullptr, 0, 0, 0, 0, (uint32_t)plan.parameters});
        for (auto* memory : {&gradient, &values, &partial, &prepared})
            for (F& of_run : *memory) race::watch(of_run.data(), of_run.size() * sizeof(float));
    }
    ~Lot() {
        for (auto* memory : {&gradient, &values, &partial, &prepared})
            for (F& of_run : *memory) race::forget(of_run.data());
    }
};

template <bool TF32> static void forward(DensePlan& plan, Lot& lot, const Images& set) {
    const int R = lot.runs.size(), batch = plan.batch;
    Run* runs = lot.runs.data();
    emu::launch(TF32 ? dense_prepare_tf32 : dense_prepare_f32, dim3(1, plan.prepare.size(), R), 256, runs, plan.prepare.data());
    emu::launch(TF32 ? dense1_forward_tf32 : dense1_forward_f32, dim3(batch, 1, R), 512, runs, set, plan.blocks[0]);
    emu::launch(TF32 ? dense2_forward_tf32 : dense2_forward_f32, dim3(batch, 1, R), 512, runs, set, plan.blocks[1]);
    emu::launch(TF32 ? dense3_forward_tf32 : dense3_forward_f32, dim3(ceil_div(batch, 2), 1, R), 512, runs, set, plan.blocks[2]);
    emu::launch(TF32 ? dense4_forward_tf32 : dense4_forward_f32, dim3(ceil_div(batch, 4), 1, R), 512, runs, set, plan.blocks[3]);
    emu::launch(dense_head, dim3(batch, 1, R), HEAD_THREADS, runs, set, plan.head);
}
template <bool TF32> static void backward(DensePlan& plan, Lot& lot, const Images& set) {
    const int R = lot.runs.size(), batch = plan.batch;
    Run* runs = lot.runs.data();
    emu::launch(TF32 ? dense4_backward_tf32 : dense4_backward_f32, dim3(ceil_div(batch, 4), 1, R), 512, runs, set, plan.blocks[3]);
    emu::launch(TF32 ? dense3_backward_tf32 : dense3_backward_f32, dim3(ceil_div(batch, 2), 1, R), 512, runs, set, plan.blocks[2]);
    emu::launch(TF32 ? dense2_backward_tf32 : dense2_backward_f32, dim3(batch, 1, R), 512, runs, set, plan.blocks[1]);
    emu::launch(TF32 ? dense1_backward_tf32 : dense1_backward_f32, dim3(batch, 1, R), 512, runs, set, plan.blocks[0]);
    emu::launch(dense_head_gradients, dim3(ceil_div(plan.classes * (plan.channels + 1), 256), 1, R), 256, runs, plan.head);
    int most = 0;
    for (const DenseSums& s : plan.sums) most = std::max(most, s.count);
    emu::launch(dense_reduce, dim3(ceil_div(most, 1024), plan.sums.size(), R), 256, runs, plan.sums.data());
    emu::launch(tick, dim3(1, 1, R), 32, runs, plan.head.loss, plan.head.correct);
}

// Loss and gradient the obvious way, and the logits.
static double twin(const DensePlan& plan, const D& p, const D& pixels, const std::vector<int>& labels, D& grad, D& logits) {
    Tape tape(p, labels.size());
    Tape::V x = tape.convolution(Tape::make(pixels, {3, 32, 32}), 24, 3);
    for (size_t b = 0; b < plan.layers.size(); b++) {
        for (int l = 0; l < plan.layers[b]; l++) {
            Tape::V y = tape.normal(x);
            y = tape.normal(tape.convolution(y, 48, 1));
            x = tape.join(tape.convolution(y, 12, 3), x);
        }
        if (b + 1 < plan.layers.size()) x = tape.normal(x), x = tape.mean_pool(tape.convolution(x, x->s.c / 2, 1), 2);
    }
    x = tape.mean_pool(tape.rectify(tape.normal(x)), 4);
    x = tape.scale(x, [&](int image, int c) { return (double)(dropout_bits(dropout_key(5, plan.head.layer, 3 + image), c) < plan.head.threshold ? 0.0f : plan.head.factor); });
    int correct;
    const double loss = tape.finish(x, plan.classes, labels, logits, correct);
    grad = tape.grad;
    return loss;
}

// Loss and the norm of every tensor's gradient against the first case of the file.
static void against_golden(const std::string& path, const DensePlan& plan, double loss, const D& gradient) {
    std::string text = read_file(path);
    check(!text.empty(), "no " + path);
    const size_t second = text.find("{\"name\":\"batch", text.find("{\"name\":\"batch") + 1);
    if (second != std::string::npos) text.resize(second);
    if (text.empty()) return;
    // the golden parameters are f64, these f32
    const double tolerance = 5e-3;
    check(std::fabs(golden_numbers(text, "\"loss\":")[0] - loss) < 1e-5 * loss, "golden loss", loss);
    const D norms = golden_numbers(text, "\"grad_l2\":");
    check(norms.size() == plan.tensors.size(), "golden tensors", norms.size());
    size_t at = 0;
    double worst = 0;
    for (size_t t = 0; t < plan.tensors.size() && t < norms.size(); t++) {
        double square = 0;
        for (int i = 0; i < plan.tensors[t].count; i++, at++) square += gradient[at] * gradient[at];
        worst = std::max(worst, std::fabs(std::sqrt(square) - norms[t]) / norms[t]);
    }
    printf("twin against %s: worst gradient norm %.1e\n", path.c_str(), worst);
    check(worst < tolerance, "golden gradient norm", worst);
}

int main(int count, char** arguments) {
    const int seed = 31, classes = 100;
    const std::vector<int> labels = {1, 4, 7, 10};
    F x;
    for (int i = 0; i < 4 * 3072; i++) x.push_back((float)(1.5 * signed_unit(seed * 65536 + 60000, i)));
    const std::vector<uint32_t> set_labels(labels.begin(), labels.end());
    const Images set{nullptr, x.data(), set_labels.data(), nullptr, 3, 32, 32};
    DensePlan plan({6, 12, 24, 16}, classes, 4);
    check(plan.parameters == 1050928, "parameters", plan.parameters);
    F parameters;
    for (size_t t = 0; t < plan.tensors.size(); t++)
        for (int i = 0; i < plan.tensors[t].count; i++) parameters.push_back((float)(plan.tensors[t].shift + plan.tensors[t].scale * signed_unit(seed * 65536 + t, i)));
    const D wide(parameters.begin(), parameters.end());
    D grad, logits;
    if (count > 1) {
        const double loss = twin(plan, wide, D(x.begin(), x.end()), labels, grad, logits);
        against_golden(std::string(arguments[1]) + "/densenet121_frn.json", plan, loss, grad);
    }
    plan.head.layer = 7, plan.head.threshold = 429496729u, plan.head.factor = (float)(1 / 0.9);
    // f32; the paths of TF32 with nothing rounded, to see their sums; TF32 itself, whose rounding moves values over kinks
    const char* names[] = {"f32", "tf32 unrounded", "tf32"};
    for (int mode : {0, 1, 2}) {
        const int own = mode == 0 ? 2 : 1;
        const bool tf32 = mode > 0;
        emu::exact = mode == 1, rounded = mode == 2;
        const double loss = twin(plan, wide, D(x.begin(), x.begin() + own * 3072), std::vector<int>(labels.begin(), labels.begin() + own), grad, logits);
        F keep;
        for (int R : {1, 3}) {
            if (R == 3 && mode) continue;
            Lot lot(R, plan, parameters, own);
            for (int r = 0; r + 1 < R; r++) lot.steps[r][0].images = r;  // one run without images, one with a short batch
            tf32 ? forward<true>(plan, lot, set) : forward<false>(plan, lot, set);
            tf32 ? backward<true>(plan, lot, set) : backward<false>(plan, lot, set);
            const F& got = lot.gradient[R - 1];
            size_t at = 0;
            D errors;
            for (const Tensor& t : plan.tensors) {
                double error = 0, norm = 0;
                for (int i = 0; i < t.count; i++, at++) error += std::pow(got[at] - grad[at], 2), norm += grad[at] * grad[at];
                errors.push_back(std::sqrt(error / norm));
                if (getenv("VERBOSE")) printf("tensor %zu of %d: %.2e\n", errors.size() - 1, t.count, errors.back());
            }
            const double worst = *std::max_element(errors.begin(), errors.end(), [](double a, double b) { return !(a >= b) || b != b; });
            std::nth_element(errors.begin(), errors.begin() + errors.size() / 2, errors.end());
            const double median = errors[errors.size() / 2];
            double error = 0, norm = 0;
            for (size_t i = 0; i < logits.size(); i++) error += std::pow(lot.values[R - 1][plan.head.logits + i] - logits[i], 2), norm += logits[i] * logits[i];
            printf("densenet %s, %d runs: logits %.2e, gradient median %.2e, worst tensor %.2e\n", names[mode], R, std::sqrt(error / norm), median, worst);
            check(std::sqrt(error / norm) < (mode == 2 ? 5e-3 : 1e-5), "logits", std::sqrt(error / norm));
            check(median < (mode == 2 ? 0.3 : 1e-2) && worst < (mode == 2 ? 1.0 : 0.1), "gradient", median);
            check(std::fabs(lot.outcomes[R - 1][0].loss / own - loss) < (mode == 2 ? 5e-3 : 1e-5) * loss, "loss", lot.outcomes[R - 1][0].loss / own - loss);
            if (keep.empty()) keep = got;
            check(!memcmp(keep.data(), got.data(), 4 * keep.size()), "alone and among others differ", R);
            if (R == 3) {
                bool untouched = true;
                for (float g : lot.gradient[0]) untouched &= std::isnan(g);
                check(untouched, "a run without images was written");
            }
        }
        emu::exact = rounded = false;
    }
    check(!race::found(), "races", race::found());
    printf("%d checks, %d failures\n", checks, failures);
    return failures != 0;
}
