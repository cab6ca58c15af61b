// Networks layer by layer: any shape, any run. Values are [image, channel, row, column]; a dense layer is a 1x1 convolution
// of 1x1 planes. Offsets count floats from the run's `values`, `point` and `partial`.
#include "common.cuh"

struct Conv {
    int in_c, in_h, in_w, out_c, out_h, out_w, kernel, stride, top, left;
    int weight, bias;            // offsets in the parameters, bias -1 for none
    int group, accumulate;       // images per partial sum; whether grad_input adds to what is there
    int x_stride, y_stride;      // numbers from one image to the next: the channels may be part of a larger tensor
    int relu, reserved;          // whether the output is cut at 0
    long long x, y, partial;     // input, output (or their gradients), partial sums
};
// beta and tau follow gamma; `add`, if not negative, is added to the output; no gradient of the input is written if `dx` is negative
struct Frn { int channels, plane, gamma, accumulate, x_stride, y_stride, dx_stride, add_stride; long long x, y, dx, partial, add; };
// With `relu` a window without a positive number passes no gradient on.
struct Pool { int planes, in_h, in_w, out_h, out_w, kernel_h, kernel_w, stride, x_stride, y_stride, dx_stride, accumulate, relu, reserved; long long x, y, dx; };
struct Flat { int size; unsigned threshold; float factor; int layer, x_stride, y_stride, z_stride, accumulate; long long x, y, z; };  // size per image
struct Rows { int width, stride, samples; float share; long long from; };
struct Loss { int classes; long long logits, gradient, loss, correct; };
struct Segment { long long partial; int gradient, count, stride, group; };  // partial[slot * stride + i] is summed over slots

// ---- pixels -------------------------------------------------------------------------------------------------------------

// The placed and normalized images of the step: grid (pixels / 256, image, run).
extern "C" __global__ void gather(const Run* runs, Images set, long long out) {
    const Run& run = runs[blockIdx.z];
    const int image = blockIdx.y, size = set.channels * set.height * set.width, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (image >= images_of(run) || i >= size) return;
    run.values[out + (long long)image * size + i] = placed_pixel(set, run.visits[run.steps[run.step].first_visit + image], set.channels, set.height, set.width, i);
}

// ---- convolutions as products of tiles ----------------------------------------------------------------------------------

constexpr int COLUMNS = 128, DEPTH = 16, COLUMN_STRIDE = COLUMNS + 8;

// sum += weights[DEPTH][ROWS + 8]^T columns[DEPTH][COLUMN_STRIDE], by 128 threads. With FMA a thread has ROWS/4 rows of four
// columns, with mma a warp has all rows of 32 columns.
template <bool TF32, int ROWS> __device__ __forceinline__ void multiply(float* sum, const float* weights, const float* columns) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if constexpr (!TF32) {
#pragma unroll 2
        for (int k = 0; k < DEPTH; k++) {
            const float4 b = *reinterpret_cast<const float4*>(columns + k * COLUMN_STRIDE + lane * 4);
#pragma unroll
            for (int i = 0; i < ROWS / 4; i++) {
                const float a = weights[k * (ROWS + 8) + warp * (ROWS / 4) + i];
                sum[i * 4 + 0] = fmaf(a, b.x, sum[i * 4 + 0]);
                sum[i * 4 + 1] = fmaf(a, b.y, sum[i * 4 + 1]);
                sum[i * 4 + 2] = fmaf(a, b.z, sum[i * 4 + 2]);
                sum[i * 4 + 3] = fmaf(a, b.w, sum[i * 4 + 3]);
            }
        }
    } else {
        const int g = lane / 4, t = lane % 4;
#pragma unroll
        for (int k = 0; k < DEPTH; k += 8) {
            unsigned b[4][2];
#pragma unroll
            for (int n = 0; n < 4; n++) {
                b[n][0] = __float_as_uint(columns[(k + t) * COLUMN_STRIDE + warp * 32 + n * 8 + g]);
                b[n][1] = __float_as_uint(columns[(k + t + 4) * COLUMN_STRIDE + warp * 32 + n * 8 + g]);
            }
#pragma unroll
            for (int m = 0; m < ROWS / 16; m++) {
                const float* w = weights + (k + t) * (ROWS + 8) + m * 16 + g;
                const unsigned a[4] = {__float_as_uint(w[0]), __float_as_uint(w[8]), __float_as_uint(w[4 * (ROWS + 8)]),
                                       __float_as_uint(w[4 * (ROWS + 8) + 8])};
#pragma unroll
                for (int n = 0; n < 4; n++) mma_tf32(sum + (m * 4 + n) * 4, a, b[n]);
            }
        }
    }
}

