// SPDX-License-Identifier: Apache-2.0
#include "verify/claims/list.hpp"
#include "verify/claims/support.hpp"

namespace siattn::verify {
namespace {

using namespace reference;

constexpr std::array kPlants = {Plant::none,        Plant::no_shift, Plant::tau_off,
                                Plant::no_constant, Plant::logn,     Plant::no_scaling};
constexpr auto kWrong = wrong_names(kPlants);

Measurement measure(const ClaimOptions& options, std::size_t variant) {
  Worst worst;
  for (const ScaleInvariant& setting : settings(options.full)) {
    for (const double t : distances(options.full)) {
      const auto where = [&](const char* which) {
        return [&setting, t, which] { return fmt::format("{} at t = {:g}, {}", which, t, text_of(setting)); };
      };
      worst.see_identity(
          [&]<class Real>(const Real&) {
            const auto p = parameters_of<Real>(setting);
            const auto [a, m] = transform_at<Real>(kPlants[variant], t, p);
            return sides(mean_weight(a, m), target_mean<Real>(t, p));
          },
          where("first equation"));
      worst.see_identity(
          [&]<class Real>(const Real&) {
            const auto p = parameters_of<Real>(setting);
            const auto [a, m] = transform_at<Real>(kPlants[variant], t, p);
            return sides(mean_weight_log(a, m), target_mean_log<Real>(t, p));
          },
          where("second equation"));
    }
  }
  return std::move(worst).result();
}

}  // namespace

constinit const Claim kTransformSolves = {
    .id = "transform-solves",
    .title = "Eq. 16 solves Eq. 15",
    .reference = "Eq. 15, 16",
    .statement =
        "exp(m_t + a_t^2/2) = alpha/(t/tau + 1) and (m_t + a_t^2) exp(m_t + a_t^2/2) = beta/(t/tau + 1) for "
        "every t >= 0, tau, alpha > 0 and beta >= alpha log(alpha).",
    .method = Method::exact,
    .threshold = 1e-46,
    .threshold_reason =
        "m_t and a_t^2 reach 1400, so the exponent is good to 3000 u and m_t + a_t^2, at least 0.5 here, "
        "to 6000 u: together 2.4e-47, u = 2.7e-51",
    .wrong_variants = kWrong,
    .measure = measure,
};

}  // namespace siattn::verify
