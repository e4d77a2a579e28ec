// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

#include "verify/claim.hpp"
#include "verify/claims/support.hpp"
#include "verify/interval.hpp"

namespace siattn::verify {
namespace {

class EachClaim : public testing::TestWithParam<const Claim*> {};

std::string test_name(const testing::TestParamInfo<const Claim*>& info) {
  std::string name(info.param->id);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Claims, EachClaim, testing::ValuesIn(claims().begin(), claims().end()), test_name);

TEST_P(EachClaim, HoldsAndRejectsEveryPlantedMistake) {
  const Claim& claim = *GetParam();
  const ClaimResult result = run_claim(claim);
  EXPECT_EQ(result.verdict, Verdict::pass) << result.message << " at " << result.witness;
  EXPECT_LE(result.figure, result.threshold);
  ASSERT_EQ(result.wrong_variants.size(), claim.wrong_variants.size());
  ASSERT_FALSE(result.wrong_variants.empty());
  for (const WrongVariant& wrong : result.wrong_variants) {
    EXPECT_TRUE(wrong.rejected) << wrong.name << ": " << wrong.figure;
    // A mistake has to stand out, not to exceed the rounding by a factor: such thresholds are far below any of them.
    // Where the threshold is a statistical one, or the distance to a limit, five times it.
    const bool rounding = claim.method != Method::sampled && claim.id != "weak-sparsity" && claim.id != "typical-total";
    EXPECT_GT(wrong.figure, (rounding ? 1e6 : 5) * claim.threshold) << wrong.name;
  }
  for (const std::string& text : {result.id, result.title, result.reference, result.statement, result.method,
                                  result.threshold_reason, result.witness}) {
    EXPECT_FALSE(text.empty());
  }
}

/// The claim whose formulas have a mistake where they should have none.
const Claim* mistaken_of = nullptr;
std::size_t mistake = 0;
Measurement measure_mistaken(const ClaimOptions& options, std::size_t variant) {
  return mistaken_of->measure(options, variant == 0 ? mistake : variant);
}

TEST_P(EachClaim, FailsWhenTheMistakeIsInTheClaimItself) {
  mistaken_of = GetParam();
  Claim claim = *mistaken_of;
  claim.measure = measure_mistaken;
  claim.wrong_variants = claim.wrong_variants.first(1);  // the others have been measured above
  for (mistake = 1; mistake <= mistaken_of->wrong_variants.size(); ++mistake) {
    const ClaimResult result = run_claim(claim);
    EXPECT_EQ(result.verdict, Verdict::fail) << mistaken_of->wrong_variants[mistake - 1];
    EXPECT_NE(result.message.find("exceeds"), std::string::npos) << result.message;
  }
}

TEST(Claims, HaveUniqueIds) {
  std::set<std::string_view> ids;
  for (const Claim* claim : claims()) EXPECT_TRUE(ids.insert(claim->id).second) << claim->id;
}

TEST(Claims, SameSeedSameResultAndAnySeedHolds) {
  for (const Claim* claim : claims()) {
    if (claim->id != "entropy-identity" && claim->id != "theorem-1") continue;  // one with random input, one without
    const ClaimResult first = run_claim(*claim, {.seed = 7});
    const ClaimResult second = run_claim(*claim, {.seed = 7});
    EXPECT_EQ(first.verdict, Verdict::pass);
    EXPECT_EQ(first.figure, second.figure);
    EXPECT_EQ(first.witness, second.witness);
    EXPECT_EQ(first.wrong_variants[0].figure, second.wrong_variants[0].figure);
  }
}

constexpr std::string_view kOneWrong[] = {"planted"};

/// A claim whose measurement is given, for what run_claim() makes of it.
Claim made_up(Measurement (*measure)(const ClaimOptions&, std::size_t)) {
  return {"id", "title", "reference", "statement", Method::exact, 1e-3, "reason", kOneWrong, measure};
}

TEST(RunClaim, FailsAClaimThatAcceptsAMistake) {
  const ClaimResult result = run_claim(made_up([](const ClaimOptions&, std::size_t) { return Measurement{}; }));
  EXPECT_EQ(result.verdict, Verdict::fail);
  EXPECT_FALSE(result.wrong_variants[0].rejected);
  EXPECT_NE(result.message.find("\"planted\" was accepted"), std::string::npos) << result.message;
}

TEST(RunClaim, FailsAClaimWithoutMistakes) {
  Claim claim = made_up([](const ClaimOptions&, std::size_t) { return Measurement{}; });
  claim.wrong_variants = {};
  EXPECT_EQ(run_claim(claim).verdict, Verdict::fail);
}

TEST(RunClaim, TakesNanForADeviation) {
  const ClaimResult result = run_claim(made_up([](const ClaimOptions&, std::size_t) {
    return Measurement{std::numeric_limits<double>::quiet_NaN(), "somewhere", ""};
  }));
  EXPECT_EQ(result.verdict, Verdict::fail);
  EXPECT_TRUE(result.wrong_variants[0].rejected);
}

TEST(RunClaim, AllowsTheThresholdItself) {
  const auto at_threshold = [](const ClaimOptions&, std::size_t variant) {
    return Measurement{variant == 0 ? 1e-3 : std::nextafter(1e-3, 1.0), "", "a note"};
  };
  const ClaimResult result = run_claim(made_up(at_threshold));
  EXPECT_EQ(result.verdict, Verdict::pass);
  EXPECT_EQ(result.message, "a note");
}

TEST(RunClaim, ReportsWhatIsThrown) {
  const ClaimResult result = run_claim(
      made_up([](const ClaimOptions&, std::size_t) -> Measurement { throw std::domain_error("no such number"); }));
  EXPECT_EQ(result.verdict, Verdict::error);
  EXPECT_NE(result.message.find("no such number"), std::string::npos);
  EXPECT_EQ(run_claim(made_up([](const ClaimOptions&, std::size_t) -> Measurement { throw 1; })).verdict,
            Verdict::error);
}

TEST(RunClaims, CallsBackBeforeAndAfterEach) {
  const std::span<const Claim* const> list = claims().subspan(2, 4);
  std::size_t done = 0;
  std::set<std::string_view> started, ended;
  const std::vector<ClaimResult> results = run_claims(list, {}, [&](const ClaimProgress& progress) {
    EXPECT_EQ(progress.count, list.size());
    if (progress.result == nullptr) {
      EXPECT_TRUE(started.insert(progress.claim->id).second);
    } else {
      EXPECT_TRUE(started.contains(progress.claim->id));
      EXPECT_TRUE(ended.insert(progress.claim->id).second);
      EXPECT_EQ(progress.result->id, progress.claim->id);
      ++done;
    }
    EXPECT_EQ(progress.done, done);
  });
  ASSERT_EQ(results.size(), list.size());
  EXPECT_EQ(ended.size(), list.size());
  for (std::size_t i = 0; i < list.size(); ++i) EXPECT_EQ(results[i].id, list[i]->id);
}

TEST(RunClaims, NoThreadChangesAFigure) {
  std::vector<const Claim*> list;
  for (const Claim* claim : claims()) {
    if (claim->id == "sampled-ranges" || claim->id == "dependent-logits") list.push_back(claim);
  }
  ASSERT_EQ(list.size(), 2u);
  const std::vector<ClaimResult> together = run_claims(list);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const ClaimResult alone = run_claim(*list[i]);  // with all threads inside the claim
    EXPECT_EQ(alone.figure, together[i].figure);
    EXPECT_EQ(alone.witness, together[i].witness);
    EXPECT_EQ(alone.tables.at(0).rows, together[i].tables.at(0).rows);
  }
}

TEST(Claims, FalseAlarmsStayBelowOneInAMillion) {
  double sum = 0;
  for (const Claim* claim : claims()) {
    EXPECT_EQ(claim->false_alarm > 0, claim->method == Method::sampled) << claim->id;
    sum += claim->false_alarm;
  }
  EXPECT_LE(sum, 1e-6);
}

TEST(WorstDeviation, KeepsTheLargestAndTakesNanForInfinite) {
  Worst worst;
  const auto at = [](const char* text) { return [text] { return std::string(text); }; };
  worst.see(0.0, at("first"));
  worst.see(2.0, at("second"));
  worst.see(1.0, at("third"));
  worst.see_excess(-5.0, at("fourth"));
  EXPECT_EQ(Worst(worst).result().witness, "second");
  worst.see_excess(std::nan(""), at("nan"));
  EXPECT_EQ(Worst(worst).result().figure, std::numeric_limits<double>::infinity());
}

TEST(IntervalArithmetic, EnclosesWhatItIsGiven) {
  const Interval third = Interval(1.0) / Interval(3.0);
  EXPECT_LT(third.lower() * 3, 1);
  EXPECT_GT(third.upper() * 3, 1);
  EXPECT_LT(third.upper() - third.lower(), 1e-48);
  const Interval x(Interval::Real(-2), Interval::Real(3));
  EXPECT_TRUE((x * x).contains(-6) && (x * x).contains(9));
  EXPECT_TRUE((x - x).contains(5) && (x + x).contains(-4));
  EXPECT_TRUE(log1p(Interval(0.5)).contains(log1p(Interval::Real(0.5))));
  EXPECT_THROW(third / x, std::domain_error);
  EXPECT_THROW(log1p(x), std::domain_error);
  EXPECT_THROW(Interval(Interval::Real(1), Interval::Real(0)), std::domain_error);
  EXPECT_THROW(Interval(std::nan("")) + third, std::domain_error);
}

TEST(LineQuadrature, IntegratesGaussians) {
  const auto both = [](const Real100& z) {
    const Real100 density = exp(-z * z / 2) / root_two_pi<Real100>();
    return std::array<Real100, 2>{density * z * z, density * cos(7 * z)};
  };
  const auto [second, cosine] = integrals_over_line<Real100>(both, 0, 7);
  EXPECT_LE(abs(second - 1), Real100("1e-97"));
  EXPECT_LE(abs(cosine - exp(Real100(-49) / 2)), Real100("1e-97"));
}

}  // namespace
}  // namespace siattn::verify
