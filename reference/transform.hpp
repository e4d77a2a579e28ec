// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_REFERENCE_TRANSFORM_HPP
#define SIATTN_REFERENCE_TRANSFORM_HPP

#include <cstdint>
#include <vector>

#include <siattn/attention.hpp>

#include "reference/equations.hpp"

namespace siattn::reference {

/// A LogitTransform for one problem, evaluated from its equations: L = row_factor * scale * S + shift, natural log,
/// S with softmax_scale already in it. Only a valid transform has meaning here; see dispatch/validate.hpp.
template <class Real>
class Transform {
 public:
  Transform(const LogitTransform& transform, const AttentionShape& shape)
      : transform_(transform), heads_(shape.query_heads), head_dim_(Real(shape.head_dim)) {
    if (const auto* t = std::get_if<ScaleInvariant>(&transform_)) {
      for (std::int64_t h = 0; h < heads_; ++h)
        parameters_.push_back(parameters_of<Real>(*t, static_cast<std::size_t>(h)));
    }
  }

  /// a_t for query head h at distance t >= 0.
  Real scale(std::int64_t h, std::int64_t t) const {
    if (std::holds_alternative<ScaleInvariant>(transform_)) return reference::scale(Real(t), of_head(h));
    return Real(1);
  }

  /// m_t for query head h at distance t >= 0.
  Real shift(std::int64_t h, std::int64_t t) const {
    if (std::holds_alternative<ScaleInvariant>(transform_)) return reference::shift(Real(t), of_head(h));
    if (const auto* alibi = std::get_if<Alibi>(&transform_)) {
      const Real slope = alibi->slopes.values.empty() ? alibi_slope<Real>(static_cast<int>(h), static_cast<int>(heads_))
                                                      : Real(alibi->slopes.at(static_cast<std::size_t>(h)));
      return alibi_shift(slope, Real(t));
    }
    return Real(0);
  }

  /// r for a query of head h that sees n keys; 1 where it sees none.
  Real row_factor(std::int64_t h, std::int64_t n) const {
    if (n < 1) return Real(1);
    if (const auto* t = std::get_if<LogN>(&transform_)) {
      return logn_factor(Real(t->scale.at(static_cast<std::size_t>(h))), Real(n));
    }
    if (const auto* t = std::get_if<InfoScale>(&transform_)) {
      return infoscale_factor(Real(n), Real(t->train_length), head_dim_);
    }
    return Real(1);
  }

 private:
  const ScaleInvariantParameters<Real>& of_head(std::int64_t h) const {
    return parameters_[static_cast<std::size_t>(h)];
  }

  LogitTransform transform_;
  std::int64_t heads_;
  Real head_dim_;
  std::vector<ScaleInvariantParameters<Real>> parameters_;  ///< by query head
};

}  // namespace siattn::reference

#endif  // SIATTN_REFERENCE_TRANSFORM_HPP
