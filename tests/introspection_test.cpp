// SPDX-License-Identifier: Apache-2.0
// introspect(): against the reference at 50 digits, against what backends compute, and its own promises.
#include <siattn/introspection.hpp>

#include <cmath>
#include <cstring>

#include "reference/attention.hpp"
#include "reference/real.hpp"
#include "tests/support.hpp"

namespace siattn::test {
namespace {

using reference::Real50;

const double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Every row of a problem, sequences outermost.
std::vector<QueryIndex> all_rows(const AttentionShape& s) {
  std::vector<QueryIndex> rows;
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.query_heads; ++h) {
      for (std::int64_t i = 0; i < s.query_len; ++i) rows.push_back({b, h, i});
    }
  }
  return rows;
}

/// What introspect() says of some rows, all of it in float64; NaN before.
struct Shown {
  std::vector<RowSummary> summaries;
  std::int64_t width;
  std::vector<double> logits, weights;

  Shown(std::size_t rows, std::int64_t width_)
      : summaries(rows), width(width_), logits(rows * static_cast<std::size_t>(width), kNaN), weights(logits) {}
  IntrospectionOutputs outputs() {
    const Shape4 shape{1, 1, static_cast<std::int64_t>(summaries.size()), width};
    return {summaries, {logits.data(), shape}, {weights.data(), shape}};
  }
  double logit(std::size_t row, std::int64_t j) const { return logits[row * static_cast<std::size_t>(width) + j]; }
  double weight(std::size_t row, std::int64_t j) const { return weights[row * static_cast<std::size_t>(width) + j]; }
};

Shown show(const AttentionTensors& tensors, const AttentionOptions& options, const std::vector<QueryIndex>& rows,
           std::int64_t width, int threads = 1) {
  Shown shown(rows.size(), width);
  const Status status = introspect(tensors, options, rows, shown.outputs(), threads);
  EXPECT_TRUE(status.ok()) << status.message();
  return shown;
}

/// The tensors that are looked at, and no other.
AttentionTensors inputs_of(ProblemData& data) {
  AttentionTensors tensors = data.tensors();
  tensors.value = {};
  tensors.out = {};
  tensors.lse = {};
  return tensors;
}

/// Mass and entropy by decade from exact weights, the plain way: the decade of a distance is its number of digits.
struct ExactShares {
  std::array<std::int64_t, kDistanceDecades> keys{};
  std::array<Real50, kDistanceDecades> mass{}, entropy{};
  Real50 sinks = 0, all = 0;

  ExactShares(const AttentionOptions& options, const reference::Sequence& s, std::int64_t i,
              const std::vector<Real50>& weights) {
    const auto term = [](const Real50& w) { return w > 0 ? Real50(-w * log(w)) : Real50(0); };
    for (std::int64_t j = 0; j < static_cast<std::int64_t>(weights.size()); ++j) {
      if (!reference::visible(s, options, i, j)) continue;
      const Real50& w = weights[static_cast<std::size_t>(j)];
      all += term(w);
      if (j < options.n_sink) {
        sinks += w;
        continue;
      }
      const std::int64_t t = std::abs(s.query_offset + i - j);
      const std::size_t k = t == 0 ? 0 : std::to_string(t).size();
      ++keys[k];
      mass[k] += w;
      entropy[k] += term(w);
    }
    for (std::size_t k = 0; k < kDistanceDecades; ++k) {
      // Of the weights divided by their sum: - sum (w/m) log(w/m) = (- sum w log w) / m + log m.
      if (mass[k] > 0) entropy[k] = entropy[k] / mass[k] + log(mass[k]);
    }
  }
};

void expect_near(double value, const Real50& exact, double allowed, const std::string& what) {
  EXPECT_LE(abs(Real50(value) - exact), allowed) << what << " = " << value << ", exact " << exact.str(20);
}

