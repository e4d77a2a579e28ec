// SPDX-License-Identifier: Apache-2.0
#include "verify/marginals.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "verify/normal_law.hpp"

namespace siattn::verify {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Neumaier's compensated sum, in the widest type of the machine.
class Sum {
 public:
  void add(long double x) {
    const long double total = sum_ + x;
    lost_ += std::abs(sum_) >= std::abs(x) ? (sum_ - total) + x : (x - total) + sum_;
    sum_ = total;
  }
  long double value() const { return sum_ + lost_; }

 private:
  long double sum_ = 0, lost_ = 0;
};

}  // namespace

void Moments::add(std::span<const double> values) {
  if (values.empty()) return;
  Moments block;
  block.n_ = static_cast<double>(values.size());
  block.origin_ = n_ > 0 ? origin_ : values.front();
  double sum = 0;
  for (const double x : values) sum += x - block.origin_;
  block.mean_ = sum / block.n_;
  for (const double x : values) {
    const double d = x - block.origin_ - block.mean_;
    const double d2 = d * d;
    block.s2_ += d2;
    block.s3_ += d2 * d;
    block.s4_ += d2 * d2;
  }
  merge(block);
}

/// Chan, Golub and LeVeque for the second, Pebay (2008) for the third and fourth.
void Moments::merge(const Moments& other) {
  if (other.n_ == 0) return;
  if (n_ == 0) {
    *this = other;
    return;
  }
  const double n = n_ + other.n_;
  const double a = n_ / n;
  const double b = other.n_ / n;
  const double d = other.origin_ - origin_ + other.mean_ - mean_;
  const double common = d * d * n_ * b;
  s4_ += other.s4_ + common * d * d * (a * a - a * b + b * b) + 6 * d * d * (a * a * other.s2_ + b * b * s2_) +
         4 * d * (a * other.s3_ - b * s3_);
  s3_ += other.s3_ + common * d * (a - b) + 3 * d * (a * other.s2_ - b * s2_);
  s2_ += other.s2_ + common;
  mean_ += d * b;
  n_ = n;
}

double Moments::variance() const { return n_ >= 2 ? s2_ / (n_ - 1) : kNaN; }
double Moments::skewness() const { return s2_ > 0 ? std::sqrt(n_) * s3_ / (s2_ * std::sqrt(s2_)) : kNaN; }
double Moments::excess_kurtosis() const { return s2_ > 0 ? n_ * (s4_ / s2_) / s2_ - 3 : kNaN; }

MomentSummary summary_of(const Moments& moments) {
  const double n = moments.count();
  const double sd = moments.standard_deviation();
  const double kurtosis = moments.excess_kurtosis();
  MomentSummary summary;
  summary.count = n;
  summary.mean = {moments.mean(), sd / std::sqrt(n)};
  summary.standard_deviation = {sd, sd * std::sqrt(std::max(kurtosis + 2, 0.0) / (4 * n))};
  // Of m3 / m2^(3/2) and m4 / m2^2 of n normal values (Fisher 1930).
  summary.skewness = {moments.skewness(), n >= 2 ? std::sqrt(6 * (n - 2) / ((n + 1) * (n + 3))) : kNaN};
  summary.excess_kurtosis = {
      kurtosis, n >= 4 ? std::sqrt(24 * n * (n - 2) * (n - 3) / ((n + 1) * (n + 1) * (n + 3) * (n + 5))) : kNaN};
  return summary;
}

double dkw_half_width(double n, double level) { return std::sqrt(std::log(2 / level) / (2 * n)); }

std::int64_t dkw_sample_size(double discrepancy, double level, double miss) {
  const double roots = std::sqrt(std::log(2 / level) / 2) + std::sqrt(std::log(2 / miss) / 2);
  return static_cast<std::int64_t>(std::ceil(roots / discrepancy * roots / discrepancy));
}

Law normal_law(double mean, double standard_deviation) {
  return {[=](double x) { return log_normal_cdf((x - mean) / standard_deviation); },
          [=](double x) { return log_normal_cdf((mean - x) / standard_deviation); }};
}

