// Per image the inner products of the gradients of some logits: C[k][l] = sum over p of g_k[p] g_l[p] / precision[p].
//
// A run is one logit of one image; the runs of an image follow each other, and their gradients are there. Tiles of 8 x 8
// entries are summed in registers over a chunk of the parameters, then the chunks are added in their order in f64, so that
// an entry depends on its two gradients alone.
#include "common.cuh"

constexpr int GRAM_TILE = 8, GRAM_ENTRIES = GRAM_TILE * GRAM_TILE, GRAM_THREADS = 256, GRAM_CHUNK = 64 * GRAM_THREADS;

// `inverse` has 1/precision, one for all parameters where `common` is 1; `parts` [image][tile][chunk][64], `out` [image][k][l].
struct Gram { int classes, parameters, chunks, common; };

// The tile of this number, of the upper half of the matrix, row by row.
__device__ __forceinline__ void gram_tile(int classes, int number, int& row, int& column) {
    const int tiles = (classes + GRAM_TILE - 1) / GRAM_TILE;
    for (row = 0; number >= tiles - row; row++) number -= tiles - row;
    column = row + number;
}

// The gradients of a tile's rows or columns; null beyond the last class.
__device__ __forceinline__ void gram_vectors(const Run* runs, int classes, int tile, const float* (&vectors)[GRAM_TILE]) {
#pragma unroll
    for (int i = 0; i < GRAM_TILE; i++) {
        const int k = tile * GRAM_TILE + i;
        vectors[i] = k < classes ? runs[k].gradient : nullptr;
    }
}

// Grid (chunk, tile, image), 256 threads, 8 * 64 doubles of shared memory.
extern "C" __global__ void __launch_bounds__(GRAM_THREADS) gram_parts(const Run* runs, Gram gram, const float* inverse, double* parts) {
    DYNAMIC_SHARED(double, sums);  // [warp][64]
    int row, column;
    gram_tile(gram.classes, blockIdx.y, row, column);
    const Run* mine = runs + (size_t)blockIdx.z * gram.classes;
    const float *left[GRAM_TILE], *right[GRAM_TILE];
    gram_vectors(mine, gram.classes, row, left);
    gram_vectors(mine, gram.classes, column, right);
    float sum[GRAM_TILE][GRAM_TILE] = {};
    const int first = blockIdx.x * GRAM_CHUNK, last = min(first + GRAM_CHUNK, gram.parameters);
    for (int p = first + (int)threadIdx.x; p < last; p += GRAM_THREADS) {
        const float weight = inverse[gram.common ? 0 : p];
        float a[GRAM_TILE], b[GRAM_TILE];
#pragma unroll
        for (int i = 0; i < GRAM_TILE; i++) a[i] = left[i] ? left[i][p] * weight : 0.0f, b[i] = right[i] ? right[i][p] : 0.0f;
#pragma unroll
        for (int i = 0; i < GRAM_TILE; i++)
#pragma unroll
            for (int j = 0; j < GRAM_TILE; j++) sum[i][j] = fmaf(a[i], b[j], sum[i][j]);
    }
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int e = 0; e < GRAM_ENTRIES; e++) {
        float v = sum[e / GRAM_TILE][e % GRAM_TILE];
        for (int m = 16; m; m >>= 1) v += __shfl_xor_sync(ALL_LANES, v, m);
        if (lane == 0) sums[warp * GRAM_ENTRIES + e] = v;
    }
    __syncthreads();
    if (threadIdx.x >= GRAM_ENTRIES) return;
    double total = 0;
    for (int w = 0; w < GRAM_THREADS / 32; w++) total += sums[w * GRAM_ENTRIES + threadIdx.x];
    parts[(((size_t)blockIdx.z * gridDim.y + blockIdx.y) * gram.chunks + blockIdx.x) * GRAM_ENTRIES + threadIdx.x] = total;
}

// Grid (tile, 1, image), 64 threads.
extern "C" __global__ void __launch_bounds__(GRAM_ENTRIES) gram_sum(Gram gram, const double* parts, double* out) {
    int row, column;
    gram_tile(gram.classes, blockIdx.x, row, column);
    const double* from = parts + ((size_t)blockIdx.z * gridDim.x + blockIdx.x) * gram.chunks * GRAM_ENTRIES + threadIdx.x;
    double total = 0;
    for (int c = 0; c < gram.chunks; c++) total += from[c * GRAM_ENTRIES];
    const int k = row * GRAM_TILE + threadIdx.x / GRAM_TILE, l = column * GRAM_TILE + threadIdx.x % GRAM_TILE;
    if (k > l || l >= gram.classes) return;
    double* matrix = out + (size_t)blockIdx.z * gram.classes * gram.classes;
    matrix[k * gram.classes + l] = total, matrix[l * gram.classes + k] = total;
}
