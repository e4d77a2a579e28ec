// SPDX-License-Identifier: Apache-2.0
// mbarriers, tensor copies and wgmma.
#include <algorithm>
#include <limits>

#include "gpu/emulator/machine.hpp"
#include "gpu/emulator/tensor_map.hpp"

namespace siattn::gpu::emulator {

// ---- mbarriers ----

void Machine::init_mbarrier(std::uint32_t at, int arrivals, const Where& where) {
  shared(at, 8, 8, where);
  if (schedule_.races) fail_if(races_.write(thread_, offset(at), 8, where.line()), where);
  if (arrivals < 1) fail("an mbarrier of " + std::to_string(arrivals) + " arrivals", where);
  if (mbarriers_.contains(at)) fail("sets up an mbarrier that is in use", where);
  if (mbarriers_.size() >= Races::kBarriers) fail("too many mbarriers for the emulator", where);
  MBarrier barrier;
  barrier.index = static_cast<int>(mbarriers_.size());
  barrier.arrivals = barrier.pending = arrivals;
  mbarriers_.emplace(at, barrier);
}

MBarrier& Machine::mbarrier(std::uint32_t at, bool proxy, const Where& where) {
  shared(at, 8, 8, where);
  const auto found = mbarriers_.find(at);
  if (found == mbarriers_.end()) fail("no mbarrier at shared byte " + std::to_string(offset(at)), where);
  if (schedule_.races) fail_if(races_.rely(thread_, proxy, offset(at), 8), where);
  return found->second;
}

void Machine::arrive(std::uint32_t at, std::int64_t bytes, const Where& where) {
  MBarrier& barrier = mbarrier(at, false, where);
  if (barrier.pending == 0) fail("one arrival too many at mbarrier " + std::to_string(barrier.index), where);
  if (schedule_.races) races_.release(thread_, barrier.coming);
  barrier.bytes += bytes;
  --barrier.pending;
  end_phase_if_complete(at, barrier);
}

void Machine::end_phase_if_complete(std::uint32_t at, MBarrier& barrier) {
  if (barrier.pending > 0 || barrier.bytes != 0) return;
  ++barrier.phase;
  barrier.pending = barrier.arrivals;
  barrier.past = std::move(barrier.coming);
  barrier.coming.clear();
  if (schedule_.races) {
    const auto copies = static_cast<std::size_t>(races_.copies_to(barrier.index));
    barrier.past.resize(std::max(barrier.past.size(), copies + 1), 0);
    barrier.past[copies] = barrier.phase;
  }
  for (int t = 0; t < threads_; ++t) {
    const Lane& other = lane(t);
    if (other.waits == Waits::phase && other.detail == at && static_cast<int>(barrier.phase & 1) != other.parity)
      wake(t);
  }
}

void Machine::wait_phase(std::uint32_t at, int parity, const Where& where) {
  if (parity != 0 && parity != 1) fail("waits for parity " + std::to_string(parity), where);
  MBarrier& barrier = mbarrier(at, false, where);
  while (static_cast<int>(barrier.phase & 1) == parity) {
    lane().parity = parity;
    wait(Waits::phase, "mbarrier_wait", where, at);
  }
  if (schedule_.races) races_.acquire(thread_, barrier.past);
}

// ---- tensor copies ----

void Machine::tensor_copy(const TensorCopy& copy, const Where& where) {
  const auto* map = reinterpret_cast<const EncodedMap*>(copy.map);
  const auto* params = static_cast<const std::byte*>(params_);
  const auto* begin = reinterpret_cast<const std::byte*>(map);
  if (begin < params || begin + sizeof(TensorMap) > params + kernel_->params_bytes) {
    fail("a tensor map that is not in the kernel's struct", where);
  }
  if (map->magic != EncodedMap::kMagic) fail("a tensor map that was not encoded", where);
  const std::size_t bytes = map->box_bytes();
  shared(copy.to, bytes, 1024, where);
  MBarrier& barrier = mbarrier(copy.barrier, true, where);
  if (schedule_.races) {
    fail_if(races_.start_write(thread_, races_.copies_to(barrier.index), barrier.phase + 1, true, offset(copy.to),
                               bytes, where.line()),
            where);
  }
  map->for_each_row(copy.at, [&](std::size_t, const void* row, std::size_t count) {
    if (count > 0) check_global(row, count * 2, 2, false, where);
  });
  // A copy never overtakes one that waits, so that each word gets its last one.
  if (tensor_copies_.empty() && at_once()) return perform(copy);
  std::memset(shared_.get() + offset(copy.to), 0xff, bytes);
  tensor_copies_.push_back(copy);
}

void Machine::perform(const TensorCopy& copy) {
  const auto* map = reinterpret_cast<const EncodedMap*>(copy.map);
  std::byte* to = shared_.get() + offset(copy.to);
  map->for_each_row(copy.at, [&](std::size_t row, const void* from, std::size_t count) {
    std::byte whole[EncodedMap::kRowBytes] = {};
    if (count > 0) std::memcpy(whole, from, count * 2);
    for (std::size_t piece = 0; piece < 8; ++piece) {
      std::memcpy(to + row * EncodedMap::kRowBytes + (piece ^ (row % 8)) * 16, whole + piece * 16, 16);
    }
  });
  MBarrier& barrier = mbarriers_.at(copy.barrier);
  barrier.bytes -= static_cast<std::int64_t>(map->box_bytes());
  end_phase_if_complete(copy.barrier, barrier);
}

bool Machine::apply_a_tensor_copy() {
  if (tensor_copies_.empty()) return false;
  const TensorCopy copy = tensor_copies_.front();
  tensor_copies_.pop_front();
  perform(copy);
  return true;
}

std::string encode_tensor_map(TensorMap& map, const void* base, const std::uint64_t (&sizes)[4],
                              const std::uint64_t (&strides)[3], const std::uint32_t (&box)[4]) {
  EncodedMap encoded{};
  if (reinterpret_cast<std::uintptr_t>(base) % 16 != 0) return "base address not at a multiple of 16";
  for (int i = 0; i < 4; ++i) {
    if (sizes[i] == 0 || sizes[i] > (std::uint64_t{1} << 32)) return "size " + std::to_string(sizes[i]);
    if (box[i] == 0 || box[i] > 256) return "box " + std::to_string(box[i]);
    encoded.sizes[i] = sizes[i];
    encoded.box[i] = box[i];
  }
  for (int i = 0; i < 3; ++i) {
    if (strides[i] % 16 != 0 || strides[i] >= (std::uint64_t{1} << 40)) return "stride " + std::to_string(strides[i]);
    encoded.strides[i] = strides[i];
  }
  if (box[0] * 2 != EncodedMap::kRowBytes) return "box of " + std::to_string(box[0]) + " elements a row; expected 64";
  encoded.magic = EncodedMap::kMagic;
  encoded.base = static_cast<const std::byte*>(base);
  static_assert(sizeof(EncodedMap) <= sizeof(TensorMap));
  std::memcpy(map.bytes, &encoded, sizeof encoded);
  return {};
}

// ---- products ----

void Machine::issue(Product product, Warp& warp) {
  const auto w = static_cast<std::size_t>(warp.index);
  product.group = warp.products_group + 1;
  warp.products_open = true;
  if (products_[w].empty() && at_once()) return product.form(product);
  const auto count = static_cast<std::size_t>(product.accumulators);
  for (float* d : product.d) {
    std::vector<float>& before = sums_[w][d];
    if (before.empty()) before.assign(d, d + count);
    std::fill_n(d, count, std::numeric_limits<float>::quiet_NaN());
  }
  products_[w].push_back(product);
}

void Machine::finish_products(Warp& warp, std::uint32_t done) {
  const auto w = static_cast<std::size_t>(warp.index);
  std::deque<Product>& waiting = products_[w];
  while (!waiting.empty() && waiting.front().group <= done) {
    const Product& product = waiting.front();
    for (float* d : product.d) std::copy(sums_[w][d].begin(), sums_[w][d].end(), d);
    product.form(product);
    for (float* d : product.d) sums_[w][d].assign(d, d + product.accumulators);
    waiting.pop_front();
  }
  for (auto sum = sums_[w].begin(); sum != sums_[w].end();) {
    const bool under_way = std::any_of(waiting.begin(), waiting.end(), [&](const Product& product) {
      return std::find(product.d.begin(), product.d.end(), sum->first) != product.d.end();
    });
    if (under_way) {
      std::fill_n(sum->first, sum->second.size(), std::numeric_limits<float>::quiet_NaN());
      ++sum;
    } else {
      sum = sums_[w].erase(sum);
    }
  }
  if (!schedule_.races) return;
  for (int t = 32 * warp.index; t < 32 * warp.index + 32; ++t) races_.learn(t, races_.products_of(warp.index), done);
}

}  // namespace siattn::gpu::emulator
