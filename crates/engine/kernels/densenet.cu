// DenseNet with filter response normalization (growth 12, 48 channels in the middle of a layer): a block of layers with the
// transition after it is one kernel forward and one backward. A block of threads has one image (four where planes are 4 x 4)
// and goes through all layers; the features stay in L2 or memory, since the first block's would not fit on the chip.
//
// Features of a block are one tensor [image, channel, row, column], the newest channels first: a layer reads the end of it.
// FRN stands in the load of the convolution after it; the root of a channel's mean square is computed once and serves all
// FRNs that read the channel. Backward, the gradients of all FRNs over a channel are summed at the normalized channel, and
// pass the normalization together when the layer that made the channel is reached: it is linear. What it needs, the mean of
// gradient times normalized value, is the sum of gamma times gamma's gradient over those FRNs.
//
// Products are tiles of [rows][pixels] (Product): f32 by FMA or TF32 by mma. They end in shared memory, and what follows
// (sums over a plane, thresholds, pools) is done by lanes that share a plane (Plane), the same for both precisions.
#include "common.cuh"

namespace dense {
constexpr int GROWTH = 12, MIDDLE = 48;

// One block of layers. Offsets count floats: of `x` [batch][channels][S*S] features, `g` the gradient at the normalized
// features, alike; `z` [layer][batch][48][S*S] what FRN 2 reads (`z_step` from layer to layer; 0 if nothing is kept for
// backward), `dz` [batch][48][S*S]; `roots` [batch][channels] and `z_roots` [layer][batch][48] 1/sqrt(mean square); `sums`
// [batch][channels] the sum of gamma times its gradient over the FRNs of a channel; `partial` one slice of `slice` numbers,
// in the order of the parameters, per block of threads. `next_*` are those of the block after the transition, whose tensor
// has `next_channels` channels, the transition's from `next_first` on; no channels if there is no transition.
struct Block {
    int batch, layers, width, parameters, prepared, slice, next_channels, next_first;
    long long x, g, z, z_step, dz, roots, z_roots, sums, next_x, next_g, next_roots, next_sums, partial;
};

__device__ __forceinline__ constexpr int round8(int n) { return (n + 7) / 8 * 8; }
// Channels that a 1x1 convolution's input gradient takes 48 at a time. Where `rest` (planes of 16 x 16 or more), up to 24 may
// remain for a narrower product; elsewhere the last 48 are filled up.
__device__ __forceinline__ constexpr int wide_channels(int in, bool rest) { return (in / 48 + (in % 48 > (rest ? 24 : 0))) * 48; }
__device__ __forceinline__ constexpr int point_forward(int in) { return round8(in) * 56; }
__device__ __forceinline__ constexpr int point_backward(int in, bool rest) { return wide_channels(in, rest) * 56 + (in > wide_channels(in, rest) ? 48 * 40 : 0); }
constexpr int MIDDLE_FORWARD = 48 * 9 * 24, MIDDLE_BACKWARD = 16 * 9 * 56, STEM_FORWARD = 8 * 9 * 40, STEM = 24 * 27;
// Prepared weights and parameters of a layer that reads `in` channels.
__device__ __forceinline__ constexpr int layer_prepared(int in, bool rest) { return point_forward(in) + point_backward(in, rest) + MIDDLE_FORWARD + MIDDLE_BACKWARD; }
__device__ __forceinline__ constexpr int layer_parameters(int in) { return 51 * in + 3 * 48 + 12 * 48 * 9; }

// Weights as the kernels want them, rounded for TF32. A 1x1 convolution: for every 48 outputs forward [in, filled up to
// eights][56], then for every 48 outputs backward [48 outputs][56] for 48 inputs each and [48][40] for a rest.
// 3x3 of a layer: forward [in][tap][24], backward [16][taps reversed][56]. Stem: [8][tap][40]. Grid (any, table, run).
struct Prepare { int weight, out, in, taps, prepared, rest; };
template <bool TF32> __device__ __forceinline__ void prepare(const Run* runs, const Prepare* table) {
    const Run& run = runs[blockIdx.z];
    if (images_of(run) == 0) return;
    const Prepare p = table[blockIdx.y];
    const float* w = run.point + p.weight;
    float* to = run.prepared + p.prepared;
    const int step = blockDim.x * gridDim.x, begin = blockIdx.x * blockDim.x + threadIdx.x, in = p.in;
    if (p.taps == 1) {
        const int forward = point_forward(in), backward = point_backward(in, p.rest), parts = p.out / 48, wide = wide_channels(in, p.rest) * 56;
        for (int i = begin; i < parts * (forward + backward); i += step) {
            int o, c;
            bool used;
            if (i < parts * forward) {
                const int at = i % forward;
                c = at / 56, o = i / forward * 48 + at % 56, used = at % 56 < 48;
            } else {
                const int j = i - parts * forward, at = j % backward, rest = at - wide;
                if (at < wide) o = at % 2688 / 56, c = at / 2688 * 48 + at % 56, used = at % 56 < 48;
                else o = rest / 40, c = wide / 56 + rest % 40, used = rest % 40 < 24;
                o += j / backward * 48;
            }
            to[i] = used && c < in ? product_input<TF32>(w[o * in + c]) : 0;
        }
    } else if (in == 3) {
        for (int i = begin; i < STEM_FORWARD; i += step) {
            const int o = i % 40, tap = i / 40 % 9, c = i / 360;
            to[i] = o < p.out && c < in ? product_input<TF32>(w[(o * in + c) * 9 + tap]) : 0;
        }
    } else {
        for (int i = begin; i < MIDDLE_FORWARD + MIDDLE_BACKWARD; i += step) {
            const bool back = i >= MIDDLE_FORWARD;
            const int j = back ? i - MIDDLE_FORWARD : i, wide = back ? 56 : 24, tap = j / wide % 9;
            const int o = back ? j / wide / 9 : j % wide, c = back ? j % wide : j / wide / 9;
            to[i] = o < 12 && c < 48 ? product_input<TF32>(w[(o * 48 + c) * 9 + (back ? 8 - tap : tap)]) : 0;
        }
    }
}

__device__ __forceinline__ float threshold(float v, float tau) {
#ifdef EMULATED
    return larger(v, tau);
#else
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(v) : "f"(tau));
    return v;
#endif
}
// Copies are waited for in groups: `all_but_last` waits for those before the last `group_ends`.
__device__ __forceinline__ void group_ends() {
#ifndef EMULATED
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
__device__ __forceinline__ void all_but_last() {
#ifndef EMULATED
    asm volatile("cp.async.wait_group 1;" ::: "memory");
#endif
}
__device__ __forceinline__ float4 load4(const float* from) { return *reinterpret_cast<const float4*>(from); }
__device__ __forceinline__ float2 load2(const float* from) { return *reinterpret_cast<const float2*>(from); }

constexpr int larger_of(int a, int b) { return a > b ? a : b; }
// Numbers from one row of pixels to the next in shared memory, so that lanes on neighboring rows meet few of the same banks.
template <bool TF32> constexpr int row_stride(int pixels) { return pixels + (TF32 ? 8 : 4); }

// Which sums of a product [ROWS][PX] a thread holds: f32 six rows at four pixels, TF32 MT x NT tiles of 16 pixels and 8 rows. A
// warp has all rows of WPX pixels; SPLIT warps share a sum.
template <int ROWS_, int PX_, int WARPS, bool TF32_> struct Product {
    static constexpr int ROWS = ROWS_, PX = PX_, WPX = 768 / ROWS, PIXEL_WARPS = PX / WPX, SPLIT = WARPS / PIXEL_WARPS;
    static constexpr bool TF32 = TF32_;
    static constexpr int NT = (ROWS + 7) / 8, MT = WPX / 16, GROUPS = ROWS / 6, SUMS = TF32 ? MT * NT * 4 : 24;
    static constexpr int WIDE = ROWS == 48 ? 56 : ROWS == 24 ? 40 : 24, STRIDE = row_stride<TF32>(PX), SIZE = SPLIT * ROWS * STRIDE;
    static_assert(PIXEL_WARPS * SPLIT == WARPS && PIXEL_WARPS * WPX == PX, "warps");
    int lane, split, pixel;  // pixel: the first one of the warp
    __device__ __forceinline__ Product() {
        const unsigned thread = this_thread();
        lane = thread % 32, pixel = thread / 32 % PIXEL_WARPS * WPX, split = thread / 32 / PIXEL_WARPS;
    }
    // First pixel of the four (two) that a lane has in tile m.
    __device__ __forceinline__ int first(int m) const { return TF32 ? pixel + m * 16 + lane / 4 * 2 : pixel + lane / GROUPS * 4; }
    static __device__ __forceinline__ void clear(float* sums) {
#pragma unroll
        for (int i = 0; i < SUMS; i++) sums[i] = 0;
    }
    __device__ __forceinline__ void fma6(float* sums, const float* w, const float* v) const {
        const float2 a = load2(w), b = load2(w + 2), c = load2(w + 4);
        const float row[6] = {a.x, a.y, b.x, b.y, c.x, c.y};
#pragma unroll
        for (int i = 0; i < 6; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) sums[i * 4 + j] = fmaf(row[i], v[j], sums[i * 4 + j]);
    }
    // sums += eight rows of weights [8][WIDE] times eight rows of pixels [8][STRIDE].
    __device__ __forceinline__ void multiply(float* sums, const float* w, const float* x) const {
        if constexpr (!TF32) {
            w += lane % GROUPS * 6, x += first(0);
#pragma unroll 4
            for (int k = 0; k < 8; k++) {
                const float4 v = load4(x + k * STRIDE);
                const float in[4] = {v.x, v.y, v.z, v.w};
                fma6(sums, w + k * WIDE, in);
            }
        } else {
            const int g = lane / 4, t = lane % 4;
            unsigned b[NT][2];
#pragma unroll
            for (int n = 0; n < NT; n++)
#pragma unroll
                for (int h = 0; h < 2; h++) b[n][h] = __float_as_uint(w[(t + 4 * h) * WIDE + n * 8 + g]);
#pragma unroll
            for (int m = 0; m < MT; m++) {
                const float2 lo = load2(x + t * STRIDE + first(m)), hi = load2(x + (t + 4) * STRIDE + first(m));
                const unsigned a[4] = {__float_as_uint(lo.x), __float_as_uint(lo.y), __float_as_uint(hi.x), __float_as_uint(hi.y)};
#pragma unroll
                for (int n = 0; n < NT; n++) mma_tf32(sums + (m * NT + n) * 4, a, b[n]);
            }
        }
    }
    // sums += 3x3 convolution of bordered planes [image][IN][S + 2][S + 4], shared out among SPLIT warps; weights [IN][tap][WIDE].
    // `row`: the row of the image where the pixels begin.
    template <int S, int IN, int PLANE> __device__ __forceinline__ void convolve(float* sums, const float* planes, const float* w, int row) const {
        constexpr int ROW = S + 4;
        auto place = [&](int p) { return p / (S * S) * (IN * PLANE) + (p % (S * S) / S + row) * ROW + p % S; };
        if constexpr (!TF32) {
            const float* x = planes + place(first(0));
            w += lane % GROUPS * 6;
#pragma unroll 1
            for (int unit = split; unit < IN * 3; unit += SPLIT) {
                const int c = unit / 3, ky = unit % 3;
                const float* from = x + c * PLANE + ky * ROW;
                const float4 a = load4(from);
                const float2 b = load2(from + 4);
                const float v[6] = {a.x, a.y, a.z, a.w, b.x, b.y};
#pragma unroll
                for (int kx = 0; kx < 3; kx++) fma6(sums, w + (unit * 3 + kx) * WIDE, v + kx);
            }
        } else {
            const int g = lane / 4, t = lane % 4;
#pragma unroll 1
            for (int unit = split; unit < (IN + 7) / 8 * 3; unit += SPLIT) {
                const int c = unit / 3 * 8, ky = unit % 3;
                const bool half = IN % 8 && c + 8 > IN;  // four channels remain
                unsigned b[3][NT][2];
#pragma unroll
                for (int kx = 0; kx < 3; kx++)
#pragma unroll
                    for (int n = 0; n < NT; n++)
#pragma unroll
                        for (int h = 0; h < 2; h++) b[kx][n][h] = __float_as_uint(w[((c + t + 4 * h) * 9 + ky * 3 + kx) * WIDE + n * 8 + g]);
#pragma unroll
                for (int m = 0; m < MT; m++) {
                    const float* from = planes + place(first(m)) + (c + t) * PLANE + ky * ROW;
                    float v[2][4];
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        float2 one = make_float2(0, 0), two = one;
                        if (!h || !half) one = load2(from + 4 * h * PLANE), two = load2(from + 4 * h * PLANE + 2);
                        v[h][0] = one.x, v[h][1] = one.y, v[h][2] = two.x, v[h][3] = two.y;
                    }
#pragma unroll
                    for (int kx = 0; kx < 3; kx++) {
                        const unsigned a[4] = {__float_as_uint(v[0][kx]), __float_as_uint(v[0][kx + 1]), __float_as_uint(v[1][kx]), __float_as_uint(v[1][kx + 1])};
#pragma unroll
                        for (int n = 0; n < NT; n++) mma_tf32(sums + (m * NT + n) * 4, a, b[kx][n]);
                    }
                }
            }
        }
    }
    // The sums to shared memory, [SPLIT][ROWS][STRIDE].
    __device__ __forceinline__ void store(const float* sums, float* to) const {
        to += split * (ROWS * STRIDE);
        if constexpr (!TF32) {
            to += lane % GROUPS * 6 * STRIDE + first(0);
#pragma unroll
            for (int i = 0; i < 6; i++) *reinterpret_cast<float4*>(to + i * STRIDE) = make_float4(sums[i * 4], sums[i * 4 + 1], sums[i * 4 + 2], sums[i * 4 + 3]);
        } else {
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int n = 0; n < NT; n++)
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        const int row = n * 8 + lane % 4 * 2 + e;
                        const float* s = sums + (m * NT + n) * 4 + e;
                        if (ROWS % 8 == 0 || row < ROWS) *reinterpret_cast<float2*>(to + row * STRIDE + first(m)) = make_float2(s[0], s[2]);
                    }
        }
    }
    // Four of them, the parts of all warps added.
    static __device__ __forceinline__ float4 total(const float* from, int row, int px) {
        float4 sum = load4(from + row * STRIDE + px);
#pragma unroll
        for (int s = 1; s < SPLIT; s++) {
            const float4 v = load4(from + (s * ROWS + row) * STRIDE + px);
            sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
        return sum;
    }
};

