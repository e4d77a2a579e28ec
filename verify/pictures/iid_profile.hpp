// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_PICTURES_IID_PROFILE_HPP
#define SIATTN_VERIFY_PICTURES_IID_PROFILE_HPP

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <siattn/logit_transform.hpp>

#include "verify/range_sampling.hpp"

/// Where the attention of one query falls when its base logits are independent standard normal: sampled for several
/// methods and sequence lengths, the same base logits for all of them.
///
/// The mean weight of a token is rare and large draws, which few repetitions hold. So it is estimated with the tilt
/// (reference/equations.hpp): E[A~ / (A~ + rest)] = E[A~] E[1 / (A~ exp(a^2) + rest)], where `rest` is independent of
/// A~, and A~ exp(a^2) has the law of A~ weighted by itself.
namespace siattn::verify {

struct ProfileMethod {
  std::string name;
  LogitTransform transform;
  int style = 0;
};

/// None, LogN (s = 0.4), scale-invariant (tau = 10), ALiBi (slope 1/16, the middle one of 8 heads): Fig. 1 and one
/// more.
std::vector<ProfileMethod> compared_methods();

/// Means over the repetitions, for one method and one length N, with their standard errors.
struct LengthProfile {
  Estimate entropy;                                   ///< of all weights, nats
  Estimate outer_decade_entropy;                      ///< within [N/10, N), nats; NaN for N < 10
  Estimate last_100;                                  ///< sum of the weights at t < 100
  std::vector<Estimate> mass;                         ///< of each interval between edges: sum of its weights
  std::vector<Estimate> decade_mass, decade_entropy;  ///< of t = 0, [1, 10), [10, 100), ..
};

struct IidProfile {
  std::vector<std::int64_t> edges;   ///< 0, 1, 2, 3, .., 10, 13, .., 100, .., the longest: eight or so a decade
  std::vector<std::size_t> lengths;  ///< places in edges: the query sees edges[lengths[j]] keys
  std::size_t repetitions = 0;
  std::vector<ProfileMethod> methods;
  std::vector<std::vector<LengthProfile>> profiles;  ///< [method][length]

  std::int64_t length(std::size_t j) const { return edges[lengths[j]]; }
};

/// longest: a power of ten, at least 100. A millisecond or two for each repetition at 1e5, on one thread more. The
/// numbers depend on the arguments alone, never on the number of threads.
IidProfile sample_iid_profile(std::vector<ProfileMethod> methods, std::int64_t longest, std::size_t repetitions,
                              std::uint64_t seed);

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_PICTURES_IID_PROFILE_HPP
