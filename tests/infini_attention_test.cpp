// SPDX-License-Identifier: Apache-2.0
// Infini-attention against values computed by hand from its definition.
#include <gtest/gtest.h>

#include <numeric>

#include "reference/infini_attention.hpp"
#include "reference/real.hpp"

namespace siattn::reference {
namespace {

template <class Real>
std::vector<Real> run(const InfiniAttention<Real>& a, const std::vector<Real>& q, const std::vector<Real>& k,
                      const std::vector<Real>& v) {
  return infini_attention<Real>(a, q, k, v);
}

TEST(InfiniAttention, FeatureIsEluPlusOne) {
  EXPECT_EQ(memory_feature(2.0), 3.0);
  EXPECT_EQ(memory_feature(0.0), 1.0);
  EXPECT_EQ(memory_feature(-1.0), std::exp(-1.0));
}

/// q = k = 0: f = 1 and equal weights. Segments {0, 1}, {2, 3}, {4}; g = 0: half memory, half local.
TEST(InfiniAttention, AveragesWhereAllIsEqual) {
  const InfiniAttention<double> a{1, 1, 2, 0, 1};
  const std::vector<double> zero(5, 0.0);
  const std::vector<double> out = run(a, zero, zero, {1, 3, 5, 7, 10});
  EXPECT_EQ(out, (std::vector<double>{0.5,     // memory empty, local 1
                                      1.0,     // local (1 + 3)/2
                                      3.5,     // memory (1 + 3)/2, local 5
                                      4.0,     // memory 2, local (5 + 7)/2
                                      7.0}));  // memory (1 + 3 + 5 + 7)/4, local 10
}

/// head_dim 2: f(k_0) = (1, 1), f(k_1) = (2, 1/2), so M = (9, 3), z = (3, 3/2); f(q_2) = (1, 2) reads
/// (9 + 6)/(3 + 3) = 5/2 for the values 1 and 4. The second channel holds the values 0 and 2: M = (4, 1), (4 + 2)/6 = 1.
TEST(InfiniAttention, ReadsTheMemoryByFeatures) {
  const Real50 half = Real50(1) / 2;
  const InfiniAttention<Real50> a{2, 2, 2, Real50(1000), Real50(1)};  // sigmoid(1000) = 1: memory alone
  const std::vector<Real50> q = {0, 0, 0, 0, 0, 1};
  const std::vector<Real50> k = {0, 0, 1, log(half), 0, 0};
  const std::vector<Real50> v = {1, 0, 4, 2, 100, 100};
  const std::vector<Real50> out = run(a, q, k, v);
  EXPECT_LE(static_cast<double>(abs(2 * out[4] - 5)), 1e-48);
  EXPECT_LE(static_cast<double>(abs(out[5] - 1)), 1e-48);
}

/// Scores scale q k = (ln 3) (0, 1): weights 1/4 and 3/4 of the values 4 and 8 make 7. g = -1000: local alone.
TEST(InfiniAttention, AttendsLocallyWithinTheSegment) {
  const InfiniAttention<double> a{1, 1, 2, -1000, std::log(3.0)};
  const std::vector<double> out = run(a, {1, 1, 1, 1}, {0, 1, 0, 1}, {4, 8, 40, 80});
  EXPECT_NEAR(out[0], 4, 1e-14);
  EXPECT_NEAR(out[1], 7, 1e-14);
  EXPECT_NEAR(out[2], 40, 1e-13) << "the first segment is out of sight";
  EXPECT_NEAR(out[3], 70, 1e-13);
}

/// sigmoid(ln 3) = 3/4 of the memory's 2, 1/4 of the local 6.
TEST(InfiniAttention, MixesByTheGate) {
  const InfiniAttention<double> a{1, 1, 1, std::log(3.0), 1};
  const std::vector<double> out = run(a, {0.3, 0.3}, {-0.7, 0.2}, {2, 6});
  EXPECT_NEAR(out[0], 0.25 * 2, 1e-15);
  EXPECT_NEAR(out[1], 0.75 * 2 + 0.25 * 6, 1e-15);
}

TEST(InfiniAttention, LooksBackOnly) {
  const InfiniAttention<double> a{2, 1, 3, 0.4, 0.7};
  std::vector<double> q(14), k(14), v(7);
  std::iota(q.begin(), q.end(), -5.0);
  std::iota(k.begin(), k.end(), -7.0);
  std::iota(v.begin(), v.end(), 1.0);
  for (double& x : k) x /= 10;
  const std::vector<double> whole = run(a, q, k, v);
  for (std::size_t n = 1; n < 7; ++n) {
    const std::vector<double> start = run<double>(a, {q.begin(), q.begin() + 2 * n}, {k.begin(), k.begin() + 2 * n},
                                                  {v.begin(), v.begin() + n});
    EXPECT_EQ(start, std::vector<double>(whole.begin(), whole.begin() + n)) << n << " tokens";
  }
}

}  // namespace
}  // namespace siattn::reference
