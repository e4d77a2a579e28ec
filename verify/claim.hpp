// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_CLAIM_HPP
#define SIATTN_VERIFY_CLAIM_HPP

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "verify/report.hpp"

/// The claims of "Scale-invariant attention" (arXiv 2505.17083 v2) as checks that run. One file in claims/ for each.
///
/// How to add one: write claims/NAME.cpp with a `constinit const Claim`, declare it in claims/list.hpp, add it to the
/// list in claims.cpp.
namespace siattn::verify {

/// How a claim is established.
enum class Method : std::uint8_t {
  exact,       ///< two formulas evaluated at 50 and 100 digits, which must agree with each other as well
  certified,   ///< enclosed by interval arithmetic for all inputs of a range at once
  quadrature,  ///< integrals over the density, with a proved bound on the error of integration
  sampled,     ///< random samples, with a stated rate of false alarms
};

std::string_view name_of(Method method) noexcept;

struct ClaimOptions {
  bool full = false;       ///< Denser grids and longer sums; otherwise everything together takes seconds.
  std::uint64_t seed = 1;  ///< For what is drawn at random. Same seed, same results.
};

/// What a run found: the largest deviation from the claim and the input where it was found.
struct Measurement {
  double figure = 0;  ///< NaN counts as a deviation beyond every threshold.
  std::string witness;
  std::string note;  ///< A result worth telling besides; empty: none.
  std::vector<Table> tables = {};
};

/// One claim. It holds only if the deviation as stated is within the threshold *and* each wrong variant's is not: a
/// check that accepts a planted mistake shows nothing.
struct Claim {
  std::string_view id;
  std::string_view title;
  std::string_view reference;
  std::string_view statement;
  Method method;
  double threshold;  ///< Greatest deviation allowed.
  std::string_view threshold_reason;
  std::span<const std::string_view> wrong_variants;  ///< At least one.

  /// variant 0: as stated; k = 1 .. wrong_variants.size(): with wrong_variants[k - 1] planted. The inputs tried when
  /// options.full is not set are among those tried when it is. May throw.
  Measurement (*measure)(const ClaimOptions& options, std::size_t variant);

  /// Chance, over seeds, that the claim as stated is found wrong though it holds. threshold_reason says where it is from.
  double false_alarm = 0;
};

using ClaimResult = CheckResult;

/// Every claim, in the order of the paper.
std::span<const Claim* const> claims() noexcept;

/// Runs a claim and its wrong variants. What a measurement throws becomes Verdict::error. Apart from `seconds` the
/// result depends on nothing but the claim and the options.
ClaimResult run_claim(const Claim& claim, const ClaimOptions& options = {});

struct ClaimProgress {
  std::size_t done;   ///< claims that have ended
  std::size_t count;  ///< claims in all
  const Claim* claim;
  const ClaimResult* result;  ///< nullptr: the claim starts now
};

/// Called twice for each claim, before and after, by one thread at a time. Must not throw.
using ClaimCallback = std::function<void(const ClaimProgress&)>;

/// Runs these claims, as many at a time as OpenMP has threads; what is parallel inside a claim then runs on its thread.
/// The results are in the order of the list and, but for the seconds, do not depend on the number of threads.
std::vector<ClaimResult> run_claims(std::span<const Claim* const> list, const ClaimOptions& options = {},
                                    const ClaimCallback& callback = {});

/// The chance that a run finds any of these wrong though all hold: the sum of theirs.
double false_alarms(std::span<const ClaimResult> results) noexcept;

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_CLAIM_HPP
