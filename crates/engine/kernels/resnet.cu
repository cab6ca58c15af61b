// ResNet-20 with filter response normalization: a stage of the net is one kernel forward and one backward, a block of threads
// has one image (two in the last stage), and its planes stay in shared memory from convolution to convolution. Products are mma's: one of rounded
// factors for TF32, three of factors in two parts for f32 (Factors); all else is the same for both.
//
// Planes in shared memory have a border of zeros: pixel x stands in column x + 1, a row has S + 4 columns. With TF32 what is
// stored there is rounded already. The input of a convolution of stride 2 is stored as four planes per channel, one for even
// and odd rows and columns each, so that its rows are read without gaps.
#include "common.cuh"

constexpr int THREADS_R = 512, WARPS_R = 16;
// A call of its own, with its own registers, leaves the others more.
#ifndef WEIGH_INLINE
#define WEIGH_INLINE __noinline__
#endif

// Offsets of one stage. Tensors of batch * C * S * S numbers follow each other from `values` on: 0 first convolution of the
// stage (stem, or shortcut) before FRN; block k: 1 + 3k and 2 + 3k the convolutions before FRN, 3 + 3k the block's output;
// 10 the stem's output; 11 the gradient at the stage's output, 12 that further down. 9 and 11, which other kernels see, are
// [channel, row, column]; the others are in the order of the threads that hold them (Tile). `roots`: 1/sqrt(mean square),
// batch * C numbers each: 0 first, 1 + 2k and 2 + 2k. `partial`: one slice of `slice` numbers per block of threads, this stage's from
// `gradients` on, a convolution's weights in the order of the threads that sum them (resnet_reduce puts them in place).
// Prediction keeps two tensors only: 0 what a block adds to, 1 the stage's output.
// Dropout, where `threshold` is not 0: `drop_layers` are the host's numbers of its layers, 2k after the first FRN of block k,
// 2k + 1 after the block's sum; entries whose bits are below `threshold` become 0, the others are multiplied by `factor`.
struct Stage { int batch, parameters, prepared, slice, gradients, reserved; long long values, roots, input, input_gradient, partial; int drop_layers[6]; unsigned threshold; float factor; };

// Weights as the kernels want them: in the order in which the lanes of a warp hold them as factors
// of two products, [in / 8][tap][out / 16][lane][4], backward likewise, with the taps reversed;
// rounded for TF32.
// `together`: images of a block of threads.
struct Prepare { int weight, out, in, padded_in, taps, forward, backward, partial, together, reserved; };
// Number i of the weights of a convolution from `from` channels to `to`: which channels and tap it
// belongs to.
struct Origin { int from, to, tap; };
__device__ __forceinline__ Origin origin(int i, int taps, int to) {
    const int lane = i / 4 % 32, part = i % 4, warps = to / 16, rest = i / 128;
    return {rest / warps / taps * 8 + lane % 4 + part % 2 * 4, rest % warps * 16 + part / 2 * 8 + lane / 4, rest / warps % taps};
}
template <bool TF32> __device__ __forceinline__ void prepare(const Run* runs, const Prepare* table) {
    const Run& run = runs[blockIdx.z];
    if (images_of(run) == 0) return;
    const Prepare p = table[blockIdx.y];
    const float* weight = run.point + p.weight;
    const int stride = blockDim.x * gridDim.x, begin = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 4
    for (int i = begin; i < p.padded_in * p.taps * p.out; i += stride) {
        const Origin at = origin(i, p.taps, p.out);
        run.prepared[p.forward + i] = at.from < p.in ? product_input<TF32>(__ldg(weight + (at.to * p.in + at.from) * p.taps + at.tap)) : 0;
    }
    if (p.backward >= 0)
#pragma unroll 4
        for (int i = begin; i < p.out * p.taps * p.in; i += stride) {
            const Origin at = origin(i, p.taps, p.in);
            run.prepared[p.backward + i] = product_input<TF32>(__ldg(weight + (at.from * p.in + at.to) * p.taps + p.taps - 1 - at.tap));
        }
}
extern "C" __global__ void prepare_f32(const Run* runs, const Prepare* table) { prepare<false>(runs, table); }
extern "C" __global__ void prepare_tf32(const Run* runs, const Prepare* table) { prepare<true>(runs, table); }

// `request` of so many numbers, known when this is compiled: the threads' numbers are not, and
// without it there are loops.
__device__ __forceinline__ void fetch(float* to, const float* from, int count) {
    const int at = this_thread() * 4;
#pragma unroll
    for (int i = 0; i < count; i += THREADS_R * 4)
        if (at < count - i) request4(to + at + i, from + at + i);
}
// The first pieces of a convolution's weights, each a group of `size` numbers.
struct Ahead { const float* from; int size, pieces; };
__device__ __forceinline__ void ask(float* buffer, const Ahead& next) {
    if (!next.from) return;
#pragma unroll
    for (int i = 0; i < next.pieces; i++) fetch(buffer + i * next.size, next.from + i * next.size, next.size), end_group();
}
// A tensor to be brought to shared memory, a group of its own.
struct Order { const float* tensor; float* slot; };
struct Nothing { __device__ __forceinline__ void operator()() const {} };
// The larger one, NaN if one is: `larger` in one instruction.
__device__ __forceinline__ float above(float a, float b) {
#ifdef EMULATED
    return larger(a, b);
#else
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
#endif
}

// A factor in a plane. mma does not look at the 13 low bits, so nobody has to clear them there.
template <bool TF32> __device__ __forceinline__ float plane_input(float v) { return TF32 && !WITHOUT_ROUNDING ? __uint_as_float(__float_as_uint(v) + 0x1000u) : v; }
// 1 above 0, 0 below, 1/2 there (and within 3e-39 of it something in between).
__device__ __forceinline__ float share_above(float v) {
#ifdef EMULATED
    const float share = fmaf(v, 1.7014118e38f, 0.5f);
    return share > 1 ? 1 : share > 0 ? share : 0;
#else
    float share;
    asm("fma.rn.sat.f32 %0, %1, 0f7f000000, 0f3f000000;" : "=f"(share) : "f"(v));
    return share;
#endif
}

template <int S> struct Planes { static constexpr int ROW = S + 4, PLANE = (S + 2) * ROW; };

