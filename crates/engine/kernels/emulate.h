// Runs the kernels on the host: g++ sees the same .cu files, one block at a time, its threads as fibers.
//
// A fiber runs until it meets a barrier. A warp whose lanes all wait for each other goes on at
// once, a team of neighboring warps when all of them wait for each other, a block when all its warps
// wait; lanes of one warp that wait for different things are an error. So wrong sums, wrong indices
// and barriers that not everyone reaches are found. Shared memory is filled with NaN before every
// block. Where a barrier is missing, what comes out depends on who goes first: the same launch in another `order` may show it by
// other bits, and `races.cpp` finds it.
#pragma once
#include <algorithm>
#include <csetjmp>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <ucontext.h>
#include <vector>
#include "races.h"

#define EMULATED 1
#define __global__
#define __device__
#define __constant__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define DYNAMIC_SHARED(type, name) type* name = reinterpret_cast<type*>(emu::shared)

struct dim3 { unsigned x = 1, y = 1, z = 1; dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {} };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

static dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emu {
constexpr int STACK = 256 << 10;
enum Wait { RUN, WARP, TEAM, BLOCK, DONE };
struct Fiber { ucontext_t start; jmp_buf at; bool begun = false; Wait wait; int team = 0, exchanges = 0; std::vector<char> stack; };
alignas(128) char shared[232448];
static std::vector<Fiber> fibers;
static jmp_buf scheduler;
static int current;
static std::function<void()> body;
// What the lanes of the running warp hold out to each other, in two places by turns: when a lane takes a place again, all have
// read what was there.
static double places[2][32][8];
typedef double Place[8];

inline void pause(Wait what) {
    fibers[current].wait = what;
    if (!_setjmp(fibers[current].at)) _longjmp(scheduler, 1);
}
// Holds these bytes out to the other lanes of the warp, and returns what all of them do.
inline const Place* held_out(const void* mine, size_t bytes) {
    Place* place = places[fibers[current].exchanges++ % 2];
    memcpy(place[current % 32], mine, bytes);
    pause(WARP);
    return place;
}
// A barrier of `warps` neighboring warps.
inline void meet(int warps) { fibers[current].team = warps, pause(TEAM); }
// A fiber that is done waits for the next block: making one takes longer than most blocks.
inline void entry() { for (;;) body(), pause(DONE); }
inline void resume(int thread) {
    Fiber& f = fibers[thread];
    current = thread;
    threadIdx = dim3(thread);
    f.wait = RUN;
    race::turn(thread, f.stack.data(), STACK);
    if (_setjmp(scheduler)) return race::turn(-1, nullptr, 0);
    if (f.begun) _longjmp(f.at, 1);
    f.begun = true;
    setcontext(&f.start);
}
inline void fail(const char* what) { fprintf(stderr, "emulation: %s\n", what); abort(); }

// In which order warps and lanes take their turns: as they are numbered, the other way round, or by
// turns of either from somewhere in the middle.
enum Order { UPWARD, DOWNWARD, MIXED };
static Order order = UPWARD;
static unsigned turns;
inline int turn(int i, int count, unsigned salt) {
    if (order == UPWARD) return i;
    if (order == DOWNWARD) return count - 1 - i;
    const int at = (i + salt / 2) % count;
    return salt % 2 ? at : count - 1 - at;
}

inline void run_block(int threads) {
    for (size_t i = 0; i < sizeof shared; i += 4) { const uint32_t nan = 0x7fc0dead; memcpy(shared + i, &nan, 4); }
    if ((int)fibers.size() < threads) fibers.resize(threads);
    for (int i = 0; i < threads; i++) {
        Fiber& f = fibers[i];
        f.wait = RUN, f.exchanges = 0;
        if (f.begun) continue;
        f.stack.resize(STACK);
        getcontext(&f.start);
        f.start.uc_stack.ss_sp = f.stack.data();
        f.start.uc_stack.ss_size = f.stack.size();
        makecontext(&f.start, entry, 0);
    }
    const int warps = (threads + 31) / 32;
    race::begin_block(warps);
    std::vector<Wait> state(warps, RUN);
    auto run_warp = [&](int number) {
        const int warp = number * 32, lanes = std::min(32, threads - warp);
        for (bool again = true; again;) {
            int count[5] = {};
            const unsigned of_lanes = turns++ * 2654435761u >> 16;
            for (int lane = 0; lane < lanes; lane++) {
                const int i = warp + turn(lane, lanes, of_lanes);
                if (fibers[i].wait != DONE) resume(i);
                count[fibers[i].wait]++;
            }
            again = count[WARP] > 0;
            if (again && count[TEAM] + count[BLOCK] + count[DONE]) fail("lanes of a warp wait for different things");
            if (count[TEAM] && count[BLOCK] + count[DONE]) fail("lanes of a warp wait for different barriers");
            if (count[BLOCK] && count[DONE]) fail("a barrier that some lanes never reach");
            state[number] = count[TEAM] ? TEAM : count[BLOCK] ? BLOCK : DONE;
        }
    };
    // A warp goes on when it has not begun, or when those that it waits for wait for it.
    for (;;) {
        bool moved = false;
        const unsigned of_warps = turns++ * 2654435761u >> 16;
        for (int w = 0; w < warps; w++) {
            const int number = turn(w, warps, of_warps);
            if (state[number] == TEAM) {
                const int team = fibers[number * 32].team, first = number / team * team;
                bool all = true;
                for (int i = first; i < first + team; i++) all &= state[i] == TEAM && fibers[i * 32].team == team;
                if (!all) continue;
                race::met(first, team);
                for (int i = first; i < first + team; i++) state[i] = RUN;
            }
            if (state[number] == RUN) run_warp(number), moved = true;
        }
        if (moved) continue;
        bool all_done = true;
        for (int w = 0; w < warps; w++) {
            if (state[w] == TEAM) fail("a barrier of a team that some of it never reach");
            if (state[w] == BLOCK) all_done = false, state[w] = RUN;
        }
        if (all_done) return;
        race::met(0, warps);
    }
}

template <class F, class... A> void launch(F kernel, dim3 grid, int threads, A... arguments) {
    body = [=] { kernel(arguments...); };
    gridDim = grid; blockDim = dim3(threads);
    race::begin_launch();
    for (unsigned z = 0; z < grid.z; z++) for (unsigned y = 0; y < grid.y; y++) for (unsigned x = 0; x < grid.x; x++) {
        blockIdx = dim3(x, y, z);
        run_block(threads);
    }
}
template <class T> T shuffle(T value, int from) {
    T got;
    memcpy(&got, held_out(&value, sizeof value)[from & 31], sizeof got);
    return got;
}
// With `exact` nothing is rounded, so that what the mma paths sum can be seen to f32.
static bool exact = false;
inline float tf32(float v) { if (exact) return v; uint32_t u; memcpy(&u, &v, 4); u &= 0xffffe000u; memcpy(&v, &u, 4); return v; }
// Copies that go on behind a thread's back: what they bring is NaN until the thread has waited for it.
struct Copy { void* to; const void* from; int group; };
struct Copies { std::vector<Copy> pending; int group = 0; };
static std::vector<Copies> copies(1024);
inline void begin_copy(void* to, const void* from) {
    copies[current].pending.push_back({to, from, copies[current].group});
    for (int i = 0; i < 4; i++) { const uint32_t nan = 0x7fc0beef; memcpy(static_cast<char*>(to) + 4 * i, &nan, 4); }
}
inline void end_group() { copies[current].group++; }
// Ends those of all groups but the last so many.
inline void end_copies(int but) {
    Copies& mine = copies[current];
    std::vector<Copy> left;
    for (const Copy& c : mine.pending) {
        if (c.group < mine.group - but || but == 0) memcpy(c.to, c.from, 16);
        else left.push_back(c);
    }
    mine.pending = left;
}
}  // namespace emu
#define WITHOUT_ROUNDING emu::exact

