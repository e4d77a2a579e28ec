// SPDX-License-Identifier: Apache-2.0
// The contract, "Shapes": strides are free but for the innermost, any alignment; and "Determinism": neither changes a bit.
#include <sys/mman.h>

#include <cstring>

#include "tests/support.hpp"
#include "verify/random.hpp"

namespace siattn::test {
namespace {

class PlacementOf : public TargetTest {
 protected:
  /// Two heads share keys; rows end inside a vector; several tiles of queries or one.
  AttentionProblem example(std::int64_t queries) const {
    return problem({.batch = 2,
                    .query_heads = 4,
                    .kv_heads = 2,
                    .query_len = queries,
                    .kv_len = 70,
                    .head_dim = 20,
                    .value_dim = 12});
  }

  Bits dense_bits(std::int64_t queries) const {
    ProblemData data(example(queries));
    data.fill_gaussian(1);
    EXPECT_TRUE(right(backend(), data));
    return bits_of(data);
  }
};

TEST_P(PlacementOf, RowsMayLieAnywhereAtAnyAlignment) {
  for (const std::int64_t queries : {1, 5, 70}) {
    const Bits dense = dense_bits(queries);
    for (const Placement& placement : {Placement{.heads_inside = true},
                                       {.row_padding = 1},
                                       {.row_padding = 12},
                                       {.heads_inside = true, .row_padding = 3}}) {
      for (const std::int64_t misalignment : {0, 1, 3, 8, 15}) {
        Placement shifted = placement;
        shifted.misalignment = misalignment;
        ProblemData data(example(queries), shifted);
        data.fill_gaussian(1);
        ASSERT_TRUE(run(backend(), data).ok());
        EXPECT_EQ(bits_of(data), dense) << queries << " queries, misalignment " << misalignment;
        EXPECT_TRUE(data.intact());
      }
    }
  }
}

/// An input may be the same for all sequences, heads or tokens.
TEST_P(PlacementOf, StrideOfZeroBroadcastsAnInput) {
  for (const std::int64_t queries : {1, 5, 70}) {
    for (const int axis : {0, 1, 2}) {
      ProblemData data(example(queries));
      data.fill_gaussian(1);
      data.clear_outputs();
      AttentionTensors tensors = data.tensors();
      for (TensorView* view : {&tensors.query, &tensors.key, &tensors.value}) view->strides[axis] = 0;
      ASSERT_TRUE(run(backend(), data.problem(), tensors).ok());
      const auto comparison = verify::compare_with_reference(data.problem(), tensors, backend().numerics(dtype()));
      EXPECT_TRUE(comparison.good()) << comparison.first_failure;
    }
  }
}

/// Reversed axes: the data pointer is at the end, and strides lead back.
TEST_P(PlacementOf, StridesMayBeNegative) {
  for (const std::int64_t queries : {1, 5, 70}) {
    for (const int axis : {0, 1, 2}) {
      ProblemData data(example(queries));
      data.fill_gaussian(1);
      data.clear_outputs();
      AttentionTensors tensors = data.tensors();
      const auto reverse = [axis](auto& view) {
        const std::int64_t extent = view.shape[axis];
        view = part(view, axis, extent - 1, extent);
        view.shape[axis] = extent;
        view.strides[axis] = -view.strides[axis];
      };
      reverse(tensors.query);
      reverse(tensors.key);
      reverse(tensors.value);
      reverse(tensors.out);
      reverse(tensors.lse);
      ASSERT_TRUE(run(backend(), data.problem(), tensors).ok());
      const auto comparison = verify::compare_with_reference(data.problem(), tensors, backend().numerics(dtype()));
      EXPECT_TRUE(comparison.good()) << comparison.first_failure;
      EXPECT_TRUE(data.intact());
    }
  }
}

/// Query, key and value as slices of one row [query | key | value] of a token, as a fused projection leaves them.
TEST_P(PlacementOf, InputsMayShareMemory) {
  const AttentionShape shape{2, 2, 2, 33, 33, 8, 8};
  verify::GuardedTensor fused(dtype(), {2, 33, 6, 8}, {});
  const verify::Random random(1, 1);
  std::uint64_t index = 0;
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t i = 0; i < 33; ++i) {
      for (std::int64_t h = 0; h < 6; ++h) {
        for (std::int64_t d = 0; d < 8; ++d) fused.set(b, i, h, d, random.gaussian(index++));
      }
    }
  }
  ProblemData data(problem(shape));
  data.clear_outputs();
  AttentionTensors tensors = data.tensors();
  const auto slice = [&](std::int64_t first) {
    const auto* at =
        static_cast<const std::byte*>(fused.view().data) + first * 8 * static_cast<std::int64_t>(size_of(dtype()));
    return TensorView(at, dtype(), {2, 2, 33, 8}, {33 * 48, 8, 48, 1});
  };
  tensors.query = slice(0);
  tensors.key = slice(2);
  tensors.value = slice(4);
  ASSERT_TRUE(run(backend(), data.problem(), tensors).ok());
  EXPECT_TRUE(verify::compare_with_reference(data.problem(), tensors, backend().numerics(dtype())).good());
  tensors.key = tensors.value = tensors.query;
  ASSERT_TRUE(run(backend(), data.problem(), tensors).ok());
  EXPECT_TRUE(verify::compare_with_reference(data.problem(), tensors, backend().numerics(dtype())).good());
}