/// Double against 50 digits. Logits: u = 2^-53 times a few for each operation on the terms that make them, `scale`
/// bounds all of these in the recipes below; weights and masses move by as much, relatively; entropies by that times
/// the spread of the logits.
void expect_exact(const Recipe& recipe, DType dtype) {
  ProblemData data = data_of(recipe, dtype);
  const AttentionProblem& problem = data.problem();
  const AttentionShape& shape = problem.shape;
  const AttentionTensors tensors = data.tensors();
  const auto rows = all_rows(shape);
  const Shown shown = show(inputs_of(data), problem.options, rows, shape.kv_len, 2);
  const reference::Transform<Real50> transform(problem.options, shape);
  const auto n = static_cast<std::size_t>(shape.kv_len);
  std::vector<Real50> scores(n), logits(n), weights(n), out(static_cast<std::size_t>(shape.value_dim));
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto [b, h, i] = rows[r];
    const std::string where = fmt::format("{}, row {} of head {} of sequence {}", text_of(problem), i, h, b);
    reference::Row<Real50> row{scores, logits, weights, out};
    reference::attention_row(shape, problem.options, transform, tensors, b, h, i, row);
    const RowSummary& summary = shown.summaries[r];
    EXPECT_EQ(summary.keys, row.n_visible) << where;
    const auto s = reference::sequence(shape, problem.options, tensors, b);
    const ExactShares shares(problem.options, s, i, weights);
    for (std::size_t k = 0; k < kDistanceDecades; ++k) EXPECT_EQ(summary.decades[k].keys, shares.keys[k]) << where;
    double scale = 1;
    for (std::int64_t j = 0; j < shape.kv_len; ++j) {
      if (!reference::visible(s, problem.options, i, j)) {
        EXPECT_EQ(shown.logit(r, j), -kInfinity) << where << ", key " << j;
        EXPECT_EQ(shown.weight(r, j), 0) << where << ", key " << j;
        continue;
      }
      scale = std::max(scale, static_cast<double>(abs(logits[j]) + 20 * abs(scores[j])));
    }
    if (row.n_visible == 0) {
      EXPECT_EQ(summary.lse, -kInfinity) << where;
      EXPECT_EQ(summary.max_logit, -kInfinity) << where;
      EXPECT_EQ(summary.entropy, 0) << where;
      continue;
    }
    const double close = 1e-14 * scale;
    for (std::int64_t j = 0; j < shape.kv_len; ++j) {
      if (!reference::visible(s, problem.options, i, j)) continue;
      expect_near(shown.logit(r, j), logits[j], close, where + ", logit of key " + std::to_string(j));
      expect_near(shown.weight(r, j), weights[j], close, where + ", weight of key " + std::to_string(j));
    }
    expect_near(summary.lse, row.lse, close, where + ", lse");
    expect_near(summary.max_logit, row.max, close, where + ", max_logit");
    expect_near(summary.entropy, shares.all, close * scale, where + ", entropy");
    expect_near(summary.sink_mass, shares.sinks, close, where + ", sink_mass");
    for (std::size_t k = 0; k < kDistanceDecades; ++k) {
      expect_near(summary.decades[k].mass, shares.mass[k], close, where + ", mass of decade " + std::to_string(k));
      expect_near(summary.decades[k].entropy, shares.entropy[k], close * scale,
                  where + ", entropy of decade " + std::to_string(k));
    }
  }
}

class Introspection : public ::testing::TestWithParam<int> {};

