// SPDX-License-Identifier: Apache-2.0
#include "verify/pictures/iid_profile.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
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

class Sampler {
 public:
  Sampler(const IidProfile& profile, std::uint64_t seed) : profile_(profile), random_(seed, kStream) {
    const std::int64_t longest = profile.edges.back();
    for (const ProfileMethod& method : profile.methods) {
      maps_.emplace_back();
      for (std::int64_t t = 0; t < longest; ++t) {
        maps_.back().push_back(affine_map(method.transform, static_cast<double>(t), static_cast<double>(longest)));
      }
    }
    for (std::int64_t last = 1; last <= longest; last *= 10) decades_.push_back(edge_of(last));
  }

  /// [method][length] of one repetition.
  std::vector<std::vector<Row>> draw(std::size_t repetition) const {
    const auto longest = static_cast<std::size_t>(profile_.edges.back());
    std::vector<double> base(longest);  // an even number
    for (std::size_t t = 0; t < longest; t += 2) {
      const auto pair = random_.gaussian_pair((repetition * longest + t) / 2);
      base[t] = pair[0];
      base[t + 1] = pair[1];
    }
    std::vector<std::vector<Row>> rows(profile_.methods.size());
    for (std::size_t k = 0; k < rows.size(); ++k) {
      const bool once = same_for_all_lengths(profile_.methods[k].transform);
      const std::vector<Sums> all = once ? sums(k, base, profile_.edges.size() - 1, 1) : std::vector<Sums>{};
      for (const std::size_t end : profile_.lengths) {
        rows[k].push_back(row(once ? all : sums(k, base, end, logn_ratio(k, end)), end));
      }
    }
    return rows;
  }

 private:
  std::size_t edge_of(std::int64_t t) const {
    return static_cast<std::size_t>(std::lower_bound(profile_.edges.begin(), profile_.edges.end(), t) -
                                    profile_.edges.begin());
  }

  /// What the factor of a query that sees edges[end] keys is of the one in the table, which is for the longest.
  double logn_ratio(std::size_t method, std::size_t end) const {
    const double a = affine_map(profile_.methods[method].transform, 0, static_cast<double>(profile_.edges[end])).a;
    return a / maps_[method].front().a;
  }

  /// Z and N~ of each interval up to edges[end].
  std::vector<Sums> sums(std::size_t method, const std::vector<double>& base, std::size_t end, double factor) const {
    std::vector<Sums> list(end);
    const std::vector<AffineMap>& maps = maps_[method];
    for (std::size_t k = 0; k < end; ++k) {
      for (auto t = static_cast<std::size_t>(profile_.edges[k]); t < static_cast<std::size_t>(profile_.edges[k + 1]);
           ++t) {
        const double logit = maps[t].a * factor * base[t] + maps[t].m;
        const double weight = std::exp(logit);
        list[k].z += weight;
        list[k].n += weight * logit;
      }
    }
    return list;
  }

  Row row(const std::vector<Sums>& intervals, std::size_t end) const {
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
    for (std::size_t k = 0; k < end; ++k) out.push_back(intervals[k].z / all.z);
    for (const bool mass : {true, false}) {
      for (std::size_t d = 0; d < decades_.size() && decades_[d] <= end; ++d) {
        const Sums decade = over(d == 0 ? 0 : decades_[d - 1], decades_[d]);
        out.push_back(mass ? decade.z / all.z : decade.entropy());
      }
    }
    return out;
  }

  const IidProfile& profile_;
  Random random_;
  std::vector<std::vector<AffineMap>> maps_;  // [method][t]
  std::vector<std::size_t> decades_;          // places of 1, 10, 100, .. in edges
};

/// Mean and standard error of many quantities at once (Welford).
struct Moments {
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

LengthProfile unpacked(const Moments& moments, std::size_t intervals) {
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
  std::vector<std::vector<Moments>> moments(profile.methods.size(), std::vector<Moments>(profile.lengths.size()));
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