// How ROWS planes of IMG images, PXI pixels each, are shared out for what is not a product: LANES lanes have a plane, each of
// them V times four pixels; a thread meets ITER planes.
template <int ROWS_, int IMG, int PXI, int THREADS> struct Plane {
    static constexpr int ROWS = ROWS_, QUADS = PXI / 4, LANES = QUADS < 32 ? QUADS : 32, V = QUADS / LANES, SLOTS = ROWS * IMG * LANES, ITER = (SLOTS + THREADS - 1) / THREADS;
    int row, image, lane;
    bool used;
    __device__ __forceinline__ Plane(int i, unsigned thread) {
        // written so that what belongs to `i` is a constant
        static_assert(THREADS / LANES % IMG == 0, "whole images");
        const unsigned plane = thread / LANES;
        lane = thread % LANES, row = plane / IMG + i * (THREADS / LANES / IMG), image = plane % IMG;
        used = SLOTS % THREADS == 0 || row < ROWS;
    }
    __device__ __forceinline__ int pixel(int v) const { return (lane + v * LANES) * 4; }  // in its plane
    static __device__ __forceinline__ float over_lanes(float v) {
#pragma unroll
        for (int m = LANES / 2; m; m >>= 1) v += __shfl_xor_sync(ALL_LANES, v, m);
        return v;
    }
};

__device__ __forceinline__ float square(const float4& v, float sum) { return fmaf(v.w, v.w, fmaf(v.z, v.z, fmaf(v.y, v.y, fmaf(v.x, v.x, sum)))); }
// FRN and threshold by {gamma/root, beta, tau, ...}.
template <bool TF32> __device__ __forceinline__ float4 normalized(const float4& v, const float4& p) {
    return make_float4(product_input<TF32>(threshold(fmaf(p.x, v.x, p.y), p.z)), product_input<TF32>(threshold(fmaf(p.x, v.y, p.y), p.z)),
                       product_input<TF32>(threshold(fmaf(p.x, v.z, p.y), p.z)), product_input<TF32>(threshold(fmaf(p.x, v.w, p.y), p.z)));
}

// Sums over the pixels of a strip of unshifted rows `u` [columns][STRIDE] times shifted planes or rows.
// 48 rows `d` [48][STRIDE] times COLUMNS rows `a` [COLUMNS][STRIDE]: a warp has 48 x 24 of them, SPLIT warps share the pixels.
template <int COLUMNS, int PX, int WARPS, bool TF32> struct Outer {
    static constexpr int PARTS = COLUMNS / 24, MOST = WARPS / PARTS, SPLIT = MOST < PX / 8 ? MOST : PX / 8, STRIDE = row_stride<TF32>(PX), SUMS = 36, WIDE = row_stride<TF32>(COLUMNS), SIZE = SPLIT * 48 * WIDE;
    static __device__ __forceinline__ void add(float* sums, const float* d, const float* a) {
        const unsigned thread = this_thread();
        const int lane = thread % 32, warp = thread / 32, split = warp / PARTS;
        if (split >= SPLIT) return;
        a += warp % PARTS * 24 * STRIDE;
        if constexpr (!TF32) {
            d += (lane % 4 + lane / 16 * 4) * STRIDE, a += lane / 4 % 4 * STRIDE;
#pragma unroll 1
            for (int p = split * (PX / SPLIT); p < (split + 1) * (PX / SPLIT); p += 4) {
                float4 left[6];
#pragma unroll
                for (int i = 0; i < 6; i++) left[i] = load4(d + i * 8 * STRIDE + p);
#pragma unroll
                for (int j = 0; j < 6; j++) {
                    const float4 right = load4(a + j * 4 * STRIDE + p);
#pragma unroll
                    for (int i = 0; i < 6; i++)
                        sums[i * 6 + j] = fmaf(left[i].w, right.w, fmaf(left[i].z, right.z, fmaf(left[i].y, right.y, fmaf(left[i].x, right.x, sums[i * 6 + j]))));
                }
            }
        } else {
            d += lane / 4 * STRIDE + lane % 4 * 2, a += lane / 4 * STRIDE + lane % 4 * 2;
#pragma unroll 2
            for (int p = split * (PX / SPLIT); p < (split + 1) * (PX / SPLIT); p += 8) {
                unsigned right[3][2];
#pragma unroll
                for (int n = 0; n < 3; n++) {
                    const float2 v = load2(a + n * 8 * STRIDE + p);
                    right[n][0] = __float_as_uint(v.x), right[n][1] = __float_as_uint(v.y);
                }
#pragma unroll
                for (int m = 0; m < 3; m++) {
                    const float2 one = load2(d + m * 16 * STRIDE + p), two = load2(d + (m * 16 + 8) * STRIDE + p);
                    const unsigned left[4] = {__float_as_uint(one.x), __float_as_uint(two.x), __float_as_uint(one.y), __float_as_uint(two.y)};
#pragma unroll
                    for (int n = 0; n < 3; n++) mma_tf32(sums + (m * 3 + n) * 4, left, right[n]);
                }
            }
        }
    }
    // To shared memory, [SPLIT][48][WIDE].
    static __device__ __forceinline__ void store(const float* sums, float* to) {
        const unsigned thread = this_thread();
        const int lane = thread % 32, warp = thread / 32, split = warp / PARTS;
        if (split >= SPLIT) return;
        to += split * (48 * WIDE) + warp % PARTS * 24;
#pragma unroll
        for (int i = 0; i < SUMS; i += TF32 ? 2 : 1) {
            const int row = TF32 ? i / 12 * 16 + i % 4 / 2 * 8 + lane / 4 : i / 6 * 8 + lane % 4 + lane / 16 * 4;
            const int column = TF32 ? i / 4 % 3 * 8 + lane % 4 * 2 : i % 6 * 4 + lane / 4 % 4;
            if (TF32) *reinterpret_cast<float2*>(to + row * WIDE + column) = make_float2(sums[i], sums[i + 1]);
            else to[row * WIDE + column] = sums[i];
        }
    }
    static __device__ __forceinline__ float total(const float* from, int row, int column) {
        float sum = 0;
#pragma unroll
        for (int s = 0; s < SPLIT; s++) sum += from[(s * 48 + row) * WIDE + column];
        return sum;
    }
};

