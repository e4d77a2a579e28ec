// SPDX-License-Identifier: Apache-2.0
// The backend onednn beside what every backend's tests see of it: when it is there, when it is chosen, that its products
// are really formed by blocks, and that neither threads nor what a row does not see changes a bit.
#include "tests/support.hpp"

#if defined(SIATTN_HAS_ONEDNN)

#include <omp.h>

#include "cpu/cpu_features.hpp"
#include "cpu/isa.hpp"
#include "cpu/onednn/products.hpp"

namespace siattn::test {
namespace {

const Backend* onednn() {
  for (const Backend* backend : backends()) {
    if (backend->name() == "onednn") return backend;
  }
  return nullptr;
}

AttentionProblem prompt(DType dtype, std::int64_t queries, std::int64_t heads = 8, std::int64_t kv_heads = 8) {
  return {{1, heads, kv_heads, queries, 512, 64, 64}, dtype, {}};
}

class OneDnn : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(onednn(), nullptr);
    if (const Status status = onednn()->available(); !status) GTEST_SKIP() << status.message();
  }
};

TEST_F(OneDnn, FormsProductsByBlocks) {
  const cpu::CpuFeatures features = cpu::detect_cpu();
  const cpu::Kernels& kernels = *cpu::isas().front().kernels;
  for (const std::int64_t dim : {1, 31, 32, 64, 80, 128, 512}) {
    std::string implementation;
    EXPECT_NE(cpu::onednn_products(kernels, DType::float32, dim, dim, &implementation), nullptr) << implementation;
    EXPECT_EQ(implementation.substr(0, 3), "brg");
    if (!features.avx512_bf16) continue;
    EXPECT_NE(cpu::onednn_products(kernels, DType::bfloat16, dim, dim, &implementation), nullptr) << implementation;
    EXPECT_EQ(implementation.find("amx") != std::string::npos, features.amx_bf16) << implementation;
  }
}

TEST_F(OneDnn, IsChosenWhereItWins) {
  const auto chosen = [](const AttentionProblem& problem) { return (*choose_backend("", problem))->name(); };
  const std::string_view best = cpu::detect_cpu().amx_bf16 ? "onednn" : "cpu-avx512";
  EXPECT_EQ(chosen(prompt(DType::bfloat16, 512)), best);
  EXPECT_EQ(chosen(prompt(DType::bfloat16, 32)), best);
  EXPECT_EQ(chosen(prompt(DType::bfloat16, 8, 8, 2)), best);  // 32 rows share a kv head
  EXPECT_EQ(chosen(prompt(DType::bfloat16, 31)), "cpu-avx512");
  EXPECT_EQ(chosen(prompt(DType::bfloat16, 1)), "cpu-avx512");
  EXPECT_EQ(chosen(prompt(DType::float32, 512)), "cpu-avx512");
  EXPECT_EQ(chosen(prompt(DType::float16, 512)), "cpu-avx512");
  EXPECT_EQ((*choose_backend("onednn", prompt(DType::float32, 512)))->name(), "onednn");
}

TEST_F(OneDnn, RefusesInWords) {
  EXPECT_NE(onednn()->supports(prompt(DType::float16, 8)).message().find("dtype = f16"), std::string::npos);
  EXPECT_NE(onednn()->supports(prompt(DType::float64, 8)).message().find("dtype = f64"), std::string::npos);
  AttentionProblem wide = prompt(DType::float32, 8);
  wide.shape.head_dim = 513;
  EXPECT_NE(onednn()->supports(wide).message().find("head_dim = 513"), std::string::npos);
}

/// oneDNN cuts a primitive for as many threads as OpenMP has at that moment, and would open regions of its own.
TEST_F(OneDnn, ThreadsOfTheProcessChangeNoBit) {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    if (!onednn()->supports(prompt(dtype, 100))) continue;
    ProblemData data(prompt(dtype, 100));
    data.fill_gaussian(1);
    std::vector<Bits> bits;
    const int before = omp_get_max_threads();
    for (const int of_the_process : {1, 2, 5}) {
      for (const int of_the_plan : {1, 3}) {
        omp_set_num_threads(of_the_process);
        data.clear_outputs();
        EXPECT_TRUE(attention(data.tensors(), data.problem().options, {"onednn", of_the_plan}));
        bits.push_back(bits_of(data));
      }
    }
    omp_set_num_threads(before);
    for (const Bits& other : bits) EXPECT_EQ(other, bits.front()) << name_of(dtype);
  }
}

/// Rows whose values are not finite take another way: the others must not notice.
TEST_F(OneDnn, RowsThatDoNotSeeANotFiniteValueKeepTheirBits) {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    if (!onednn()->supports(prompt(dtype, 100))) continue;
    AttentionProblem problem = prompt(dtype, 300, 1, 1);
    problem.shape.kv_len = 300;
    ProblemData data(problem);
    data.fill_gaussian(1);
    ASSERT_TRUE(attention(data.tensors(), problem.options, {"onednn", 1}));
    std::vector<double> clean;
    for (std::int64_t i = 0; i < 300; ++i) clean.push_back(data.out.get(0, 0, i, 7));
    constexpr std::int64_t kBad = 170;
    data.value.set(0, 0, kBad, 7, -kInfinity);
    data.clear_outputs();
    ASSERT_TRUE(attention(data.tensors(), problem.options, {"onednn", 1}));
    for (std::int64_t i = 0; i < 300; ++i) {
      EXPECT_EQ(data.out.get(0, 0, i, 7), i < kBad ? clean[static_cast<std::size_t>(i)] : -kInfinity) << i;
      EXPECT_TRUE(std::isfinite(data.out.get(0, 0, i, 6))) << i;
    }
  }
}

/// Subnormal operands may count as 0 in bfloat16 units: the bound has a term for them, and it is enough.
TEST_F(OneDnn, SubnormalOperandsStayWithinTheBound) {
  if (!onednn()->supports(prompt(DType::bfloat16, 100))) GTEST_SKIP() << "no bfloat16 units";
  AttentionProblem problem = prompt(DType::bfloat16, 64, 1, 1);
  ProblemData data(problem);
  data.fill_gaussian(1);
  for (std::int64_t i = 0; i < 64; ++i) data.query.set(0, 0, i, 3, 0x1p-127);
  for (std::int64_t j = 0; j < 512; ++j) {
    data.key.set(0, 0, j, 3, 0x1p126);
    data.key.set(0, 0, j, 5, 0x1p-130);
    data.value.set(0, 0, j, 1, 0x1p-128);
  }
  EXPECT_TRUE(right(*onednn(), data));
}

}  // namespace
}  // namespace siattn::test

#endif