inline void __syncthreads() { emu::pause(emu::BLOCK); }
inline void __syncwarp() { emu::meet(1); }
template <class T> T __shfl_xor_sync(unsigned, T value, int mask) { return emu::shuffle(value, (emu::current % 32) ^ mask); }
template <class T> T __shfl_sync(unsigned, T value, int from) { return emu::shuffle(value, from); }
template <class F> unsigned atomically(unsigned* at, F change) {
    race::begin_addition(at, sizeof *at);
    const unsigned old = *at;
    *at = change(old);
    race::end_addition();
    return old;
}
inline unsigned atomicOr(unsigned* at, unsigned v) { return atomically(at, [=](unsigned old) { return old | v; }); }
inline unsigned atomicAdd(unsigned* at, unsigned v) { return atomically(at, [=](unsigned old) { return old + v; }); }
inline unsigned __float_as_uint(float v) { unsigned u; memcpy(&u, &v, 4); return u; }
inline float __uint_as_float(unsigned u) { float v; memcpy(&v, &u, 4); return v; }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((uint64_t)a * b) >> 32); }
template <class T> T __ldg(const T* at) { return *at; }
inline float rsqrtf(float v) { return 1.0f / sqrtf(v); }
using std::min;
using std::max;

// d += A B of m16n8k8 or m16n8k4, row times column, TF32 inputs (low bits ignored, as the device does), sums in f64 rounded
// once. A lane has K / 2 numbers of A and K / 4 of B, PARTS times: of two parts all products but low times low are added.
template <int K, int PARTS> void mma(float* d, const unsigned* const (&a)[PARTS], const unsigned* const (&b)[PARTS]) {
    const int lane = emu::current % 32, g = lane / 4, t = lane % 4;
    constexpr int EACH = K * 3 / 4;
    float mine[PARTS * EACH];
    for (int part = 0; part < PARTS; part++) memcpy(mine + part * EACH, a[part], 2 * K), memcpy(mine + part * EACH + K / 2, b[part], K);
    for (float& number : mine) number = emu::tf32(number);
    const emu::Place* all = emu::held_out(mine, sizeof mine);
    auto of_lane = [&](int lane) { return reinterpret_cast<const float*>(all[lane]); };
    double sums[4] = {d[0], d[1], d[2], d[3]};
#pragma GCC unroll 8
    for (int k = 0; k < K; k++) {
        const float *row = of_lane(g * 4 + k % 4) + k / 4 * 2, *columns[2] = {of_lane(2 * t * 4 + k % 4), of_lane((2 * t + 1) * 4 + k % 4)};
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            const float *x = row + i / 2, *y = columns[i % 2] + K / 2 + k / 4;
            sums[i] += (double)x[0] * y[0];
            if (PARTS == 2) sums[i] += (double)x[EACH] * y[0] + (double)x[0] * y[EACH];
        }
    }
    for (int i = 0; i < 4; i++) d[i] = (float)sums[i];
}
inline void mma_tf32(float* d, const unsigned* a, const unsigned* b) { mma<8, 1>(d, {a}, {b}); }
inline void mma_tf32_short(float* d, const unsigned* a, unsigned b) { mma<4, 1>(d, {a}, {&b}); }
template <int K> void mma_f32(float* d, const unsigned* a, const unsigned* a_low, const unsigned* b, const unsigned* b_low) { mma<K, 2>(d, {a, a_low}, {b, b_low}); }

// ldmatrix, of 32-bit numbers.
template <int COUNT> void matrices(unsigned* to, const float* row) {
    const int lane = emu::current % 32;
    const emu::Place* all = emu::held_out(&row, sizeof row);
    for (int i = 0; i < COUNT; i++) {
        const float* from;
        memcpy(&from, all[8 * i + lane / 4], sizeof from);
        to[i] = __float_as_uint(from[lane % 4]);
    }
}
inline void matrices4(unsigned* to, const float* row) { matrices<4>(to, row); }
inline void matrices2(unsigned* to, const float* row) { matrices<2>(to, row); }
