// SPDX-License-Identifier: Apache-2.0
// OpenMP's order of events, told to the thread sanitizer: part of the library in such builds, and of no other. GCC's
// libgomp is not instrumented, so the sanitizer would take every access after a barrier for a race with those before
// it. These functions stand before libgomp's of the same name, call them, and announce what OpenMP promises and no
// more: what came before a region happens before its threads; what came before a barrier happens before all that
// follows it; what a region's threads did happens before what comes after the region. Nothing orders the iterations
// of a loop. A construct that has no function here shows as a false race, not as a race that is missed.
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

namespace {

template <class Function>
Function* libgomps(const char* name) noexcept {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

using Body = void(void*);
const auto parallel = libgomps<void(Body*, void*, unsigned, unsigned)>("GOMP_parallel");
const auto plain_barrier = libgomps<void()>("GOMP_barrier");
const auto loop_end = libgomps<void()>("GOMP_loop_end");

/// One parallel region. Its address stands for the beginning, those of the members for the other events.
struct Team {
  Body* body;
  void* data;
  char barriers[2];  ///< in turn: a thread that runs ahead to the next barrier does not touch the one before it
  char end;
};

thread_local Team* team = nullptr;
thread_local unsigned barriers_passed = 0;

void run_member(void* argument) noexcept {
  __tsan_acquire(argument);
  Team* const outer = team;
  const unsigned outer_barriers = barriers_passed;
  team = static_cast<Team*>(argument);
  barriers_passed = 0;
  team->body(team->data);
  __tsan_release(&team->end);
  team = outer;
  barriers_passed = outer_barriers;
}

void wait(void (*barrier)()) noexcept {
  if (team == nullptr) return barrier();
  char* const event = &team->barriers[barriers_passed++ % 2];
  __tsan_release(event);
  barrier();
  __tsan_acquire(event);
}

}  // namespace

extern "C" {
void GOMP_parallel(Body* body, void* data, unsigned threads, unsigned flags) {
  Team mine{body, data, {}, {}};
  __tsan_release(&mine);
  parallel(run_member, &mine, threads, flags);
  __tsan_acquire(&mine.end);
}
void GOMP_barrier() { wait(plain_barrier); }
void GOMP_loop_end() { wait(loop_end); }
}
