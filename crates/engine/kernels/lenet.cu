// LeNet from pixels to gradients inside a thread block, f32. A block has G images; what a number is summed of, and in which
// order, does not depend on G, so the host may choose it by the number of runs. Written to memory: features and deltas of the
// dense layers, whose weight gradients `lenet_gradients` forms over all images, and per block the gradients of the two
// convolutions: of an image where a block has one, or of two added, as `lenet_gradients` does it otherwise.
#include "common.cuh"

#ifndef LENET_BLOCKS
#define LENET_BLOCKS 3  // blocks on a multiprocessor
#endif
constexpr int THREADS = 320, WARPS = THREADS / 32, CONV_PARAMETERS = 2572;
// Offsets in the parameters.
constexpr int W1 = 0, B1 = 150, W2 = 156, B2 = 2556, F1 = 2572, C1 = 33292, F2 = 33412, C2 = 43492, F3 = 43576;

// Offsets in `values`, one row per image: features 256, hidden 120 and 84, their deltas, deltas of the logits, loss, correct.
struct Lenet { int classes, layer1, layer2; unsigned threshold; float factor; long long features, hidden1, hidden2, delta1, delta2, delta3, loss, correct, partial; };

constexpr int ROW = 38;  // stride of a row of pixels: 5x5 of them lie in 25 banks
constexpr int P1 = 146;  // stride of a plane of the first pool: the planes fall into different banks
// Windows of the second pool, 4x4 with two of zero gradient around; those on the right are the next
// row's left ones, those below the next channel's upper ones.
constexpr int WINDOWS = 36;
struct Image {
    float in[28 * ROW - 8], pool1[6 * P1], turned[864];  // `turned`: the first pool, channels side by side
    float features[256], hidden1[120], hidden2[84], logits[32], delta3[32], delta2[84], delta1[120];
    float2 pooled2[256];  // gradient at a maximum, and where in `turned` the maximum was, as an integer
    float2 windows[16 * WINDOWS + 14];  // the same gradient, and how far the taps at the maximum lie
    uint8_t which[864];   // which of the 2x2 places was the maximum of the first pool
};
// Taps of the second convolution for the gradient of its input, [output][row][column], with zeros
// before every row of taps and before every output, which also end the ones before. The first half
// has four channels of a tap, the second one the other two of this tap and of the next one.
constexpr int TAP_ROW = 6 * 4, TAPS = 6 * TAP_ROW, ALL_TAPS = 16 * TAPS + TAP_ROW + 8;
constexpr int W2_STRIDE = 20;  // stride of a tap's 16 outputs
template <int G> struct Shared {
    Image image[G];
    float conv1[25 * 8], taps[2 * ALL_TAPS];
    // one after the other: the second convolution's weights; scratch of the dense layers; of all
    // images the gradient at a maximum of the first pool, and where in `in` it was, as an integer:
    // pairs of neighbors, channels side by side
    float area[G * 1728 > 150 * W2_STRIDE ? G * 1728 : 150 * W2_STRIDE];
    unsigned next, reserved;  // what a warp without work takes next
};

// 5x5 taps of a 6x6 patch at 2x2 places.
template <int STRIDE> __device__ __forceinline__ void load_patch(const float* from, float (&patch)[6][6]) {
#pragma unroll
    for (int y = 0; y < 6; y++)
#pragma unroll
        for (int x = 0; x < 6; x += 2) {
            const float2 v = *reinterpret_cast<const float2*>(from + y * STRIDE + x);
            patch[y][x] = v.x, patch[y][x + 1] = v.y;
        }
}

// First maximum of the 2x2 places, cut at 0.
__device__ __forceinline__ float pool(const float* v, int& which) {
    which = 0;
    float best = v[0];
#pragma unroll
    for (int i = 1; i < 4; i++)
        if (v[i] > best || v[i] != v[i]) best = v[i], which = i;
    return larger(best, 0);
}

// Adds V sums of every lane over the warp, stage by stage a half of the sums by a half of the lanes:
// each is added in the order of a butterfly, and one lane ends with it. Which one, `sum_of` tells.
template <int V, int M = 16> __device__ __forceinline__ void add_lanes(float* v) {
    constexpr int KEPT = (V + 1) / 2;
    const bool upper = threadIdx.x & M;
#pragma unroll
    for (int i = 0; i < KEPT; i++) {
        const float low = v[i], high = KEPT + i < V ? v[KEPT + i] : 0;
        v[i] = V == 1 ? low + __shfl_xor_sync(ALL_LANES, low, M) : (upper ? high : low) + __shfl_xor_sync(ALL_LANES, upper ? low : high, M);
    }
    if constexpr (M > 1) add_lanes<KEPT, M / 2>(v);
}
// The number of the sum that this lane has after `add_lanes<V>`; V where it has none.
template <int V> __device__ __forceinline__ int sum_of(int lane) {
    int from = 0, left = V;
#pragma unroll
    for (int m = 16, n = V; m; m /= 2, n = (n + 1) / 2) {
        const int kept = (n + 1) / 2;
        if (lane & m) from += kept, left -= kept;
        else left = min(left, kept);
    }
    return left > 0 ? from : V;
}

