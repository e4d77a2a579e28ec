// SPDX-License-Identifier: Apache-2.0
// Two samplers against the law that is integrated: each draws what the other methods only compute.
#include <boost/math/distributions/normal.hpp>

#include "verify/claims/list.hpp"
#include "verify/claims/p_values.hpp"
#include "verify/range_distribution.hpp"

namespace siattn::verify {
namespace {

constexpr std::array<std::string_view, 4> kWrong = {"tau 25 % too large",
                                                    "a_t and m_t without their constants (no +1 in a_t^2)",
                                                    "LogN in its place (s = 0.4)", "no scaling (a = 1, m = 0)"};

LogitTransform transform_of(std::size_t variant) {
  switch (variant) {
    case 1: return ScaleInvariant{.tau = 12.5};
    case 2: return ScaleInvariant{10.0, 1, 1e-12};  // a_t^2 = 2 log(1 + t/tau), m_t = -a_t^2
    case 3: return LogN{};
    case 4: return NoTransform{};
    default: return ScaleInvariant{};
  }
}

constexpr double kDelta = 10;
constexpr std::array kProbabilities = {0.1, 0.5, 0.9};
constexpr std::size_t kLargest = 5000;  // of the order statistics that sampling by extremes draws one by one

/// The law as published, at one t.
struct Exact {
  explicit Exact(double t) : range{t, kDelta * t}, law(ScaleInvariant{}, range), entropy(law.mean_entropy()) {
    for (std::size_t k = 0; k < kProbabilities.size(); ++k) quantiles[k] = law.quantile(kProbabilities[k]);
  }
  DistanceRange range;
  RangeDistribution law;
  double entropy;
  std::array<double, kProbabilities.size()> quantiles{};
};

struct Plan {
  double t;
  std::size_t repetitions;
  bool by_extremes;
};

std::vector<Plan> plans(bool full, std::size_t variant) {
  if (variant > 0) return {{100, 1000, false}};
  if (!full) return {{10, 2000, false}, {100, 1000, false}, {1e3, 400, false}, {1e4, 100, true}, {1e12, 100, true}};
  return {{10, 20000, false}, {100, 5000, false}, {1e3, 2000, false}, {1e4, 1000, false}, {1e5, 400, false},
          {1e6, 100, false},  {1e4, 2000, true},  {1e5, 2000, true},  {1e6, 2000, true},  {1e8, 2000, true},
          {1e12, 2000, true}, {1e50, 1000, true}, {1e100, 1000, true}, {1e300, 1000, true}};
}

class Samples {
 public:
  Samples(const ClaimOptions& options, std::size_t variant) : options_(options), variant_(variant) {}

  void compare(const Plan& plan) {
    const Exact exact(plan.t);
    const RangeSampling sampling{exact.range, plan.repetitions, options_.seed, stream_++};
    const LogitTransform transform = transform_of(variant_);
    const std::vector<RangeSample> drawn = plan.by_extremes
                                               ? sample_range_by_extremes(transform, sampling, kLargest)
                                               : sample_range(std::span(&transform, 1), sampling).front();
    const char* method = plan.by_extremes ? "extremes" : "direct";
    const Estimate entropy = mean_entropy(drawn);
    const auto n = static_cast<double>(drawn.size());
    comparisons_.see(mean_p_value(entropy, exact.entropy, n),
                     [&] { return fmt::format("E[H] at t = {:g}, {}", plan.t, method); });
    std::vector<Table::Cell> row = {plan.t, method, n, entropy.value, entropy.standard_error, exact.entropy};
    for (std::size_t k = 0; k < kProbabilities.size(); ++k) {
      const auto below = static_cast<double>(std::count_if(
          drawn.begin(), drawn.end(), [&](const RangeSample& s) { return s.total <= exact.quantiles[k]; }));
      comparisons_.see(binomial_p_value(below, n, kProbabilities[k]), [&] {
        return fmt::format("P(Z <= its quantile {}) at t = {:g}, {}", kProbabilities[k], plan.t, method);
      });
      row.push_back(below / n);
    }
    table_.rows.push_back(std::move(row));
    if (plan.t == 1e5) both_[plan.by_extremes ? 1 : 0] = entropy;
  }

  /// The two samplers against each other, where both ran at t = 1e5.
  void compare_samplers() {
    const auto& [direct, extremes] = both_;
    if (direct.standard_error == 0 || extremes.standard_error == 0) return;
    const double error = std::hypot(direct.standard_error, extremes.standard_error);
    const double z = std::abs(direct.value - extremes.value) / error;
    comparisons_.see(2 * cdf(complement(boost::math::normal(), z)),
                     [] { return std::string("E[H] at t = 1e5, direct against extremes"); });
    note_ = fmt::format("E[H] at t = 1e5: {:.3f} +- {:.3f} direct, {:.3f} +- {:.3f} by extremes; ", direct.value,
                        direct.standard_error, extremes.value, extremes.standard_error);
  }

  Measurement result() && {
    const NeglectedSpread spread = neglected_spread(ScaleInvariant{}, {1e4, 1e5}, kLargest);
    note_ += fmt::format("by extremes {} logits are drawn: left out is a spread of {:.1e} of E[Z]", kLargest,
                         spread.of_mean);
    Measurement m = std::move(comparisons_).result(std::move(note_));
    if (variant_ == 0) m.tables = {std::move(table_)};
    return m;
  }

 private:
  ClaimOptions options_;
  std::size_t variant_;
  std::uint32_t stream_ = 100;
  Comparisons comparisons_;
  std::string note_;
  std::array<Estimate, 2> both_{};
  Table table_{"Sampled entropy within [t, 10 t) and total attention, against quadrature",
               {"t (tokens)", "sampler", "repetitions", "mean H (nats)", "standard error (nats)", "E[H] exact (nats)",
                "share of Z below quantile 0.1", "below the median", "below quantile 0.9"},
               {}};
};

Measurement measure(const ClaimOptions& options, std::size_t variant) {
  Samples samples(options, variant);
  for (const Plan& plan : plans(options.full, variant)) samples.compare(plan);
  samples.compare_samplers();
  return std::move(samples).result();
}

}  // namespace

constinit const Claim kSampledRanges = {
    .id = "sampled-ranges",
    .title = "Sampled Z and H obey their law",
    .reference = "Eq. 4, 6, Fig. 2",
    .statement =
        "Z and H of [t, 10 t) with independent standard normal logits, drawn one by one (full: to t = 1e6) and by the "
        "greatest order statistics (to 1e300, and where both can), have the mean entropy and the quantiles of Z that "
        "are integrated.",
    .method = Method::sampled,
    .threshold = kSampledThreshold,
    .threshold_reason =
        "-log10 of the least chance (Student's t, exact binomials), each at level 1e-10, at most 100 of them; with R "
        "repetitions a median of Z displaced by 5.6/sqrt(R) in probability, or a mean displaced by 11.3 standard "
        "errors, is seen with chance 1 - 1e-6",
    .wrong_variants = kWrong,
    .measure = measure,
    .false_alarm = kSampledFalseAlarm,
};

}  // namespace siattn::verify