// 12 bordered planes `d`, shifted by every tap, times 48 rows `u`: three warps have one row of taps each, SPLIT of these
// share the pixels. Tap k of the sums is tap k of `convolve`.
template <int S, int PX, int PLANE, int WARPS, bool TF32> struct Outer9 {
    static constexpr int SPLIT = WARPS / 3, STRIDE = row_stride<TF32>(PX), ROW = S + 4, SUMS = TF32 ? 72 : 54, WIDE = 48 * 9 + 4, SIZE = SPLIT * 12 * WIDE;
    // `row`: the row of the image where the pixels of `u` begin.
    static __device__ __forceinline__ void add(float* sums, const float* d, const float* u, int row) {
        const unsigned thread = this_thread();
        const int lane = thread % 32, warp = thread / 32, split = warp / 3, ky = warp % 3;
        if (split >= SPLIT) return;
        auto place = [&](int p) { return p / (S * S) * (12 * PLANE) + (p % (S * S) / S + row + ky) * ROW + p % S; };
        if constexpr (!TF32) {
            u += (lane % 4 + lane / 16 * 4) * STRIDE, d += lane / 4 % 4 * PLANE;
#pragma unroll 1
            for (int p = split * 4; p < PX; p += SPLIT * 4) {
                const float* from = d + place(p);
                float v[3][6];
#pragma unroll
                for (int i = 0; i < 3; i++) {
                    const float4 one = load4(from + i * 4 * PLANE);
                    const float2 two = load2(from + i * 4 * PLANE + 4);
                    v[i][0] = one.x, v[i][1] = one.y, v[i][2] = one.z, v[i][3] = one.w, v[i][4] = two.x, v[i][5] = two.y;
                }
#pragma unroll
                for (int j = 0; j < 6; j++) {
                    const float4 right = load4(u + j * 8 * STRIDE + p);
                    const float r[4] = {right.x, right.y, right.z, right.w};
#pragma unroll
                    for (int i = 0; i < 3; i++)
#pragma unroll
                        for (int kx = 0; kx < 3; kx++)
#pragma unroll
                            for (int e = 0; e < 4; e++) sums[(i * 3 + kx) * 6 + j] = fmaf(v[i][kx + e], r[e], sums[(i * 3 + kx) * 6 + j]);
                }
            }
        } else {
            const int g = lane / 4, t = lane % 4;
            u += g * STRIDE + 2 * t, d += g * PLANE;
#pragma unroll 1
            for (int p = split * 8; p < PX; p += SPLIT * 8) {
                const float* from = d + place(p + 2 * t);
                float2 v[2][2] = {{load2(from), load2(from + 2)}, {make_float2(0, 0), make_float2(0, 0)}};
                if (g < 4) v[1][0] = load2(from + 8 * PLANE), v[1][1] = load2(from + 8 * PLANE + 2);
                const float w[2][4] = {{v[0][0].x, v[0][0].y, v[0][1].x, v[0][1].y}, {v[1][0].x, v[1][0].y, v[1][1].x, v[1][1].y}};
#pragma unroll
                for (int n = 0; n < 6; n++) {
                    const float2 r = load2(u + n * 8 * STRIDE + p);
                    const unsigned right[2] = {__float_as_uint(r.x), __float_as_uint(r.y)};
#pragma unroll
                    for (int kx = 0; kx < 3; kx++) {
                        const unsigned left[4] = {__float_as_uint(w[0][kx]), __float_as_uint(w[1][kx]), __float_as_uint(w[0][kx + 1]), __float_as_uint(w[1][kx + 1])};
                        mma_tf32(sums + (kx * 6 + n) * 4, left, right);
                    }
                }
            }
        }
    }
    // To shared memory, [SPLIT][12][WIDE], of which [48][9] are used.
    static __device__ __forceinline__ void store(const float* sums, float* to) {
        const unsigned thread = this_thread();
        const int lane = thread % 32, warp = thread / 32, split = warp / 3, ky = warp % 3;
        if (split >= SPLIT) return;
        to += split * (12 * WIDE) + ky * 3;
#pragma unroll
        for (int i = 0; i < SUMS; i++) {
            const int kx = TF32 ? i / 24 : i / 6 % 3, o = TF32 ? lane / 4 + i % 4 / 2 * 8 : lane / 4 % 4 + i / 18 * 4;
            const int c = TF32 ? i / 4 % 6 * 8 + lane % 4 * 2 + i % 2 : i % 6 * 8 + lane % 4 + lane / 16 * 4;
            if (!TF32 || o < 12) to[o * WIDE + c * 9 + kx] = sums[i];
        }
    }
    static __device__ __forceinline__ float total(const float* from, int o, int tap, int c) {
        float sum = 0;
#pragma unroll
        for (int s = 0; s < SPLIT; s++) sum += from[(s * 12 + o) * WIDE + c * 9 + tap];
        return sum;
    }
};


