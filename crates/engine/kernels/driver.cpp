// A GPU made of the emulation: the part of the CUDA driver and of NVRTC that the engine calls, so that everything but the
// device itself runs where there is none. Launches run at once, in the order in which they are called. Build and use:
//     g++ -std=c++17 -O2 -mfma -ffp-contract=off -U_FORTIFY_SOURCE -w -shared -fPIC driver.cpp -o libcuda.so.1
//     ln -s libcuda.so.1 libnvrtc.so.13
//     LD_LIBRARY_PATH=. MAXITIVE_NVRTC=$PWD maxitive ... --device cuda
// A kernel that reads or writes beyond a block of memory, or one that was freed, crashes.
#include "emulate.h"
#include "layers.cu"
#include "rules.cu"
#include "lenet.cu"
#include "resnet.cu"
#include "densenet.cu"
#include "gram.cu"
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <tuple>
#include <utility>

namespace {
std::recursive_mutex lock;

// A kernel by its name: how to copy its arguments, and how to run it with the copies; bytes of shared memory, where the source
// says them.
struct Kernel { std::function<std::function<void()>(dim3 grid, int threads, void** arguments)> bind; size_t shared = 0; };
template <class... A, size_t... I> Kernel kernel_of(void (*f)(A...), std::index_sequence<I...>) {
    return {[f](dim3 grid, int threads, void** arguments) {
        std::tuple<A...> copies(*static_cast<A*>(arguments[I])...);
        return [=] { emu::launch(f, grid, threads, std::get<I>(copies)...); };
    }};
}
template <class... A> Kernel kernel_of(void (*f)(A...)) { return kernel_of(f, std::index_sequence_for<A...>()); }

#define K(name) {#name, kernel_of(name)}
#define BOTH(name) K(name##_f32), K(name##_tf32)
#define SHARED(name, floats) {#name, Kernel{kernel_of(name).bind, 4 * (floats)}}
#define STAGE_BOTH(name, S, C, IMG) SHARED(name##_f32, (StageOf<S, C, IMG, false, false>::FLOATS)), SHARED(name##_tf32, (StageOf<S, C, IMG, true, false>::FLOATS))
#define STAGE(number, S, C, IMG) STAGE_BOTH(stage##number##_forward, S, C, IMG), STAGE_BOTH(stage##number##_backward, S, C, IMG), STAGE_BOTH(stage##number##_predict, S, C, IMG)
#define DENSE_BOTH(name, S, IMG, WAY) SHARED(name##_f32, (dense::BlockOf<S, IMG, 16, false>::WAY)), SHARED(name##_tf32, (dense::BlockOf<S, IMG, 16, true>::WAY))
#define DENSE(number, S, IMG) DENSE_BOTH(dense##number##_forward, S, IMG, FORWARD), DENSE_BOTH(dense##number##_backward, S, IMG, BACKWARD)
std::map<std::string, Kernel> kernels = {
    K(gather), BOTH(conv_forward16), BOTH(conv_forward64), BOTH(conv_input16), BOTH(conv_input64), BOTH(conv_weights),
    K(frn_forward), K(frn_backward), K(relu_forward), K(relu_backward), K(add), K(copy), K(dropout), K(max_pool_forward),
    K(avg_pool_forward), K(max_pool_backward), K(avg_pool_backward), K(softmax_loss), K(reduce), K(deliver), K(mix_probabilities),
    K(sum_probabilities), K(score), K(sum_scores),
    K(perturb), K(update), K(tick), SHARED(lenet1, sizeof(Shared<1>) / 4), SHARED(lenet2, sizeof(Shared<2>) / 4), SHARED(lenet_gradients8, 128 * (128 + 8)), SHARED(lenet_gradients32, 128 * (128 + 32)),
    BOTH(prepare), STAGE(1, 32, 16, 1), STAGE(2, 16, 32, 1), STAGE(3, 8, 64, 2), K(resnet_reduce), K(resnet_head),
    BOTH(dense_prepare), DENSE(1, 32, 1), DENSE(2, 16, 1), DENSE(3, 8, 2), DENSE(4, 4, 4), K(dense_head), K(dense_head_gradients), K(dense_reduce),
    K(gram_parts), K(gram_sum),
};

using Graph = std::vector<std::function<void()>>;
struct Stream { std::unique_ptr<Graph> captured; };
constexpr int NOT_FOUND = 500, INVALID = 1, OUT_OF_MEMORY = 2;
size_t allocated = 0;
std::map<void*, size_t> blocks;
// A block ends where its pages do, with one before and one after it that nobody may touch; freed ones go back to the system.
constexpr size_t PAGE = 4096;
size_t pages_of(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }
}  // namespace

extern "C" {
int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int* version) { *version = 13000; return 0; }
int cuDeviceGetCount(int* count) { *count = 1; return 0; }
int cuDeviceGet(int* device, int ordinal) { *device = ordinal; return ordinal == 0 ? 0 : 101; }
int cuDeviceGetName(char* name, int length, int) { snprintf(name, length, "emulated GPU"); return 0; }
int cuDeviceTotalMem_v2(size_t* bytes, int) { *bytes = 8ull << 30; return 0; }
int cuDeviceGetAttribute(int* value, int attribute, int) {
    // multiprocessors, compute capability, shared memory of a block on request
    *value = attribute == 16 ? 4 : attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 97 ? 232448 : 0;
    return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int) { static int one; *context = &one; return 0; }
