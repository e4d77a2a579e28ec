// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <boost/math/quadrature/tanh_sinh.hpp>
#include <boost/math/special_functions/digamma.hpp>
#include <vector>

#include "reference/closed_forms.hpp"
#include "reference/equations.hpp"
#include "reference/real.hpp"

namespace siattn::reference {
namespace {

constexpr double kUnit = 0x1p-53;  // unit roundoff of double

template <class Real>
Real relative_error(const Real& value, const Real& exact) {
  using std::abs;
  return abs(value - exact) / abs(exact);
}

struct Golden {
  double t;
  const char* a;
  const char* m;
};
// tau = 10, alpha = beta = e^(1/2), to 25 significant digits, from another program.
constexpr Golden kGolden[] = {
    {1, "1.091155515776119659939373", "-0.1906203596086497200879042"},
    {100, "2.407444816729293400258778", "-4.795790545596741088123887"},
    {65536, "4.309970387883275512272877", "-17.57584474443071237269689"},
    {1000000, "4.901619215100297599497590", "-23.02587092984045750684158"},
};

template <class Real>
class Precision : public testing::Test {};
using Precisions = testing::Types<double, Real50, Real100>;
TYPED_TEST_SUITE(Precision, Precisions);

TYPED_TEST(Precision, TransformHasItsGoldenValues) {
  using Real = TypeParam;
  // In double 1e-15 is allowed; beyond, half a unit in the 25th digit of the golden value.
  const double allowed = std::is_same_v<Real, double> ? 1e-15 : 5e-25;
  const auto p = parameters_of<Real>(ScaleInvariant{});
  for (const Golden& golden : kGolden) {
    const Real50 a(scale<Real>(golden.t, p));
    const Real50 m(shift<Real>(golden.t, p));
    EXPECT_LE(relative_error(a, Real50(golden.a)), allowed) << "a at t = " << golden.t;
    EXPECT_LE(relative_error(m, Real50(golden.m)), allowed) << "m at t = " << golden.t;
  }
}

TYPED_TEST(Precision, LocalTokenIsUnscaledExactly) {
  using Real = TypeParam;
  for (const double tau : {1e-290, 0.1, 10.0, 1e300}) {
    const auto p = parameters_of<Real>(ScaleInvariant{.tau = tau});
    EXPECT_EQ(scale(Real(0), p), 1);
    EXPECT_EQ(shift(Real(0), p), 0);
  }
}

TYPED_TEST(Precision, TransformMeetsBothConditions) {
  using Real = TypeParam;
  const double allowed =
      100 * static_cast<double>(std::numeric_limits<Real>::epsilon());  // |m| + a^2 <= 70 for t <= 1e12
  for (const ScaleInvariant& s : {ScaleInvariant{}, {0.5, 1, 1}, {3.7, 3, 3.5}, {1000.0, 0.5, 0.25}}) {
    const auto p = parameters_of<Real>(s);
    for (const double t : {0.0, 1.0, 100.0, 1e6, 1e12}) {
      const Real a = scale<Real>(t, p);
      const Real m = shift<Real>(t, p);
      EXPECT_LE(relative_error<Real>(mean_weight(a, m), target_mean<Real>(t, p)), allowed) << t;
      EXPECT_LE(relative_error<Real>(mean_weight_log(a, m), target_mean_log<Real>(t, p)), 4 * allowed) << t;
    }
  }
}

TEST(Parameters, EdgeOfTheValidRegionIsNoNan) {
  for (const double alpha : {kSqrtE, 1.1, 2.0, 10.0, 1e6}) {
    const ScaleInvariant s{1.0, alpha, alpha * std::log(alpha)};
    EXPECT_GE(scale(Real100(0), parameters_of<Real100>(s)), 0) << alpha;
  }
  const ScaleInvariant outside{1.0, 2.0, 2 * std::log(2.0) - 1e-6};
  EXPECT_TRUE(isnan(scale(Real50(0), parameters_of<Real50>(outside)))) << "a_0^2 < 0 must not be hidden";
}

TEST(Parameters, EachHeadHasItsTau) {
  const ScaleInvariant s{.tau = {5.0, 20.0}};
  EXPECT_EQ(parameters_of<double>(s, 0).tau, 5.0);
  EXPECT_EQ(parameters_of<double>(s, 1).tau, 20.0);
}

// ---- properties ----------------------------------------------------------------------------------------------------

rc::Gen<ScaleInvariant> valid_parameters() {
  const auto in_thousandths = [](int low, int high) {
    return rc::gen::map(rc::gen::inRange(low, high), [](int n) { return n / 1000.0; });
  };
  return rc::gen::apply(
      [](double tau, double alpha, double above) {
        const double least = alpha > 1 ? alpha * std::log(alpha) : 0;
        return ScaleInvariant{tau, alpha, least + above};
      },
      in_thousandths(1, 1'000'000), in_thousandths(100, 20'000), in_thousandths(100, 20'000));
}

RC_GTEST_PROP(TransformProperty, ShiftPlusSquaredScaleIsConstant, ()) {
  const auto p = parameters_of<double>(*valid_parameters());
  const double t = *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 31);
  const double a = scale(t, p);
  const double m = shift(t, p);
  RC_ASSERT(std::abs(m + a * a - p.beta / p.alpha) <= 8 * kUnit * (std::abs(m) + a * a + p.beta / p.alpha));
}

RC_GTEST_PROP(TransformProperty, ScaleRisesAndShiftFalls, ()) {
  const auto p = parameters_of<Real50>(*valid_parameters());
  const auto t = *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 31);
  const auto step = *rc::gen::inRange<std::int64_t>(1, 1000);
  RC_ASSERT(scale<Real50>(t, p) < scale<Real50>(t + step, p));
  RC_ASSERT(shift<Real50>(t, p) > shift<Real50>(t + step, p));
}

