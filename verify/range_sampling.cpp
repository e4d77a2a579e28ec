// SPDX-License-Identifier: Apache-2.0
#include "verify/range_sampling.hpp"

#include <algorithm>
#include <boost/math/quadrature/gauss.hpp>
#include <boost/math/special_functions/erf.hpp>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "reference/equations.hpp"
#include "verify/parallel.hpp"
#include "verify/random.hpp"

namespace siattn::verify {
namespace {

/// Z and N~ of Eq. 4 and 7, summed.
struct Sums {
  double z = 0;
  double n = 0;

  void add(const Sums& other) {
    z += other.z;
    n += other.n;
  }
  void add_weight(double logit, double weight) {
    z += weight;
    n += weight * logit;
  }
  RangeSample sample() const { return {z, reference::entropy(z, n)}; }
};

/// Distances handled at once: their maps are evaluated once for all repetitions. An even number, so that the two normals
/// of a pair never part.
constexpr std::int64_t kBlock = 4096;

/// One block of distances for one repetition.
Sums block_sums(const std::vector<AffineMap>& maps, std::span<const double> base_logits) {
  Sums sums;
  for (std::size_t i = 0; i < base_logits.size(); ++i) {
    const double logit = maps[i].a * base_logits[i] + maps[i].m;
    sums.add_weight(logit, std::exp(logit));
  }
  return sums;
}

double normal_density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }
double normal_below(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }
/// The x that a standard normal exceeds with probability p, 0 < p < 1.
double normal_exceeded(double p) { return std::numbers::sqrt2 * boost::math::erfc_inv(2 * p); }

/// Sum over the distances of a range of f(t), smooth on the scale of t: the integral from first - 1/2 to last - 1/2 by
/// Gauss and Legendre over log(t). Error of replacing the sum: about f'/24 at the ends, relative 1/(24 first^2).
template <class F>
Sums sum_over_range(const DistanceRange& range, F f) {
  const double low = std::log(range.first - 0.5);
  const double high = std::log(range.last - 0.5);
  using Rule = boost::math::quadrature::gauss<double, 30>;
  Sums total;
  for (std::size_t k = 0; k < Rule::abscissa().size(); ++k) {
    for (const double x : {-Rule::abscissa()[k], Rule::abscissa()[k]}) {
      const double t = std::exp((low + high + (high - low) * x) / 2);
      const double width = Rule::weights()[k] * (high - low) / 2 * t;
      const Sums value = f(t);
      total.add({value.z * width, value.n * width});
    }
  }
  return total;
}

/// E[A~; S <= c] and E[A~ log A~; S <= c] of a standard normal S, by its tilt to the mean a.
Sums means_below(const AffineMap& map, double c) {
  const double mean = std::exp(map.m + map.a * map.a / 2);
  const double below = normal_below(c - map.a);
  return {mean * below, mean * ((map.m + map.a * map.a) * below - map.a * normal_density(c - map.a))};
}

/// A sum of k exponentials for large k, from one standard normal (Wilson and Hilferty): error of its distribution
/// function below 1e-4 / k.
double gamma_sum(double k, double normal) {
  const double root = 1 - 1 / (9 * k) + normal / (3 * std::sqrt(k));
  return k * root * root * root;
}

RangeSample sample_extremes(const LogitTransform& transform, const RangeSampling& sampling, std::size_t largest,
                            std::size_t repetition) {
  const DistanceRange& range = sampling.range;
  const double n = range.size();
  const Random random(sampling.seed, sampling.stream);
  const std::uint64_t first = std::uint64_t{repetition} * (2 * largest + 1);  // of the numbers of this repetition
  std::vector<double> sums(largest);
  double sum = 0;
  for (std::size_t i = 0; i < largest; ++i) sums[i] = sum -= std::log(random.uniform(first + 2 * i));
  // G_(n+1): the spacings that are not drawn one by one come as one sum.
  const double all = sum + gamma_sum(n + 1 - static_cast<double>(largest), random.gaussian(first + 2 * largest));
  Sums total;
  for (std::size_t i = 0; i < largest; ++i) {
    const double s = normal_exceeded(sums[i] / all);
    const double t = std::floor(range.first + n * random.uniform(first + 2 * i + 1));
    const AffineMap map = affine_map(transform, t, range.last);
    const double logit = map.a * s + map.m;
    total.add_weight(logit, std::exp(logit));
  }
  const double u = sum / all;
  const double c = normal_exceeded(u);
  Sums rest = sum_over_range(range, [&](double t) { return means_below(affine_map(transform, t, range.last), c); });
  const double kept = (1 - static_cast<double>(largest) / n) / (1 - u);  // the rest has S <= c for certain
  total.add({rest.z * kept, rest.n * kept});
  return total.sample();
}

Estimate estimate_of(std::span<const RangeSample> samples, double RangeSample::*member) {
  Moments moments;
  for (const RangeSample& s : samples) moments.add(s.*member);
  return {moments.mean(), moments.standard_deviation() / std::sqrt(moments.count())};
}

}  // namespace

