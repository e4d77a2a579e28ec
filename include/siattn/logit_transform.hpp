// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_LOGIT_TRANSFORM_HPP
#define SIATTN_LOGIT_TRANSFORM_HPP

#include <initializer_list>
#include <utility>
#include <variant>
#include <vector>

#include <siattn/export.h>

/// The methods the library knows, each an affine map of the scaled score S = softmax_scale * <q, k>:
///
///     L = r a_t S + m_t          natural-log units; t = query position - key position (|t| when bidirectional)
///
/// with a_t and m_t by distance (shared or per head) and r by query row, a function of how many keys that row sees. A
/// Calibration puts (S - mean) / standard_deviation in place of S, which is such a map again.
/// A transform is compiled once, when an attention problem is planned, into plain tables of a, m and r
/// (see backend.hpp): kernels never see these types.
namespace siattn SIATTN_EXPORT {

/// One value for all query heads, or one for each.
struct PerHead {
  std::vector<double> values;

  PerHead() = default;
  PerHead(double value) : values{value} {}  // NOLINT(google-explicit-constructor)
  PerHead(std::initializer_list<double> list) : values(list) {}
  PerHead(std::vector<double> list) : values(std::move(list)) {}  // NOLINT(google-explicit-constructor)

  double at(std::size_t head) const { return values.size() == 1 ? values[0] : values[head]; }
  bool operator==(const PerHead&) const = default;
};

/// L = S: plain softmax attention.
struct NoTransform {
  bool operator==(const NoTransform&) const = default;
};

/// The double nearest to e^(1/2). As alpha and beta of ScaleInvariant it stands for the exact number, so that the
/// boundary condition a_0 = 1, m_0 = 0 holds exactly at every precision.
inline constexpr double kSqrtE = 1.6487212707001281468;

/// Scale-invariant attention (Anson, Wang, Aitchison, NeurIPS 2025, Eq. 16):
///
///     a_t = sqrt(2 [log(t/tau + 1) - log(alpha) + beta/alpha]),     m_t = -a_t^2 + beta/alpha
///
/// With the default alpha = beta = e^(1/2): a_t = sqrt(1 + 2 log(1 + t/tau)), m_t = -2 log(1 + t/tau).
/// Valid when 1e-290 <= tau < inf, alpha > 0, beta > 0 and beta >= alpha log(alpha).
struct ScaleInvariant {
  PerHead tau = 10.0;     ///< The length, in tokens, over which attention counts as local (App. H: 10).
  double alpha = kSqrtE;  ///< E[exp(L_t)] = alpha / (t/tau + 1), Eq. 12.
  double beta = kSqrtE;   ///< E[exp(L_t) L_t] = beta / (t/tau + 1), Eq. 13.

  bool operator==(const ScaleInvariant&) const = default;
};

/// LogN scaling, also known as SSMax (Nakanishi 2025): L = s log(n) S, n = number of keys that the query sees.
struct LogN {
  PerHead scale = 0.4;  ///< s, finite; learned per head in SSMax, 0.4 in Fig. 1 of the paper.

  bool operator==(const LogN&) const = default;
};

/// InfoScale (Li et al. 2025): L = S sqrt(1 - n^(-2/d)) / sqrt(1 - n_train^(-2/d)), n = number of keys that the query
/// sees, d = head_dim.
struct InfoScale {
  double train_length = 4096;  ///< n_train > 1.

  bool operator==(const InfoScale&) const = default;
};

/// ALiBi (Press et al. 2021): L = S - slope_h t.
struct Alibi {
  PerHead slopes;  ///< Finite; empty: the published rule for this number of heads, see alibi_slopes().

  bool operator==(const Alibi&) const = default;
};

/// Standardises the base logits of each query head before the transform sees them:
///
///     S' = (S - mean_h) / standard_deviation_h,     L = r a_t S' + m_t
///
/// The theory of Eq. 16 takes base logits as standard normal; models without normalised queries and keys have others
/// (`siattn gaussian` measures them). Sinks keep L = S: they are no part of that law. Without sinks a mean alone moves
/// all the logits of a row by the same where a_t is the same for all its keys, and then changes lse only. LogN and
/// InfoScale take no mean but 0: a shift of r a_t mean / standard_deviation would differ from row to row.
struct Calibration {
  PerHead mean = 0.0;                ///< Finite, at most 1e290 standard deviations.
  PerHead standard_deviation = 1.0;  ///< Finite, at least 1e-290.

  bool operator==(const Calibration&) const = default;
};

using LogitTransform = std::variant<NoTransform, ScaleInvariant, LogN, InfoScale, Alibi>;

/// The published slopes: 2^(-8 h / H), h = 1 .. H, for H a power of two; for other H those of the power of two below,
/// then every other slope of twice that power. Empty when heads < 1. Throws std::bad_alloc, as making any vector may.
std::vector<double> alibi_slopes(int heads);

}  // namespace siattn

#endif  // SIATTN_LOGIT_TRANSFORM_HPP
