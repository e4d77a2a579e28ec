// SPDX-License-Identifier: Apache-2.0
// The writer of pictures: what it draws stands where the numbers say, and nothing makes it write what is no XML.
#include <gtest/gtest.h>

#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <cmath>
#include <limits>
#include <set>
#include <sstream>

#include "verify/pictures/marks.hpp"
#include "verify/pictures/svg.hpp"
#include "verify/pictures/ticks.hpp"

namespace siattn::verify {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

boost::property_tree::ptree parsed(const std::string& text) {
  std::istringstream stream(text);
  boost::property_tree::ptree tree;
  read_xml(stream, tree);
  return tree;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

std::vector<std::string> labels_of(const std::vector<Tick>& list) {
  std::vector<std::string> labels;
  for (const Tick& tick : list) {
    if (!tick.label.empty()) labels.push_back(tick.label);
  }
  return labels;
}

using Labels = std::vector<std::string>;

TEST(Ticks, AreRoundNumbersWithinTheRange) {
  EXPECT_EQ(labels_of(ticks(0, 10, false, 5)), (Labels{"0", "2", "4", "6", "8", "10"}));
  EXPECT_EQ(labels_of(ticks(-0.13, 0.27, false, 4)), (Labels{"−0.1", "0", "0.1", "0.2"}));
  EXPECT_EQ(labels_of(ticks(0, 3e7, false, 4)), (Labels{"0", "10⁷", "2×10⁷", "3×10⁷"}));
  EXPECT_EQ(labels_of(ticks(1, 1e6, true, 8)), (Labels{"1", "10", "10²", "10³", "10⁴", "10⁵", "10⁶"}));
  EXPECT_EQ(labels_of(ticks(1e-9, 1, true, 4)), (Labels{"10⁻⁹", "10⁻⁶", "10⁻³", "1"}));
  EXPECT_EQ(labels_of(ticks(2, 30, true, 8)), (Labels{"2", "5", "10", "20"}));
  EXPECT_EQ(labels_of(ticks(31, 33, true, 4)), (Labels{"31.0", "31.5", "32.0", "32.5", "33.0"}));
}

TEST(Ticks, AreFewAndInsideForAnyRange) {
  for (const double low : {-1e300, -7.3, 0.0, 1e-300, 0.97, 1e12}) {
    for (const double size : {1e-9, 0.3, 17.0, 1e5, 1e299}) {
      const double high = low + size * std::max(1.0, std::abs(low) * 1e-3);
      if (!(high > low) || !std::isfinite(high)) continue;
      const auto list = ticks(low, high, false, 5);
      EXPECT_GE(list.size(), 2u) << low << " " << high;
      EXPECT_LE(list.size(), 6u) << low << " " << high;
      for (const Tick& tick : list) {
        EXPECT_GE(tick.value, low - 1e-6 * (high - low));
        EXPECT_LE(tick.value, high + 1e-6 * (high - low));
      }
      if (low > 0) {
        EXPECT_LE(labels_of(ticks(low, high, true, 6)).size(), 7u) << low << " " << high;
      }
    }
  }
}

TEST(Svg, IsXmlWithItsWordsEscaped) {
  const std::string nasty = "<b>&\"quotes\" ]]> \x01 \xFF end";
  Plot plot{nasty, nasty, {{nasty, {nasty}, {nasty}, {{.name = nasty, .x = {1, 2}, .y = {3, 4}}}}}};
  plot.panels[0].heat = HeatMap{{0, 1, 2}, {0, 1}, {0.1, 0.7}, nasty};
  const std::string text = svg(plot);
  const auto tree = parsed(text);
  EXPECT_EQ(tree.get<std::string>("svg.title"), "<b>&\"quotes\" ]]> \xEF\xBF\xBD \xEF\xBF\xBD end");
  EXPECT_EQ(tree.get<std::string>("svg.desc"), tree.get<std::string>("svg.title"));
  EXPECT_EQ(text.find("<b>"), std::string::npos);
  for (const char* outside : {"<script", "href", "url(", "import", " id="}) {
    EXPECT_EQ(text.find(outside), std::string::npos) << outside;
  }
  EXPECT_NE(text.find("prefers-color-scheme:dark"), std::string::npos);
}

/// The points of a polyline, taken back to numbers by two others whose values are known.
TEST(Svg, DrawsThePointsWhereTheyBelong) {
  Panel panel{
      "", {"t", true, 1, 1e4}, {"y", false, -2, 6}, {{.name = "a", .x = {1, 10, 1000, 10000}, .y = {-2, 6, 0, 4}}}};
  const std::string text = svg({"", "", {panel}});
  const std::size_t at = text.find("<path class=\"l\" d=\"M", text.find("<svg x=")) + 20;
  std::string d = text.substr(at, text.find('"', at) - at);
  std::replace_if(
      d.begin(), d.end(), [](char c) { return c == 'L' || c == 'h'; }, ' ');
  std::istringstream stream(d);
  double x[4], y[4], dot;
  stream >> x[0] >> y[0] >> dot;
  for (int k = 1; k < 4; ++k) stream >> x[k] >> y[k];
  ASSERT_TRUE(stream) << d;
  const double decade = (x[3] - x[0]) / 4;
  EXPECT_GT(decade, 100);
  EXPECT_NEAR(x[1], x[0] + decade, 0.11);
  EXPECT_NEAR(x[2], x[0] + 3 * decade, 0.11);
  EXPECT_LT(y[1], y[0]) << "upwards is up";
  EXPECT_NEAR(y[2], y[0] + (y[1] - y[0]) / 4, 0.11);
  EXPECT_NEAR(y[3], y[0] + (y[1] - y[0]) * 3 / 4, 0.11);
}

TEST(Svg, LeavesGapsWhereNothingCanBeShown) {
  Series series{.name = "a", .x = {1, 2, kNan, 4, 5, 6, 7}, .y = {1, 2, 3, kInfinity, 5, -1, 7}};
  const Scale x{0, 10, false, 0, 100}, y{1, 10, true, 100, 0};
  const std::string marks = series_marks(series, x, y, {});
  EXPECT_EQ(count(marks, "M"), 3u) << "two points, one alone, one alone: " << marks;
  EXPECT_EQ(marks.find("nan"), std::string::npos);
  EXPECT_EQ(marks.find("inf"), std::string::npos);
  series.low = {0, 1, 1, 1, 4, 1, 6};
  series.high = {2, 3, 4, 5, kNan, 7, 8};
  for (const Draw draw : {Draw::line, Draw::markers, Draw::line_markers, Draw::bars, Draw::guide}) {
    series.draw = draw;
    const std::string drawn = series_marks(series, x, y, {});
    EXPECT_FALSE(drawn.empty());
    EXPECT_EQ(drawn.find("nan"), std::string::npos) << drawn;
    EXPECT_EQ(drawn.find("inf"), std::string::npos) << drawn;
  }
}

TEST(Svg, WithoutDataSaysSo) {
  const Series nothing{.name = "none", .x = {}, .y = {}};
  const Series hopeless{.name = "hopeless", .x = {kNan, 1, -1}, .y = {1, kInfinity, 2}};
  for (const bool log : {false, true}) {
    const std::string text = svg({"t",
                                  "",
                                  {{"", {"x", log}, {"y", log}, {}},
                                   {"", {"x", log}, {"y", log}, {nothing, nothing}},
                                   {"", {"x", true}, {"y", log}, {hopeless}}}});
    parsed(text);
    EXPECT_EQ(count(text, "no data"), 3u);
    EXPECT_EQ(text.find("nan"), std::string::npos);
  }
  parsed(svg({}));
}

TEST(Svg, TakesOnePointAndAConstant) {
  for (const double value : {0.0, 3.0, -3.0, 1e-300, 1e300, 1.7e308}) {
    const std::string text =
        svg({"t",
             "",
             {{"",
               {"x"},
               {"y"},
               {{.name = "a", .x = {1}, .y = {value}}, {.name = "b", .x = {1, 2}, .y = {value, value}}}}}});
    parsed(text);
    EXPECT_EQ(text.find("nan"), std::string::npos) << value;
    EXPECT_EQ(text.find("inf"), std::string::npos) << value;
    EXPECT_EQ(text.find("no data"), std::string::npos) << value;
  }
}

/// Seven series, no two with the same dash pattern, nor with the same marker; one name looks the same in all panels.
TEST(Svg, TellsSeriesApartWithoutColour) {
  std::set<std::string> looks;
  for (int style = 0; style < kStyles; ++style) {
    for (const Draw draw : {Draw::line, Draw::markers}) {
      std::string look = legend_sample(draw, style, 0, 0);
      const std::string colour = "class=\"c" + std::to_string(style) + "\"";
      ASSERT_NE(look.find(colour), std::string::npos);
      look.erase(look.find(colour), colour.size());
      EXPECT_TRUE(looks.insert(look).second) << look;
    }
  }
  const Series a{.name = "a", .x = {1, 2}, .y = {1, 2}}, b{.name = "b", .x = {1, 2}, .y = {2, 1}};
  const std::string text = svg({"", "", {{"", {}, {}, {a, b}}, {"", {}, {}, {b, a}}}});
  const std::size_t second = text.rfind("<svg x=");
  EXPECT_LT(text.find("class=\"c1\"", second), text.find("class=\"c0\"", second));
}

TEST(Svg, HeatMapShowsEachCellOnce) {
  HeatMap heat{{1, 10, 100, 1000}, {0, 1, 2}, {0, 0.5, 1, kNan, 1, 1}, "share"};
  const Scale x{1, 1000, true, 0, 300}, y{0, 2, false, 200, 0};
  const std::string marks = heat_marks(heat, x, y);
  EXPECT_NE(marks.find("M0 100H100V200H0z"), std::string::npos) << "the first row is the lowest";
  EXPECT_NE(marks.find("M100 100H200V200H100z"), std::string::npos);
  EXPECT_NE(marks.find("M100 0H300V100H100z"), std::string::npos) << "equal neighbours are one";
  EXPECT_EQ(count(marks, "M"), 4u) << "and nothing where the value is NaN: " << marks;
}

TEST(Svg, RefusesLengthsThatDoNotFit) {
  EXPECT_THROW(svg({"", "", {{"", {}, {}, {{.name = "a", .x = {1, 2}, .y = {1}}}}}}), std::invalid_argument);
  EXPECT_THROW(svg({"", "", {{"", {}, {}, {{.name = "a", .x = {1}, .y = {1}, .low = {1}, .high = {}}}}}}),
               std::invalid_argument);
  EXPECT_THROW(svg({"", "", {{"", {}, {}, {}, HeatMap{{0, 1}, {0, 1}, {1, 2}, ""}}}}), std::invalid_argument);
}

double luminance(const std::string& colour) {
  double sum = 0;
  for (int k = 0; k < 3; ++k) {
    const double c = std::stoi(colour.substr(static_cast<std::size_t>(2 * k), 2), nullptr, 16) / 255.0;
    sum += (c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4)) * (k == 0   ? 0.2126
                                                                              : k == 1 ? 0.7152
                                                                                       : 0.0722);
  }
  return sum;
}

/// WCAG 2.1 asks 3:1 of what is drawn and 4.5:1 of text.
TEST(Svg, ColoursStandOutOnBothBackgrounds) {
  const std::string sheet = style_sheet();
  const std::size_t dark = sheet.find("@media");
  ASSERT_NE(dark, std::string::npos);
  for (const auto& [rules, back] :
       {std::pair(sheet.substr(0, dark), "ffffff"), std::pair(sheet.substr(dark), "14171a")}) {
    const auto contrast = [&, &rules = rules, &back = back](const std::string& rule) {
      const std::size_t at = rules.rfind(rule);
      if (at == std::string::npos) return 0.0;
      const double a = luminance(rules.substr(at + rule.size(), 6)), b = luminance(back);
      return (std::max(a, b) + 0.05) / (std::min(a, b) + 0.05);
    };
    for (int style = 0; style < kStyles; ++style) {
      EXPECT_GE(contrast(".sp .c" + std::to_string(style) + "{color:#"), 3.0) << style << " on " << back;
    }
    EXPECT_GE(contrast(".sp text{fill:#"), 4.5) << back;
    EXPECT_GE(contrast(".p{color:#"), 3.0) << back;
  }
}

TEST(Json, HoldsEveryNumberOfAPlot) {
  Panel panel{
      "p", {"x", true}, {"y"}, {{.name = "a", .x = {1, 2}, .y = {kNan, 0.1}, .low = {0, 0}, .high = {1, kInfinity}}}};
  panel.heat = HeatMap{{0, 1}, {0, 1, 2}, {0.25, kNan}, "share"};
  const auto json = json_of(Plot{"t", "d", {panel}});
  const auto& series = json["panels"][0]["series"][0];
  EXPECT_EQ(series["x"], (std::vector<double>{1, 2}));
  EXPECT_EQ(series["y"][0], "nan");
  EXPECT_EQ(series["y"][1], 0.1);
  EXPECT_EQ(series["high"][1], "inf");
  EXPECT_EQ(json["panels"][0]["heat"]["values"][0], 0.25);
  EXPECT_EQ(json["panels"][0]["x"]["log"], true);
}

}  // namespace
}  // namespace siattn::verify
