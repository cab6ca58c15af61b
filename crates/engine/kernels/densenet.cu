// DenseNet with filter response normalization (growth 12, 48 channels in the middle of a layer): a block of layers with the
// transition after it is one kernel forward and one backward. A block of threads has one image (two where planes are 8 x 8, four where they are 4 x 4)
// and goes through all layers; the features stay in L2 or memory, since the first block's would not fit on the chip.
//
// Features of a block are one tensor [image, channel, row, column], the newest channels first: a layer reads the end of it.
// FRN stands in the load of the convolution after it; the root of a channel's mean square is computed once and serves all
// FRNs that read the channel. Backward, the gradients of all FRNs over a channel are summed at the normalized channel, and
// pass the normalization together when the layer that made the channel is reached: it is linear. What it needs, the mean of
// gradient times normalized value, is the sum of gamma times gamma's gradient over those FRNs.
//
// Products are mma's (Factors: one for TF32, three for f32), tiles of [rows][pixels] (Product). They end in shared memory, and
// what follows (sums over a plane, thresholds, pools) is done by lanes that share a plane (Plane). Only the input gradient of a
// 1x1 convolution passes FRN in the registers that hold its sums (through_point), and where no warps share a sum, a layer's 1x1
// convolution forward (middle_held) and its 3x3 convolution's input gradient (middle_back).
#include "common.cuh"

namespace dense {
constexpr int GROWTH = 12, MIDDLE = 48;

// One block of layers. Offsets count floats: of `x` [batch][channels * S*S] features (`feature`), `g` the gradient at the normalized
// features, alike; `z` [layer][batch][48 * S*S] what FRN 2 reads (`z_step` from layer to layer; 0 if nothing is kept for
// backward), `dz` [batch][48 * S*S]; `roots` [batch][channels] and `z_roots` [layer][batch][48] 1/sqrt(mean square); `sums`
// [batch][channels] the sum of gamma times its gradient over the FRNs of a channel; `partial` one slice of `slice` numbers,
// in the order of the parameters, per block of threads. `next_*` are those of the block after the transition, whose tensor
// has `next_channels` channels, the transition's from `next_first` on; no channels if there is no transition.
struct Block {
    int batch, layers, width, parameters, prepared, slice, next_channels, next_first;
    long long x, g, z, z_step, dz, roots, z_roots, sums, next_x, next_g, next_roots, next_sums, partial;
};

// Where a pixel of a channel lies in an image's features of so many pixels: of two channels 16 pixels each are 128 bytes, which is
// what eight neighboring lanes want of them in a 1x1 convolution backward; forward they want two such rows.
__device__ __forceinline__ constexpr int feature(int channel, int pixel, int area) { return channel / 2 * 2 * area + pixel / 16 * 32 + channel % 2 * 16 + pixel % 16; }
__device__ __forceinline__ constexpr int round8(int n) { return (n + 7) / 8 * 8; }
// A warp takes 16 channels of a 1x1 convolution's input gradient, the last ones filled up.
__device__ __forceinline__ constexpr int round16(int n) { return (n + 15) / 16 * 16; }
__device__ __forceinline__ constexpr int point_forward(int in) { return round8(in) * 48; }
__device__ __forceinline__ constexpr int point_backward(int in) { return round16(in) * 48; }
constexpr int MIDDLE_FORWARD = 48 * 9 * 16, MIDDLE_BACKWARD = 16 * 9 * 48, STEM_FORWARD = 8 * 9 * 24, STEM = 24 * 27;
// Prepared weights and parameters of a layer that reads `in` channels.
__device__ __forceinline__ constexpr int layer_prepared(int in) { return point_forward(in) + point_backward(in) + MIDDLE_FORWARD + MIDDLE_BACKWARD; }
__device__ __forceinline__ constexpr int layer_parameters(int in) { return 51 * in + 3 * 48 + 12 * 48 * 9; }

// Weights as the kernels want them, rounded for TF32. A 1x1 convolution: for every 48 outputs forward [in, filled up to
// eights][48], then for every 48 outputs backward [48 outputs][16] for 16 inputs each.
// 3x3 of a layer: forward [48][16], backward [16][48], stem [8][24], each with nine taps: for every eight of `in`
// [tap][in][out]; those of backward reversed. Eight rows of COLUMNS numbers lie as `mma_tf32` takes
// them: two tiles of eight columns as [lane][tile][half], a last one alone as [lane][half], of rows lane % 4 + 4 half and
// column lane / 4.
// Grid (any, table, run).
struct Prepare { int weight, out, in, taps, prepared, reserved; };
// Row and column of number i of rows of COLUMNS.
template <int COLUMNS> __device__ __forceinline__ void place_of(int i, int& row, int& column) {
    const int at = i % (8 * COLUMNS), pair = at / 128;
    const bool alone = pair * 16 + 8 >= COLUMNS;
    const int lane = alone ? at % 128 / 2 : at % 128 / 4;
    row = i / (8 * COLUMNS) * 8 + lane % 4 + 4 * (at % 2), column = (pair * 2 + (alone ? 0 : at % 4 / 2)) * 8 + lane / 4;
}
// Row, tap and column of number i of a 3x3 convolution's.
template <int COLUMNS> __device__ __forceinline__ void place_of(int i, int& row, int& tap, int& column) {
    place_of<COLUMNS>(i % (8 * COLUMNS), row, column);
    tap = i / (8 * COLUMNS) % 9, row += i / (8 * COLUMNS * 9) * 8;
}
// A factor of a product: for TF32 half of the last bit that counts is added, and `mma_tf32` ignores
// the bits after it.
template <bool TF32> __device__ __forceinline__ float factor(float v) { return TF32 && !WITHOUT_ROUNDING ? __uint_as_float(__float_as_uint(v) + 0x1000u) : v; }
// Where the weights of a 1x1 convolution lie. Forward 48 columns of which a warp has 24 and a lane six: the second factor of
// `mma_tf32`, of every eight rows twice [n][row half] of every lane, four of them first and two after, of rows lane % 4 and columns lane / 4 + 8 n.
__device__ __forceinline__ void place_ahead(int i, int& row, int& column) {
    const int half = i % 384 / 192, at = i % 192, lane = at < 128 ? at / 4 : (at - 128) / 2, number = at < 128 ? at % 4 : 4 + at % 2;
    row = i / 384 * 8 + number % 2 * 4 + lane % 4, column = half * 24 + number / 2 * 8 + lane / 4;
}
// Backward the first factor of `mma_tf32`, 16 columns of eight rows at a time: a lane has rows 2 (lane % 4) and the next one.
__device__ __forceinline__ void place_back(int i, int& row, int& column) {
    const int lane = i % 128 / 4;
    row = i / 128 * 8 + lane % 4 * 2 + i % 4 / 2, column = i % 2 * 8 + lane / 4;
}
// Those of a 3x3 convolution backward, 48 columns of which a warp has 24: the second factor of
// `mma_tf32_short`, of rows lane % 4 and columns lane / 4 + 8 n, of every four rows and row of taps
// twice [tap][n], four, four and one.
__device__ __forceinline__ void place_back(int i, int& row, int& tap, int& column) {
    const int half = i % 576 / 288, at = i % 288, unit = i / 576, lane = at < 256 ? at % 128 / 4 : at - 256, number = at < 256 ? at / 128 * 4 + at % 4 : 8;
    row = unit / 3 * 4 + lane % 4, tap = unit % 3 * 3 + number / 3, column = half * 24 + number % 3 * 8 + lane / 4;
}
template <bool TF32> __device__ __forceinline__ void prepare(const Run* runs, const Prepare* table) {
    const Run& run = runs[blockIdx.z];
    if (images_of(run) == 0) return;
    const Prepare p = table[blockIdx.y];
    const float* w = run.point + p.weight;
    float* to = run.prepared + p.prepared;
    const int step = blockDim.x * gridDim.x, begin = blockIdx.x * blockDim.x + threadIdx.x, in = p.in;
    int o, c, tap;
    if (p.taps == 1) {
        const int forward = point_forward(in), backward = point_backward(in), parts = p.out / 48;
#pragma unroll 4
        for (int i = begin; i < parts * (forward + backward); i += step) {
            if (i < parts * forward) {
                place_ahead(i % forward, c, o);
                o += i / forward * 48;
            } else {
                const int j = i - parts * forward, at = j % backward;
                place_back(at % (48 * 16), o, c);
                c += at / (48 * 16) * 16, o += j / backward * 48;
            }
            to[i] = c < in ? factor<TF32>(__ldg(w + o * in + c)) : 0;
        }
    } else if (in == 3) {
        for (int i = begin; i < STEM_FORWARD; i += step) {
            place_of<24>(i, c, tap, o);
            to[i] = o < p.out && c < in ? factor<TF32>(w[(o * in + c) * 9 + tap]) : 0;
        }
    } else {
#pragma unroll 2
        for (int i = begin; i < MIDDLE_FORWARD + MIDDLE_BACKWARD; i += step) {
            const bool back = i >= MIDDLE_FORWARD;
            if (back) place_back(i - MIDDLE_FORWARD, o, tap, c), tap = 8 - tap;
            else place_of<16>(i, c, tap, o);
            to[i] = o < 12 ? factor<TF32>(__ldg(w + (o * 48 + c) * 9 + tap)) : 0;
        }
    }
}

// 0 below tau, a half at it, 1 above it: by two operations of the units that multiply, which have more time than those that compare.
__device__ __forceinline__ float share_above(float v, float tau) {
    const float beyond = v - tau, huge = 1.70141183e38f;  // 2^127: what is beyond by a normal number is more than a half
#ifdef EMULATED
    const float share = fmaf(beyond, huge, 0.5f);
    return share > 1 ? 1.0f : share > 0 ? share : 0.0f;
#else
    float share;
    asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(share) : "f"(beyond), "f"(huge), "f"(0.5f));
    return share;
#endif
}
__device__ __forceinline__ float threshold(float v, float tau) {
#ifdef EMULATED
    return larger(v, tau);
#else
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(v) : "f"(tau));
    return v;