// Sum (r, c) of this thread: ROWS / PLACES rows of PLACES columns each.
template <bool TF32, int ROWS> struct Own {
    static constexpr int PLACES = TF32 ? 8 : 4, COUNT = ROWS / PLACES;
    static __device__ __forceinline__ int column(int c) {
        const int lane = threadIdx.x % 32;
        return TF32 ? threadIdx.x / 32 * 32 + c / 2 * 8 + lane % 4 * 2 + c % 2 : lane * 4 + c;
    }
    static __device__ __forceinline__ int row(int r) {
        const int lane = threadIdx.x % 32;
        return TF32 ? r / 2 * 16 + lane / 4 + r % 2 * 8 : threadIdx.x / 32 * (ROWS / 4) + r;
    }
    static constexpr __device__ __forceinline__ int index(int r, int c) { return TF32 ? (r / 2 * 4 + c / 2) * 4 + r % 2 * 2 + c % 2 : r * 4 + c; }
};

// Output (or, BACK, gradient of the input): rows are channels, columns are images times pixels. Grid (columns, rows, run).
template <bool TF32, int ROWS, bool BACK> __device__ __forceinline__ void conv_rows(const Run* runs, const Conv& conv) {
    const Run& run = runs[blockIdx.z];
    const int images = images_of(run);
    const int to_c = BACK ? conv.in_c : conv.out_c, from_c = BACK ? conv.out_c : conv.in_c;
    const int to_h = BACK ? conv.in_h : conv.out_h, to_w = BACK ? conv.in_w : conv.out_w;
    const int from_h = BACK ? conv.out_h : conv.in_h, from_w = BACK ? conv.out_w : conv.in_w;
    const int kernel = conv.kernel, taps = kernel * kernel, depth = from_c * taps, plane = to_h * to_w;
    const int first = blockIdx.x * COLUMNS, row0 = blockIdx.y * ROWS;
    if (first >= images * plane) return;
    DYNAMIC_SHARED(float, weights);
    float* columns = weights + DEPTH * (ROWS + 8);
    const float* from = run.values + (BACK ? conv.y : conv.x);
    const int column = first + threadIdx.x, image = column / plane, y = column % plane / to_w, x = column % to_w;
    const bool used = column < images * plane;
    const float* source = from + (long long)(used ? image : 0) * (BACK ? conv.y_stride : conv.x_stride);
    float sum[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; i++) sum[i] = 0;
    int c = 0, ky = 0, kx = 0;
    for (int k0 = 0; k0 < depth; k0 += DEPTH) {
        __syncthreads();
#pragma unroll 4
        for (int k = 0; k < DEPTH; k++) {
            int row = BACK ? y + conv.top - ky : y * conv.stride + ky - conv.top;
            int col = BACK ? x + conv.left - kx : x * conv.stride + kx - conv.left;
            bool inside = used && c < from_c && row >= 0 && col >= 0;
            if (BACK && conv.stride > 1) {
                const int down = row / conv.stride, right = col / conv.stride;
                inside = inside && down * conv.stride == row && right * conv.stride == col;
                row = down, col = right;
            }
            inside = inside && row < from_h && col < from_w;
            columns[k * COLUMN_STRIDE + threadIdx.x] = inside ? product_input<TF32>(source[(c * from_h + row) * from_w + col]) : 0;
            const bool last = ++kx == kernel;
            kx = last ? 0 : kx, ky += last;
            const bool next = ky == kernel;
            ky = next ? 0 : ky, c += next;
        }
#pragma unroll 2
        for (int i = 0; i < ROWS / 8; i++) {
            const int at = threadIdx.x + i * 128, k = k0 + at % DEPTH, row = row0 + at / DEPTH;
            float weight = 0;
            if (k < depth && row < to_c) {
                const int index = BACK ? ((k / taps) * to_c + row) * taps + k % taps : row * depth + k;
                weight = product_input<TF32>(run.point[conv.weight + index]);
            }
            weights[at % DEPTH * (ROWS + 8) + at / DEPTH] = weight;
        }
        __syncthreads();
        multiply<TF32, ROWS>(sum, weights, columns);
    }
    using Mine = Own<TF32, ROWS>;
    float* to = run.values + (BACK ? conv.x : conv.y);
#pragma unroll
    for (int place = 0; place < Mine::PLACES; place++) {
        const int at = first + Mine::column(place);
        if (at >= images * plane) continue;
        float* target = to + (long long)(at / plane) * (BACK ? conv.x_stride : conv.y_stride) + at % plane;
#pragma unroll
        for (int r = 0; r < Mine::COUNT; r++) {
            const int row = row0 + Mine::row(r);
            if (row >= to_c) continue;
            float value = sum[Mine::index(r, place)];
            if (!BACK && conv.bias >= 0) value += run.point[conv.bias + row];
            if (!BACK && conv.relu) value = larger(value, 0);
            if (BACK && conv.accumulate) value += target[row * plane];
            target[row * plane] = value;
        }
    }
}