AffineMap affine_map(const LogitTransform& transform, double t, double n) {
  if (const auto* s = std::get_if<ScaleInvariant>(&transform)) {
    const auto p = reference::parameters_of<double>(*s);
    return {reference::scale(t, p), reference::shift(t, p)};
  }
  if (const auto* s = std::get_if<LogN>(&transform)) return {reference::logn_factor(s->scale.at(0), n), 0};
  if (std::holds_alternative<NoTransform>(transform)) return {1, 0};
  if (const auto* s = std::get_if<Alibi>(&transform); s != nullptr && !s->slopes.values.empty()) {
    return {1, reference::alibi_shift(s->slopes.at(0), t)};
  }
  throw std::invalid_argument("a transform whose map needs more than a distance and a number of keys");
}

std::vector<std::vector<RangeSample>> sample_range(std::span<const LogitTransform> transforms,
                                                   const RangeSampling& sampling) {
  const auto first = static_cast<std::int64_t>(sampling.range.first);
  const auto last = static_cast<std::int64_t>(sampling.range.last);
  if (first < 0 || last <= first) throw std::invalid_argument("a range of distances must not be empty or start below 0");
  const auto blocks = static_cast<std::size_t>((last - first + kBlock - 1) / kBlock);
  const std::size_t repetitions = sampling.repetitions;
  const std::uint64_t pairs = static_cast<std::uint64_t>(last - first + 1) / 2;  // of one repetition
  const Random random(sampling.seed, sampling.stream);
  // Kept for each block and added in the order of the blocks: so the number of threads changes no bit.
  std::vector<Sums> partial(blocks * transforms.size() * repetitions);
  for_each_index(blocks, [&](std::size_t block) {
    const std::int64_t begin = first + static_cast<std::int64_t>(block) * kBlock;
    const auto count = static_cast<std::size_t>(std::min(kBlock, last - begin));
    std::vector<std::vector<AffineMap>> maps(transforms.size());
    for (std::size_t k = 0; k < transforms.size(); ++k) {
      for (std::size_t i = 0; i < count; ++i) {
        maps[k].push_back(affine_map(transforms[k], static_cast<double>(begin) + static_cast<double>(i),
                                     sampling.range.last));
      }
    }
    std::vector<double> base_logits(count + 1);
    for (std::size_t r = 0; r < repetitions; ++r) {
      const std::uint64_t index = r * pairs + block * (kBlock / 2);
      for (std::size_t i = 0; i < count; i += 2) {
        const auto pair = random.gaussian_pair(index + i / 2);
        base_logits[i] = pair[0];
        base_logits[i + 1] = pair[1];
      }
      for (std::size_t k = 0; k < transforms.size(); ++k) {
        partial[(block * transforms.size() + k) * repetitions + r] =
            block_sums(maps[k], std::span(base_logits).first(count));
      }
    }
  });
  std::vector<std::vector<RangeSample>> samples(transforms.size());
  for (std::size_t k = 0; k < transforms.size(); ++k) {
    for (std::size_t r = 0; r < repetitions; ++r) {
      Sums sums;
      for (std::size_t block = 0; block < blocks; ++block) {
        sums.add(partial[(block * transforms.size() + k) * repetitions + r]);
      }
      samples[k].push_back(sums.sample());
    }
  }
  return samples;
}

std::vector<RangeSample> sample_range_by_extremes(const LogitTransform& transform, const RangeSampling& sampling,
                                                  std::size_t largest) {
  if (largest < 2 || !(sampling.range.size() > static_cast<double>(largest)) || !(sampling.range.first >= 1)) {
    throw std::invalid_argument("the largest logits to draw must be at least 2 and fewer than the range has");
  }
  std::vector<RangeSample> samples(sampling.repetitions);
  for_each_index(samples.size(),
                 [&](std::size_t r) { samples[r] = sample_extremes(transform, sampling, largest, r); });
  return samples;
}

NeglectedSpread neglected_spread(const LogitTransform& transform, const DistanceRange& range, std::size_t largest) {
  const double c = normal_exceeded(static_cast<double>(largest) / range.size());
  const double all = sum_over_range(range, [&](double t) {
                       const AffineMap map = affine_map(transform, t, range.last);
                       return Sums{std::exp(map.m + map.a * map.a / 2), 0};
                     }).z;
  const Sums rest = sum_over_range(range, [&](double t) {
    const AffineMap map = affine_map(transform, t, range.last);
    const double second = std::exp(2 * (map.m + map.a * map.a)) * normal_below(c - 2 * map.a);  // E[A~^2; S <= c]
    return Sums{means_below(map, c).z, second};
  });
  const double deviation = std::sqrt(rest.n);  // at most: the squared means are not subtracted
  return {deviation / rest.z, deviation / all};
}

Estimate mean_entropy(std::span<const RangeSample> samples) { return estimate_of(samples, &RangeSample::entropy); }

Estimate mean_total(std::span<const RangeSample> samples) { return estimate_of(samples, &RangeSample::total); }

double median_total(std::span<const RangeSample> samples) {
  std::vector<double> totals;
  for (const RangeSample& s : samples) totals.push_back(s.total);
  const auto middle = totals.begin() + static_cast<std::ptrdiff_t>(totals.size() / 2);
  std::nth_element(totals.begin(), middle, totals.end());
  if (totals.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(totals.begin(), middle)) / 2;
}

}  // namespace siattn::verify