#endif
}
// A barrier of the WARPS neighboring warps that `warp` is one of, one, two, four, eight or all sixteen.
template <int WARPS> __device__ __forceinline__ void meet(unsigned warp) {
#ifdef EMULATED
    emu::meet(WARPS);
#else
    static_assert(WARPS == 1 || WARPS == 2 || WARPS == 4 || WARPS == 8 || WARPS == 16, "numbers 1 to 8, 9 to 12, 13 and 14, 0");
    if (WARPS == 1) __syncwarp();
    else if (WARPS == 16) __syncthreads();
    else asm volatile("bar.sync %0, %1;" ::"r"((WARPS == 2 ? 1 : WARPS == 4 ? 9 : 13) + warp / WARPS), "n"(WARPS * 32) : "memory");
#endif
}
// An address of which the compiler knows nothing, so that it adds to it what is short.
__device__ __forceinline__ const float* unknown(const float* p) {
#ifndef EMULATED
    asm volatile("" : "+l"(p));
#endif
    return p;
}
// Eight bytes of global memory at once.
__device__ __forceinline__ float2 load_global2(const float* from) {
#ifdef EMULATED
    return *reinterpret_cast<const float2*>(from);
#else
    float2 v;
    asm volatile("ld.global.v2.f32 {%0,%1}, [%2];" : "=f"(v.x), "=f"(v.y) : "l"(__cvta_generic_to_global(from)));
    return v;
#endif
}
// Sixteen bytes that are read once: they leave no trace in the first cache, of which shared memory leaves little.
__device__ __forceinline__ float4 load_once(const float* from) {
#ifdef EMULATED
    return *reinterpret_cast<const float4*>(from);
#else
    float4 v;
    asm volatile("ld.global.L1::no_allocate.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(__cvta_generic_to_global(from)));
    return v;
#endif
}
__device__ __forceinline__ void store_global2(float* to, float x, float y) {
#ifdef EMULATED
    to[0] = x, to[1] = y;
#else
    asm volatile("st.global.v2.f32 [%0], {%1,%2};" ::"l"(__cvta_generic_to_global(to)), "f"(x), "f"(y) : "memory");
#endif
}
// Adds to sixteen bytes of global memory: no one else is at them but with zeros, and numbers that are not normal count as 0.
__device__ __forceinline__ void add_global(float* to, float4 v) {
#ifdef EMULATED
    race::begin_addition(to, sizeof v);
    to[0] += v.x, to[1] += v.y, to[2] += v.z, to[3] += v.w;
    race::end_addition();
#else
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(__cvta_generic_to_global(to)), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
#endif
}
// A load leaves two pixels in a pair of registers, a product wants two rows in one. The pairs are formed by an operation with
// this zero, of which the compiler does not know that it is 0: left to itself it copies them anew for every product.
__device__ __forceinline__ unsigned unknown_zero(const Spot& spot) {
#ifdef EMULATED
    return 0;
#else
    return spot.at >> 31;
#endif
}
// `request` of a number that is known.
template <int THREADS, int COUNT> __device__ __forceinline__ void request_all(float* to, const float* from) {
    const int at = this_thread() * 4;
    to += at, from = unknown(from + at);
#pragma unroll
    for (int i = 0; i < COUNT; i += THREADS * 4)
        if (i + THREADS * 4 <= COUNT || at + i < COUNT) request4(to + i, from + i);
}
__device__ __forceinline__ float4 load4(const float* from) { return *reinterpret_cast<const float4*>(from); }

// Sum of COUNT times four numbers, `step` apart.
template <int COUNT> __device__ __forceinline__ float4 added(const float* from, int step) {
    float4 sum = load4(from);
#pragma unroll
    for (int i = 1; i < COUNT; i++) {
        const float4 v = load4(from + i * step);
        sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    return sum;
}

// Numbers from one row of pixels to the next in shared memory: lanes on neighboring rows are four banks apart, so that eight
// of them by `ldmatrix`, and every second of eight by pairs of numbers (`Product::store`), meet all banks.
constexpr int plain_stride(int pixels) { return pixels + 4; }
// Which sums of a product [ROWS][PX] a thread holds: MT x NT tiles of 16 pixels and 8 rows. A warp has all rows of WPX pixels;
// SPLIT warps share a sum. Where there are too few pixels for that, a warp has fewer tiles.
template <int ROWS_, int PX_, int WARPS, bool TF32> struct Product {
    static constexpr int ROWS = ROWS_, PX = PX_, WPX = 768 / ROWS < PX ? 768 / ROWS : PX, PIXEL_WARPS = PX / WPX, SPLIT = WARPS / PIXEL_WARPS;
    static constexpr int NT = (ROWS + 7) / 8, MT = WPX / 16, SUMS = MT * NT * 4;
    static constexpr int WIDE = ROWS == 12 ? 16 : ROWS, TO = plain_stride(PX), SIZE = SPLIT * ROWS * TO;
    static_assert(PIXEL_WARPS * SPLIT == WARPS && PIXEL_WARPS * WPX == PX, "warps");
    int lane, split, pixel;  // pixel: the first one of the warp
    __device__ __forceinline__ Product() {
        const unsigned thread = this_thread();
        lane = thread % 32, pixel = thread / 32 % PIXEL_WARPS * WPX, split = thread / 32 / PIXEL_WARPS;
    }
    // First of the two pixels whose factors a lane brings for tile m.
    __device__ __forceinline__ int first(int m) const { return pixel + m * 16 + lane / 4 * 2; }
    static __device__ __forceinline__ void clear(float* sums) {
#pragma unroll
        for (int i = 0; i < SUMS; i++) sums[i] = 0;
    }
    // The factors of eight rows of weights, `from` being this lane's.
    static __device__ __forceinline__ void weights(Factors<TF32, 2> (&b)[NT], const Spot& from, const Spot& last, int floats) {
#pragma unroll
        for (int n = 0; n + 1 < NT; n += 2) {
            const float4 v = from.load4(floats + n * 64);
            b[n].set(0, v.x), b[n].set(1, v.y), b[n + 1].set(0, v.z), b[n + 1].set(1, v.w);
        }
        if constexpr (NT % 2) {
            const float2 v = last.load2(floats + (NT - 1) * 64);
            b[NT - 1].set(0, v.x), b[NT - 1].set(1, v.y);
        }
    }
    // sums += 3x3 convolution of bordered planes [image][IN][S + 2][S + 4], shared out among SPLIT warps; weights as `prepare` has them.
    // `row`: the row of the image where the pixels begin.
    template <int S, int IN, int PLANE> __device__ __forceinline__ void convolve(float* sums, const float* planes, const float* w, int row) const {
        constexpr int ROW = S + 4;
        auto place = [&](int p) { return p / (S * S) * (IN * PLANE) + (p % (S * S) / S + row) * ROW + p % S; };
        // pixels of a warp begin at a row, or at the middle of one if they are no more
        auto tile = [](int m) { return m * 16 / (S * S) * (IN * PLANE) + m * 16 % (S * S) / S * ROW + m * 16 % S; };
        const Spot here(planes + place(first(0)) + lane % 4 * PLANE), even(w + lane * 4), last(w + lane * 2);
        const unsigned zero = unknown_zero(here);
#pragma unroll(TF32 && SPLIT == 1 ? 6 : 1)
        for (int unit = SPLIT == 1 ? 0 : split; unit < (IN + 7) / 8 * 3; unit += SPLIT) {
            const int eight = unit / 3, ky = unit % 3;
            const bool half = IN % 8 && eight * 8 + 8 > IN;  // four channels remain
            Spot from = here, even_from = even, last_from = last;
            from.move(eight * (8 * PLANE) + ky * ROW);
            even_from.move((eight * 9 + ky * 3) * (8 * WIDE));
            if (NT % 2) last_from.move((eight * 9 + ky * 3) * (8 * WIDE));
            Factors<TF32, 2> b[3][NT];
#pragma unroll
            for (int kx = 0; kx < 3; kx++) weights(b[kx], even_from, last_from, kx * (8 * WIDE));
#pragma unroll
            for (int m = 0; m < MT; m++) {
                Factors<TF32, 4> v[2];
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    float2 one = make_float2(0, 0), two = one;
                    if (!h || !half) one = from.load2(tile(m) + 4 * h * PLANE), two = from.load2(tile(m) + 4 * h * PLANE + 2);
                    v[h].set(0, one.x), v[h].set(1, one.y), v[h].set(2, two.x), v[h].set(3, two.y);
                }
                Products<TF32, NT, SPLIT == 1> part(reinterpret_cast<float(*)[4]>(sums) + m * NT);
#pragma unroll
                for (int kx = 0; kx < 3; kx++) {
                    Factors<TF32, 4> a;
#pragma unroll
                    for (int i = 0; i < 4; i++) a.take(i, v[i / 2], kx + i % 2);
                    // those of the tap in the middle lie in two pairs of registers; see `unknown_zero`
                    if (TF32 && kx == 1)
#pragma unroll
                        for (int i = 0; i < 4; i++) a.high[i] |= zero;
#pragma unroll
                    for (int n = 0; n < NT; n++) part.add(n, a, b[kx][n]);
                }
            }
        }
    }
    // The sums to shared memory, [SPLIT][ROWS][TO].
    __device__ __forceinline__ void store(const float* sums, float* to) const {
        to += split * (ROWS * TO);
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int n = 0; n < NT; n++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const int row = n * 8 + lane % 4 * 2 + e;
                    const float* s = sums + (m * NT + n) * 4 + e;
                    if (ROWS % 8 == 0 || row < ROWS) *reinterpret_cast<float2*>(to + row * TO + first(m)) = make_float2(s[0], s[2]);
                }
    }
    // Four of them, the parts of all warps added.
    static __device__ __forceinline__ float4 total(const float* from, int row, int px) { return added<SPLIT>(from + row * TO + px, ROWS * TO); }
};

// Which sums of a product [48][PX] a thread holds forward and in a 3x3 convolution backward: of a warp's 24 rows at 32 pixels six
// rows at four pixels, so that a row of a warp is 128 bytes of memory. Two neighboring warps have
// the same pixels, a TEAM all pixels; SPLIT teams share a sum, or have 48 rows each. The pixels are
// the first factor: `mma_tf32_short` takes two of them out of one register pair.
template <int PX_, int WARPS, bool TF32> struct Tall {
    static constexpr int PX = PX_, TEAM = PX / 16, SPLIT = WARPS / TEAM, TO = plain_stride(PX), SIZE = SPLIT * 48 * TO, SUMS = 24;
    int lane, half, split, pixel;  // half: of the rows; pixel: the first one of the warp
    __device__ __forceinline__ Tall() {
        const unsigned thread = this_thread();
        lane = thread % 32, half = thread / 32 % 2, pixel = thread / 32 % TEAM / 2 * 32, split = thread / 32 / TEAM;
    }
    // The eight lanes that share rows are four apart, and have neighboring pixels.
    static constexpr int LANE_STEP = 4, LANES = 8;
    static __device__ __forceinline__ constexpr int offset(int i) { return i / 2 * 8 + i % 2; }
    __device__ __forceinline__ int four() const { return lane / 4; }
    __device__ __forceinline__ int rows() const { return lane % 4; }
    __device__ __forceinline__ int row(int i) const { return half * 24 + rows() * 2 + offset(i); }
    __device__ __forceinline__ int fours() const { return pixel + four() * 4; }
    static __device__ __forceinline__ float4 held(const float* sums, int i) {
        const float* s = sums + i / 2 * 4 + i % 2;
        return make_float4(s[0], s[2], s[12], s[14]);
    }
    static __device__ __forceinline__ void clear(float* sums) {
#pragma unroll
        for (int i = 0; i < SUMS; i++) sums[i] = 0;
    }
    // Four rows of weights times two pairs of pixels, in TF32.
    static __device__ __forceinline__ void products(float* sums, const float* b, float p0, float p1, float p2, float p3) {
        const unsigned first[2] = {__float_as_uint(p0), __float_as_uint(p1)}, second[2] = {__float_as_uint(p2), __float_as_uint(p3)};
#pragma unroll
        for (int n = 0; n < 3; n++) mma_tf32_short(sums + n * 4, first, __float_as_uint(b[n])), mma_tf32_short(sums + 12 + n * 4, second, __float_as_uint(b[n]));
    }
    // Eight rows of weights times two pixels, in f32: `l` and `h` are those of rows lane % 4 and of those
    // four beyond.
    template <class P> static __device__ __forceinline__ void products(P& part, const Factors<false, 2> (&b)[3], const float* l, const float* h) {
        Factors<false, 4> a;
        a.set(0, l[0]), a.set(1, l[1]), a.set(2, h[0]), a.set(3, h[1]);
#pragma unroll
        for (int n = 0; n < 3; n++) part.add(n, a, b[n]);
    }
    // sums += 3x3 convolution of 12 bordered planes [image][12][S + 2][S + 4], shared out among
    // SPLIT teams. `row`: the row of the image where the pixels begin.
    template <int S, int PLANE> __device__ __forceinline__ void convolve(float* sums, const float* planes, const float* w, int row) const {
        constexpr int ROW = S + 4;
        const int p = fours();
        planes += p / (S * S) * (12 * PLANE) + (p % (S * S) / S + row) * ROW + p % S;
        const Spot here(planes + lane % 4 * PLANE), fours_from(w + half * 288 + lane * 4), last_from(w + half * 288 + 256 + lane);
        const unsigned zero = unknown_zero(here);
#pragma unroll(TF32 && SPLIT == 1 ? 9 : 1)
        for (int unit = SPLIT == 1 ? 0 : split; unit < 9; unit += SPLIT) {
            Spot from = here, weights = fours_from, last = last_from;
            from.move(unit / 3 * (4 * PLANE) + unit % 3 * ROW), weights.move(unit * 576), last.move(unit * 576);
            const float4 one = from.load4(0), a = weights.load4(0), b = weights.load4(128);
            const float2 two = from.load2(4);
            const float of_lane[9] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, last.load(0)};
            if constexpr (TF32) {
                // the pairs of the tap in the middle are formed once; see `unknown_zero`
                auto copied = [&](float v) { return __uint_as_float(__float_as_uint(v) | zero); };
                products(sums, of_lane, one.x, one.y, one.z, one.w);
                products(sums, of_lane + 3, copied(one.y), copied(one.z), copied(one.w), copied(two.x));
                products(sums, of_lane + 6, one.z, one.w, two.x, two.y);
            } else {
                // two taps are eight rows of weights, the third one is four
                const float v[6] = {one.x, one.y, one.z, one.w, two.x, two.y};
                Factors<false, 2> w[3];
#pragma unroll
                for (int n = 0; n < 3; n++) w[n].set(0, of_lane[n]), w[n].set(1, of_lane[3 + n]);
#pragma unroll
                for (int pair = 0; pair < 2; pair++) {
                    Products<false, 3, false> part(reinterpret_cast<float(*)[4]>(sums) + pair * 3);
                    products(part, w, v + pair * 2, v + pair * 2 + 1);
                    Factors<false, 2> last_two;
                    last_two.set(0, v[pair * 2 + 2]), last_two.set(1, v[pair * 2 + 3]);
#pragma unroll
                    for (int n = 0; n < 3; n++) {
                        Factors<false, 1> third;
                        third.set(0, of_lane[6 + n]);
                        part.add(n, last_two, third);
                    }
                }
            }
        }
    }
    // The sums to shared memory, [SPLIT][48][TO], and four of them, those of all teams added.
    __device__ __forceinline__ void store(const float* sums, float* to) const {
        to += split * (48 * TO) + row(0) * TO + fours();
#pragma unroll
        for (int i = 0; i < 6; i++) *reinterpret_cast<float4*>(to + offset(i) * TO) = held(sums, i);
    }
    static __device__ __forceinline__ float4 total(const float* from, int row, int px) { return added<SPLIT>(from + row * TO + px, 48 * TO); }
};

// The gradient at the 48 outputs of a 1x1 convolution lies twice in shared memory, as either product of its way back wants it as
// the second factor of `mma_tf32`. Where number (row, pixel) lies in either, the fours being exchanged so that those who write
// neighboring pixels or rows, and those who read, meet all banks.
// For the input's gradient: of every eight rows and 16 pixels, as a lane reads them, four numbers: two neighboring rows at two
// neighboring pixels.
template <int PX> __device__ __forceinline__ constexpr int paired(int row, int pixel) {
    const int n = pixel % 16 / 2, line = (row / 8 * (PX / 16) + pixel / 16) * 4 + n / 2;
    return (line * 8 + ((n % 2 * 4 + row % 8 / 2) ^ (line % 2 * 4 + line / 2 % 4))) * 4 + pixel % 2 * 2 + row % 2;
}
// For the weights' gradient: rows of pixels.
__device__ __forceinline__ constexpr int exchanged(int row) { return row % 2 + row / 2 % 2 * 2 + (row / 4 + row) % 2 * 4; }
template <int PX> __device__ __forceinline__ constexpr int in_row(int row, int pixel) { return row * PX + ((pixel / 4) ^ exchanged(row % 8)) * 4 + pixel % 4; }

// Partial sums of a 1x1 convolution's weights at 16 channels, where `Across` forms them: [6][lane][4], of outputs 2 (lane % 4) and the
// next one at channel lane / 4, and the same eight channels beyond.
constexpr int WEIGHT_TILE = 48 * 16;
__device__ __forceinline__ void place_in_tiles(int i, int& output, int& channel) {
    const int lane = i % 128 / 4;
    output = i % WEIGHT_TILE / 128 * 8 + lane % 4 * 2 + i % 2, channel = i / WEIGHT_TILE * 16 + i % 4 / 2 * 8 + lane / 4;
}

