// ResNet-20 with dropout against the twin, and prediction against training's forward, to the bit. Plan, memory and launches
// are those of proof.cpp, whose checks run before. Build and run:
//     g++ -std=c++17 -O2 -mfma -ffp-contract=off -U_FORTIFY_SOURCE proof_resnet.cpp -o proof && ./proof GOLDEN_NETS
#define main proof_of_the_rest
#include "proof.cpp"
#undef main
#include "tape.h"

constexpr uint64_t SEED = 5;
constexpr int FIRST = 3;  // the first image's number
// The host numbers dropout layers by their position in the network; any numbers do here.
static int layer_of(int stage, int which) { return 3 + 10 * stage + 4 * which; }

static double with_dropout(const D& p, const D& pixels, const std::vector<int>& labels, int classes, unsigned threshold, float factor, D& grad, D& logits, D& means) {
    Tape tape(p, labels.size());
    auto same = [&](Tape::V x, int c) { return tape.normal(tape.convolution(x, c, 3, true)); };
    auto half = [&](Tape::V x, int c, int kernel) { return tape.normal(tape.convolution(x, {x->s, {c, x->s.h / 2, x->s.w / 2}, kernel, 2, 0, 0}, true)); };
    auto drop = [&](Tape::V x, int layer) {
        return tape.scale(x, [=](int image, int entry) { return (double)(dropout_bits(dropout_key(SEED, layer, FIRST + image), entry) < threshold ? 0.0f : factor); });
    };
    Tape::V x = same(Tape::make(pixels, {3, 32, 32}), 16);
    for (int s = 0; s < 3; s++)
        for (int k = 0; k < 3; k++) {
            const int c = 16 << s;
            const bool down = s && k == 0;
            Tape::V y = drop(down ? half(x, c, 3) : same(x, c), layer_of(s, 2 * k));
            y = same(y, c);
            x = drop(tape.add(down ? half(x, c, 1) : x, y), layer_of(s, 2 * k + 1));
        }
    x = tape.mean_pool(x, 8);
    means = x->v;
    int correct;
    const double loss = tape.finish(x, classes, labels, logits, correct);
    grad = tape.grad;
    return loss;
}

template <bool TF32> static void predict(ResnetPlan& plan, Lot& lot, const Images& set, int batch, Head& head) {
    const int R = lot.runs.size();
    Run* runs = lot.runs.data();
    // two tensors per stage, then logits and means
    Stage stages[3] = {plan.stages[0], plan.stages[1], plan.stages[2]};
    long long at = 0, output = 0;
    for (int s = 0; s < 3; s++) {
        const long long size = (long long)stages[s].batch * plan.WIDTH[s] * plan.SIDE[s] * plan.SIDE[s];
        stages[s].values = at, stages[s].input = output;
        output = at + size, at += 2 * size;
    }
    head = plan.head;
    head.predict = 1, head.x = output, head.logits = at, head.dx = at + batch * head.classes;
    emu::launch(TF32 ? prepare_tf32 : prepare_f32, dim3(1, plan.prepare.size() - 1, R), 256, runs, plan.prepare.data());
    emu::launch(TF32 ? stage1_predict_tf32 : stage1_predict_f32, dim3(batch, 1, R), THREADS_R, runs, set, stages[0]);
    emu::launch(TF32 ? stage2_predict_tf32 : stage2_predict_f32, dim3(batch, 1, R), THREADS_R, runs, set, stages[1]);
    emu::launch(TF32 ? stage3_predict_tf32 : stage3_predict_f32, dim3(ceil_div(batch, 2), 1, R), THREADS_R, runs, set, stages[2]);
    emu::launch(resnet_head, dim3(batch, 1, R), 256, runs, set, head);
}