// Which sums a thread holds: CHANNELS channels at PAIRS pairs of neighboring pixels, of CN channels and IMG images of S x S
// pixels. A warp has pixels of one image.
template <int S_, int CN_, int IMG_, bool TF32_> struct Tile {
    static constexpr int S = S_, CN = CN_, IMG = IMG_;
    static constexpr bool TF32 = TF32_;
    static constexpr int MT = IMG * S * S / 16 * CN / 8 / 32, NT = 2;  // tiles of a warp
    static constexpr int CHANNELS = 2 * NT, PAIRS = MT, SUMS = CHANNELS * PAIRS * 2;
    static constexpr int IMAGE_WARPS = S * S / 16 / MT, PIXEL_WARPS = IMG * IMAGE_WARPS, CHANNEL_WARPS = CN / 8 / NT;
    static_assert(PIXEL_WARPS * CHANNEL_WARPS == WARPS_R, "warps");
    int thread, lane, pixel_warp, channel_warp;
    __device__ __forceinline__ Tile() {
        thread = this_thread(), lane = thread % 32;
        const int warp = thread / 32;
        pixel_warp = warp % PIXEL_WARPS, channel_warp = warp / PIXEL_WARPS;
    }
    __device__ __forceinline__ int image() const { return IMG == 1 ? 0 : pixel_warp / IMAGE_WARPS; }
    __device__ __forceinline__ int pixel() const { return pixel_warp % IMAGE_WARPS * (MT * 16) + lane / 4 * 2; }  // the first, in its image
    __device__ __forceinline__ int channel(int i) const { return (channel_warp * NT + i / 2) * 8 + lane % 4 * 2 + i % 2; }
    __device__ __forceinline__ int y(int pair) const { return pixel() / S + pair * 16 / S; }
    __device__ __forceinline__ int x(int pair) const { return pixel() % S + pair * 16 % S; }
    // A warp's pixels begin at the beginning of a row, so that the pairs of a thread are a constant
    // apart.
    static_assert(MT * 16 % S == 0, "rows of a warp");
    static constexpr __device__ __forceinline__ int sum(int i, int pair, int odd) { return (pair * NT + i / 2) * 4 + odd * 2 + i % 2; }
    // Sums of N numbers over the eight lanes that hold the same channels. Of two lanes each gives
    // away half of what it has; a lane ends up with the first (N + 7) / 8 of v, which are number
    // `which` and those behind, or below 0: another one has them too.
    template <int N, int LEVEL = 0> __device__ __forceinline__ void over_lanes(float* v, int& which) const {
        constexpr int LANES = 4 << LEVEL, HALF = N / 2;
        const bool upper = lane & LANES;
        if constexpr (N > 1) {
#pragma unroll
            for (int j = 0; j < HALF; j++) v[j] = (upper ? v[j + HALF] : v[j]) + __shfl_xor_sync(ALL_LANES, upper ? v[j] : v[j + HALF], LANES);
            if (upper) which += HALF;
        } else {
            v[0] += __shfl_xor_sync(ALL_LANES, v[0], LANES);
            if (upper) which = -8;
        }
        if constexpr (LEVEL < 2) over_lanes<N == 1 ? 1 : HALF, LEVEL + 1>(v, which);
    }

    // The thread's numbers of a tensor, in the order of the threads: neighbors read neighbors.
    __device__ __forceinline__ void load(const float* tensor, float* v) const {
        const float* from = tensor + thread * 4;
#pragma unroll
        for (int q = 0; q < SUMS / 4; q++) {
            const float4 a = load_global(from + q * THREADS_R * 4);
            v[q * 4] = a.x, v[q * 4 + 1] = a.y, v[q * 4 + 2] = a.z, v[q * 4 + 3] = a.w;
        }
    }
    // The same by way of shared memory, behind the thread's back: `slot` is as large as the tensor,
    // and a thread reads there what it asked for itself.
    __device__ __forceinline__ void order(const float* tensor, float* slot) const {
#pragma unroll
        for (int q = 0; q < SUMS / 4; q++) request4(slot + thread * 4 + q * THREADS_R * 4, tensor + thread * 4 + q * THREADS_R * 4);
    }
    __device__ __forceinline__ void take(const float* slot, float* v) const {
#pragma unroll
        for (int q = 0; q < SUMS / 4; q++) {
            const float4 a = *reinterpret_cast<const float4*>(slot + thread * 4 + q * THREADS_R * 4);
            v[q * 4] = a.x, v[q * 4 + 1] = a.y, v[q * 4 + 2] = a.z, v[q * 4 + 3] = a.w;
        }
    }
    __device__ __forceinline__ void save(float* tensor, const float* v) const {
        float* to = tensor + thread * 4;
#pragma unroll
        for (int q = 0; q < SUMS / 4; q++) store_global(to + q * THREADS_R * 4, make_float4(v[q * 4], v[q * 4 + 1], v[q * 4 + 2], v[q * 4 + 3]));
    }
    // The same of a tensor [image, channel, row, column]; zeros of an image that does not exist.
    __device__ __forceinline__ int place(int i, int pair) const { return ((image() * CN + channel(i)) * S + y(pair)) * S + x(pair); }
    __device__ __forceinline__ void load_plain(const float* tensor, float* v, int images) const {
#pragma unroll
        for (int i = 0; i < CHANNELS; i++)
#pragma unroll
            for (int p = 0; p < PAIRS; p++) {
                float2 d = make_float2(0, 0);
                if (image() < images) d = *reinterpret_cast<const float2*>(tensor + place(i, p));
                v[sum(i, p, 0)] = d.x, v[sum(i, p, 1)] = d.y;
            }
    }
    __device__ __forceinline__ void save_plain(float* tensor, const float* v) const {
#pragma unroll
        for (int i = 0; i < CHANNELS; i++)
#pragma unroll
            for (int p = 0; p < PAIRS; p++) *reinterpret_cast<float2*>(tensor + place(i, p)) = make_float2(v[sum(i, p, 0)], v[sum(i, p, 1)]);
    }
};

// SAME: 3x3 over bordered planes. HALF: 3x3 of stride 2 over four planes per channel. POINT: 1x1 of stride 2 over the same.
enum { SAME, HALF, POINT };

// A convolution's prepared weights are brought to `buffers` in pieces of PIECE channels, SIZE
// numbers each, at most DEPTH of them at a time. The first ones were asked for before; whoever does
// that knows that the buffers are free. `meanwhile` asks for other things, which nobody here waits
// for, when all threads have come here; `work` is done with each piece.
template <int IN, int PIECE, int DEPTH, int SIZE, class M, class W> __device__ __forceinline__ void over_pieces(const float* prepared, float* buffers, M meanwhile, W work) {
    constexpr int PIECES = IN / PIECE, RING = PIECES < DEPTH ? PIECES : DEPTH;
    static_assert(IN % PIECE == 0 && (RING > 1 || PIECES == 1), "a piece is asked for while another is used");
#pragma unroll 1
    for (int number = 0; number < PIECES; number++) {
        // a group for each piece, empty ones at the end, and one of `meanwhile` behind those that
        // were asked for before: when piece `number` is waited for, RING - 1 were asked for after
        // the first one, RING - 2 after the others
        if (number == 0) arrived_but<RING - 1>();
        else if (number < RING) arrived_but<(RING > 1 ? RING - 1 : 0)>();
        else arrived_but<(RING > 1 ? RING - 2 : 0)>();
        // The barrier makes the pieces of all threads seen, and the planes. All have done with
        // piece `number - 1` then, and its place is free.
        __syncthreads();
        if (number == 0) meanwhile(), end_group();
        if (PIECES > 1 && number > 0) {
            if (number + RING - 1 < PIECES) fetch(buffers + (number - 1) % RING * SIZE, prepared + (number + RING - 1) * SIZE, SIZE);
            end_group();
        }
        work(number * PIECE, buffers + number % RING * SIZE);
    }
}

// The transposes of HALF and POINT, from S x S pixels to CN channels of twice as many rows and
// columns. A warp has 16 pixels and NT times eight channels, all four phases, so that no
// warp has more taps than others. A thread ends with four neighbors of a row.
template <int S, int CN, int IMG, bool TF32> struct Four {
    typedef Planes<S> P;
    static constexpr int TILES = IMG * S * S / 16, NT = TILES * (CN / 8) / WARPS_R, TAP = CN / 16 * 128;
    static_assert(NT == 1 || NT == 2, "tiles");
    int lane, channel, image, y, x;
    __device__ __forceinline__ Four() {
        const int thread = this_thread(), pixel = thread / 32 % TILES * 16 + thread % 32 / 4 * 2;
        lane = thread % 32, channel = thread / 32 / TILES * (8 * NT), image = pixel / (S * S), y = pixel % (S * S) / S, x = pixel % S;
    }
    __device__ __forceinline__ const float* weights(const float* from) const { return from + channel / 16 * 128 + lane * 4 + channel % 16 / 4; }
    static __device__ __forceinline__ void load(const Spot& weight, int at, Factors<TF32, 2> (&b)[NT]) {
        if constexpr (NT == 2) {
            const float4 w = weight.load4(at);
            b[0].set(0, w.x), b[0].set(1, w.y), b[1].set(0, w.z), b[1].set(1, w.w);
        } else {
            const float2 w = weight.load2(at);
            b[0].set(0, w.x), b[0].set(1, w.y);
        }
    }
    // Number i of the 2 NT channels of this thread, in row `down` of the two.
    __device__ __forceinline__ int place(int i, int down) const { return ((image * CN + channel + i / 2 * 8 + lane % 4 * 2 + i % 2) * 2 * S + 2 * y + down) * 2 * S + 2 * x; }

    template <int IN, int PIECE, int DEPTH, class M> __device__ __forceinline__ void back(float* to, int images, const float* planes, const float* prepared, float* buffer, M meanwhile) const {
        float sums[4][NT][4];
#pragma unroll
        for (int i = 0; i < 16 * NT; i++) sums[i / (4 * NT)][i / 4 % NT][i % 4] = 0;
        over_pieces<IN, PIECE, DEPTH, PIECE * 9 * CN>(prepared, buffer, meanwhile, [&](int piece, const float* from) {
            Spot weight(weights(from));
            const float* plane = planes + (image * IN + piece + lane % 4) * P::PLANE + y * P::ROW + x;
#pragma unroll 1
            for (int c = 0; c < PIECE; c += 8, weight.move(9 * TAP), plane += 8 * P::PLANE) {
                Factors<TF32, 3> v[2][2];
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const float* row = plane + 4 * (i % 2) * P::PLANE + i / 2 * P::ROW;
                    v[i / 2][i % 2].set2(0, row), v[i / 2][i % 2].set(2, row[2]);
                }
                // phase by phase: those of even rows and columns have four taps, of odd ones one
#pragma unroll
                for (int phase = 0; phase < 4; phase++) {
                    Products<TF32, NT> part(sums[phase]);
#pragma unroll
                    for (int tap = 0; tap < 9; tap++) {
                        if (phase != tap / 3 % 2 * 2 + tap % 3 % 2) continue;
                        const int dx = tap % 3 ? 1 : 0;
                        const auto& row = v[tap / 3 ? 1 : 0];
                        Factors<TF32, 4> a;
#pragma unroll
                        for (int i = 0; i < 4; i++) a.take(i, row[i / 2], dx + i % 2);
                        Factors<TF32, 2> b[NT];
                        load(weight, tap * TAP, b);
#pragma unroll
                        for (int n = 0; n < NT; n++) part.add(n, a, b[n]);
                    }
                }
            }
        });
#pragma unroll
        for (int i = 0; i < 4 * NT; i++) {
            const int down = i / (2 * NT), n = i / 2 % NT, odd = i % 2;
            const float *left = sums[2 * down][n] + odd, *right = sums[2 * down + 1][n] + odd;
            if (image < images) store_global(to + place(i % (2 * NT), down), make_float4(left[0], right[0], left[2], right[2]));
        }
    }
    template <int IN> __device__ __forceinline__ void add_point(float* to, int images, const float* planes, const float* prepared, float* buffer) const {
        float sums[NT][4];
        float4 old[2 * NT];
#pragma unroll
        for (int i = 0; i < 2 * NT; i++) old[i] = image < images ? load_global(to + place(i, 0)) : make_float4(0, 0, 0, 0);
#pragma unroll
        for (int i = 0; i < 4 * NT; i++) sums[i / 4][i % 4] = 0;
        over_pieces<IN, IN, 1, IN * CN>(prepared, buffer, Nothing(), [&](int, const float* from) {
            Spot weight(weights(from));
            const float* plane = planes + (image * IN + lane % 4) * P::PLANE + (y + 1) * P::ROW + x + 1;
#pragma unroll 4
            for (int c = 0; c < IN; c += 8, weight.move(TAP), plane += 8 * P::PLANE) {
                const float* other = plane + 4 * P::PLANE;
                Factors<TF32, 4> a;
                a.set(0, plane[0]), a.set(1, plane[1]), a.set(2, other[0]), a.set(3, other[1]);
                Factors<TF32, 2> b[NT];
                load(weight, 0, b);
                Products<TF32, NT> part(sums);
#pragma unroll
                for (int n = 0; n < NT; n++) part.add(n, a, b[n]);
            }
        });
#pragma unroll
        for (int i = 0; i < 2 * NT; i++)
            if (image < images) store_global(to + place(i, 0), make_float4(old[i].x + sums[i / 2][i % 2], old[i].y, old[i].z + sums[i / 2][2 + i % 2], old[i].w));
    }
};

