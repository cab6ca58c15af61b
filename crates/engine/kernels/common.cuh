// What all kernels share. One launch covers (run, images): the last grid dimension is the run, and everything that differs
// between runs stands in a table of descriptors. Sums over images go through partial sums of fixed groups of images, added in
// a fixed order; nothing is added by atomics but integers. So a run's bits depend neither on the number of runs in the
// launch nor on its place among them.
#pragma once
#ifdef __CUDACC__
#define DYNAMIC_SHARED(type, name) extern __shared__ __align__(128) char shared_bytes[]; type* name = reinterpret_cast<type*>(shared_bytes)
typedef unsigned char uint8_t;
typedef signed char int8_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
__device__ __forceinline__ void mma_tf32(float* d, const unsigned* a, const unsigned* b) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// The same of half the length: row lane / 4 and the one 8 beyond of column lane % 4, times row lane % 4 of column lane / 4.
__device__ __forceinline__ void mma_tf32_short(float* d, const unsigned* a, unsigned b) {
    asm volatile("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(b));
}
// d += A B of factors in two parts, in f32 but for low times low.
template <int K> __device__ __forceinline__ void mma_f32(float* d, const unsigned* a, const unsigned* a_low, const unsigned* b, const unsigned* b_low) {
    if constexpr (K == 8) mma_tf32(d, a_low, b), mma_tf32(d, a, b_low), mma_tf32(d, a, b);
    else mma_tf32_short(d, a_low, *b), mma_tf32_short(d, a, *b_low), mma_tf32_short(d, a, *b);
}
// Four (two) matrices of 8 x 4 numbers: lanes 8i..8i+7 name the rows of matrix i, 16 bytes each, and every lane gets number
// lane % 4 of row lane / 4 of each. So lie the factors of `mma_tf32`.
__device__ __forceinline__ void matrices4(unsigned* to, unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(row));
}
__device__ __forceinline__ void matrices2(unsigned* to, unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(row));
}
#endif