double kolmogorov_distance(std::span<const double> sorted, const Law& law) {
  const auto n = static_cast<double>(sorted.size());
  double distance = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const double cdf = std::exp(law.log_cdf(sorted[i]));
    const auto below = static_cast<double>(i);
    distance = std::max({distance, cdf - below / n, (below + 1) / n - cdf});
  }
  return distance;
}

double anderson_darling(std::span<const double> sorted, const Law& law) {
  const auto n = static_cast<double>(sorted.size());
  Sum sum;
  bool impossible = false;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const double rank = 2 * static_cast<double>(i) + 1;
    const double below = law.log_cdf(sorted[i]);
    const double above = law.log_survival(sorted[i]);
    if (std::isnan(below) || std::isnan(above)) return kNaN;
    impossible |= std::isinf(below) || std::isinf(above);
    sum.add(static_cast<long double>(rank) * below);
    sum.add(static_cast<long double>(2 * n - rank) * above);
  }
  if (impossible) return kInfinity;
  return static_cast<double>(-static_cast<long double>(n) - sum.value() / n);
}

double anderson_darling_p_value(double a2) {
  // Under the law A^2 tends to sum_j X_j^2 / (j (j + 1)) with independent standard normal X_j. Smirnov's inversion for
  // such sums, with mu_j = j (j + 1) and D(u) = prod_j (1 - u / mu_j) = -cos(pi/2 sqrt(1 + 4u)) / (pi u):
  //     P(A^2 > x) = (1/pi) sum_k (-1)^(k+1) int_(mu_(2k-1))^(mu_2k) exp(-x u / 2) / (u sqrt(|D(u)|)) du
  // The integrand is a smooth function over sqrt((u - first)(last - u)), which is what Gauss and Chebyshev integrate.
  // No term cancels a larger one, so that small p keep their digits.
  if (std::isnan(a2)) return kNaN;
  if (a2 < 0.02) return 1;  // P(A^2 < 0.02) < 1e-20
  constexpr int nodes = 256;
  double p = 0;
  for (int k = 1; k < 100; ++k) {
    const double first = (2.0 * k - 1) * (2.0 * k);
    const double last = 2.0 * k * (2.0 * k + 1);
    const double half = (last - first) / 2;
    double integral = 0;
    for (int i = 0; i < nodes; ++i) {
      const double angle = std::numbers::pi * (i + 0.5) / nodes;
      const double sine = std::sin(angle / 2);
      const double above = 2 * half * sine * sine;  // u - first, with all its digits near 0
      const double u = first + above;
      // pi/2 sqrt(1 + 4u) less its value at `first`, where the cosine is 0: |cos| is the sine of that.
      const double phase = 2 * std::numbers::pi * above / (std::sqrt(1 + 4 * u) + std::sqrt(1 + 4 * first));
      const double determinant = std::abs(std::sin(phase)) / (std::numbers::pi * u);
      const double root = half * std::sin(angle);  // sqrt((u - first)(last - u))
      if (determinant > 0) integral += std::exp(-a2 * u / 2) / (u * std::sqrt(determinant)) * root;
    }
    const double term = integral / nodes;
    p += k % 2 == 1 ? term : -term;
    if (term <= 1e-16 * p) break;
  }
  return std::clamp(p, 0.0, 1.0);
}

std::vector<QuantilePoint> quantile_points(std::span<const double> sorted, std::span<const double> probabilities,
                                           double half_width) {
  const auto n = static_cast<double>(sorted.size());
  // The value of this rank, 1 .. n; infinite beyond.
  const auto ranked = [&](double rank) {
    if (rank < 1) return -kInfinity;
    return rank > n ? kInfinity : sorted[static_cast<std::size_t>(rank) - 1];
  };
  std::vector<QuantilePoint> points;
  for (const double p : probabilities) {
    points.push_back({p, normal_quantile(p), ranked(std::clamp(std::ceil(n * p), 1.0, n)),
                      ranked(std::ceil(n * (p - half_width))), ranked(std::floor(n * (p + half_width)) + 1)});
  }
  return points;
}

