// SPDX-License-Identifier: Apache-2.0
#include "gpu/emulator/races.hpp"

#include <algorithm>

namespace siattn::gpu::emulator {
namespace {

constexpr std::size_t kWord = 4;

void join_into(std::uint32_t* to, const std::uint32_t* from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = std::max(to[i], from[i]);
}

}  // namespace

void Races::reset(int threads, std::size_t bytes) {
  threads_ = threads;
  warps_ = threads / 32;
  entries_ = static_cast<std::size_t>(4 * threads_ + kBarriers + warps_);
  const std::size_t words = bytes / kWord;
  clocks_.assign(static_cast<std::size_t>(threads_) * entries_, 0);
  epochs_.assign(static_cast<std::size_t>(warps_), 1);
  floors_.assign(static_cast<std::size_t>(warps_) * entries_, 0);
  stale_.assign(static_cast<std::size_t>(warps_), 0);
  written_.assign(words, {});
  seen_.assign(words * static_cast<std::size_t>(warps_), {});
  products_seen_.clear();
}

const std::uint32_t* Races::floor(int warp) {
  std::uint32_t* low = floors_.data() + static_cast<std::size_t>(warp) * entries_;
  if (stale_[static_cast<std::size_t>(warp)] != 0) {
    std::copy_n(clock(32 * warp), entries_, low);
    for (int lane = 1; lane < 32; ++lane) {
      const std::uint32_t* other = clock(32 * warp + lane);
      for (std::size_t i = 0; i < entries_; ++i) low[i] = std::min(low[i], other[i]);
    }
    stale_[static_cast<std::size_t>(warp)] = 0;
  }
  return low;
}

void Races::join(std::span<const int> threads) {
  Clock all(entries_, 0);
  for (const int t : threads) release(t, all);
  for (const int t : threads) {
    std::copy(all.begin(), all.end(), clock(t));
    stale_[static_cast<std::size_t>(t / 32)] = 1;
  }
}

void Races::release(int thread, Clock& all) {
  all.resize(entries_, 0);
  std::uint32_t& epoch = epochs_[static_cast<std::size_t>(thread / 32)];
  clock(thread)[thread] = epoch++;
  join_into(all.data(), clock(thread), entries_);
}

void Races::acquire(int thread, const Clock& all) {
  join_into(clock(thread), all.data(), std::min(all.size(), entries_));
  stale_[static_cast<std::size_t>(thread / 32)] = 1;
}

void Races::learn(int thread, int agent, std::uint32_t epoch) {
  clock(thread)[agent] = std::max(clock(thread)[agent], epoch);
  stale_[static_cast<std::size_t>(thread / 32)] = 1;
}

void Races::fence(int thread) {
  clock(thread)[thread] = epochs_[static_cast<std::size_t>(thread / 32)]++;
  join_into(clock(thread) + fenced(0), clock(thread), static_cast<std::size_t>(2 * threads_));
  stale_[static_cast<std::size_t>(thread / 32)] = 1;
}

bool Races::knows(const std::uint32_t* clock, const Written& w, bool proxy) const {
  // What threads write counts for the asynchronous proxy once it is fenced.
  if (proxy && w.agent < static_cast<std::uint32_t>(2 * threads_)) return clock[fenced(w.agent)] >= w.epoch;
  return clock[w.agent] >= w.epoch;
}

std::string Races::who(int agent) const {
  if (agent < threads_) return "thread " + std::to_string(agent);
  if (agent < 2 * threads_) return "a cp.async of thread " + std::to_string(agent - threads_);
  if (agent < products_of(0)) return "a tensor copy to mbarrier " + std::to_string(agent - copies_to(0));
  return "a wgmma of warp " + std::to_string(agent - products_of(0));
}

std::string Races::found(const char* what, std::size_t word, const Written& w) const {
  return std::string(what) + " shared byte " + std::to_string(word * kWord) + ", which " +
         who(static_cast<int>(w.agent)) + " wrote (line " + std::to_string(w.line) +
         ") with nothing in between to order them";
}

std::string Races::read(int thread, std::size_t at, std::size_t bytes, std::uint32_t) {
  const auto warp = static_cast<std::size_t>(thread / 32);
  const std::uint32_t epoch = epochs_[warp];
  for (std::size_t word = at / kWord; word < (at + bytes) / kWord; ++word) {
    const Written& w = written_[word];
    if (w.agent != static_cast<std::uint32_t>(thread) && !knows(clock(thread), w, false))
      return found("reads", word, w);
    Seen& seen = seen_[word * static_cast<std::size_t>(warps_) + warp];
    if (seen.epoch != epoch) seen = {epoch, 0};
    seen.lanes |= 1U << (thread % 32);
  }
  return {};
}

std::string Races::read_by_warp(int warp, std::size_t at, std::size_t bytes, std::uint32_t) {
  const std::uint32_t* low = floor(warp);
  for (std::size_t word = at / kWord; word < (at + bytes) / kWord; ++word) {
    if (!knows(low, written_[word], false)) return found("a lane reads", word, written_[word]);
    seen_[word * static_cast<std::size_t>(warps_) + static_cast<std::size_t>(warp)] = {
        epochs_[static_cast<std::size_t>(warp)], ~0U};
  }
  return {};
}

std::string Races::readers_before(int thread, std::size_t word) const {
  const std::uint32_t* mine = clock(thread);
  const auto warps = static_cast<std::size_t>(warps_);
  for (std::size_t warp = 0; warp < warps; ++warp) {
    const Seen& seen = seen_[word * warps + warp];
    for (std::uint32_t lanes = seen.lanes; lanes != 0; lanes &= lanes - 1) {
      const int reader = static_cast<int>(warp) * 32 + __builtin_ctz(lanes);
      if (reader != thread && mine[reader] < seen.epoch) {
        return "writes shared byte " + std::to_string(word * kWord) + ", which thread " + std::to_string(reader) +
               " read with nothing in between to order them";
      }
    }
    if (!products_seen_.empty() && mine[products_of(static_cast<int>(warp))] < products_seen_[word * warps + warp]) {
      return "writes shared byte " + std::to_string(word * kWord) + ", which " +
             who(products_of(static_cast<int>(warp))) + " may still read";
    }
  }
  return {};
}

std::string Races::start_write(int thread, int agent, std::uint32_t epoch, bool proxy, std::size_t at,
                               std::size_t bytes, std::uint32_t line) {
  const auto warps = static_cast<std::size_t>(warps_);
  for (std::size_t word = at / kWord; word < (at + bytes) / kWord; ++word) {
    Written& w = written_[word];
    const bool own = w.agent == static_cast<std::uint32_t>(thread) && !proxy;
    if (!own && w.epoch != 0 && !knows(clock(thread), w, proxy)) return found("writes", word, w);
    if (std::string race = readers_before(thread, word); !race.empty()) return race;
    w = {epoch, static_cast<std::uint32_t>(agent), line};
    std::fill_n(seen_.begin() + static_cast<std::ptrdiff_t>(word * warps), warps, Seen{});
    if (!products_seen_.empty())
      std::fill_n(products_seen_.begin() + static_cast<std::ptrdiff_t>(word * warps), warps, 0U);
  }
  return {};
}

std::string Races::write(int thread, std::size_t at, std::size_t bytes, std::uint32_t line) {
  return start_write(thread, thread, epochs_[static_cast<std::size_t>(thread / 32)], false, at, bytes, line);
}

std::string Races::start_read(int warp, std::uint32_t epoch, std::size_t at, std::size_t bytes, std::uint32_t) {
  if (products_seen_.empty()) products_seen_.assign(seen_.size(), 0);
  const std::uint32_t* low = floor(warp);
  for (std::size_t word = at / kWord; word < (at + bytes) / kWord; ++word) {
    const Written& w = written_[word];
    if (!knows(low, w, true)) {
      const bool only_the_fence = knows(low, w, false);
      return found(only_the_fence ? "wgmma without fence.proxy.async reads" : "wgmma reads", word, w);
    }
    products_seen_[word * static_cast<std::size_t>(warps_) + static_cast<std::size_t>(warp)] = epoch;
  }
  return {};
}

std::string Races::rely(int thread, bool proxy, std::size_t at, std::size_t bytes) const {
  for (std::size_t word = at / kWord; word < (at + bytes) / kWord; ++word) {
    const Written& w = written_[word];
    if (w.epoch == 0) return "uses an mbarrier that nobody has set up";
    if (w.agent == static_cast<std::uint32_t>(thread) && !proxy) continue;
    if (!knows(clock(thread), w, proxy)) return found("relies on an mbarrier in", word, w);
  }
  return {};
}

}  // namespace siattn::gpu::emulator