int main(int argc, char** argv) {
    if (proof_of_the_rest(argc, argv)) return 1;
    const int images = 2, classes = 10, seed = 21;
    const std::vector<int> labels = {1, 4};
    ResnetPlan plan(images, classes);
    const unsigned threshold = 858993459u;
    const float factor = (float)(1 / 0.8);
    for (int s = 0; s < 3; s++) {
        for (int i = 0; i < 6; i++) plan.stages[s].drop_layers[i] = layer_of(s, i);
        plan.stages[s].threshold = threshold, plan.stages[s].factor = factor;
    }
    const F parameters = golden_parameters(seed, plan.tensors);
    F x;
    for (int i = 0; i < images * 3072; i++) x.push_back((float)(1.5 * signed_unit(seed * 65536 + 60000, i)));
    const std::vector<uint32_t> set_labels(labels.begin(), labels.end());
    const Images set{nullptr, x.data(), set_labels.data(), nullptr, 3, 32, 32};
    D grad, logits, means;
    const double loss = with_dropout(widen(parameters.data(), parameters.size()), widen(x.data(), x.size()), labels, classes, threshold, factor, grad, logits, means);
    emu::exact = true;  // with nothing rounded TF32 must give the same sums
    for (bool tf32 : {false, true}) {
        Lot lot(1, plan.parameters, plan.values, (size_t)images * plan.slice, images, 1, plan.prepared), again(1, plan.parameters, plan.values, 1, images, 1, plan.prepared);
        for (Lot* l : {&lot, &again}) {
            l->point[0] = parameters, l->runs[0].point = l->point[0].data(), l->steps[0][0].dropout_seed = SEED, l->steps[0][0].first_image = FIRST;
            for (int i = 0; i < images; i++) l->visits[0][i] = {(uint32_t)i, 0, 0, 0, 0};
        }
        // a missing barrier would give other bits in another order of the threads
        F first;
        for (const emu::Order order : {emu::DOWNWARD, emu::MIXED, emu::UPWARD}) {
            emu::order = order;
            std::fill(lot.values[0].begin(), lot.values[0].end(), NAN), std::fill(lot.partial[0].begin(), lot.partial[0].end(), NAN);
            lot.runs[0].step = lot.runs[0].stopped = 0, lot.outcomes[0][0] = Outcome{};
            tf32 ? resnet_step<true>(plan, lot, set, images) : resnet_step<false>(plan, lot, set, images);
            if (first.empty()) first = lot.gradient[0];
            check(!memcmp(first.data(), lot.gradient[0].data(), 4 * first.size()), "%s %g", "bits depend on the order of threads", order);
        }
        size_t at = 0;
        D errors;
        for (const Tensor& t : plan.tensors) {
            double error = 0, norm = 0;
            for (int i = 0; i < t.count; i++, at++) error += std::pow(lot.gradient[0][at] - grad[at], 2), norm += grad[at] * grad[at];
            errors.push_back(std::sqrt(error / norm));
        }
        const double worst = *std::max_element(errors.begin(), errors.end(), [](double a, double b) { return !(a >= b) || b != b; });
        printf("resnet with dropout, %s: worst tensor %.2e\n", tf32 ? "tf32 unrounded" : "f32", worst);
        check(worst < 1e-3, "%s %g", "gradient with dropout", worst);
        check(std::fabs(lot.outcomes[0][0].loss / images - loss) < 1e-5 * loss, "%s %g", "loss with dropout", lot.outcomes[0][0].loss / images - loss);
        Head head;
        tf32 ? predict<true>(plan, again, set, images, head) : predict<false>(plan, again, set, images, head);
        close("means", &again.values[0][head.dx], means, 1e-5);
        close("logits", &again.values[0][head.logits], logits, 1e-5);
        check(!memcmp(&again.values[0][head.logits], &lot.values[0][plan.head.logits], 4 * images * classes), "%s", "prediction differs from training's forward");
    }
    check(!race::found(), "%s: %g", "races", race::found());
    printf("%d checks, %d failures\n", checks, failures);
    return failures != 0;
}