StandardHistogram::StandardHistogram() : counts_(kBins, 0) {}

void StandardHistogram::merge(const StandardHistogram& other) {
  for (std::size_t k = 0; k < kBins; ++k) counts_[k] += other.counts_[k];
  count_ += other.count_;
}

StandardHistogram::Distance StandardHistogram::kolmogorov_distance(double mean, double standard_deviation) const {
  Distance result;
  const double n = count();
  double below = 0;  // share of the values under the edge
  double cdf = normal_cdf(mean + standard_deviation * edge(0));
  for (std::size_t k = 0; k < kBins; ++k) {
    const double share = static_cast<double>(counts_[k]) / n;
    below += share;
    const double before = cdf;
    cdf = normal_cdf(mean + standard_deviation * edge(k + 1));
    result.distance = std::max(result.distance, std::abs(below - cdf));
    result.resolution = std::max({result.resolution, share, cdf - before});
  }
  return result;
}

double StandardHistogram::anderson_darling(double mean, double standard_deviation) const {
  const double n = count();
  const auto log_tails = [&](std::size_t k) {
    const double x = mean + standard_deviation * edge(k);
    return std::pair{log_normal_cdf(x), log_normal_cdf(-x)};
  };
  double below = 0;
  auto [lower, upper] = log_tails(0);
  // F_n - F, from the nearer end so that the tails keep their digits.
  const auto difference = [&](double count_below, double log_lower, double log_upper) {
    return log_lower < log_upper ? count_below / n - std::exp(log_lower) : std::exp(log_upper) - (n - count_below) / n;
  };
  double before = difference(0, lower, upper);
  double sum = 0;
  for (std::size_t k = 0; k < kBins; ++k) {
    below += static_cast<double>(counts_[k]);
    const auto [next_lower, next_upper] = log_tails(k + 1);
    const double after = difference(below, next_lower, next_upper);
    // int dF / (F (1 - F)) = log(F / (1 - F))
    const double measure = (next_lower - lower) + (upper - next_upper);
    sum += measure * (before * before + before * after + after * after) / 3;
    lower = next_lower;
    upper = next_upper;
    before = after;
  }
  return n * sum;
}

double StandardHistogram::quantile(const std::vector<std::int64_t>& below, double rank) const {
  if (rank < 1) return -kInfinity;
  if (rank > count()) return kInfinity;
  const auto next = std::lower_bound(below.begin(), below.end(), rank,
                                     [](std::int64_t b, double r) { return static_cast<double>(b) < r; });
  const auto bin = static_cast<std::size_t>(next - below.begin()) - 1;  // below[bin] < rank <= below[bin + 1]
  const double within = (rank - 0.5 - static_cast<double>(below[bin])) / static_cast<double>(counts_[bin]);
  return edge(bin) + within / kPerUnit;
}

std::vector<QuantilePoint> StandardHistogram::quantile_points(std::span<const double> probabilities,
                                                              double half_width) const {
  std::vector<std::int64_t> below(kBins + 1, 0);
  for (std::size_t k = 0; k < kBins; ++k) below[k + 1] = below[k] + counts_[k];
  const double n = count();
  std::vector<QuantilePoint> points;
  for (const double p : probabilities) {
    points.push_back({p, normal_quantile(p), quantile(below, std::clamp(std::ceil(n * p), 1.0, n)),
                      quantile(below, std::ceil(n * (p - half_width))),
                      quantile(below, std::floor(n * (p + half_width)) + 1)});
  }
  return points;
}

std::vector<double> plot_probabilities(double n, std::size_t points) {
  const double end = normal_quantile(1 / (2 * n));
  std::vector<double> probabilities;
  for (std::size_t k = 0; k < points; ++k) {
    const double z = points == 1 ? 0 : end - 2 * end * static_cast<double>(k) / static_cast<double>(points - 1);
    probabilities.push_back(normal_cdf(z));
  }
  return probabilities;
}

}  // namespace siattn::verify