// A dense layer for all images of the block: one warp per output, J outputs at a time.
template <int G, int INPUTS, int J, class In, class Out> __device__ __forceinline__ void dense_layer(const float* weight, int outputs, In in, Out out) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    constexpr int STEPS = (INPUTS + 127) / 128;
    const int mine = sum_of<J * G>(lane);
    for (int o0 = warp; o0 < outputs; o0 += J * WARPS) {
        // the bias of the sum that this lane will have, fetched beside the weights
        const int o = o0 + mine / G * WARPS;
        const float bias = __ldg(weight + outputs * INPUTS + min(o, outputs - 1));
        float sum[J * G];
#pragma unroll
        for (int i = 0; i < J * G; i++) sum[i] = 0;
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            const int k = s * 128 + lane * 4;
            if (k < INPUTS) {
                float4 w[J];
#pragma unroll
                for (int j = 0; j < J; j++) w[j] = load_global(weight + min(o0 + j * WARPS, outputs - 1) * INPUTS + k);
#pragma unroll
                for (int g = 0; g < G; g++) {
                    const float4 x = *reinterpret_cast<const float4*>(in(g) + k);
#pragma unroll
                    for (int j = 0; j < J; j++)
                        sum[j * G + g] = fmaf(w[j].w, x.w, fmaf(w[j].z, x.z, fmaf(w[j].y, x.y, fmaf(w[j].x, x.x, sum[j * G + g]))));
                }
            }
        }
        add_lanes<J * G>(sum);
        if (mine < J * G && o < outputs) out(mine % G, o, sum[0] + bias);
    }
}

// Columns of the transposed product: out(g, i, sum over outputs of delta[o] weight[o][i]). PARTS groups of threads take every
// PARTS-th output, four columns a thread; their sums are added in order. AHEAD rows are asked for at
// once; a row beyond the last counts as zero. OUTPUTS is 0 where they are not known here. Ends with
// a barrier.
template <int G, int INPUTS, int OUTPUTS, int PARTS, int AHEAD, class Delta, class Out> __device__ __forceinline__ void dense_back(const float* weight, int outputs, float* scratch, Delta delta, Out out) {
    constexpr int COLUMNS = INPUTS / 4;
    static_assert(PARTS * COLUMNS <= THREADS && PARTS * G * INPUTS <= 2400, "threads and scratch");
    constexpr bool EXACT = OUTPUTS && OUTPUTS % (PARTS * AHEAD) == 0;
    const int part = threadIdx.x / COLUMNS, column = threadIdx.x % COLUMNS * 4;
    if (part < PARTS) {
        float4 sum[G];
#pragma unroll
        for (int g = 0; g < G; g++) sum[g] = make_float4(0, 0, 0, 0);
#pragma unroll 1
        for (int o0 = part; o0 < outputs; o0 += PARTS * AHEAD) {
            float4 w[AHEAD];
#pragma unroll
            for (int u = 0; u < AHEAD; u++) w[u] = load_global(weight + (EXACT ? o0 + u * PARTS : min(o0 + u * PARTS, outputs - 1)) * INPUTS + column);
#pragma unroll
            for (int u = 0; u < AHEAD; u++)
#pragma unroll
                for (int g = 0; g < G; g++) {
                    const float d = EXACT || o0 + u * PARTS < outputs ? delta(g)[o0 + u * PARTS] : 0;
                    sum[g].x = fmaf(d, w[u].x, sum[g].x), sum[g].y = fmaf(d, w[u].y, sum[g].y), sum[g].z = fmaf(d, w[u].z, sum[g].z), sum[g].w = fmaf(d, w[u].w, sum[g].w);
                }
        }
#pragma unroll
        for (int g = 0; g < G; g++) *reinterpret_cast<float4*>(scratch + (part * G + g) * INPUTS + column) = sum[g];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < G * INPUTS; i += THREADS) {
        float sum = 0;
#pragma unroll
        for (int p = 0; p < PARTS; p++) sum += scratch[p * G * INPUTS + i];
        out(i / INPUTS, i % INPUTS, sum);
    }
    __syncthreads();
}

