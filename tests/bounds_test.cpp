// SPDX-License-Identifier: Apache-2.0
// The error bound separates right from wrong: it accepts the right result and float32 arithmetic of any order, and
// rejects each mistake that attention kernels have been seen to make, on the probes named here.
#include <cmath>

#include "tests/support.hpp"

namespace siattn::test {
namespace {

enum class Mistake {
  none,
  none_in_float32,  // right, in float arithmetic, keys taken from the end
  distance_plus_one,
  distance_minus_one,
  top_left_distance,  // query i at position i whatever kv_len
  no_one_in_scale,    // a_t = sqrt(2 log1p(t / tau))
  shift_zero,         // m = 0
  scale_one,          // a = 1
  tau_off_by_one_percent,
  tables_in_bf16,        // a and m rounded to bf16
  log2e_of_five_digits,  // 1.4427
  oldest_key_dropped,
  newest_key_dropped,
  kv_head_by_modulo,  // h mod kv_heads
  sinks_from_the_end,
  window_one_too_wide,
  window_one_too_narrow,
  maximum_starts_at_zero,
  maximum_starts_at_minus_5e4,
  rescale_skipped,  // of what was accumulated below an earlier maximum
  sum_in_f16,       // the row sum is kept in float16
  weights_in_bf16,  // before they meet the values, though everything is float32
  lse_in_base_two,
  element_not_written,
};

/// Attention in plain loops with one mistake, for ScaleInvariant with one tau; out and lse as a backend leaves them.
class WrongAttention {
 public:
  WrongAttention(ProblemData& data, Mistake mistake) : data_(data), s_(data.problem().shape), mistake_(mistake) {}

  void run() {
    data_.clear_outputs();
    for (std::int64_t b = 0; b < s_.batch; ++b) {
      for (std::int64_t h = 0; h < s_.query_heads; ++h) {
        for (std::int64_t i = 0; i < s_.query_len; ++i) row(b, h, i);
      }
    }
  }

 private:
  bool is(Mistake mistake) const { return mistake_ == mistake; }

  double logit(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const AttentionOptions& o = data_.problem().options;
    const std::int64_t g = is(Mistake::kv_head_by_modulo) ? h % s_.kv_heads : h / (s_.query_heads / s_.kv_heads);
    double score = 0;
    for (std::int64_t d = 0; d < s_.head_dim; ++d) score += data_.query.get(b, h, i, d) * data_.key.get(b, g, j, d);
    score *= o.softmax_scale.value_or(1 / std::sqrt(static_cast<double>(s_.head_dim)));
    if (is(Mistake::sinks_from_the_end) ? j >= s_.kv_len - o.n_sink : j < o.n_sink) return score;
    double t = static_cast<double>((is(Mistake::top_left_distance) ? 0 : s_.kv_len - s_.query_len) + i - j);
    if (is(Mistake::distance_plus_one)) t += 1;
    if (is(Mistake::distance_minus_one)) t -= 1;
    double tau = std::get<ScaleInvariant>(o.transform).tau.at(0);
    if (is(Mistake::tau_off_by_one_percent)) tau *= 1.01;
    const double log_t = std::log1p(std::max(t, 0.0) / tau);
    double a = std::sqrt((is(Mistake::no_one_in_scale) ? 0 : 1) + 2 * log_t);
    double m = -2 * log_t;
    if (is(Mistake::scale_one)) a = 1;
    if (is(Mistake::shift_zero)) m = 0;
    if (is(Mistake::tables_in_bf16)) a = to_float(to_bfloat16(a)), m = to_float(to_bfloat16(m));
    const double l = is(Mistake::none_in_float32)
                         ? static_cast<float>(a) * static_cast<float>(score) + static_cast<float>(m)
                         : a * score + m;
    return is(Mistake::log2e_of_five_digits) ? l * 1.4427 * std::log(2.0) : l;
  }