RC_GTEST_PROP(ClosedFormProperty, EqualsTheSum, ()) {
  const auto p = parameters_of<double>(*valid_parameters());
  const auto t1 = *rc::gen::inRange<std::int64_t>(0, 1'000'000);
  const auto n = *rc::gen::inRange<std::int64_t>(1, 300);
  double z = 0;
  double negentropy = 0;
  for (std::int64_t t = t1; t < t1 + n; ++t) {
    z += target_mean<double>(static_cast<double>(t), p);
    negentropy += target_mean_log<double>(static_cast<double>(t), p);
  }
  // n terms summed, each rounded three times; in the closed form 13 terms of the recurrence and a few more roundings.
  const double allowed = static_cast<double>(n + 50) * kUnit;
  const auto t2 = static_cast<double>(t1 + n);
  RC_ASSERT(relative_error(expected_total<double>(static_cast<double>(t1), t2, p), z) <= allowed);
  RC_ASSERT(relative_error(expected_negentropy<double>(static_cast<double>(t1), t2, p), negentropy) <= allowed);
}

RC_GTEST_PROP(ClosedFormProperty, IsAdditive, ()) {
  const auto p = parameters_of<Real50>(*valid_parameters());
  const Real50 t1 = *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 50);
  const Real50 t2 = t1 + *rc::gen::inRange<std::int64_t>(1, std::int64_t{1} << 50);
  const Real50 t3 = t2 + *rc::gen::inRange<std::int64_t>(1, std::int64_t{1} << 50);
  const Real50 whole = expected_total(t1, t3, p);
  RC_ASSERT(relative_error<Real50>(expected_total(t1, t2, p) + expected_total(t2, t3, p), whole) <= 1e-48);
}