// Gradient of the first pool by way of the maxima of the second: of all 36 places that a 2x2 block's
// taps reach, the nine maxima. C channels of a block by a lane, sixteen blocks by a warp; its halves
// have the even and the odd outputs of the convolution, so that all loads of taps, four places that
// a maximum may have times two outputs, meet in different banks. Rows of blocks at the edge are
// reached by one or two rows of windows only: blocks come in the order of this number, the upper
// ones beside the lower, so that a warp knows how many rows it needs; a row too many is one of zeros.
template <int G, int C> __device__ __forceinline__ void pool_gradient(const Image* image, const float* table, float4* pooled1, int warp, int lane) {
    const int part = lane / 16, block = warp * 16 + lane % 16, mine = min(block, G * 36 - 1);
    const int few = mine / (G * 12), low = mine % 12 / 6, g = mine % (G * 12) / 12;
    const int a = low ? 5 - few : few, b = mine % 6, rows = min(warp * 16 + 15, G * 36 - 1) / (G * 12) + 1;
    const Image& im = image[g];
    // upper blocks begin with the window at their own place, lower ones with that two rows above
    const float2* window = im.windows + part * WINDOWS + a * 6 + b + 14 - (low ? 12 : 0);
    const float* taps = table + part * TAPS + TAP_ROW + 4 + (low ? 4 * TAP_ROW : 0);
    float sum[C][4] = {};
#pragma unroll 1
    for (int i = 0; i < rows; i++) {
#pragma unroll 4
        for (int s = 0; s < 8; s++)
#pragma unroll
            for (int j = 0; j < 3; j++) {
                const float2 d = window[2 * s * WINDOWS - j];
                const float* w = taps + (int)__float_as_uint(d.y) + 2 * s * TAPS + 2 * j * 4;
                if (C == 4) {
#pragma unroll
                    for (int p = 0; p < 4; p++) {
                        const float4 v = *reinterpret_cast<const float4*>(w + p / 2 * TAP_ROW + p % 2 * 4);
                        sum[0][p] = fmaf(d.x, v.x, sum[0][p]), sum[1][p] = fmaf(d.x, v.y, sum[1][p]);
                        sum[C - 2][p] = fmaf(d.x, v.z, sum[C - 2][p]), sum[C - 1][p] = fmaf(d.x, v.w, sum[C - 1][p]);
                    }
                } else {
#pragma unroll
                    for (int p = 0; p < 4; p += 2) {
                        const float4 v = *reinterpret_cast<const float4*>(w + p / 2 * TAP_ROW);
                        sum[0][p] = fmaf(d.x, v.x, sum[0][p]), sum[1][p] = fmaf(d.x, v.y, sum[1][p]);
                        sum[0][p + 1] = fmaf(d.x, v.z, sum[0][p + 1]), sum[1][p + 1] = fmaf(d.x, v.w, sum[1][p + 1]);
                    }
                }
            }
        window += low ? 6 : -6, taps += low ? -2 * TAP_ROW : 2 * TAP_ROW;
    }
    // each half of the warp ends with one row of the block
    const int y = a * 2 + part, x = b * 2, at = y * 12 + x;
    float total[C][2];
#pragma unroll
    for (int c = 0; c < C; c++)
#pragma unroll
        for (int q = 0; q < 2; q++) {
            const float other = __shfl_xor_sync(ALL_LANES, part ? sum[c][q] : sum[c][2 + q], 16);
            total[c][q] = (part ? sum[c][2 + q] : sum[c][q]) + other;
        }
    if (block >= G * 36) return;
#pragma unroll
    for (int c = 0; c < C; c++) {
        const int channel = (C == 4 ? 0 : 4) + c;
        const float2 passed = *reinterpret_cast<const float2*>(im.pool1 + channel * P1 + at);
        const uint8_t* which = im.which + channel * 144 + at;
        auto place = [&](int q) { return __uint_as_float((2 * y + which[q] / 2) * ROW + 2 * (x + q) + which[q] % 2); };
        pooled1[g * 432 + at / 2 * 6 + channel] =
            make_float4(passed.x > 0 ? total[c][0] : 0, place(0), passed.y > 0 ? total[c][1] : 0, place(1));
    }
}