/// Every transform with masks, windows, offsets, sinks, calibrations, lengths, groups, layouts and types.
TEST_P(Introspection, IsTheReference) {
  for (std::int64_t k = 0; k < 16; ++k) {
    const Recipe recipe{.batch = 3,
                        .kv_heads = 1 + k / 8,
                        .group = 2,
                        .query_len = 3,
                        .kv_len = 23 + 100 * (k % 2),
                        .head_dim = 5 + 4 * (k % 3),
                        .value_dim = 3,
                        .mask = k / 2 % 2,
                        .window = k % 3 == 1 ? 12 : 0,
                        .offset = k / 4 % 4,
                        .sinks = k % 5 == 0 ? 0 : 2,
                        .transform = GetParam(),
                        .calibration = (k + k / 4) % kCalibrationChoices,
                        .lengths = k % 2,
                        .placement = k % 3,
                        .seed = static_cast<std::uint64_t>(k + 1)};
    expect_exact(recipe, kTypes[k % 4]);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Transform, Introspection, ::testing::Range(0, kTransformChoices));

/// The weights of the H-inputs are ratios of small integers: 1/(t+1)^2 over their sum.
TEST(IntrospectionProbe, HasTheWeightsThatAreKnown) {
  ProblemData data(
      {{1, 1, 1, 5, 5, 4, 1}, DType::float32, {.transform = ScaleInvariant{.tau = 1.0}, .softmax_scale = 1.0}});
  data.fill_h_inputs();
  const Shown shown = show(inputs_of(data), data.problem().options, {{0, 0, 2}, {0, 0, 4}}, 5);
  const double three = 1 + 1 / 4.0 + 1 / 9.0, five = three + 1 / 16.0 + 1 / 25.0;
  for (std::int64_t j = 0; j < 5; ++j) {
    EXPECT_NEAR(shown.weight(0, j), j > 2 ? 0 : 1 / std::pow(3 - j, 2) / three, 1e-15) << j;
    EXPECT_NEAR(shown.weight(1, j), 1 / std::pow(5 - j, 2) / five, 1e-15) << j;
  }
  EXPECT_NEAR(shown.summaries[1].lse, .38090674576508441, 1e-15);
  EXPECT_NEAR(shown.summaries[1].decades[0].mass, 1 / five, 1e-15);
  EXPECT_NEAR(shown.summaries[1].decades[1].mass, 1 - 1 / five, 1e-15);
  EXPECT_EQ(shown.summaries[1].decades[2].keys, 0);
}

class IntrospectionOfBackend : public TargetTest {};
SIATTN_FOR_EVERY_TARGET(IntrospectionOfBackend);

/// lse and out of every backend are those of these rows, within the backend's bound.
TEST_P(IntrospectionOfBackend, AgreesWithWhatItComputes) {
  for (const int transform : {0, 5, 8}) {
    const Recipe recipe{.batch = 2,
                        .kv_heads = 2,
                        .group = 2,
                        .query_len = 7,
                        .kv_len = 150,
                        .head_dim = 16,
                        .value_dim = 8,
                        .window = 120,
                        .sinks = 1,
                        .transform = transform,
                        .calibration = 3};
    ProblemData data = data_of(recipe, dtype());
    ASSERT_TRUE(right(backend(), data));
    const auto rows = all_rows(data.problem().shape);
    const Shown shown = show(inputs_of(data), data.problem().options, rows, 150);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const auto [b, h, i] = rows[r];
      const verify::RowBound bound = bound_of(backend(), data, b, h, i);
      EXPECT_NEAR(data.lse.get(b, h, i, 0), shown.summaries[r].lse, bound.lse.total() + 1e-13);
      for (std::int64_t c = 0; c < 8; ++c) {
        double out = 0;
        for (std::int64_t j = 0; j < 150; ++j) out += shown.weight(r, j) * data.value.get(b, h / 2, j, c);
        EXPECT_NEAR(data.out.get(b, h, i, c), out, bound.out[static_cast<std::size_t>(c)].total() + 1e-13);
      }
    }
  }
}

/// Bit by bit, for any threads, any other rows and any order of them.
TEST(IntrospectionPromise, RowsDoNotDependOnEachOther) {
  const Recipe recipe{.batch = 2,
                      .kv_heads = 2,
                      .group = 2,
                      .query_len = 40,
                      .kv_len = 130,
                      .head_dim = 9,
                      .window = 70,
                      .sinks = 3,
                      .transform = 2,
                      .calibration = 2,
                      .lengths = 1};
  ProblemData data = data_of(recipe, DType::bfloat16);
  const auto& options = data.problem().options;
  const auto rows = all_rows(data.problem().shape);
  const Shown all = show(inputs_of(data), options, rows, 130, 1);
  std::vector<QueryIndex> mixed(rows.rbegin(), rows.rend());
  std::stable_sort(mixed.begin(), mixed.end(),
                   [](const QueryIndex& a, const QueryIndex& b) { return a.query % 7 < b.query % 7; });
  mixed.push_back(mixed.front());
  for (const int threads : {1, 3}) {
    const Shown shown = show(inputs_of(data), options, mixed, 130, threads);
    for (std::size_t r = 0; r < mixed.size(); ++r) {
      const auto [b, h, i] = mixed[r];
      const auto at = static_cast<std::size_t>((b * 4 + h) * 40 + i);
      EXPECT_EQ(std::memcmp(&shown.summaries[r], &all.summaries[at], sizeof(RowSummary)), 0) << r;
      EXPECT_EQ(std::memcmp(&shown.logits[r * 130], &all.logits[at * 130], 130 * sizeof(double)), 0) << r;
      EXPECT_EQ(std::memcmp(&shown.weights[r * 130], &all.weights[at * 130], 130 * sizeof(double)), 0) << r;
    }
  }
}

