// SPDX-License-Identifier: Apache-2.0
// The oracle itself: in double it agrees with 50 digits within the bound of double arithmetic, and with 50 digits
// written down here a second time.
#include <cmath>

#include "reference/attention.hpp"
#include "reference/real.hpp"
#include "tests/support.hpp"

namespace siattn::test {
namespace {

using reference::Real50;

template <class Real>
struct OwnedRow {
  explicit OwnedRow(const AttentionShape& s)
      : scores(static_cast<std::size_t>(s.kv_len)),
        logits(scores),
        weights(scores),
        out(static_cast<std::size_t>(s.value_dim)) {}
  reference::Row<Real> view() { return {scores, logits, weights, out}; }
  std::vector<Real> scores, logits, weights, out;
};

/// u = 2^-53; exp, log1p and sqrt of the C library within one unit in the last place.
constexpr Numerics kDouble{0x1p-53, 0x1p-53, 0, 0x1p-52, 0x1p-1022};

class Reference : public ::testing::TestWithParam<int> {};

TEST_P(Reference, InDoubleAgreesWithFiftyDigits) {
  for (const std::int64_t mask : {0, 1}) {
    for (const std::int64_t offset : {0, 2, 3}) {
      // Every calibration, though not at every offset and mask.
      const std::int64_t calibration = (offset + 2 * mask) % kCalibrationChoices;
      const Recipe recipe{.batch = 2,
                          .kv_heads = 1,
                          .group = 2,
                          .query_len = 5,
                          .kv_len = 23,
                          .head_dim = 7,
                          .value_dim = 3,
                          .mask = mask,
                          .window = offset == 0 ? 15 : 0,
                          .offset = offset,
                          .sinks = 2,
                          .transform = GetParam(),
                          .calibration = calibration,
                          .lengths = 1};
      ProblemData data = data_of(recipe, DType::float64);
      const AttentionProblem& problem = data.problem();
      const reference::Transform<double> transform(problem.options, problem.shape);
      const reference::Transform<Real50> exact_transform(problem.options, problem.shape);
      for (std::int64_t r = 0; r < 2 * 2 * 5; ++r) {
        const std::int64_t b = r / 10, h = r / 5 % 2, i = r % 5;
        OwnedRow<double> computed(problem.shape);
        OwnedRow<Real50> exact(problem.shape);
        auto row = computed.view();
        auto exact_row = exact.view();
        attention_row(problem.shape, problem.options, transform, data.tensors(), b, h, i, row);
        attention_row(problem.shape, problem.options, exact_transform, data.tensors(), b, h, i, exact_row);
        const auto bound = verify::forward_bound(problem, data.tensors(), transform, kDouble, b, h, i, row);
        EXPECT_EQ(row.n_visible, exact_row.n_visible);
        for (std::size_t c = 0; c < 3; ++c) {
          EXPECT_LE(abs(Real50(computed.out[c]) - exact.out[c]), bound.out[c].total())
              << text_of(problem) << ", row " << r;
        }
        if (row.n_visible == 0) {
          EXPECT_EQ(row.lse, -kInfinity);
          EXPECT_TRUE(isinf(exact_row.lse) && exact_row.lse < 0);
        } else {
          EXPECT_LE(abs(Real50(row.lse) - exact_row.lse), bound.lse.total()) << text_of(problem) << ", row " << r;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transform, Reference, ::testing::Range(0, kTransformChoices));

/// Eq. 1, 3, 14 and 16 once more, in the plainest form: no maximum is taken out, for in 50 digits exp has room.
TEST(ReferenceFormula, IsThePapers) {
  ProblemData data({{1, 1, 1, 4, 9, 5, 2}, DType::float64, {.transform = ScaleInvariant{.tau = 3.0}}});
  data.fill_gaussian(1);
  const AttentionProblem& problem = data.problem();
  const reference::Transform<Real50> transform(problem.options, problem.shape);
  for (std::int64_t i = 0; i < 4; ++i) {
    OwnedRow<Real50> owned(problem.shape);
    auto row = owned.view();
    attention_row(problem.shape, problem.options, transform, data.tensors(), 0, 0, i, row);
    Real50 z = 0, out = 0;
    for (std::int64_t j = 0; j <= 5 + i; ++j) {
      Real50 score = 0;
      for (std::int64_t d = 0; d < 5; ++d)
        score += Real50(data.query.get(0, 0, i, d)) * Real50(data.key.get(0, 0, j, d));
      score /= sqrt(Real50(5));
      const Real50 t = 5 + i - j;
      const Real50 weight = exp(sqrt(1 + 2 * log(1 + t / 3)) * score - 2 * log(1 + t / 3));
      z += weight;
      out += weight * Real50(data.value.get(0, 0, j, 1));
    }
    EXPECT_LE(abs(row.lse - log(z)), Real50("1e-45"));
    EXPECT_LE(abs(owned.out[1] - out / z), Real50("1e-45"));
  }
}

/// Which keys a query sees, pair by pair, from a picture: rows are queries, x is seen.
TEST(ReferenceMask, IsThePicture) {
  const auto picture = [](const AttentionOptions& options, std::int64_t query_len, std::int64_t kv_len) {
    const AttentionShape shape{1, 1, 1, 4, 6, 1, 1};
    AttentionTensors tensors;
    const std::int64_t queries[] = {query_len}, keys[] = {kv_len};
    tensors.query_lengths = queries;
    tensors.kv_lengths = keys;
    const reference::Sequence s = reference::sequence(shape, options, tensors, 0);
    std::string rows;
    for (std::int64_t i = 0; i < 4; ++i) {
      for (std::int64_t j = 0; j < 6; ++j) rows += reference::visible(s, options, i, j) ? 'x' : '.';
      rows += ' ';
    }
    return rows;
  };
  EXPECT_EQ(picture({}, 4, 6), "xxx... xxxx.. xxxxx. xxxxxx ");
  EXPECT_EQ(picture({.window = 2}, 4, 6), ".xx... ..xx.. ...xx. ....xx ");
  EXPECT_EQ(picture({.mask = Mask::bidirectional}, 4, 6), "xxxxxx xxxxxx xxxxxx xxxxxx ");
  EXPECT_EQ(picture({.mask = Mask::bidirectional, .window = 2}, 4, 6), ".xxx.. ..xxx. ...xxx ....xx ");
  EXPECT_EQ(picture({.query_offset = 0}, 4, 6), "x..... xx.... xxx... xxxx.. ");
  EXPECT_EQ(picture({.query_offset = -2}, 4, 6), "...... ...... x..... xx.... ");
  EXPECT_EQ(picture({}, 4, 3), "...... x..... xx.... xxx... ");
  EXPECT_EQ(picture({}, 2, 3), "xx.... xxx... ...... ...... ");
  EXPECT_EQ(picture({}, 0, 6), "...... ...... ...... ...... ");
  EXPECT_EQ(picture({}, 4, 0), "...... ...... ...... ...... ");
}

}  // namespace
}  // namespace siattn::test
