// LeNet from pixels to gradients inside a thread block, f32. A block has G images; what a number is summed of, and in which
// order, does not depend on G, so the host may choose it by the number of runs. Written to memory: features and deltas of the
// dense layers, whose weight gradients `lenet_gradients` forms over all images, and per image the gradients of the two
// convolutions.
#include "common.cuh"

#ifndef LENET_BLOCKS
#define LENET_BLOCKS 3  // blocks on a multiprocessor
#endif
constexpr int THREADS = 320, WARPS = THREADS / 32, CONV_PARAMETERS = 2572;
// Offsets in the parameters.
constexpr int W1 = 0, B1 = 150, W2 = 156, B2 = 2556, F1 = 2572, C1 = 33292, F2 = 33412, C2 = 43492, F3 = 43576;

// Offsets in `values`, one row per image: features 256, hidden 120 and 84, their deltas, deltas of the logits, loss, correct.
struct Lenet { int classes, layer1, layer2; unsigned threshold; float factor; long long features, hidden1, hidden2, delta1, delta2, delta3, loss, correct, partial; };

constexpr int P1 = 146;  // stride of a plane of the first pool: the planes fall into different banks
constexpr int SPREAD = 144;
struct Image {
    float in[784], pool1[6 * P1], features[256], hidden1[120], hidden2[84], logits[32], delta3[32], delta2[84], delta1[120];
    // gradient of the second convolution's output: 8x8 with four zeros around; those on the right are the next row's left
    // ones, those below the next plane's upper ones
    float spread[16 * SPREAD + 56];
    float2 pooled2[256], pooled1[864];  // gradient at a maximum, and where the maximum was, as an integer
};
struct Weights { float conv1[25 * 8], conv2[6 * 25 * 16], back2[16 * 25 * 6]; };

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

template <int Q> __device__ __forceinline__ void load_weights(const float* from, float* w) {
#pragma unroll
    for (int j = 0; j < Q; j += 2) {
        const float2 v = *reinterpret_cast<const float2*>(from + j);
        w[j] = v.x, w[j + 1] = v.y;
    }
}

// Pairs of outputs of one tap, so placed that neither the transposing stores nor the loads meet in few banks.
__device__ __forceinline__ int swizzled(int tap, int o) { return tap * 16 + ((o / 2 ^ tap % 8) * 2) + o % 2; }

// First maximum of the 2x2 places, cut at 0.
__device__ __forceinline__ float pool(const float* v, int& which) {
    which = 0;
    float best = v[0];
#pragma unroll
    for (int i = 1; i < 4; i++)
        if (v[i] > best || v[i] != v[i]) best = v[i], which = i;
    return larger(best, 0);
}

// A dense layer for all images of the block: one warp per output, J outputs at a time.
template <int G, int INPUTS, int J, class In, class Out> __device__ __forceinline__ void dense_layer(const float* weight, int outputs, In in, Out out) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    constexpr int STEPS = (INPUTS + 127) / 128;
    for (int o0 = warp; o0 < outputs; o0 += J * WARPS) {
        float sum[J][G];
#pragma unroll
        for (int j = 0; j < J; j++)
#pragma unroll
            for (int g = 0; g < G; g++) sum[j][g] = 0;
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
                        sum[j][g] = fmaf(w[j].w, x.w, fmaf(w[j].z, x.z, fmaf(w[j].y, x.y, fmaf(w[j].x, x.x, sum[j][g]))));
                }
            }
        }
#pragma unroll
        for (int m = 16; m; m >>= 1)
#pragma unroll
            for (int j = 0; j < J; j++)
#pragma unroll
                for (int g = 0; g < G; g++) sum[j][g] += __shfl_xor_sync(ALL_LANES, sum[j][g], m);
#pragma unroll
        for (int j = 0; j < J; j++)
            if (lane == 0 && o0 + j * WARPS < outputs)
#pragma unroll
                for (int g = 0; g < G; g++) out(g, o0 + j * WARPS, sum[j][g]);
    }
}