// sums = (or, with MORE, +=) convolution of `planes` (IN channels, of every image QUARTERS times as
// many planes) by prepared weights; see `over_pieces`.
template <class T, int MODE, int IN, int PIECE, int DEPTH, int QUARTERS = 1, bool MORE = false, class M = Nothing> __device__ __forceinline__ void convolve(const T& tile, float* sums, const float* planes, const float* prepared, float* buffers, M meanwhile = M()) {
    typedef Planes<T::S> P;
    typedef Factors<T::TF32, 2> Two;
    constexpr int TAPS = MODE == POINT ? 1 : 9, KS = TAPS == 9 ? 3 : 1, QUARTER = IN * P::PLANE, TAP = T::CHANNEL_WARPS * 128;
    static_assert(PIECE % 8 == 0 && T::NT == 2, "pieces, and weights of two tiles");
    if (!MORE)
#pragma unroll
        for (int i = 0; i < T::SUMS; i++) sums[i] = 0;
    over_pieces<IN, PIECE, DEPTH, PIECE * TAPS * T::CN>(prepared, buffers, meanwhile, [&](int piece, const float* buffer) {
        Spot weight(buffer + tile.channel_warp * 128 + tile.lane * 4);
        const float* plane = planes + (tile.image() * QUARTERS * IN + piece + tile.lane % 4) * P::PLANE + tile.y(0) * P::ROW + tile.x(0);
#pragma unroll 1
        for (int c = 0; c < PIECE; c += 8, weight.move(TAPS * TAP), plane += 8 * P::PLANE) {
#pragma unroll(T::TF32 ? KS : 1)
            for (int ky = 0; ky < KS; ky++) {
                Two b[KS][T::NT];
#pragma unroll
                for (int kx = 0; kx < KS; kx++) {
                    const float4 w = weight.load4((ky * KS + kx) * TAP);
                    b[kx][0].set(0, w.x), b[kx][0].set(1, w.y), b[kx][1].set(0, w.z), b[kx][1].set(1, w.w);
                }
#pragma unroll
                for (int m = 0; m < T::MT; m++) {
                    const int at = m * 16 / T::S * P::ROW + m * 16 % T::S;
                    Factors<T::TF32, 4> v[2];
                    Two odd[2];
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        const float* p = plane + 4 * h * P::PLANE + at;
                        if (MODE == SAME) v[h].set2(0, p + ky * P::ROW), v[h].set2(2, p + ky * P::ROW + 2);
                        if (MODE == HALF) {
                            const float* even = p + (ky & 1) * 2 * QUARTER + ky / 2 * P::ROW;
                            v[h].set2(0, even), v[h].set(2, even[2]), odd[h].set2(0, even + QUARTER);
                        }
                        if (MODE == POINT) v[h].set2(0, p);
                    }
                    Products<T::TF32, T::NT> part(reinterpret_cast<float(*)[4]>(sums) + m * T::NT);
#pragma unroll
                    for (int kx = 0; kx < KS; kx++) {
                        Factors<T::TF32, 4> a;
#pragma unroll
                        for (int i = 0; i < 4; i++) {
                            const int h = i / 2, e = i % 2;
                            if (MODE == HALF && kx == 1) a.take(i, odd[h], e);
                            else a.take(i, v[h], MODE == SAME ? kx + e : MODE == HALF ? kx / 2 + e : e);
                        }
#pragma unroll
                        for (int n = 0; n < T::NT; n++) part.add(n, a, b[kx][n]);
                    }
                }
            }
        }
    });
}

// Sums of K quantities over the pixels of every channel: scratch [K][PIXEL_WARPS][CN], then totals
// [K][image][CN] behind it, each of them what `result` makes of its number and the sum. Nobody reads
// `scratch` when this begins: totals were last read before a barrier that all have passed since,
// that of the convolution or of the planes that came after them. The first barrier here says that
// all have done with the convolution before, so that the weights of the next one may take its
// place, and that all have taken what they ordered to the place of `also`, the last but the weights
// that is asked for.
template <class T, int K, class V> __device__ __forceinline__ const float* over_pixels(const T& tile, const float (&part)[K][T::CHANNELS], float* scratch, const Order& also, float* buffer, const Ahead& next, V result) {
    constexpr int N = K * T::CHANNELS, EACH = (N + 7) / 8;
    static_assert((N & (N - 1)) == 0 && K * T::IMG * T::CN <= THREADS_R, "shares");
    float* totals = scratch + K * T::PIXEL_WARPS * T::CN;
    float v[N];
#pragma unroll
    for (int j = 0; j < N; j++) v[j] = part[j / T::CHANNELS][j % T::CHANNELS];
    int which = 0;
    tile.template over_lanes<N>(v, which);
    if (which >= 0)
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const int k = (which + j) / T::CHANNELS, i = (which + j) % T::CHANNELS;
            scratch[(k * T::PIXEL_WARPS + tile.pixel_warp) * T::CN + tile.channel(i)] = v[j];
        }
    __syncthreads();
    if (also.tensor) tile.order(also.tensor, also.slot), end_group();
    ask(buffer, next);
    const int i = this_thread();
    if (i < K * T::IMG * T::CN) {
        const float* from = scratch + i / T::CN * T::IMAGE_WARPS * T::CN + i % T::CN;
        float sum = 0;
#pragma unroll
        for (int w = 0; w < T::IMAGE_WARPS; w++) sum += from[w * T::CN];
        totals[i] = result(i, sum);
    }
    __syncthreads();
    return totals;
}

