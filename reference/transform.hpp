// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_REFERENCE_TRANSFORM_HPP
#define SIATTN_REFERENCE_TRANSFORM_HPP

#include <cstdint>
#include <variant>
#include <vector>

#include <siattn/attention.hpp>

#include "reference/equations.hpp"

/// A LogitTransform and its Calibration for one problem, evaluated from their equations: L = row_factor * scale * S +
/// shift, natural log, S with softmax_scale already in it. Only valid ones have meaning here; see
/// dispatch/validate.hpp.
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
  Transform(const AttentionOptions& options, const AttentionShape& shape)
      : method_(std::visit([&shape](const auto& t) { return Any(make(t, shape)); }, options.transform)),
        calibration_(options.calibration) {
    for (const double mean : calibration_.mean.values) has_mean_ |= mean != 0;
  }

  Dependence dependence() const {
    Dependence result = std::visit([](const auto& m) { return m.dependence(); }, method_);
    result.scale |= differs_by_head(calibration_.standard_deviation);
    result.shift |= has_mean_ && (result.scale || differs_by_head(calibration_.mean));
    return result;
  }
  /// a_t / standard_deviation
  Real scale(std::int64_t h, std::int64_t t) const { return a(h, t) / standard_deviation(h); }
  /// m_t - a_t mean / standard_deviation
  Real shift(std::int64_t h, std::int64_t t) const { return has_mean_ ? m(h, t) - moved(h, t) : m(h, t); }
  /// |m_t| + |a_t mean / standard_deviation|, to which the error of their difference is in proportion; 0 where there is
  /// no mean.
  Real shift_terms(std::int64_t h, std::int64_t t) const {
    using std::abs;
    return has_mean_ ? abs(m(h, t)) + abs(moved(h, t)) : Real(0);
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

  Real a(std::int64_t h, std::int64_t t) const {
    return std::visit([h, t](const auto& method) { return method.scale(h, t); }, method_);
  }
  Real m(std::int64_t h, std::int64_t t) const {
    return std::visit([h, t](const auto& method) { return method.shift(h, t); }, method_);
  }
  Real standard_deviation(std::int64_t h) const {
    return Real(calibration_.standard_deviation.at(static_cast<std::size_t>(h)));
  }
  /// By how much the mean moves a logit.
  Real moved(std::int64_t h, std::int64_t t) const {
    return a(h, t) * (Real(calibration_.mean.at(static_cast<std::size_t>(h))) / standard_deviation(h));
  }

  Any method_;
  Calibration calibration_;
  bool has_mean_ = false;
};

}  // namespace siattn::reference

#endif  // SIATTN_REFERENCE_TRANSFORM_HPP