// Columns of the transposed product: out(g, i, sum over outputs of delta[o] weight[o][i]). PARTS groups of threads take every
// PARTS-th output, four columns a thread; their sums are added in order. Ends with a barrier.
template <int G, int INPUTS, int PARTS, class Delta, class Out> __device__ __forceinline__ void dense_back(const float* weight, int outputs, float* scratch, Delta delta, Out out) {
    constexpr int COLUMNS = INPUTS / 4;
    static_assert(PARTS * COLUMNS <= THREADS && PARTS * G * INPUTS <= 2400, "threads and scratch");
    const int part = threadIdx.x / COLUMNS, column = threadIdx.x % COLUMNS * 4;
    if (part < PARTS) {
        float4 sum[G];
#pragma unroll
        for (int g = 0; g < G; g++) sum[g] = make_float4(0, 0, 0, 0);
#pragma unroll 6
        for (int o = part; o < outputs; o += PARTS) {
            const float4 w = load_global(weight + o * INPUTS + column);
#pragma unroll
            for (int g = 0; g < G; g++) {
                const float d = delta(g)[o];
                sum[g].x = fmaf(d, w.x, sum[g].x), sum[g].y = fmaf(d, w.y, sum[g].y), sum[g].z = fmaf(d, w.z, sum[g].z), sum[g].w = fmaf(d, w.w, sum[g].w);
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

// Grid (groups of G images, 1, run).
template <int G> __device__ __forceinline__ void lenet(const Run* runs, const Images& set, const Lenet& net) {
    const Run& run = runs[blockIdx.z];
    const int images = images_of(run), first = blockIdx.x * G;
    if (first >= images) return;
    const int thread = threadIdx.x;
    DYNAMIC_SHARED(Image, image);
    Weights& weights = *reinterpret_cast<Weights*>(image + G);
    const float* point = run.point;
    const Step& step = run.steps[run.step];

    // weights and pixels; a place without an image repeats the last one and writes nothing
    for (int i = thread; i < 150; i += THREADS) weights.conv1[i % 25 * 8 + i / 75 * 4 + i / 25 % 3] = point[W1 + i];
#pragma unroll
    for (int i = thread; i < 2400; i += THREADS) {
        const int o = i / 150, c = i / 25 % 6, k = i % 25;
        weights.conv2[swizzled(i % 150, o)] = weights.back2[(o * 25 + k) * 6 + c] = point[W2 + i];
    }
#pragma unroll
    for (int i = thread; i < G * 784; i += THREADS) {
        const int g = i / 784;
        image[g].in[i % 784] = placed_pixel(set, run.visits[step.first_visit + min(first + g, images - 1)], 1, 28, 28, i % 784);
    }
    constexpr int ZEROS = 16 * SPREAD + 56;
    for (int i = thread; i < G * ZEROS; i += THREADS) image[i / ZEROS].spread[i % ZEROS] = 0;
    __syncthreads();

    // convolution 1, ReLU, pool: three channels at one place of the pool
    for (int item = thread; item < G * 288; item += THREADS) {
        Image& im = image[item / 288];
        const int half = item % 288 / 144, place = item % 144, y = place / 12 * 2, x = place % 12 * 2;
        float patch[6][6], sum[3][4] = {};
        load_patch<28>(im.in + y * 28 + x, patch);
#pragma unroll
        for (int k = 0; k < 25; k++) {
            const float4 w = *reinterpret_cast<const float4*>(weights.conv1 + k * 8 + half * 4);
#pragma unroll
            for (int p = 0; p < 4; p++) {
                const float v = patch[k / 5 + p / 2][k % 5 + p % 2];
                sum[0][p] = fmaf(w.x, v, sum[0][p]), sum[1][p] = fmaf(w.y, v, sum[1][p]), sum[2][p] = fmaf(w.z, v, sum[2][p]);
            }
        }
#pragma unroll
        for (int j = 0; j < 3; j++) {
            const int c = half * 3 + j;
            const float bias = point[B1 + c];
#pragma unroll
            for (int p = 0; p < 4; p++) sum[j][p] += bias;
            int which;
            im.pool1[c * P1 + place] = pool(sum[j], which);
            im.pooled1[c * 144 + place].y = __uint_as_float((y + which / 2) * 28 + x + which % 2);
        }
    }
    __syncthreads();

    // convolution 2, ReLU, pool: Q channels at one place
    constexpr int Q = 2;
    for (int item = thread; item < G * (256 / Q); item += THREADS) {
        Image& im = image[item / (256 / Q)];
        const int o = item % (256 / Q) / 16 * Q, place = item % 16, y = place / 4 * 2, x = place % 4 * 2;
        float sum[Q][4] = {};
        for (int c = 0; c < 6; c++) {
            float patch[6][6];
            load_patch<12>(im.pool1 + c * P1 + y * 12 + x, patch);
#pragma unroll
            for (int k = 0; k < 25; k++) {
                float w[Q];
                load_weights<Q>(weights.conv2 + swizzled(c * 25 + k, o), w);
#pragma unroll
                for (int p = 0; p < 4; p++)
#pragma unroll
                    for (int j = 0; j < Q; j++) sum[j][p] = fmaf(w[j], patch[k / 5 + p / 2][k % 5 + p % 2], sum[j][p]);
            }
        }
#pragma unroll
        for (int j = 0; j < Q; j++) {
            const float bias = point[B2 + o + j];
#pragma unroll
            for (int p = 0; p < 4; p++) sum[j][p] += bias;
            int which;
            im.features[(o + j) * 16 + place] = pool(sum[j], which);
            im.pooled2[(o + j) * 16 + place].y = __uint_as_float((y + which / 2) * 12 + x + which % 2);
        }
    }
    __syncthreads();

    // dense layers
    auto kept = [&](int g, int layer, int o) {
        return net.threshold == 0 || dropout_bits(dropout_key(step.dropout_seed, layer, step.first_image + min(first + g, images - 1)), o) >= net.threshold ? net.factor : 0.0f;
    };
    dense_layer<G, 256, 4>(point + F1, 120, [&](int g) { return image[g].features; },
                  [&](int g, int o, float sum) { image[g].hidden1[o] = larger(sum + point[C1 + o], 0) * kept(g, net.layer1, o); });
    __syncthreads();
    dense_layer<G, 120, 3>(point + F2, 84, [&](int g) { return image[g].hidden1; },
                  [&](int g, int o, float sum) { image[g].hidden2[o] = larger(sum + point[C2 + o], 0) * kept(g, net.layer2, o); });
    __syncthreads();
    dense_layer<G, 84, 1>(point + F3, net.classes, [&](int g) { return image[g].hidden2; },
                 [&](int g, int o, float sum) { image[g].logits[o] = sum + point[F3 + net.classes * 84 + o]; });
    __syncthreads();
    if (thread / 32 < G) {
        const int g = thread / 32, n = first + g;
        const int label = label_of(run, set, min(n, images - 1));
        float lost, correct;
        cross_entropy(image[g].logits, net.classes, label, images, image[g].delta3, &lost, &correct);
        if (n < images && thread % 32 == 0) run.values[net.loss + n] = lost, run.values[net.correct + n] = correct;
    }
    __syncthreads();
    // the second convolution's weights have done their work
    dense_back<G, 84, 10>(point + F3, net.classes, weights.conv2, [&](int g) { return image[g].delta3; },
                          [&](int g, int i, float sum) { image[g].delta2[i] = image[g].hidden2[i] > 0 ? sum * net.factor : 0; });
    dense_back<G, 120, 10>(point + F2, 84, weights.conv2, [&](int g) { return image[g].delta2; },
                           [&](int g, int i, float sum) { image[g].delta1[i] = image[g].hidden1[i] > 0 ? sum * net.factor : 0; });
    dense_back<G, 256, 4>(point + F1, 120, weights.conv2, [&](int g) { return image[g].delta1; }, [&](int g, int i, float sum) {
        Image& im = image[g];
        const bool passed = im.features[i] > 0;
        im.pooled2[i].x = passed ? sum : 0;
        if (passed) im.spread[i / 16 * SPREAD + __float_as_uint(im.pooled2[i].y) + 4 * 12 + 4] = sum;
    });
#pragma unroll
    for (int g = 0; g < G; g++) {
        const long long n = first + g;
        if (n >= images) break;
        for (int i = thread; i < 256; i += THREADS) run.values[net.features + n * 256 + i] = image[g].features[i];
        for (int i = thread; i < 120; i += THREADS) run.values[net.hidden1 + n * 120 + i] = image[g].hidden1[i], run.values[net.delta1 + n * 120 + i] = image[g].delta1[i];
        for (int i = thread; i < 84; i += THREADS) run.values[net.hidden2 + n * 84 + i] = image[g].hidden2[i], run.values[net.delta2 + n * 84 + i] = image[g].delta2[i];
        for (int i = thread; i < net.classes; i += THREADS) run.values[net.delta3 + n * net.classes + i] = image[g].delta3[i];
    }
    __syncthreads();

    // gradient of the first pool: two channels at 2x2 places; then of the second convolution's weights, from the maxima alone
    constexpr int LONG = (G * 108 + 31) / 32 * 32, SHORT = THREADS - LONG;  // threads for one and for the other
    if (thread < G * 108) {
        const int item = thread;
        Image& im = image[item / 108];
        // neighbors share a row, so that their patches lie in different banks
        const int x = item % 6 * 2, c = item / 6 % 3 * 2, y = item % 108 / 18 * 2;
        float sum[2][4] = {};
        for (int o = 0; o < 16; o++) {
            float patch[6][6];
            load_patch<12>(im.spread + o * SPREAD + y * 12 + x, patch);
#pragma unroll
            for (int k = 0; k < 25; k++) {
                const float2 w = *reinterpret_cast<const float2*>(weights.back2 + (o * 25 + k) * 6 + c);
#pragma unroll
                for (int p = 0; p < 4; p++) {
                    const float v = patch[p / 2 + 4 - k / 5][p % 2 + 4 - k % 5];
                    sum[0][p] = fmaf(w.x, v, sum[0][p]), sum[1][p] = fmaf(w.y, v, sum[1][p]);
                }
            }
        }
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int p = 0; p < 4; p++) {
                const int at = (y + p / 2) * 12 + x + p % 2;
                im.pooled1[(c + j) * 144 + at].x = im.pool1[(c + j) * P1 + at] > 0 ? sum[j][p] : 0;
            }
    }
    for (int item = thread - LONG; item >= 0 && item < G * 496; item += SHORT) {
        const int g = item / 496, i = item % 496;
        if (first + g >= images) break;
        const Image& im = image[g];
        float* out = run.partial + net.partial + (long long)(first + g) * CONV_PARAMETERS;
        if (i >= 480) {
            float sum = 0;
#pragma unroll
            for (int p = 0; p < 16; p++) sum += im.pooled2[(i - 480) * 16 + p].x;
            out[B2 + i - 480] = sum;
        } else {
            const int o = i / 30, c = i % 30 / 5, ky = i % 5;
            float sum[5] = {};
#pragma unroll 4
            for (int p = 0; p < 16; p++) {
                const float2 d = im.pooled2[o * 16 + p];
                const float* in = im.pool1 + c * P1 + ky * 12 + __float_as_uint(d.y);
#pragma unroll
                for (int kx = 0; kx < 5; kx++) sum[kx] = fmaf(d.x, in[kx], sum[kx]);
            }
#pragma unroll
            for (int kx = 0; kx < 5; kx++) out[W2 + (o * 6 + c) * 25 + ky * 5 + kx] = sum[kx];
        }
    }
    __syncthreads();

    // gradient of the first convolution's weights, in two halves of the places (scratch: the spread gradient is done with)
    for (int item = thread; item < G * 312; item += THREADS) {
        Image& im = image[item / 312];
        const int half = item % 312 / 156, i = item % 156, c = i < 150 ? i / 25 : i - 150, shift = i < 150 ? i % 25 / 5 * 28 + i % 5 : 0;
        const float2* d = im.pooled1 + c * 144 + half * 72;
        const float* in = im.in + shift;
        float sum = 0;
        if (i < 150) {
#pragma unroll 8
            for (int p = 0; p < 72; p++) sum = fmaf(d[p].x, in[__float_as_uint(d[p].y)], sum);
        } else {
#pragma unroll 8
            for (int p = 0; p < 72; p++) sum += d[p].x;
        }
        im.spread[half * 156 + i] = sum;
    }
    __syncthreads();
    for (int item = thread; item < G * 156; item += THREADS) {
        const int g = item / 156, i = item % 156;
        if (first + g < images) run.partial[net.partial + (long long)(first + g) * CONV_PARAMETERS + i] = image[g].spread[i] + image[g].spread[156 + i];
    }
}
extern "C" __global__ void __launch_bounds__(THREADS, LENET_BLOCKS) lenet1(const Run* runs, Images set, Lenet net) { lenet<1>(runs, set, net); }
extern "C" __global__ void __launch_bounds__(THREADS, LENET_BLOCKS) lenet2(const Run* runs, Images set, Lenet net) { lenet<2>(runs, set, net); }

// All gradients: sums over images in four interleaved parts, each in order. 512 threads: 128 columns times 4 parts.
// Blocks: 21 of the convolutions, then OUT outputs times 128 inputs each of the dense layers; OUT does not change the sums.
// Grid (21 + 2 ceil(120 / OUT) + ceil(84 / OUT) + ceil(classes / OUT), 1, run).
template <int OUT> __device__ __forceinline__ void lenet_gradients(const Run* runs, const Lenet& net) {
    constexpr int BLOCKS1 = (120 + OUT - 1) / OUT * 2, BLOCKS2 = BLOCKS1 + (84 + OUT - 1) / OUT;
    const Run& run = runs[blockIdx.z];
    const int images = images_of(run);
    if (images == 0) return;
    DYNAMIC_SHARED(float, tile);  // inputs [128 images][128], deltas [128][OUT]; then sums [part][OUT][128], biases [part][OUT]
    float* deltas = tile + 128 * 128;
    const int part = threadIdx.x / 128, at = threadIdx.x % 128;
    int block = blockIdx.x, first = 0, inputs = 0, outputs = 0, weight = 0, row = 0;
    float sum[OUT], bias = 0;
#pragma unroll
    for (int j = 0; j < OUT; j++) sum[j] = 0;
    if (block < 21) {
        first = block * 128;
        const float* from = run.partial + net.partial + min(first + at, CONV_PARAMETERS - 1);
        for (int n0 = part * 8; n0 < images; n0 += 64) {
            // loads that depend on nothing go out together
            float v[16];
#pragma unroll
            for (int i = 0; i < 16; i++) v[i] = __ldg(from + (long long)min(n0 + i / 8 * 32 + i % 8, images - 1) * CONV_PARAMETERS);
#pragma unroll
            for (int i = 0; i < 16; i++) sum[0] += n0 + i / 8 * 32 + i % 8 < images ? v[i] : 0;
        }
    } else {
        block -= 21;
        const int layer = block < BLOCKS1 ? 1 : block < BLOCKS2 ? 2 : 3;
        block -= layer == 1 ? 0 : layer == 2 ? BLOCKS1 : BLOCKS2;
        inputs = layer == 1 ? 256 : layer == 2 ? 120 : 84, outputs = layer == 1 ? 120 : layer == 2 ? 84 : net.classes;
        weight = layer == 1 ? F1 : layer == 2 ? F2 : F3;
        if (layer == 1) first = block % 2 * 128, block /= 2;
        row = block * OUT;
        const float* x = run.values + (layer == 1 ? net.features : layer == 2 ? net.hidden1 : net.hidden2) + first;
        const float* d = run.values + (layer == 1 ? net.delta1 : layer == 2 ? net.delta2 : net.delta3) + row;
        const int width = min(128, inputs - first) / 4;  // in fours
        for (int begin = 0; begin < images; begin += 128) {
            const int count = min(128, images - begin);
            __syncthreads();
#pragma unroll 8
            for (int i = threadIdx.x; i < 128 * 32; i += 512) {
                const int n = i / 32, column = i % 32;
                float4 v = load_global(x + (begin + min(n, count - 1)) * inputs + min(column, width - 1) * 4);
                if (n >= count || column >= width) v = make_float4(0, 0, 0, 0);
                *reinterpret_cast<float4*>(tile + n * 128 + column * 4) = v;
            }
#pragma unroll
            for (int i = threadIdx.x; i < 128 * OUT; i += 512) {
                const float v = __ldg(d + (begin + min(i / OUT, count - 1)) * outputs + min(i % OUT, outputs - 1 - row));
                deltas[i] = i / OUT < count ? v : 0;
            }
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
    }
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
        if (inputs == 0) {
            if (j == 0 && first + at < CONV_PARAMETERS) store_gradient(run, first + at, total);
        } else if (first + at < inputs && row + j < outputs) {
            store_gradient(run, weight + (row + j) * inputs + first + at, total);
        }
    }
    if (part == 0 && at < OUT && inputs && first == 0 && row + at < outputs) {
        const float* b = scratch + 4 * OUT * 128 + at;
        store_gradient(run, weight + outputs * inputs + row + at, ((b[0] + b[OUT]) + b[2 * OUT]) + b[3 * OUT]);
    }
}
extern "C" __global__ void __launch_bounds__(512, 2) lenet_gradients8(const Run* runs, Lenet net) { lenet_gradients<8>(runs, net); }
extern "C" __global__ void __launch_bounds__(512, 2) lenet_gradients16(const Run* runs, Lenet net) { lenet_gradients<16>(runs, net); }