// Gradient of weights and bias, summed over a group of images: rows are output channels, columns are weights of one output
// channel and, last, the bias. Grid (columns * row tiles, groups, run).
template <bool TF32> __device__ __forceinline__ void conv_weights(const Run* runs, const Conv& conv) {
    constexpr int ROWS = 16;
    const Run& run = runs[blockIdx.z];
    const int images = min(images_of(run), (int)(blockIdx.y + 1) * conv.group);
    const int taps = conv.kernel * conv.kernel, depth = conv.in_c * taps, plane = conv.out_h * conv.out_w;
    const int width = depth + (conv.bias >= 0), tiles = (width + COLUMNS - 1) / COLUMNS;
    const int first = blockIdx.x % tiles * COLUMNS, row0 = blockIdx.x / tiles * ROWS;
    if ((int)blockIdx.y * conv.group >= images) return;
    DYNAMIC_SHARED(float, weights);
    float* columns = weights + DEPTH * (ROWS + 8);
    const int column = first + threadIdx.x, c = column / taps, ky = column % taps / conv.kernel, kx = column % conv.kernel;
    const float* dy = run.values + conv.y;
    const float* in = run.values + conv.x + (long long)c * conv.in_h * conv.in_w;
    float sum[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; i++) sum[i] = 0;
    const int begin = blockIdx.y * conv.group * plane, end = images * plane;
    for (int p0 = begin; p0 < end; p0 += DEPTH) {
        int image = p0 / plane, y = p0 % plane / conv.out_w, x = p0 % conv.out_w;
        __syncthreads();
#pragma unroll 4
        for (int k = 0; k < DEPTH; k++) {
            float value = column < width ? 1.0f : 0.0f;
            if (column < depth) {
                const int row = y * conv.stride + ky - conv.top, col = x * conv.stride + kx - conv.left;
                const bool inside = row >= 0 && col >= 0 && row < conv.in_h && col < conv.in_w && p0 + k < end;
                value = inside ? product_input<TF32>(in[(long long)image * conv.x_stride + row * conv.in_w + col]) : 0;
            }
            columns[k * COLUMN_STRIDE + threadIdx.x] = value;
            const bool last = ++x == conv.out_w;
            x = last ? 0 : x, y += last;
            const bool next = y == conv.out_h;
            y = next ? 0 : y, image += next;
        }
        for (int i = 0; i < 2; i++) {
            const int at = threadIdx.x + i * 128, p = p0 + at % DEPTH, row = row0 + at / DEPTH;
            weights[at % DEPTH * (ROWS + 8) + at / DEPTH] = p < end && row < conv.out_c
                ? product_input<TF32>(dy[(long long)(p / plane) * conv.y_stride + row * plane + p % plane]) : 0;
        }
        __syncthreads();
        multiply<TF32, ROWS>(sum, weights, columns);
    }
    // [group][weights, then biases], as in the parameters
    using Mine = Own<TF32, ROWS>;
    float* out = run.partial + conv.partial + (long long)blockIdx.y * conv.out_c * width;
#pragma unroll
    for (int place = 0; place < Mine::PLACES; place++) {
        const int at = first + Mine::column(place);
#pragma unroll
        for (int r = 0; r < Mine::COUNT; r++) {
            const int row = row0 + Mine::row(r);
            if (row < conv.out_c && at < width) out[at < depth ? row * depth + at : conv.out_c * depth + row] = sum[Mine::index(r, place)];
        }
    }
}

