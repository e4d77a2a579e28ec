// SPDX-License-Identifier: Apache-2.0
// One block being executed: its threads, its shared memory, what they wait for.
#ifndef SIATTN_GPU_EMULATOR_MACHINE_HPP
#define SIATTN_GPU_EMULATOR_MACHINE_HPP

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <source_location>
#include <string>
#include <vector>

#include "gpu/emulator/emulator.hpp"
#include "gpu/emulator/fibre.hpp"
#include "gpu/emulator/memory.hpp"
#include "gpu/emulator/races.hpp"

namespace siattn::gpu::emulator {

using Where = std::source_location;

/// The address of the first byte of shared memory: addresses below it are nobody's.
constexpr std::uint32_t kSharedBegin = 1024;
constexpr std::size_t kMaxShared = 227 * 1024;
constexpr int kMaxThreads = 1024;

enum class Waits : std::uint8_t { nothing, warp, barrier, phase, done };

/// One emulated thread.
struct Lane {
  Waits waits = Waits::nothing;
  const char* what = "";  ///< the operation in which it waits
  Where where{};
  std::uint32_t detail = 0;  ///< a named barrier's id, an mbarrier's address
  int parity = 0;
  std::uint32_t copies_group = 0;  ///< groups of cp.async that it has committed
};

struct Warp;
/// Does a warp's operation, once all lanes are there; args[l] is what lane l has brought.
using Execute = void (*)(Warp& warp, void* const* args, const Where& where);

struct Warp {
  int index = 0;
  int ready = 0;    ///< lanes that can go on
  int arrived = 0;  ///< lanes at the current operation
  std::array<void*, 32> args{};
  std::array<Execute, 32> execute{};
  std::array<Where, 32> where{};
  // wgmma
  std::uint32_t products_group = 0;  ///< groups committed
  bool products_open = false;        ///< some issued since
  bool registers_fenced = false;
  int registers = 0;  ///< by setmaxnreg; 0: as launched
};

/// A cp.async under way.
struct Copy {
  std::uint32_t group;
  std::uint32_t to;
  const void* from;
  int bytes;
  int whole;
};

struct NamedBarrier {
  int arrived = 0;           ///< threads
  int expected = 0;          ///< by whoever came first; of barrier 0 all that have not returned
  std::uint32_t opened = 0;  ///< how often
  bool value = false;        ///< of sync_threads_or, so far
  bool result = false;       ///< and when it last opened
  std::vector<int> waiting;  ///< threads
  Races::Clock clock;        ///< what those know who have arrived
};

struct MBarrier {
  int index = 0;
  int arrivals = 0;  ///< of a phase
  int pending = 0;
  std::int64_t bytes = 0;  ///< still to come
  std::uint32_t phase = 0;
  Races::Clock coming;  ///< what those know who arrived in this phase
  Races::Clock past;    ///< and in the one before
};

/// A tensor copy under way.
struct TensorCopy {
  std::uint32_t to;
  std::uint32_t barrier;
  const TensorMap* map;
  std::array<int, 4> at;  ///< of the box, in elements, fastest first
};

/// A product of one warp under way: kept by what it will read.
struct Product {
  std::uint32_t group;
  void (*form)(const Product& product);
  int accumulators;   ///< of each lane
  std::uint32_t row;  ///< of A, the first of the warp
  bool accumulate;
  std::uint64_t a;
  std::uint64_t b;
  std::array<float*, 32> d;
  std::array<const std::uint32_t*, 32> registers;
};

struct SharedDeleter {
  void operator()(std::byte* bytes) const { ::operator delete[](bytes, std::align_val_t{1024}); }
};

class Machine {
 public:
  static Machine& here();  ///< of this host thread

  std::string launch(const Launch& launch, const Schedule& schedule);

  // ---- for the thread that runs ----
  int thread() const { return thread_; }
  int threads() const { return threads_; }
  const int* block() const { return block_; }
  const int* grid() const { return grid_; }
  Warp& warp() { return warps_[static_cast<std::size_t>(thread_ / 32)]; }
  Lane& lane() { return lanes_[static_cast<std::size_t>(thread_)]; }
  Lane& lane(int thread) { return lanes_[static_cast<std::size_t>(thread)]; }
  bool checks_races() const { return schedule_.races; }
  Races& races() { return races_; }
  /// Whether an asynchronous operation takes place at once.
  bool at_once();

  [[noreturn]] void fail(const std::string& what, const Where& where);
  void fail_if(const std::string& race, const Where& where) {
    if (!race.empty()) fail(race, where);
  }

  /// All 32 lanes together.
  void together(Execute execute, void* args, const char* what, const Where& where);

  /// Host addresses, after the checks of bounds and alignment.
  std::byte* shared(std::uint32_t at, std::size_t bytes, std::size_t align, const Where& where);
  std::size_t offset(std::uint32_t at) const { return at - kSharedBegin; }
  void check_global(const void* at, std::size_t bytes, std::size_t align, bool write, const Where& where);

  /// Barrier `id` of `threads` threads (0: all). Answers what sync_threads_or is asked.
  bool sync(int id, int threads, bool waits, bool value, const char* what, const Where& where);

  void copy(const Copy& copy, const Where& where);
  void wait_copies(std::uint32_t done);

  MBarrier& mbarrier(std::uint32_t at, bool proxy, const Where& where);
  void init_mbarrier(std::uint32_t at, int arrivals, const Where& where);
  void arrive(std::uint32_t at, std::int64_t bytes, const Where& where);
  void wait_phase(std::uint32_t at, int parity, const Where& where);
  void tensor_copy(const TensorCopy& copy, const Where& where);

  void issue(Product product, Warp& warp);
  void finish_products(Warp& warp, std::uint32_t done);

 private:
  struct Failed {};
  struct Meeting;

  void run_block();
  void run_lane(int thread);
  void body();
  Warp* choose();
  bool apply_a_tensor_copy();
  void wait(Waits waits, const char* what, const Where& where, std::uint32_t detail);
  void wake(int thread);
  void arrive_at(Warp& warp, Meeting& meeting, const Where& where);
  void open_if_complete(NamedBarrier& barrier);
  void returned();
  void end_phase_if_complete(std::uint32_t at, MBarrier& barrier);
  void perform(const Copy& copy);
  void perform(const TensorCopy& copy);
  void deadlock();
  std::string place() const;

  Schedule schedule_;
  std::mt19937_64 random_;
  const Kernel* kernel_ = nullptr;
  const void* params_ = nullptr;
  int threads_ = 0;
  int thread_ = 0;
  int block_[3] = {};
  int grid_[3] = {};
  int live_ = 0;
  std::string error_;
  std::vector<std::unique_ptr<Fibre>> fibres_;
  std::vector<Lane> lanes_;
  std::vector<Warp> warps_;
  std::unique_ptr<std::byte[], SharedDeleter> shared_;
  std::size_t shared_bytes_ = 0;
  std::array<NamedBarrier, 16> barriers_;
  std::vector<std::vector<Copy>> copies_;  ///< by thread
  std::map<std::uint32_t, MBarrier> mbarriers_;
  std::deque<TensorCopy> tensor_copies_;
  std::vector<std::deque<Product>> products_;               ///< by warp
  std::vector<std::map<float*, std::vector<float>>> sums_;  ///< by warp: accumulators before the products under way
  Races races_;
  std::array<Window, 4> windows_{};
  std::size_t next_window_ = 0;
};

}  // namespace siattn::gpu::emulator

#endif  // SIATTN_GPU_EMULATOR_MACHINE_HPP