RC_GTEST_PROP(ClosedFormProperty, LiesWithinItsBounds, ()) {
  const Real50 tau = *rc::gen::inRange(1, 100'000) / 1000.0;
  const Real50 t = *rc::gen::inRange<std::int64_t>(1, std::int64_t{1} << 40);
  const Real50 delta = *rc::gen::inRange(2, 1000);
  const Real50 n = t * (delta - 1);
  const Real50 sum = digamma_difference<Real50>(t + tau, n);
  RC_ASSERT(harmonic_lower<Real50>(t + tau, n) < sum);
  RC_ASSERT(sum < harmonic_upper<Real50>(t + tau, n).value());
  const Bounds<Real50> uniform = uniform_bounds<Real50>(1, delta, tau);
  RC_ASSERT(uniform.lower < sum);
  RC_ASSERT(sum < uniform.upper);
}

// ---- closed forms --------------------------------------------------------------------------------------------------

TEST(DigammaDifference, AgreesWithBoost) {
  for (const double x : {0.5, 1.0, 3.25, 20.0, 80.0, 1e3, 1e6, 1e12}) {
    for (const double d : {0.25, 1.0, 17.0, 1e5, 1e13}) {
      const Real100 two_terms = boost::math::digamma(Real100(x) + d) - boost::math::digamma(Real100(x));
      // The subtraction loses log10(psi / difference) digits, at most 15 here of about 99.
      EXPECT_LE(relative_error(digamma_difference<Real100>(x, d), two_terms), Real100("1e-83")) << x << " " << d;
    }
  }
}

TEST(DigammaDifference, KeepsItsAccuracyInDouble) {
  // 16 terms of the recurrence, the series and a few roundings: 30 u at most.
  for (const double x : {1e-290, 0.1, 10.0, 15.5, 16.0, 1e6, 1e12, 1e300}) {
    for (const double d : {1.0, 2.0, 1000.0, 9 * x}) {
      const Real100 exact = digamma_difference<Real100>(x, d);
      EXPECT_LE(relative_error<Real100>(digamma_difference<double>(x, d), exact), 30 * kUnit) << x << " " << d;
    }
  }
}

TEST(DigammaDifference, IsTheHarmonicSum) {
  EXPECT_EQ(digamma_difference<double>(5, 0), 0);
  Real100 sum(0);
  for (int k = 1; k <= 1000; ++k) sum += Real100(1) / k;
  EXPECT_LE(relative_error(digamma_difference<Real100>(1, 1000), sum), Real100("1e-97"));
  // One token at 1e12 + 10: 1/(1e12 + 10), of which two digammas of 27.6 would keep 3 digits in double.
  EXPECT_LE(relative_error(digamma_difference<double>(1e12 + 10, 1), 1 / (1e12 + 10)), 4 * kUnit);
}

TEST(ClosedForms, LimitIsReachedFarAway) {
  const auto p = parameters_of<Real100>(ScaleInvariant{10.0, 2, 3});
  const Real100 t("1e300");
  EXPECT_LE(relative_error(expected_total<Real100>(t, t * 10, p), limit_total<Real100>(10, p)), Real100("1e-97"));
  EXPECT_LE(relative_error(expected_negentropy<Real100>(t, t * 10, p), limit_negentropy<Real100>(10, p)),
            Real100("1e-97"));
}

TEST(ClosedForms, UpperBoundNeedsMoreThanOne) {
  EXPECT_FALSE(harmonic_upper<double>(1.0, 5).has_value());
  EXPECT_FALSE(harmonic_upper<double>(0.3, 5).has_value());
  EXPECT_FALSE(harmonic_upper<double>(std::nan(""), 5).has_value());
  EXPECT_TRUE(harmonic_upper<double>(1.0000001, 5).has_value());
}

// ---- the other equations -------------------------------------------------------------------------------------------

TEST(Moments, AgreeWithTanhSinhQuadrature) {
  boost::math::quadrature::tanh_sinh<Real50> quadrature(12);
  const auto p = parameters_of<Real50>(ScaleInvariant{});
  const Real50 a = scale<Real50>(100, p);
  const Real50 m = shift<Real50>(100, p);
  const Real50 normal = 1 / sqrt(8 * atan(Real50(1)));
  const auto mean_of = [&](auto f) {
    const auto integrand = [&](const Real50& z) {
      const Real50 l = logit(a, z, m);
      return Real50(normal * f(l) * exp(l - z * z / 2));
    };
    return Real50(quadrature.integrate(integrand, a - 17, a + 17));  // beyond: below exp(-17^2/2) = 2e-63
  };
  // Rounding: 300 u; the rule stops at a relative error of about the root of epsilon squared.
  EXPECT_LE(relative_error(mean_of([](const Real50&) { return Real50(1); }), target_mean<Real50>(100, p)), 1e-48);
  EXPECT_LE(relative_error(mean_of([](const Real50& l) { return l; }), target_mean_log<Real50>(100, p)), 1e-47);
}

TEST(Moments, TiltGivesTheFirstTwo) {
  const Real50 mu("0.7");
  const Real50 s("1.3");
  const Tilt<Real50> once = tilt<Real50>(mu, s, 1);
  EXPECT_LE(relative_error(mean_exp(mu, s), Real50(exp(once.log_factor))), 1e-49);
  EXPECT_LE(relative_error(mean_x_exp(mu, s), Real50(once.mean * exp(once.log_factor))), 1e-49);
  const Tilt<Real50> twice = tilt<Real50>(mu, s, 2);
  const Real50 second = (twice.mean * twice.mean + s * s) * exp(twice.log_factor);
  EXPECT_LE(relative_error(mean_x2_exp2(mu, s), second), 1e-49);
}

TEST(Attention, ThreeKeysByHand) {
  const std::vector<double> query = {1, 2};
  const std::vector<double> key = {3, -1};
  EXPECT_EQ(score<double>(query, key, 0.5), 0.5);
  EXPECT_EQ(default_softmax_scale<double>(64), 0.125);
  EXPECT_EQ(distance(7, 3), 4);
  EXPECT_EQ(logit(2.0, 0.5, -1.0), 0.0);
  const std::vector<double> logits = {0, std::log(2.0), std::log(5.0)};
  const double z = total_attention<double>(logits);
  EXPECT_NEAR(z, 8, 1e-14);
  EXPECT_NEAR(weight(logits[1], z), 0.25, 1e-15);
  const double n = unnormalised_negentropy<double>(logits);
  EXPECT_NEAR(n, 2 * std::log(2.0) + 5 * std::log(5.0), 1e-14);
  const double h = 0.125 * std::log(8) + 0.25 * std::log(4) + 0.625 * std::log(1.6);
  EXPECT_NEAR(entropy(z, n), h, 1e-15);
  EXPECT_NEAR(entropy_by_definition<double>(logits), h, 1e-15);
  EXPECT_EQ(total_attention<double>({}), 0);
}

TEST(Methods, LogNAndInfoScale) {
  EXPECT_EQ(logn_factor(0.4, 1.0), 0);
  EXPECT_NEAR(logn_factor(0.4, 65536.0), 0.4 * 16 * std::log(2.0), 1e-14);
  EXPECT_EQ(infoscale_factor(1.0, 4096.0, 64.0), 0);
  EXPECT_EQ(infoscale_factor(4096.0, 4096.0, 64.0), 1);
  // d = 2: sqrt((1 - 1/n) / (1 - 1/n_train))
  EXPECT_NEAR(infoscale_factor(4.0, 2.0, 2.0), std::sqrt(1.5), 1e-15);
  EXPECT_LE(
      relative_error<Real50>(infoscale_factor(65536.0, 4096.0, 128.0), infoscale_factor<Real50>(65536, 4096, 128)),
      8 * kUnit);
}

TEST(Methods, AlibiSlopesByThePublishedRule) {
  for (int h = 0; h < 8; ++h) EXPECT_EQ(alibi_slope<double>(h, 8), std::ldexp(1.0, -(h + 1)));
  // 12 heads: the 8 above, then the 1st, 3rd, 5th and 7th of 16 heads.
  for (int h = 0; h < 8; ++h) EXPECT_EQ(alibi_slope<double>(h, 12), std::ldexp(1.0, -(h + 1)));
  for (int k = 0; k < 4; ++k) EXPECT_DOUBLE_EQ(alibi_slope<double>(8 + k, 12), std::exp2(-0.5 * (2 * k + 1)));
  EXPECT_EQ(alibi_slope<double>(0, 1), 0x1p-8);
  EXPECT_EQ(alibi_slope<double>(2, 3), 0x1p-2) << "of 4 heads the first";
  EXPECT_EQ(alibi_shift(0.5, 6.0), -3);
}

}  // namespace
}  // namespace siattn::reference