// What the threads hold, into the middle of bordered planes.
template <class T> __device__ __forceinline__ void to_planes(const T& tile, const float* v, float* planes) {
    typedef Planes<T::S> P;
#pragma unroll
    for (int i = 0; i < T::CHANNELS; i++)
#pragma unroll
        for (int p = 0; p < T::PAIRS; p++) {
            float* to = planes + (tile.image() * T::CN + tile.channel(i)) * P::PLANE + (tile.y(p) + 1) * P::ROW + tile.x(p) + 1;
            // half of the lanes begin with the second pixel, so that they meet the other banks
            const bool later = tile.lane & 2;
            const float a = plane_input<T::TF32>(v[T::sum(i, p, 0)]), b = plane_input<T::TF32>(v[T::sum(i, p, 1)]);
            to[later] = later ? b : a, to[!later] = later ? a : b;
        }
}
// A thread clears the border of a row: all of the first and the last one, of the others the column
// before the row's pixels and three behind them.
template <int S, int C> __device__ __forceinline__ void clear_border(float* planes) {
    typedef Planes<S> P;
#pragma unroll
    for (int first = 0; first < C * (S + 2); first += THREADS_R) {
        const int i = first + this_thread(), y = i % (S + 2);
        if (i >= C * (S + 2)) continue;
        float* row = planes + i / (S + 2) * P::PLANE + y * P::ROW;
        if (y == 0 || y == S + 1) {
#pragma unroll
            for (int x = 0; x < P::ROW; x += 4) *reinterpret_cast<float4*>(row + x) = make_float4(0, 0, 0, 0);
        } else {
#pragma unroll
            for (int x = 0; x < 4; x++) row[x ? S + x : x] = 0;
        }
    }
}

// Bias, FRN and threshold of what `convolve` left: writes the convolution to `z`, 1/root to `roots` unless null, and leaves the result in
// `sums`. `parameters`: bias, gamma, beta, tau. `next`: the weights of the next convolution.
template <class T> __device__ __forceinline__ void finish(const T& tile, float* sums, const float* parameters, float* z, float* roots, float* scratch, float* buffer, const Ahead& next) {
    constexpr int S = T::S, C = T::CN;
    float square[1][T::CHANNELS];
#pragma unroll
    for (int i = 0; i < T::CHANNELS; i++) {
        const float bias = parameters[tile.channel(i)];
        square[0][i] = 0;
#pragma unroll
        for (int p = 0; p < T::PAIRS; p++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float& v = sums[T::sum(i, p, e)];
                v += bias;
                square[0][i] = fmaf(v, v, square[0][i]);
            }
    }
    if (z) tile.save(z, sums);
    const float* found = over_pixels<T, 1>(tile, square, scratch, Order(), buffer, next, [=](int c, float sum) {
        const float root = 1.0f / sqrtf(sum / (S * S) + FRN_EPSILON);
        if (roots) roots[c] = root;
        return root;
    });
#pragma unroll
    for (int i = 0; i < T::CHANNELS; i++) {
        const int c = tile.channel(i);
        const float scale = parameters[C + c] * found[tile.image() * C + c], beta = parameters[2 * C + c], tau = parameters[3 * C + c];
#pragma unroll
        for (int p = 0; p < T::PAIRS; p++)
#pragma unroll
            for (int e = 0; e < 2; e++) sums[T::sum(i, p, e)] = above(fmaf(scale, sums[T::sum(i, p, e)], beta), tau);
    }
}

// Through threshold and FRN: `sums` is the gradient at the output, `value` what the convolution
// made; leaves that of the convolution in `to` (bordered planes) and those of bias, gamma, beta,
// tau in `gradient`. `parameters`: bias, gamma, beta, tau, 1/root. The others' sums are waited for,
// so `to` may be what they were made of.
template <class T> __device__ __forceinline__ void unfinish(const T& tile, float* sums, const float* value, const float* parameters, float* to, float* gradient, float* scratch, const Order& also, float* buffer, const Ahead& next) {
    constexpr int S = T::S, C = T::CN;
    const float *all_roots = parameters + 4 * C, *roots = all_roots + tile.image() * C;
    float part[4][T::CHANNELS];  // gamma over 1/root, beta, tau, values
#pragma unroll
    for (int i = 0; i < T::CHANNELS; i++) {
        const int c = tile.channel(i);
        const float scale = parameters[C + c] * roots[c], beta = parameters[2 * C + c], tau = parameters[3 * C + c];
#pragma unroll
        for (int k = 0; k < 4; k++) part[k][i] = 0;
#pragma unroll
        for (int p = 0; p < T::PAIRS; p++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const float v = value[T::sum(i, p, e)], d = sums[T::sum(i, p, e)], passed = share_above(fmaf(scale, v, beta) - tau) * d;
                part[0][i] = fmaf(passed, v, part[0][i]);
                part[1][i] += passed;
                part[2][i] += d - passed;
                part[3][i] += v;
                sums[T::sum(i, p, e)] = passed;
            }
    }
    constexpr int ALL = T::IMG * C;
    const float* totals = over_pixels<T, 4>(tile, part, scratch, also, buffer, next, [=](int i, float sum) { return i < ALL || i >= 3 * ALL ? sum * all_roots[i % ALL] : sum; });
    if (threadIdx.x < C) {
        float sum[4] = {0, 0, 0, 0};
#pragma unroll
        for (int k = 0; k < T::IMG; k++) {
            const int c = k * C + threadIdx.x;
            const float dgamma = totals[c], dbeta = totals[ALL + c];
            sum[0] += parameters[C + threadIdx.x] * all_roots[c] * (dbeta - dgamma / (S * S) * totals[3 * ALL + c]);
            sum[1] += dgamma, sum[2] += dbeta, sum[3] += totals[2 * ALL + c];
        }
#pragma unroll
        for (int k = 0; k < 4; k++) gradient[k * C + threadIdx.x] = sum[k];
    }
#pragma unroll
    for (int i = 0; i < T::CHANNELS; i++) {
        const int c = tile.channel(i);
        const float root = roots[c], scale = parameters[C + c] * root, mean = totals[tile.image() * C + c] / (S * S) * root;
#pragma unroll
        for (int p = 0; p < T::PAIRS; p++)
#pragma unroll
            for (int e = 0; e < 2; e++) sums[T::sum(i, p, e)] = scale * (sums[T::sum(i, p, e)] - value[T::sum(i, p, e)] * mean);
    }
    to_planes(tile, sums, to);
}

