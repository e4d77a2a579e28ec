// SPDX-License-Identifier: Apache-2.0
// The emulator itself: small kernels that are right give what they should under every schedule, and the same kernels
// with one mistake planted are caught, each for what it is.
#include <gtest/gtest.h>

#include <random>

#include "gpu/emulator/emulator.hpp"
#include "gpu/ptx.hpp"

namespace siattn::gpu {
namespace {

using emulator::Buffer;
using emulator::Launch;
using emulator::Moment;
using emulator::Order;
using emulator::Schedule;

enum class Plant : int {
  none,
  no_barrier,
  no_second_barrier,
  no_wait,
  wait_for_too_few,
  shared_bounds,
  shared_alignment,
  global_bounds,
  write_to_input,
  divergent_shuffle,
  early_return,
  barrier_in_a_branch,
  no_warp_sync,
  other_count,
  never_arrives,
};

struct Params {
  const float* in;
  float* out;
  int n;
  Plant plant;
};

/// out[i] = in[i] + in[i of the thread half a block on], tile by tile, by way of shared memory, which each tile reuses.
SIATTN_KERNEL(exchange_halves, 128, 1, Params) {
  const SharedAddress shared = shared_memory();
  const int t = thread_index();
  for (int tile = 0; tile < params.n; tile += 128) {
    const float mine = load_global(params.in + tile + t + (params.plant == Plant::global_bounds ? 1 : 0));
    SharedAddress at = shared + 4 * t;
    if (params.plant == Plant::shared_bounds) at += 4 * 64;
    if (params.plant == Plant::shared_alignment) at += 2;
    store_shared(at, mine);
    if (params.plant != Plant::no_barrier) sync_threads();
    const float other = load_shared<float>(shared + 4 * ((t + 64) % 128));
    float* out = params.plant == Plant::write_to_input ? const_cast<float*>(params.in) : params.out;
    store_global(out + tile + t, mine + other);
    if (params.plant != Plant::no_second_barrier) sync_threads();
  }
}

/// out[i] = in[i] through cp.async, two tiles under way; what lies beyond n comes as zeros.
SIATTN_KERNEL(copy_ahead, 128, 1, Params) {
  const SharedAddress shared = shared_memory();
  const int t = thread_index();
  const int tiles = (params.n + 511) / 512;
  const auto fetch = [&](int tile) {
    const int at = 512 * tile + 4 * t;
    const int left = params.n - at;
    const int bytes = left <= 0 ? 0 : left < 4 ? 4 * left : 16;
    cp_async<16>(shared + 2048 * (tile % 2) + 16 * t, params.in + (bytes > 0 ? at : 0), tile < tiles ? bytes : 0);
    cp_async_commit();
  };
  fetch(0);
  for (int tile = 0; tile < tiles; ++tile) {
    fetch(tile + 1);
    if (params.plant == Plant::wait_for_too_few) cp_async_wait<2>();
    if (params.plant != Plant::no_wait && params.plant != Plant::wait_for_too_few) cp_async_wait<1>();
    if (params.plant != Plant::no_barrier) sync_threads();
    // What the thread's neighbour has copied.
    const auto four = load_shared<Float4>(shared + 2048 * (tile % 2) + 16 * (t ^ 1));
    store_global(reinterpret_cast<Float4*>(params.out) + 128 * tile + (t ^ 1), four);
    if (params.plant != Plant::no_second_barrier) sync_threads();
  }
}

/// Sums over warps, by shuffles; then each warp passes its lanes' numbers round through shared memory.
SIATTN_KERNEL(warp_sums, 128, 1, Params) {
  const int t = thread_index();
  const float mine = load_global(params.in + t);
  float sum = mine;
  if (params.plant == Plant::early_return && t == 40) return;
  for (int mask = 16; mask > 0; mask /= 2) {
    if (params.plant == Plant::divergent_shuffle && t >= 48) {
      sum += shuffle_xor(sum, mask);
    } else {
      sum += shuffle_xor(sum, mask);
    }
  }
  if (params.plant == Plant::barrier_in_a_branch && t % 32 < 16) sync_threads();
  store_shared(shared_memory() + 4 * t, mine);
  if (params.plant != Plant::no_warp_sync) sync_warp();
  const float next = load_shared<float>(shared_memory() + 4 * (t / 32 * 32 + (t + 1) % 32));
  store_global(params.out + t, sum);
  store_global(params.out + 128 + t, next);
  store_global(params.out + 256 + t, shuffle(mine, 5));
  store_global(params.out + 384 + t, warp_any(mine > 127) ? 1.0F : 0.0F);
  store_global(params.out + 512 + t, sync_threads_or(mine > 127) ? 1.0F : 0.0F);
}

/// Warps 0 and 1 make, warps 2 and 3 take, by two named barriers.
SIATTN_KERNEL(make_and_take, 128, 1, Params) {
  const SharedAddress shared = shared_memory();
  const int t = thread_index();
  const bool maker = warp_index() < 2;
  for (int tile = 0; tile < params.n; tile += 64) {
    if (maker) {
      if (tile > 0) named_barrier_sync(2, 128);
      store_shared(shared + 4 * t, load_global(params.in + tile + t));
      if (params.plant != Plant::never_arrives) named_barrier_arrive(1, params.plant == Plant::other_count ? 96 : 128);
    } else {
      if (params.plant != Plant::no_barrier) named_barrier_sync(1, 128);
      store_global(params.out + tile + t - 64, 2 * load_shared<float>(shared + 4 * (t - 64)));
      if (params.plant != Plant::no_second_barrier && tile + 64 < params.n) named_barrier_arrive(2, 128);
    }
  }
}

/// Fragments as ldmatrix gives them, and a product: all that a warp holds goes out.
SIATTN_KERNEL(fragments, 32, 1, Params) {
  const int l = lane_index();
  const auto* in = reinterpret_cast<const std::uint32_t*>(params.in);
  for (int i = 0; i < 4; ++i) store_shared(shared_memory() + 16 * l + 4 * i, load_global(in + 4 * l + i));
  sync_warp();
  std::uint32_t rows[4], columns[4];
  ldmatrix_x4(rows, shared_memory() + 16 * l);
  ldmatrix_x4_trans(columns, shared_memory() + 16 * l);
  float d[4] = {1, 2, 3, 4};
  mma_m16n8k16<bfloat16>(d, rows, columns[0], columns[1]);
  auto* out = reinterpret_cast<std::uint32_t*>(params.out);
  for (int i = 0; i < 4; ++i) {
    store_global(out + 4 * l + i, rows[i]);
    store_global(out + 128 + 4 * l + i, columns[i]);
    store_global(params.out + 256 + 4 * l + i, d[i]);
  }
}

struct Outcome {
  std::string error;
  std::vector<float> out;
};

Outcome run(const char* kernel, int n, const Schedule& schedule, Plant plant = Plant::none, int threads = 128,
            std::size_t shared = 4096) {
  std::vector<float> in(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  std::vector<float> out(2048, -1);
  const Buffer readable(in, false);
  const Buffer writable(out);
  const Params params{in.data(), out.data(), n, plant};
  Launch launch{emulator::find_kernel(kernel), {1, 1, 1}, threads, shared, &params};
  std::string error = emulator::launch(launch, schedule);
  return {error, out};
}

std::string error_of(const char* kernel, int n, Plant plant, const Schedule& schedule = {}, std::size_t shared = 4096) {
  return run(kernel, n, schedule, plant, 128, shared).error;
}

testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << part << "' is not in '" << text << "'";
}

bool exchanged(const std::vector<float>& out, int n) {
  for (int i = 0; i < n; ++i) {
    const int other = i / 128 * 128 + (i + 64) % 128;
    if (out[static_cast<std::size_t>(i)] != static_cast<float>(i + other)) return false;
  }
  return true;
}

TEST(Emulator, RunsARightKernelUnderEverySchedule) {
  for (const Schedule& schedule : emulator::schedules()) {
    const Outcome halves = run("exchange_halves", 512, schedule);
    EXPECT_EQ(halves.error, "");
    EXPECT_TRUE(exchanged(halves.out, 512));

    const Outcome copied = run("copy_ahead", 1534, schedule);
    EXPECT_EQ(copied.error, "");
    for (int i = 0; i < 1536; ++i) ASSERT_EQ(copied.out[static_cast<std::size_t>(i)], i < 1534 ? i : 0) << i;

    const Outcome taken = run("make_and_take", 512, schedule);
    EXPECT_EQ(taken.error, "");
    for (int i = 0; i < 512; ++i) ASSERT_EQ(taken.out[static_cast<std::size_t>(i)], 2 * i) << i;
  }
}

TEST(Emulator, WarpsExchangeAndVote) {
  for (const Schedule& schedule : emulator::schedules()) {
    const Outcome sums = run("warp_sums", 128, schedule);
    EXPECT_EQ(sums.error, "");
    for (int t = 0; t < 128; ++t) {
      const int first = t / 32 * 32;
      const auto at = [&](int row) { return sums.out[static_cast<std::size_t>(128 * row + t)]; };
      ASSERT_EQ(at(0), 32 * first + 31 * 16);
      ASSERT_EQ(at(1), first + (t + 1) % 32);
      ASSERT_EQ(at(2), first + 5);
      ASSERT_EQ(at(3), 0);
      ASSERT_EQ(at(4), 0);
    }
  }
}

/// The race is found whatever the schedule: what the copies' moment and the order of the warps make visible is luck.
TEST(Emulator, ReportsAMissingBarrierOrWaitUnderEverySchedule) {
  for (const Schedule& schedule : emulator::schedules()) {
    EXPECT_TRUE(has(error_of("exchange_halves", 512, Plant::no_barrier, schedule), "to order them"));
    EXPECT_TRUE(has(error_of("exchange_halves", 512, Plant::no_second_barrier, schedule), "to order them"));
    EXPECT_TRUE(has(error_of("copy_ahead", 2048, Plant::no_barrier, schedule), "to order them"));
    EXPECT_TRUE(has(error_of("copy_ahead", 2048, Plant::no_second_barrier, schedule), "to order them"));
    EXPECT_TRUE(has(error_of("copy_ahead", 2048, Plant::no_wait, schedule), "which a cp.async of thread"));
    EXPECT_TRUE(has(error_of("copy_ahead", 2048, Plant::wait_for_too_few, schedule), "which a cp.async of thread"));
    EXPECT_TRUE(has(error_of("warp_sums", 128, Plant::no_warp_sync, schedule), "to order them"));
    EXPECT_TRUE(has(error_of("make_and_take", 512, Plant::no_second_barrier, schedule), ""));
  }
  EXPECT_TRUE(has(error_of("exchange_halves", 512, Plant::no_barrier), "emulator_test.cpp:"));
}

/// Without the search for races too, some schedule shows each of these in the output.
TEST(Emulator, SchedulesByThemselvesShowAMissingBarrier) {
  const auto shown = [](const char* kernel, Plant plant, auto right) {
    int count = 0;
    for (Schedule schedule : emulator::schedules()) {
      schedule.races = false;
      const Outcome outcome = run(kernel, 512, schedule, plant);
      if (!outcome.error.empty() || !right(outcome.out)) ++count;
    }
    return count;
  };
  const auto halves = [](const std::vector<float>& out) { return exchanged(out, 512); };
  const auto copied = [](const std::vector<float>& out) {
    for (int i = 0; i < 512; ++i) {
      if (out[static_cast<std::size_t>(i)] != static_cast<float>(i)) return false;
    }
    return true;
  };
  EXPECT_EQ(shown("exchange_halves", Plant::none, halves), 0);
  EXPECT_GT(shown("exchange_halves", Plant::no_barrier, halves), 0);
  EXPECT_EQ(shown("copy_ahead", Plant::none, copied), 0);
  EXPECT_GT(shown("copy_ahead", Plant::no_wait, copied), 0);
  EXPECT_GT(shown("copy_ahead", Plant::wait_for_too_few, copied), 0);
  EXPECT_GT(shown("copy_ahead", Plant::no_barrier, copied), 0);
}

TEST(Emulator, ReportsWhatLiesOutOfBounds) {
  EXPECT_TRUE(has(error_of("exchange_halves", 512, Plant::shared_bounds, {}, 512), "out of bounds: it has 512"));
  EXPECT_TRUE(has(error_of("exchange_halves", 512, Plant::shared_alignment), "not at a multiple of 4"));
  EXPECT_TRUE(
      has(error_of("exchange_halves", 512, Plant::global_bounds), "reads 4 bytes of global memory out of bounds"));
  EXPECT_TRUE(has(error_of("exchange_halves", 512, Plant::write_to_input), "in no buffer that may be written"));
}

TEST(Emulator, ReportsWarpsThatDoNotActTogether) {
  for (const Schedule& schedule : emulator::schedules()) {
    EXPECT_TRUE(has(error_of("warp_sums", 128, Plant::divergent_shuffle, schedule), "divergent warp"));
    const std::string early = error_of("warp_sums", 128, Plant::early_return, schedule);
    EXPECT_TRUE(has(early, "threads 40-40 have returned")) << early;
    EXPECT_TRUE(has(early, "threads 32-39 wait in shuffle for other lanes"));
    EXPECT_TRUE(has(error_of("warp_sums", 128, Plant::barrier_in_a_branch, schedule), "divergent warp"));
  }
}

TEST(Emulator, ADeadlockSaysWhoWaitsWhere) {
  for (const Schedule& schedule : emulator::schedules()) {
    const std::string error = error_of("make_and_take", 512, Plant::never_arrives, schedule);
    EXPECT_TRUE(has(error, "nobody can go on"));
    EXPECT_TRUE(has(error, "threads 0-63 wait in named_barrier_sync 2 at emulator_test.cpp:")) << error;
    EXPECT_TRUE(has(error, "threads 64-127 wait in named_barrier_sync 1 at emulator_test.cpp:"));
    EXPECT_TRUE(has(error_of("make_and_take", 512, Plant::other_count, schedule), "threads, where others wait for"));
  }
  // And the next launch is none the worse for it.
  EXPECT_EQ(run("make_and_take", 512, {}).error, "");
}

TEST(Emulator, FragmentsAreTheManuals) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> digit(-3, 3);
  float matrices[4][8][8];
  std::vector<std::uint32_t> in(128);
  for (int m = 0; m < 4; ++m) {
    for (int r = 0; r < 8; ++r) {
      for (int c = 0; c < 8; ++c) {
        matrices[m][r][c] = static_cast<float>(digit(random));
        const std::uint32_t bits = to_bfloat16(matrices[m][r][c]).bits;
        in[static_cast<std::size_t>(4 * (8 * m + r) + c / 2)] |= bits << (c % 2 * 16);
      }
    }
  }
  std::vector<std::uint32_t> out(384);
  const Buffer readable(in, false);
  const Buffer writable(out);
  const Params params{reinterpret_cast<const float*>(in.data()), reinterpret_cast<float*>(out.data()), 0, Plant::none};
  ASSERT_EQ(emulator::launch({emulator::find_kernel("fragments"), {1, 1, 1}, 32, 512, &params}), "");
  const auto two = [](float low, float high) {
    return static_cast<std::uint32_t>(to_bfloat16(low).bits) | static_cast<std::uint32_t>(to_bfloat16(high).bits) << 16;
  };
  for (int l = 0; l < 32; ++l) {
    const int g = l / 4, c = 2 * (l % 4);
    for (int m = 0; m < 4; ++m) {
      const auto at = static_cast<std::size_t>(4 * l + m);
      EXPECT_EQ(out[at], two(matrices[m][g][c], matrices[m][g][c + 1]));
      EXPECT_EQ(out[128 + at], two(matrices[m][c][g], matrices[m][c + 1][g]));
    }
    // A is [16][16] of matrices 0 (above left), 1 (below left), 2, 3; B [16][8] of the matrices 0 and 1, one below the other.
    for (int i = 0; i < 4; ++i) {
      const int row = g + 8 * (i / 2), column = c + i % 2;
      float sum = static_cast<float>(i + 1);
      for (int k = 0; k < 16; ++k)
        sum += matrices[row / 8 + 2 * (k / 8)][row % 8][k % 8] * matrices[k / 8][k % 8][column];
      EXPECT_EQ(std::bit_cast<float>(out[static_cast<std::size_t>(256 + 4 * l + i)]), sum) << l << " " << i;
    }
  }
}

TEST(Emulator, RefusesLaunchesThatADeviceWouldRefuse) {
  const Params params{};
  const auto refused = [&](Launch launch) {
    launch.params = &params;
    return emulator::launch(launch);
  };
  const emulator::Kernel* kernel = emulator::find_kernel("exchange_halves");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(emulator::find_kernel("no such kernel"), nullptr);
  EXPECT_TRUE(has(refused({nullptr, {1, 1, 1}, 128, 0}), "no kernel"));
  EXPECT_TRUE(has(refused({kernel, {1, 1, 1}, 160, 0}), "blocks of 160 threads"));
  EXPECT_TRUE(has(refused({kernel, {1, 1, 1}, 100, 0}), "blocks of 100 threads"));
  EXPECT_TRUE(has(refused({kernel, {1, 0, 1}, 128, 0}), "a grid of 0 blocks"));
  EXPECT_TRUE(has(refused({kernel, {1, 1, 1}, 128, std::size_t{228} << 10}), "bytes of shared memory"));
}

TEST(Emulator, DeviceMemoryIsFoundByAnyAddressInIt) {
  void* memory = emulator::allocate(100);
  EXPECT_TRUE(emulator::allocated(static_cast<char*>(memory) + 99));
  EXPECT_FALSE(emulator::allocated(static_cast<char*>(memory) + 100));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0u);
  EXPECT_FALSE(emulator::release(static_cast<char*>(memory) + 1));
  EXPECT_TRUE(emulator::release(memory));
  EXPECT_FALSE(emulator::allocated(memory));
  EXPECT_FALSE(emulator::release(memory));
}

TEST(Emulator, NumbersRoundAsOnADevice) {
  EXPECT_EQ(pack<bfloat16>(1.0F, -2.0F), 0xC0003F80u);
  EXPECT_EQ(unpack<float16>(pack<float16>(0.5F, 65504.0F)).y, 65504.0F);
  EXPECT_EQ(exp2_approx(-126.0F), 0x1p-126F);
  EXPECT_EQ(exp2_approx(-126.5F), 0.0F);
  EXPECT_EQ(exp2_approx(-INFINITY), 0.0F);
  EXPECT_EQ(max_of(NAN, 1.0F), 1.0F);
}

}  // namespace
}  // namespace siattn::gpu