#define CONV(name, tf32)                                                                                                       \
    extern "C" __global__ void __launch_bounds__(128, 8) conv_forward16_##name(const Run* r, Conv c) { conv_rows<tf32, 16, false>(r, c); } \
    extern "C" __global__ void __launch_bounds__(128, 4) conv_forward64_##name(const Run* r, Conv c) { conv_rows<tf32, 64, false>(r, c); } \
    extern "C" __global__ void __launch_bounds__(128, 8) conv_input16_##name(const Run* r, Conv c) { conv_rows<tf32, 16, true>(r, c); }    \
    extern "C" __global__ void __launch_bounds__(128, 4) conv_input64_##name(const Run* r, Conv c) { conv_rows<tf32, 64, true>(r, c); }    \
    extern "C" __global__ void __launch_bounds__(128, 8) conv_weights_##name(const Run* r, Conv c) { conv_weights<tf32>(r, c); }
CONV(f32, false)
CONV(tf32, true)

// ---- filter response normalization with its threshold: grid (channel, image, run) ----------------------------------------

extern "C" __global__ void __launch_bounds__(128) frn_forward(const Run* runs, Frn frn) {
    const Run& run = runs[blockIdx.z];
    if ((int)blockIdx.y >= images_of(run)) return;
    DYNAMIC_SHARED(float, scratch);
    const int c = blockIdx.x;
    const float* x = run.values + frn.x + (long long)blockIdx.y * frn.x_stride + c * frn.plane;
    float* y = run.values + frn.y + (long long)blockIdx.y * frn.y_stride + c * frn.plane;
    const float* more = frn.add < 0 ? nullptr : run.values + frn.add + (long long)blockIdx.y * frn.add_stride + c * frn.plane;
    float square = 0;
    for (int i = threadIdx.x; i < frn.plane; i += blockDim.x) square = fmaf(x[i], x[i], square);
    const float root = sqrtf(block_sum(square, scratch) / frn.plane + FRN_EPSILON);
    const float *gamma = run.point + frn.gamma, beta = gamma[frn.channels + c], tau = gamma[2 * frn.channels + c];
    for (int i = threadIdx.x; i < frn.plane; i += blockDim.x) {
        const float value = larger(fmaf(gamma[c], x[i] / root, beta), tau);
        y[i] = more ? value + more[i] : value;
    }
}

// `y` is the gradient of the output; writes that of the input and one partial sum per image: gamma, beta, tau.
extern "C" __global__ void __launch_bounds__(128) frn_backward(const Run* runs, Frn frn) {
    const Run& run = runs[blockIdx.z];
    if ((int)blockIdx.y >= images_of(run)) return;
    DYNAMIC_SHARED(float, scratch);
    const int c = blockIdx.x, n = frn.channels;
    const long long at = (long long)blockIdx.y * frn.x_stride + c * frn.plane;
    const float *x = run.values + frn.x + at, *dy = run.values + frn.y + (long long)blockIdx.y * frn.y_stride + c * frn.plane;
    float* dx = run.values + frn.dx + (long long)blockIdx.y * frn.dx_stride + c * frn.plane;
    float square = 0;
    for (int i = threadIdx.x; i < frn.plane; i += blockDim.x) square = fmaf(x[i], x[i], square);
    const float root = sqrtf(block_sum(square, scratch) / frn.plane + FRN_EPSILON);
    const float *parameters = run.point + frn.gamma, gamma = parameters[c], beta = parameters[n + c], tau = parameters[2 * n + c];
    float dgamma = 0, dbeta = 0, dtau = 0;
    for (int i = threadIdx.x; i < frn.plane; i += blockDim.x) {
        const float scaled = x[i] / root, y = fmaf(gamma, scaled, beta);
        const float share = y > tau ? 1.0f : y < tau ? 0.0f : 0.5f, d = share * dy[i];
        dgamma = fmaf(d, scaled, dgamma);
        dbeta += d;
        dtau = fmaf(1.0f - share, dy[i], dtau);
    }
    dgamma = block_sum(dgamma, scratch), dbeta = block_sum(dbeta, scratch), dtau = block_sum(dtau, scratch);
    const float mean = gamma * dgamma / frn.plane;
    for (int i = threadIdx.x; i < frn.plane && frn.dx >= 0; i += blockDim.x) {
        const float scaled = x[i] / root, y = fmaf(gamma, scaled, beta);
        const float share = y > tau ? 1.0f : y < tau ? 0.0f : 0.5f;
        // d/root - x mean/root^2/root: one pixel alone cancels to six digits, so both parts are scaled alike first
        const float value = (gamma * (share * dy[i]) - mean * scaled) / root;
        dx[i] = frn.accumulate ? dx[i] + value : value;
    }
    if (threadIdx.x == 0) {
        float* out = run.partial + frn.partial + (long long)blockIdx.y * 3 * n + c;
        out[0] = dgamma, out[n] = dbeta, out[2 * n] = dtau;
    }
}