// Gradient of the weights in the order [unit][sum / 4][lane][sum % 4] of the threads: `dz` bordered
// planes, `in` bordered planes (SAME) or four per channel. A warp has 16 x 8 channels; where these
// are fewer than the warps, rows of pixels are shared out and the parts added in `in`, whose planes
// are gone afterwards. A block of threads' images are one below the other. Of a convolution with more
// channels than IN these are those from FIRST on, of ALL_IN. Rows go four at a time, so that a row of the input is loaded once for its
// three taps.
template <int S, int OUT, int IN, int MODE, int IMG, int ALL_IN, bool TF32> __device__ WEIGH_INLINE void weigh(const float* dz, float* in, float* gradient, int first) {
    typedef Planes<S> P;
    constexpr int TAPS = MODE == POINT ? 1 : 9, KS = MODE == POINT ? 1 : 3, UNITS = OUT / 16 * (IN / 8), QUARTER = IN * P::PLANE;
    constexpr int PARTS = UNITS >= WARPS_R ? 1 : WARPS_R / UNITS, ROWS = IMG * S / PARTS, STRIP = ROWS < 4 ? ROWS : 4, APART = (MODE == HALF ? 4 : 1) * IN * P::PLANE, ALL = OUT * IN * TAPS, SUMS = TAPS * 4;
    static_assert(ROWS % STRIP == 0 && (IMG == 1 || S % STRIP == 0), "strips");
    // units of these channels among those of all
    const auto whole = [=](int i) {
        constexpr int UNIT = SUMS * 32, HERE = IN / 8, WIDE = ALL_IN / 8;
        return HERE == WIDE ? i : (i / UNIT / HERE * WIDE + i / UNIT % HERE + first / 8) * UNIT + i % UNIT;
    };
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    for (int unit = warp / PARTS; unit < UNITS; unit += WARPS_R / PARTS) {
        const int o0 = unit / (IN / 8) * 16, c0 = unit % (IN / 8) * 8, y0 = warp % PARTS * ROWS;
        float sums[SUMS];
#pragma unroll
        for (int i = 0; i < SUMS; i++) sums[i] = 0;
#pragma unroll 1
        for (int strip = 0; strip < ROWS / STRIP * (S / 8); strip++) {
            const int row = y0 + strip / (S / 8) * STRIP, image = IMG == 1 ? 0 : row / S, y = IMG == 1 ? row : row % S, x = strip % (S / 8) * 8;
            const float* d = dz + (image * OUT + o0 + g) * P::PLANE + (y + 1) * P::ROW + x + 2 * t + 1;
            const float* from = in + image * APART + (c0 + g) * P::PLANE + y * P::ROW + x + 2 * t;
            Factors<TF32, 4> v[3];
            auto row_of = [&](int r) { v[r % 3].set2(0, from + r * P::ROW), v[r % 3].set2(2, from + r * P::ROW + 2); };
            if (MODE == SAME) row_of(0), row_of(1);
#pragma unroll
            for (int r = 0; r < STRIP; r++) {
                const float* at = d + r * P::ROW;
                Factors<TF32, 4> a;
                a.set(0, at[0]), a.set(1, at[8 * P::PLANE]), a.set(2, at[1]), a.set(3, at[8 * P::PLANE + 1]);
                if (MODE == SAME) row_of(r + 2);
#pragma unroll
                for (int ky = 0; ky < KS; ky++) {
                    Factors<TF32, 4> e;
                    Factors<TF32, 2> odd;
                    if (MODE == HALF) {
                        const float* even = from + (ky & 1) * 2 * QUARTER + (r + ky / 2) * P::ROW;
                        e.set2(0, even), e.set(2, even[2]), odd.set2(0, even + QUARTER);
                    }
                    if (MODE == POINT) e.set2(0, from + r * P::ROW);
                    const auto& row = MODE == SAME ? v[(r + ky) % 3] : e;
#pragma unroll
                    for (int kx = 0; kx < KS; kx++) {
                        Factors<TF32, 2> b;
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            if (MODE == HALF && kx == 1) b.take(i, odd, i);
                            else b.take(i, row, (MODE == HALF ? kx / 2 : kx) + i);
                        }
                        Products<TF32, 1, false>(reinterpret_cast<float(*)[4]>(sums) + ky * KS + kx).add(0, a, b);
                    }
                }
            }
        }
        if (PARTS > 1) __syncthreads();
        // when the rows are shared out every warp has one unit, so that barrier is met by all
        const int at = unit * SUMS * 32 + lane * 4;
#pragma unroll
        for (int i = 0; i < TAPS; i++) {
            const float4 four = make_float4(sums[i * 4], sums[i * 4 + 1], sums[i * 4 + 2], sums[i * 4 + 3]);
            if (PARTS > 1) *reinterpret_cast<float4*>(in + warp % PARTS * ALL + at + i * 128) = four;
            else store_global(gradient + whole(at) + i * 128, four);
        }
    }
    __syncthreads();
    if constexpr (PARTS > 1) {
        for (int i = threadIdx.x * 4; i < ALL; i += THREADS_R * 4) {
            float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
            for (int part = 0; part < PARTS; part++) {
                const float4 more = *reinterpret_cast<const float4*>(in + part * ALL + i);
                sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
            }
            store_global(gradient + whole(i), sum);
        }
        __syncthreads();
    }
}
// Where number `i` of those belongs among the weights [OUT][IN][taps], -1 for the channels that only fill up.
__device__ __forceinline__ int weighed(int i, const Prepare& conv) {
    const int part = i % 4, lane = i / 4 % 32, k = i / 128 % conv.taps, unit = i / 128 / conv.taps, wide = conv.padded_in / 8;
    const int o = unit / wide * 16 + lane / 4 + part / 2 * 8;
    const int c = unit % wide * 8 + lane % 4 * 2 + part % 2;
    return c < conv.in ? (o * conv.in + c) * conv.taps + k : -1;
}
// The gradients of all images, added in their order: grid (entries / 512, convolutions and the
// dense layer, run). A row of the table without taps is taken as it is. A thread has two entries,
// so that five blocks of each multiprocessor take all of one run at once. The bound lets the
// compiler have eight loads under way.
extern "C" __global__ void __launch_bounds__(256, 5) resnet_reduce(const Run* runs, const Prepare* table, long long partial, int slice) {
    const Run& run = runs[blockIdx.z];
    const Prepare conv = table[blockIdx.y];
    const int images = images_of(run), first = (blockIdx.x * blockDim.x + threadIdx.x) * 2, weights = conv.out * conv.padded_in * conv.taps;
    const int count = weights + (conv.taps ? 4 * conv.out : conv.out);
    if (images == 0 || first >= count) return;
    // the dense layer ends a slice, which is a multiple of four long
    const float* from = run.partial + partial + conv.partial + first;
    const int slices = (images + conv.together - 1) / conv.together;
    float sums[2] = {0, 0};
#pragma unroll 8
    for (int image = 0; image < slices; image++) {
        const float2 more = __ldg(reinterpret_cast<const float2*>(from + (long long)image * slice));
        sums[0] += more.x, sums[1] += more.y;
    }
#pragma unroll
    for (int j = 0; j < 2; j++) {
        const int i = first + j, to = i < weights ? weighed(i, conv) : conv.out * conv.in * conv.taps + i - weights;
        if (i < count && to >= 0) store_gradient(run, conv.weight + to, sums[j]);
    }
}

// So many zeros, a multiple of four.
__device__ __forceinline__ void clear(float* to, int count) {
    for (int i = threadIdx.x * 4; i < count; i += THREADS_R * 4) *reinterpret_cast<float4*>(to + i) = make_float4(0, 0, 0, 0);
}
// Loops here have as many rounds as are known when this is compiled, and load everything before
// they store anything: else a thread waits for each of its loads.
//
// Bordered planes of a visited image (`placed_pixel`), all of them written, the border too.
template <bool TF32> __device__ __forceinline__ void fill_image(float* to, const Images& set, const Visit& visit) {
    typedef Planes<32> P;
    constexpr int COUNT = 3 * P::PLANE, EACH = (COUNT + THREADS_R - 1) / THREADS_R, AREA = 1024;
    const int thread = this_thread();
    float v[EACH];
    const auto channel = [=](int n) { return (thread + n * THREADS_R) / P::PLANE; };
    const auto y = [=](int n) { return (thread + n * THREADS_R) % P::PLANE / P::ROW - 1; };
    const auto x = [=](int n) { return (thread + n * THREADS_R) % P::PLANE % P::ROW - 1; };
    const auto inside = [=](int n) { return channel(n) < 3 && x(n) >= 0 && x(n) < 32 && y(n) >= 0 && y(n) < 32; };
    if (set.ready) {
        const float* from = set.ready + (size_t)visit.image * (3 * AREA);
#pragma unroll
        for (int n = 0; n < EACH; n++) v[n] = inside(n) ? __ldg(from + channel(n) * AREA + y(n) * 32 + x(n)) : 0;
    } else {
        const uint8_t* from = set.pixels + (size_t)visit.image * (3 * AREA);
        int pixel[EACH];
#pragma unroll
        for (int n = 0; n < EACH; n++) {
            const int row = y(n) + visit.down, column = x(n) + visit.right;
            const bool there = inside(n) && row >= 0 && row < 32 && column >= 0 && column < 32;
            const int byte = __ldg(from + (there ? channel(n) * AREA + row * 32 + (visit.flip ? 31 - column : column) : 0));
            pixel[n] = there ? byte : 0;
        }
#pragma unroll
        for (int n = 0; n < EACH; n++) {
            const float value = __ldg(set.tables + (inside(n) ? channel(n) * 256 + pixel[n] : 0));
            v[n] = inside(n) ? value : 0;
        }
    }
#pragma unroll
    for (int n = 0; n < EACH; n++)
        if (thread + n * THREADS_R < COUNT) to[thread + n * THREADS_R] = plane_input<TF32>(v[n]);
}
// Four planes per channel of an input of 2S x 2S pixels, a row and a column of zeros behind; or only the first of the four.
// C channels of IMG images `apart` numbers from each other, of which `images` exist; the first stands for the others.
template <int S, int C, int IMG, bool TF32, bool ONE> __device__ __forceinline__ void fill_quarters(float* to, const float* from, int apart, int images) {
    typedef Planes<S> P;
    constexpr int ROWS = ONE ? S : 2 * S, EACH = IMG * C * ROWS * S / THREADS_R, QUARTERS = ONE ? 1 : 4;
    static_assert(IMG * C * ROWS * S % THREADS_R == 0, "rounds");
    const int thread = this_thread();
    const auto image = [=](int i) { return IMG == 1 ? 0 : i / (S * ROWS * C); };
    float2 v[EACH];
#pragma unroll
    for (int n = 0; n < EACH; n++) {
        const int i = thread + n * THREADS_R, x = i % S, y = i / S % ROWS * (ONE ? 2 : 1), c = i / (S * ROWS) % C, k = image(i);
        v[n] = __ldg(reinterpret_cast<const float2*>(from + (k < images ? k : 0) * apart + (c * 2 * S + y) * 2 * S + 2 * x));
    }
    constexpr int BORDER = IMG * QUARTERS * C * (2 * S + 1);
#pragma unroll
    for (int n = 0; n < (BORDER + THREADS_R - 1) / THREADS_R; n++) {
        const int i = thread + n * THREADS_R, j = i % (2 * S + 1);
        if (i < BORDER) to[i / (2 * S + 1) * P::PLANE + (j < S ? j * P::ROW + S : S * P::ROW + j - S)] = 0;
    }
#pragma unroll
    for (int n = 0; n < EACH; n++) {
        const int i = thread + n * THREADS_R, x = i % S, y = i / S % ROWS * (ONE ? 2 : 1), c = i / (S * ROWS) % C;
        float* at = to + (image(i) * QUARTERS * C + y % 2 * 2 * C + c) * P::PLANE + y / 2 * P::ROW + x;
        at[0] = plane_input<TF32>(v[n].x);
        if (!ONE) at[C * P::PLANE] = plane_input<TF32>(v[n].y);
    }
}