// Grid (groups of G images, 1, run); shared memory `Shared<G>`.
template <int G> __device__ __forceinline__ void lenet(const Run* runs, const Images& set, const Lenet& net) {
    const Run& run = runs[blockIdx.z];
    const int images = images_of(run), first = blockIdx.x * G;
    if (first >= images) return;
    const int thread = threadIdx.x;
    DYNAMIC_SHARED(Shared<G>, shared);
    Image* image = shared->image;
    const float* point = run.point;
    const Step& step = run.steps[run.step];

    // weights and pixels; a place without an image repeats the last one and writes nothing
    for (int i = thread; i < 150; i += THREADS) shared->conv1[i % 25 * 8 + i / 25] = point[W1 + i];
#pragma unroll
    for (int i = thread; i < 2400; i += THREADS) shared->area[i % 150 * W2_STRIDE + i / 150] = point[W2 + i];
#pragma unroll
    for (int i = thread; i < G * 784; i += THREADS) {
        const int g = i / 784, at = i % 784;
        image[g].in[at / 28 * ROW + at % 28] = placed_pixel(set, run.visits[step.first_visit + min(first + g, images - 1)], 1, 28, 28, at);
    }
    // the label waits in a place that is written only after the loss
    if (thread < G) image[thread].delta2[0] = __uint_as_float(label_of(run, set, min(first + thread, images - 1)));
    if (thread == 0) shared->next = 0;
    const float4 zeros = make_float4(0, 0, 0, 0);
    for (int i = thread; i < ALL_TAPS / 2; i += THREADS) reinterpret_cast<float4*>(shared->taps)[i] = zeros;
#pragma unroll
    for (int g = 0; g < G; g++)
        for (int i = thread; i < 8 * WINDOWS + 7; i += THREADS) reinterpret_cast<float4*>(image[g].windows)[i] = zeros;
    __syncthreads();

    // convolution 1, ReLU, pool: all channels at one place of the pool
    static_assert(G * 144 <= THREADS, "a thread per place");
    if (thread < G * 144) {
        Image& im = image[thread / 144];
        const int place = thread % 144, y = place / 12 * 2, x = place % 12 * 2;
        float patch[6][6], sum[6][4] = {};
        load_patch<ROW>(im.in + y * ROW + x, patch);
#pragma unroll
        for (int k = 0; k < 25; k++) {
            const float4 w = *reinterpret_cast<const float4*>(shared->conv1 + k * 8);
            const float2 more = *reinterpret_cast<const float2*>(shared->conv1 + k * 8 + 4);
#pragma unroll
            for (int p = 0; p < 4; p++) {
                const float v = patch[k / 5 + p / 2][k % 5 + p % 2];
                sum[0][p] = fmaf(w.x, v, sum[0][p]), sum[1][p] = fmaf(w.y, v, sum[1][p]), sum[2][p] = fmaf(w.z, v, sum[2][p]);
                sum[3][p] = fmaf(w.w, v, sum[3][p]), sum[4][p] = fmaf(more.x, v, sum[4][p]), sum[5][p] = fmaf(more.y, v, sum[5][p]);
            }
        }
#pragma unroll
        for (int c = 0; c < 6; c++) {
            const float bias = point[B1 + c];
#pragma unroll
            for (int p = 0; p < 4; p++) sum[c][p] += bias;
            int which;
            im.pool1[c * P1 + place] = im.turned[place * 6 + c] = pool(sum[c], which);
            im.which[c * 144 + place] = which;
        }
    }
    __syncthreads();

    // Convolution 2, ReLU, pool: four outputs at one place by a lane, a half of the input channels by
    // each half of a warp, which then has two of the outputs. Warps without any bring the taps into
    // the order of the way back; what they read is written again only after the barrier at the end.
    const int warp = thread / 32, lane = thread % 32;
    if (warp < G * 4) {
        Image& im = image[warp / 4];
        const int part = lane / 16, place = lane % 16, y = place / 4 * 2, x = place % 4 * 2;
        float sum[4][4] = {};
        const float* from = im.pool1 + part * 3 * P1 + y * 12 + x;
        const float* taps = shared->area + part * 75 * W2_STRIDE + warp % 4 * 4;
#pragma unroll 1
        for (int c = 0; c < 3; c++) {
            float patch[6][6];
            load_patch<12>(from + c * P1, patch);
#pragma unroll
            for (int k = 0; k < 25; k++) {
                const float4 w = *reinterpret_cast<const float4*>(taps + (c * 25 + k) * W2_STRIDE);
#pragma unroll
                for (int p = 0; p < 4; p++) {
                    const float v = patch[k / 5 + p / 2][k % 5 + p % 2];
                    sum[0][p] = fmaf(w.x, v, sum[0][p]), sum[1][p] = fmaf(w.y, v, sum[1][p]);
                    sum[2][p] = fmaf(w.z, v, sum[2][p]), sum[3][p] = fmaf(w.w, v, sum[3][p]);
                }
            }
        }
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const int o = warp % 4 * 4 + part * 2 + j;
            const float bias = point[B2 + o];
            float all[4];
#pragma unroll
            for (int p = 0; p < 4; p++) {
                const float other = __shfl_xor_sync(ALL_LANES, part ? sum[j][p] : sum[2 + j][p], 16);
                all[p] = (part ? sum[2 + j][p] : sum[j][p]) + other + bias;
            }
            int which;
            im.features[o * 16 + place] = pool(all, which);
            im.pooled2[o * 16 + place].y = __uint_as_float(((y + which / 2) * 12 + x + which % 2) * 6);
            im.windows[o * WINDOWS + place / 4 * 6 + place % 4 + 14].y = __uint_as_float(-(which / 2 * TAP_ROW + which % 2 * 4));
        }
    }
    constexpr int IDLE = THREADS - G * 128;
    static_assert(IDLE >= 32 && IDLE % 32 == 0, "warps that bring the taps into order");
    auto tap = [](int o, int k) { return o * TAPS + (k / 5 + 1) * TAP_ROW + (k % 5 + 1) * 4; };
    if (thread >= THREADS - IDLE) {
        for (int i = thread - (THREADS - IDLE); i < 1600; i += IDLE) {
            const int o = i / 100, k = i / 4 % 25, c = i % 4;
            shared->taps[tap(o, k) + c] = shared->area[(c * 25 + k) * W2_STRIDE + o];
        }
        for (int i = thread - (THREADS - IDLE); i < 800; i += IDLE) {
            const int o = i / 50, k = i / 2 % 25, c = i % 2;
            float* to = shared->taps + ALL_TAPS + tap(o, k) + c;
            to[0] = to[-2] = shared->area[((4 + c) * 25 + k) * W2_STRIDE + o];
        }
    }
    __syncthreads();

    // dense layers
    auto kept = [&](int g, int layer, int o) {
        return net.threshold == 0 || dropout_bits(dropout_key(step.dropout_seed, layer, step.first_image + min(first + g, images - 1)), o) >= net.threshold ? net.factor : 0.0f;
    };
    dense_layer<G, 256, 6>(point + F1, 120, [&](int g) { return image[g].features; },
                  [&](int g, int o, float sum) { image[g].hidden1[o] = larger(sum, 0) * kept(g, net.layer1, o); });
    __syncthreads();
    dense_layer<G, 120, 5>(point + F2, 84, [&](int g) { return image[g].hidden1; },
                  [&](int g, int o, float sum) { image[g].hidden2[o] = larger(sum, 0) * kept(g, net.layer2, o); });
    __syncthreads();
    dense_layer<G, 84, 1>(point + F3, net.classes, [&](int g) { return image[g].hidden2; },
                 [&](int g, int o, float sum) { image[g].logits[o] = sum; });
    __syncthreads();
    if (thread / 32 < G) {
        const int g = thread / 32, n = first + g;
        const int label = (int)__float_as_uint(image[g].delta2[0]);
        float lost, correct;
        cross_entropy(image[g].logits, net.classes, label, images, image[g].delta3, &lost, &correct);
        if (n < images && thread % 32 == 0) run.values[net.loss + n] = lost, run.values[net.correct + n] = correct;
    }
    __syncthreads();
    // the second convolution's weights have done their work
    dense_back<G, 84, 0, 10, 1>(point + F3, net.classes, shared->area, [&](int g) { return image[g].delta3; },
                          [&](int g, int i, float sum) { image[g].delta2[i] = image[g].hidden2[i] > 0 ? sum * net.factor : 0; });
    dense_back<G, 120, 84, 10, 9>(point + F2, 84, shared->area, [&](int g) { return image[g].delta2; },
                           [&](int g, int i, float sum) { image[g].delta1[i] = image[g].hidden1[i] > 0 ? sum * net.factor : 0; });
    dense_back<G, 256, 120, 4, 10>(point + F1, 120, shared->area, [&](int g) { return image[g].delta1; }, [&](int g, int i, float sum) {
        Image& im = image[g];
        const bool passed = im.features[i] > 0;
        im.pooled2[i].x = im.windows[i / 16 * WINDOWS + i % 16 / 4 * 6 + i % 4 + 14].x = passed ? sum : 0;
    });
    float* const values = run.values;
    auto keep = [&](long long at, long long n, int width, const float* from) {
        if (thread < width) values[at + n * width + thread] = from[thread];
    };
