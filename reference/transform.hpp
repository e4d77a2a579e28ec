// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_REFERENCE_TRANSFORM_HPP
#define SIATTN_REFERENCE_TRANSFORM_HPP

#include <cstdint>
#include <variant>
#include <vector>

#include <siattn/attention.hpp>

#include "reference/equations.hpp"

/// A LogitTransform for one problem, evaluated from its equations: L = row_factor * scale * S + shift, natural log, S
/// with softmax_scale already in it. Only a valid transform has meaning here; see dispatch/validate.hpp.
namespace siattn::reference {

/// Which of a method's three terms differ from head to head; and whether it has a row factor at all.
struct Dependence {
  bool scale = false;
  bool shift = false;
  bool row_factor = false;
  bool has_row_factor = false;
};

inline bool differs_by_head(const PerHead& per_head) { return per_head.values.size() > 1; }

/// What a method leaves alone: L = S.
template <class Real>
struct Untransformed {
  Dependence dependence() const { return {}; }
  /// a_t for query head h at distance t >= 0.
  Real scale(std::int64_t /*h*/, std::int64_t /*t*/) const { return Real(1); }
  /// m_t for query head h at distance t >= 0.
  Real shift(std::int64_t /*h*/, std::int64_t /*t*/) const { return Real(0); }
  /// r for a query of head h that sees n >= 1 keys.
  Real row_factor(std::int64_t /*h*/, std::int64_t /*n*/) const { return Real(1); }
};

/// One specialisation for each entry of LogitTransform, made from it and the shape of the problem.
template <class T, class Real>
struct Method;

template <class Real>
struct Method<NoTransform, Real> : Untransformed<Real> {
  Method(const NoTransform&, const AttentionShape&) {}
};

template <class Real>
struct Method<ScaleInvariant, Real> : Untransformed<Real> {
  Method(const ScaleInvariant& transform, const AttentionShape& /*shape*/) : per_head(differs_by_head(transform.tau)) {
    for (std::size_t h = 0; h < transform.tau.values.size(); ++h) {
      parameters.push_back(parameters_of<Real>(transform, h));
    }
  }
  Dependence dependence() const { return {.scale = per_head, .shift = per_head}; }
  Real scale(std::int64_t h, std::int64_t t) const { return reference::scale(Real(t), of(h)); }
  Real shift(std::int64_t h, std::int64_t t) const { return reference::shift(Real(t), of(h)); }

  const ScaleInvariantParameters<Real>& of(std::int64_t h) const {
    return parameters[parameters.size() == 1 ? 0 : static_cast<std::size_t>(h)];
  }

  bool per_head;
  std::vector<ScaleInvariantParameters<Real>> parameters;  ///< one, or one for each query head
};

template <class Real>
struct Method<LogN, Real> : Untransformed<Real> {
  Method(const LogN& transform, const AttentionShape&) : factor(transform.scale) {}
  Dependence dependence() const { return {.row_factor = differs_by_head(factor), .has_row_factor = true}; }
  Real row_factor(std::int64_t h, std::int64_t n) const {
    return logn_factor(Real(factor.at(static_cast<std::size_t>(h))), Real(n));
  }

  PerHead factor;
};

template <class Real>
struct Method<InfoScale, Real> : Untransformed<Real> {
  Method(const InfoScale& transform, const AttentionShape& shape)
      : train_length(transform.train_length), head_dim(shape.head_dim) {}
  Dependence dependence() const { return {.has_row_factor = true}; }
  Real row_factor(std::int64_t /*h*/, std::int64_t n) const {
    return infoscale_factor(Real(n), train_length, head_dim);
  }

  Real train_length;
  Real head_dim;
};

template <class Real>
struct Method<Alibi, Real> : Untransformed<Real> {
  Method(const Alibi& transform, const AttentionShape& shape) {
    const auto heads = static_cast<int>(shape.query_heads);
    per_head = transform.slopes.values.size() != 1;
    for (int h = 0; h < (per_head ? heads : 1); ++h) {
      slopes.push_back(transform.slopes.values.empty() ? alibi_slope<Real>(h, heads)
                                                       : Real(transform.slopes.at(static_cast<std::size_t>(h))));
    }
  }
  Dependence dependence() const { return {.shift = per_head}; }
  Real shift(std::int64_t h, std::int64_t t) const {
    return alibi_shift(slopes[per_head ? static_cast<std::size_t>(h) : 0], Real(t));
  }

  bool per_head;
  std::vector<Real> slopes;  ///< one, or one for each query head
};

template <class Real>
class Transform {
 public:
  Transform(const LogitTransform& transform, const AttentionShape& shape)
      : method_(std::visit([&shape](const auto& t) { return Any(make(t, shape)); }, transform)) {}

  Dependence dependence() const {
    return std::visit([](const auto& m) { return m.dependence(); }, method_);
  }
  Real scale(std::int64_t h, std::int64_t t) const {
    return std::visit([h, t](const auto& m) { return m.scale(h, t); }, method_);
  }
  Real shift(std::int64_t h, std::int64_t t) const {
    return std::visit([h, t](const auto& m) { return m.shift(h, t); }, method_);
  }
  /// 1 for a query that sees no key.
  Real row_factor(std::int64_t h, std::int64_t n) const {
    if (n < 1) return Real(1);
    return std::visit([h, n](const auto& m) { return m.row_factor(h, n); }, method_);
  }

 private:
  template <class T>
  static Method<T, Real> make(const T& transform, const AttentionShape& shape) {
    return {transform, shape};
  }

  template <class Variant>
  struct MethodsOf;
  template <class... T>
  struct MethodsOf<std::variant<T...>> {
    using type = std::variant<Method<T, Real>...>;
  };
  using Any = typename MethodsOf<LogitTransform>::type;

  Any method_;
};

}  // namespace siattn::reference

#endif  // SIATTN_REFERENCE_TRANSFORM_HPP