// A block of layers of S x S pixels, IMG images of it.
template <int S_, int IMG_, int WARPS_, bool TF32_> struct BlockOf {
    static constexpr int S = S_, IMG = IMG_, WARPS = WARPS_, THREADS = WARPS * 32, AREA = S * S;
    static constexpr bool TF32 = TF32_;
    // Products run over strips of pixels of PX at a time; a plane is PXI of them.
    static constexpr int STRIPS = S == 32 ? 4 : 1, PX = IMG * AREA / STRIPS, PXI = AREA / STRIPS, STRIDE = row_stride<TF32>(PX), STRIP_ROWS = S / STRIPS;
    static constexpr int ROW = S + 4, PLANE = (S + 2) * ROW, CHANNELS = S == 32 ? 96 : S == 16 ? 192 : 384;
    static_assert(IMG == 1 || STRIPS == 1, "strips are of one image");
    typedef Product<48, PX, WARPS, TF32> Wide;
    typedef Product<12, IMG * AREA, WARPS, TF32> Narrow;
    typedef Product<24, PX, WARPS, TF32> Rest;
    typedef Plane<48, IMG, PXI, THREADS> Wide_;
    typedef Plane<12, IMG, AREA, THREADS> Narrow_;
    typedef Outer9<S, PX, PLANE, WARPS, TF32> Nine;
    // forward
    static constexpr int DEPTH = 24 * Wide::SPLIT;                   // channels brought at a time
    static constexpr int TOGETHER = STRIPS > 1 ? 8 : 48;             // planes of z brought at a time
    static constexpr int TILE = larger_of(larger_of(2 * DEPTH * STRIDE, Wide::SIZE), larger_of(Narrow::SIZE, Rest::SIZE));
    static constexpr int PLANES = (STRIPS > 1 ? 2 : 1) * TOGETHER * IMG * PLANE;
    static constexpr int RAW = 3 * CHANNELS + 2 * 3 * 48, TABLES = IMG * (5 * CHANNELS + 4 * 48) + RAW;
    static constexpr int FORWARD = TILE + PLANES + 2 * DEPTH * 56 + MIDDLE_FORWARD + TABLES;
    // backward: COLUMNS channels of a 1x1 convolution's input at a time, 48 for each warp of the same pixels
    static constexpr bool REST = PX == 256;
    static constexpr int GROUPS = Wide::SPLIT, COLUMNS = 48 * GROUPS, SHIFTED = 12 * IMG * PLANE, DZ = 48 * STRIDE;
    static constexpr int FIRST = STRIPS > 1 ? larger_of(SHIFTED, DZ) : SHIFTED + DZ;  // with strips one after the other
    static constexpr int PARTS = larger_of(larger_of(Nine::SIZE, 2 * COLUMNS * STRIDE), larger_of(Outer<COLUMNS, PX, WARPS, TF32>::SIZE, Outer<24, PX, WARPS, TF32>::SIZE));
    static constexpr int WEIGHTS = larger_of(MIDDLE_BACKWARD, COLUMNS * 56);
    static constexpr int BACKWARD = FIRST + PARTS + WEIGHTS + IMG * 6 * CHANNELS + CHANNELS + IMG * (4 * 48 + 48 + 3 * COLUMNS) + 48;

    const Run& run;
    const Block& at;
    int image, images, channels;
    float *values, *slice;  // slice: this block of threads' partial sums
    const float *point, *ready;
    __device__ __forceinline__ BlockOf(const Run& run, const Block& at) : run(run), at(at) {
        image = blockIdx.x * IMG, images = images_of(run), channels = at.width + GROWTH * at.layers;
        values = run.values, point = run.point + at.parameters, ready = run.prepared + at.prepared;
        slice = run.partial + at.partial + (long long)blockIdx.x * at.slice;
    }
    __device__ __forceinline__ bool there(int i) const { return IMG == 1 || image + i < images; }
    // A channel's plane in a tensor of `count` channels per image.
    __device__ __forceinline__ float* plane(long long tensor, int i, int count, int channel) const { return values + tensor + ((long long)(image + i) * count + channel) * AREA; }
    __device__ __forceinline__ float4 load(const float* from, int i) const { return there(i) ? load_global(from) : make_float4(0, 0, 0, 0); }

    // {gamma/root, beta, tau, 1/root} of `count` channels from parameters gamma, beta, tau; `roots` [image][stride].
    __device__ __forceinline__ void tabulate(float4* table, int stride, const float* p, int count, const float* roots, float* gammas) const {
        for (int i = threadIdx.x; i < IMG * count; i += THREADS) {
            const int c = i % count, k = i / count;
            const float root = roots[k * stride + c], gamma = p[c];
            table[k * stride + c] = make_float4(gamma * root, p[count + c], p[2 * count + c], root);
            if (gammas && k == 0) gammas[c] = gamma;
        }
    }
    // Four numbers into a bordered plane.
    static __device__ __forceinline__ void to_plane(float* plane, int pixel, const float4& v) {
        float* to = plane + (pixel / S + 1) * ROW + pixel % S + 1;
        to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
    }

    // Asks for part `chunk` of the `in` features from `channel` on of a strip, and for the weights of 48 rows.
    __device__ __forceinline__ void point_fetch(float4 (&v)[3], int chunk, int strip, int channel, int in, const float* weights, float* weight_buffer) const {
        constexpr int QUADS = PX / 4;
        const unsigned thread = this_thread();
#pragma unroll
        for (int i = 0; i < 3; i++) {
            const int c = chunk * DEPTH + thread / QUADS + i * (THREADS / QUADS), p = thread % QUADS * 4;
            v[i] = make_float4(0, 0, 0, 0);
            if (c < in) v[i] = load(plane(at.x, p / AREA, channels, channel + c) + strip * PX + p % AREA, p / AREA);
        }
        request<THREADS>(weight_buffer + chunk % 2 * DEPTH * 56, weights + chunk * DEPTH * 56, min(DEPTH, round8(in - chunk * DEPTH)) * 56);
    }
    // tile = these weights times FRN of those features, whose first part was asked for. Ends without a barrier.
    __device__ __forceinline__ void point_product(float4 (&v)[3], int strip, int channel, int in, const float* weights, const float4* table, float* tile, float* weight_buffer) const {
        constexpr int QUADS = PX / 4;
        static_assert(DEPTH * QUADS == 3 * THREADS, "three loads each");
        const Wide product;
        float sums[Wide::SUMS];
        const int chunks = (in + DEPTH - 1) / DEPTH;
        product.clear(sums);
        for (int chunk = 0; chunk < chunks; chunk++) {
            float* buffer = tile + chunk % 2 * DEPTH * STRIDE;
#pragma unroll
            for (int i = 0; i < 3; i++) {
                const int k = threadIdx.x / QUADS + i * (THREADS / QUADS), p = threadIdx.x % QUADS * 4, c = chunk * DEPTH + k;
                if (c < round8(in)) *reinterpret_cast<float4*>(buffer + k * STRIDE + p) = c < in ? normalized<TF32>(v[i], table[p / AREA * CHANNELS + c]) : make_float4(0, 0, 0, 0);
            }
            arrived();
            __syncthreads();
            if (chunk + 1 < chunks) point_fetch(v, chunk + 1, strip, channel, in, weights, weight_buffer);
            const int steps = min(DEPTH, round8(in - chunk * DEPTH)) / 8;
            const float* w = weight_buffer + chunk % 2 * DEPTH * 56;
            for (int s = product.split; s < steps; s += Wide::SPLIT) product.multiply(sums, w + s * 8 * 56, buffer + s * 8 * STRIDE);
        }
        __syncthreads();
        product.store(sums, tile);
    }

    __device__ __forceinline__ void forward(const Images* set, float* tile) const {
        float *planes = tile + TILE, *weight_buffer = planes + PLANES, *middle = weight_buffer + 2 * DEPTH * 56;
        float4 *table = reinterpret_cast<float4*>(middle + MIDDLE_FORWARD), *z_table = table + IMG * CHANNELS;
        float* roots = reinterpret_cast<float*>(z_table + IMG * 48);  // [image][CHANNELS]
        // gamma, beta, tau of a layer's first FRN, brought while the layer before is at work; of its second, for two layers in turn
        float *raw = roots + IMG * CHANNELS, *raw2 = raw + 3 * CHANNELS;
        for (int i = threadIdx.x; i < PLANES; i += THREADS) planes[i] = 0;
        int parameter = 0, prepared = 0;
        if constexpr (S == 32) {
            stem(*set, tile, planes, middle, roots);
            parameter = STEM, prepared = STEM_FORWARD;
        } else {
            for (int i = threadIdx.x; i < IMG * at.width; i += THREADS) {
                const int k = i / at.width, c = GROWTH * at.layers + i % at.width;
                roots[k * CHANNELS + c] = there(k) ? values[at.roots + (long long)(image + k) * channels + c] : 1.0f;
            }
        }
        request<THREADS>(raw, point + parameter, 3 * at.width);
        request<THREADS>(raw2, point + parameter + 51 * at.width, 3 * 48);
        arrived();
        __syncthreads();
#pragma unroll 1
        for (int l = 0; l < at.layers; l++) {
            const int in = at.width + GROWTH * l, first = GROWTH * (at.layers - l);
            float4 x[3];
            point_fetch(x, 0, 0, first, in, ready + prepared, weight_buffer);
            request<THREADS>(middle, ready + prepared + point_forward(in) + point_backward(in, REST), MIDDLE_FORWARD);
            tabulate(table, CHANNELS, raw, in, roots + first, nullptr);
            __syncthreads();
            const float *p2 = raw2 + l % 2 * (3 * 48), *after = point + parameter + layer_parameters(in);
            if (l + 1 < at.layers || at.next_channels) request<THREADS>(raw, after, 3 * (in + GROWTH));
            if (l + 1 < at.layers) request<THREADS>(raw2 + (l + 1) % 2 * (3 * 48), after + 51 * (in + GROWTH), 3 * 48);
            float* z = values + at.z + l * at.z_step;
            float part[Wide_::ITER];
#pragma unroll
            for (int i = 0; i < Wide_::ITER; i++) part[i] = 0;
#pragma unroll 1
            for (int strip = 0; strip < STRIPS; strip++) {
                point_product(x, strip, first, in, ready + prepared, table, tile, weight_buffer);
                __syncthreads();
                if (strip + 1 < STRIPS) point_fetch(x, 0, strip + 1, first, in, ready + prepared, weight_buffer);
                const unsigned thread = this_thread();
#pragma unroll
                for (int i = 0; i < Wide_::ITER; i++) {
                    const Wide_ own(i, thread);
                    if (!own.used) continue;
                    float4 v[Wide_::V];
#pragma unroll
                    for (int k = 0; k < Wide_::V; k++) {
                        v[k] = Wide::total(tile, own.row, own.image * PXI + own.pixel(k));
                        part[i] = square(v[k], part[i]);
                        if (there(own.image)) store_global(z + ((long long)(image + own.image) * 48 + own.row) * AREA + strip * PX + own.pixel(k), v[k]);
                    }
                    if (strip + 1 < STRIPS) continue;
                    const float root = 1.0f / sqrtf(Wide_::over_lanes(part[i]) / AREA + FRN_EPSILON);
                    const float4 frn = make_float4(p2[own.row] * root, p2[48 + own.row], p2[96 + own.row], root);
                    if (own.lane == 0) {
                        if (there(own.image)) values[at.z_roots + ((long long)l * at.batch + image + own.image) * 48 + own.row] = root;
                        z_table[own.image * 48 + own.row] = frn;
                    }
                    if constexpr (STRIPS == 1)
#pragma unroll
                        for (int k = 0; k < Wide_::V; k++) to_plane(planes + (own.image * 48 + own.row) * PLANE, own.pixel(k), normalized<TF32>(v[k], frn));
                }
                __syncthreads();
            }
            const Narrow product;
            float sums[Narrow::SUMS];
            product.clear(sums);
            if constexpr (STRIPS == 1) {
                product.template convolve<S, 48, PLANE>(sums, planes, middle, 0);
            } else {
                constexpr int LOADS = TOGETHER * AREA / 4 / THREADS;
                float4 v[LOADS];
                auto fetch = [&](int c) {
#pragma unroll
                    for (int i = 0; i < LOADS; i++) v[i] = load_global(z + ((long long)image * 48 + c) * AREA + (threadIdx.x + i * THREADS) * 4);
                };
                fetch(0);
#pragma unroll 1
                for (int c = 0; c < 48; c += TOGETHER) {
                    float* to = planes + c / TOGETHER % 2 * (TOGETHER * PLANE);
#pragma unroll
                    for (int i = 0; i < LOADS; i++) {
                        const int k = threadIdx.x / (AREA / 4) + i * (THREADS / (AREA / 4));
                        to_plane(to + k * PLANE, threadIdx.x % (AREA / 4) * 4, normalized<TF32>(v[i], z_table[c + k]));
                    }
                    __syncthreads();
                    if (c + TOGETHER < 48) fetch(c + TOGETHER);
                    product.template convolve<S, TOGETHER, PLANE>(sums, to, middle + c * 9 * 24, 0);
                }
            }
            product.store(sums, tile);
            __syncthreads();
            const unsigned thread = this_thread();
#pragma unroll
            for (int i = 0; i < Narrow_::ITER; i++) {
                const Narrow_ own(i, thread);
                if (!own.used) continue;
                const int c = first - GROWTH + own.row;
                float sum = 0;
#pragma unroll
                for (int k = 0; k < Narrow_::V; k++) {
                    const float4 v = Narrow::total(tile, own.row, own.image * AREA + own.pixel(k));
                    sum = square(v, sum);
                    if (there(own.image)) store_global(plane(at.x, own.image, channels, c) + own.pixel(k), v);
                }
                keep_root<Narrow_>(own, sum, roots, c);
            }
            arrived();
            __syncthreads();
            parameter += layer_parameters(in), prepared += layer_prepared(in, REST);
        }
        if (at.next_channels) transition(parameter, prepared, tile, weight_buffer, table, roots, raw);
    }
    template <class P> __device__ __forceinline__ void keep_root(const P& own, float sum, float* roots, int c) const {
        const float root = 1.0f / sqrtf(P::over_lanes(sum) / AREA + FRN_EPSILON);
        if (own.lane) return;
        roots[own.image * CHANNELS + c] = root;
        if (there(own.image)) values[at.roots + (long long)(image + own.image) * channels + c] = root;
    }
    // Eight planes of the picture, three of them in use.
    __device__ __forceinline__ void picture(const Images& set, float* planes, int count) const {
        const Visit visit = run.visits[run.steps[run.step].first_visit + image];
        for (int i = threadIdx.x; i < count * AREA; i += THREADS) {
            const int c = i / AREA, p = i % AREA;
            planes[c * PLANE + (p / S + 1) * ROW + p % S + 1] = c < 3 ? product_input<TF32>(placed_pixel(set, visit, 3, 32, 32, i)) : 0;
        }
    }
    __device__ __forceinline__ void stem(const Images& set, float* tile, float* planes, float* weights, float* roots) const {
        typedef Plane<24, 1, PXI, THREADS> Own;
        request<THREADS>(weights, ready, STEM_FORWARD);
        __syncthreads();
        picture(set, planes, 8);
        arrived();
        __syncthreads();
        const int first = GROWTH * at.layers;
        float part[Own::ITER];
#pragma unroll
        for (int i = 0; i < Own::ITER; i++) part[i] = 0;
#pragma unroll 1
        for (int strip = 0; strip < STRIPS; strip++) {
            const Rest product;
            float sums[Rest::SUMS];
            product.clear(sums);
            product.template convolve<S, TF32 ? 8 : 3, PLANE>(sums, planes, weights, strip * STRIP_ROWS);
            product.store(sums, tile);
            __syncthreads();
            const unsigned thread = this_thread();
#pragma unroll
            for (int i = 0; i < Own::ITER; i++) {
                const Own own(i, thread);
                if (!own.used) continue;
#pragma unroll
                for (int k = 0; k < Own::V; k++) {
                    const float4 v = Rest::total(tile, own.row, own.pixel(k));
                    part[i] = square(v, part[i]);
                    store_global(plane(at.x, 0, channels, first + own.row) + strip * PX + own.pixel(k), v);
                }
                if (strip + 1 == STRIPS) keep_root(own, part[i], roots, first + own.row);
            }
            __syncthreads();
        }
    }
    // FRN, 1x1 to half the channels, mean over 2 x 2 pixels.
    __device__ __forceinline__ void transition(int parameter, int prepared, float* tile, float* weight_buffer, float4* table, const float* roots, const float* raw) const {
        if constexpr (S > 4) {
            typedef Plane<48, IMG, PXI / 4, THREADS> Own;  // of the result
            constexpr int HALF = S / 2;
            float4 x[3];
            point_fetch(x, 0, 0, 0, channels, ready + prepared, weight_buffer);
            tabulate(table, CHANNELS, raw, channels, roots, nullptr);
            __syncthreads();
#pragma unroll 1
            for (int o = 0; o < channels / 2; o += 48) {
                float part[Own::ITER];
#pragma unroll
                for (int i = 0; i < Own::ITER; i++) part[i] = 0;
#pragma unroll 1
                for (int strip = 0; strip < STRIPS; strip++) {
                    const float* weights = ready + prepared + o / 48 * point_forward(channels);
                    point_product(x, strip, 0, channels, weights, table, tile, weight_buffer);
                    __syncthreads();
                    if (strip + 1 < STRIPS) point_fetch(x, 0, strip + 1, 0, channels, weights, weight_buffer);
                    else if (o + 48 < channels / 2) point_fetch(x, 0, 0, 0, channels, weights + point_forward(channels), weight_buffer);
                    const unsigned thread = this_thread();
#pragma unroll
                    for (int i = 0; i < Own::ITER; i++) {
                        const Own own(i, thread);
                        if (!own.used) continue;
                        const int c = at.next_first + o + own.row;
                        const long long to = (long long)(image + own.image) * at.next_channels + c;
#pragma unroll
                        for (int k = 0; k < Own::V; k++) {
                            const int p = own.pixel(k), from = own.image * PXI + p / HALF * 2 * S + p % HALF * 2;
                            const float4 a = Wide::total(tile, own.row, from), b = Wide::total(tile, own.row, from + 4);
                            const float4 d = Wide::total(tile, own.row, from + S), e = Wide::total(tile, own.row, from + S + 4);
                            const float4 v = make_float4((a.x + a.y + d.x + d.y) / 4, (a.z + a.w + d.z + d.w) / 4, (b.x + b.y + e.x + e.y) / 4, (b.z + b.w + e.z + e.w) / 4);
                            part[i] = square(v, part[i]);
                            if (there(own.image)) store_global(values + at.next_x + to * (AREA / 4) + strip * (PXI / 4) + p, v);
                        }
                        if (strip + 1 < STRIPS) continue;
                        const float root = 1.0f / sqrtf(Own::over_lanes(part[i]) / (AREA / 4) + FRN_EPSILON);
                        if (own.lane == 0 && there(own.image)) values[at.next_roots + to] = root;
                    }
                    __syncthreads();
                }
            }
        }
    }

    // ---- backward ----------------------------------------------------------------------------------------------------------

    struct Back {
        float *shifted, *dz, *u, *tile, *parts, *weights, *sums, *roots, *gammas, *z_gammas, *z_means, *frn_sums;
        float4 *table, *z_table;
        __device__ __forceinline__ Back(float* shared) {
            shifted = shared, dz = STRIPS > 1 ? shared : shared + SHIFTED, parts = shared + FIRST, u = parts, tile = u + COLUMNS * STRIDE, weights = parts + PARTS;
            table = reinterpret_cast<float4*>(weights + WEIGHTS), z_table = table + IMG * CHANNELS;
            roots = reinterpret_cast<float*>(z_table + IMG * 48), sums = roots + IMG * CHANNELS, gammas = sums + IMG * CHANNELS;
            z_means = gammas + CHANNELS, frn_sums = z_means + IMG * 48, z_gammas = frn_sums + 3 * IMG * COLUMNS;
        }
    };
    static __device__ __forceinline__ float4 without_mean(const float4& g, const float4& v, float root, float mean) {
        return make_float4(product_input<TF32>(root * (g.x - v.x * mean)), product_input<TF32>(root * (g.y - v.y * mean)),
                           product_input<TF32>(root * (g.z - v.z * mean)), product_input<TF32>(root * (g.w - v.w * mean)));
    }
    // The gradient at the features c, V times four pixels of it: through the normalization, all FRNs at once.
    template <class P> __device__ __forceinline__ void through(const Back& to, const P& own, int c, int begin, float4* d) const {
        float4 x[P::V];
#pragma unroll
        for (int k = 0; k < P::V; k++) {
            d[k] = load(plane(at.g, own.image, channels, c) + begin + own.pixel(k), own.image);
            x[k] = load(plane(at.x, own.image, channels, c) + begin + own.pixel(k), own.image);
        }
        without_means(to, own, c, d, x);
    }
    template <class P> __device__ __forceinline__ void without_means(const Back& to, const P& own, int c, float4* d, const float4* x) const {
        const float root = to.roots[own.image * CHANNELS + c], mean = to.sums[own.image * CHANNELS + c] / AREA * root;
#pragma unroll
        for (int k = 0; k < P::V; k++) d[k] = without_mean(d[k], x[k], root, mean);
    }

    // Sums of gamma, beta and tau of a plane over its lanes, to `frn_sums` [3][IMG][COLUMNS].
    template <class P> __device__ __forceinline__ float keep_sums(const P& own, const float* part, float* frn_sums) const {
        const float dgamma = P::over_lanes(part[0]), dbeta = P::over_lanes(part[1]), dtau = P::over_lanes(part[2]);
        if (own.lane == 0) {
            float* to = frn_sums + own.image * COLUMNS + own.row;
            to[0] = dgamma, to[IMG * COLUMNS] = dbeta, to[2 * IMG * COLUMNS] = dtau;
        }
        return dgamma;
    }
    // One number through threshold and scale: returns the gradient at the normalized value, adds to the sums.
    static __device__ __forceinline__ float through_threshold(float d, float v, const float4& frn, float gamma, float* part) {
        const float out = fmaf(frn.x, v, frn.y), share = out > frn.z ? 1.0f : out < frn.z ? 0.0f : 0.5f, passed = share * d;
        part[0] = fmaf(passed, v * frn.w, part[0]);
        part[1] += passed;
        part[2] = fmaf(1.0f - share, d, part[2]);
        return gamma * passed;
    }
    static __device__ __forceinline__ float4 through_threshold(const float4& d, const float4& v, const float4& frn, float gamma, float* part) {
        float4 r;
        r.x = through_threshold(d.x, v.x, frn, gamma, part), r.y = through_threshold(d.y, v.y, frn, gamma, part);
        r.z = through_threshold(d.z, v.z, frn, gamma, part), r.w = through_threshold(d.w, v.w, frn, gamma, part);
        return r;
    }

    // A 1x1 convolution with FRN before it, 48 outputs: adds to the gradient at the normalized features and writes (or adds)
    // the gradients of FRN and weights. `bring(strip)` puts the gradient of the outputs into `dz`. ROWS channels from c0 on,
    // whose weights were requested before; `next` requests those that follow.
    template <int ROWS, class B, class N> __device__ __forceinline__ void point_part(const Back& to, int channel, int in, int c0, float* frn_gradient, float* weight_gradient, bool write, bool again, B bring, N next) const {
        constexpr bool NARROW = ROWS == 24;
        typedef Product<NARROW ? 24 : 48, PX, WARPS, TF32> P;
        typedef Plane<ROWS, IMG, PXI, THREADS> Own;
        typedef Outer<ROWS, PX, WARPS, TF32> O;
        const int count = min(ROWS, in - c0);
        float outer[O::SUMS], part[Own::ITER][3];
#pragma unroll
        for (int i = 0; i < O::SUMS; i++) outer[i] = 0;
#pragma unroll
        for (int i = 0; i < Own::ITER; i++) part[i][0] = part[i][1] = part[i][2] = 0;
#pragma unroll 1
        for (int strip = 0; strip < STRIPS; strip++) {
            if (strip) __syncthreads();
            const unsigned thread = this_thread();
            // features to `u`, where the threads that brought them normalize them
            float4 g[Own::ITER][Own::V];
            auto place = [&](const Own& own, int k) { return ((long long)(image + own.image) * channels + channel + c0 + own.row) * AREA + strip * PX + own.pixel(k); };
#pragma unroll
            for (int i = 0; i < Own::ITER; i++) {
                const Own own(i, thread);
#pragma unroll
                for (int k = 0; k < Own::V; k++) {
                    if (!own.used) continue;
                    float* x = to.u + own.row * STRIDE + own.image * PXI + own.pixel(k);
                    if (own.row < count && there(own.image)) request4(x, values + at.x + place(own, k));
                    else *reinterpret_cast<float4*>(x) = make_float4(0, 0, 0, 0);
                }
            }
            group_ends();
            if (STRIPS > 1 || c0 == 0) bring(strip);
            // what there is of the gradient, to registers
#pragma unroll
            for (int i = 0; i < Own::ITER; i++) {
                const Own own(i, thread);
#pragma unroll
                for (int k = 0; k < Own::V; k++) {
                    g[i][k] = make_float4(0, 0, 0, 0);
                    if (!write && own.used && own.row < count && there(own.image)) g[i][k] = load_global(values + at.g + place(own, k));
                }
            }
            all_but_last();
            if (STRIPS > 1 || strip == 0) __syncthreads();
            {
                const P product;
                float sums[P::SUMS];
                product.clear(sums);
                if constexpr (NARROW) {
#pragma unroll 1
                    for (int s = product.split; s < 6; s += P::SPLIT) product.multiply(sums, to.weights + s * 8 * P::WIDE, to.dz + s * 8 * STRIDE);
                } else if (GROUPS == 1 || product.split * 48 < count) {
#pragma unroll 1
                    for (int s = 0; s < 6; s++) product.multiply(sums, to.weights + (product.split * 6 + s) * 8 * P::WIDE, to.dz + s * 8 * STRIDE);
                }
                product.store(sums, to.tile);
            }
            arrived();
            __syncthreads();
            if (strip + 1 == STRIPS) next();
            const unsigned same = this_thread();
#pragma unroll
            for (int i = 0; i < Own::ITER; i++) {
                const Own own(i, same);
                if (!own.used) continue;
                const bool real = own.row < count;
                const float4 frn = real ? to.table[own.image * CHANNELS + c0 + own.row] : make_float4(0, 0, 0, 0);
                const float gamma = real ? to.gammas[c0 + own.row] : 0;
#pragma unroll
                for (int k = 0; k < Own::V; k++) {
                    const int p = own.image * PXI + own.pixel(k);
                    const float4 d = NARROW ? P::total(to.tile, own.row, p) : load4(to.tile + own.row * STRIDE + p);
                    float* u = to.u + own.row * STRIDE + p;
                    const float4 x = load4(u), add = through_threshold(d, x, frn, gamma, part[i]);
                    *reinterpret_cast<float4*>(u) = normalized<TF32>(x, frn);
                    if (real && there(own.image))
                        store_global(plane(at.g, own.image, channels, channel + c0 + own.row) + strip * PX + own.pixel(k), make_float4(g[i][k].x + add.x, g[i][k].y + add.y, g[i][k].z + add.z, g[i][k].w + add.w));
                }
                if (strip + 1 == STRIPS) {
                    const float dgamma = keep_sums(own, part[i], to.frn_sums);
                    if (own.lane == 0 && real) to.sums[own.image * CHANNELS + channel + c0 + own.row] += gamma * dgamma;
                }
            }
            __syncthreads();
            O::add(outer, to.dz, to.u);
        }
        for (int i = threadIdx.x; i < 3 * ROWS; i += THREADS) {
            const int k = i / ROWS, c = i % ROWS;
            if (c >= count) continue;
            float sum = 0;
            for (int j = 0; j < IMG; j++) sum += to.frn_sums[(k * IMG + j) * COLUMNS + c];
            float* gradient = frn_gradient + k * in + c0 + c;
            *gradient = again ? *gradient + sum : sum;
        }
        __syncthreads();
        O::store(outer, to.parts);
        __syncthreads();
        for (int i = threadIdx.x; i < 48 * ROWS; i += THREADS) {
            const int o = i / ROWS, c = i % ROWS;
            if (c < count) weight_gradient[o * in + c0 + c] = O::total(to.parts, o, c);
        }
        __syncthreads();
    }
    // Requests the weights of the channels from c on.
    __device__ __forceinline__ void get(const Back& to, const float* weights, int in, int c) const {
        const int wide = wide_channels(in, REST);
        if (c < wide) request<THREADS>(to.weights, weights + c * 56, min(COLUMNS, wide - c) * 56);
        else if (REST && c < in) request<THREADS>(to.weights, weights + wide * 56, 48 * 40);
        group_ends();
    }
    template <class B> __device__ __forceinline__ void point_back(const Back& to, int channel, int in, const float* weights, float* frn_gradient, float* weight_gradient, bool write, bool again, B bring) const {
        const int wide = wide_channels(in, REST);
#pragma unroll 1
        for (int c = 0; c < wide; c += COLUMNS) point_part<COLUMNS>(to, channel, in, c, frn_gradient, weight_gradient, write, again, bring, [&] { get(to, weights, in, c + COLUMNS); });
        if constexpr (REST)
            if (in > wide) point_part<24>(to, channel, in, wide, frn_gradient, weight_gradient, write, again, bring, [] {});
    }

    // The sums of `Nine` to the weights of a 3x3 convolution. `place(o, c, tap)` says where, -1 for nowhere.
    template <class F> __device__ __forceinline__ void keep_nine(const Back& to, const float* nine, float* gradient, F place) const {
        __syncthreads();
        Nine::store(nine, to.parts);
        __syncthreads();
        for (int i = threadIdx.x; i < 12 * 48 * 9; i += THREADS) {
            const int tap = i % 9, c = i / 9 % 48, o = i / (9 * 48), k = place(o, c, tap);
            if (k >= 0) gradient[k] = Nine::total(to.parts, o, tap, c);
        }
        __syncthreads();
    }

    // The gradient at 48 outputs of the transition, from `o` on: what the next block has there, through its normalization, and
    // back from the mean over 2 x 2 pixels.
    __device__ __forceinline__ void bring_pooled(const Back& to, int o, int strip) const {
        const unsigned thread = this_thread();
#pragma unroll
        for (int i = 0; i < Wide_::ITER; i++) {
            const Wide_ own(i, thread);
            if (!own.used) continue;
            const long long c = (long long)(image + own.image) * at.next_channels + at.next_first + o + own.row;
            const float root = there(own.image) ? values[at.next_roots + c] : 0, mean = there(own.image) ? values[at.next_sums + c] / (AREA / 4) * root : 0;
#pragma unroll
            for (int k = 0; k < Wide_::V; k++) {
                const int p = strip * PX + own.pixel(k), from = p / S / 2 * (S / 2) + p % S / 2;
                float2 g = make_float2(0, 0), x = g;
                if (there(own.image)) g = load2(values + at.next_g + c * (AREA / 4) + from), x = load2(values + at.next_x + c * (AREA / 4) + from);
                const float a = product_input<TF32>(root * (g.x - x.x * mean) / 4), b = product_input<TF32>(root * (g.y - x.y * mean) / 4);
                *reinterpret_cast<float4*>(to.dz + own.row * STRIDE + own.image * PXI + own.pixel(k)) = make_float4(a, a, b, b);
            }
        }
    }
    // The gradient at the middle of a layer, through the normalization of FRN 2, where it had to wait in memory.
    __device__ __forceinline__ void bring_middle(const Back& to, const float* z, int strip) const {
        const unsigned thread = this_thread();
#pragma unroll
        for (int half = 0; half < Wide_::V; half++) {
            float4 g[Wide_::ITER], v[Wide_::ITER];
#pragma unroll
            for (int i = 0; i < Wide_::ITER; i++) {
                const long long from = ((long long)image * 48 + Wide_(i, thread).row) * AREA + strip * PX + Wide_(i, thread).pixel(half);
                g[i] = load_global(values + at.dz + from), v[i] = load_global(z + from);
            }
#pragma unroll
            for (int i = 0; i < Wide_::ITER; i++) {
                const Wide_ own(i, thread);
                const float root = to.z_table[own.row].w;
                *reinterpret_cast<float4*>(to.dz + own.row * STRIDE + own.pixel(half)) = without_mean(g[i], v[i], root, to.z_means[own.row] * root);
            }
        }
    }
    // Requests a strip of z; the threads that requested it normalize it.
    __device__ __forceinline__ void get_middle(float* to, const float* z, int strip) const {
        const unsigned thread = this_thread();
#pragma unroll
        for (int i = 0; i < Wide_::ITER; i++)
#pragma unroll
            for (int k = 0; k < Wide_::V; k++) request4(to + Wide_(i, thread).row * STRIDE + Wide_(i, thread).pixel(k), z + ((long long)image * 48 + Wide_(i, thread).row) * AREA + strip * PX + Wide_(i, thread).pixel(k));
    }
    // A layer from its output back to threshold and scale of FRN 2, whose result goes to `dz` in memory; the gradients of FRN 2
    // and of the 3x3 convolution.
    __device__ __forceinline__ void layer_back(const Back& to, int l, int in, int first, int parameter, int prepared, const float* z) const {
        unsigned thread = this_thread();
        const float *p = point + parameter, *p2 = p + 51 * in;
        float *gradient = slice + parameter, *gradient2 = gradient + 51 * in;
        const int forward = point_forward(in), both = forward + point_backward(in, REST);
        request<THREADS>(to.weights, ready + prepared + both + MIDDLE_FORWARD, MIDDLE_BACKWARD);
        // what is read first is asked for at once: the gradient of the layer's output, and FRN 2. With strips the former waits:
        // held so early it costs registers (measured, f32: 1.29 instead of 1.16 ms for the first block)
        static_assert(Narrow_::ITER == 1 && IMG * 48 <= THREADS, "one each");
        const Narrow_ own(0, thread);
        float4 d[Narrow_::V], x[Narrow_::V];
        if (STRIPS == 1 && own.used) {
#pragma unroll
            for (int k = 0; k < Narrow_::V; k++) {
                d[k] = load(plane(at.g, own.image, channels, first - GROWTH + own.row) + own.pixel(k), own.image);
                x[k] = load(plane(at.x, own.image, channels, first - GROWTH + own.row) + own.pixel(k), own.image);
            }
        }
        float z_frn[3] = {0, 0, 0}, z_root = 1;
        if (threadIdx.x < IMG * 48) {
            const int c = threadIdx.x % 48, k = threadIdx.x / 48;
#pragma unroll
            for (int i = 0; i < 3; i++) z_frn[i] = __ldg(p2 + 48 * i + c);
            if (there(k)) z_root = values[at.z_roots + ((long long)l * at.batch + image + k) * 48 + c];
        }
        tabulate(to.table, CHANNELS, p, in, to.roots + first, to.gammas);
        if (threadIdx.x < IMG * 48) {
            to.z_table[threadIdx.x] = make_float4(z_frn[0] * z_root, z_frn[1], z_frn[2], z_root);
            if (threadIdx.x < 48) to.z_gammas[threadIdx.x] = z_frn[0];
        }
        if constexpr (STRIPS > 1) {
            for (int i = threadIdx.x; i < SHIFTED; i += THREADS) to.shifted[i] = 0;
            __syncthreads();
        }
        if (own.used) {
            if (STRIPS == 1) without_means(to, own, first - GROWTH + own.row, d, x);
            else through(to, own, first - GROWTH + own.row, 0, d);
#pragma unroll
            for (int k = 0; k < Narrow_::V; k++) to_plane(to.shifted + (own.image * 12 + own.row) * PLANE, own.pixel(k), d[k]);
        }
        arrived();
        __syncthreads();
        if constexpr (STRIPS > 1) get_middle(to.u, z, 0);
        // the 3x3 convolution's input, through threshold and scale of FRN 2
        float part[Wide_::ITER][3];
#pragma unroll
        for (int i = 0; i < Wide_::ITER; i++) part[i][0] = part[i][1] = part[i][2] = 0;
#pragma unroll 1
        for (int strip = 0; strip < STRIPS; strip++) {
            float4 v[Wide_::ITER][Wide_::V];
            thread = this_thread();
#pragma unroll
            for (int i = 0; i < Wide_::ITER; i++) {
                const Wide_ own(i, thread);
#pragma unroll
                for (int k = 0; k < Wide_::V; k++)
                    if (own.used) v[i][k] = load(z + ((long long)(image + own.image) * 48 + own.row) * AREA + strip * PX + own.pixel(k), own.image);
            }
            const Wide product;
            float sums[Wide::SUMS];
            product.clear(sums);
            product.template convolve<S, 12, PLANE>(sums, to.shifted, to.weights, strip * STRIP_ROWS);
            if (strip) __syncthreads();
            product.store(sums, to.tile);
            __syncthreads();
#pragma unroll
            for (int i = 0; i < Wide_::ITER; i++) {
                const Wide_ own(i, thread);
                if (!own.used) continue;
                const float4 frn = to.z_table[own.image * 48 + own.row];
                const float gamma = to.z_gammas[own.row];
                float4 g[Wide_::V];
#pragma unroll
                for (int k = 0; k < Wide_::V; k++) {
                    const int px = own.image * PXI + own.pixel(k);
                    g[k] = through_threshold(Wide::total(to.tile, own.row, px), v[i][k], frn, gamma, part[i]);
                    if (STRIPS > 1) store_global(values + at.dz + ((long long)image * 48 + own.row) * AREA + strip * PX + own.pixel(k), g[k]);
                    else *reinterpret_cast<float4*>(to.u + own.row * STRIDE + px) = normalized<TF32>(v[i][k], frn);
                }
                if (strip + 1 < STRIPS) continue;
                const float mean = gamma * keep_sums(own, part[i], to.frn_sums) / AREA;
                if constexpr (STRIPS > 1) {
                    if (own.lane == 0) to.z_means[own.row] = mean;
                } else {
#pragma unroll
                    for (int k = 0; k < Wide_::V; k++)
                        *reinterpret_cast<float4*>(to.dz + own.row * STRIDE + own.image * PXI + own.pixel(k)) = without_mean(g[k], v[i][k], frn.w, mean * frn.w);
                }
            }
        }
        __syncthreads();
        get(to, ready + prepared + forward, in, 0);
        if (threadIdx.x < 3 * 48) {
            float sum = 0;
            for (int j = 0; j < IMG; j++) sum += to.frn_sums[(threadIdx.x / 48 * IMG + j) * COLUMNS + threadIdx.x % 48];
            gradient2[threadIdx.x] = sum;
        }
        // its weights; with strips, FRN 2 is formed again, from two buffers in turn
        {
            float nine[Nine::SUMS];
#pragma unroll
            for (int i = 0; i < Nine::SUMS; i++) nine[i] = 0;
            if constexpr (STRIPS == 1) {
                Nine::add(nine, to.shifted, to.u, 0);
            } else {
#pragma unroll 1
                for (int strip = 0; strip < STRIPS; strip++) {
                    float* u = strip % 2 ? to.tile : to.u;
                    thread = this_thread();
                    arrived();
#pragma unroll
                    for (int i = 0; i < Wide_::ITER; i++)
#pragma unroll
                        for (int k = 0; k < Wide_::V; k++) {
                            float* v = u + Wide_(i, thread).row * STRIDE + Wide_(i, thread).pixel(k);
                            *reinterpret_cast<float4*>(v) = normalized<TF32>(load4(v), to.z_table[Wide_(i, thread).row]);
                        }
                    __syncthreads();
                    if (strip + 1 < STRIPS) get_middle(strip % 2 ? to.u : to.tile, z, strip + 1);
                    Nine::add(nine, to.shifted, u, strip * STRIP_ROWS);
                }
            }
            keep_nine(to, nine, gradient2 + 3 * 48, [](int o, int c, int tap) { return (o * 48 + c) * 9 + 8 - tap; });
        }
    }

    __device__ __forceinline__ void backward(const Images* set, float* shared) const {
        const Back to(shared);
        for (int i = threadIdx.x; i < IMG * channels; i += THREADS) {
            const int k = i / channels, c = i % channels;
            to.roots[k * CHANNELS + c] = there(k) ? values[at.roots + (long long)(image + k) * channels + c] : 1.0f;
            to.sums[k * CHANNELS + c] = at.next_channels || !there(k) ? 0.0f : values[at.sums + (long long)(image + k) * channels + c];
        }
        int parameter = S == 32 ? STEM : 0, prepared = S == 32 ? STEM_FORWARD : 0;
        for (int l = 0; l < at.layers; l++) parameter += layer_parameters(at.width + GROWTH * l), prepared += layer_prepared(at.width + GROWTH * l, REST);
        if constexpr (STRIPS == 1)
            for (int i = threadIdx.x; i < SHIFTED; i += THREADS) to.shifted[i] = 0;
        __syncthreads();
        // The transition's outputs come 48 at a time, each like a layer without its 3x3 convolution; then the layers.
        const int parts = S > 4 && at.next_channels ? channels / 96 : 0;
        const float* const pooled_weights = ready + prepared + parts * point_forward(channels);
        if (parts) tabulate(to.table, CHANNELS, point + parameter, channels, to.roots, to.gammas);
#pragma unroll 1
        for (int l = at.layers - 1 + parts; l >= 0; l--) {
            const bool pooled = l >= at.layers;
            const int part_of = at.layers - 1 + parts - l, in = pooled ? channels : at.width + GROWTH * l, first = pooled ? 0 : GROWTH * (at.layers - l);
            const float* z = values + at.z + l * at.z_step;
            if (!pooled) {
                parameter -= layer_parameters(in), prepared -= layer_prepared(in, REST);
                layer_back(to, l, in, first, parameter, prepared, z);
            }
            // the 1x1 convolution; its output's gradient passes the normalization of FRN 2 on the way
            auto bring = [&](int strip) {
                if (pooled) bring_pooled(to, part_of * 48, strip);
                else if (STRIPS > 1) bring_middle(to, z, strip);
            };
            float* const frn_gradient = slice + parameter;
            const float* const weights = pooled ? pooled_weights + part_of * point_backward(channels, REST) : ready + prepared + point_forward(in);
            if (pooled) get(to, weights, in, 0);
            point_back(to, first, in, weights, frn_gradient, frn_gradient + 3 * in + part_of * pooled * 48 * in, pooled && part_of == 0, pooled && part_of > 0, bring);
        }
        if constexpr (S == 32) {
            // the stem: planes of the picture, shifted, times the gradient of its output
            for (int i = threadIdx.x; i < SHIFTED; i += THREADS) to.shifted[i] = 0;
            for (int i = threadIdx.x; i < 48 * STRIDE; i += THREADS) to.u[i] = 0;
            __syncthreads();
            picture(*set, to.shifted, 3);
            typedef Plane<24, 1, PXI, THREADS> Own;
            float nine[Nine::SUMS];
#pragma unroll
            for (int i = 0; i < Nine::SUMS; i++) nine[i] = 0;
#pragma unroll 1
            for (int strip = 0; strip < STRIPS; strip++) {
                if (strip) __syncthreads();
                const unsigned thread = this_thread();
#pragma unroll
                for (int i = 0; i < Own::ITER; i++) {
                    const Own own(i, thread);
                    if (!own.used) continue;
                    float4 d[Own::V];
                    through(to, own, GROWTH * at.layers + own.row, strip * PX, d);
#pragma unroll
                    for (int k = 0; k < Own::V; k++) *reinterpret_cast<float4*>(to.u + own.row * STRIDE + own.pixel(k)) = d[k];
                }
                __syncthreads();
                Nine::add(nine, to.shifted, to.u, strip * STRIP_ROWS);
            }
            keep_nine(to, nine, slice, [](int o, int c, int tap) { return o < 3 && c < 24 ? (c * 3 + o) * 9 + tap : -1; });
        } else {
            for (int i = threadIdx.x; i < IMG * channels; i += THREADS) {
                const int k = i / channels, c = i % channels;
                if (there(k)) values[at.sums + (long long)(image + k) * channels + c] = to.sums[k * CHANNELS + c];
            }
        }
    }
};