// One stage: S x S pixels, C channels; the first of the net begins with the stem, the others with a block of stride 2.
template <int S, int C, int IMG, bool TF32, bool PREDICT> struct StageOf {
    static constexpr bool STEM = S == 32;
    static constexpr int IN = STEM ? 8 : C / 2, PIECE = C == 32 ? 32 : 16, DEPTH = C == 64 ? 2 : 1, BLOCKS = 3;
    typedef Planes<S> P;
    typedef Tile<S, C, IMG, TF32> T;
    typedef Four<S, IN, IMG, TF32> Wide;  // the input's gradient
    // The input of a convolution of stride 2 comes SOME channels at a time.
    static constexpr int SOME = IN / IMG, SET = IMG * C * P::PLANE, FIRST_SET = STEM ? SET : 4 * IN * P::PLANE;
    static constexpr int BUFFER = DEPTH * PIECE * 9 * C, SCRATCH = 4 * (T::PIXEL_WARPS + IMG) * C, TAIL_SIZE = (4 + IMG) * C;
    static constexpr int TAILS = 7 * TAIL_SIZE;  // bias, gamma, beta, tau and 1/root of the seven convolutions
    // `first` holds planes or, backward, two tensors that the threads ordered, or (`weigh`) two parts of the weights of SOME
    // channels.
    static constexpr int TENSOR = IMG * C * S * S, FLOATS = SET + BUFFER + SCRATCH + TAILS + larger_of(larger_of(FIRST_SET, SET), larger_of(2 * TENSOR, IMG == 1 ? 0 : 2 * 9 * C * SOME));
    static constexpr int RING = C / PIECE < DEPTH ? C / PIECE : DEPTH;  // groups of weights that are asked for ahead
    // parameters: first convolutions with bias, gamma, beta, tau
    static constexpr int SAME_CONV = 9 * C * C, TAIL = 4 * C;
    static constexpr int STEM_SIZE = 9 * 3 * C + TAIL, DOWN1 = 9 * C * IN + TAIL, DOWN = DOWN1 + SAME_CONV + TAIL, SHORTCUT = C * IN + TAIL;
    static constexpr int BLOCK = 2 * (SAME_CONV + TAIL);
    // prepared weights: stem forward; or first convolution, second, shortcut, forward and backward each; then the blocks
    static constexpr int READY = C * 9 * C, STEM_READY = 8 * 9 * C;
    static constexpr int READY1 = IN * 9 * C, READY1_BACK = READY1, READY_POINT = IN * C, READY_POINT_BACK = READY_POINT;

    const Run& run;
    const Stage& at;
    int image, images;  // the first one, and how many of this block's exist
    // what the table says is read once: the compiler must think that any store may change it
    float *values, *slice;
    const float *point, *ready;
    float *first, *second, *buffer, *scratch, *tails;
    __device__ __forceinline__ StageOf(const Run& run, const Stage& at, float* shared) : run(run), at(at), image(blockIdx.x * IMG), images(images_of(run) - image) {
        values = run.values, slice = run.partial + at.partial + (long long)blockIdx.x * at.slice + at.gradients, point = run.point + at.parameters, ready = run.prepared + at.prepared;
        second = shared, buffer = second + SET, scratch = buffer + BUFFER, tails = scratch + SCRATCH, first = tails + TAILS;
    }
    __device__ __forceinline__ float* tensor(int i) const { return values + at.values + ((long long)i * at.batch + image) * (C * S * S); }
    // Where forward keeps what it reads again, and what backward alone reads.
    __device__ __forceinline__ float* kept(int i) const { return tensor(!PREDICT ? i : i == 3 * BLOCKS ? 1 : 0); }
    __device__ __forceinline__ float* z(int i) const { return PREDICT ? nullptr : tensor(i); }
    __device__ __forceinline__ float* kept_roots(int i) const { return PREDICT ? nullptr : roots(i); }
    __device__ __forceinline__ float* roots(int i) const { return values + at.roots + ((long long)i * at.batch + image) * C; }
    // The stem's weights fill up to eight input channels there.
    __device__ __forceinline__ float* gradient(int parameter) const { return slice + parameter + (STEM && parameter ? 9 * (IN - 3) * C : 0); }
    __device__ __forceinline__ const float* prepared(int i) const { return ready + i; }
    // The first pieces of a convolution of FROM channels to TO, whose weights are those from i on.
    template <int FROM, int TO> __device__ __forceinline__ Ahead ahead(int i) const {
        constexpr int EACH = FROM < PIECE ? FROM : PIECE, PIECES = FROM / EACH;
        return {prepared(i), EACH * 9 * TO, PIECES < DEPTH ? PIECES : DEPTH};
    }
    template <int FROM, int TO> __device__ __forceinline__ Ahead ahead_point(int i) const { return {prepared(i), FROM * TO, 1}; }
    // Bias, gamma, beta, tau and 1/root of convolution i: 0 the first one, 1 + 2k and 2 + 2k those of block k.
    __device__ __forceinline__ float* tail(int i) const { return tails + i * TAIL_SIZE; }
    static __device__ __forceinline__ int tail_parameters(int i) {
        if (STEM) return i == 0 ? 9 * 3 * C : block_parameters(0) + (i - 1) * (SAME_CONV + TAIL) + SAME_CONV;
        return i == 0 ? DOWN + C * IN : i == 1 ? 9 * C * IN : i == 2 ? DOWN1 + SAME_CONV : block_parameters(1) + (i - 3) * (SAME_CONV + TAIL) + SAME_CONV;
    }
    __device__ __forceinline__ void load_tails(bool with_roots) const {
        constexpr int EACH = (TAILS + THREADS_R - 1) / THREADS_R;
        const int thread = this_thread();
        float v[EACH];
#pragma unroll
        for (int n = 0; n < EACH; n++) {
            const int i = thread + n * THREADS_R, conv = i / TAIL_SIZE, j = i % TAIL_SIZE;
            v[n] = 0;
            if (i < TAILS && (j < 4 * C || with_roots)) v[n] = __ldg(j < 4 * C ? point + tail_parameters(conv) + j : roots(conv) + j - 4 * C);
        }
#pragma unroll
        for (int n = 0; n < EACH; n++)
            if (thread + n * THREADS_R < TAILS) tails[thread + n * THREADS_R] = v[n];
    }
    // Brings a tensor of this image nearer, to L2. Measured: it pays in the second and third stage, not in the first.
    __device__ __forceinline__ void warm(int i) const {
#ifndef EMULATED
        const float* line = tensor(i) + threadIdx.x * 32;
        if (!STEM && threadIdx.x * 32 < TENSOR) asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(line)));
