// SPDX-License-Identifier: Apache-2.0
#include "verify/guarded_memory.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#if defined(__linux__)
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#endif

namespace siattn::verify {
namespace {

constexpr std::size_t kGuardBytes = 256;
constexpr std::align_val_t kAlignment{64};
constexpr std::byte kGuard{0xFF};

std::size_t rounded_up(std::size_t x, std::size_t to) { return (x + to - 1) / to * to; }

#if defined(__linux__)
constexpr bool kPages = true;

std::size_t page() {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

/// Where the guard pages are, for the signal handler: it may run in any thread, at any time, so no lock and no memory.
struct Entry {
  std::atomic<const std::byte*> guard = nullptr;   ///< first byte of the guard page; nullptr: free
  std::atomic<const std::byte*> border = nullptr;  ///< of the data: the guard begins or ends here
  std::atomic<const char*> name = nullptr;
};
Entry entries[256];

void enter(const char* name, const std::byte* guard, const std::byte* border) {
  for (Entry& entry : entries) {
    const std::byte* free = nullptr;
    if (!entry.guard.compare_exchange_strong(free, guard)) continue;
    entry.border = border;
    entry.name = name;
    return;
  }
}

void leave(const std::byte* guard) {
  for (Entry& entry : entries) {
    if (entry.guard == guard) return entry.name = nullptr, entry.guard = nullptr, void();
  }
}

/// Two pages or more: those of the data, and after or before them one that cannot be touched.
std::byte* map_pages(const char* name, Guard guard, std::size_t size) {
  void* const at = ::mmap(nullptr, size + page(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  auto* const first = static_cast<std::byte*>(at);
  std::byte* const forbidden = guard == Guard::page_behind ? first + size : first;
  std::byte* const base = guard == Guard::page_behind ? first : first + page();
  if (::mprotect(forbidden, page(), PROT_NONE) != 0) {
    ::munmap(at, size + page());
    throw std::bad_alloc();
  }
  std::memset(base, 0xFF, size);
  enter(name, forbidden, guard == Guard::page_behind ? forbidden : base);
  return base;
}

void unmap_pages(std::byte* base, Guard guard, std::size_t size) {
  std::byte* const first = guard == Guard::page_behind ? base : base - page();
  leave(guard == Guard::page_behind ? base + size : first);
  ::munmap(first, size + page());
}

std::atomic<const char*> going_on = nullptr;
struct sigaction previous_action[2];
constexpr int kSignals[] = {SIGSEGV, SIGBUS};

/// Collects a line without formatting functions, which a signal handler may not call.
class Line {
 public:
  Line& operator<<(const char* text) {
    while (text != nullptr && *text != '\0' && size_ < sizeof(text_)) text_[size_++] = *text++;
    return *this;
  }
  Line& operator<<(std::size_t number) {
    char digits[24];
    char* at = digits + sizeof(digits);
    *--at = '\0';
    do *--at = static_cast<char>('0' + number % 10);
    while ((number /= 10) != 0);
    return *this << at;
  }
  void write() const { [[maybe_unused]] const auto n = ::write(STDERR_FILENO, text_, size_); }

 private:
  char text_[512];
  std::size_t size_ = 0;
};

void name_crash(int /*number*/, siginfo_t* info, void* /*context*/) {
  const auto* const at = static_cast<const std::byte*>(info->si_addr);
  for (const Entry& entry : entries) {
    const std::byte* const guard = entry.guard;
    if (guard == nullptr || at < guard || at >= guard + page()) continue;
    const std::byte* const border = entry.border;
    Line line;
    line << "siattn: " << going_on.load() << ": touched byte ";
    if (at >= border) {
      line << static_cast<std::size_t>(at - border) + 1 << " behind the end of ";
    } else {
      line << static_cast<std::size_t>(border - at) << " before the start of ";
    }
    line << entry.name.load() << "\n";
    line.write();
    break;
  }
  // What was there before takes over: the instruction runs again.
  for (std::size_t k = 0; k < 2; ++k) ::sigaction(kSignals[k], &previous_action[k], nullptr);
}
#else
constexpr bool kPages = false;
#endif

}  // namespace

GuardedMemory::GuardedMemory(const char* name, std::size_t bytes, Guard guard, std::size_t misalignment)
    : name_(name), guard_(kPages ? guard : Guard::bytes) {
#if defined(__linux__)
  if (guard_ != Guard::bytes) {
    size_ = std::max(rounded_up(bytes, page()), page());
    start_ = guard_ == Guard::page_behind ? size_ - bytes : 0;
    base_ = map_pages(name, guard_, size_);
    return;
  }
#endif
  start_ = kGuardBytes + misalignment;
  size_ = start_ + bytes + kGuardBytes;
  base_ = static_cast<std::byte*>(::operator new(size_, kAlignment));
  std::fill_n(base_, size_, kGuard);
}

GuardedMemory::GuardedMemory(const GuardedMemory& other) {
  if (other.base_ == nullptr) return;
  const bool pages = other.guard_ != Guard::bytes;
  const std::size_t bytes = other.size_ - other.start_ - (pages ? 0 : kGuardBytes);
  GuardedMemory copy(other.name_, bytes, other.guard_, pages ? 0 : other.start_ - kGuardBytes);
  std::memcpy(copy.base_, other.base_, other.size_);
  swap(copy);
}

GuardedMemory::~GuardedMemory() {
  if (base_ == nullptr) return;
#if defined(__linux__)
  if (guard_ != Guard::bytes) {
    unmap_pages(base_, guard_, size_);
    return;
  }
#endif
  ::operator delete(base_, kAlignment);
}

void GuardedMemory::swap(GuardedMemory& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(guard_, other.guard_);
  std::swap(base_, other.base_);
  std::swap(size_, other.size_);
  std::swap(start_, other.start_);
}

#if defined(__linux__)
NamedCrashes::NamedCrashes(const char* what) {
  going_on = what;
  struct sigaction action {};
  action.sa_sigaction = name_crash;
  action.sa_flags = SA_SIGINFO;
  ::sigemptyset(&action.sa_mask);
  for (std::size_t k = 0; k < 2; ++k) ::sigaction(kSignals[k], &action, &previous_action[k]);
}

NamedCrashes::~NamedCrashes() {
  for (std::size_t k = 0; k < 2; ++k) ::sigaction(kSignals[k], &previous_action[k], nullptr);
}
#else
NamedCrashes::NamedCrashes(const char* /*what*/) {}
NamedCrashes::~NamedCrashes() = default;
#endif

}  // namespace siattn::verify