/// Dense, ragged and paged, the same bits; int8 keys are what they say, times their scale.
TEST(IntrospectionPromise, BatchesOfEveryKindAgree) {
  const std::vector<std::int64_t> queries{3, 0, 1, 5}, keys{40, 7, 90, 64};
  for (const DType kv_dtype : {DType::float32, DType::int8}) {
    AttentionProblem problem{{4, 4, 2, 5, 90, 8, 4}, DType::float32, {.calibration = {.mean = -1.0}, .n_sink = 2}};
    problem.kv_dtype = kv_dtype;
    const auto data_in = [&](const verify::Batching& batching) {
      ProblemData data(problem, {.misalignment = 1}, batching, queries, keys);
      data.fill_gaussian(3);
      return data;
    };
    std::vector<QueryIndex> rows;
    for (std::int64_t b = 0; b < 4; ++b) {
      for (std::int64_t i = 0; i < queries[static_cast<std::size_t>(b)]; ++i) rows.push_back({b, (b + i) % 4, i});
    }
    ProblemData dense = data_in({});
    const Shown shown = show(inputs_of(dense), problem.options, rows, 90);
    for (const verify::Batching& batching :
         {verify::Batching{.ragged_queries = true, .ragged_keys = true, .spare_tokens = 2},
          verify::Batching{.ragged_queries = true, .page_size = 16}, verify::Batching{.page_size = 1},
          verify::Batching{.query_offsets = {37, 7, 89, 59}}}) {
      ProblemData data = data_in(batching);
      const Shown other = show(inputs_of(data), problem.options, rows, 90);
      const std::string what = fmt::format("{}, page size {}", name_of(kv_dtype), batching.page_size);
      EXPECT_EQ(std::memcmp(other.summaries.data(), shown.summaries.data(), rows.size() * sizeof(RowSummary)), 0)
          << what;
      EXPECT_EQ(std::memcmp(other.logits.data(), shown.logits.data(), shown.logits.size() * sizeof(double)), 0) << what;
      EXPECT_EQ(std::memcmp(other.weights.data(), shown.weights.data(), shown.weights.size() * sizeof(double)), 0)
          << what;
    }
    const AttentionTensors tensors = dense.tensors();
    const reference::Transform<double> transform(problem.options, problem.shape);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      std::vector<double> scores(90), logits(90), weights(90), out(4);
      reference::Row<double> row{scores, logits, weights, out};
      reference::attention_row(problem.shape, problem.options, transform, tensors, rows[r].sequence, rows[r].head,
                               rows[r].query, row);
      EXPECT_NEAR(shown.summaries[r].lse, row.lse, 1e-12) << r;
      for (std::int64_t j = 0; j < 90; ++j)
        EXPECT_NEAR(shown.weight(r, j), weights[static_cast<std::size_t>(j)], 1e-12);
    }
  }
}