// Who does what in a 1x1 convolution backward: a warp has 16 channels at 64 pixels, a thread two channels, eight apart, at four
// times four pixels, so that four neighboring lanes have 64 bytes of memory. The sums of the input's gradient pass FRN in the
// registers that hold them, and the normalized features, which were there as well, are the first factor of the weights'
// gradient: neither goes through shared memory. A TEAM of neighboring warps has all pixels of its 16 channels.
template <int PX_, int WARPS, bool TF32> struct Across {
    static constexpr int PX = PX_, TEAM = PX / 64, TEAMS = WARPS / TEAM, COLUMNS = 16 * TEAMS, ROWS = 2, TILES = 4;
    typedef float Sums[TILES][2][4];
    int lane, team, group;  // group: of 64 pixels
    __device__ __forceinline__ Across() {
        const unsigned thread = this_thread(), warp = thread / 32;
        lane = thread % 32, team = warp / TEAM, group = warp % TEAM;
    }
    __device__ __forceinline__ int row() const { return lane / 4; }  // the first one
    __device__ __forceinline__ int pair() const { return lane / 8 * 2; }  // the first one of its two
    __device__ __forceinline__ int pixel() const { return group * 64 + lane % 4 * 4; }  // of the first four
    // Sums of four pixels of a row.
    static __device__ __forceinline__ float4 held(const Sums& s, int row, int t) { return make_float4(s[t][0][row * 2], s[t][1][row * 2], s[t][0][row * 2 + 1], s[t][1][row * 2 + 1]); }
    // sums = weights, those of this lane, times the gradient at the outputs.
    template <class W> __device__ __forceinline__ void multiply(Sums& sums, W weights, const float* d) const {
        const Spot even(d + paired<PX>(lane % 4 * 2, group * 64 + lane / 4 * 2)), odd(d + paired<PX>(lane % 4 * 2, group * 64 + 16 + lane / 4 * 2) - 128);
#pragma unroll
        for (int i = 0; i < TILES * 8; i++) sums[i / 8][i / 4 % 2][i % 4] = 0;
#pragma unroll
        for (int s = 0; s < 6; s++) {
            Factors<TF32, 4> a;
            const float4 w = weights(s);
            a.set(0, w.x), a.set(1, w.y), a.set(2, w.z), a.set(3, w.w);
#pragma unroll
            for (int t = 0; t < TILES; t++) {
                const float4 v = (t % 2 ? odd : even).load4((s * (PX / 16) + t) * 128);
                Factors<TF32, 2> b[2];
                b[0].set(0, v.x), b[0].set(1, v.y), b[1].set(0, v.z), b[1].set(1, v.w);
                Products<TF32, 2, false> part(sums[t]);
                part.add(0, a, b[0]), part.add(1, a, b[1]);
            }
        }
    }
    // sums += features times the gradient at the outputs, over the warp's pixels: of a lane's two channels at outputs 8 n + 2 (lane % 4) and the next one.
    template <bool FEW> __device__ __forceinline__ void gradients(float (&sums)[6][4], const float4 (&u)[2][TILES], const float* d) const {
        const Spot even(d + in_row<PX>(lane / 4, pixel())), odd(d + in_row<PX>(lane / 4, pixel() + 16) - 16);
        Products<TF32, 6, FEW> part(sums);
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            Factors<TF32, 4> a[2];
            a[0].set(0, u[0][t].x), a[0].set(1, u[1][t].x), a[0].set(2, u[0][t].y), a[0].set(3, u[1][t].y);
            a[1].set(0, u[0][t].z), a[1].set(1, u[1][t].z), a[1].set(2, u[0][t].w), a[1].set(3, u[1][t].w);
#pragma unroll
            for (int n = 0; n < 6; n += 3) {
                Factors<TF32, 2> b[3][2];
#pragma unroll
                for (int i = 0; i < 3; i++) {
                    const float4 v = (t % 2 ? odd : even).load4((n + i) * 8 * PX + t * 16);
                    b[i][0].set(0, v.x), b[i][0].set(1, v.y), b[i][1].set(0, v.z), b[i][1].set(1, v.w);
                }
#pragma unroll
                for (int i = 0; i < 6; i++) part.add(n + i % 3, a[i / 3], b[i % 3][i / 3]);
            }
        }
    }
    // Those sums, a tile, go to memory as lanes hold them. Each warp of a team adds up and keeps a part of it: with two warps half,
    // with four one in six and half of another one.
    static constexpr int SHARED = TEAM == 1 ? 0 : WEIGHT_TILE;
    static __device__ __forceinline__ float4 four(const float (&sums)[4]) { return make_float4(sums[0], sums[1], sums[2], sums[3]); }
    __device__ __forceinline__ void give(const float (&sums)[6][4], float* exchange) const {
        float* to = exchange + (team * TEAM + group) * SHARED + lane * 4;
        if (TEAM > 1)
#pragma unroll
            for (int n = 0; n < 6; n++) *reinterpret_cast<float4*>(to + n * 128) = four(sums[n]);
    }
    __device__ __forceinline__ void keep(const float (&sums)[6][4], const float* exchange, float* tile) const {
        static_assert(TEAM == 1 || TEAM == 2 || TEAM == 4, "parts of a tile");
        constexpr int WHOLE = 6 / TEAM;
        exchange += team * (TEAM * SHARED);
        const int own = group * (WHOLE * 128) + lane * 4, half = 512 + group / 2 * 128 + lane * 4 + group % 2 * 2;
#pragma unroll
        for (int n = 0; n < WHOLE; n++) store_global(tile + own + n * 128, TEAM == 1 ? four(sums[n]) : added<TEAM>(exchange + own + n * 128, SHARED));
        if constexpr (TEAM == 4) {
            float2 sum = *reinterpret_cast<const float2*>(exchange + half);
#pragma unroll
            for (int j = 1; j < TEAM; j++) {
                const float2 v = *reinterpret_cast<const float2*>(exchange + j * SHARED + half);
                sum.x += v.x, sum.y += v.y;
            }
            store_global2(tile + half, sum.x, sum.y);
        }
    }
};

// The same where there are few channels and planes are worked on in strips: a warp has 48 channels at 16 pixels, a thread six, eight apart,
// at four. Two neighboring warps share the gradient at the outputs and the normalized features, tiles of 48 rows of 32 pixels.
constexpr int TILED = 48 * 32;
__device__ __forceinline__ constexpr int tiled(int row, int pixel) { return pixel / 32 * TILED + row * 32 + ((pixel % 32 / 4) ^ exchanged(row % 8)) * 4 + pixel % 4; }
template <int PX_, int WARPS, bool TF32> struct Along {
    static constexpr int PX = PX_, TEAM = WARPS, TEAMS = 1, COLUMNS = 48, ROWS = 6, TILES = 1, SHARED = 0;
    typedef float Sums[6][4];
    static constexpr int team = 0;
    int lane, group;  // group: of 16 pixels
    __device__ __forceinline__ Along() {
        const unsigned thread = this_thread();
        lane = thread % 32, group = thread / 32;
    }
    __device__ __forceinline__ int row() const { return lane / 4; }
    __device__ __forceinline__ int pair() const { return lane / 8 * 2; }
    __device__ __forceinline__ int pixel() const { return group * 16 + lane % 4 * 4; }
    static __device__ __forceinline__ float4 held(const Sums& s, int row, int) {
        const int m = row / 2 * 2, i = row % 2 * 2;
        return make_float4(s[m][i], s[m + 1][i], s[m][i + 1], s[m + 1][i + 1]);
    }
    // Of `count` channels.
    __device__ __forceinline__ void multiply(Sums& sums, const float* w, const float* d, int count) const {
#pragma unroll
        for (int i = 0; i < 24; i++) sums[i / 4][i % 4] = 0;
        if (count > 32) multiply<3>(sums, w, d);
        else multiply<2>(sums, w, d);
    }
    template <int COUNT> __device__ __forceinline__ void multiply(Sums& sums, const float* w, const float* d) const {
        const int px = group * 16 + lane / 4 * 2, row = lane % 4 * 2;
        const Spot weights(w + lane * 4), even(d + tiled(row, px)), odd(d + tiled(row + 1, px));
        const unsigned zero = unknown_zero(even);
#pragma unroll
        for (int s = 0; s < 6; s++) {
            const float2 l = even.load2(s * 256), h = odd.load2(s * 256);
            Factors<TF32, 2> b[2];
            b[0].set(0, l.x), b[0].set(1, h.x), b[1].set(0, l.y), b[1].set(1, h.y);
            if (TF32)
#pragma unroll
                for (int i = 0; i < 4; i++) b[i / 2].high[i % 2] |= zero;
#pragma unroll
            for (int m = 0; m < COUNT; m++) {
                const float4 v = weights.load4(m * 768 + s * 128);
                Factors<TF32, 4> a;
                a.set(0, v.x), a.set(1, v.y), a.set(2, v.z), a.set(3, v.w);
                Products<TF32, 2, false> part(sums + m * 2);
                part.add(0, a, b[0]), part.add(1, a, b[1]);
            }
        }
    }
};
// Sums over 32 pixels: 48 rows `d` times 24 rows `u`, both of a tile.
template <bool TF32> struct Outer {
    static constexpr int SUMS = 36, WIDE = 48 + 8, SIZE = 48 * WIDE;
    static __device__ __forceinline__ void add(float* sums, const float* d, const float* u) {
        const int lane = this_thread() % 32, row = lane % 8, own = exchanged(row);
        const float *left = d + (row + lane / 8 % 2 * 8) * 32, *right = u + (row + lane / 16 * 8) * 32;
#pragma unroll(TF32 ? 4 : 1)
        for (int p = 0; p < 32; p += 8) {
            const Spot a_from(left + ((p / 4 + lane / 16) ^ own) * 4), b_from(right + ((p / 4 + lane / 8 % 2) ^ own) * 4);
            unsigned columns[3][2], rows[4];
            matrices4(columns[0], b_from.row(0));
            matrices2(columns[2], b_from.row(16 * 32));
            Factors<TF32, 2> b[3];
#pragma unroll
            for (int n = 0; n < 6; n++) b[n / 2].set(n % 2, __uint_as_float(columns[n / 2][n % 2]));
#pragma unroll
            for (int m = 0; m < 3; m++) {
                matrices4(rows, a_from.row(m * 16 * 32));
                Factors<TF32, 4> a;
#pragma unroll
                for (int i = 0; i < 4; i++) a.set(i, __uint_as_float(rows[i]));
                Products<TF32, 3, false> part(reinterpret_cast<float(*)[4]>(sums) + m * 3);
#pragma unroll
                for (int n = 0; n < 3; n++) part.add(n, a, b[n]);
            }
        }
    }
    // Row and column of sums i and i + 1, i even, which are neighbors.
    static __device__ __forceinline__ int row(int i, int lane) { return i / 12 * 16 + i % 4 / 2 * 8 + lane / 4; }
    static __device__ __forceinline__ int column(int i, int lane) { return i / 4 % 3 * 8 + lane % 4 * 2; }
};
template <bool FIRST, class A, class B> struct Either { typedef A Type; };
template <class A, class B> struct Either<false, A, B> { typedef B Type; };