int cuCtxSetCurrent(void*) { return 0; }
int cuMemGetInfo_v2(size_t* free_bytes, size_t* total) { *total = 8ull << 30, *free_bytes = *total - allocated; return 0; }
int cuMemAlloc_v2(void** at, size_t bytes) {
    std::lock_guard<std::recursive_mutex> guard(lock);
    bytes = (bytes + 15) / 16 * 16;
    char* pages = (char*)mmap(nullptr, pages_of(bytes) + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + PAGE, pages_of(bytes), PROT_READ | PROT_WRITE)) return OUT_OF_MEMORY;
    *at = pages + PAGE + pages_of(bytes) - bytes;
    // poison: what nobody writes shows
    for (size_t i = 0; i + 4 <= bytes; i += 4) { const uint32_t nan = 0x7fc0dead; memcpy((char*)*at + i, &nan, 4); }
    blocks[*at] = bytes, allocated += bytes;
    return 0;
}
int cuMemFree_v2(void* at) {
    std::lock_guard<std::recursive_mutex> guard(lock);
    const auto found = blocks.find(at);
    if (found == blocks.end()) return INVALID;
    const size_t bytes = found->second;
    allocated -= bytes, blocks.erase(found);
    munmap((char*)at + bytes - pages_of(bytes) - PAGE, pages_of(bytes) + 2 * PAGE);
    return 0;
}
int cuMemcpyHtoDAsync_v2(void* to, const void* from, size_t bytes, void*) { memcpy(to, from, bytes); return 0; }
int cuMemcpyDtoHAsync_v2(void* to, const void* from, size_t bytes, void*) { memcpy(to, from, bytes); return 0; }
int cuMemsetD8Async(void* at, unsigned char value, size_t bytes, void*) { memset(at, value, bytes); return 0; }
int cuModuleLoadData(void** module, const void*) { static int one; *module = &one; return 0; }
int cuModuleGetFunction(void** function, void*, const char* name) {
    const auto found = kernels.find(name);
    if (found == kernels.end()) return NOT_FOUND;
    *function = &found->second;
    return 0;
}
int cuFuncSetAttribute(void*, int, int value) { return value <= 232448 ? 0 : INVALID; }
int cuStreamCreate(void** stream, unsigned) { *stream = new Stream; return 0; }
int cuStreamDestroy_v2(void* stream) { delete static_cast<Stream*>(stream); return 0; }
int cuStreamSynchronize(void*) { return 0; }
int cuStreamBeginCapture_v2(void* stream, int) { static_cast<Stream*>(stream)->captured.reset(new Graph); return 0; }
int cuStreamEndCapture(void* stream, void** graph) { *graph = static_cast<Stream*>(stream)->captured.release(); return 0; }
int cuGraphInstantiateWithFlags(void** ready, void* graph, unsigned long long) { *ready = new Graph(*static_cast<Graph*>(graph)); return 0; }
int cuGraphDestroy(void* graph) { delete static_cast<Graph*>(graph); return 0; }
int cuGraphExecDestroy(void* graph) { delete static_cast<Graph*>(graph); return 0; }
int cuGraphLaunch(void* graph, void*) {
    std::lock_guard<std::recursive_mutex> guard(lock);
    for (auto& node : *static_cast<Graph*>(graph)) node();
    return 0;
}
int cuLaunchKernel(void* function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned, unsigned, unsigned shared, void* stream, void** arguments, void**) {
    std::lock_guard<std::recursive_mutex> guard(lock);
    if (!x || !y || !z || y > 65535 || z > 65535 || !threads || threads > 1024 || shared > 232448) return INVALID;
    const size_t needed = static_cast<Kernel*>(function)->shared;
    if (needed && shared != needed) return INVALID;
    auto node = static_cast<Kernel*>(function)->bind(dim3(x, y, z), threads, arguments);
    auto& captured = static_cast<Stream*>(stream)->captured;
    if (captured) captured->push_back(node);
    else node();
    return 0;
}
int cuGetErrorName(int error, const char** name) { *name = error == NOT_FOUND ? "CUDA_ERROR_NOT_FOUND" : "CUDA_ERROR"; return 0; }
int cuGetErrorString(int, const char** text) { *text = "an error of the emulated driver"; return 0; }

int nvrtcCreateProgram(void** program, const char*, const char*, int, const char* const*, const char* const*) { static int one; *program = &one; return 0; }
int nvrtcCompileProgram(void*, int, const char* const*) { return 0; }
int nvrtcDestroyProgram(void**) { return 0; }
int nvrtcGetProgramLogSize(void*, size_t* size) { *size = 1; return 0; }
int nvrtcGetProgramLog(void*, char* log) { *log = 0; return 0; }
int nvrtcGetCUBINSize(void*, size_t* size) { *size = 8; return 0; }
int nvrtcGetCUBIN(void*, char* cubin) { memcpy(cubin, "emulated", 8); return 0; }
const char* nvrtcGetErrorString(int) { return "an error of the emulated compiler"; }
}
