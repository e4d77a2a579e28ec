// SPDX-License-Identifier: Apache-2.0
// The numbers behind the pictures, and the page that shows them. What takes longer: pictures_full_test.cpp.
#include <gtest/gtest.h>
#include <omp.h>

#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <cmath>
#include <set>
#include <sstream>

#include "verify/pictures/html_report.hpp"
#include "verify/pictures/iid_profile.hpp"
#include "verify/pictures/list.hpp"
#include "verify/pictures/svg.hpp"
#include "verify/range_distribution.hpp"

namespace siattn::verify {
namespace {

class Threads {
 public:
  explicit Threads(int count) : before_(omp_get_max_threads()) { omp_set_num_threads(count); }
  ~Threads() { omp_set_num_threads(before_); }

 private:
  int before_;
};

const IidProfile& small_profile() {
  static const IidProfile profile = sample_iid_profile(compared_methods(), 1000, 1000, 1);
  return profile;
}

/// Of 1000 repetitions, near enough normal: beyond 7 standard errors once in 1e11. A
/// mistake of a tenth in a mean is 5 to 100 standard errors.
void expect_close(const Estimate& estimate, double exact, const std::string& what) {
  EXPECT_NEAR(estimate.value, exact, 7 * estimate.standard_error + 1e-12) << what;
  EXPECT_GT(estimate.standard_error, 0) << what;
}

TEST(IidProfile, WeightsAddUpToOneAndTokensOfEqualLawWeighTheSame) {
  const IidProfile& p = small_profile();
  ASSERT_EQ(p.length(p.lengths.size() - 1), 1000);
  for (std::size_t k = 0; k < p.methods.size(); ++k) {
    for (std::size_t j = 0; j < p.lengths.size(); ++j) {
      const LengthProfile& profile = p.profiles[k][j];
      const auto n = static_cast<double>(p.length(j));
      Estimate sum;
      for (std::size_t i = 0; i < profile.mass.size(); ++i) {
        sum.value += profile.mass[i].value;
        sum.standard_error += profile.mass[i].standard_error;  // an upper bound, however they depend on each other
        const auto count = static_cast<double>(p.edges[i + 1] - p.edges[i]);
        if (k < 2) expect_close(profile.mass[i], count / n, p.methods[k].name + ", a mean weight of 1/n");
      }
      expect_close(sum, 1, p.methods[k].name);
      if (n <= 100) {
        EXPECT_NEAR(profile.last_100.value, 1, 1e-12);
      }
    }
  }
}

TEST(IidProfile, EntropiesAreThoseOfQuadrature) {
  const IidProfile& p = small_profile();
  for (const std::size_t k : {0u, 2u}) {
    const LengthProfile& longest = p.profiles[k].back();
    const auto exact = [&](double first, double last) {
      return RangeDistribution(p.methods[k].transform, {first, last}).mean_entropy();
    };
    expect_close(longest.entropy, exact(0, 1000), p.methods[k].name);
    expect_close(longest.outer_decade_entropy, exact(100, 1000), p.methods[k].name);
    ASSERT_EQ(longest.decade_entropy.size(), 4u);
    EXPECT_NEAR(longest.decade_entropy[0].value, 0, 1e-12) << "one token";
    expect_close(longest.decade_entropy[1], exact(1, 10), p.methods[k].name);
    expect_close(longest.decade_entropy[3], exact(100, 1000), p.methods[k].name);
  }
}

/// The tilt against plain means of the same weights, where these can be trusted.
TEST(IidProfile, TiltedMassesAgreeWithPlainOnes) {
  const IidProfile& p = small_profile();
  for (std::size_t k = 0; k < p.methods.size(); ++k) {
    for (std::size_t j = 0; j < p.lengths.size(); ++j) {
      const LengthProfile& profile = p.profiles[k][j];
      if (p.length(j) < 1000) continue;
      Estimate near;
      for (std::size_t i = 0; i < profile.mass.size() && p.edges[i + 1] <= 100; ++i) {
        near.value += profile.mass[i].value;
        near.standard_error += profile.mass[i].standard_error;
      }
      near.standard_error += profile.last_100.standard_error;
      expect_close(near, profile.last_100.value, p.methods[k].name);
    }
  }
}

bool same(const Estimate& a, const Estimate& b) {
  const auto equal = [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); };
  return equal(a.value, b.value) && equal(a.standard_error, b.standard_error);
}

TEST(IidProfile, DoesNotDependOnThreadsButOnTheSeed) {
  const auto draw = [](int threads, std::uint64_t seed) {
    const Threads set(threads);
    return sample_iid_profile(compared_methods(), 100, 40, seed);
  };
  const IidProfile one = draw(1, 5), three = draw(3, 5), other = draw(3, 6);
  for (std::size_t k = 0; k < one.profiles.size(); ++k) {
    for (std::size_t j = 0; j < one.profiles[k].size(); ++j) {
      EXPECT_TRUE(same(one.profiles[k][j].entropy, three.profiles[k][j].entropy));
      EXPECT_FALSE(same(one.profiles[k][j].entropy, other.profiles[k][j].entropy));
      for (std::size_t i = 0; i < one.profiles[k][j].mass.size(); ++i) {
        EXPECT_TRUE(same(one.profiles[k][j].mass[i], three.profiles[k][j].mass[i]));
      }
    }
  }
}

TEST(IidProfile, NeedsTwoRepetitions) {
  EXPECT_THROW(sample_iid_profile(compared_methods(), 100, 1, 1), std::invalid_argument);
}

/// Those that draw nothing of their own.
std::vector<Picture> cheap_pictures(std::span<const CheckResult> checks) {
  std::vector<Picture> pictures;
  for (const PictureMaker* maker : {&kTransformCurvesPicture, &kFigure1Picture, &kWeightsPicture, &kDecadeBarsPicture,
                                    &kHeatMapsPicture, &kDeparturesPicture}) {
    pictures.push_back(maker->make({{}, checks, small_profile()}));
    pictures.back().id = maker->id;
  }
  return pictures;
}

CheckResult not_gaussian() {
  Table table{"laws",
              {"law", "t (tokens)", "E[exp L] (t/tau+1)/alpha", "E[L exp L] (t/tau+1)/beta", "a_t of Eq. 16",
               "m_t of Eq. 16", "a restored", "m restored"},
              {{"skew-normal, shape +2", 0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0},
               {"skew-normal, shape +2", 10.0, 1.5, 1.6, 1.2, -1.0, 1.1, -0.9},
               {"two points, the upper one with chance 0.5", 10.0, 0.5, 0.4, 1.2, -1.0, std::string("none"),
                std::string("none")}}};
  CheckResult result;
  result.id = "not-gaussian";
  result.title = "Laws & <others>";
  result.figure = 0.5;
  result.threshold = 1;
  result.wrong_variants = {{"a mistake", 2, true}};
  result.verdict = Verdict::pass;
  result.tables = {table};
  return result;
}

TEST(Pictures, HaveNamesWordsAndData) {
  const std::vector<CheckResult> checks = {not_gaussian()};
  std::set<std::string> ids;
  for (const PictureMaker* maker : picture_makers())
    EXPECT_TRUE(ids.insert(std::string(maker->id)).second) << maker->id;
  for (const Picture& picture : cheap_pictures(checks)) {
    EXPECT_TRUE(ids.contains(picture.id));
    EXPECT_TRUE(picture.caption.ends_with('.') || picture.caption.ends_with(')')) << picture.id;
    EXPECT_FALSE(picture.method.empty());
    EXPECT_FALSE(picture.plot.description.empty());
    for (const Panel& panel : picture.plot.panels) {
      EXPECT_FALSE(panel.x.label.empty()) << picture.id;
      EXPECT_FALSE(panel.y.label.empty()) << picture.id;
    }
    EXPECT_EQ(svg(picture.plot).find("no data"), std::string::npos) << picture.id;
  }
}

TEST(Pictures, OfMissingTablesSayThatThereIsNoData) {
  const std::string text = svg(kDeparturesPicture.make({{}, {}, small_profile()}).plot);
  EXPECT_NE(text.find("no data"), std::string::npos);
}

TEST(Pictures, NumbersAreThoseOfTheProfileAndTheTable) {
  const std::vector<CheckResult> checks = {not_gaussian()};
  const auto pictures = cheap_pictures(checks);
  const auto json = json_of(pictures);
  ASSERT_EQ(json.size(), pictures.size());
  const LengthProfile& longest = small_profile().profiles[2].back();
  const auto& figure1 = json[1];
  EXPECT_EQ(figure1["id"], "figure-1");
  EXPECT_EQ(figure1["panels"][0]["series"][2]["name"], "scale-invariant, τ = 10");
  EXPECT_EQ(figure1["panels"][0]["series"][2]["x"].back(), 1000);
  EXPECT_EQ(figure1["panels"][0]["series"][2]["y"].back(), longest.entropy.value);
  EXPECT_EQ(figure1["panels"][2]["series"][2]["low"].back(),
            longest.last_100.value - 2 * longest.last_100.standard_error);
  EXPECT_EQ(json[3]["panels"][0]["series"][2]["y"][3], longest.decade_mass[3].value);
  const auto& departures = json[5]["panels"];
  EXPECT_EQ(departures[0]["series"][0]["y"][1], 1.5);
  EXPECT_EQ(departures[1]["series"][0]["y"][1], 1.1);
  EXPECT_EQ(departures[1]["series"][4]["y"][0], "nan") << "the law that has no correction";
}

TEST(HtmlReport, IsOnePageCompleteInItself) {
  CheckResult failing = not_gaussian();
  failing.id = "failing";
  failing.verdict = Verdict::fail;
  failing.message = "a < b & \"c\"";
  const std::vector<CheckResult> checks = {not_gaussian(), failing};
  const auto pictures = cheap_pictures(checks);
  const std::string html =
      html_report({"claims", {{"seed", "7"}}}, "siattn verify --seed 7 --report DIR", checks, pictures);
  std::istringstream stream(html);
  boost::property_tree::ptree tree;
  read_xml(stream, tree);
  for (const char* outside : {"<script", "src=", "@import", "url(", "<link", "<iframe"})
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  for (const char* told : {"seed 7", "siattn verify --seed 7 --report DIR", "1 of 2 passed, 1 failed", "✓ pass",
                           "✗ fail", "Laws &amp; &lt;others&gt;", "a &lt; b &amp; &quot;c&quot;",
                           "a mistake: 2, rejected", "<details open=\"open\"><summary>failing"}) {
    EXPECT_NE(html.find(told), std::string::npos) << told;
  }
  for (const Picture& picture : pictures) {
    EXPECT_NE(html.find("<figure id=\"" + picture.id + "\">" + svg(picture.plot)), std::string::npos) << picture.id;
  }
}

}  // namespace
}  // namespace siattn::verify
