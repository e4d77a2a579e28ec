// SPDX-License-Identifier: Apache-2.0
#include "verify/claims/list.hpp"
#include "verify/claims/range_law.hpp"

namespace siattn::verify {

constinit const Claim kLemma2 = {
    .id = "lemma-2",
    .title = "Expected N~ of a range",
    .reference = "Lemma 2, Eq. 57",
    .statement =
        "For logits L_t ~ N(m_t, a_t^2), independent or not, E[N~] = beta tau (psi(t2 + tau) - psi(t1 + tau)) over "
        "distances [t1, t2), within App. E's bounds (the upper one where t1 + tau > 1); over [t, t Delta) it "
        "tends to beta tau ln(Delta). t up to 1e300.",
    .method = Method::exact,
    .threshold = kRangeThreshold,
    .threshold_reason = kRangeThresholdReason,
    .wrong_variants = kRangeWrong,
    .measure = [](const ClaimOptions& options,
                  std::size_t variant) { return check_range_law(Quantity::negentropy, options, variant); },
};

}  // namespace siattn::verify