// Grid (groups of IMG images, 1, run).
template <int S, int IMG, int WARPS, bool TF32, bool BACKWARD> __device__ __forceinline__ void block(const Run* runs, const Images* set, const Block& at) {
    const Run& run = runs[blockIdx.z];
    if ((int)blockIdx.x * IMG >= images_of(run)) return;
    DYNAMIC_SHARED(float, shared);
    const BlockOf<S, IMG, WARPS, TF32> here(run, at);
    if (BACKWARD) here.backward(set, shared);
    else here.forward(set, shared);
}
}  // namespace dense

extern "C" __global__ void dense_prepare_f32(const Run* runs, const dense::Prepare* table) { dense::prepare<false>(runs, table); }
extern "C" __global__ void dense_prepare_tf32(const Run* runs, const dense::Prepare* table) { dense::prepare<true>(runs, table); }
#define DENSE_BLOCK(number, S, IMG, WARPS)                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(WARPS * 32, 1) dense##number##_forward_f32(const Run* r, Images set, dense::Block at) { dense::block<S, IMG, WARPS, false, false>(r, &set, at); }   \
    extern "C" __global__ void __launch_bounds__(WARPS * 32, 1) dense##number##_forward_tf32(const Run* r, Images set, dense::Block at) { dense::block<S, IMG, WARPS, true, false>(r, &set, at); }   \
    extern "C" __global__ void __launch_bounds__(WARPS * 32, 1) dense##number##_backward_f32(const Run* r, Images set, dense::Block at) { dense::block<S, IMG, WARPS, false, true>(r, &set, at); }   \
    extern "C" __global__ void __launch_bounds__(WARPS * 32, 1) dense##number##_backward_tf32(const Run* r, Images set, dense::Block at) { dense::block<S, IMG, WARPS, true, true>(r, &set, at); }