// How ROWS planes of IMG images, PXI pixels each, are shared out for what is not a product: LANES lanes have a plane, each of
// them V times four pixels; a thread meets ITER planes.
template <int ROWS_, int IMG, int PXI, int THREADS> struct Plane {
    static constexpr int ROWS = ROWS_, QUADS = PXI / 4, LANES = QUADS < 32 ? QUADS : 32, V = QUADS / LANES, SLOTS = ROWS * IMG * LANES, ITER = (SLOTS + THREADS - 1) / THREADS;
    static constexpr int STEP = THREADS / LANES / IMG;  // rows from one plane of a thread to the next
    int row, image, lane;
    bool used;
    __device__ __forceinline__ Plane(int i, unsigned thread) {
        // written so that what belongs to `i` is a constant
        static_assert(THREADS / LANES % IMG == 0, "whole images");
        const unsigned plane = thread / LANES;
        lane = thread % LANES, row = plane / IMG + i * STEP, image = plane % IMG;
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
    return make_float4(factor<TF32>(threshold(fmaf(p.x, v.x, p.y), p.z)), factor<TF32>(threshold(fmaf(p.x, v.y, p.y), p.z)),
                       factor<TF32>(threshold(fmaf(p.x, v.z, p.y), p.z)), factor<TF32>(threshold(fmaf(p.x, v.w, p.y), p.z)));
}

// 12 bordered planes `d`, shifted by every tap, times 48 rows `u`: three warps have one row of taps each, SPLIT of these
// share the pixels, eight at least. Tap k of the sums is tap k of `convolve`.
template <int S, int PX, int PLANE, int WARPS, bool TF32> struct Outer9 {
    static constexpr int SPLIT = WARPS / 3 < PX / 8 ? WARPS / 3 : PX / 8, PLAIN = plain_stride(PX), ROW = S + 4, SUMS = 72, WIDE = 48 * 9 + 4, SIZE = SPLIT * 12 * WIDE;
    // `row`: the row of the image where the pixels of `u` begin.
    static __device__ __forceinline__ void add(float* sums, const float* d, const float* u, int row) {
        const unsigned thread = this_thread();
        const int lane = thread % 32, warp = thread / 32, split = warp / 3, ky = warp % 3;
        if (split >= SPLIT) return;
        auto place = [&](int p) { return p / (S * S) * (12 * PLANE) + (p % (S * S) / S + row + ky) * ROW + p % S; };
        // rows of u times columns of d: [48][16], of which 12 are used
        const int t = lane % 4, o = lane / 4;
        const Spot left(u + (lane % 8 + lane / 8 % 2 * 8) * PLAIN + lane / 16 * 4);
#pragma unroll 1
        for (int p = split * 8; p < PX; p += SPLIT * 8) {
            // eight pixels are a row, or two halves of rows one below the other
            constexpr int HIGH = S >= 8 ? 4 : ROW;
            const Spot from(d + o * PLANE + place(p) + t);
            Factors<TF32, 2> column[2][3];
#pragma unroll
            for (int n = 0; n < 2; n++)
#pragma unroll
                for (int h = 0; h < 2; h++)
#pragma unroll
                    for (int kx = 0; kx < 3; kx++) column[n][kx].set(h, n && o >= 4 ? 0 : from.load(n * 8 * PLANE + h * HIGH + kx));
#pragma unroll
            for (int m = 0; m < 3; m++) {
                unsigned rows[4];
                matrices4(rows, left.row(m * 16 * PLAIN + p));
                Factors<TF32, 4> a;
#pragma unroll
                for (int i = 0; i < 4; i++) a.set(i, __uint_as_float(rows[i]));
#pragma unroll
                for (int n = 0; n < 2; n++) {
                    Products<TF32, 3, false> part(reinterpret_cast<float(*)[4]>(sums) + (m * 2 + n) * 3);
#pragma unroll
                    for (int kx = 0; kx < 3; kx++) part.add(kx, a, column[n][kx]);
                }
            }
        }
    }
    // To shared memory, [SPLIT][12][WIDE], of which [48][9] are used, the taps REVERSED or not.
    template <bool REVERSED> static __device__ __forceinline__ void store(const float* sums, float* to) {
        const unsigned thread = this_thread();
        const int lane = thread % 32, warp = thread / 32, split = warp / 3, ky = warp % 3;
        if (split >= SPLIT) return;
        to += split * (12 * WIDE) + (REVERSED ? 8 - ky * 3 : ky * 3) + lane % 4 * 2 * WIDE + lane / 4 * 9;
#pragma unroll
        for (int i = 0; i < SUMS; i++) {
            const int kx = i / 4 % 3, o = i / 12 % 2 * 8 + i % 2, c = i / 24 * 16 + i % 4 / 2 * 8;
            if (o < 8 || lane % 4 < 2) to[o * WIDE + c * 9 + (REVERSED ? -kx : kx)] = sums[i];
        }
    }
    // Four of them, from number i of output o on, the parts of all warps added.
    static __device__ __forceinline__ float4 total(const float* from, int o, int i) { return added<SPLIT>(from + o * WIDE + i, 12 * WIDE); }
};

// Sums over LANES lanes of N numbers each, shared out: what remains, COUNT numbers, are the sums of number `first` and those after
// it, as far as they lie before `end`; lanes that differ in DOUBLE only have the same. At first 0 and N. The lanes are STEP
// apart, `lane` is this one's number among them.
template <int N, int LANES, int STEP = 1> struct SharedSums {
    static constexpr int HALF = (N + 1) / 2;
    typedef SharedSums<HALF, LANES / 2, STEP> Rest;
    static constexpr int COUNT = Rest::COUNT, DOUBLE = Rest::DOUBLE | (N == 1 ? LANES / 2 : 0);
    static __device__ __forceinline__ void add(float* v, int lane, int& first, int& end) {
        const bool upper = N > 1 && (lane & (LANES / 2));
#pragma unroll
        for (int i = 0; i < HALF; i++) {
            const float other = N == 1 ? v[i] : HALF + i < N ? v[HALF + i] : 0.0f;
            const float keep = upper ? other : v[i], send = upper ? v[i] : other;
            v[i] = keep + __shfl_xor_sync(ALL_LANES, send, LANES / 2 * STEP);
        }
        if (upper) first += HALF;
        else end = min(end, first + HALF);
        Rest::add(v, lane, first, end);
    }
};
template <int N, int STEP> struct SharedSums<N, 1, STEP> {
    static constexpr int COUNT = N, DOUBLE = 0;
    static __device__ __forceinline__ void add(float*, int, int&, int&) {}
};

// A block of layers of S x S pixels, IMG images of it.
template <int S_, int IMG_, int WARPS_, bool TF32_> struct BlockOf {
    static constexpr int S = S_, IMG = IMG_, WARPS = WARPS_, THREADS = WARPS * 32, AREA = S * S;
    static constexpr bool TF32 = TF32_;
    // Products run over strips of pixels of PX at a time; a plane is PXI of them.
    static constexpr int STRIPS = S == 32 ? 4 : 1, PX = IMG * AREA / STRIPS, PXI = AREA / STRIPS, PLAIN = plain_stride(PX), STRIP_ROWS = S / STRIPS;
    static constexpr int ROW = S + 4, PLANE = (S + 2) * ROW, CHANNELS = S == 32 ? 96 : S == 16 ? 192 : 384;
    static_assert(IMG == 1 || STRIPS == 1, "strips are of one image");
    typedef Tall<PX, WARPS, TF32> High;
    typedef Product<12, IMG * AREA, WARPS, TF32> Narrow;
    typedef Product<24, PX, WARPS, TF32> Rest;
    typedef SharedSums<6, High::LANES, High::LANE_STEP> HighSums;
    typedef Plane<48, IMG, PXI, THREADS> Wide_;
    typedef Plane<12, IMG, AREA, THREADS> Narrow_;
    typedef Outer9<S, PX, PLANE, WARPS, TF32> Nine;
    // forward
    static constexpr bool HELD = High::SPLIT == 1;                   // no warps share a sum of a 1x1 convolution
    static constexpr int TOGETHER = STRIPS > 1 ? 8 : 48;             // planes of z brought at a time
    // a warp brings the features of its pixels to registers, and all weights come at once
    static constexpr int SQUARES = 52;  // numbers of 32 pixels; so far apart, those of eight meet few of the same banks
    static constexpr int GIVEN = WARPS * 24 * 32;  // what warps give each other
    static constexpr int TILE = larger_of(larger_of(GIVEN + 8 * SQUARES, High::SIZE), larger_of(Narrow::SIZE, Rest::SIZE));
    static constexpr int POINT = CHANNELS * 48;
    static constexpr int PLANES = (STRIPS > 1 ? 2 : 1) * TOGETHER * IMG * PLANE;
    static constexpr int RAW = 3 * CHANNELS + 2 * 3 * 48, TABLES = IMG * (5 * CHANNELS + 4 * 48) + RAW;
    static constexpr int FORWARD = TILE + PLANES + POINT + MIDDLE_FORWARD + TABLES;
    // backward
    typedef Outer<TF32> Out;
    typedef typename Either<(STRIPS > 1), Along<PX, WARPS, TF32>, Across<PX, WARPS, TF32>>::Type Flat;
    static constexpr int SHIFTED = 12 * IMG * PLANE, DZ = 48 * PX, COLUMNS = Flat::COLUMNS;
    static constexpr int SETS = PXI < 64 ? 64 / PXI : 1;  // images of a warp
    // gradients of FRN: [3][GROUPS][CHANNELS], of the pixels of a warp or of an image that has less
    static constexpr int GROUPS = Flat::TEAM * SETS, OF_GROUPS = GROUPS * CHANNELS;
    static constexpr int WARP_STRIDE = 52, OF_MIDDLE = 8 * WARP_STRIDE;  // those of FRN 2: [3][8][WARP_STRIDE]
    static constexpr int AFTER_U = STRIPS > 1 ? 48 * PLAIN : HELD ? 3 * OF_MIDDLE : High::SIZE;
    // what a layer's 3x3 convolution needs, and then its 1x1 convolution: what warps give each other, or with strips normalized
    // features and what a thread brings of the gradient in the middle of a layer and of what FRN 2 read
    static constexpr int OF_LAYER = larger_of(Nine::SIZE, 48 * PLAIN + AFTER_U + MIDDLE_BACKWARD);
    static constexpr int FEATURES = WARPS / 2 * TILED, EXCHANGED = STRIPS > 1 ? FEATURES + 2 * DZ : 2 * WARPS * Flat::SHARED, WEIGHTS = STRIPS > 1 ? COLUMNS * 48 : 0, OF_POINT = EXCHANGED + 3 * OF_GROUPS + WEIGHTS;
    // with strips the shifted planes lie where the gradient in the middle comes later
    static constexpr int WORK = STRIPS > 1 ? larger_of(SHIFTED + OF_LAYER, DZ + OF_POINT) : 2 * DZ + SHIFTED + larger_of(OF_LAYER, OF_POINT);
    static constexpr int BACKWARD = WORK + IMG * 6 * CHANNELS + IMG * (4 * 48 + 48 + 3 * 48) + 48;
    static_assert(STRIPS == 1 || EXCHANGED >= WARPS / 2 * Out::SIZE, "room for what warps give each other");

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
    // A pixel of the features, or of the gradient there.
    __device__ __forceinline__ float* features(long long tensor, int i, int channel, int pixel) const { return values + tensor + (long long)(image + i) * channels * AREA + feature(channel, pixel, AREA); }
    // The same for reading backward: of an image that does not exist the first one's, whose gradient becomes 0, the root being 0.
    __device__ __forceinline__ const float* features_or_first(long long tensor, int i, int channel, int pixel) const { return features(tensor, there(i) ? i : 0, channel, pixel); }
    // Where a pixel of a row lies in `z` and `dz`: where the threads that hold sums of a product write it (`Tall`), four rows of
    // eight pixels are the 128 bytes of eight neighboring lanes. A thread's row i is `middle_step(i)` beyond its first one.
    static __device__ __forceinline__ constexpr int middle_place(int row, int pixel) { return HELD ? row / 8 * 8 * AREA + pixel / 8 * 64 + row % 2 * 32 + row % 8 / 2 * 8 + pixel % 8 : row * AREA + pixel; }
    static __device__ __forceinline__ constexpr int middle_step(int i) { return i / 2 * 8 * AREA + i % 2 * 32; }

    // {gamma/root, beta, tau, gamma} of `count` channels from parameters gamma, beta, tau; `roots` [image][stride].
    __device__ __forceinline__ void tabulate(float4* table, int stride, const float* p, int count, const float* roots) const {
        static_assert(CHANNELS <= THREADS, "one each");
        const int c = threadIdx.x;
        if (c >= count) return;
        const float gamma = p[c], beta = p[count + c], tau = p[2 * count + c];
#pragma unroll
        for (int k = 0; k < IMG; k++) table[k * stride + c] = make_float4(gamma * roots[k * stride + c], beta, tau, gamma);
    }
    // Four numbers into a bordered plane; the lane after this one has the four pixels that follow.
    // They begin one number beyond a multiple of 16 bytes. So a lane takes the last one of the lane
    // before and leaves its own last one to the lane after, and stores 16 bytes at once; one by one,
    // four lanes would meet in every bank. The last lane of a row stores its last number too, with
    // the border. Every number has one lane that writes it. For whole warps only.
    // `STEP`: from a lane to the one with the pixels that follow.
    template <int STEP = 1> static __device__ __forceinline__ void to_plane(float* plane, int pixel, const float4& v) {
        float* to = plane + (pixel / S + 1) * ROW + pixel % S;
        float before = 0;
        if constexpr (S > 4) before = __shfl_sync(ALL_LANES, v.w, (threadIdx.x + 32 - STEP) % 32);
        *reinterpret_cast<float4*>(to) = make_float4(pixel % S ? before : 0.0f, v.x, v.y, v.z);
        if (pixel % S == S - 4) *reinterpret_cast<float4*>(to + 4) = make_float4(v.w, 0, 0, 0);
    }

    // What a warp has asked for of the features at its 32 pixels: four of them of channels lane % 4
    // and lane % 4 + 4 of some eights.
    static constexpr int AHEAD = 2, APART = 2 * High::SPLIT;  // eights from one of a warp's to the next
    struct Ahead { float4 low[AHEAD], high[AHEAD]; };
    // This lane's features in channel 0, 4, 8, ...
    __device__ __forceinline__ const float* features_of(const High& product, int channel, int strip) const {
        const int p = product.fours(), own = there(p / AREA) ? p / AREA : 0;
        return unknown(features(at.x, own, channel + product.lane % 4, strip * PX + p % AREA));
    }
    // Asks for an eight. For channels that do not exist, others stand, and their weights are 0 or
    // not read.
    static __device__ __forceinline__ void ask(Ahead& ahead, int i, const float* x, int eight, int in) {
        ahead.low[i] = load_global(x + min(eight * 8, in - 4) * AREA), ahead.high[i] = load_global(x + min(eight * 8 + 4, in - 4) * AREA);
    }
    __device__ __forceinline__ void ask_first(Ahead& ahead, int strip, int channel, int in) const {
        const High product;
        const float* x = features_of(product, channel, strip);
#pragma unroll
        for (int i = 0; i < AHEAD; i++) ask(ahead, i, x, product.split * 2 + product.half + i * APART, in);
    }
    // sums = weights [in][48] in shared memory times FRN of the features, whose first eights were
    // asked for. A warp brings its eights, of two neighbors each every second one, normalizes them
    // and multiplies, and waits for no other; at the end each gives the other half of the rows,
    // through `given`.
    __device__ __forceinline__ void stream(const High& product, float* sums, Ahead& ahead, int strip, int channel, int in, const float4* table, const float* weights, float* given) const {
        float all[2][24];
#pragma unroll
        for (int i = 0; i < 24; i++) all[0][i] = all[1][i] = 0;
        const float* x = features_of(product, channel, strip);
        const float4* frn = table + product.fours() / AREA * CHANNELS + product.lane % 4;
        int eight = product.split * 2 + product.half;
        Spot fours(weights + eight * (8 * 48) + product.lane * 4), twos(weights + eight * (8 * 48) + 128 + product.lane * 2);
        auto one = [](float v, const float4& p) { return factor<TF32>(threshold(fmaf(p.x, v, p.y), p.z)); };
        auto multiply = [&](int i, int now) {
            const float4 p = frn[now * 8], q = frn[min(now * 8 + 4, in - 4)], &l = ahead.low[i], &h = ahead.high[i];
            Factors<TF32, 4> first, second;
            first.set(0, one(l.x, p)), first.set(1, one(l.y, p)), first.set(2, one(h.x, q)), first.set(3, one(h.y, q));
            second.set(0, one(l.z, p)), second.set(1, one(l.w, p)), second.set(2, one(h.z, q)), second.set(3, one(h.w, q));
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float4 a = fours.load4(i * (APART * 8 * 48) + half * 192);
                const float2 b = twos.load2(i * (APART * 8 * 48) + half * 192);
                Factors<TF32, 2> w[3];
                w[0].set(0, a.x), w[0].set(1, a.y), w[1].set(0, a.z), w[1].set(1, a.w), w[2].set(0, b.x), w[2].set(1, b.y);
#pragma unroll
                for (int pair = 0; pair < 2; pair++) {
                    Products<TF32, 3, false> part(reinterpret_cast<float(*)[4]>(all[half]) + pair * 3);
#pragma unroll
                    for (int n = 0; n < 3; n++) part.add(n, pair ? second : first, w[n]);
                }
            }
        };
#pragma unroll 1
        for (; (eight + (AHEAD - 1) * APART) * 8 < in; eight += AHEAD * APART) {
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                multiply(i, eight + i * APART);
                ask(ahead, i, x, eight + (i + AHEAD) * APART, in);
            }
            fours.move(AHEAD * (APART * 8 * 48)), twos.move(AHEAD * (APART * 8 * 48));
        }
#pragma unroll
        for (int i = 0; i < AHEAD - 1; i++)
            if ((eight + i * APART) * 8 < in) multiply(i, eight + i * APART);
        const unsigned warp = this_thread() / 32;
        float* mine = given + warp * (24 * 32) + product.lane * 4;
        const float* other = given + (warp ^ 1) * (24 * 32) + product.lane * 4;
#pragma unroll
        for (int i = 0; i < 24; i += 4) {
            const float4 v = make_float4(all[0][i], all[0][i + 1], all[0][i + 2], all[0][i + 3]), w = make_float4(all[1][i], all[1][i + 1], all[1][i + 2], all[1][i + 3]);
            *reinterpret_cast<float4*>(mine + i * 32) = product.half ? v : w;
        }
        meet<2>(warp);
#pragma unroll
        for (int i = 0; i < 24; i += 4) {
            const float4 v = load4(other + i * 32);
            sums[i] = (product.half ? all[1][i] : all[0][i]) + v.x, sums[i + 1] = (product.half ? all[1][i + 1] : all[0][i + 1]) + v.y;
            sums[i + 2] = (product.half ? all[1][i + 2] : all[0][i + 2]) + v.z, sums[i + 3] = (product.half ? all[1][i + 3] : all[0][i + 3]) + v.w;
        }
        if (STRIPS > 1) meet<2>(warp);  // what it gave has been read
    }
    // The weights of a 1x1 convolution's 48 outputs, all at once.
    __device__ __forceinline__ void request_point(float* to, const float* weights, int in) const { request<THREADS>(to, weights, point_forward(in)); }

    // The sums to `tile`, ends without a barrier.
    __device__ __forceinline__ void point_product(Ahead& x, int strip, int channel, int in, const float4* table, float* tile, const float* weights) const {
        const High product;
        float sums[High::SUMS];
        stream(product, sums, x, strip, channel, in, table, weights, tile);
        __syncthreads();  // what warps gave each other in `tile` has been read
        product.store(sums, tile);
    }

    __device__ __forceinline__ void forward(const Images* set, float* tile) const {
        float *planes = tile + TILE, *weight_buffer = planes + PLANES, *middle = weight_buffer + POINT;
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
        request_point(weight_buffer, ready + prepared, at.width);
        arrived();
        __syncthreads();
#pragma unroll 1
        for (int l = 0; l < at.layers; l++) {
            const int in = at.width + GROWTH * l, first = GROWTH * (at.layers - l);
            Ahead x;
            ask_first(x, 0, first, in);
            request_all<THREADS, MIDDLE_FORWARD>(middle, ready + prepared + point_forward(in) + point_backward(in));
            tabulate(table, CHANNELS, raw, in, roots + first);
            __syncthreads();
            const float *p2 = raw2 + l % 2 * (3 * 48), *after = point + parameter + layer_parameters(in);
            if (l + 1 < at.layers || at.next_channels) request<THREADS>(raw, after, 3 * (in + GROWTH));
            if (l + 1 < at.layers) request<THREADS>(raw2 + (l + 1) % 2 * (3 * 48), after + 51 * (in + GROWTH), 3 * 48);
            float* z = values + at.z + l * at.z_step;
            // the weights after these when all warps have read them
            auto next = [&] { if ((l + 1 < at.layers || at.next_channels)) request_point(weight_buffer, ready + prepared + layer_prepared(in), in + GROWTH); };
            if constexpr (HELD) {
                middle_held(x, l, first, in, p2, z, table, z_table, tile, planes, weight_buffer, next);
            } else {
                static_assert(HELD || STRIPS == 1, "strips have many pixels");
                point_product(x, 0, first, in, table, tile, weight_buffer);
                arrived();  // the weights in `middle`
                __syncthreads();
                next();
                const unsigned thread = this_thread();
#pragma unroll
                for (int i = 0; i < Wide_::ITER; i++) {
                    const Wide_ own(i, thread);
                    if (!own.used) continue;
                    float4 v[Wide_::V];
                    float sum = 0;
#pragma unroll
                    for (int k = 0; k < Wide_::V; k++) {
                        v[k] = High::total(tile, own.row, own.image * PXI + own.pixel(k));
                        sum = square(v[k], sum);
                        if (there(own.image)) store_global(z + ((long long)(image + own.image) * 48 + own.row) * AREA + own.pixel(k), v[k]);
                    }
                    const float root = 1.0f / sqrtf(Wide_::over_lanes(sum) / AREA + FRN_EPSILON);
                    const float4 frn = make_float4(p2[own.row] * root, p2[48 + own.row], p2[96 + own.row], root);
                    if (own.lane == 0 && there(own.image)) values[at.z_roots + ((long long)l * at.batch + image + own.image) * 48 + own.row] = root;
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
                // a warp brings a row of four planes, at a time
                static_assert(TOGETHER == 8 && S == 32 && HELD, "rows of a warp");
                constexpr int LOADS = 2 * S / WARPS;
                const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = lane % 4 * 2 + warp % 2, pixel = warp / 2 * S + lane / 4 * 4;
                const float* from = z + (long long)image * (48 * AREA) + middle_place(row, pixel);
                float4 v[LOADS];
                auto fetch = [&](int c) {
#pragma unroll
                    for (int i = 0; i < LOADS; i++) v[i] = load_global(from + c * AREA + i * (WARPS / 2 * S * 8));
                };
                fetch(0);
#pragma unroll 1
                for (int c = 0; c < 48; c += TOGETHER) {
                    float* to = planes + c / TOGETHER % 2 * (TOGETHER * PLANE);
#pragma unroll
                    for (int i = 0; i < LOADS; i++) to_plane<4>(to + row * PLANE, pixel + i * (WARPS / 2 * S), normalized<TF32>(v[i], z_table[c + row]));
                    __syncthreads();
                    if (c + TOGETHER < 48) fetch(c + TOGETHER);
                    product.template convolve<S, TOGETHER, PLANE>(sums, to, middle + c * 9 * 16, 0);
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
                    if (there(own.image)) store_global(features(at.x, own.image, c, own.pixel(k)), v);
                }
                keep_root<Narrow_>(own, sum, roots, c);
            }
            arrived();
            __syncthreads();
            parameter += layer_parameters(in), prepared += layer_prepared(in);
        }
        if (at.next_channels) transition(parameter, prepared, tile, weight_buffer, table, roots, raw);
    }
    // A layer's 1x1 convolution, whose first features were asked for, to `z` and the table of FRN 2, and through FRN 2 to `planes`
    // if there is one strip. No warps share a sum, so that all of this is done by the threads that hold the sums.
    template <class N> __device__ __forceinline__ void middle_held(Ahead& x, int l, int first, int in, const float* p2, float* z, const float4* table, float4* z_table, float* tile, float* planes, const float* weights, N next) const {
        static_assert(PX == 256 && 48 * 8 <= THREADS, "eight threads a channel");
        const High product;
        float sums[High::SUMS], part[6];
#pragma unroll
        for (int i = 0; i < 6; i++) part[i] = 0;
#pragma unroll 1
        for (int strip = 0; strip < STRIPS; strip++) {
            stream(product, sums, x, strip, first, in, table, weights, tile);
            if (strip + 1 < STRIPS) ask_first(x, strip + 1, first, in);
            float* to = z + (long long)image * (48 * AREA) + middle_place(product.row(0), strip * PX + product.fours());
#pragma unroll
            for (int i = 0; i < 6; i++) {
                const float4 v = product.held(sums, i);
                part[i] = square(v, part[i]);
                store_global(to + middle_step(i), v);
            }
        }
        float* squares = tile + GIVEN;  // the warps' sums of squares
        int from = 0, end = 6;
        HighSums::add(part, product.four(), from, end);
#pragma unroll
        for (int i = 0; i < HighSums::COUNT; i++)
            if (from + i < end && !(product.four() & HighSums::DOUBLE)) squares[product.pixel / 32 * SQUARES + product.row(0) + High::offset(from + i)] = part[i];
        arrived();        // the weights in `middle`
        __syncthreads();  // `squares` and, for the strips, `z` are there
        next();
        if (threadIdx.x < 48 * 8) {
            const int c = threadIdx.x / 8, w = threadIdx.x % 8;
            float sum = squares[w * SQUARES + c];
#pragma unroll
            for (int m = 4; m; m >>= 1) sum += __shfl_xor_sync(ALL_LANES, sum, m);
            const float root = 1.0f / sqrtf(sum / AREA + FRN_EPSILON);
            if (w == 0) {
                values[at.z_roots + ((long long)l * at.batch + image) * 48 + c] = root;
                z_table[c] = make_float4(p2[c] * root, p2[48 + c], p2[96 + c], root);
            }
        }
        __syncthreads();  // `z_table` is there
        if constexpr (STRIPS == 1) {
#pragma unroll
            for (int i = 0; i < 6; i++) {
                const int row = product.row(i);
                to_plane<High::LANE_STEP>(planes + row * PLANE, product.fours(), normalized<TF32>(product.held(sums, i), z_table[row]));
            }
            __syncthreads();  // `planes` are there
        }
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
            planes[c * PLANE + (p / S + 1) * ROW + p % S + 1] = c < 3 ? factor<TF32>(placed_pixel(set, visit, 3, 32, 32, i)) : 0;
        }
    }
    __device__ __forceinline__ void stem(const Images& set, float* tile, float* planes, float* weights, float* roots) const {
        typedef Plane<24, 1, PXI, THREADS> Own;
        request_all<THREADS, STEM_FORWARD>(weights, ready);
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
            product.template convolve<S, 8, PLANE>(sums, planes, weights, strip * STRIP_ROWS);
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
                    store_global(features(at.x, 0, first + own.row, strip * PX + own.pixel(k)), v);
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
            Ahead x;
            ask_first(x, 0, 0, channels);
            tabulate(table, CHANNELS, raw, channels, roots);
            __syncthreads();
#pragma unroll 1
            for (int o = 0; o < channels / 2; o += 48) {
                float part[Own::ITER];
#pragma unroll
                for (int i = 0; i < Own::ITER; i++) part[i] = 0;
#pragma unroll 1
                for (int strip = 0; strip < STRIPS; strip++) {
                    point_product(x, strip, 0, channels, table, tile, weight_buffer);
                    __syncthreads();
                    if (strip + 1 < STRIPS) {
                        ask_first(x, strip + 1, 0, channels);
                    } else if (o + 48 < channels / 2) {
                        ask_first(x, 0, 0, channels);
                        request_point(weight_buffer, ready + prepared + (o / 48 + 1) * point_forward(channels), channels);
                    }
                    const unsigned thread = this_thread();
#pragma unroll
                    for (int i = 0; i < Own::ITER; i++) {
                        const Own own(i, thread);
                        if (!own.used) continue;
                        const int c = at.next_first + o + own.row;
                        const long long of_image = (long long)(image + own.image) * at.next_channels;
#pragma unroll
                        for (int k = 0; k < Own::V; k++) {
                            const int p = own.pixel(k), from = own.image * PXI + p / HALF * 2 * S + p % HALF * 2;
                            const float4 a = High::total(tile, own.row, from), b = High::total(tile, own.row, from + 4);
                            const float4 d = High::total(tile, own.row, from + S), e = High::total(tile, own.row, from + S + 4);
                            const float4 v = make_float4((a.x + a.y + d.x + d.y) / 4, (a.z + a.w + d.z + d.w) / 4, (b.x + b.y + e.x + e.y) / 4, (b.z + b.w + e.z + e.w) / 4);
                            part[i] = square(v, part[i]);
                            if (there(own.image)) store_global(values + at.next_x + of_image * (AREA / 4) + feature(c, strip * (PXI / 4) + p, AREA / 4), v);
                        }
                        if (strip + 1 < STRIPS) continue;
                        const float root = 1.0f / sqrtf(Own::over_lanes(part[i]) / (AREA / 4) + FRN_EPSILON);
                        if (own.lane == 0 && there(own.image)) values[at.next_roots + of_image + c] = root;
                    }
                    arrived();
                    __syncthreads();
                }
            }
        }
    }

    // ---- backward ----------------------------------------------------------------------------------------------------------

    struct Back {
        float *shifted, *dz, *dz_rows, *u, *tile, *middle_weights, *exchange, *staged, *of_groups, *weights, *sums, *roots, *z_gammas, *z_means, *frn_sums;
        float4 *table, *z_table;
        __device__ __forceinline__ Back(float* shared) {
            dz = shared, dz_rows = dz + DZ, shifted = STRIPS > 1 ? shared : shared + 2 * DZ;
            u = shifted + SHIFTED, tile = u + 48 * PLAIN, middle_weights = tile + AFTER_U;
            exchange = STRIPS > 1 ? shared + DZ : u, staged = exchange + FEATURES, of_groups = exchange + EXCHANGED, weights = of_groups + 3 * OF_GROUPS;
            table = reinterpret_cast<float4*>(shared + WORK), z_table = table + IMG * CHANNELS;
            roots = reinterpret_cast<float*>(z_table + IMG * 48), sums = roots + IMG * CHANNELS;
            z_means = sums + IMG * CHANNELS, frn_sums = z_means + IMG * 48, z_gammas = frn_sums + 3 * IMG * 48;
        }
    };
    // Where four pixels of a row of the gradient at the middle of a layer lie, and those of rows that are a multiple of eight beyond;
    // with TWO the next row's as well, the first one being even.
    template <bool TWO> struct Put {
        float *first, *second, *row, *next;
        __device__ __forceinline__ Put(const Back& to, int at, int pixel)
            : first(to.dz + paired<PX>(at, pixel)), second(to.dz + paired<PX>(at, pixel + 2)), row(to.dz_rows + in_row<PX>(at, pixel)), next(to.dz_rows + in_row<PX>(at + TWO, pixel)) {}
        static __device__ __forceinline__ constexpr int far(int eights) { return eights * (PX / 16) * 128; }
        __device__ __forceinline__ void put(int eights, const float4& v) const {
            float *a = first + far(eights), *b = second + far(eights);
            a[0] = v.x, a[2] = v.y, b[0] = v.z, b[2] = v.w;
            *reinterpret_cast<float4*>(row + eights * 8 * PX) = v;
        }
        __device__ __forceinline__ void put(int eights, const float4& v, const float4& w) const {
            *reinterpret_cast<float4*>(first + far(eights)) = make_float4(v.x, w.x, v.y, w.y);
            *reinterpret_cast<float4*>(second + far(eights)) = make_float4(v.z, w.z, v.w, w.w);
            *reinterpret_cast<float4*>(row + eights * 8 * PX) = v;
            *reinterpret_cast<float4*>(next + eights * 8 * PX) = w;
        }
    };
    static __device__ __forceinline__ float4 without_mean(const float4& g, const float4& v, float root, float mean) {
        return make_float4(factor<TF32>(root * (g.x - v.x * mean)), factor<TF32>(root * (g.y - v.y * mean)),
                           factor<TF32>(root * (g.z - v.z * mean)), factor<TF32>(root * (g.w - v.w * mean)));
    }
    // The gradient at the features c, V times four pixels of it: through the normalization, all FRNs at once.
    template <class P> __device__ __forceinline__ void through(const Back& to, const P& own, int c, int begin, float4* d) const {
        static_assert(IMG == 1, "it exists");
        float4 x[P::V];
#pragma unroll
        for (int k = 0; k < P::V; k++) {
            d[k] = load_once(features(at.g, own.image, c, begin + own.pixel(k)));
            x[k] = load_once(features(at.x, own.image, c, begin + own.pixel(k)));
        }
        without_means(to, own, c, d, x);
    }
    template <class P> __device__ __forceinline__ void without_means(const Back& to, const P& own, int c, float4* d, const float4* x) const {
        const float root = to.roots[own.image * CHANNELS + c], mean = to.sums[own.image * CHANNELS + c] / AREA * root;
#pragma unroll
        for (int k = 0; k < P::V; k++) d[k] = without_mean(d[k], x[k], root, mean);
    }

    // One number through threshold and scale: returns the gradient at the normalized value, adds to the sums of gamma (which lacks
    // 1/root) and beta, and to the sum of what arrives; what of it does not pass is tau's.
    static __device__ __forceinline__ float through_threshold(float d, float v, const float4& frn, float gamma, float& sum, float& dbeta, float& all) {
        const float passed = share_above(fmaf(frn.x, v, frn.y), frn.z) * d;
        sum = fmaf(passed, v, sum);
        dbeta += passed;
        all += d;
        return gamma * passed;
    }
    static __device__ __forceinline__ float4 through_threshold(const float4& d, const float4& v, const float4& frn, float gamma, float& sum, float& dbeta, float& all) {
        float4 r;
        r.x = through_threshold(d.x, v.x, frn, gamma, sum, dbeta, all), r.y = through_threshold(d.y, v.y, frn, gamma, sum, dbeta, all);
        r.z = through_threshold(d.z, v.z, frn, gamma, sum, dbeta, all), r.w = through_threshold(d.w, v.w, frn, gamma, sum, dbeta, all);
        return r;
    }

    // What a thread has asked for of the features where it will hold sums of a product, and, without strips, of the weights.
    typedef float4 Features[Flat::ROWS][Flat::TILES];
    struct Held { Features x; float4 weights[6]; };
    // Marks it as not needed, so that no registers keep it.
    static __device__ __forceinline__ void forget(Held& held) {
#ifndef EMULATED
        float* all = &held.x[0][0].x;
#pragma unroll
        for (int i = 0; i < (int)(sizeof(Held) / 4); i++) asm("" : "=f"(all[i]));
#endif
    }
    // From the thread's first channel to another, `row` channels beyond; one that does not exist has weights of 0, and adds 0 to
    // the one 16 before it. `left`: channels from the first one's pair on.
    static __device__ __forceinline__ int beyond(int row, int left) { return row < left ? row : row - 16; }
    // A tensor's numbers at the thread's first channel, `channel` for the first team, and its first four pixels.
    __device__ __forceinline__ float* place(long long tensor, int channel) const {
        const Flat own;
        const int p = own.pixel(), of = SETS == 1 && there(p / PXI) ? p / PXI : 0;
        return features(tensor, of, channel + own.team * 16 + own.row(), p % PXI);
    }
    // From there to the other fours, which may be those of other images.
    __device__ __forceinline__ int to_tile(int t) const { return SETS == 1 ? t * 32 : there(t) ? t * channels * AREA : 0; }
    // Asks for features at the thread's channels.
    __device__ __forceinline__ void fetch(Features& features, const float* x, int left) const {
#pragma unroll
        for (int h = 0; h < Flat::ROWS; h++) {
            const float* from = unknown(x + beyond(h * 8, left) * AREA);
#pragma unroll
            for (int t = 0; t < Flat::TILES; t++) features[h][t] = load_once(from + to_tile(t));
        }
    }
    static __device__ __forceinline__ const float* weights_of(const float* weights) { return unknown(weights + Flat().team * (16 * 48) + this_thread() % 32 * 4); }
    static __device__ __forceinline__ float4 weight(const float* weights, int s) { return __ldg(reinterpret_cast<const float4*>(weights + s * 128)); }
    // Asks for the weights too.
    __device__ __forceinline__ void fetch(Held& held, const float* weights, const float* x, int left) const {
        fetch(held.x, x, left);
#pragma unroll
        for (int s = 0; s < 6; s++) held.weights[s] = weight(weights, s);
    }
    // The first ones.
    __device__ __forceinline__ void fetch_first(Held& held, const float* weights, int channel, int in) const {
        const int left = in - first_column() - Flat().pair();
        if (in > first_column()) fetch(held, weights_of(weights), place(at.x, channel), left);
        else forget(held);
    }
    static __device__ __forceinline__ int first_column() { return Flat().team * 16; }
    // What a warp does with the sums of its channels from c0 on, of which there are `count`: they pass FRN in the registers that hold them, and
    // are added to the gradient at the normalized features; these take the place of the features.
    __device__ __forceinline__ void through_frn(const Back& to, const Flat& own, const typename Flat::Sums& sums, Features& x, float (&part)[SETS][3][Flat::ROWS], float* gradient, int c0, int left, int count, bool write) const {
#pragma unroll
        for (int h = 0; h < Flat::ROWS; h++) {
            if (STRIPS > 1 && h && h * 8 >= count + h % 2 * 8) break;
            const int row = beyond(h * 8, left);
            float* add_to = const_cast<float*>(unknown(gradient + row * AREA));
            const float4* table = to.table + c0 + own.row() + row + (SETS == 1 ? own.pixel() / PXI * CHANNELS : 0);
#pragma unroll
            for (int t = 0; t < Flat::TILES; t++) {
                const int set = SETS == 1 ? 0 : t;
                const float4 frn = table[set * CHANNELS];
                const float4 g = through_threshold(own.held(sums, h, t), x[h][t], frn, frn.w, part[set][0][h], part[set][1][h], part[set][2][h]);
                if (!write) add_global(add_to + to_tile(t), g);
                else if (there(SETS == 1 ? own.pixel() / PXI : t)) store_global(add_to + to_tile(t), g);
                x[h][t] = normalized<TF32>(x[h][t], frn);
            }
        }
    }
    // Sums for the gradients of FRN over the lanes that share rows, to `of_groups`. Without sets a lane ends with both rows of one sum.
    __device__ __forceinline__ void keep_part(const Back& to, const Flat& own, float (&part)[SETS][3][2], int c0) const {
        float all[SETS == 1 ? 8 : SETS * 6];
#pragma unroll
        for (int i = 0; i < SETS * 6; i++) all[i] = part[i / 6][i / 2 % 3][i % 2] - (i / 2 % 3 == 2 ? part[i / 6][1][i % 2] : 0.0f);
        if (SETS == 1) all[6] = all[7] = 0;
        typedef SharedSums<SETS == 1 ? 8 : 6 * SETS, 4> Shared;
        int first = 0, end = 8 * SETS;
        Shared::add(all, own.lane % 4, first, end);
        float* of_group = to.of_groups + own.group * SETS * CHANNELS + c0 + own.row() + own.lane % 4 * (SETS == 1 ? OF_GROUPS : CHANNELS);
        if (SETS == 1 && own.lane % 4 == 3) return;
#pragma unroll
        for (int i = 0; i < Shared::COUNT; i++) of_group[i / 2 * OF_GROUPS + i % 2 * 8] = all[i];
    }
    // The same of a strip, added to those of the strips before.
    __device__ __forceinline__ void keep_part(const Back& to, const Flat& own, float (&part)[SETS][3][6], int c0, int strip) const {
#pragma unroll
        for (int i = 0; i < 6; i++) part[0][2][i] -= part[0][1][i];
        typedef SharedSums<6, 4> Shared;
        int first, end;
#pragma unroll
        for (int q = 0; q < 3; q++) first = 0, end = 6, Shared::add(part[0][q], own.lane % 4, first, end);
        float* of_group = to.of_groups + own.group * CHANNELS + c0 + own.row() + first * 8;
#pragma unroll
        for (int i = 0; i < Shared::COUNT; i++)
#pragma unroll
            for (int q = 0; q < 3; q++) {
                float* sum = of_group + q * OF_GROUPS + i * 8;
                if (first + i < end) *sum = strip ? *sum + part[0][q][i] : part[0][q][i];
            }
    }
    // Gradients of FRN, from `of_groups`.
    __device__ __forceinline__ void keep_frn(const Back& to, int channel, int in, float* frn_gradient, bool again) const {
        for (int c = threadIdx.x; c < in; c += THREADS)
#pragma unroll
            for (int k = 0; k < 3; k++) {
                float sum = 0;
#pragma unroll
                for (int j = 0; j < IMG; j++) {
                    constexpr int EACH = GROUPS / IMG;
                    const float* from = to.of_groups + k * OF_GROUPS + j * EACH * CHANNELS + c;
                    float one = from[0];
#pragma unroll
                    for (int w = 1; w < EACH; w++) one += from[w * CHANNELS];
                    if (k == 0) {
                        one *= to.roots[j * CHANNELS + channel + c];
                        to.sums[j * CHANNELS + channel + c] += to.table[j * CHANNELS + c].w * one;
                    }
                    sum += one;
                }
                float* gradient = frn_gradient + k * in + c;
                *gradient = again ? *gradient + sum : sum;
            }
    }
    // A 1x1 convolution with FRN before it, 48 outputs: adds to the gradient at the normalized
    // features (with `write` it is 0 before) and writes (or adds) the gradients of FRN and weights. The gradient of the outputs is there. A
    // team of warps takes 16 channels at a time, the teams by turns, and none waits for another.
    // The first weights and features were asked for before; those that follow are as soon as registers are free.
    __device__ __forceinline__ void point_back(const Back& to, Held& held, int channel, int in, const float* weights, float* frn_gradient, float* weight_gradient, bool write, bool again) const {
        const float *x = unknown(place(at.x, channel)), *w = weights_of(weights);
        const long long to_gradient = at.g - at.x;
        int c0 = first_column();
#pragma unroll 1
        for (int round = 0; round < in; round += COLUMNS) {
            const bool works = c0 < in;  // all teams meet equally often: otherwise racecheck does not see what the block's barriers order
            const int left = in - c0 - Flat().pair();
            float outer[6][4], part[SETS][3][2];
#pragma unroll
            for (int i = 0; i < 24; i++) outer[i / 4][i % 4] = 0;
#pragma unroll
            for (int i = 0; i < SETS * 6; i++) part[i / 6][i / 2 % 3][i % 2] = 0;
            if (works) {
                const Flat own;
                float* gradient = const_cast<float*>(x) + to_gradient;
                typename Flat::Sums sums;
                own.multiply(sums, [&](int s) { return held.weights[s]; }, to.dz);
                through_frn(to, own, sums, held.x, part, gradient, c0, left, 16, write);
                own.template gradients<false>(outer, held.x, to.dz_rows);
            }
            x = unknown(x + COLUMNS * AREA), w = unknown(w + COLUMNS * 48);
            if (c0 + COLUMNS < in) fetch(held, w, x, left - COLUMNS);
            else forget(held);
            float* exchange = to.exchange + round / COLUMNS % 2 * (EXCHANGED / 2);  // what was given a round ago may not have been read yet
            if (works) {
                const Flat own;
                own.give(outer, exchange);
                keep_part(to, own, part, c0);
            }
            meet<Flat::TEAM>(this_thread() / 32);
            if (works) Flat().keep(outer, exchange, weight_gradient + c0 * 48);
            c0 += COLUMNS;
        }
        __syncthreads();  // `of_groups` are there
        keep_frn(to, channel, in, frn_gradient, again);
        __syncthreads();
    }
    // The same with strips. `bring(strip)` puts the gradient of the outputs, at the pixels of two warps, into `dz`, what it needs
    // having been requested by `ask(strip)`.
    template <class A, class B> __device__ __forceinline__ void point_back(const Back& to, int channel, int in, const float* weights, float* frn_gradient, float* weight_gradient, bool write, bool again, A ask, B bring) const {
#pragma unroll 1
        for (int c0 = 0; c0 < in; c0 += COLUMNS) {
            const int count = min(COLUMNS, in - c0);
            float outer[Out::SUMS];
#pragma unroll
            for (int i = 0; i < Out::SUMS; i++) outer[i] = 0;
#pragma unroll 1
            for (int strip = 0; strip < STRIPS; strip++) {
                const unsigned warp = this_thread() / 32;
                if (strip == 0) {
                    __syncthreads();  // what was shared has been read
                    request<THREADS>(to.weights, weights + c0 * 48, min(COLUMNS, round16(in) - c0) * 48);
                    ask(0);
                } else {
                    meet<2>(warp);  // the strip before has been read
                }
                arrived();
                bring(strip);
                if (strip + 1 < STRIPS) ask(strip + 1);
                const int left = in - c0 - Flat().pair();  // formed anew for each strip, or else what follows from it is kept in memory
                const float* x = place(at.x, channel + c0) + strip * (2 * PX);
                float* gradient = const_cast<float*>(x) + (at.g - at.x);
                Features u;
                fetch(u, x, left);
                if (strip == 0) __syncthreads();  // weights and `dz` are there
                else meet<2>(warp);
                const Flat own;
                float part[SETS][3][6];
#pragma unroll
                for (int i = 0; i < 18; i++) part[0][i / 6][i % 6] = 0;
                typename Flat::Sums sums;
                own.multiply(sums, to.weights, to.dz, count);
                through_frn(to, own, sums, u, part, gradient, c0, left, count, write);
                float* tile = to.exchange + warp / 2 * TILED;
#pragma unroll
                for (int h = 0; h < Flat::ROWS; h++) *reinterpret_cast<float4*>(tile + tiled(own.row(), own.pixel() % 32) + h * 256) = u[h][0];
                keep_part(to, own, part, c0, strip);
                meet<2>(warp);  // the features of two warps are normalized
                const int half = warp % 2;
                if (half * 24 < count) Out::add(outer, to.dz + warp / 2 * TILED, tile + half * (24 * 32));
            }
            __syncthreads();  // features have been read
            keep_outer(to, outer, in, c0, count, weight_gradient);
        }
        __syncthreads();  // `of_groups` are there
        keep_frn(to, channel, in, frn_gradient, again);
        __syncthreads();
    }
    // The sums of `Outer` of all warps to the weights' gradient.
    __device__ __forceinline__ void keep_outer(const Back& to, const float* outer, int in, int c0, int count, float* weight_gradient) const {
        const unsigned thread = this_thread();
        const int lane = thread % 32, warp = thread / 32;
        float* mine = to.exchange + warp / 2 * Out::SIZE + warp % 2 * 24 + Out::row(0, lane) * Out::WIDE + Out::column(0, lane);
#pragma unroll
        for (int i = 0; i < Out::SUMS; i += 2) *reinterpret_cast<float2*>(mine + Out::row(i, 0) * Out::WIDE + Out::column(i, 0)) = make_float2(outer[i], outer[i + 1]);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 48 * 12; i += THREADS) {
            const int o = (thread + i) / 12, c = (thread + i) % 12 * 4;
            if (o < 48 && c < count) store_global(weight_gradient + o * in + c0 + c, added<WARPS / 2>(to.exchange + o * Out::WIDE + c, Out::SIZE));
        }
    }
    // The sums of `Nine` to the weights of a layer's 3x3 convolution, or else to those of the stem;
    // `ask` when registers are free.
    template <bool LAYER, class F> __device__ __forceinline__ void keep_nine(const Back& to, const float* nine, float* gradient, F ask) const {
        __syncthreads();
        Nine::template store<LAYER>(nine, to.u);
        ask();
        __syncthreads();
        if constexpr (LAYER) {
            constexpr int ROWS = THREADS / 108;
            static_assert(12 % ROWS == 0, "whole rows");
            if (threadIdx.x < ROWS * 108) {
                const float* from = to.u + threadIdx.x / 108 * Nine::WIDE + threadIdx.x % 108 * 4;
                float* sum = const_cast<float*>(unknown(gradient + threadIdx.x * 4));
#pragma unroll
                for (int o = 0; o < 12; o += ROWS) store_global(sum + o * 432, Nine::total(from, o, 0));
            }
        } else {
            for (int i = threadIdx.x; i < 3 * 54; i += THREADS) {
                const int o = i / 54, at_four = i % 54 * 4;
                const float4 sum = Nine::total(to.u, o, at_four);
                const float v[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
                for (int j = 0; j < 4; j++) gradient[((at_four + j) / 9 * 3 + o) * 9 + (at_four + j) % 9] = v[j];
            }
        }
        __syncthreads();
    }

    // Which fours of a strip's [48][PX] a thread brings: of two neighboring rows at a time, if their number is even; where there are
    // strips, those of the pixels of its two warps.
    static constexpr int BROUGHT = 48 * PX / 4 / THREADS;
    static constexpr bool BY_TWOS = STRIPS == 1 && BROUGHT % 2 == 0;
    static __device__ __forceinline__ int brought_row(unsigned thread) { return STRIPS > 1 ? thread / 2 % 4 * 2 + thread / 32 % 2 : thread / (PX / 4) * (BY_TWOS ? 2 : 1); }  // the first
    static __device__ __forceinline__ constexpr int brought_after(int i) { return STRIPS > 1 ? i * 8 : BY_TWOS ? i / 2 * 16 + i % 2 : i * 16; }  // from there to others
    static __device__ __forceinline__ int brought_pixel(unsigned thread) { return STRIPS > 1 ? thread / 64 * 32 + thread % 32 / 8 * 8 + thread % 2 * 4 : thread % (PX / 4) * 4; }
    static __device__ __forceinline__ void put_brought(const Back& to, const float4 (&v)[BROUGHT]) {
        const unsigned thread = this_thread();
        if constexpr (STRIPS > 1) {
            float* tile = to.dz + tiled(brought_row(thread), brought_pixel(thread));
#pragma unroll
            for (int i = 0; i < BROUGHT; i++) *reinterpret_cast<float4*>(tile + i * 8 * 32) = v[i];
        } else {
            const Put<BY_TWOS> place(to, brought_row(thread), brought_pixel(thread));
#pragma unroll
            for (int i = 0; i < BROUGHT; i += BY_TWOS ? 2 : 1) {
                if (BY_TWOS) place.put(brought_after(i) / 8, v[i], v[i + BY_TWOS]);
                else place.put(brought_after(i) / 8, v[i]);
            }
        }
    }
    // The gradient at 48 outputs of the transition, from `o` on: what the next block has there, through its normalization, and
    // back from the mean over 2 x 2 pixels.
    __device__ __forceinline__ void bring_pooled(const Back& to, int o, int strip) const {
        static_assert(S == 4 || (THREADS * BROUGHT * 4 == 48 * PX && (STRIPS > 1 ? THREADS == PX * 2 : THREADS == (BY_TWOS ? 8 : 16) * (PX / 4))), "all of it");
        const unsigned thread = this_thread();
        const int px = brought_pixel(thread), own = px / PXI, p = strip * PX + px % PXI, from = p / S / 2 * (S / 2) + p % S / 2;
        const bool exists = there(own);
        // all loads before the first store, or each would wait for the one before
        const int channel = at.next_first + o + brought_row(thread);
        const long long of_image = (long long)(image + (exists ? own : 0)) * at.next_channels, c = of_image + channel, place = of_image * (AREA / 4) + feature(channel, from, AREA / 4);
        const float *gradients = unknown(values + at.next_g + place), *features = unknown(values + at.next_x + place), *roots = unknown(values + at.next_roots + c), *sums = unknown(values + at.next_sums + c);
        float2 g[BROUGHT], x[BROUGHT];
        float root[BROUGHT], mean[BROUGHT];
#pragma unroll
        for (int i = 0; i < BROUGHT; i++) {
            const int far = brought_after(i), beyond = feature(far, 0, AREA / 4);  // the first one is even or `far` is
            g[i] = load_global2(gradients + beyond), x[i] = load_global2(features + beyond);
            root[i] = roots[far], mean[i] = sums[far];
        }
        float4 v[BROUGHT];
#pragma unroll
        for (int i = 0; i < BROUGHT; i++) {
            const float m = mean[i] / (AREA / 4) * root[i], scale = exists ? root[i] : 0.0f, a = factor<TF32>(scale * (g[i].x - x[i].x * m) / 4), b = factor<TF32>(scale * (g[i].y - x[i].y * m) / 4);
            v[i] = make_float4(a, a, b, b);
        }
        put_brought(to, v);
    }
    // The gradient at the middle of a layer, through the normalization of FRN 2, where it had to wait in memory: what a thread
    // has requested for itself.
    __device__ __forceinline__ void request_middle(const Back& to, const float* z, int strip) const {
        const unsigned thread = this_thread();
        const long long from = (long long)image * (48 * AREA) + middle_place(brought_row(thread), strip * PX + brought_pixel(thread));
        const float *gradient = unknown(values + at.dz + from), *middle = unknown(z + from);
        float* staged = to.staged + thread * 4;
#pragma unroll
        for (int i = 0; i < BROUGHT; i++) request4(staged + 2 * i * (THREADS * 4), gradient + i * 8 * AREA), request4(staged + (2 * i + 1) * (THREADS * 4), middle + i * 8 * AREA);
    }
    __device__ __forceinline__ void bring_middle(const Back& to) const {
        const unsigned thread = this_thread();
        const Spot staged(to.staged + thread * 4);  // read before it is requested anew
        float4 v[BROUGHT];
#pragma unroll
        for (int i = 0; i < BROUGHT; i++) {
            const int row = brought_row(thread) + brought_after(i);
            const float root = to.z_table[row].w;
            v[i] = without_mean(staged.load4(2 * i * (THREADS * 4)), staged.load4((2 * i + 1) * (THREADS * 4)), root, to.z_means[row] * root);
        }
        put_brought(to, v);
    }
    // Requests a strip of z; the threads that requested it normalize it. A thread's rows are eight apart; two neighboring threads have
    // 32 bytes, since what is copied past the first cache is asked for by fours of lanes.
    static __device__ __forceinline__ int strip_row(unsigned thread) { return thread / 2 % 4 * 2 + thread / 256; }
    static __device__ __forceinline__ int strip_pixel(unsigned thread) { return thread / 32 % 8 * 32 + thread % 32 / 8 * 8 + thread % 2 * 4; }
    __device__ __forceinline__ void get_middle(float* to, const float* z, int strip) const {
        static_assert(STRIPS == 1 || (THREADS == 512 && PX == 256), "six each");
        const unsigned thread = this_thread();
        const float* from = unknown(z + (long long)image * (48 * AREA) + middle_place(strip_row(thread), strip * PX + strip_pixel(thread)));
        to += strip_row(thread) * PLAIN + strip_pixel(thread);
#pragma unroll
        for (int i = 0; i < 6; i++) request4(to + i * 8 * PLAIN, from + i * 8 * AREA);
    }
    static __device__ __forceinline__ void normalize_middle(const Back& to, float* u) {
        const unsigned thread = this_thread();
        const float4* table = to.z_table + strip_row(thread);
        u += strip_row(thread) * PLAIN + strip_pixel(thread);
#pragma unroll
        for (int i = 0; i < 6; i++) *reinterpret_cast<float4*>(u + i * 8 * PLAIN) = normalized<TF32>(load4(u + i * 8 * PLAIN), table[i * 8]);
    }
    // The 3x3 convolution's input gradient through threshold and scale of FRN 2 where no warps share a sum, by the threads that hold
    // the sums: with strips to `dz` in memory, else with the normalization to `dz` on chip, and FRN 2 to `u`. Gradients of FRN 2
    // go to `frn_sums`. No barrier stands between the strips: they only read what was there before.
    __device__ __forceinline__ void middle_back(const Back& to, const float* z) const {
        // in `tile`: [3][32 pixels][WARP_STRIDE]
        static_assert(High::TEAM == 16 && 48 * 8 <= THREADS, "eight threads a channel");
        const High product;
        const long long from = (long long)image * (48 * AREA) + middle_place(product.row(0), product.fours());
        float4 v[6], g[6];
#pragma unroll 1
        for (int strip = 0; strip < STRIPS; strip++) {
#pragma unroll
            for (int i = 0; i < 6; i++) v[i] = load_once(z + from + middle_step(i) + strip * (PX * 8));
            float sums[High::SUMS], part[3][6];
            product.clear(sums);
            product.template convolve<S, PLANE>(sums, to.shifted, to.middle_weights, strip * STRIP_ROWS);
#pragma unroll
            for (int i = 0; i < 6; i++) {
                const int row = product.row(i);
                const float4 frn = to.z_table[row];
                part[0][i] = part[1][i] = part[2][i] = 0;
                g[i] = through_threshold(product.held(sums, i), v[i], frn, to.z_gammas[row], part[0][i], part[1][i], part[2][i]);
                if constexpr (STRIPS > 1) store_global(values + at.dz + from + middle_step(i) + strip * (PX * 8), g[i]);
                else *reinterpret_cast<float4*>(to.u + row * PLAIN + product.fours()) = normalized<TF32>(v[i], frn);
            }
#pragma unroll
            for (int i = 0; i < 6; i++) part[2][i] -= part[1][i];
            int first, end;
#pragma unroll
            for (int q = 0; q < 3; q++) first = 0, end = 6, HighSums::add(part[q], product.four(), first, end);
            float* of_warp = to.tile + product.pixel / 32 * WARP_STRIDE + product.row(0);  // this lane's alone
#pragma unroll
            for (int i = 0; i < HighSums::COUNT; i++)
#pragma unroll
                for (int q = 0; q < 3; q++) {
                    float* sum = of_warp + q * OF_MIDDLE + High::offset(first + i);
                    if (first + i < end && !(product.four() & HighSums::DOUBLE)) *sum = strip ? *sum + part[q][i] : part[q][i];
                }
        }
        __syncthreads();  // `tile` has what the warps summed
        if (threadIdx.x < 48 * 8) {
            const int c = threadIdx.x / 8, w = threadIdx.x % 8;
            float sum[3];
#pragma unroll
            for (int q = 0; q < 3; q++) {
                sum[q] = to.tile[q * OF_MIDDLE + w * WARP_STRIDE + c];
#pragma unroll
                for (int m = 4; m; m >>= 1) sum[q] += __shfl_xor_sync(ALL_LANES, sum[q], m);
            }
            if (w == 0) {
                const float dgamma = sum[0] * to.z_table[c].w;
                to.frn_sums[c] = dgamma, to.frn_sums[48 + c] = sum[1], to.frn_sums[2 * 48 + c] = sum[2];
                to.z_means[c] = to.z_gammas[c] * dgamma / AREA;
            }
        }
        if constexpr (STRIPS == 1) {
            __syncthreads();  // `z_means` are there
            const Put<true> place(to, product.row(0), product.fours());
#pragma unroll
            for (int i = 0; i < 6; i++) {
                const int row = product.row(i);
                const float root = to.z_table[row].w;
                g[i] = without_mean(g[i], v[i], root, to.z_means[row] * root);
                if (i % 2) place.put(High::offset(i) / 8, g[i - 1], g[i]);
            }
        }
    }
    // What follows where warps share sums, which lie in `tile`: `v` is what FRN 2 read.
    __device__ __forceinline__ void middle_shared(const Back& to, const float4 (&v)[Wide_::ITER][Wide_::V]) const {
        constexpr int ITER = Wide_::ITER;
        static_assert(Wide_::V == 1 && Wide_::STEP % 8 == 0, "a lane has four pixels of a plane");
        const unsigned thread = this_thread();
        const Wide_ first(0, thread);
        const int px = first.image * PXI + first.pixel(0);
        const Put<false> place(to, first.row, px);
        const float4* table = to.z_table + first.image * 48 + first.row;
        const float *tile = to.tile + first.row * High::TO + px, *gammas = to.z_gammas + first.row;
        float *u = to.u + first.row * PLAIN + px, *sums = to.frn_sums + first.image * 48 + first.row;
        float4 g[ITER];
        float part[3][ITER], rest[2 * ITER];
#pragma unroll
        for (int i = 0; i < ITER; i++) {
            part[0][i] = part[1][i] = part[2][i] = 0;
            if (!Wide_(i, thread).used) continue;
            const float4 frn = table[i * Wide_::STEP];
            const float4 d = added<High::SPLIT>(tile + i * Wide_::STEP * High::TO, 48 * High::TO);
            g[i] = through_threshold(d, v[i][0], frn, gammas[i * Wide_::STEP], part[0][i], part[1][i], part[2][i]);
            *reinterpret_cast<float4*>(u + i * Wide_::STEP * PLAIN) = normalized<TF32>(v[i][0], frn);
        }
        // every lane needs the sum of gamma, of the others one lane keeps each
#pragma unroll
        for (int i = 0; i < ITER; i++) rest[i] = part[1][i], rest[ITER + i] = part[2][i] - part[1][i], part[0][i] = Wide_::over_lanes(part[0][i]);
        typedef SharedSums<2 * ITER, Wide_::LANES> Sums;
        int at = 0, end = 2 * ITER;
        Sums::add(rest, first.lane, at, end);
        static_assert(Sums::COUNT == 1, "one each");
        if (at < end && !(first.lane & Sums::DOUBLE) && Wide_(at % ITER, thread).used) sums[(1 + at / ITER) * IMG * 48 + at % ITER * Wide_::STEP] = rest[0];
#pragma unroll
        for (int i = 0; i < ITER; i++) {
            if (!Wide_(i, thread).used) continue;
            const float root = table[i * Wide_::STEP].w, dgamma = part[0][i] * root;
            if (first.lane == 0) sums[i * Wide_::STEP] = dgamma;
            place.put(i * Wide_::STEP / 8, without_mean(g[i], v[i][0], root, gammas[i * Wide_::STEP] * dgamma / AREA * root));
        }
    }
    // Partial sums of FRN and 1x1 convolution of a layer; those of a transition are as many as its parameters.
    static __device__ __forceinline__ constexpr int point_sums(int in) { return 3 * in + 48 * (STRIPS > 1 ? in : round16(in)); }
    static __device__ __forceinline__ constexpr int layer_sums(int in) { return point_sums(in) + layer_parameters(in) - 51 * in; }
    // A layer from its output back to threshold and scale of FRN 2, whose result goes to `dz` in memory; the gradients of FRN 2
    // and of the 3x3 convolution.
    __device__ __forceinline__ void layer_back(const Back& to, Held& held, int l, int in, int first, int parameter, int prepared, float* gradient2, const float* z) const {
        unsigned thread = this_thread();
        const float *p = point + parameter, *p2 = p + 51 * in;
        const int forward = point_forward(in), both = forward + point_backward(in);
        request_all<THREADS, MIDDLE_BACKWARD>(to.middle_weights, ready + prepared + both + MIDDLE_FORWARD);
        // what is read first is asked for at once: the gradient of the layer's output, and FRN 2. With strips the former waits:
        // held so early it costs registers (measured, f32: 1.29 instead of 1.16 ms for the first block)
        static_assert(Narrow_::ITER == 1 && IMG * 48 <= THREADS, "one each");
        const Narrow_ own(0, thread);
        float4 d[Narrow_::V], x[Narrow_::V];
        if (STRIPS == 1 && own.used) {
#pragma unroll
            for (int k = 0; k < Narrow_::V; k++) {
                d[k] = load_once(features_or_first(at.g, own.image, first - GROWTH + own.row, own.pixel(k)));
                x[k] = load_once(features_or_first(at.x, own.image, first - GROWTH + own.row, own.pixel(k)));
            }
        }
        float z_frn[3] = {0, 0, 0}, z_root = 0;
        if (threadIdx.x < IMG * 48) {
            const int c = threadIdx.x % 48, k = threadIdx.x / 48;
#pragma unroll
            for (int i = 0; i < 3; i++) z_frn[i] = __ldg(p2 + 48 * i + c);
            if (there(k)) z_root = values[at.z_roots + ((long long)l * at.batch + image + k) * 48 + c];
        }
        tabulate(to.table, CHANNELS, p, in, to.roots + first);
        if (threadIdx.x < IMG * 48) {
            to.z_table[threadIdx.x] = make_float4(z_frn[0] * z_root, z_frn[1], z_frn[2], z_root);
            if (threadIdx.x < 48) to.z_gammas[threadIdx.x] = z_frn[0];
        }
        if constexpr (STRIPS > 1) {
            for (int i = threadIdx.x; i < SHIFTED; i += THREADS) to.shifted[i] = 0;
            __syncthreads();
        }
        if (own.used) {
            if constexpr (STRIPS == 1) without_means(to, own, first - GROWTH + own.row, d, x);
            else through(to, own, first - GROWTH + own.row, 0, d);
#pragma unroll
            for (int k = 0; k < Narrow_::V; k++) to_plane(to.shifted + (own.image * 12 + own.row) * PLANE, own.pixel(k), d[k]);
        }
        arrived();
        __syncthreads();
        if constexpr (STRIPS > 1) get_middle(to.u, z, 0);
        // the 3x3 convolution's input, through threshold and scale of FRN 2
        if constexpr (HELD) {
            middle_back(to, z);
        } else {
            float4 v[Wide_::ITER][Wide_::V];
            thread = this_thread();
            const Wide_ of(0, thread);
            const float* from = unknown(z + ((long long)(image + (there(of.image) ? of.image : 0)) * 48 + of.row) * AREA);
#pragma unroll
            for (int i = 0; i < Wide_::ITER; i++) {
                const Wide_ own(i, thread);
#pragma unroll
                for (int k = 0; k < Wide_::V; k++)
                    if (own.used) v[i][k] = load_once(from + i * (Wide_::STEP * AREA) + own.pixel(k));
            }
            const High product;
            float sums[High::SUMS];
            product.clear(sums);
            product.template convolve<S, PLANE>(sums, to.shifted, to.middle_weights, 0);
            product.store(sums, to.tile);
            __syncthreads();
            middle_shared(to, v);
        }
        __syncthreads();
        if (threadIdx.x < 3 * 48) {
            float sum = 0;
            for (int j = 0; j < IMG; j++) sum += to.frn_sums[(threadIdx.x / 48 * IMG + j) * 48 + threadIdx.x % 48];
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
                    arrived();
                    normalize_middle(to, u);
                    __syncthreads();
                    if (strip + 1 < STRIPS) get_middle(strip % 2 ? to.u : to.tile, z, strip + 1);
                    Nine::add(nine, to.shifted, u, strip * STRIP_ROWS);
                }
            }
            keep_nine<true>(to, nine, gradient2 + 3 * 48, [&] { if (STRIPS == 1) fetch_first(held, ready + prepared + forward, first, in); });
        }
    }

    __device__ __forceinline__ void backward(const Images* set, float* shared) const {
        const Back to(shared);
        for (int i = threadIdx.x; i < IMG * channels; i += THREADS) {
            const int k = i / channels, c = i % channels;
            to.roots[k * CHANNELS + c] = there(k) ? values[at.roots + (long long)(image + k) * channels + c] : 0.0f;
            to.sums[k * CHANNELS + c] = at.next_channels || !there(k) ? 0.0f : values[at.sums + (long long)(image + k) * channels + c];
        }
        int parameter = S == 32 ? STEM : 0, prepared = S == 32 ? STEM_FORWARD : 0, summed = parameter;
        for (int l = 0; l < at.layers; l++) {
            const int in = at.width + GROWTH * l;
            parameter += layer_parameters(in), prepared += layer_prepared(in), summed += layer_sums(in);
        }
        if constexpr (STRIPS == 1)
            for (int i = threadIdx.x; i < SHIFTED; i += THREADS) to.shifted[i] = 0;
        __syncthreads();
        // The transition's outputs come 48 at a time, each like a layer without its 3x3 convolution; then the layers.
        const int parts = S > 4 && at.next_channels ? channels / 96 : 0;
        const float* const pooled_weights = ready + prepared + parts * point_forward(channels);
        if (parts) tabulate(to.table, CHANNELS, point + parameter, channels, to.roots);
        Held held;
#pragma unroll 1
        for (int l = at.layers - 1 + parts; l >= 0; l--) {
            const bool pooled = l >= at.layers;
            const int part_of = at.layers - 1 + parts - l, in = pooled ? channels : at.width + GROWTH * l, first = pooled ? 0 : GROWTH * (at.layers - l);
            const float* z = values + at.z + l * at.z_step;
            if (!pooled) {
                parameter -= layer_parameters(in), prepared -= layer_prepared(in), summed -= layer_sums(in);
                layer_back(to, held, l, in, first, parameter, prepared, slice + summed + point_sums(in), z);
            }
            // the 1x1 convolution; its output's gradient passes the normalization of FRN 2 on the way
            auto bring = [&](int strip) {
                if (pooled) bring_pooled(to, part_of * 48, strip);
                else bring_middle(to);
            };
            auto ask = [&](int strip) {
                if (!pooled) request_middle(to, z, strip);
            };
            float* const frn_gradient = slice + summed;
            const float* const weights = pooled ? pooled_weights + part_of * point_backward(channels) : ready + prepared + point_forward(in);
            if (pooled) {
                if constexpr (STRIPS == 1) {
                    fetch_first(held, weights, first, in);
                    bring_pooled(to, part_of * 48, 0);
                }
                __syncthreads();
            }
            float* const weight_gradient = frn_gradient + 3 * in + part_of * pooled * 48 * in;
            if constexpr (STRIPS > 1) point_back(to, first, in, weights, frn_gradient, weight_gradient, pooled && part_of == 0, pooled && part_of > 0, ask, bring);
            else point_back(to, held, first, in, weights, frn_gradient, weight_gradient, pooled && part_of == 0, pooled && part_of > 0);
        }
        if constexpr (S == 32) {
            // the stem: planes of the picture, shifted, times the gradient of its output
            for (int i = threadIdx.x; i < SHIFTED; i += THREADS) to.shifted[i] = 0;
            for (int i = threadIdx.x; i < 48 * PLAIN; i += THREADS) to.u[i] = 0;
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
                    for (int k = 0; k < Own::V; k++) *reinterpret_cast<float4*>(to.u + own.row * PLAIN + own.pixel(k)) = d[k];
                }
                __syncthreads();
                Nine::add(nine, to.shifted, to.u, strip * STRIP_ROWS);
            }
            keep_nine<false>(to, nine, slice, [] {});
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
DENSE_BLOCK(3, 8, 2, 16)
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
// The partial sums of a stretch of parameters, added in the order of the images: [slot * stride + i] over slots; with `in` those of a 1x1
// convolution that reads so many channels, in tiles. Counts and places are multiples of four.
// Grid (longest / 1024, stretches, run), 256 threads.
struct DenseSums { long long partial; int gradient, count, stride, group, in, reserved; };
extern "C" __global__ void __launch_bounds__(256) dense_reduce(const Run* runs, const DenseSums* table) {
    const Run& run = runs[blockIdx.z];
    const DenseSums sums = table[blockIdx.y];
    const int images = images_of(run), i = (blockIdx.x * 256 + threadIdx.x) * 4;
    if (images == 0 || i >= sums.count) return;
    const int slots = (images + sums.group - 1) / sums.group;
    const float* from = run.partial + sums.partial + i;
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 8
    for (int slot = 0; slot < slots; slot++) {
        const float4 v = dense::load_once(from + (long long)slot * sums.stride);
        sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    const float v[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
    for (int j = 0; j < 4; j++) {
        int at = i + j;
        if (sums.in) {
            int output, channel;
            dense::place_in_tiles(i + j, output, channel);
            if (channel >= sums.in) continue;
            at = output * sums.in + channel;
        }
        store_gradient(run, sums.gradient + at, v[j]);
    }
}
