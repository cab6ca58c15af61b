// Looks for races of the emulated threads: two of them at one number, one of them writing, and no barrier between. The kernels
// are compiled by `g++ -fsanitize=thread -DRACES`, so that every access calls a function; these functions stand here, in place
// of the sanitizer's own library, which knows nothing of warps. Compile this file without that option, and link without it.
//
// What orders accesses: barriers of a block and of a team of warps, and __syncwarp; exchanges between the lanes of a warp do
// not, and neither does the order in which the emulation runs threads. So what is missing is found whether or not it
// shows. A warp counts the barriers it has met (`now`) and knows up to which count of every other warp it has met what that
// did (`known`). Every four bytes remember who wrote them last, and who has read and added to them, warp by warp; where some of
// the four are used alone, every byte does. Additions (`red`, atomics) disturb each other as little as reads do. Blocks of one
// launch have no order at all. A copy by `cp.async` writes twice, when it is asked for and when it is waited for.
#define RACES
#include "races.h"
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace emu { extern char shared[232448]; }

namespace {
constexpr int WARPS = 32, MANY = 32;  // MANY: more than one lane
enum Kind { READ = 1, WRITE = 2, ADD = 4 };
// Who was there, of a warp: the count of barriers times 64, and the lane.
typedef uint32_t Visit;
// In how many ways a kind can be met: reads by writes and additions, additions by reads and writes, writes by all.
struct Word {
    uint32_t launch = 0, block = 0;
    uint8_t before = 0, kinds = 0, writer = 0;
    bool apart = false;  // its bytes stand in `Range::bytes`
    Visit write = 0, reads[WARPS] = {}, adds[WARPS] = {};
    const void *wrote = nullptr, *did_read = nullptr, *added = nullptr;
};
struct Range { const char *from, *to; std::vector<Word> words; std::unordered_map<const Word*, std::array<Word, 4>> bytes = {}; };

std::vector<Range*> ranges;  // by their place
Range* last;
Range block_memory{emu::shared, emu::shared + sizeof emu::shared, std::vector<Word>(sizeof emu::shared / 4)};
const char *stack_from, *stack_to;
uint32_t launch, block;
int warps, warp, lane;
bool runs, adding;
uint32_t now[WARPS], known[WARPS][WARPS];
std::set<std::tuple<const void*, const void*, int>> pairs;

std::string place(const void* at) {
    Dl_info info;
    char text[64] = "?";
    if (!dladdr(at, &info) || !info.dli_fname) return text;
    // a program's addresses count from its first byte if it may lie anywhere; the call is before the address it returns to
    std::string command = "addr2line -i -s -e ";
    snprintf(text, sizeof text, " 0x%zx", (size_t)at - (size_t)info.dli_fbase - 1);
    command += std::string(info.dli_fname) + text, command += " 2>/dev/null";
    std::string lines;
    if (FILE* out = popen(command.c_str(), "r")) {
        while (fgets(text, sizeof text, out)) lines += (lines.empty() ? "" : " < ") + std::string(text, strcspn(text, "\n (")); 
        pclose(out);
    }
    return lines;
}
const char* name(Kind kind) { return kind == READ ? "read" : kind == WRITE ? "written" : "added to"; }
void report(const Word& word, const void* there, Kind earlier, int other, const void* here, Kind kind, const void* at) {
    if (!pairs.insert({there, here, kind}).second) return;
    const bool of_block = at >= block_memory.from && at < block_memory.to;
    char who[64];
    if (other < 0) snprintf(who, sizeof who, "another block");
    else if (other == warp) snprintf(who, sizeof who, "another lane of warp %d", other);
    else snprintf(who, sizeof who, "warp %d", other);
    printf("RACE in %s memory, warp %d: %s at %s, and by %s %s at %s\n", of_block ? "shared" : "global", warp, name(kind), place(here).c_str(), who, name(earlier), place(there).c_str());
    fflush(stdout);
}

Range* range_of(const char* at) {
    if (at >= block_memory.from && at < block_memory.to) return &block_memory;
    if (!last || at < last->from || at >= last->to) {
        auto after = std::upper_bound(ranges.begin(), ranges.end(), at, [](const char* at, const Range* r) { return at < r->from; });
        if (after == ranges.begin() || at >= (*--after)->to) return nullptr;
        last = *after;
    }
    return last;
}
// Whether what a thread of warp w did comes before what happens now, or was this thread's own.
bool in_order(Visit visit, int w) { return !visit || visit / 64 <= known[warp][w] || (w == warp && (int)(visit % 64) == lane); }

void visit_word(Word& word, const void* at, Kind kind, const void* here) {
    if (word.block != block) {
        const bool same_launch = word.launch == launch;
        word.before = same_launch ? word.before | word.kinds : 0;
        word.launch = launch, word.block = block, word.kinds = 0, word.write = 0;
        memset(word.reads, 0, sizeof word.reads), memset(word.adds, 0, sizeof word.adds);
    }
    const bool alone = at >= block_memory.from && at < block_memory.to;
    const int others = kind == WRITE ? READ | WRITE | ADD : kind == READ ? WRITE | ADD : READ | WRITE;
    if (!alone && word.before & others) report(word, word.before & WRITE ? word.wrote : word.before & READ ? word.did_read : word.added, word.before & WRITE ? WRITE : word.before & READ ? READ : ADD, -1, here, kind, at);
    if (word.kinds & others) {
        if (word.kinds & WRITE && !in_order(word.write, word.writer)) report(word, word.wrote, WRITE, word.writer, here, kind, at);
        for (int w = 0; w < warps; w++) {
            if (others & READ && !in_order(word.reads[w], w)) report(word, word.did_read, READ, w, here, kind, at);
            if (others & ADD && !in_order(word.adds[w], w)) report(word, word.added, ADD, w, here, kind, at);
        }
    }
    word.kinds |= kind;
    const Visit mine = now[warp] * 64 + lane;
    if (kind == WRITE) {
        word.write = mine, word.writer = warp, word.wrote = here;
    } else {
        Visit& visit = (kind == READ ? word.reads : word.adds)[warp];
        visit = visit / 64 == now[warp] && visit != mine ? now[warp] * 64 + MANY : mine;
        (kind == READ ? word.did_read : word.added) = here;
    }
}
void access(const void* at, size_t bytes, Kind kind, const void* here) {
    const char* first = static_cast<const char*>(at);
    if (!runs || adding || (first >= stack_from && first < stack_to)) return;
    Range* range = range_of(first);
    if (!range) return;
    const size_t begin = (first - range->from) % 4, end = begin + bytes;
    Word* word = &range->words[(first - range->from) / 4];
    for (size_t i = 0; i < end; i += 4, word++) {
        const size_t from = i ? 0 : begin, to = std::min<size_t>(end - i, 4);
        if (to - from < 4 && !word->apart) word->apart = true, range->bytes[word].fill(*word);
        if (!word->apart) {
            visit_word(*word, first + i, kind, here);
            continue;
        }
        auto& alone = range->bytes[word];
        for (size_t byte = from; byte < to; byte++) visit_word(alone[byte], first + i, kind, here);
    }
}
}  // namespace

