// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_MARGINALS_HPP
#define SIATTN_VERIFY_MARGINALS_HPP

#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

/// What a sample says of its law: moments, distance to a law, tests against a law that is *fully* specified, quantiles.
///
/// Every rate of error here is for independent draws. Values that depend on each other (the logits of one sequence,
/// which share queries and keys) lie farther from their law than so many independent ones would, and where the law's
/// parameters were estimated from the same values the distance comes out too small: then only the distances themselves
/// mean something, not the rates.
namespace siattn::verify {

/// Count and the first four central moments of a stream of values. Counted from the first value and updated by
/// differences from the running mean, so that a mean far from 0 costs no digits; merging two of them is as good as
/// having seen both streams.
class Moments {
 public:
  void add(double x) { add(std::span<const double>(&x, 1)); }
  /// Two passes over these values, then a merge: better and faster than one by one.
  void add(std::span<const double> values);
  void merge(const Moments& other);

  double count() const { return n_; }
  double mean() const { return origin_ + mean_; }
  /// Of a sample (divided by n - 1); NaN below two values.
  double variance() const;
  double standard_deviation() const { return std::sqrt(variance()); }
  /// m3 / m2^(3/2) with m_k = sum (x - mean)^k / n; NaN where all values are equal.
  double skewness() const;
  /// m4 / m2^2 - 3; NaN where all values are equal.
  double excess_kurtosis() const;

 private:
  double n_ = 0;
  double origin_ = 0;  ///< the first value; the mean is counted from here
  double mean_ = 0;
  double s2_ = 0, s3_ = 0, s4_ = 0;  ///< sums of powers of x - mean
};

struct Estimate {
  double value = 0;
  double standard_error = 0;
};

struct MomentSummary {
  double count = 0;
  Estimate mean;                ///< error: sd / sqrt(n)
  Estimate standard_deviation;  ///< error: sd sqrt((m4 / m2^2 - 1) / 4n), to first order and for any law
  Estimate skewness;            ///< error: that of n independent *normal* values, exactly
  Estimate excess_kurtosis;     ///< error: likewise
};
MomentSummary summary_of(const Moments& moments);

/// Dvoretzky, Kiefer and Wolfowitz, with Massart's constant: P(sup |F_n - F| > e) <= 2 exp(-2 n e^2). The e at which
/// the right side is `level`.
double dkw_half_width(double n, double level);

/// So many values that a test of that level (reject when sup |F_n - F| exceeds the half width) misses a law at a
/// distance of at least `discrepancy` with a probability of at most `miss`: sqrt(ln(2/level)/2n) + sqrt(ln(2/miss)/2n)
/// <= it.
std::int64_t dkw_sample_size(double discrepancy, double level, double miss);

/// A law, by the logarithms of both its tails: log P(X <= x) and log P(X > x).
struct Law {
  std::function<double(double)> log_cdf;
  std::function<double(double)> log_survival;
};
/// N(mean, sd^2).
Law normal_law(double mean = 0, double standard_deviation = 1);

/// sup |F_n - F| of values in ascending order.
double kolmogorov_distance(std::span<const double> sorted, const Law& law);

/// A^2 = n int (F_n - F)^2 / (F (1 - F)) dF (Anderson and Darling 1952) of values in ascending order; the sum is
/// carried in extended precision with compensation, as n times more than the result cancels. A^2 / n tends to a
/// distance that does not depend on n. Infinite where a value is impossible under the law.
double anderson_darling(std::span<const double> sorted, const Law& law);

/// P(A^2 > a2) under the law, for n -> infinity; relative error below 1e-9. For finite n and p >= 0.001 it is off by
/// less than 0.003 from n = 8 on. The law has to be fully specified: with parameters estimated from the same values it
/// comes out too large.
double anderson_darling_p_value(double a2);

/// One point of a QQ plot.
struct QuantilePoint {
  double probability = 0;
  double theoretical = 0;  ///< standard normal quantile
  double sample = 0;
  double low = 0,
         high = 0;  ///< the law's quantile lies between, for all probabilities at once, except at the DKW level
};
/// Of values in ascending order. Where the band of half width `half_width` reaches past 0 or 1 its end is infinite.
std::vector<QuantilePoint> quantile_points(std::span<const double> sorted, std::span<const double> probabilities,
                                           double half_width);

/// Counts of standardised values z in bins of width 2^-10 over [-40, 40] (what lies beyond counts as the last bin): the
/// distances above in memory that does not grow with the number of values, 640 KiB. Counts add up the same in any
/// order.
class StandardHistogram {
 public:
  StandardHistogram();
  void add(double z) {
    counts_[bin_of(z)] += 1;
    count_ += 1;
  }
  void merge(const StandardHistogram& other);
  double count() const { return static_cast<double>(count_); }

  /// Distance of mean + sd z from the standard normal law. The true supremum is `distance` or above it by at most
  /// `resolution`, the largest share of a bin.
  struct Distance {
    double distance = 0;
    double resolution = 0;
  };
  Distance kolmogorov_distance(double mean = 0, double standard_deviation = 1) const;

  /// A^2 of mean + sd z, with F_n taken as linear in F across a bin: off by less than 0.1 % or 0.001 of the exact one.
  double anderson_darling(double mean = 0, double standard_deviation = 1) const;

  /// The QQ points of z, off by no more than the width of a bin; between the values in a bin by proportion.
  std::vector<QuantilePoint> quantile_points(std::span<const double> probabilities, double half_width) const;

 private:
  static constexpr double kPerUnit = 1024;
  static constexpr double kReach = 40;
  static constexpr std::size_t kBins = 81920;

  static std::size_t bin_of(double z) {
    const double place = (z + kReach) * kPerUnit;
    if (!(place > 0)) return 0;
    return place < static_cast<double>(kBins) ? static_cast<std::size_t>(place) : kBins - 1;
  }
  static double edge(std::size_t bin) { return static_cast<double>(bin) / kPerUnit - kReach; }
  double quantile(const std::vector<std::int64_t>& below, double rank) const;

  std::vector<std::int64_t> counts_;
  std::int64_t count_ = 0;
};

/// Probabilities for a QQ plot: evenly spaced in normal quantiles from the one of 1/(2n) to its mirror image.
std::vector<double> plot_probabilities(double n, std::size_t points);

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_MARGINALS_HPP