// Sixteen bytes of global memory at once. The compiler cannot see that a pointer out of a table is global.
__device__ __forceinline__ float4 load_global(const float* from) {
#ifdef EMULATED
    return *reinterpret_cast<const float4*>(from);
#else
    float4 v;
    asm volatile("ld.global.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(__cvta_generic_to_global(from)));
    return v;
#endif
}
__device__ __forceinline__ void store_global(float* to, float4 v) {
#ifdef EMULATED
    *reinterpret_cast<float4*>(to) = v;
#else
    asm volatile("st.global.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(__cvta_generic_to_global(to)), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
#endif
}

// Copies to shared memory that go on behind the threads' backs, sixteen bytes each; `arrived` waits for those of this thread.
__device__ __forceinline__ void request4(float* to, const float* from) {
#ifdef EMULATED
    emu::begin_copy(to, from);
#else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from));
#endif
}
template <int THREADS> __device__ __forceinline__ void request(float* to, const float* from, int count) {
    for (int i = threadIdx.x * 4; i < count; i += THREADS * 4) request4(to + i, from + i);
}
__device__ __forceinline__ void arrived() {
#ifdef EMULATED
    emu::end_copies(0);
#else
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
// What was asked for since the last `end_group` is a group; `arrived_but` waits for all groups of
// this thread but the last so many.
__device__ __forceinline__ void end_group() {
#ifdef EMULATED
    emu::end_group();
#else
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int COUNT> __device__ __forceinline__ void arrived_but() {
#ifdef EMULATED
    emu::end_copies(COUNT);
#else
    asm volatile("cp.async.wait_group %0;" ::"n"(COUNT) : "memory");
#endif
}
// The thread's number, of which the compiler knows nothing: so it forms addresses anew where they are used, instead of keeping
// those of all phases at hand in registers that it does not have.
__device__ __forceinline__ unsigned this_thread() {
    unsigned thread = threadIdx.x;
#ifndef EMULATED
    asm volatile("" : "+r"(thread));
#endif
    return thread;
}

// A place in shared memory of which the compiler knows nothing, so that loads are written as this register and a constant. It
// would rather keep an index for each.
struct Spot {
#ifdef EMULATED
    const float* at;
    explicit Spot(const float* p) : at(p) {}
    void move(int floats) { at += floats; }
    float4 load4(int floats) const { return *reinterpret_cast<const float4*>(at + floats); }
    float2 load2(int floats) const { return *reinterpret_cast<const float2*>(at + floats); }
    float load(int floats) const { return at[floats]; }
    const float* row(int floats) const { return at + floats; }
#else
    __device__ __forceinline__ unsigned row(int floats) const { return at + 4 * floats; }
    unsigned at;
    __device__ __forceinline__ explicit Spot(const float* p) : at((unsigned)__cvta_generic_to_shared(p)) { asm volatile("" : "+r"(at)); }
    __device__ __forceinline__ void move(int floats) { at += 4 * floats; }
    __device__ __forceinline__ float4 load4(int floats) const {
        float4 v;
        asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(at + 4 * floats));
        return v;
    }
    __device__ __forceinline__ float2 load2(int floats) const {
        float2 v;
        asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(at + 4 * floats));
        return v;
    }
    __device__ __forceinline__ float load(int floats) const {
        float v;
        asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(at + 4 * floats));
        return v;
    }
#endif
};

constexpr int larger_of(int a, int b) { return a > b ? a : b; }
#ifndef WITHOUT_ROUNDING
#define WITHOUT_ROUNDING false
#endif
#define ALL_LANES 0xffffffffu
#define FRN_EPSILON 1e-6f

// One image of a step, as the host's loader makes it: 8 bytes.
struct Visit { uint32_t image; int8_t down, right; uint8_t flip, reserved; };

// The constants of one step of one rule, formed in f64 on the host; which fields a rule reads is said in rules.cu.
struct Constants { float v[16]; };

// One gradient of one run. `noise_step` is the step number that noise is drawn for, `sample` the number of the gradient in its
// step, `first_image` the place of the first image among all that dropout masks are drawn for. The gradient is that of the
// mean loss or, where `logit` is not 0, of the sum of the images' logits of this number, from 1.
struct Step { uint32_t first_visit, images, first_image, sample, logit, reserved; uint64_t noise_step, dropout_seed; Constants constants; };

// What came of a step; the counts are those of the host's step report.
struct Outcome { double loss; uint32_t correct, unusable, floored, gap_not_positive, clipped, overflowed; };

// One run. `point` is where the gradient is taken: `theta` itself, or the perturbed weights.
struct Run {
    float *theta, *point, *gradient, *momentum, *curvature, *envelope, *values, *partial, *prepared;
    const Visit* visits;
    const Step* steps;
    Outcome* outcomes;
    float *gradient_mean, *second_mean;  // of the samples of a step, for rules that take several
    uint64_t seed;
    uint32_t step, stopped, rule, parameters;
};

// The images all runs share: bytes with a table per channel, or, where `ready` is not null, numbers that are taken as they are.
struct Images { const uint8_t* pixels; const float* ready; const uint32_t* labels; const float* tables; int channels, height, width; };

__device__ __forceinline__ int images_of(const Run& run) { return run.stopped ? 0 : (int)run.steps[run.step].images; }

// The label of an image of a step; below 0, `~label` is the class whose logit the gradient is taken of.
__device__ __forceinline__ int label_of(const Run& run, const Images& set, int image) {
    const Step& step = run.steps[run.step];
    return step.logit ? -(int)step.logit : (int)set.labels[run.visits[step.first_visit + image].image];
}

// Nearest TF32 number, halves away from zero: the hardware ignores the 13 low bits.
__device__ __forceinline__ float tf32_nearest(float v) { return __uint_as_float((__float_as_uint(v) + 0x1000u) & 0xffffe000u); }
template <bool TF32> __device__ __forceinline__ float product_input(float v) { return TF32 && !WITHOUT_ROUNDING ? tf32_nearest(v) : v; }

// Factors of products. For TF32 they were rounded before. For f32 each is taken apart, into the nearest TF32 number and what
// is left, of which the hardware ignores what is below 2^-21 of the factor.
template <bool TF32, int N> struct Factors {
    unsigned high[N], low[TF32 ? 1 : N];
    __device__ __forceinline__ void set(int i, float v) {
        const float near = TF32 ? v : tf32_nearest(v);
        high[i] = __float_as_uint(near);
        if (!TF32) low[i] = __float_as_uint(v - near);
    }
    __device__ __forceinline__ void set2(int i, const float* from) {
        const float2 v = *reinterpret_cast<const float2*>(from);
        set(i, v.x), set(i + 1, v.y);
    }
    template <int M> __device__ __forceinline__ void take(int i, const Factors<TF32, M>& from, int j) {
        high[i] = from.high[j];
        if (!TF32) low[i] = from.low[j];
    }
};
// A few products in a row, added to COUNT times four sums. For f32 each is three: high times high and high times low, both
// ways. What the hardware adds up it cuts off instead of rounding it, so that sums over many products would lean towards zero:
// it adds up only these few, and what comes of them is added in f32. Where FEW is false, the sums have at most 84 in a row
// anyway, which the hardware adds up by itself.
template <bool TF32, int COUNT, bool FEW = true> struct Products {
    static constexpr bool APART = !TF32 && FEW;
    float (*sums)[4], part[APART ? COUNT : 1][4];
    __device__ __forceinline__ explicit Products(float (*sums)[4]) : sums(sums) {
        if (APART)
#pragma unroll
            for (int i = 0; i < COUNT * 4; i++) part[i / 4][i % 4] = 0;
    }
    __device__ __forceinline__ void add(int n, const Factors<TF32, 4>& a, const Factors<TF32, 2>& b) {
        if constexpr (TF32) {
            mma_tf32(sums[n], a.high, b.high);
        } else {
            mma_f32<8>(APART ? part[n] : sums[n], a.high, a.low, b.high, b.low);
        }
    }
    // Half as many, in f32.
    __device__ __forceinline__ void add(int n, const Factors<TF32, 2>& a, const Factors<TF32, 1>& b) {
        mma_f32<4>(APART ? part[n] : sums[n], a.high, a.low, b.high, b.low);
    }
    __device__ __forceinline__ ~Products() {
        if (APART)
#pragma unroll
            for (int i = 0; i < COUNT * 4; i++) sums[i / 4][i % 4] += part[i / 4][i % 4];
    }
};

// The larger one, NaN if one is.
__device__ __forceinline__ float larger(float a, float b) { return a != a || a > b ? a : b; }

// Sum over a block in a fixed order; every thread gets it. `scratch` holds one number per warp.
__device__ __forceinline__ float block_sum(float v, float* scratch) {
    for (int m = 16; m; m >>= 1) v += __shfl_xor_sync(ALL_LANES, v, m);
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
    __syncthreads();
    float sum = 0;
    for (unsigned w = 0; w < blockDim.x / 32; w++) sum += scratch[w];
    return sum;
}

enum { UCBOPT, UCBOPT_ADAPT, LCBOPT_ADAPT, SGD, ADAMW, IVON };  // Run::rule
__device__ __forceinline__ bool usable(float v, float limit) { return fabsf(v) <= limit; }

// Writes a gradient and counts it if the rule cannot use it; a run with one of these stops before its update.
__device__ __forceinline__ void store_gradient(const Run& run, int i, float value) {
    run.gradient[i] = value;
    if (!usable(value, run.rule == SGD ? 3.40282347e38f : 1.8446743e19f)) atomicAdd(&run.outcomes[run.step].unusable, 1);
}

// Pixel `i` of a visited image, [channel, row, column]: mirrored, then moved, black outside, then normalized by the table.
__device__ __forceinline__ float placed_pixel(const Images& set, const Visit& visit, int channels, int height, int width, int i) {
    const int area = height * width, x = i % width, y = i % area / width, c = i / area;
    if (set.ready) return set.ready[(size_t)visit.image * (channels * area) + i];
    const int row = y + visit.down;
    int column = x + visit.right;
    const bool inside = row >= 0 && row < height && column >= 0 && column < width;
    if (visit.flip) column = width - 1 - column;
    const int pixel = inside ? set.pixels[(size_t)visit.image * (channels * area) + c * area + row * width + column] : 0;
    return set.tables[c * 256 + pixel];
}

// ---- dropout: the host's masks ------------------------------------------------------------------------------------------

__device__ __forceinline__ uint64_t mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}
__device__ __forceinline__ unsigned dropout_key(uint64_t seed, int layer, int image) {
    return (unsigned)mix(mix(seed ^ ((uint64_t)layer << 40)) ^ (uint64_t)image);
}
__device__ __forceinline__ unsigned dropout_bits(unsigned key, unsigned element) {
    unsigned x = element * 0x9E3779B9u + key;
    x = (x ^ (x >> 16)) * 0x7FEB352Du;
    x = (x ^ (x >> 15)) * 0x846CA68Bu;
    return x ^ (x >> 16);
}