namespace race {
void begin_launch() { launch++; }
void begin_block(int of_warps) {
    warps = of_warps, block++;
    if (warps > WARPS) fprintf(stderr, "races: a block has at most %d warps\n", WARPS), abort();
    for (int w = 0; w < WARPS; w++) now[w] = 1;
    memset(known, 0, sizeof known);
}
void turn(int thread, const void* stack, size_t bytes) {
    runs = thread >= 0, warp = thread / 32, lane = thread % 32;
    stack_from = static_cast<const char*>(stack), stack_to = stack_from + bytes;
}
void met(int first, int count) {
    uint32_t all[WARPS] = {};
    for (int w = first; w < first + count; w++) {
        for (int of = 0; of < warps; of++) all[of] = std::max(all[of], known[w][of]);
        all[w] = now[w];
    }
    for (int w = first; w < first + count; w++) memcpy(known[w], all, sizeof all), now[w]++;
}
void watch(const void* from, size_t bytes) {
    const char* first = static_cast<const char*>(from);
    Range* range = new Range{first, first + bytes, std::vector<Word>((bytes + 3) / 4 + 4)};
    ranges.insert(std::upper_bound(ranges.begin(), ranges.end(), first, [](const char* at, const Range* r) { return at < r->from; }), range);
    last = nullptr;
}
void forget(const void* from) {
    for (size_t i = 0; i < ranges.size(); i++)
        if (ranges[i]->from == from) {
            delete ranges[i];
            ranges.erase(ranges.begin() + i), last = nullptr;
            return;
        }
}
void begin_addition(const void* to, size_t bytes) { access(to, bytes, ADD, __builtin_return_address(0)), adding = true; }
void end_addition() { adding = false; }
int found() { return pairs.size(); }
}  // namespace race

// What g++ calls.
#define HERE __builtin_return_address(0)
#define SIZED(bytes)                                                                   \
    void __tsan_read##bytes(void* at) { access(at, bytes, READ, HERE); }               \
    void __tsan_write##bytes(void* at) { access(at, bytes, WRITE, HERE); }             \
    void __tsan_unaligned_read##bytes(void* at) { access(at, bytes, READ, HERE); }     \
    void __tsan_unaligned_write##bytes(void* at) { access(at, bytes, WRITE, HERE); }
extern "C" {
SIZED(1) SIZED(2) SIZED(4) SIZED(8) SIZED(16)
void __tsan_read_range(void* at, size_t bytes) { access(at, bytes, READ, HERE); }
void __tsan_write_range(void* at, size_t bytes) { access(at, bytes, WRITE, HERE); }
void __tsan_vptr_update(void*, void*) {}
void __tsan_vptr_read(void*) {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_init() {}
// of the host's library, not of the kernels
int __tsan_atomic32_fetch_add(volatile int* at, int v, int) { return __atomic_fetch_add(at, v, __ATOMIC_SEQ_CST); }
}
