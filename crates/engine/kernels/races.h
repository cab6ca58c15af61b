// What the emulation tells the search for races of `races.cpp`; nothing unless compiled with -DRACES.
#pragma once
#include <cstddef>

namespace race {
#ifdef RACES
void begin_launch();
void begin_block(int warps);
// The thread whose turn it is, or none, and its stack.
void turn(int thread, const void* stack, size_t bytes);
// These neighboring warps have met: what any of them did before comes before what any of them does next.
void met(int first_warp, int warps);
// Memory that threads share, beside the block's own, and its end.
void watch(const void* from, size_t bytes);
void forget(const void* from);
// An addition that no other addition disturbs; what stands between these two is a part of it.
void begin_addition(const void* to, size_t bytes);
void end_addition();
// How many pairs of places in the source are at one number without an order. They are printed.
int found();
#else
inline void begin_launch() {}
inline void begin_block(int) {}
inline void turn(int, const void*, size_t) {}
inline void met(int, int) {}
inline void watch(const void*, size_t) {}
inline void forget(const void*) {}
inline void begin_addition(const void*, size_t) {}
inline void end_addition() {}
inline int found() { return 0; }
#endif
}  // namespace race