/// What is not wanted changes nothing of the rest; float32 is float64 rounded; a row may be wider than the keys, and
/// rows may lie apart.
TEST(IntrospectionPromise, OutputsAreFreeInTypeWidthAndStride) {
  ProblemData data = data_of({.query_len = 3, .kv_len = 11, .sinks = 1}, DType::float16);
  const auto& options = data.problem().options;
  const std::vector<QueryIndex> rows{{0, 0, 0}, {0, 0, 2}};
  const Shown all = show(inputs_of(data), options, rows, 11);
  verify::GuardedTensor narrow(DType::float32, {1, 1, 2, 13}, {.row_padding = 3, .misalignment = 1});
  narrow.clear();
  ASSERT_TRUE(introspect(inputs_of(data), options, rows, {.weights = narrow.view()}));
  EXPECT_TRUE(narrow.intact());
  verify::GuardedTensor logits(DType::float32, {1, 1, 2, 11}, {});
  logits.clear();
  ASSERT_TRUE(introspect(inputs_of(data), options, rows, {.logits = logits.view()}));
  std::vector<RowSummary> summaries(2);
  ASSERT_TRUE(introspect(inputs_of(data), options, rows, {.summaries = summaries}));
  EXPECT_EQ(std::memcmp(summaries.data(), all.summaries.data(), 2 * sizeof(RowSummary)), 0);
  for (std::size_t r = 0; r < 2; ++r) {
    const auto row = static_cast<std::int64_t>(r);
    for (std::int64_t j = 0; j < 11; ++j) {
      EXPECT_EQ(narrow.get(0, 0, row, j), static_cast<float>(all.weight(r, j)));
      EXPECT_EQ(logits.get(0, 0, row, j), static_cast<float>(all.logit(r, j)));
    }
    EXPECT_EQ(narrow.get(0, 0, row, 11), 0);
    EXPECT_EQ(narrow.get(0, 0, row, 12), 0);
  }
}

/// NaN and infinities in queries and keys reach the rows that see them and no others.
TEST(IntrospectionPromise, NotFiniteIsWhereItIsSeen) {
  ProblemData data({{1, 1, 1, 8, 8, 1, 1}, DType::float32, {.transform = NoTransform{}, .window = 4}});
  const auto one = [](auto...) { return 1.0; };
  data.fill(
      one, [](auto, auto, std::int64_t j, auto) { return j == 2   ? kNaN
                                                         : j == 7 ? -kInfinity
                                                                  : 1.0; }, one);
  const Shown shown = show(inputs_of(data), data.problem().options, all_rows(data.problem().shape), 8);
  for (std::size_t i = 0; i < 8; ++i) {
    const RowSummary& s = shown.summaries[i];
    const bool sees = i >= 2 && i <= 5;
    EXPECT_EQ(std::isnan(s.lse), sees) << i;
    EXPECT_EQ(std::isnan(s.max_logit), sees) << i;
    EXPECT_EQ(std::isnan(s.entropy), sees) << i;
    EXPECT_EQ(std::isnan(s.sink_mass), sees) << i;
    for (const DecadeShare& share : s.decades) {
      EXPECT_EQ(std::isnan(share.mass), sees) << i;
      EXPECT_EQ(std::isnan(share.entropy), sees) << i;
    }
    for (std::int64_t j = 0; j < 8; ++j) {
      const bool visible = j <= static_cast<std::int64_t>(i) && j + 4 > static_cast<std::int64_t>(i);
      EXPECT_EQ(std::isnan(shown.weight(i, j)), sees && visible) << i << ' ' << j;
      EXPECT_EQ(std::isnan(shown.logit(i, j)), visible && j == 2) << i << ' ' << j;
      if (!visible) {
        EXPECT_EQ(shown.weight(i, j), 0) << i << ' ' << j;
      }
    }
  }
  // Key 7 has logit -infinity: weight 0, and the other three share the row.
  EXPECT_EQ(shown.logit(7, 7), -kInfinity);
  EXPECT_EQ(shown.weight(7, 7), 0);
  EXPECT_DOUBLE_EQ(shown.weight(7, 6), 1 / 3.0);
  EXPECT_EQ(shown.summaries[7].decades[0].keys, 1);
  EXPECT_EQ(shown.summaries[7].decades[0].mass, 0);
  EXPECT_DOUBLE_EQ(shown.summaries[7].decades[1].entropy, std::log(3.0));
}