  std::vector<std::int64_t> visible_keys(std::int64_t i) const {
    const AttentionOptions& o = data_.problem().options;
    const std::int64_t position = s_.kv_len - s_.query_len + i;
    std::int64_t first = 0;
    if (o.window) first = std::max<std::int64_t>(0, position - *o.window + 1);
    if (o.window && is(Mistake::window_one_too_wide)) first = std::max<std::int64_t>(0, first - 1);
    if (o.window && is(Mistake::window_one_too_narrow)) first = std::min(position, first + 1);
    if (is(Mistake::oldest_key_dropped) && first < position) ++first;
    const std::int64_t last = is(Mistake::newest_key_dropped) && first < position ? position : position + 1;
    std::vector<std::int64_t> keys;
    for (std::int64_t j = first; j < last; ++j) keys.push_back(j);
    if (is(Mistake::none_in_float32)) std::reverse(keys.begin(), keys.end());
    return keys;
  }

  void row(std::int64_t b, std::int64_t h, std::int64_t i) {
    const std::vector<std::int64_t> keys = visible_keys(i);
    const std::int64_t g = is(Mistake::kv_head_by_modulo) ? h % s_.kv_heads : h / (s_.query_heads / s_.kv_heads);
    float maximum = is(Mistake::maximum_starts_at_zero)        ? 0
                    : is(Mistake::maximum_starts_at_minus_5e4) ? -5e4F
                                                               : -HUGE_VALF;
    double sum = 0;
    std::vector<double> out(static_cast<std::size_t>(s_.value_dim));
    for (const std::int64_t j : keys) {
      const double l = logit(b, h, i, j);
      if (l > maximum) {
        const double rescale = is(Mistake::rescale_skipped) ? 1 : std::exp(maximum - static_cast<float>(l));
        maximum = static_cast<float>(l);
        sum *= rescale;
        for (double& x : out) x *= rescale;
      }
      const float weight = static_cast<float>(std::exp(l - maximum));  // may underflow, as in a kernel
      sum += weight;
      if (is(Mistake::sum_in_f16)) sum = to_float(to_float16(sum));
      const double p = is(Mistake::weights_in_bf16) ? to_float(to_bfloat16(weight)) : weight;
      for (std::int64_t c = 0; c < s_.value_dim; ++c)
        out[static_cast<std::size_t>(c)] += p * data_.value.get(b, g, j, c);
      if (is(Mistake::none_in_float32)) round_to_float(sum, out);
    }
    for (std::int64_t c = 0; c < s_.value_dim; ++c) {
      if (is(Mistake::element_not_written) && h + i + c == s_.query_heads + s_.query_len + s_.value_dim - 3) continue;
      data_.out.set(b, h, i, c, sum > 0 ? out[static_cast<std::size_t>(c)] / sum : 0);
    }
    const double lse = maximum + std::log(sum);
    data_.lse.set(b, h, i, 0, is(Mistake::lse_in_base_two) ? lse / std::log(2.0) : lse);
  }

  static void round_to_float(double& sum, std::vector<double>& out) {
    sum = static_cast<float>(sum);
    for (double& x : out) x = static_cast<float>(x);
  }

