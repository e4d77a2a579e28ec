// SPDX-License-Identifier: Apache-2.0
// Guard pages: a touch outside a buffer is a crash that names it, on either side, for every part of a problem.
#include "verify/guarded_memory.hpp"

#include "tests/support.hpp"

namespace siattn::test {
namespace {

using verify::Guard;
using verify::GuardedMemory;

/// Reads one byte of memory that somebody named.
void touch(const void* at) {
  const verify::NamedCrashes names("reading");
  *static_cast<const volatile char*>(at);
}
void touch_end(const GuardedMemory& memory, std::size_t bytes) { touch(memory.data() + bytes); }

class GuardedMemoryDeathTest : public ::testing::Test {
 protected:
  GuardedMemoryDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(GuardedMemoryDeathTest, ByteBehindTheEnd) {
  for (const std::size_t bytes : {0, 1, 2, 4094, 4096, 4097, 20001}) {
    const GuardedMemory memory("a buffer", bytes, Guard::page_behind);
    for (std::size_t k = 0; k < bytes; ++k) ASSERT_EQ(memory.data()[k], std::byte{0xFF});
    EXPECT_DEATH(touch_end(memory, bytes), "siattn: reading: touched byte 1 behind the end of a buffer\n");
  }
}

TEST_F(GuardedMemoryDeathTest, ByteBeforeTheStart) {
  for (const std::size_t bytes : {0, 1, 4096, 4097}) {
    const GuardedMemory memory("a buffer", bytes, Guard::page_before);
    for (std::size_t k = 0; k < bytes; ++k) ASSERT_EQ(memory.data()[k], std::byte{0xFF});
    EXPECT_DEATH(touch(memory.data() - 1), "siattn: reading: touched byte 1 before the start of a buffer\n");
    EXPECT_DEATH(touch(memory.data() - 7), "siattn: reading: touched byte 7 before the start of a buffer\n");
  }
}

TEST_F(GuardedMemoryDeathTest, CopyHasGuardsOfItsOwn) {
  GuardedMemory copy;
  {
    const GuardedMemory memory("a buffer", 10, Guard::page_behind);
    memory.data()[9] = std::byte{42};
    copy = memory;
    EXPECT_NE(copy.data(), memory.data());
  }
  EXPECT_EQ(copy.data()[9], std::byte{42});
  EXPECT_DEATH(touch_end(copy, 10), "behind the end of a buffer\n");
}

/// What is no guard page crashes as ever.
TEST_F(GuardedMemoryDeathTest, OtherAddressesStillCrash) {
  const GuardedMemory memory("a buffer", 10, Guard::page_behind);
  volatile std::uintptr_t nowhere = 8;
  EXPECT_DEATH(touch(reinterpret_cast<const void*>(nowhere)), "");
}

/// Every buffer of a problem ends, and in the second variant begins, at a page that cannot be touched: in every type,
/// with heads inside and gaps between the rows.
TEST_F(GuardedMemoryDeathTest, EveryTensorAndBothLengths) {
  for (const Guard guard : {Guard::page_behind, Guard::page_before}) {
    ProblemData data({{2, 2, 1, 3, 5, 7, 9}, DType::bfloat16, {}},
                     {.heads_inside = true, .row_padding = 3, .guard = guard});
    data.query_lengths = {3, 1};
    data.kv_lengths = {5, 4};
    data.fill_gaussian(1);
    const AttentionTensors tensors = data.tensors();
    const auto last = [](const auto& x) {
      return static_cast<const char*>(static_cast<const void*>(x.data)) +
             static_cast<std::size_t>(row_offset(x, x.shape[0] - 1, x.shape[1] - 1, x.shape[2] - 1) + x.shape[3]) *
                 size_of(x.dtype);
    };
    const auto first = [](const auto& x) { return static_cast<const char*>(static_cast<const void*>(x.data)) - 1; };
    const auto dies = [guard](const char* behind, const char* before, const std::string& name) {
      const bool at_end = guard == Guard::page_behind;
      EXPECT_DEATH(touch(at_end ? behind : before),
                   (at_end ? "behind the end of " : "before the start of ") + name + "\n");
    };
    dies(last(tensors.query), first(tensors.query), "query");
    dies(last(tensors.key), first(tensors.key), "key");
    dies(last(tensors.value), first(tensors.value), "value");
    dies(last(tensors.out), first(tensors.out), "out");
    dies(last(tensors.lse), first(tensors.lse), "lse");
    for (const auto& [lengths, name] :
         {std::pair{tensors.query_lengths, "query_lengths"}, {tensors.kv_lengths, "kv_lengths"}}) {
      const auto* const at = reinterpret_cast<const char*>(lengths.data());
      dies(at + lengths.size_bytes(), at - 1, name);
    }
  }
}

TEST(GuardedMemory, BytesGuardWhatIsWritten) {
  for (const Guard guard : {Guard::bytes, Guard::page_behind, Guard::page_before}) {
    ProblemData data({{1, 1, 1, 3, 5, 7, 9}, DType::float32, {}}, {.row_padding = 3, .guard = guard});
    data.fill_gaussian(1);
    EXPECT_TRUE(data.intact());
    static_cast<float*>(data.out.view().data)[9] = 1;  // in the gap behind the first row
    EXPECT_FALSE(data.intact());
  }
}

}  // namespace
}  // namespace siattn::test