// ---- what works on single numbers: grid (entries / 256, image, run) -------------------------------------------------------

#define FLAT_INDEX                                                                             \
    const Run& run = runs[blockIdx.z];                                                         \
    const int i = blockIdx.x * blockDim.x + threadIdx.x;                                       \
    if ((int)blockIdx.y >= images_of(run) || i >= flat.size) return;                           \
    const float* x = run.values + flat.x + (long long)blockIdx.y * flat.x_stride;              \
    float* y = run.values + flat.y + (long long)blockIdx.y * flat.y_stride;
#define FLAT_TARGET(to, value) const float result = value; (to)[i] = flat.accumulate ? (to)[i] + result : result;

extern "C" __global__ void relu_forward(const Run* runs, Flat flat) { FLAT_INDEX y[i] = larger(x[i], 0); }
// `y` is the gradient of the output, `z` that of the input; they may be the same.
extern "C" __global__ void relu_backward(const Run* runs, Flat flat) {
    FLAT_INDEX
    float* z = run.values + flat.z + (long long)blockIdx.y * flat.z_stride;
    FLAT_TARGET(z, x[i] > 0 ? y[i] : 0)
}
// z = x + y
extern "C" __global__ void add(const Run* runs, Flat flat) {
    FLAT_INDEX
    run.values[flat.z + (long long)blockIdx.y * flat.z_stride + i] = x[i] + y[i];
}
extern "C" __global__ void copy(const Run* runs, Flat flat) { FLAT_INDEX FLAT_TARGET(y, x[i]) }

// Forward and backward alike, in place or not; the masks are the host's.
extern "C" __global__ void dropout(const Run* runs, Flat flat) {
    FLAT_INDEX
    const Step& step = run.steps[run.step];
    const unsigned key = dropout_key(step.dropout_seed, flat.layer, step.first_image + blockIdx.y);
    FLAT_TARGET(y, x[i] * (dropout_bits(key, i) < flat.threshold ? 0.0f : flat.factor))
}

// ---- pools: one thread per number written; planes is channels, grid (entries / 256, image, run) ---------------------------