/// Memory that is reserved but for the pages that are touched; empty where the system grants none.
class Reserved {
 public:
  explicit Reserved(std::size_t bytes) : bytes_(bytes) {
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at != MAP_FAILED) data_ = static_cast<std::byte*>(at);
  }
  ~Reserved() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  Reserved(const Reserved&) = delete;
  Reserved& operator=(const Reserved&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_;
};

/// The last element of each tensor lies more than 2^31 elements behind its first, along one axis at a time.
TEST_P(PlacementOf, OffsetsMayExceed32Bits) {
  const std::size_t bytes = ((std::size_t{1} << 31) + (1 << 20)) * size_of(dtype());
  const Reserved inputs(bytes), outputs(bytes);
  if (inputs.data() == nullptr || outputs.data() == nullptr)
    GTEST_SKIP() << "no " << bytes << " bytes of address space";
  for (const std::int64_t heads : {2, 10}) {  // one query head for each kv head, or five: two ways through the backend
    for (const int axis : {0, 1, 2}) {
      ProblemData data(problem({2, heads, 2, 2, 3, 8, 8}));
      data.fill_gaussian(1);
      data.clear_outputs();
      AttentionTensors tensors = data.tensors();
      const auto spread = [&](auto& view, std::byte* at) {
        const auto dense = view;
        view.data = at;
        view.strides[axis] = (std::int64_t{1} << 31) / (view.shape[axis] - 1) + 64;
        for (std::int64_t r = 0; r < view.shape[0] * view.shape[1] * view.shape[2]; ++r) {
          const std::int64_t b = r / view.shape[2] / view.shape[1], h = r / view.shape[2] % view.shape[1];
          const auto size = static_cast<std::int64_t>(size_of(view.dtype));
          std::memcpy(at + row_offset(view, b, h, r % view.shape[2]) * size,
                      static_cast<const std::byte*>(dense.data) + row_offset(dense, b, h, r % view.shape[2]) * size,
                      static_cast<std::size_t>(view.shape[3] * size));
        }
      };
      spread(tensors.query, inputs.data());
      spread(tensors.key, inputs.data() + (1 << 15));
      spread(tensors.value, inputs.data() + (1 << 16));
      spread(tensors.out, outputs.data());
      ASSERT_TRUE(run(backend(), data.problem(), tensors).ok());
      const auto comparison = verify::compare_with_reference(data.problem(), tensors, backend().numerics(dtype()));
      EXPECT_TRUE(comparison.good()) << comparison.first_failure;
    }
  }
}

/// Strides of axes with one element, and of tensors with none, mean nothing.
TEST_P(PlacementOf, StridesThatAreNeverUsedMayBeAnything) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  for (const AttentionShape& shape : {AttentionShape{1, 1, 1, 1, 1, 8, 1}, AttentionShape{3, 2, 1, 2, 0, 8, 1},
                                      AttentionShape{0, 2, 1, 2, 3, 8, 1}}) {
    ProblemData data(problem(shape));
    data.fill_gaussian(1);
    data.clear_outputs();
    AttentionTensors tensors = data.tensors();
    if (shape.batch < 2) {
      tensors.query.strides = {-7, most, 1 << 30, 1};
      tensors.out.strides = tensors.lse.strides = {least, 0, -1, 99};
    }
    tensors.key.strides = tensors.value.strides = {most / 3, least, most, 1};
    ASSERT_TRUE(run(backend(), data.problem(), tensors).ok());
    EXPECT_TRUE(agrees(backend(), data));
  }
}

/// run() takes what workspace_bytes() says, at any address, and nothing beyond it; what it holds does not matter.
TEST_P(PlacementOf, WorkspaceOfAnyAlignmentAndContent) {
  for (const std::int64_t queries : {1, 5, 70}) {
    const Bits dense = dense_bits(queries);
    ProblemData data(example(queries));
    data.fill_gaussian(1);
    const auto plan = AttentionPlan::create(data.problem(), {std::string(backend().name()), 2});
    ASSERT_TRUE(plan.ok());
    const std::size_t bytes = plan->workspace_bytes();
    for (const std::size_t offset : {0, 1, 63}) {
      std::vector<std::byte> memory(bytes + 256, std::byte(0x5A + offset));
      ASSERT_TRUE(plan->run(data.tensors(), std::span(memory).subspan(offset, bytes)).ok());
      EXPECT_EQ(bits_of(data), dense);
      for (std::size_t k = 0; k < memory.size(); ++k) {
        if (k == offset) k += bytes;
        ASSERT_EQ(memory[k], std::byte(0x5A + offset)) << "byte " << k;
      }
    }
  }
}

SIATTN_FOR_EVERY_TARGET(PlacementOf);

}  // namespace
}  // namespace siattn::test
