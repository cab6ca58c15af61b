// The update rules, coordinate by coordinate, with the bits of the host: the same correctly rounded operations in the same
// order, nothing contracted (this file is compiled with -fmad=false). Constants of a step come from the host in f32.
#include "common.cuh"

// Fields of `Constants`.
enum {
    MOMENTUM, MOMENTUM_OLD, CURVATURE, CURVATURE_OLD,  // weight of the far end of an average, and whether the near end is the old value
    PUSH, PULL, ADDED, FLOOR, RADIUS,                  // CBOpt: step of momentum and theta, stabilizer, clip
    DECAY, ENVELOPE, COMPLEMENT,                       // CBOpt: delta (ucbopt: delta - vartheta), beta3, |1 - gamma|
    // sgd: momentum, decay, rate, 1 for Nesterov, 1 if there is a momentum buffer
    SGD_MOMENTUM = 0, SGD_DECAY, SGD_RATE, SGD_AHEAD, SGD_BUFFER,
    // adamw, after the averages
    SHRINK = 4, SCALE, EPS, RATE,
    // ivon, after the first average
    CURVATURE_RATE = 2, CORRECTION, IVON_DECAY, ESS, FIXED_SCALE, IVON_RADIUS, IVON_RATE, HAS_FIXED_SCALE,
    IVON_SAMPLES, IVON_SHARE  // gradients of a step, and weight of this one in the mean over those so far
};

__device__ __forceinline__ float average(float weight, float from_old, float old, float fresh) {
    const float base = from_old > 0 ? old : fresh, other = from_old > 0 ? fresh : old;
    return base + weight * (other - base);
}
__device__ __forceinline__ float clip(float value, float radius, bool& clipped) {
    clipped = value > radius || value < -radius;
    value = value > radius ? radius : value;
    return value < -radius ? -radius : value;
}

// ---- noise: Philox4x32-10, Box-Muller; coordinate i is word (i mod 64) / 16 of block 16 (i / 64) + i mod 16 ----------------

__device__ __forceinline__ float unit(unsigned word) { return (float)word * (1.0f / 4294967296.0f) + (0.5f / 4294967296.0f); }
__device__ __forceinline__ float logarithm(float u) {
    const unsigned shifted = __float_as_uint(u) - 0x3F3504F3u;
    const float exponent = (float)((int)shifted >> 23);
    const float f = __uint_as_float((shifted & 0x007FFFFFu) + 0x3F3504F3u);
    const float s = (f - 1.0f) / (f + 1.0f), q = s * s;
    const float tail = q * (1.0f / 3.0f + q * (1.0f / 5.0f + q * (1.0f / 7.0f + q * (1.0f / 9.0f))));
    const float high = exponent * 0.6933594f, low = exponent * -2.1219444e-4f;
    return high + (2.0f * s + (2.0f * s * tail + low));
}
__device__ __forceinline__ void turn(unsigned word, float& cosine, float& sine) {
    const unsigned quarter = (word + (1u << 29)) >> 30;
    const int rest = (int)(word - (quarter << 30));
    const float t = (float)rest * (float)(6.283185307179586 / 4294967296.0), q = t * t;
    const float s = t + t * q * (-1.0f / 6.0f + q * (1.0f / 120.0f + q * (-1.0f / 5040.0f + q * (1.0f / 362880.0f))));
    const float c = 1.0f + q * (-0.5f + q * (1.0f / 24.0f + q * (-1.0f / 720.0f + q * (1.0f / 40320.0f + q * (-1.0f / 3628800.0f)))));
    const float x = (quarter & 1) == 0 ? c : s, y = (quarter & 1) == 0 ? s : c;
    cosine = ((quarter + 1) & 2) == 0 ? x : -x;
    sine = (quarter & 2) == 0 ? y : -y;
}
__device__ __forceinline__ float normal(uint64_t seed, unsigned step, unsigned sample, uint64_t index) {
    const unsigned inside = (unsigned)(index % 64);
    const uint64_t block = index / 64 * 16 + inside % 16;
    unsigned c[4] = {(unsigned)block, (unsigned)(block >> 32), sample, step}, key[2] = {(unsigned)seed, (unsigned)(seed >> 32)};
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const unsigned h0 = __umulhi(0xD2511F53u, c[0]), l0 = 0xD2511F53u * c[0], h1 = __umulhi(0xCD9E8D57u, c[2]), l1 = 0xCD9E8D57u * c[2];
        c[0] = h1 ^ c[1] ^ key[0], c[1] = l1, c[2] = h0 ^ c[3] ^ key[1], c[3] = l0;
        key[0] += 0x9E3779B9u, key[1] += 0xBB67AE85u;
    }
    const bool second = inside >= 32;
    const float radius = sqrtf(-2.0f * logarithm(unit(second ? c[2] : c[0])));
    float x, y;
    turn(second ? c[3] : c[1], x, y);
    return radius * (inside / 16 % 2 == 0 ? x : y);
}

// `point` of the runs that perturb: theta + z / sqrt(N (h + delta)). Grid (parameters / 256, 1, run).
extern "C" __global__ void perturb(const Run* runs) {
    const Run& run = runs[blockIdx.z];
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (run.rule != IVON || images_of(run) == 0 || i >= run.parameters) return;
    const Step& step = run.steps[run.step];
    const float* k = step.constants.v;
    const float z = normal(run.seed, (unsigned)step.noise_step, step.sample, i);
    run.point[i] = run.theta[i] + z / sqrtf(k[ESS] * (run.curvature[i] + k[IVON_DECAY]));
}

