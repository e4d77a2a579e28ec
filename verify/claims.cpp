// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>

#include "verify/claim.hpp"
#include "verify/claims/list.hpp"

namespace siattn::verify {
namespace {

bool accepts(const Claim& claim, const Measurement& m) { return m.figure <= claim.threshold; }  // false for NaN

/// The verdict's cause, or the note of a claim that holds.
std::string message_of(const ClaimResult& result, bool stated_holds, const std::string& note) {
  std::string message;
  if (!stated_holds) message = fmt::format("the deviation {:.3g} exceeds {:.3g}", result.figure, result.threshold);
  if (result.wrong_variants.empty()) message += "there is no wrong variant, so the check cannot be seen to fail";
  for (const WrongVariant& wrong : result.wrong_variants) {
    if (wrong.rejected) continue;
    message += fmt::format("{}the wrong variant \"{}\" was accepted (figure {:.3g})", message.empty() ? "" : "; ",
                           wrong.name, wrong.figure);
  }
  return message.empty() ? note : message;
}

void run(const Claim& claim, const ClaimOptions& options, ClaimResult& result) {
  const Measurement stated = claim.measure(options, 0);
  result.figure = stated.figure;
  result.witness = stated.witness;
  result.tables = stated.tables;
  bool holds = accepts(claim, stated) && !claim.wrong_variants.empty();
  for (std::size_t k = 0; k < claim.wrong_variants.size(); ++k) {
    // The quick grid is part of the full one: what is rejected there is rejected on both.
    const Measurement wrong = claim.measure({.full = false, .seed = options.seed}, k + 1);
    const bool rejected = !accepts(claim, wrong);
    result.wrong_variants.push_back({std::string(claim.wrong_variants[k]), wrong.figure, rejected});
    holds = holds && rejected;
  }
  result.verdict = holds ? Verdict::pass : Verdict::fail;
  result.message = message_of(result, accepts(claim, stated), stated.note);
}

}  // namespace

std::string_view name_of(Method method) noexcept {
  switch (method) {
    case Method::exact: return "exact";
    case Method::certified: return "certified";
    case Method::quadrature: return "quadrature";
    case Method::sampled: return "sampled";
  }
  return "?";
}

std::span<const Claim* const> claims() noexcept {
  static constexpr const Claim* list[] = {&kEntropyIdentity, &kGaussianMoments, &kTransformSolves, &kBoundaryCondition,
                                          &kMarginalMeans,   &kHarmonicBounds,  &kLemma1,          &kLemma2,
                                          &kTheorem1,        &kWeakSparsity, &kTypicalTotal, &kSampledRanges, &kSensitivity, &kMarginalLogits, &kDependentLogits, &kNotGaussian, &kGoldenValues,    &kTableRounding,   &kExpEveryFloat,
                                          &kConversions};
  return list;
}

ClaimResult run_claim(const Claim& claim, const ClaimOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  ClaimResult result;
  result.id = claim.id;
  result.title = claim.title;
  result.reference = claim.reference;
  result.statement = claim.statement;
  result.method = name_of(claim.method);
  result.threshold = claim.threshold;
  result.threshold_reason = claim.threshold_reason;
  result.false_alarm = claim.false_alarm;
  try {
    run(claim, options, result);
  } catch (const std::exception& e) {
    result.verdict = Verdict::error;
    result.message = std::string("the check could not be carried out: ") + e.what();
  } catch (...) {
    result.verdict = Verdict::error;
    result.message = "the check could not be carried out";
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

std::vector<ClaimResult> run_claims(std::span<const Claim* const> list, const ClaimOptions& options,
                                    const ClaimCallback& callback) {
  std::vector<ClaimResult> results(list.size());
  std::size_t done = 0;
#pragma omp parallel for schedule(dynamic, 1)
  for (std::size_t i = 0; i < list.size(); ++i) {
#pragma omp critical(siattn_claims)
    if (callback) callback({done, list.size(), list[i], nullptr});
    results[i] = run_claim(*list[i], options);
#pragma omp critical(siattn_claims)
    {
      ++done;
      if (callback) callback({done, list.size(), list[i], &results[i]});
    }
  }
  return results;
}

double false_alarms(std::span<const ClaimResult> results) noexcept {
  double sum = 0;
  for (const ClaimResult& result : results) sum += result.false_alarm;
  return sum;
}

}  // namespace siattn::verify
