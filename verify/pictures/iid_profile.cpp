// SPDX-License-Identifier: Apache-2.0
#include "verify/pictures/iid_profile.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "reference/equations.hpp"
#include "verify/random.hpp"

namespace siattn::verify {
namespace {

constexpr std::uint32_t kStream = 0x50494301;  // of random numbers: no other sampler's
constexpr int kPerDecade = 8;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Sums {
  double z = 0, n = 0;  // Eq. 4, Eq. 7

  Sums& operator+=(const Sums& other) {
    z += other.z;
    n += other.n;
    return *this;
  }
  double entropy() const { return z > 0 ? reference::entropy(z, n) : kNan; }
};

/// Whose map does not depend on how many keys there are.
bool same_for_all_lengths(const LogitTransform& transform) { return !std::holds_alternative<LogN>(transform); }

/// The quantities of a LengthProfile, one after the other, for one repetition.
using Row = std::vector<double>;

/// The map of one method at each distance, with what its tilt needs.
struct MapTable {
  std::vector<double> a, m, mean, tilt;  // mean = E[A~], tilt = exp(a^2)

  MapTable(const LogitTransform& transform, std::int64_t keys) {
    for (std::int64_t t = 0; t < keys; ++t) {
      const AffineMap map = affine_map(transform, static_cast<double>(t), static_cast<double>(keys));
      a.push_back(map.a);
      m.push_back(map.m);
      mean.push_back(reference::mean_exp(map.m, map.a));
      tilt.push_back(std::exp(map.a * map.a));
    }
  }
};

class Sampler {
 public:
  Sampler(const IidProfile& profile, std::uint64_t seed) : profile_(profile), random_(seed, kStream) {
    for (const ProfileMethod& method : profile.methods) {
      tables_.emplace_back();
      for (const std::size_t end : profile.lengths) {
        const bool last = end + 1 == profile.edges.size();
        if (last || !same_for_all_lengths(method.transform))
          tables_.back().emplace_back(method.transform, profile.edges[end]);
      }
    }
    for (std::int64_t last = 1; last <= profile.edges.back(); last *= 10) decades_.push_back(edge_of(last));
  }

  /// [method][length] of one repetition.
  std::vector<std::vector<Row>> draw(std::size_t repetition) const {
    const auto longest = static_cast<std::size_t>(profile_.edges.back());
    std::vector<double> base(longest), weights(longest);  // an even number
    for (std::size_t t = 0; t < longest; t += 2) {
      const auto pair = random_.gaussian_pair((repetition * longest + t) / 2);
      base[t] = pair[0];
      base[t + 1] = pair[1];
    }
    std::vector<std::vector<Row>> rows(profile_.methods.size());
    for (std::size_t k = 0; k < rows.size(); ++k) {
      const bool once = tables_[k].size() == 1;
      std::vector<Sums> sums;
      if (once) sums = weigh(tables_[k].front(), base, profile_.edges.size() - 1, weights);
      for (std::size_t j = 0; j < profile_.lengths.size(); ++j) {
        const MapTable& table = tables_[k][once ? 0 : j];
        if (!once) sums = weigh(table, base, profile_.lengths[j], weights);
        rows[k].push_back(row(sums, table, weights, profile_.lengths[j]));
      }
    }
    return rows;
  }

 private:
  std::size_t edge_of(std::int64_t t) const {
    return static_cast<std::size_t>(std::lower_bound(profile_.edges.begin(), profile_.edges.end(), t) -
                                    profile_.edges.begin());
  }
  std::size_t edge(std::size_t k) const { return static_cast<std::size_t>(profile_.edges[k]); }

  /// A~ of each distance up to edges[end]; returned: Z and N~ of each interval.
  std::vector<Sums> weigh(const MapTable& table, const std::vector<double>& base, std::size_t end,
                          std::vector<double>& weights) const {
    std::vector<Sums> list(end);
    for (std::size_t k = 0; k < end; ++k) {
      for (std::size_t t = edge(k); t < edge(k + 1); ++t) {
        const double logit = table.a[t] * base[t] + table.m[t];
        weights[t] = std::exp(logit);
        list[k].z += weights[t];
        list[k].n += weights[t] * logit;
      }
    }
    return list;
  }

  /// The expected weight of interval k where everything sums to z, from up to 256 or so of its distances.
  double tilted_mass(std::size_t k, double z, const MapTable& table, const std::vector<double>& weights) const {
    const std::size_t count = edge(k + 1) - edge(k), stride = count / 256 + 1;
    double sum = 0, taken = 0;
    for (std::size_t t = edge(k); t < edge(k + 1); t += stride) {
      sum += table.mean[t] / (weights[t] * table.tilt[t] + (z - weights[t]));
      ++taken;
    }
    return sum * static_cast<double>(count) / taken;
  }

