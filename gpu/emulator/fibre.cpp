// SPDX-License-Identifier: Apache-2.0
#include "gpu/emulator/fibre.hpp"

#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace siattn::gpu::emulator {
namespace {

constexpr std::size_t kStackBytes = std::size_t{256} << 10;

/// Hands over the stack that it is given and takes none back: the Fibre owns it.
struct Borrowed {
  boost::context::stack_context stack;
  boost::context::stack_context allocate() { return stack; }
  void deallocate(boost::context::stack_context&) noexcept {}
};

}  // namespace

Fibre::Fibre() {
  stack_ = boost::context::protected_fixedsize_stack(kStackBytes).allocate();
#if defined(__SANITIZE_THREAD__)
  thread_fibre_ = __tsan_create_fiber(0);
#endif
  const boost::context::preallocated whole(stack_.sp, stack_.size, stack_);
  here_ = boost::context::fiber(std::allocator_arg, whole, Borrowed{stack_}, [this](boost::context::fiber&& caller) {
    caller_ = std::move(caller);
    loop();
    return std::move(caller_);
  });
}

Fibre::~Fibre() {
  if (active()) abandon();
  quit_ = true;
  resume();
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(thread_fibre_);
#endif
  boost::context::protected_fixedsize_stack(kStackBytes).deallocate(stack_);
}

void Fibre::begin(void (*function)(void*), void* argument) {
  function_ = function;
  argument_ = argument;
  abandoned_ = false;
}

void Fibre::resume() {
#if defined(__SANITIZE_THREAD__)
  thread_caller_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(thread_fibre_, 0);
#endif
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, static_cast<char*>(stack_.sp) - stack_.size, stack_.size);
#endif
  here_ = std::move(here_).resume();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
}

void Fibre::leave([[maybe_unused]] bool for_good) {
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(thread_caller_, 0);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(for_good ? nullptr : &fake_stack_, caller_bottom_, caller_size_);
#endif
}

void Fibre::arrive() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack_, &caller_bottom_, &caller_size_);
#endif
}

void Fibre::suspend() {
  leave(false);
  caller_ = std::move(caller_).resume();
  arrive();
  if (abandoned_) throw Abandoned{};
}

void Fibre::abandon() {
  abandoned_ = true;
  resume();
}

void Fibre::loop() {
  arrive();
  while (!quit_) {
    try {
      if (!abandoned_) function_(argument_);  // one that has not begun is not begun any more
    } catch (const Abandoned&) {
    }
    function_ = nullptr;
    leave(false);
    caller_ = std::move(caller_).resume();
    arrive();
  }
  leave(true);
}

}  // namespace siattn::gpu::emulator