/// None above -infinity is as none; +infinity is as NaN.
TEST(IntrospectionPromise, RowsOfInfiniteLogits) {
  ProblemData data({{1, 1, 1, 3, 3, 1, 1}, DType::float64, {.transform = NoTransform{}}});
  const auto one = [](auto...) { return 1.0; };
  data.fill(
      one, [](auto, auto, std::int64_t j, auto) { return j == 2 ? kInfinity : -kInfinity; }, one);
  const Shown shown = show(inputs_of(data), data.problem().options, all_rows(data.problem().shape), 3);
  EXPECT_EQ(shown.summaries[1].keys, 2);
  EXPECT_EQ(shown.summaries[1].lse, -kInfinity);
  EXPECT_EQ(shown.summaries[1].entropy, 0);
  EXPECT_EQ(shown.summaries[1].decades[1].keys, 1);
  EXPECT_EQ(shown.weight(1, 0), 0);
  EXPECT_TRUE(std::isnan(shown.summaries[2].lse));
  EXPECT_TRUE(std::isnan(shown.weight(2, 0)));
  EXPECT_EQ(shown.summaries[2].max_logit, kInfinity);
}

/// Distances up to 2^32: the first and the last position that there are, in the decades where they belong.
TEST(IntrospectionPromise, FarPositions) {
  ProblemData data({{1, 1, 1, 1, 3, 2, 1}, DType::float32, {.query_offset = kLastPosition}});
  data.fill_gaussian(1);
  const Shown shown = show(inputs_of(data), data.problem().options, {{0, 0, 0}}, 3);
  EXPECT_EQ(shown.summaries[0].decades[10].keys, 3);
  EXPECT_DOUBLE_EQ(shown.summaries[0].decades[10].mass, 1);
  AttentionOptions before = data.problem().options;
  before.query_offset = -kLastPosition;
  before.mask = Mask::bidirectional;
  EXPECT_EQ(show(inputs_of(data), before, {{0, 0, 0}}, 3).summaries[0].decades[10].keys, 3);
  before.window = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(show(inputs_of(data), before, {{0, 0, 0}}, 3).summaries[0].keys, 3);
}

// ---- Errors ---------------------------------------------------------------------------------------------------------

/// The message names what is wrong and nothing has been written.
void expect_error(
    ProblemData& data,
    const std::function<void(AttentionTensors&, AttentionOptions&, QueryIndex&, IntrospectionOutputs&)>& spoil,
    const std::string& words, int threads = 1) {
  AttentionTensors tensors = inputs_of(data);
  AttentionOptions options = data.problem().options;
  std::vector<QueryIndex> rows{{0, 0, 0}, {0, 0, 1}};
  Shown shown(2, data.problem().shape.kv_len);
  IntrospectionOutputs outputs = shown.outputs();
  spoil(tensors, options, rows[1], outputs);
  const Status status = introspect(tensors, options, rows, outputs, threads);
  EXPECT_EQ(status.code(), StatusCode::invalid_argument) << words;
  EXPECT_NE(status.message().find(words), std::string::npos) << status.message() << "\nexpected: " << words;
  EXPECT_EQ(shown.summaries[0].lse, 0) << words;
  EXPECT_TRUE(std::isnan(shown.logits[0]) && std::isnan(shown.weights[0])) << words;
}