#pragma unroll
    for (int g = 0; g < G; g++) {
        const long long n = first + g;
        const Image& im = image[g];
        if (n >= images) break;
        keep(net.features, n, 256, im.features);
        keep(net.hidden1, n, 120, im.hidden1), keep(net.delta1, n, 120, im.delta1);
        keep(net.hidden2, n, 84, im.hidden2), keep(net.delta2, n, 84, im.delta2);
        keep(net.delta3, n, net.classes, im.delta3);
    }

    // Gradient of the first pool, and, by whichever warp is free, of the second convolution's weights,
    // both from the maxima alone. All they read was there before the last barrier of `dense_back`; the
    // area was scratch until then, and now takes the gradient of the first pool.
    constexpr int BLOCKS = (G * 36 + 15) / 16;  // warps of four channels, and of two
    static_assert(2 * BLOCKS <= WARPS, "a warp for all of them");
    float4* pooled1 = reinterpret_cast<float4*>(shared->area);
    if (warp < BLOCKS) pool_gradient<G, 4>(image, shared->taps, pooled1, warp, lane);
    else if (warp < 2 * BLOCKS) pool_gradient<G, 2>(image, shared->taps + ALL_TAPS, pooled1, warp - BLOCKS, lane);
    // A half of a warp has an output of an image, a lane two channels of a column of taps, the last
    // one the bias. The halves have two outputs of one image, or one output of two images.
    static_assert(G <= 2, "halves of a warp");
    const int half = lane / 16;
    const bool both = first + 1 < images;
    float* out = run.partial + net.partial + (long long)blockIdx.x * CONV_PARAMETERS;
    for (;;) {
        unsigned item = lane == 0 ? atomicAdd(&shared->next, 1) : 0;
        item = __shfl_sync(ALL_LANES, item, 0);
        if (item >= G * 8) break;
        const int o = G == 1 ? item * 2 + half : item, c = lane % 16 % 3 * 2, kx = min(lane % 16 / 3, 4);
        const Image& im = image[G == 1 ? 0 : half];
        float2 sum[5];
        float bias = 0;
#pragma unroll
        for (int ky = 0; ky < 5; ky++) sum[ky] = make_float2(0, 0);
#pragma unroll 4
        for (int p = 0; p < 16; p++) {
            const float2 d = im.pooled2[o * 16 + p];
            const float* in = im.turned + kx * 6 + c + __float_as_uint(d.y);
            bias += d.x;
#pragma unroll
            for (int ky = 0; ky < 5; ky++) {
                const float2 v = *reinterpret_cast<const float2*>(in + ky * 72);
                sum[ky].x = fmaf(d.x, v.x, sum[ky].x), sum[ky].y = fmaf(d.x, v.y, sum[ky].y);
            }
        }
        float* to = out + W2 + (o * 6 + c) * 25 + kx;
        if constexpr (G == 1) {
            if (lane % 16 == 15) {
                out[B2 + o] = bias;
            } else {
#pragma unroll
                for (int ky = 0; ky < 5; ky++) to[ky * 5] = sum[ky].x, to[ky * 5 + 25] = sum[ky].y;
            }
        } else {
            // the first image plus the second; each half of the warp ends with one channel
            const float other = __shfl_xor_sync(ALL_LANES, bias, 16);
            if (lane == 15) out[B2 + o] = bias + (both ? other : 0);
            float all[5];
#pragma unroll
            for (int ky = 0; ky < 5; ky++) {
                const float mine = half ? sum[ky].y : sum[ky].x, theirs = __shfl_xor_sync(ALL_LANES, half ? sum[ky].x : sum[ky].y, 16);
                all[ky] = (half ? theirs : mine) + (both ? (half ? mine : theirs) : 0);
            }
            if (lane % 16 != 15)
#pragma unroll
                for (int ky = 0; ky < 5; ky++) to[half * 25 + ky * 5] = all[ky];
        }
    }
    __syncthreads();

    // Gradient of the first convolution's weights, in eighths of the places: a lane has a row of taps
    // of a channel. All lanes are at the same window, whose maxima lie in 2x2 places, so that rows
    // are either the same or in different banks. Scratch: the taps, which are done with.
    for (int item = warp; item < G * 8; item += WARPS) {
        const int c = min(lane / 5, 5), ky = lane % 5;
        const float4* d = pooled1 + item * 54 + c;
        const Spot in(image[item / 8].in + ky * ROW);
        float sum[5] = {}, bias = 0;
#pragma unroll 3
        for (int p = 0; p < 9; p++) {
            const float4 two = d[p * 6];
            Spot one = in, other = in;
            one.move((int)__float_as_uint(two.y)), other.move((int)__float_as_uint(two.w));
#pragma unroll
            for (int kx = 0; kx < 5; kx++) sum[kx] = fmaf(two.x, one.load(kx), sum[kx]);
#pragma unroll
            for (int kx = 0; kx < 5; kx++) sum[kx] = fmaf(two.z, other.load(kx), sum[kx]);
            bias += two.x, bias += two.z;
        }
        float* to = shared->taps + item * 156;
        if (lane < 30) {
#pragma unroll
            for (int kx = 0; kx < 5; kx++) to[c * 25 + ky * 5 + kx] = sum[kx];
            if (ky == 0) to[150 + c] = bias;
        }
    }
    __syncthreads();
    if (thread < 156) {
        float sum[G] = {};
#pragma unroll
        for (int p = 0; p < G * 8; p++) sum[p / 8] += shared->taps[p * 156 + thread];
        out[thread] = G == 1 ? sum[0] : sum[0] + (both ? sum[G - 1] : 0);
    }
}
extern "C" __global__ void __launch_bounds__(THREADS, LENET_BLOCKS) lenet1(const Run* runs, Images set, Lenet net) { lenet<1>(runs, set, net); }
extern "C" __global__ void __launch_bounds__(THREADS, LENET_BLOCKS) lenet2(const Run* runs, Images set, Lenet net) { lenet<2>(runs, set, net); }

