// SPDX-License-Identifier: Apache-2.0
#include "verify/claims/range_law.hpp"

#include <algorithm>
#include <optional>

#include "verify/random.hpp"

namespace siattn::verify {
namespace {

using namespace reference;

/// Distances t1 <= t < t2, whole numbers.
struct Range {
  double t1;
  double t2;
};

std::vector<Range> summable_ranges(const ClaimOptions& options) {
  std::vector<Range> ranges = {{0, 1}, {0, 2}, {1, 2}, {0, 1000}, {100, 1000}, {1e12, 1e12 + 3}, {9e15, 9e15 + 3}};
  if (options.full) ranges.insert(ranges.end(), {{0, 5000}, {1000, 10000}});
  const Random random(options.seed, 1);
  for (std::uint64_t i = 0; i < (options.full ? 50 : 5); ++i) {
    const double t1 = std::floor(1e6 * random.uniform(2 * i));
    ranges.push_back({t1, t1 + 1 + std::floor(200 * random.uniform(2 * i + 1))});
  }
  return ranges;
}

class RangeLaw {
 public:
  RangeLaw(Quantity quantity, std::size_t variant)
      : total_(quantity == Quantity::total),
        plant_(variant < kRangePlants.size() ? kRangePlants[variant] : Plant::none),
        token_short_(variant == kRangePlants.size()) {}

  void sums(const ScaleInvariant& setting, const Range& range) {
    worst_.see_identity(
        [&]<class Real>(const Real&) {
          const auto p = parameters_of<Real>(setting);
          Real sum(0);
          for (double t = range.t1; t < range.t2; ++t) {
            const auto [a, m] = transform_at<Real>(plant_, t, p);
            sum += total_ ? mean_weight(a, m) : mean_weight_log(a, m);
          }
          return sides(sum, closed_form<Real>(range.t1, range.t2, p));
        },
        [&] { return fmt::format("sum over [{}, {}), {}", range.t1, range.t2, text_of(setting)); });
  }

  void bounds_and_limit(const ScaleInvariant& setting, double t, double delta) {
    const auto p = parameters_of<Real50>(setting);
    const Real50 t1(t);
    const Real50 n = t1 * (delta - 1);
    const Real50 value = closed_form<Real50>(t1, t1 + n, p);
    const Real50 unit = (total_ ? p.alpha : p.beta) * p.tau;
    const auto where = [&](const char* what) {
      return [&setting, t, delta, what] {
        return fmt::format("{} of [t, {:g} t), t = {:g}, {}", what, delta, t, text_of(setting));
      };
    };
    worst_.see_excess(Real50(unit * harmonic_lower<Real50>(t1 + p.tau, n) / value - 1), where("lower bound"));
    const std::optional<Real50> upper = harmonic_upper<Real50>(t1 + p.tau, n);
    if (upper) worst_.see_excess(Real50(1 - unit * *upper / value), where("upper bound"));
    if (upper.has_value() != (t1 + p.tau > 1)) worst_.see(1.0, where("input condition"));

    const Real50 limit = total_ ? limit_total<Real50>(delta, p) : limit_negentropy<Real50>(delta, p);
    const Real50 rate = unit * std::max<Real50>(p.tau, 2) / t1;
    if (t >= 2) worst_.see_excess(Real50((abs(value - limit) - rate) / limit), where("limit"));
  }

  Measurement result() && { return std::move(worst_).result(); }

 private:
  template <class Real>
  Real closed_form(const Real& t1, const Real& t2, const ScaleInvariantParameters<Real>& p) const {
    const Real end = token_short_ ? Real(t2 - 1) : t2;
    return total_ ? expected_total<Real>(t1, end, p) : expected_negentropy<Real>(t1, end, p);
  }

  bool total_;
  Plant plant_;
  bool token_short_;
  Worst worst_;
};

}  // namespace

Measurement check_range_law(Quantity quantity, const ClaimOptions& options, std::size_t variant) {
  RangeLaw law(quantity, variant);
  const std::vector<Range> ranges = summable_ranges(options);
  std::vector<double> deltas = {2, 10, 1000};
  if (options.full) deltas.insert(deltas.end(), {3, 5, 17, 1e6});
  if (options.full) law.sums(ScaleInvariant{}, {10000, 110000});
  for (const ScaleInvariant& setting : settings(options.full)) {
    for (const Range& range : ranges) law.sums(setting, range);
    for (const double t : distances(options.full)) {
      for (const double delta : deltas) {
        if (t > 0) law.bounds_and_limit(setting, t, delta);
      }
    }
  }
  return std::move(law).result();
}

}  // namespace siattn::verify