  Row row(const std::vector<Sums>& intervals, const MapTable& table, const std::vector<double>& weights,
          std::size_t end) const {
    const auto over = [&](std::size_t first, std::size_t last) {
      Sums sum;
      for (std::size_t k = first; k < last; ++k) sum += intervals[k];
      return sum;
    };
    const Sums all = over(0, end);
    const std::int64_t length = profile_.edges[end];
    // Edges are whole numbers, so N/10 is met to within one of them.
    const std::size_t tenth = edge_of(length / 10);
    Row out = {all.entropy(), length < 10 ? kNan : over(tenth, end).entropy(),
               over(0, std::min(end, edge_of(100))).z / all.z};
    std::vector<double> mass;
    for (std::size_t k = 0; k < end; ++k) mass.push_back(tilted_mass(k, all.z, table, weights));
    out.insert(out.end(), mass.begin(), mass.end());
    const auto each_decade = [&](auto quantity) {
      for (std::size_t d = 0; d < decades_.size() && decades_[d] <= end; ++d) {
        out.push_back(quantity(d == 0 ? 0 : decades_[d - 1], decades_[d]));
      }
    };
    each_decade([&](std::size_t first, std::size_t last) {
      return std::accumulate(mass.begin() + static_cast<std::ptrdiff_t>(first),
                             mass.begin() + static_cast<std::ptrdiff_t>(last), 0.0);
    });
    each_decade([&](std::size_t first, std::size_t last) { return over(first, last).entropy(); });
    return out;
  }

  const IidProfile& profile_;
  Random random_;
  std::vector<std::vector<MapTable>> tables_;  // [method][length], or one for all lengths
  std::vector<std::size_t> decades_;           // places of 1, 10, 100, .. in edges
};

/// Mean and standard error of many quantities at once (Welford).
struct RowMoments {
  std::vector<double> mean, squares;
  double count = 0;

  void add(const Row& row) {
    mean.resize(row.size());
    squares.resize(row.size());
    ++count;
    for (std::size_t k = 0; k < row.size(); ++k) {
      const double off = row[k] - mean[k];
      mean[k] += off / count;
      squares[k] += off * (row[k] - mean[k]);
    }
  }
  Estimate at(std::size_t k) const { return {mean[k], std::sqrt(squares[k] / (count - 1) / count)}; }
};

LengthProfile unpacked(const RowMoments& moments, std::size_t intervals) {
  LengthProfile profile{moments.at(0), moments.at(1), moments.at(2), {}, {}, {}};
  const std::size_t decades = (moments.mean.size() - 3 - intervals) / 2;
  for (std::size_t k = 0; k < intervals; ++k) profile.mass.push_back(moments.at(3 + k));
  for (std::size_t d = 0; d < decades; ++d) {
    profile.decade_mass.push_back(moments.at(3 + intervals + d));
    profile.decade_entropy.push_back(moments.at(3 + intervals + decades + d));
  }
  return profile;
}

void set_grid(IidProfile& profile, std::int64_t longest) {
  profile.edges = {0};
  for (int k = 0; profile.edges.back() < longest; ++k) {
    const std::int64_t edge = std::llround(std::pow(10.0, static_cast<double>(k) / kPerDecade));
    if (edge == profile.edges.back()) continue;
    profile.edges.push_back(edge);
    // Every other edge, so that LogN, which needs a pass for each length, costs little.
    if (k % 2 == 0 && edge > 1) profile.lengths.push_back(profile.edges.size() - 1);
  }
}

}  // namespace

std::vector<ProfileMethod> compared_methods() {
  return {{"none", NoTransform{}, 0},
          {"LogN, s = 0.4", LogN{.scale = 0.4}, 1},
          {"scale-invariant, τ = 10", ScaleInvariant{.tau = 10.0}, 2},
          {"ALiBi, slope 1/16", Alibi{.slopes = 1.0 / 16}, 3}};
}

IidProfile sample_iid_profile(std::vector<ProfileMethod> methods, std::int64_t longest, std::size_t repetitions,
                              std::uint64_t seed) {
  if (repetitions < 2) throw std::invalid_argument("a standard error needs two repetitions");
  IidProfile profile;
  profile.methods = std::move(methods);
  profile.repetitions = repetitions;
  set_grid(profile, longest);
  const Sampler sampler(profile, seed);
  std::vector<std::vector<RowMoments>> moments(profile.methods.size(), std::vector<RowMoments>(profile.lengths.size()));
  // Drawn on all threads, added in their order: so the number of threads changes no bit.
  constexpr std::size_t kAtOnce = 32;
  for (std::size_t first = 0; first < repetitions; first += kAtOnce) {
    std::vector<std::vector<std::vector<Row>>> drawn(std::min(kAtOnce, repetitions - first));
#pragma omp parallel for schedule(dynamic)
    for (std::size_t r = 0; r < drawn.size(); ++r) drawn[r] = sampler.draw(first + r);
    for (const auto& one : drawn) {
      for (std::size_t k = 0; k < moments.size(); ++k) {
        for (std::size_t j = 0; j < moments[k].size(); ++j) moments[k][j].add(one[k][j]);
      }
    }
  }
  for (const auto& of_method : moments) {
    profile.profiles.emplace_back();
    for (std::size_t j = 0; j < of_method.size(); ++j) {
      profile.profiles.back().push_back(unpacked(of_method[j], profile.lengths[j]));
    }
  }
  return profile;
}

}  // namespace siattn::verify