// All gradients: sums over images in four interleaved parts, each in order, then the parts in theirs. 512 threads: four parts
// of 128. Blocks: 21 of the convolutions, then tiles of OUT outputs times 128 inputs of the dense
// layers; OUT and how a tile is shared out among the threads do not change the sums.
// Grid (21 + 2 ceil(120 / OUT) + ceil(84 / OUT) + ceil(classes / OUT), 1, run).
// Of the convolutions two images make one number, here or already where a block of `lenet` has G = 2.
template <int G> __device__ __forceinline__ void conv_gradients(const Run& run, const Lenet& net, int images, float* scratch) {
    const int part = threadIdx.x / 128, at = threadIdx.x % 128, i = blockIdx.x * 128 + at, pairs = (images + 1) / 2;
    const float* from = run.partial + net.partial + min(i, CONV_PARAMETERS - 1);
    auto row = [&](int n) { return __ldg(from + (long long)n * CONV_PARAMETERS); };
    float sum = 0;
    for (int n0 = part * 8; n0 < pairs; n0 += 64) {
        // loads that depend on nothing go out together
        float v[16], w[16];
#pragma unroll
        for (int k = 0; k < 16; k++) {
            const int n = min(n0 + k / 8 * 32 + k % 8, pairs - 1);
            v[k] = row(G == 1 ? 2 * n : n);
            if (G == 1) w[k] = row(min(2 * n + 1, images - 1));
        }
#pragma unroll
        for (int k = 0; k < 16; k++) {
            const int n = n0 + k / 8 * 32 + k % 8;
            if (G == 1) v[k] += 2 * n + 1 < images ? w[k] : 0;
            sum += n < pairs ? v[k] : 0;
        }
    }
    scratch[threadIdx.x] = sum;
    __syncthreads();
    const float* s = scratch + at;
    if (part == 0 && i < CONV_PARAMETERS) store_gradient(run, i, ((s[0] + s[128]) + s[256]) + s[384]);
}

