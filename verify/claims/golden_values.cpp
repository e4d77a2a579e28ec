// SPDX-License-Identifier: Apache-2.0
#include "verify/claims/list.hpp"
#include "verify/claims/support.hpp"

namespace siattn::verify {
namespace {

using namespace reference;

// From mpmath 1.3.0 at 130 to 800 digits, rounded to 105: another program, another library.
struct TransformValue {
  double t;  // tau = 10, alpha = beta = e^(1/2)
  const char* a;
  const char* m;
};
constexpr TransformValue kTransform[] = {
    {1, "1.09115551577611965993937285833042892038915908224918046041021241704132487514339147631434757945783927009663",
     "-0.190620359608649720087904246561530184441210730617288398370479616326002028471768465678115005826072986145496"},
    {100, "2.40744481672929340025877841186396852053673398961880659667098506448153638895154015055249787455718940320437",
     "-4.79579054559674108812388715593025859964341370787483435043713541826114724782647342615010941600526958282943"},
    {65536,
     "4.30997038788327551227287740447352426802536032992435145181832920639335982022039374568299975592815522142160",
     "-17.5758447444307123726968889837055358438039365283982675260354995648883742871339895384021641816307275304678"},
    {1000000,
     "4.90161921510029759949758986378596082699836288310409166090999016480397793836166324324130073349720261069445",
     "-23.0258709298404575068415812535099754122014660769861404587641590738908287575906189514041341096410494281655"},
};

struct DigammaValue {
  double t1;
  double count;
  double tau;
  const char* value;  // psi(t1 + count + tau) - psi(t1 + tau)
};
constexpr DigammaValue kDigamma[] = {
    {0, 100, 10,
     "2.44417543518481452534731535001971795561891191164152628860657378770544205588142170225299484820837984360312"},
    {100, 900, 10,
     "2.22128245438748956444697150070278709665044623172099612548295026878676645082913805785410898085488195095092"},
    {1e6, 9e6, 10,
     "2.30257654303867789930501622851913836150584791682645724648450488455183302769984512484949636383602965526414"},
    {1e12, 9e12, 10,
     "2.30258509298549568401803608718436392288610149065356214351799505429769343456049475183109505367002321330332"},
    {3, 4997, 0.5,
     "7.41403655243766089442904360964310461126887141318490531949597139460600455271877444754217428867657535758133"},
    {7, 100, 1000,
     "0.0947229073129030440803776167997107863246469439491645418782179789330389123420753941407741461713064746109761"},
};
/// [t, t + 9 t), tau = 10, for the double t next to 1e300: t + 9 t is no double.
constexpr const char* kDigammaFar =
    "2.30258509299404568401799145468436420760110148862877297603332790096757260967735248023599720508959829834197";

constexpr std::array<std::string_view, 4> kWrong = {name_of(Plant::tau_off), name_of(Plant::no_constant),
                                                    "alpha = beta = the double kSqrtE, not e^(1/2)",
                                                    "psi at t without tau"};

/// Allowed relative deviation, of which the figure is a multiple.
template <class Real>
constexpr double kAllowed = 0;
template <>
constexpr double kAllowed<double> = 1e-15;
template <>
constexpr double kAllowed<Real50> = 1e-48;
template <>
constexpr double kAllowed<Real100> = 1e-98;

template <class Real, class Where>
void see_golden(Worst& worst, const Real& value, const char* golden, Where where) {
  const Real100 exact(golden);
  worst.see(Real100(abs(Real100(value) / exact - 1) / kAllowed<Real>), where);
}

template <class Real>
void check(Worst& worst, std::size_t variant, std::string_view precision) {
  const ScaleInvariant published{};
  auto p = parameters_of<Real>(published);
  if (variant == 3) p = parameters<Real>(Real(10), Real(kSqrtE), Real(kSqrtE));
  const Plant plant = variant == 1 ? Plant::tau_off : variant == 2 ? Plant::no_constant : Plant::none;
  for (const TransformValue& golden : kTransform) {
    const auto [a, m] = transform_at<Real>(plant, Real(golden.t), p);
    see_golden(worst, a, golden.a, [&] { return fmt::format("a_{:g} in {}", golden.t, precision); });
    see_golden(worst, m, golden.m, [&] { return fmt::format("m_{:g} in {}", golden.t, precision); });
  }
  if (std::is_same_v<Real, double>) return;  // sums of up to 16 terms have a wider bound in double: see the tests
  const auto psi = [variant](double t1, const Real& count, double tau) {
    const Real x = variant == 4 ? Real(t1) + 1 : Real(t1) + tau;
    return digamma_difference<Real>(x, count);
  };
  for (const DigammaValue& golden : kDigamma) {
    see_golden(worst, psi(golden.t1, Real(golden.count), golden.tau), golden.value, [&] {
      return fmt::format("psi over [{:g}, {:g} more), tau = {} in {}", golden.t1, golden.count, golden.tau, precision);
    });
  }
  see_golden(worst, psi(1e300, Real(1e300) * 9, 10), kDigammaFar,
             [&] { return fmt::format("psi over [1e300, 1e301) in {}", precision); });
}

Measurement measure(const ClaimOptions& /*options*/, std::size_t variant) {
  Worst worst;
  // In double, the exact e^(1/2) and the nearest double to it are the same thing: that variant shows from 50 digits on.
  check<double>(worst, variant, "double");
  check<Real50>(worst, variant, "50 digits");
  check<Real100>(worst, variant, "100 digits");
  return std::move(worst).result();
}

}  // namespace

constinit const Claim kGoldenValues = {
    .id = "golden-values",
    .title = "Agreement with another program",
    .reference = "Eq. 16, Lemma 1",
    .statement =
        "a_t, m_t and digamma differences equal values computed by mpmath to 105 digits. The figure is in units "
        "of what is allowed: relative 1e-15 in double, 1e-48 at 50, 1e-98 at 100 digits.",
    .method = Method::exact,
    .threshold = 1,
    .threshold_reason =
        "double: t/tau, log1p (1 ulp), sum and root, 4 u = 4.5e-16; wide: up to 84 + 50 terms of the "
        "recurrence and the series, 300 u = 8e-49 (8e-99)",
    .wrong_variants = kWrong,
    .measure = measure,
};

}  // namespace siattn::verify