#define POOL_INDEX(side)                                                                                                     \
    const Run& run = runs[blockIdx.z];                                                                                       \
    const int i = blockIdx.x * blockDim.x + threadIdx.x, in_plane = pool.in_h * pool.in_w, out_plane = pool.out_h * pool.out_w; \
    if ((int)blockIdx.y >= images_of(run) || i >= pool.planes * side##_plane) return;                                        \
    const int plane = i / side##_plane, py = i % side##_plane / pool.side##_w, px = i % pool.side##_w;                       \
    const float* x = run.values + pool.x + (long long)blockIdx.y * pool.x_stride + plane * in_plane;                         \
    float* y = run.values + pool.y + (long long)blockIdx.y * pool.y_stride + plane * out_plane;

// Index in the plane of the first maximum, or of a NaN.
__device__ __forceinline__ int first_maximum(const Pool& pool, const float* x, int y0, int x0) {
    int best = y0 * pool.in_w + x0;
    for (int ky = 0; ky < pool.kernel_h; ky++)
        for (int kx = 0; kx < pool.kernel_w; kx++) {
            const int at = (y0 + ky) * pool.in_w + x0 + kx;
            if (x[at] > x[best] || x[at] != x[at]) best = at;
        }
    return best;
}
extern "C" __global__ void max_pool_forward(const Run* runs, Pool pool) {
    POOL_INDEX(out)
    y[py * pool.out_w + px] = x[first_maximum(pool, x, py * pool.stride, px * pool.stride)];
}
extern "C" __global__ void avg_pool_forward(const Run* runs, Pool pool) {
    POOL_INDEX(out)
    float sum = 0;
    for (int ky = 0; ky < pool.kernel_h; ky++)
        for (int kx = 0; kx < pool.kernel_w; kx++) sum += x[(py * pool.stride + ky) * pool.in_w + px * pool.stride + kx];
    y[py * pool.out_w + px] = sum / (pool.kernel_h * pool.kernel_w);
}
// The windows that hold an input are looked through in order, so nothing is scattered.
template <bool MAX> __device__ __forceinline__ void pool_back(const Run* runs, const Pool& pool) {
    POOL_INDEX(in)
    float sum = 0;
    for (int oy = max(0, (py - pool.kernel_h + pool.stride) / pool.stride); oy < pool.out_h && oy * pool.stride <= py; oy++)
        for (int ox = max(0, (px - pool.kernel_w + pool.stride) / pool.stride); ox < pool.out_w && ox * pool.stride <= px; ox++) {
            const float d = y[oy * pool.out_w + ox];
            if (py >= oy * pool.stride + pool.kernel_h || px >= ox * pool.stride + pool.kernel_w) continue;
            if (!MAX) sum += d / (pool.kernel_h * pool.kernel_w);
            else if (first_maximum(pool, x, oy * pool.stride, ox * pool.stride) == py * pool.in_w + px) sum += !pool.relu || x[py * pool.in_w + px] > 0 ? d : 0;
        }
    float* dx = run.values + pool.dx + (long long)blockIdx.y * pool.dx_stride + plane * in_plane + py * pool.in_w + px;
    *dx = pool.accumulate ? *dx + sum : sum;
}
extern "C" __global__ void max_pool_backward(const Run* runs, Pool pool) { pool_back<true>(runs, pool); }
extern "C" __global__ void avg_pool_backward(const Run* runs, Pool pool) { pool_back<false>(runs, pool); }

// ---- loss and sums ---------------------------------------------------------------------------------------------------------

// Grid (image, 1, run), one warp.
extern "C" __global__ void softmax_loss(const Run* runs, Images set, Loss loss) {
    const Run& run = runs[blockIdx.z];
    const int image = blockIdx.x, images = images_of(run);
    if (image >= images) return;
    const int label = label_of(run, set, image);
    cross_entropy(run.values + loss.logits + (long long)image * loss.classes, loss.classes, label, images,
                  run.values + loss.gradient + (long long)image * loss.classes, run.values + loss.loss + image, run.values + loss.correct + image);
}

// The partial sums of a segment, added in the order of the images: grid (entries / 256, segment, run).
extern "C" __global__ void reduce(const Run* runs, const Segment* segments) {
    const Run& run = runs[blockIdx.z];
    const Segment segment = segments[blockIdx.y];
    const int images = images_of(run), i = blockIdx.x * blockDim.x + threadIdx.x;
    if (images == 0 || i >= segment.count) return;
    const int slots = (images + segment.group - 1) / segment.group;
    const float* from = run.partial + segment.partial + i;
    float sum = 0;
#pragma unroll 8
    for (int slot = 0; slot < slots; slot++) sum += from[(long long)slot * segment.stride];
    store_gradient(run, segment.gradient + i, sum);
}

// ---- predictions: a run is a set of weights ----------------------------------------------------------------------------------

// Rows of every image, one after another: grid (entries / 256, image, 1), of the first run.
extern "C" __global__ void deliver(const Run* runs, Rows rows, float* out) {
    const Run& run = runs[0];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if ((int)blockIdx.y >= images_of(run) || i >= rows.width) return;
    out[(long long)(run.steps[run.step].first_image + blockIdx.y) * rows.width + i] = run.values[rows.from + (long long)blockIdx.y * rows.stride + i];
}

// Every run adds its share of the probabilities, in the order of the runs: grid (image, 1, 1), one warp.
template <class T> __device__ __forceinline__ void mix(const Run* runs, const Rows& rows, T* out) {
    const int lane = threadIdx.x;
    if ((int)blockIdx.x >= images_of(runs[0])) return;
    T* to = out + (long long)(runs[0].steps[runs[0].step].first_image + blockIdx.x) * rows.width;
    for (int r = 0; r < rows.samples; r++) {
        const float* z = runs[r].values + rows.from + (long long)blockIdx.x * rows.stride;
        float top = -INFINITY, sum = 0;
        for (int i = lane; i < rows.width; i += 32) top = fmaxf(top, z[i]);
        for (int m = 16; m; m >>= 1) top = fmaxf(top, __shfl_xor_sync(ALL_LANES, top, m));
        for (int i = lane; i < rows.width; i += 32) sum += expf(z[i] - top);
        for (int m = 16; m; m >>= 1) sum += __shfl_xor_sync(ALL_LANES, sum, m);
        for (int i = lane; i < rows.width; i += 32) to[i] += rows.share * (expf(z[i] - top) / sum);
    }
}
extern "C" __global__ void mix_probabilities(const Run* runs, Rows rows, float* out) { mix(runs, rows, out); }
extern "C" __global__ void sum_probabilities(const Run* runs, Rows rows, double* out) { mix(runs, rows, out); }

// Cross-entropy in f64 and hit, 0 or 1, of every image and run, as the host forms them: `out` is [run][total][2], labels go by
// the place of an image among all. Grid (image, 1, run), one warp.
extern "C" __global__ void score(const Run* runs, Rows rows, const uint32_t* labels, int total, double* out) {
    const Run& run = runs[blockIdx.z];
    const int lane = threadIdx.x;
    if ((int)blockIdx.x >= images_of(run)) return;
    const int place = run.steps[run.step].first_image + blockIdx.x, label = labels[place];
    const float* z = run.values + rows.from + (long long)blockIdx.x * rows.stride;
    float top = -INFINITY;
    int best = rows.width;
    for (int i = lane; i < rows.width; i += 32)
        if (z[i] > top) top = z[i], best = i;
    for (int m = 16; m; m >>= 1) {
        const float other = __shfl_xor_sync(ALL_LANES, top, m);
        const int at = __shfl_xor_sync(ALL_LANES, best, m);
        if (other > top || (other == top && at < best)) top = other, best = at;
    }
    double sum = 0;
    for (int i = lane; i < rows.width; i += 32) sum += exp((double)z[i] - top);
    for (int m = 16; m; m >>= 1) sum += __shfl_xor_sync(ALL_LANES, sum, m);
    if (lane) return;
    out += 2 * ((long long)blockIdx.z * total + place);
    out[0] = log(sum) + top - z[label], out[1] = best == label ? 1 : 0;
}

// Sums of the scores of a run in a fixed order, [run][2]: grid (1, 1, run), 256 threads, 16 doubles of shared memory.
extern "C" __global__ void __launch_bounds__(256) sum_scores(const double* scores, int total, double* out) {
    DYNAMIC_SHARED(double, parts);
    const double* from = scores + 2LL * total * blockIdx.z;
    double loss = 0, hits = 0;
    for (int i = threadIdx.x; i < total; i += 256) loss += from[2 * i], hits += from[2 * i + 1];
    for (int m = 16; m; m >>= 1) loss += __shfl_xor_sync(ALL_LANES, loss, m), hits += __shfl_xor_sync(ALL_LANES, hits, m);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 16] = loss, parts[threadIdx.x / 16 + 1] = hits;
    __syncthreads();
    if (threadIdx.x >= 2) return;
    double sum = 0;
    for (int w = 0; w < 8; w++) sum += parts[2 * w + threadIdx.x];
    out[2 * blockIdx.z + threadIdx.x] = sum;
}