// The tile of a block of threads.
struct DenseTile { int inputs, outputs, weight, first, row; const float *x, *d; };
template <int OUT> __device__ __forceinline__ DenseTile tile_of(const Run& run, const Lenet& net) {
    constexpr int BLOCKS1 = (120 + OUT - 1) / OUT * 2, BLOCKS2 = BLOCKS1 + (84 + OUT - 1) / OUT;
    int block = blockIdx.x - 21;
    const int layer = block < BLOCKS1 ? 1 : block < BLOCKS2 ? 2 : 3;
    block -= layer == 1 ? 0 : layer == 2 ? BLOCKS1 : BLOCKS2;
    DenseTile t;
    t.inputs = layer == 1 ? 256 : layer == 2 ? 120 : 84, t.outputs = layer == 1 ? 120 : layer == 2 ? 84 : net.classes;
    t.weight = layer == 1 ? F1 : layer == 2 ? F2 : F3;
    t.first = 0;
    if (layer == 1) t.first = block % 2 * 128, block /= 2;
    t.row = block * OUT;
    t.x = run.values + (layer == 1 ? net.features : layer == 2 ? net.hidden1 : net.hidden2) + t.first;
    t.d = run.values + (layer == 1 ? net.delta1 : layer == 2 ? net.delta2 : net.delta3) + t.row;
    return t;
}
template <int OUT> __device__ __forceinline__ void load_deltas(const DenseTile& t, int begin, int count, float* deltas) {
#pragma unroll
    for (int k = 0; k < OUT / 4; k++) {
        const int i = k * 512 + (int)threadIdx.x;
        const float v = __ldg(t.d + (begin + min(i / OUT, count - 1)) * t.outputs + min(i % OUT, t.outputs - 1 - t.row));
        deltas[i] = i / OUT < count ? v : 0;
    }
}

// Few runs, after `lenet1`: small tiles, of which a thread has one input.
template <int OUT> __device__ __forceinline__ void lenet_gradients(const Run* runs, const Lenet& net) {
    const Run& run = runs[blockIdx.z];
    const int images = images_of(run);
    if (images == 0) return;
    DYNAMIC_SHARED(float, tile);  // inputs [128 images][128], deltas [128][OUT]; then sums [part][OUT][128], biases [part][OUT]
    if (blockIdx.x < 21) return conv_gradients<1>(run, net, images, tile);
    float* deltas = tile + 128 * 128;
    const int part = threadIdx.x / 128, at = threadIdx.x % 128;
    const DenseTile t = tile_of<OUT>(run, net);
    float sum[OUT], bias = 0;
#pragma unroll
    for (int j = 0; j < OUT; j++) sum[j] = 0;
    const int width = min(128, t.inputs - t.first) / 4;  // in fours
    for (int begin = 0; begin < images; begin += 128) {
        const int count = min(128, images - begin);
        __syncthreads();
#pragma unroll 8
        for (int i = threadIdx.x; i < 128 * 32; i += 512) {
            const int n = i / 32, column = i % 32;
            float4 v = load_global(t.x + (begin + min(n, count - 1)) * t.inputs + min(column, width - 1) * 4);
            if (n >= count || column >= width) v = make_float4(0, 0, 0, 0);
            *reinterpret_cast<float4*>(tile + n * 128 + column * 4) = v;
        }
        load_deltas<OUT>(t, begin, count, deltas);
        __syncthreads();
        for (int n0 = part * 8; n0 < 128; n0 += 32)
#pragma unroll 4
            for (int n = n0; n < n0 + 8; n++) {
                const float v = tile[n * 128 + at];
#pragma unroll
                for (int j = 0; j < OUT; j += 4) {
                    const float4 a = *reinterpret_cast<const float4*>(deltas + n * OUT + j);
                    sum[j] = fmaf(a.x, v, sum[j]), sum[j + 1] = fmaf(a.y, v, sum[j + 1]), sum[j + 2] = fmaf(a.z, v, sum[j + 2]), sum[j + 3] = fmaf(a.w, v, sum[j + 3]);
                }
                bias += deltas[n * OUT + at % OUT];
            }
    }
    __syncthreads();
    float* scratch = tile;
#pragma unroll
    for (int j = 0; j < OUT; j++) scratch[(part * OUT + j) * 128 + at] = sum[j];
    if (at < OUT) scratch[4 * OUT * 128 + part * OUT + at] = bias;
    __syncthreads();
    // every part stores a quarter of the outputs
#pragma unroll
    for (int i = 0; i < OUT / 4; i++) {
        const int j = part * (OUT / 4) + i;
        const float* s = scratch + j * 128 + at;
        const float total = ((s[0] + s[OUT * 128]) + s[2 * OUT * 128]) + s[3 * OUT * 128];
        if (t.first + at < t.inputs && t.row + j < t.outputs) store_gradient(run, t.weight + (t.row + j) * t.inputs + t.first + at, total);
    }
    if (part == 0 && at < OUT && t.first == 0 && t.row + at < t.outputs) {
        const float* b = scratch + 4 * OUT * 128 + at;
        store_gradient(run, t.weight + t.outputs * t.inputs + t.row + at, ((b[0] + b[OUT]) + b[2 * OUT]) + b[3 * OUT]);
    }
}
extern "C" __global__ void __launch_bounds__(512, 2) lenet_gradients8(const Run* runs, Lenet net) { lenet_gradients<8>(runs, net); }