DENSE_BLOCK(1, 32, 1, 16)
DENSE_BLOCK(2, 16, 1, 16)
DENSE_BLOCK(3, 8, 1, 16)
DENSE_BLOCK(4, 4, 4, 16)

// Last FRN, ReLU, mean over the 16 pixels, dropout, dense layer, loss and back to the gradient at the normalized features:
// grid (image, 1, run), 512 threads. `features` and `delta` are kept for `dense_head_gradients`. With `predict` it ends at the
// logits. `partial`: gamma, beta, tau per image.
struct DenseHead { int channels, classes, frn, weight, layer, predict; unsigned threshold; float factor; long long x, g, roots, sums, features, delta, loss, correct, logits, partial; };
constexpr int HEAD_THREADS = 512;
extern "C" __global__ void __launch_bounds__(HEAD_THREADS) dense_head(const Run* runs, Images set, DenseHead head) {
    constexpr int AREA = 16;
    const Run& run = runs[blockIdx.z];
    const int images = images_of(run), image = blockIdx.x, thread = threadIdx.x, C = head.channels, classes = head.classes, lane = thread % 32;
    if (image >= images) return;
    DYNAMIC_SHARED(float, mean);  // [C], logits [classes], delta [classes]
    float *logits = mean + C, *delta = logits + classes;
    const float *x = run.values + head.x + (long long)image * C * AREA, *roots = run.values + head.roots + (long long)image * C, *p = run.point + head.frn;
    const Step& step = run.steps[run.step];
    const unsigned key = dropout_key(step.dropout_seed, head.layer, step.first_image + image);
    for (int c = thread; c < C; c += HEAD_THREADS) {
        const float scale = p[c] * roots[c], beta = p[C + c], tau = p[2 * C + c];
        float sum = 0;
        for (int i = 0; i < AREA; i += 4) {
            const float4 v = load_global(x + c * AREA + i);
            sum += larger(larger(fmaf(scale, v.x, beta), tau), 0) + larger(larger(fmaf(scale, v.y, beta), tau), 0);
            sum += larger(larger(fmaf(scale, v.z, beta), tau), 0) + larger(larger(fmaf(scale, v.w, beta), tau), 0);
        }
        mean[c] = sum / AREA * (dropout_bits(key, c) < head.threshold ? 0.0f : head.factor);
        run.values[head.features + (long long)image * C + c] = mean[c];
    }
    __syncthreads();
    const float *weight = run.point + head.weight, *bias = weight + classes * C;
    for (int o = thread / 32; o < classes; o += HEAD_THREADS / 32) {
        float value = 0;
#pragma unroll 12
        for (int c = lane; c < C; c += 32) value = fmaf(weight[o * C + c], mean[c], value);
        for (int m = 16; m; m >>= 1) value += __shfl_xor_sync(ALL_LANES, value, m);
        if (lane == 0) logits[o] = value + bias[o], run.values[head.logits + (long long)image * classes + o] = logits[o];
    }
    if (head.predict) return;
    __syncthreads();
    if (thread < 32) {
        const int label = label_of(run, set, image);
        float lost, correct;
        cross_entropy(logits, classes, label, images, delta, &lost, &correct);
        if (thread == 0) run.values[head.loss + image] = lost, run.values[head.correct + image] = correct;
    }
    __syncthreads();
    for (int o = thread; o < classes; o += HEAD_THREADS) run.values[head.delta + (long long)image * classes + o] = delta[o];
    float *g = run.values + head.g + (long long)image * C * AREA, *partial = run.partial + head.partial + (long long)image * 3 * C;
    for (int c = thread; c < C; c += HEAD_THREADS) {
        float d = 0;
#pragma unroll 25
        for (int o = 0; o < classes; o++) d = fmaf(delta[o], weight[o * C + c], d);
        d *= (dropout_bits(key, c) < head.threshold ? 0.0f : head.factor) / AREA;
        const float gamma = p[c], scale = gamma * roots[c], beta = p[C + c], tau = p[2 * C + c];
        float dgamma = 0, dbeta = 0, dtau = 0;
        for (int i = 0; i < AREA; i += 4) {
            const float4 v = load_global(x + c * AREA + i);
            const float in[4] = {v.x, v.y, v.z, v.w};
            float out[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float y = fmaf(scale, in[j], beta), share = y > tau ? 1.0f : y < tau ? 0.0f : 0.5f;
                const float passes = larger(y, tau) > 0 ? d : 0.0f, passed = share * passes;
                dgamma = fmaf(passed, in[j] * roots[c], dgamma), dbeta += passed, dtau = fmaf(1.0f - share, passes, dtau);
                out[j] = gamma * passed;
            }
            store_global(g + c * AREA + i, make_float4(out[0], out[1], out[2], out[3]));
        }
        run.values[head.sums + (long long)image * C + c] = gamma * dgamma;
        partial[c] = dgamma, partial[C + c] = dbeta, partial[2 * C + c] = dtau;
    }
}
// Gradient of the dense layer, the images in their order: grid (classes * (channels + 1) / 256, 1, run), 256 threads.
extern "C" __global__ void __launch_bounds__(256) dense_head_gradients(const Run* runs, DenseHead head) {
    const Run& run = runs[blockIdx.z];
    const int images = images_of(run), i = blockIdx.x * 256 + threadIdx.x, C = head.channels;
    if (images == 0 || i >= head.classes * (C + 1)) return;
    const bool bias = i >= head.classes * C;
    const float *delta = run.values + head.delta + (bias ? i - head.classes * C : i / C), *feature = run.values + head.features + i % C;
    float sum = 0;
#pragma unroll 32
    for (int n = 0; n < images; n++) sum = fmaf(delta[n * head.classes], bias ? 1.0f : feature[n * C], sum);
    store_gradient(run, head.weight + i, sum);
}
