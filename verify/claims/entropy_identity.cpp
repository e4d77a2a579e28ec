// SPDX-License-Identifier: Apache-2.0
#include "verify/claims/list.hpp"
#include "verify/claims/support.hpp"
#include "verify/random.hpp"

namespace siattn::verify {
namespace {

using namespace reference;

constexpr std::array<std::string_view, 2> kWrong = {"Eq. 8 as printed: H = -N~/Z - log Z", "H = -N~/Z"};

template <class Real>
Real rewritten(std::size_t variant, const Real& z, const Real& n) {
  switch (variant) {
    case 1: return -n / z - log(z);
    case 2: return -n / z;
    default: return entropy(z, n);
  }
}

/// Logits with everything that a row can hold: one key, equal keys, weights that differ by e^100.
Measurement measure(const ClaimOptions& options, std::size_t variant) {
  Worst worst;
  const Random random(options.seed, 0);
  std::uint64_t drawn_so_far = 0;
  std::vector<std::size_t> lengths = {1, 2, 7, 100, 1000};
  if (options.full) lengths.push_back(10000);
  for (const std::size_t n : lengths) {
    for (const double spread : {0.0, 1.0, 100.0}) {
      std::vector<double> drawn(n);
      for (double& l : drawn) l = -3 + spread * (2 * random.uniform(drawn_so_far++) - 1);
      worst.see_identity(
          [&]<class Real>(const Real&) {
            const std::vector<Real> logits(drawn.begin(), drawn.end());
            const std::span<const Real> all(logits);
            const Real z = total_attention(all);
            const Real negentropy = unnormalised_negentropy(all);
            // H itself is 0 for one key: its parts are what rounding is relative to.
            const Real size = 1 + abs(log(z)) + abs(negentropy / z);
            return Sides<Real>{rewritten(variant, z, negentropy), entropy_by_definition(all), size};
          },
          [&] { return fmt::format("{} logits within {} of -3", n, spread); });
    }
  }
  return std::move(worst).result();
}

}  // namespace

constinit const Claim kEntropyIdentity = {
    .id = "entropy-identity",
    .title = "Entropy of a range from Z and N~",
    .reference = "Eq. 6, 7",
    .statement =
        "H = -N~/Z + log Z equals -sum A_t log A_t for any logits; Eq. 8 prints the sign of log Z as minus, "
        "which is a slip.",
    .method = Method::exact,
    .threshold = 1e-45,
    .threshold_reason = "three sums of n <= 1e4 terms in turn lose at most 4 n u = 1.1e-46 of their size, u = 2.7e-51",
    .wrong_variants = kWrong,
    .measure = measure,
};

}  // namespace siattn::verify