// Many runs, after `lenet2`: tiles of 32 outputs, of which a thread has 8 times 4 inputs: three loads for 32 products.
extern "C" __global__ void __launch_bounds__(512, 2) lenet_gradients32(const Run* runs, Lenet net) {
    constexpr int OUT = 32;
    const Run& run = runs[blockIdx.z];
    const int images = images_of(run);
    if (images == 0) return;
    DYNAMIC_SHARED(float, tile);  // inputs [128 images][128], deltas [128][OUT]; then sums [part][OUT][128], biases [part][OUT]
    if (blockIdx.x < 21) return conv_gradients<2>(run, net, images, tile);
    float *deltas = tile + 128 * 128, *biases = deltas;
    const int part = threadIdx.x / 128, column = threadIdx.x % 32 * 4, j0 = threadIdx.x % 128 / 32 * 8;
    const DenseTile t = tile_of<OUT>(run, net);
    // the columns of a warp are those of a whole row of the tile, its outputs are the same for all
    const bool busy = t.row + j0 < t.outputs, biased = t.first == 0 && j0 == 0;
    float sum[8][4], bias = 0;
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) sum[j][i] = 0;
    const int width = min(128, t.inputs - t.first);
    for (int begin = 0; begin < images; begin += 128) {
        const int count = min(128, images - begin);
        __syncthreads();  // all are done with the tile before
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int n = i * 16 + threadIdx.x / 32;
            float* to = tile + n * 128 + column;
            if (n < count && column < width) request4(to, t.x + (begin + n) * t.inputs + column);
            else *reinterpret_cast<float4*>(to) = make_float4(0, 0, 0, 0);
        }
        load_deltas<OUT>(t, begin, count, deltas);
        arrived();
        __syncthreads();
        // images beyond the last are zeros and change no sum
        for (int n0 = part * 8; n0 < count && busy; n0 += 32)
#pragma unroll 2
            for (int n = n0; n < n0 + 8; n++) {
                const float4 v = *reinterpret_cast<const float4*>(tile + n * 128 + column);
#pragma unroll
                for (int j = 0; j < 8; j += 4) {
                    const float4 a = *reinterpret_cast<const float4*>(deltas + n * OUT + j0 + j);
                    const float d[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
                    for (int k = 0; k < 4; k++)
                        sum[j + k][0] = fmaf(d[k], v.x, sum[j + k][0]), sum[j + k][1] = fmaf(d[k], v.y, sum[j + k][1]),
                        sum[j + k][2] = fmaf(d[k], v.z, sum[j + k][2]), sum[j + k][3] = fmaf(d[k], v.w, sum[j + k][3]);
                }
            }
        // one warp of every part has the biases, a lane an output
        for (int n0 = part * 8; n0 < count && biased; n0 += 32) {
            const float* d = deltas + n0 * OUT + threadIdx.x % 32;
#pragma unroll
            for (int n = 0; n < 8; n++) bias += d[n * OUT];
        }
    }
    __syncthreads();  // the tile and the deltas make room for the sums
#pragma unroll
    for (int j = 0; j < 8; j++)
        *reinterpret_cast<float4*>(tile + (part * OUT + j0 + j) * 128 + column) = make_float4(sum[j][0], sum[j][1], sum[j][2], sum[j][3]);
    if (biased) biases[part * OUT + threadIdx.x % 32] = bias;
    __syncthreads();
    const float limit = run.rule == SGD ? 3.40282347e38f : 1.8446743e19f;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int j = i * 16 + threadIdx.x / 32;
        if (column >= width || t.row + j >= t.outputs) continue;
        float4 s[4];
#pragma unroll
        for (int p = 0; p < 4; p++) s[p] = *reinterpret_cast<const float4*>(tile + (p * OUT + j) * 128 + column);
        const float4 total = make_float4(((s[0].x + s[1].x) + s[2].x) + s[3].x, ((s[0].y + s[1].y) + s[2].y) + s[3].y,
                                         ((s[0].z + s[1].z) + s[2].z) + s[3].z, ((s[0].w + s[1].w) + s[2].w) + s[3].w);
        store_global(run.gradient + t.weight + (t.row + j) * t.inputs + t.first + column, total);
        const int unusable = !usable(total.x, limit) + !usable(total.y, limit) + !usable(total.z, limit) + !usable(total.w, limit);
        if (unusable) atomicAdd(&run.outcomes[run.step].unusable, unusable);
    }
    const int o = threadIdx.x;
    if (o < OUT && t.first == 0 && t.row + o < t.outputs)
        store_gradient(run, t.weight + t.outputs * t.inputs + t.row + o, ((biases[o] + biases[OUT + o]) + biases[2 * OUT + o]) + biases[3 * OUT + o]);
}