TEST(IntrospectionError, NamesTheArgumentAndItsValue) {
  ProblemData data = data_of({.batch = 2, .kv_heads = 1, .group = 2, .query_len = 3, .kv_len = 5}, DType::float32);
  using T = AttentionTensors&;
  using O = AttentionOptions&;
  using R = QueryIndex&;
  using Out = IntrospectionOutputs&;
  std::vector<double> room(64);
  expect_error(
      data, [](T, O, R r, Out) { r.sequence = 2; }, "rows[1].sequence = 2: expected 0 .. 1");
  expect_error(
      data, [](T, O, R r, Out) { r.head = -1; }, "rows[1].head = -1: expected 0 .. 1");
  expect_error(
      data, [](T, O, R r, Out) { r.query = 3; }, "rows[1].query = 3: expected 0 .. 2");
  expect_error(
      data, [](T, O o, R, Out) { o.window = 0; }, "window = 0");
  expect_error(
      data, [](T, O o, R, Out) { o.transform = ScaleInvariant{.tau = -1.0}; }, "tau = -1");
  expect_error(
      data, [](T t, O, R, Out) { t.query.data = nullptr; }, "query is null");
  expect_error(
      data, [](T t, O, R, Out) { t.key.shape[0] = 1; }, "key has shape [1, 1, 5, 8]");
  expect_error(
      data, [](T t, O, R, Out) { t.key.strides[3] = 2; }, "key has innermost stride 2");
  const std::int64_t lengths[] = {6, 1};
  expect_error(
      data, [&](T t, O, R, Out) { t.kv_lengths = lengths; }, "kv_lengths[0] = 6: expected 0 .. 5");
  expect_error(
      data, [](T, O, R, Out o) { o = {}; }, "outputs: none is given");
  expect_error(
      data, [](T, O, R, Out o) { o.summaries = o.summaries.first(1); }, "summaries has 1 elements: expected 2");
  expect_error(
      data, [](T, O, R, Out o) { o.logits.shape[2] = 1; }, "logits has shape [1, 1, 1, 5]");
  expect_error(
      data, [](T, O, R, Out o) { o.weights.shape[3] = 4; }, "weights has shape [1, 1, 2, 4]");
  expect_error(
      data, [](T, O, R, Out o) { o.weights.dtype = DType::bfloat16; }, "weights has type bf16");
  expect_error(
      data, [](T, O, R, Out o) { o.weights.strides[2] = 4; }, "must not share an address");
  expect_error(
      data, [](T, O, R, Out o) { o.weights = o.logits; }, "weights at ");
  expect_error(
      data,
      [&](T t, O, R, Out o) {
        o.logits = {const_cast<void*>(t.key.data), DType::float32, {1, 1, 2, 5}};
      },
      "overlaps key");
  expect_error(
      data, [](T, O, R, Out o) { o.logits.data = o.summaries.data(); }, "overlaps summaries");
  expect_error(
      data,
      [](T t, O, R, Out o) {
        t.key = {o.summaries.data(), DType::float32, {2, 1, 5, 8}};
      },
      "summaries at ");
  expect_error(
      data, [](T, O, R, Out) {}, "threads = 1025", 1025);
}

/// Of sequences behind each other a row has to be there; widths are for the sequences that are named.
TEST(IntrospectionError, RaggedAndPagedRowsAreThere) {
  AttentionProblem problem{{2, 1, 1, 3, 9, 4, 4}, DType::float32, {}};
  ProblemData data(problem, {}, {.ragged_queries = true, .page_size = 4}, {1, 3}, {9, 6});
  data.fill_gaussian(1);
  const AttentionTensors tensors = inputs_of(data);
  const auto message = [&](const QueryIndex& row, std::int64_t width) {
    Shown shown(1, width);
    return introspect(tensors, {}, {&row, 1}, shown.outputs()).message();
  };
  EXPECT_EQ(message({0, 0, 1}, 9), "rows[0].query = 1: expected 0 .. 0");
  EXPECT_EQ(message({0, 0, 0}, 8), "logits has shape [1, 1, 1, 8]: sequence 0, which rows[0] names, has 9 keys");
  EXPECT_EQ(message({1, 0, 2}, 6), "");
  AttentionTensors bad = tensors;
  const std::int32_t pages[] = {0, 1, 99, 2, 3, 0};
  bad.pages = {pages, 3, 4};
  Shown shown(1, 9);
  const QueryIndex row{1, 0, 0};
  EXPECT_NE(introspect(bad, {}, {&row, 1}, shown.outputs()).message().find("page 2 of sequence 0 is 99"),
            std::string::npos);
}

/// A row past its sequence's queries sees no key; nothing asked is nothing done.
TEST(IntrospectionError, IsNotARowThatSeesNothing) {
  ProblemData data = data_of({.batch = 2, .query_len = 3, .kv_len = 5}, DType::float32);
  data.query_lengths = {3, 1};
  const Shown shown = show(inputs_of(data), data.problem().options, {{1, 0, 2}, {1, 0, 0}}, 5);
  EXPECT_EQ(shown.summaries[0].keys, 0);
  EXPECT_EQ(shown.summaries[0].lse, -kInfinity);
  EXPECT_EQ(shown.logit(0, 0), -kInfinity);
  EXPECT_EQ(shown.summaries[1].keys, 5);
  EXPECT_TRUE(introspect(inputs_of(data), data.problem().options, {}, {}));
}

}  // namespace
}  // namespace siattn::test
