// SPDX-License-Identifier: Apache-2.0
#include "verify/claims/list.hpp"
#include "verify/claims/support.hpp"

namespace siattn::verify {
namespace {

using namespace reference;

constexpr std::array<std::string_view, 4> kWrong = {"alpha = beta = 1", "alpha = e^(1/2), beta = 1.5",
                                                    "alpha = beta = e^(1/2) (1 + 1e-6)",
                                                    "m_t + a_t^2 = alpha/beta in place of beta/alpha"};

ScaleInvariant setting_of(std::size_t variant, double tau) {
  switch (variant) {
    case 1: return {tau, 1, 1};
    case 2: return {tau, kSqrtE, 1.5};
    case 3: return {tau, kSqrtE * (1 + 1e-6), kSqrtE * (1 + 1e-6)};
    default: return {tau, kSqrtE, kSqrtE};
  }
}

/// a_0 = 1 and m_0 = 0 without any error, in double too: a local token is left as it is, to the bit.
template <class Real>
void see_local_token(Worst& worst, const ScaleInvariant& setting, std::string_view precision) {
  using std::abs;
  const auto p = parameters_of<Real>(setting);
  const auto where = [&] { return fmt::format("t = 0 in {}, {}", precision, text_of(setting)); };
  worst.see(abs(Real(scale(Real(0), p) - 1)), where);
  worst.see(abs(shift(Real(0), p)), where);
}

Measurement measure(const ClaimOptions& options, std::size_t variant) {
  Worst worst;
  for (const double tau : {1e-290, 1e-3, 0.5, 1.0, 10.0, 4096.0, 1e300}) {
    const ScaleInvariant setting = setting_of(variant, tau);
    see_local_token<double>(worst, setting, "double");
    see_local_token<Real50>(worst, setting, "50 digits");
    see_local_token<Real100>(worst, setting, "100 digits");
  }
  for (const ScaleInvariant& setting : settings(options.full)) {
    for (const double t : distances(options.full)) {
      worst.see_identity(
          [&]<class Real>(const Real&) {
            const auto p = parameters_of<Real>(setting);
            const Real a = scale<Real>(t, p);
            const Real expected = variant == 4 ? p.alpha / p.beta : p.beta / p.alpha;
            return sides<Real>(shift<Real>(t, p) + a * a, expected);
          },
          [&] { return fmt::format("m_t + a_t^2 at t = {:g}, {}", t, text_of(setting)); });
    }
  }
  return std::move(worst).result();
}

}  // namespace

constinit const Claim kBoundaryCondition = {
    .id = "boundary-condition",
    .title = "a_0 = 1, m_0 = 0: local unscaled",
    .reference = "Eq. 16, Sec. 3",
    .statement =
        "alpha = beta = e^(1/2) gives a_0 = 1 and m_0 = 0 exactly, at every precision, and m_t + a_t^2 = "
        "beta/alpha for every t. No other alpha, beta do: beta/alpha = a_0^2 + m_0 = 1, log alpha = 1/2.",
    .method = Method::exact,
    .threshold = 1e-46,
    .threshold_reason =
        "m_t and a_t^2 up to 1400 cancel to beta/alpha >= 0.5: 6000 u = 1.6e-47, u = 2.7e-51; in double "
        "any error at t = 0 would be 1e-16 or more",
    .wrong_variants = kWrong,
    .measure = measure,
};

}  // namespace siattn::verify
