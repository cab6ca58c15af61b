// What `races.cpp` must find, and what it must not: small kernels with a barrier, and without it. Build and run:
//     g++ -std=c++17 -O1 -g -DRACES -fsanitize=thread -c proof_races.cpp -o planted.o && g++ -std=c++17 -O1 -c races.cpp -o races.o
//     g++ planted.o races.o -ldl -o planted && ./planted
#include "emulate.h"
#include "common.cuh"

enum Barrier { NONE, OF_WARP, OF_TWO_WARPS, OF_BLOCK };
// Every thread writes a number, and reads the one of the thread FAR beyond.
template <int FAR, Barrier BARRIER> __global__ void neighbors(float* out) {
    float* shared = reinterpret_cast<float*>(emu::shared);
    const int thread = threadIdx.x;
    shared[thread] = thread;
    if (BARRIER == OF_WARP) __syncwarp();
    if (BARRIER == OF_TWO_WARPS) emu::meet(2);
    if (BARRIER == OF_BLOCK) __syncthreads();
    out[blockIdx.x * blockDim.x + thread] = shared[(thread + FAR) % blockDim.x];
}
// Reads all numbers before it writes one of them, or after.
template <bool BARRIER> __global__ void write_after_read(float* out) {
    float sum = 0;
    for (unsigned i = 0; i < blockDim.x; i++) sum += out[i];
    if (BARRIER) __syncthreads();
    out[threadIdx.x] = sum;
}
// Bytes of one word by neighboring lanes, read by the lane FAR beyond.
template <int FAR> __global__ void bytes(float* out) {
    uint8_t* shared = reinterpret_cast<uint8_t*>(emu::shared);
    const int thread = threadIdx.x;
    shared[thread] = thread;
    out[thread] = shared[(thread + FAR) % blockDim.x];
}
// All blocks write one number, or add to it.
template <bool ADD> __global__ void one_place(unsigned* out) {
    if (ADD) atomicAdd(out, 1);
    else *out = 1;
}

static int failures = 0;
// Whether a launch has as many pairs of places that disturb each other as it should: none, or any.
template <class F, class... A> static void expect(bool races, const char* what, F kernel, int blocks, A... arguments) {
    const int before = race::found();
    emu::launch(kernel, dim3(blocks), 128, arguments...);
    const int found = race::found() - before;
    if (races == (found > 0)) return;
    failures++;
    printf("FAILED %s: %d\n", what, found);
}

int main() {
    std::vector<float> out(256, 0);
    unsigned count = 0;
    race::watch(out.data(), out.size() * sizeof(float)), race::watch(&count, sizeof count);
    expect(true, "a lane of the same warp, no barrier", neighbors<1, NONE>, 1, out.data());
    expect(false, "a lane's own number, no barrier", neighbors<0, NONE>, 1, out.data());
    expect(true, "another warp, a barrier of the warp", neighbors<32, OF_WARP>, 1, out.data());
    expect(true, "another pair of warps, a barrier of two", neighbors<64, OF_TWO_WARPS>, 1, out.data());
    expect(false, "a barrier of the block", neighbors<64, OF_BLOCK>, 2, out.data());
    expect(true, "written after others read, no barrier", write_after_read<false>, 1, out.data());
    expect(false, "written after others read, a barrier", write_after_read<true>, 1, out.data());
    expect(false, "bytes of one word", bytes<0>, 1, out.data());
    expect(true, "bytes of another lane", bytes<1>, 1, out.data());
    expect(true, "a number of two blocks", one_place<false>, 2, &count);
    expect(false, "additions of two blocks", one_place<true>, 2, &count);
    printf("11 launches, %d failures\n", failures);
    return failures != 0;
}
