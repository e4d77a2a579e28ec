// SPDX-License-Identifier: Apache-2.0
// Eq. 14 as the library computes it: the log-sum-exp of a query that sees one key is that key's logit, tables and kernel
// and all.
#include <algorithm>

#include <siattn/attention.hpp>

#include "verify/claims/list.hpp"
#include "verify/claims/p_values.hpp"
#include "verify/random.hpp"
#include "verify/range_sampling.hpp"

namespace siattn::verify {
namespace {

constexpr std::array<std::string_view, 3> kWrong = {"a_t and m_t of distance t + t/4", "m_t = 0",
                                                    "a_t without its constant (no +1 in a_t^2)"};

/// Logits of `count` queries, each with its own standard normal base logit, at distance t from the only key.
std::vector<float> logits_at(std::int64_t t, std::int64_t count, const Random& random, std::uint64_t first) {
  std::vector<float> query(static_cast<std::size_t>(count)), key(query.size(), 1.0F), out(query.size()), lse(query.size());
  for (std::size_t i = 0; i < query.size(); ++i) query[i] = static_cast<float>(random.gaussian(first + i));
  AttentionTensors tensors;
  const Shape4 shape{count, 1, 1, 1};
  tensors.query = {query.data(), shape};
  tensors.key = {key.data(), shape};
  tensors.value = {key.data(), shape};
  tensors.out = {out.data(), shape};
  tensors.lse = {lse.data(), shape};
  AttentionOptions options;
  options.transform = ScaleInvariant{};
  options.softmax_scale = 1;
  options.query_offset = t;
  if (const Status status = attention(tensors, options, {.backend = {}, .threads = 1}); !status) throw std::runtime_error(status.message());
  return lse;
}

/// a_t and m_t that the logits are standardised with.
AffineMap map_of(std::size_t variant, double t) {
  AffineMap map = affine_map(ScaleInvariant{}, variant == 1 ? t + t / 4 : t, 1);
  if (variant == 2) map.m = 0;
  if (variant == 3) map.a = std::sqrt(map.a * map.a - 1);
  return map;
}

Measurement measure(const ClaimOptions& options, std::size_t variant) {
  Comparisons comparisons;
  const Random random(options.seed, 2000);
  const std::int64_t count = options.full ? 400000 : 40000;
  std::vector<double> distances = {0, 10, 1e3, 1e6};
  if (options.full) distances = {0, 1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e9};
  if (variant > 0) distances = {10, 1e6};
  std::uint64_t used = 0;
  for (const double t : distances) {
    const AffineMap map = map_of(variant, t);
    std::vector<double> standardised;
    for (const float logit : logits_at(static_cast<std::int64_t>(t), count, random, used)) {
      standardised.push_back((static_cast<double>(logit) - map.m) / map.a);
    }
    used += static_cast<std::uint64_t>(count);
    std::sort(standardised.begin(), standardised.end());
    const auto where = [t](const char* what) {
      return [t, what] { return fmt::format("{} at t = {:g}", what, t); };
    };
    const auto n = static_cast<double>(count);
    const double distance = kolmogorov_distance(standardised, normal_law());
    comparisons.see(std::min(1.0, 2 * std::exp(-2 * n * distance * distance)), where("largest distance (DKW)"));
    comparisons.see(anderson_darling_p_value(anderson_darling(standardised, normal_law())), where("Anderson-Darling"));
  }
  return std::move(comparisons).result(fmt::format("{} logits at each distance, float32", count));
}

}  // namespace

constinit const Claim kMarginalLogits = {
    .id = "marginal-logits",
    .title = "(L - m_t)/a_t is standard normal",
    .reference = "Eq. 14, 16",
    .statement =
        "Logits that the library computes in float32 from standard normal base logits are N(m_t, a_t^2) at each t, by "
        "the greatest distance of distributions and by Anderson and Darling's test.",
    .method = Method::sampled,
    .threshold = kSampledThreshold,
    .threshold_reason =
        "-log10 of the least chance, each at level 1e-10; with 40000 (full: 400000) logits a law at a distance of 0.031 "
        "(0.0097) is seen with chance 1 - 1e-6",
    .wrong_variants = kWrong,
    .measure = measure,
    .false_alarm = kSampledFalseAlarm,
};

}  // namespace siattn::verify