// Softmax cross-entropy of one image by one warp: loss, gradient of the mean loss, whether the first maximum is the label.
// For a label below 0 the gradient is that of a logit; see `label_of`.
__device__ __forceinline__ void cross_entropy(const float* logits, int classes, int label, int images, float* gradient, float* loss, float* correct) {
    const int lane = threadIdx.x % 32;
    float top = -INFINITY;
    int best = classes;
    for (int i = lane; i < classes; i += 32) {
        if (logits[i] > top || (logits[i] != logits[i] && top == top)) top = logits[i], best = i;
    }
    for (int m = 16; m; m >>= 1) {
        const float other = __shfl_xor_sync(ALL_LANES, top, m);
        const int at = __shfl_xor_sync(ALL_LANES, best, m);
        const bool nan = top != top, other_nan = other != other;
        if (nan == other_nan ? (other > top || ((other == top || nan) && at < best)) : other_nan) top = other, best = at;
    }
    float sum = 0;
    for (int i = lane; i < classes; i += 32) sum += expf(logits[i] - top);
    for (int m = 16; m; m >>= 1) sum += __shfl_xor_sync(ALL_LANES, sum, m);
    const float log_sum = logf(sum), scale = 1.0f / images;
    const int at = label < 0 ? ~label : label;
    for (int i = lane; i < classes; i += 32) {
        const float one = i == at ? 1.0f : 0.0f;
        gradient[i] = label < 0 ? one : (expf(logits[i] - top - log_sum) - one) * scale;
    }
    if (lane == 0) *loss = log_sum - (logits[at] - top), *correct = best == label ? 1.0f : 0.0f;
}