  ProblemData& data_;
  AttentionShape s_;
  Mistake mistake_;
};

/// What a GPU kernel may do: weights rounded to 16-bit types before they meet the values. The widest bound there is.
Numerics numerics_of(DType dtype) {
  const double weight_roundoff = dtype == DType::float32 ? 0 : verify::rounding_of(dtype).unit_roundoff;
  return {0x1p-24, 0x1p-24, weight_roundoff, 0x1p-22, 0x1p-126};
}

struct Probe {
  const char* name;
  std::function<ProblemData(DType)> make;
};

ProblemData filled(DType dtype, const AttentionShape& shape, AttentionOptions options, const ProblemData::Fill& query,
                   const ProblemData::Fill& key, const ProblemData::Fill& value) {
  ProblemData data({shape, dtype, std::move(options)});
  data.fill(query, key, value);
  return data;
}

ProblemData::Fill constant(double x) {
  return [x](auto...) { return x; };
}
const ProblemData::Fill kIndex = [](auto, auto, std::int64_t j, auto) { return static_cast<double>(j); };
/// Channel 0 is 1 on key 0, channel 1 on key 1; channel 2 is 1 on the last but one of 65 keys, 3 on the last.
const ProblemData::Fill kOneHot = [](auto, auto, std::int64_t j, std::int64_t c) {
  return j == (c < 2 ? c : 61 + c) ? 1.0 : 0.0;
};

AttentionOptions options_of(double tau, std::optional<double> scale) {
  return {.transform = ScaleInvariant{.tau = tau}, .softmax_scale = scale};
}

const std::vector<Probe>& probes() {
  static const std::vector<Probe> list{
      {"gaussian",
       [](DType dtype) {
         ProblemData data({{1, 4, 2, 20, 65, 16, 8}, dtype, {}});
         data.fill_gaussian(1);
         return data;
       }},
      {"h-inputs",
       [](DType dtype) {
         return filled(dtype, {1, 1, 1, 20, 65, 1, 1}, options_of(1, 1), constant(0), constant(0), kIndex);
       }},
      {"one-hot",
       [](DType dtype) {
         return filled(dtype, {1, 1, 1, 20, 65, 1, 4}, options_of(1, 1), constant(0), constant(0), kOneHot);
       }},
      {"keys -1000",
       [](DType dtype) {
         return filled(dtype, {1, 1, 1, 20, 65, 1, 1}, options_of(1, 1), constant(1), constant(-1000), kIndex);
       }},
      {"logits -60000",
       [](DType dtype) {
         return filled(dtype, {1, 1, 1, 20, 65, 1, 1}, options_of(1, 60), constant(1), constant(-1000), kIndex);
       }},
      {"needle on the oldest",
       [](DType dtype) {
         const auto needle = [](auto, auto, std::int64_t j, auto) { return j == 0 ? 8.0 : 0.0; };
         return filled(dtype, {1, 1, 1, 20, 65, 1, 1}, options_of(10, 1), constant(1), needle, needle);
       }},
      {"alternating",
       [](DType dtype) {
         const auto keys = [](auto, auto, std::int64_t j, auto) { return j % 2 == 0 ? -5.0 : 1.5; };
         return filled(dtype, {1, 1, 1, 20, 65, 1, 1}, options_of(1, 1), constant(1), keys, kIndex);
       }},
      {"window and sinks", [](DType dtype) {
         AttentionOptions options = options_of(1, 1);
         options.window = 9;
         options.n_sink = 50;  // some of the keys in each window, none of the last ones
         const auto values = [](auto, auto, std::int64_t j, auto) { return static_cast<double>(j % 7); };
         return filled(dtype, {1, 1, 1, 20, 65, 1, 1}, options, constant(1), constant(1), values);
       }}};
  return list;
}

bool caught(Mistake mistake, const Probe& probe, DType dtype) {
  ProblemData data = probe.make(dtype);
  WrongAttention(data, mistake).run();
  return !verify::compare_with_reference(data.problem(), data.tensors(), numerics_of(dtype)).good();
}

class Bounds : public ::testing::TestWithParam<DType> {};

TEST_P(Bounds, AcceptWhatIsRight) {
  for (const Probe& probe : probes()) {
    EXPECT_FALSE(caught(Mistake::none, probe, GetParam())) << probe.name;
    EXPECT_FALSE(caught(Mistake::none_in_float32, probe, GetParam())) << probe.name;
  }
}

TEST_P(Bounds, RejectEachMistakeOnTheProbesMadeForIt) {
  // x: caught, in every type, on this probe.
  //  gaussian, h-inputs, one-hot, keys -1000, logits -60000, needle on the oldest, alternating, window and sinks
  const std::pair<Mistake, const char*> expected[] = {{Mistake::distance_plus_one, "xxxxxxxx"},
                                                      {Mistake::distance_minus_one, "xxxxxxxx"},
                                                      {Mistake::top_left_distance, "xxxxxxxx"},
                                                      {Mistake::no_one_in_scale, "x..xxxxx"},
                                                      {Mistake::shift_zero, "xxx..xxx"},
                                                      {Mistake::scale_one, "x..xxxxx"},
                                                      {Mistake::tau_off_by_one_percent, "xxx..xxx"},
                                                      {Mistake::tables_in_bf16, "xxx..xxx"},
                                                      {Mistake::log2e_of_five_digits, "...xxx.."},
                                                      {Mistake::oldest_key_dropped, "xxx..x.x"},
                                                      {Mistake::newest_key_dropped, "xxxxx.xx"},
                                                      {Mistake::kv_head_by_modulo, "x......."},
                                                      {Mistake::sinks_from_the_end, ".......x"},
                                                      {Mistake::window_one_too_wide, ".......x"},
                                                      {Mistake::window_one_too_narrow, ".......x"},
                                                      {Mistake::maximum_starts_at_zero, "...xx..."},
                                                      {Mistake::maximum_starts_at_minus_5e4, "....x..."},
                                                      {Mistake::rescale_skipped, "xxxxx.xx"},
                                                      {Mistake::sum_in_f16, "xxx...xx"},
                                                      {Mistake::lse_in_base_two, "xxxxxxxx"},
                                                      {Mistake::element_not_written, "xxxxxxxx"}};
  for (const auto& [mistake, columns] : expected) {
    for (std::size_t k = 0; k < probes().size(); ++k) {
      if (columns[k] != 'x') continue;
      EXPECT_TRUE(caught(mistake, probes()[k], GetParam()))
          << "mistake " << static_cast<int>(mistake) << " passes on " << probes()[k].name;
    }
  }
}

/// 16-bit types allow what float32 does not.
TEST(BoundsOfFloat32, RejectWeightsRoundedToBf16) {
  EXPECT_TRUE(caught(Mistake::weights_in_bf16, probes()[0], DType::float32));
  EXPECT_FALSE(caught(Mistake::weights_in_bf16, probes()[0], DType::bfloat16));
}

/// NaN in the reference must not make a comparison pass, nor NaN in the result; nor may infinity, or a wrong sign of it.
TEST(Comparison, ComparesNanAndInfinityFirst) {
  const auto good = [](double reference_key, double out, double lse) {
    ProblemData data({{1, 1, 1, 1, 1, 1, 1}, DType::float32, {}});
    data.fill(constant(1), constant(reference_key), constant(2));
    data.out.set(0, 0, 0, 0, out);
    data.lse.set(0, 0, 0, 0, lse);
    return verify::compare_with_reference(data.problem(), data.tensors(), numerics_of(DType::float32)).good();
  };
  const double nan = std::nan("");
  EXPECT_TRUE(good(3, 2, 3));
  for (const double wrong : {nan, kInfinity, -kInfinity, 0.0}) {
    EXPECT_FALSE(good(3, wrong, 3)) << wrong;
    EXPECT_FALSE(good(3, 2, wrong)) << wrong;
  }
  EXPECT_TRUE(good(nan, nan, nan));
  EXPECT_FALSE(good(nan, 2, nan));
  EXPECT_FALSE(good(nan, nan, 3));
  EXPECT_TRUE(good(-kInfinity, 0, -kInfinity));  // its only key has no weight
  EXPECT_FALSE(good(-kInfinity, nan, -kInfinity));
  EXPECT_FALSE(good(-kInfinity, 0, kInfinity));
  EXPECT_FALSE(good(-kInfinity, 0, -1e38));
}

/// The bound is not loose: float32 arithmetic in plain loops uses a good part of it.
TEST(BoundsOfFloat32, AreWithinAFactorOfAHundredOfWhatHappens) {
  double worst = 0;
  for (const Probe& probe : probes()) {
    ProblemData data = probe.make(DType::float32);
    WrongAttention(data, Mistake::none_in_float32).run();
    worst = std::max(
        worst, verify::compare_with_reference(data.problem(), data.tensors(), numerics_of(DType::float32)).worst_ratio);
  }
  EXPECT_GT(worst, 0.01);
  EXPECT_LE(worst, 1);
}

INSTANTIATE_TEST_SUITE_P(, Bounds, ::testing::Values(DType::float32, DType::bfloat16, DType::float16),
                         [](const auto& type) { return std::string(name_of(type.param)); });

}  // namespace
}  // namespace siattn::test
