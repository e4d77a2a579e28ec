// SPDX-License-Identifier: Apache-2.0
// A stack of its own for each emulated thread.
#ifndef SIATTN_GPU_EMULATOR_FIBRE_HPP
#define SIATTN_GPU_EMULATOR_FIBRE_HPP

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstddef>

namespace siattn::gpu::emulator {

/// Runs one function after the other on its own stack, which ends in a page that cannot be touched. The function gives
/// way with suspend(); whoever called resume() goes on. Sanitizers are told of every change of stack.
class Fibre {
 public:
  Fibre();
  ~Fibre();
  Fibre(const Fibre&) = delete;
  Fibre& operator=(const Fibre&) = delete;

  /// What the next resume() begins. Not while a function is suspended here.
  void begin(void (*function)(void*), void* argument);
  /// Runs until the function suspends or returns.
  void resume();
  /// From within: back to resume(). Throws Abandoned when the next resume() is abandon()'s.
  void suspend();
  /// Has the suspended function unwind its stack.
  void abandon();
  bool active() const { return function_ != nullptr; }

 private:
  struct Abandoned {};
  void loop();
  void leave(bool for_good);
  void arrive();

  boost::context::stack_context stack_;
  boost::context::fiber here_;
  boost::context::fiber caller_;
  void (*function_)(void*) = nullptr;
  void* argument_ = nullptr;
  bool abandoned_ = false;
  bool quit_ = false;
  // What the sanitizers want to know about both stacks.
  void* fake_stack_ = nullptr;
  const void* caller_bottom_ = nullptr;
  std::size_t caller_size_ = 0;
  void* thread_fibre_ = nullptr;
  void* thread_caller_ = nullptr;
};

}  // namespace siattn::gpu::emulator

#endif  // SIATTN_GPU_EMULATOR_FIBRE_HPP
