// SPDX-License-Identifier: Apache-2.0
// Who may have touched a word of shared memory before whom: vector clocks, as in FastTrack (Flanagan and Freund, 2009).
#ifndef SIATTN_GPU_EMULATOR_RACES_HPP
#define SIATTN_GPU_EMULATOR_RACES_HPP

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace siattn::gpu::emulator {

/// What an order of events is kept for. An *agent* is whoever touches memory on its own time: each thread, each thread's
/// cp.async copies, each mbarrier's tensor copies, each warp's wgmma. Agent `a` counts its doings in epochs; a clock says
/// up to which epoch of each agent everything has happened before now. A second set of entries, for the threads and their
/// cp.async, says the same of what the asynchronous proxy may rely on: these writes count there only once fenced
/// (fence.proxy.async).
///
/// A race is two touches of a word, one of them a write, neither of which happens before the other: it is found whatever
/// the schedule was. Addresses here begin at 0, in bytes; the unit is a word of 4.
class Races {
 public:
  static constexpr int kBarriers = 64;  ///< most mbarriers of a block
  using Clock = std::vector<std::uint32_t>;

  /// A new block: nothing has happened.
  void reset(int threads, std::size_t bytes);

  // Agents.
  int copies_of(int thread) const { return threads_ + thread; }
  int copies_to(int barrier) const { return 2 * threads_ + barrier; }
  int products_of(int warp) const { return 2 * threads_ + kBarriers + warp; }

  // Order.
  /// All these threads have met: each knows what any of them knows.
  void join(std::span<const int> threads);
  /// Puts what the thread knows into the clock; what it does from now on is not in it.
  void release(int thread, Clock& clock);
  void acquire(int thread, const Clock& clock);
  /// The thread now knows of the agent's doings up to this epoch.
  void learn(int thread, int agent, std::uint32_t epoch);
  /// fence.proxy.async: the asynchronous proxy may rely on all that the thread knows.
  void fence(int thread);

  // Touches. Empty: no race; else who did what, for a report.
  std::string read(int thread, std::size_t at, std::size_t bytes, std::uint32_t line);
  std::string write(int thread, std::size_t at, std::size_t bytes, std::uint32_t line);
  /// One row of a read by the whole warp (ldmatrix): every lane gets some of it.
  std::string read_by_warp(int warp, std::size_t at, std::size_t bytes, std::uint32_t line);
  /// An asynchronous write that the thread starts; by the asynchronous proxy (tensor copies) or not (cp.async).
  std::string start_write(int thread, int agent, std::uint32_t epoch, bool proxy, std::size_t at, std::size_t bytes,
                          std::uint32_t line);
  /// wgmma's read of shared memory, which the warp starts.
  std::string start_read(int warp, std::uint32_t epoch, std::size_t at, std::size_t bytes, std::uint32_t line);
  /// The asynchronous proxy relies on these words (an mbarrier): nothing of them may be unfenced.
  std::string rely(int thread, bool proxy, std::size_t at, std::size_t bytes) const;

 private:
  struct Written {
    std::uint32_t epoch = 0;
    std::uint32_t agent = 0;
    std::uint32_t line = 0;
  };
  /// Reads of a word by lanes of one warp since its last write; of the latest epoch.
  struct Seen {
    std::uint32_t epoch = 0;
    std::uint32_t lanes = 0;
  };

  std::uint32_t* clock(int thread) { return clocks_.data() + static_cast<std::size_t>(thread) * entries_; }
  const std::uint32_t* clock(int thread) const { return clocks_.data() + static_cast<std::size_t>(thread) * entries_; }
  std::size_t fenced(std::uint32_t agent) const {
    return static_cast<std::size_t>(2 * threads_ + kBarriers + warps_) + agent;
  }
  const std::uint32_t* floor(int warp);
  bool knows(const std::uint32_t* clock, const Written& w, bool proxy) const;
  std::string who(int agent) const;
  std::string found(const char* what, std::size_t word, const Written& w) const;
  std::string readers_before(int thread, std::size_t word) const;

  int threads_ = 0;
  int warps_ = 0;
  std::size_t entries_ = 0;
  Clock clocks_;  ///< [threads][entries]
  std::vector<std::uint32_t>
      epochs_;                    ///< [warps]: a thread's epoch is its warp's, which grows whenever a lane releases
  Clock floors_;                  ///< [warps][entries]: what all lanes of a warp know
  std::vector<char> stale_;       ///< [warps]: the floor is to be formed again
  std::vector<Written> written_;  ///< [words]
  std::vector<Seen> seen_;        ///< [words][warps]
  std::vector<std::uint32_t> products_seen_;  ///< [words][warps], once there are any: epochs of wgmma's reads
};

}  // namespace siattn::gpu::emulator

#endif  // SIATTN_GPU_EMULATOR_RACES_HPP