#endif
    }
    // Of block k >= 1 (k >= 0 in the first stage).
    static constexpr __device__ __forceinline__ int block_parameters(int k) { return STEM ? STEM_SIZE + k * BLOCK : DOWN + SHORTCUT + (k - 1) * BLOCK; }
    static constexpr __device__ __forceinline__ int block_prepared(int k) {
        return STEM ? STEM_READY + k * 4 * READY : READY1 + READY1_BACK + 2 * READY + READY_POINT + READY_POINT_BACK + (k - 1) * 4 * READY;
    }

    // Dropout of what the threads hold, forward and backward alike.
    __device__ __forceinline__ void drop(const T& tile, float* v, int which) const {
        if (at.threshold == 0) return;
        int layer = at.drop_layers[0];
#pragma unroll
        for (int i = 1; i < 6; i++) layer = which == i ? at.drop_layers[i] : layer;  // a run-time index would move `at` to local memory
        const Step& step = run.steps[run.step];
        const unsigned key = dropout_key(step.dropout_seed, layer, step.first_image + image + tile.image());
#pragma unroll
        for (int i = 0; i < T::CHANNELS; i++)
#pragma unroll
            for (int p = 0; p < T::PAIRS; p++)
#pragma unroll
                for (int e = 0; e < 2; e++)
                    v[T::sum(i, p, e)] *= dropout_bits(key, (tile.channel(i) * S + tile.y(p)) * S + tile.x(p) + e) < at.threshold ? 0.0f : at.factor;
    }

    // The second convolution of block k, of `second`; `sums` end up as the block's output, in memory and, but for the last, in `first`.
    __device__ __forceinline__ void second_half(float* sums, int ready, int k, const float* other, const Ahead& next) const {
        convolve<T, SAME, C, PIECE, DEPTH>(T(), sums, second, prepared(ready), buffer);
        const T tile;
        float old[T::SUMS];
        tile.load(other, old);
        finish(tile, sums, tail(2 + 2 * k), z(2 + 3 * k), kept_roots(2 + 2 * k), scratch, buffer, next);
    #pragma unroll
        for (int i = 0; i < T::SUMS; i++) sums[i] += old[i];
        drop(tile, sums, 2 * k + 1);
        if (k + 1 < BLOCKS) tile.save(kept(3 + 3 * k), sums), to_planes(tile, sums, first);
        else tile.save_plain(kept(3 + 3 * k), sums);
    }

    static constexpr int INPUT = IN * 4 * S * S;
    __device__ __forceinline__ const float* input() const { return values + at.input + (long long)image * INPUT; }
    // The one of stride 2, SOME channels of its input after others; the weights of all were asked for.
    __device__ __forceinline__ void first_convolution(float* sums) const {
        static_assert(IMG == 1 || (IMG == DEPTH && SOME == PIECE), "a piece of weights for SOME channels");
        fill_quarters<S, SOME, IMG, TF32, false>(first, input(), INPUT, images);
        convolve<T, HALF, SOME, SOME, 1, 4>(T(), sums, first, nullptr, buffer);
        if constexpr (IMG > 1) {
            __syncthreads();  // all have read them
            fill_quarters<S, SOME, IMG, TF32, false>(first, input() + SOME * 4 * S * S, INPUT, images);
            convolve<T, HALF, SOME, SOME, 1, 4, true>(T(), sums, first, nullptr, buffer + SOME * 9 * C);
        }
    }
    __device__ __forceinline__ void forward(const Images* set) const {
        float sums[T::SUMS];
        ask(buffer, ahead<IN, C>(0));
        load_tails(false);
        clear(second, SET);
        if constexpr (STEM) {
            const Visit visit = run.visits[run.steps[run.step].first_visit + image];
            fill_image<TF32>(first, *set, visit);
            clear(first + 3 * P::PLANE, SET - 3 * P::PLANE);
            convolve<T, SAME, 8, 8, 1>(T(), sums, first, prepared(0), buffer);
            const T tile;
            finish(tile, sums, tail(0), z(0), kept_roots(0), scratch, buffer, ahead<C, C>(block_prepared(0)));
            tile.save(kept(10), sums);
            to_planes(tile, sums, first);
        } else {
            first_convolution(sums);
            const int shortcut = READY1 + READY1_BACK + 2 * READY;
            finish(T(), sums, tail(1), z(1), kept_roots(1), scratch, buffer, ahead_point<IN, C>(shortcut));
            drop(T(), sums, 0);
            to_planes(T(), sums, second);
            // the shortcut's output waits in memory, at the place of the block's output
            if (IMG > 1) fill_quarters<S, IN, IMG, TF32, true>(first, input(), INPUT, images);
            convolve<T, POINT, IN, IN, 1>(T(), sums, first, prepared(shortcut), buffer);
            finish(T(), sums, tail(0), z(0), kept_roots(0), scratch, buffer, ahead<C, C>(READY1 + READY1_BACK));
            T().save(kept(3), sums);
            clear_border<S, IMG * C>(first);
            second_half(sums, READY1 + READY1_BACK, 0, kept(3), ahead<C, C>(block_prepared(1)));
        }
#pragma unroll 1
        for (int k = STEM ? 0 : 1; k < BLOCKS; k++) {
            const int ready = block_prepared(k);
            convolve<T, SAME, C, PIECE, DEPTH>(T(), sums, first, prepared(ready), buffer);
            const T tile;
            finish(tile, sums, tail(1 + 2 * k), z(1 + 3 * k), kept_roots(1 + 2 * k), scratch, buffer, ahead<C, C>(ready + 2 * READY));
            drop(tile, sums, 2 * k);
            to_planes(tile, sums, second);
            Ahead next = ahead<C, C>(block_prepared(k + 1));
            if (k + 1 == BLOCKS) next.from = nullptr;
            second_half(sums, ready + 2 * READY, k, k ? kept(3 * k) : kept(10), next);
        }
    }

    // Tensors are ordered to `first` where it holds no planes: no sooner than a barrier after the
    // last use of the planes, or of the slot by anybody; and planes are written there a barrier
    // after all have taken what they ordered.
    __device__ __forceinline__ float* slot(int i) const { return first + i * TENSOR; }
    // Back through the convolutions from the last one to number LAST, one loop for all of them: two
    // copies of it did not fit into the cache of instructions. `sums` are the gradient at the sum of
    // the last block, whose convolution was ordered to slot 1; they end up as the gradient at what
    // goes into convolution LAST, before dropout. 1 + 2k and 2 + 2k are those of block k: what the
    // first of them made is ordered to slot 0, what the second of them made to slot 1.
    template <int LAST> __device__ __forceinline__ void back(float* sums) const {
#pragma unroll 1
        for (int conv = 2 * BLOCKS; conv >= LAST; conv--) {
            const int k = (conv - 1) / 2;
            const bool is_second = conv % 2 == 0;
            const float* z = tensor(1 + 3 * k);
            const float* x = is_second ? z : k ? tensor(3 * k) : tensor(10);
            // of the second convolution of block 0 if that begins with a stride
            const int parameters = !STEM && k == 0 ? DOWN1 : block_parameters(k) + (is_second ? SAME_CONV + TAIL : 0);
            const int ready = !STEM && k == 0 ? READY1 + READY1_BACK : block_prepared(k) + (is_second ? 2 * READY : 0);
            drop(T(), sums, is_second ? 2 * k + 1 : 2 * k);
            {
                const T tile;
                float value[T::SUMS];
                arrived();
                tile.take(slot(is_second), value);
                unfinish(tile, sums, value, tail(conv), second, gradient(parameters + SAME_CONV), scratch, {x, slot(0)}, buffer, ahead<C, C>(ready + READY));
            }
            {
                const T tile;
                float v[T::SUMS];
                arrived_but<RING>();
                tile.take(slot(0), v);
                if (is_second) {
                    const float* p = tail(1 + 2 * k);
#pragma unroll
                    for (int i = 0; i < T::CHANNELS; i++) {
                        const int c = tile.channel(i);
                        const float scale = p[C + c] * p[(4 + tile.image()) * C + c], beta = p[2 * C + c], tau = p[3 * C + c];
#pragma unroll
                        for (int j = 0; j < T::PAIRS * 2; j++) {
                            float& value = v[T::sum(i, j / 2, j % 2)];
                            value = above(fmaf(scale, value, beta), tau);
                        }
                    }
                    drop(tile, v, 2 * k);
                }
                __syncthreads();  // all have taken theirs out of slot 0
                clear_border<S, IMG * C>(first);
                to_planes(tile, v, first);
            }
            __syncthreads();  // the planes are there
            if (is_second) warm(k ? 3 * k : STEM ? 10 : 0);
            else if (k) warm(3 * k - 1), warm(3 * k - 2);
            weigh<S, C, C, SAME, IMG, C, TF32>(second, first, gradient(parameters), 0);
            convolve<T, SAME, C, PIECE, DEPTH>(T(), sums, second, prepared(ready + READY), buffer, [&] {
                const T tile;
                tile.order(is_second ? z : tensor(12), slot(0));
                if (!is_second) tile.order(k ? tensor(3 * k - 1) : tensor(0), slot(1));
            });
            if (!is_second) {
                // and what goes past the block
                const T tile;
                float d[T::SUMS];
                arrived();
                tile.take(slot(0), d);
                drop(tile, d, 2 * k + 1);
#pragma unroll
                for (int i = 0; i < T::SUMS; i++) sums[i] += d[i];
                tile.save(tensor(12), sums);
            }
        }
    }

    __device__ __forceinline__ void backward(const Images* set) const {
        float sums[T::SUMS];
        clear(second, SET);
        T().order(tensor(3 * BLOCKS - 1), slot(1));
        load_tails(true);
        warm(3 * BLOCKS - 2);
        // what comes from the next stage, kept in the order of the threads; `sums` is the gradient
        // at a block's sum from here on
        T().load_plain(tensor(11), sums, images);
        T().save(tensor(12), sums);
        __syncthreads();
        back<STEM ? 1 : 2>(sums);
        if constexpr (STEM) {
            {
                const T tile;
                float value[T::SUMS];
                tile.take(slot(1), value);
                unfinish(tile, sums, value, tail(0), second, gradient(9 * 3 * C), scratch, Order(), buffer, Ahead());
            }
            // all took theirs out of slot 1 before the barriers in `unfinish`
            const Visit visit = run.visits[run.steps[run.step].first_visit + image];
            fill_image<TF32>(first, *set, visit);
            clear(first + 3 * P::PLANE, 5 * P::PLANE);
            __syncthreads();
            weigh<S, C, 8, SAME, IMG, 8, TF32>(second, first, gradient(0), 0);
        } else {
            drop(T(), sums, 0);
            {
                const T tile;
                float value[T::SUMS];
                arrived();
                tile.take(slot(0), value);
                unfinish(tile, sums, value, tail(1), second, gradient(9 * C * IN), scratch, Order(), buffer, ahead<C, IN>(READY1));
            }
            // all took theirs out of slot 0 before the barriers in `unfinish`
#pragma unroll 1
            for (int some = 0; some < IN; some += SOME) {
                fill_quarters<S, SOME, IMG, TF32, false>(first, input() + some * 4 * S * S, INPUT, images);
                __syncthreads();
                weigh<S, C, SOME, HALF, IMG, IN, TF32>(second, first, gradient(0), some);
            }
            float* to = values + at.input_gradient + (long long)image * INPUT;
            const auto meanwhile = [&] {
                const T tile;
                tile.order(tensor(12), slot(0));
                tile.order(tensor(0), slot(1));
            };
            Wide().template back<C, PIECE, DEPTH>(to, images, second, prepared(READY1), buffer, meanwhile);
            const int shortcut = READY1 + READY1_BACK + 2 * READY + READY_POINT;
            {
                const T tile;
                float value[T::SUMS];
                arrived();
                tile.take(slot(0), sums);
                tile.take(slot(1), value);
                drop(tile, sums, 1);
                unfinish(tile, sums, value, tail(0), second, gradient(DOWN + C * IN), scratch, Order(), buffer, ahead_point<C, IN>(shortcut));
            }
            fill_quarters<S, IN, IMG, TF32, true>(first, input(), INPUT, images);
            __syncthreads();
            weigh<S, C, IN, POINT, IMG, IN, TF32>(second, first, gradient(DOWN), 0);
            Wide().template add_point<C>(to, images, second, prepared(shortcut), buffer);
        }
    }
};