// One step of every run. Grid as `perturb`.
extern "C" __global__ void update(const Run* runs) {
    const Run& run = runs[blockIdx.z];
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (images_of(run) == 0 || i >= run.parameters) return;
    Outcome& outcome = run.outcomes[run.step];
    if (outcome.unusable) return;
    const Step& now = run.steps[run.step];
    const float* k = now.constants.v;
    float g = run.gradient[i], second = 0;
    const float old = run.theta[i];
    if (run.rule == IVON) {
        second = (k[HAS_FIXED_SCALE] > 0 ? g : normal(run.seed, (unsigned)now.noise_step, now.sample, i)) * g;
        if (k[IVON_SAMPLES] > 1) {
            if (now.sample > 0) {
                g = run.gradient_mean[i] + k[IVON_SHARE] * (g - run.gradient_mean[i]);
                second = run.second_mean[i] + k[IVON_SHARE] * (second - run.second_mean[i]);
            }
            run.gradient_mean[i] = g, run.second_mean[i] = second;
            if (now.sample + 1 < (unsigned)k[IVON_SAMPLES]) return;
        }
    }
    float theta, h = 0;
    bool floored = false, flat = false, clipped = false;
    if (run.rule <= LCBOPT_ADAPT) {
        const float m = average(k[MOMENTUM], k[MOMENTUM_OLD], run.momentum[i], g);
        h = average(k[CURVATURE], k[CURVATURE_OLD], run.curvature[i], g * g);
        float gap;
        if (run.rule == UCBOPT) {
            gap = h + k[DECAY];
        } else {
            const float total = h + k[DECAY], moved = k[ENVELOPE] * run.envelope[i];
            const bool keep = run.rule == UCBOPT_ADAPT ? moved < total : moved > total;
            const float c = keep ? moved : total;
            gap = (run.rule == UCBOPT_ADAPT ? total - c : c - total) + k[COMPLEMENT] * c;
            run.envelope[i] = c;
        }
        float below = gap + k[ADDED];
        floored = below < k[FLOOR];
        below = floored ? k[FLOOR] : below;
        flat = gap <= 0.0f;
        theta = old - clip((m * k[PUSH] + k[PULL] * old) / below, k[RADIUS], clipped);
        run.momentum[i] = m, run.curvature[i] = h;
    } else if (run.rule == SGD) {
        const float d = g + k[SGD_DECAY] * old;
        if (k[SGD_BUFFER] > 0) {
            const float m = k[SGD_MOMENTUM] * run.momentum[i] + d, ahead = d + k[SGD_MOMENTUM] * m;
            theta = old - k[SGD_RATE] * (k[SGD_AHEAD] > 0 ? ahead : m);
            run.momentum[i] = m;
        } else {
            theta = old - k[SGD_RATE] * d;
        }
    } else if (run.rule == ADAMW) {
        const float m = average(k[MOMENTUM], k[MOMENTUM_OLD], run.momentum[i], g);
        h = average(k[CURVATURE], k[CURVATURE_OLD], run.curvature[i], g * g);
        theta = old - (k[SHRINK] * old + k[RATE] * (m / (sqrtf(h) * k[SCALE] + k[EPS])));
        run.momentum[i] = m, run.curvature[i] = h;
    } else {
        const float before = run.curvature[i], total = before + k[IVON_DECAY];
        const float scale = k[HAS_FIXED_SCALE] > 0 ? k[FIXED_SCALE] : sqrtf(k[ESS] * total);
        const float m = average(k[MOMENTUM], k[MOMENTUM_OLD], run.momentum[i], g);
        const float t = k[CURVATURE_RATE] * (before - scale * second);
        h = (before - t) + 0.5f * t * (t / total);
        const float gap = h + k[IVON_DECAY];
        flat = gap <= 0.0f;
        theta = old - k[IVON_RATE] * clip((m * k[CORRECTION] + k[IVON_DECAY] * old) / gap, k[IVON_RADIUS], clipped);
        run.momentum[i] = m, run.curvature[i] = h;
    }
    run.theta[i] = theta;
    const bool overflowed = !usable(theta, 3.40282347e38f) || !usable(h, 3.40282347e38f);
    if (floored) atomicAdd(&outcome.floored, 1);
    if (flat) atomicAdd(&outcome.gap_not_positive, 1);
    if (clipped) atomicAdd(&outcome.clipped, 1);
    if (overflowed) atomicAdd(&outcome.overflowed, 1);
}

// Loss and correct predictions of the step, added in a fixed order, and the next step: grid (1, 1, run), one warp.
extern "C" __global__ void tick(Run* runs, long long loss, long long correct) {
    Run& run = runs[blockIdx.z];
    const int images = images_of(run);
    if (images == 0) return;
    Outcome& outcome = run.outcomes[run.step];
    double sum = 0;
    unsigned count = 0;
    for (int i = threadIdx.x; i < images; i += 32) sum += run.values[loss + i], count += run.values[correct + i] > 0;
    for (int m = 16; m; m >>= 1) sum += __shfl_xor_sync(ALL_LANES, sum, m), count += __shfl_xor_sync(ALL_LANES, count, m);
    if (threadIdx.x) return;
    outcome.loss = sum, outcome.correct = count;
    if (outcome.unusable) run.stopped = 1;
    else run.step++;
}