// Grid (groups of IMG images, 1, run).
template <int S, int C, int IMG, bool TF32, bool BACKWARD, bool PREDICT = false> __device__ __forceinline__ void stage(const Run* runs, const Images* set, const Stage& at) {
    const Run& run = runs[blockIdx.z];
    if ((int)blockIdx.x * IMG >= images_of(run)) return;
    DYNAMIC_SHARED(float, shared);
    const StageOf<S, C, IMG, TF32, PREDICT> here(run, at, shared);
    if constexpr (BACKWARD) here.backward(set);
    else here.forward(set);
}
// `predict` is `forward` that keeps nothing for backward.
#define STAGES(name, tf32)                                                                                                                         \
    extern "C" __global__ void __launch_bounds__(THREADS_R, 1) stage1_forward_##name(const Run* r, Images set, Stage at) { stage<32, 16, 1, tf32, false>(r, &set, at); }  \
    extern "C" __global__ void __launch_bounds__(THREADS_R, 1) stage2_forward_##name(const Run* r, Images set, Stage at) { stage<16, 32, 1, tf32, false>(r, &set, at); }  \
    extern "C" __global__ void __launch_bounds__(THREADS_R, 1) stage3_forward_##name(const Run* r, Images set, Stage at) { stage<8, 64, 2, tf32, false>(r, &set, at); }   \
    extern "C" __global__ void __launch_bounds__(THREADS_R, 1) stage1_predict_##name(const Run* r, Images set, Stage at) { stage<32, 16, 1, tf32, false, true>(r, &set, at); }  \
    extern "C" __global__ void __launch_bounds__(THREADS_R, 1) stage2_predict_##name(const Run* r, Images set, Stage at) { stage<16, 32, 1, tf32, false, true>(r, &set, at); }  \
    extern "C" __global__ void __launch_bounds__(THREADS_R, 1) stage3_predict_##name(const Run* r, Images set, Stage at) { stage<8, 64, 2, tf32, false, true>(r, &set, at); }   \
    extern "C" __global__ void __launch_bounds__(THREADS_R, 1) stage1_backward_##name(const Run* r, Images set, Stage at) { stage<32, 16, 1, tf32, true>(r, &set, at); }  \
    extern "C" __global__ void __launch_bounds__(THREADS_R, 1) stage2_backward_##name(const Run* r, Images set, Stage at) { stage<16, 32, 1, tf32, true>(r, &set, at); }  \
    extern "C" __global__ void __launch_bounds__(THREADS_R, 1) stage3_backward_##name(const Run* r, Images set, Stage at) { stage<8, 64, 2, tf32, true>(r, &set, at); }
STAGES(f32, false)
STAGES(tf32, true)

// Mean over pixels, dense layer, loss and back to the gradient at the last stage's output: grid (image, 1, run), 256 threads.
// With `predict` it ends at the logits, and writes the means, [batch][64], to `dx`.
struct Head { int batch, classes, weight, slice, gradients, predict; long long x, dx, loss, correct, logits, partial; };
extern "C" __global__ void __launch_bounds__(256) resnet_head(const Run* runs, Images set, Head head) {
    constexpr int C = 64, PLANE = 64;
    const Run& run = runs[blockIdx.z];
    const int images = images_of(run), image = blockIdx.x, thread = threadIdx.x, classes = head.classes;
    if (image >= images) return;
    DYNAMIC_SHARED(float, mean);  // [C], logits [classes], delta [classes]
    float *logits = mean + C, *delta = logits + classes;
    // a warp takes two channels at a time, a lane four of their pixels
    const int lane = thread % 32, warp = thread / 32;
    const float4* x = reinterpret_cast<const float4*>(run.values + head.x + (long long)image * (C * PLANE));
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float4 v = x[(i * 8 + warp) * 32 + lane];
        float sum = (v.x + v.y) + (v.z + v.w);
        for (int m = 8; m; m >>= 1) sum += __shfl_xor_sync(ALL_LANES, sum, m);
        if (lane % 16 == 0) mean[(i * 8 + warp) * 2 + lane / 16] = sum / PLANE;
    }
    __syncthreads();
    const float *weight = run.point + head.weight, *bias = weight + classes * C;
    for (int o = warp; o < classes; o += 8) {
        float value = fmaf(weight[o * C + 32 + lane], mean[32 + lane], weight[o * C + lane] * mean[lane]);
        for (int m = 16; m; m >>= 1) value += __shfl_xor_sync(ALL_LANES, value, m);
        if (lane == 0) logits[o] = value + bias[o], run.values[head.logits + (long long)image * classes + o] = logits[o];
    }
    if (head.predict) {
        if (thread < C) run.values[head.dx + (long long)image * C + thread] = mean[thread];
        return;
    }
    __syncthreads();
    if (thread < 32) {
        const int label = label_of(run, set, image);
        float lost, correct;
        cross_entropy(logits, classes, label, images, delta, &lost, &correct);
        if (thread == 0) run.values[head.loss + image] = lost, run.values[head.correct + image] = correct;
    }
    __syncthreads();
    float* gradient = run.partial + head.partial + (long long)image * head.slice + head.gradients;
    for (int i = thread; i < classes * C; i += 256) gradient[i] = delta[i / C] * mean[i % C];
    for (int o = thread; o < classes; o += 256) gradient[classes * C + o] = delta[o];
    __syncthreads();
    if (thread < C) {
        float d = 0;
#pragma unroll 10
        for (int o = 0; o < classes; o++) d = fmaf(delta[o], weight[o * C + thread], d);
        mean[thread] = d / PLANE;
    }
    __syncthreads();
    float4* dx = reinterpret_cast<float4*>(run.values + head.dx + (long long)image * (C * PLANE));
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float d = mean[(i * 256 + thread) / 16];
        dx[i * 256 + thread] = make_float4(d, d, d, d);
    }
}
