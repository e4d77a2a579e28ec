// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "verify/report.hpp"
#include "verify/utf8.hpp"

namespace siattn::verify {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

CheckResult passing() {
  return {.id = "good",
          .title = "A check that passes",
          .reference = "Eq. 1",
          .statement = "1 = 1",
          .method = "exact",
          .figure = 2.5e-49,
          .threshold = 1e-45,
          .threshold_reason = "rounding",
          .witness = "t = 3",
          .wrong_variants = {{"a far one", kInfinity, true}, {"a near one", 0.01, true}},
          .seconds = 0.25,
          .verdict = Verdict::pass,
          .message = "",
          .tables = {{"Entropy by distance", {"t (tokens)", "law", "E[H] (nats)"}, {{10.0, "normal", kInfinity}}}},
          .false_alarm = 1e-9};
}

std::vector<CheckResult> one_of_each() {
  CheckResult failing = passing();
  failing.id = "bad";
  failing.title =
      "Markup <b>&\"quotes\"</b> and a title that is so long that no terminal could ever show all of it, \u03c4 too";
  failing.figure = kNan;
  failing.wrong_variants = {{"accepted <one>", 0, false}, {"rejected", 5, true}};
  failing.verdict = Verdict::fail;
  failing.message = "a < b && c > \"d\"\nsecond line";
  CheckResult error = passing();
  error.id = "broken";
  error.wrong_variants = {};
  error.verdict = Verdict::error;
  error.message = "no device";
  CheckResult skipped = passing();
  skipped.id = "absent";
  skipped.verdict = Verdict::skip;
  skipped.message = "no such backend here";
  return {passing(), failing, error, skipped};
}

const ReportHeader kHeader = {"claims", {{"seed", "1"}, {"note", "a & b"}}};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

const std::string& line_with(const std::vector<std::string>& lines, const std::string& start) {
  const auto it = std::find_if(lines.begin(), lines.end(), [&](const std::string& l) { return l.starts_with(start); });
  if (it == lines.end()) throw std::runtime_error("no line starts with " + start);
  return *it;
}

TEST(Tally, CountsVerdicts) {
  const Tally t = tally(one_of_each());
  EXPECT_EQ(t.passed, 1u);
  EXPECT_EQ(t.failed, 1u);
  EXPECT_EQ(t.errors, 1u);
  EXPECT_EQ(t.skipped, 1u);
  EXPECT_EQ(t.seconds, 1.0);
  EXPECT_FALSE(t.good());
  EXPECT_TRUE(tally({}).good());
}

TEST(TextReport, IsAlignedAndFitsATerminal) {
  const std::vector<std::string> lines = lines_of(text_report(kHeader, one_of_each()));
  for (const std::string& line : lines) {
    EXPECT_LE(utf8_length(line), 118u) << line;
    EXPECT_FALSE(line.ends_with(' ')) << line;
  }
  const std::size_t verdict = line_with(lines, "check ").find("verdict");
  EXPECT_EQ(line_with(lines, "good ").rfind("pass"), verdict);
  EXPECT_EQ(line_with(lines, "bad ").rfind("FAIL"), verdict);
  EXPECT_EQ(line_with(lines, "broken ").rfind("ERROR"), verdict);
  EXPECT_EQ(line_with(lines, "absent ").rfind("skip"), verdict);
}

TEST(TextReport, TellsWhatMatters) {
  const std::string text = text_report(kHeader, one_of_each());
  const std::vector<std::string> lines = lines_of(text);
  EXPECT_EQ(lines[0], "claims: seed 1, note a & b");
  const std::string& good = line_with(lines, "good ");
  EXPECT_NE(good.find("2.5e-49 1.0e-45 1.0e-02"), std::string::npos) << "figure, limit, nearest wrong one: " << good;
  EXPECT_NE(line_with(lines, "bad ").find("nan 1.0e-45       0"), std::string::npos) << "the accepted one is shown";
  EXPECT_NE(line_with(lines, "broken ").find(" - "), std::string::npos);
  EXPECT_NE(text.find("FAIL bad: "), std::string::npos);
  EXPECT_NE(text.find("a < b && c > \"d\" second line"), std::string::npos);
  EXPECT_NE(text.find("ERROR broken: "), std::string::npos);
  EXPECT_EQ(text.find("FAIL good"), std::string::npos);
  EXPECT_EQ(text.find("Entropy by distance"), std::string::npos) << "tables are for the other reports";
  EXPECT_EQ(lines.back(), "1 of 4 passed, 1 failed, 1 errors, 1 skipped; 1.0 s");
}

TEST(TextReport, OfNothingSaysSo) {
  const std::string text = text_report({"nothing", {}}, {});
  EXPECT_TRUE(text.starts_with("nothing\n"));
  EXPECT_TRUE(text.ends_with("0 of 0 passed, 0 failed, 0 errors, 0 skipped; 0.0 s\n"));
}

TEST(JsonReport, HoldsEverything) {
  const auto json = nlohmann::json::parse(json_report(kHeader, one_of_each()));
  EXPECT_EQ(json["suite"], "claims");
  EXPECT_EQ(json["properties"]["note"], "a & b");
  EXPECT_EQ(json["passed"], 1);
  EXPECT_EQ(json["failed"], 1);
  EXPECT_EQ(json["errors"], 1);
  EXPECT_EQ(json["skipped"], 1);
  ASSERT_EQ(json["checks"].size(), 4u);
  const auto& good = json["checks"][0];
  for (const char* key :
       {"id", "title", "reference", "statement", "method", "threshold_reason", "witness", "message"}) {
    EXPECT_TRUE(good[key].is_string()) << key;
  }
  EXPECT_EQ(good["figure"], 2.5e-49);
  EXPECT_EQ(good["threshold"], 1e-45);
  EXPECT_EQ(good["verdict"], "pass");
  EXPECT_EQ(good["false_alarm"], 1e-9);
  const auto& table = good["tables"][0];
  EXPECT_EQ(table["title"], "Entropy by distance");
  EXPECT_EQ(table["columns"], nlohmann::json({"t (tokens)", "law", "E[H] (nats)"}));
  EXPECT_EQ(table["rows"], nlohmann::json({{10.0, "normal", "inf"}}));
  EXPECT_EQ(good["wrong_variants"][0]["figure"], "inf");
  EXPECT_EQ(good["wrong_variants"][1]["figure"], 0.01);
  EXPECT_EQ(good["wrong_variants"][1]["rejected"], true);
  EXPECT_EQ(json["checks"][1]["figure"], "nan");
  EXPECT_EQ(json["checks"][1]["message"], "a < b && c > \"d\"\nsecond line");
}

TEST(JsonReport, SurvivesBadUtf8) {
  std::vector<CheckResult> results = {passing()};
  results[0].message = "\xFF\xFE";
  EXPECT_NO_THROW({ EXPECT_FALSE(nlohmann::json::parse(json_report(kHeader, results)).empty()); });
}

TEST(JunitReport, ReadsBackAsXml) {
  std::istringstream stream(junit_report(kHeader, one_of_each()));
  boost::property_tree::ptree xml;
  boost::property_tree::read_xml(stream, xml);
  const auto& suite = xml.get_child("testsuites.testsuite");
  EXPECT_EQ(suite.get<std::string>("<xmlattr>.name"), "claims");
  EXPECT_EQ(suite.get<int>("<xmlattr>.tests"), 4);
  EXPECT_EQ(suite.get<int>("<xmlattr>.failures"), 1);
  EXPECT_EQ(suite.get<int>("<xmlattr>.errors"), 1);
  EXPECT_EQ(suite.get<int>("<xmlattr>.skipped"), 1);
  std::vector<boost::property_tree::ptree> cases;
  for (const auto& [name, child] : suite) {
    if (name == "testcase") cases.push_back(child);
  }
  ASSERT_EQ(cases.size(), 4u);
  EXPECT_EQ(cases[0].get<std::string>("<xmlattr>.name"), "good");
  EXPECT_EQ(cases[0].get<std::string>("<xmlattr>.classname"), "claims");
  EXPECT_EQ(cases[0].get<double>("<xmlattr>.time"), 0.25);
  EXPECT_FALSE(cases[0].get_child_optional("failure"));
  EXPECT_NE(cases[0].get<std::string>("system-out").find("false alarm: at most 1.0e-09"), std::string::npos);
  EXPECT_EQ(cases[1].get<std::string>("failure.<xmlattr>.message"), "a < b && c > \"d\"\nsecond line");
  EXPECT_NE(cases[1].get<std::string>("system-out").find("\"accepted <one>\": figure 0, ACCEPTED"), std::string::npos);
  EXPECT_EQ(cases[2].get<std::string>("error.<xmlattr>.message"), "no device");
  EXPECT_EQ(cases[3].get<std::string>("skipped.<xmlattr>.message"), "no such backend here");
}

TEST(XmlEscaped, LeavesNothingThatXmlForbids) {
  EXPECT_EQ(xml_escaped("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&apos;");
  EXPECT_EQ(xml_escaped("]]>"), "]]&gt;");
  EXPECT_EQ(xml_escaped("1\n2\t3\r"), "1&#10;2&#9;3&#13;");
  EXPECT_EQ(xml_escaped("\u03c4 \u2264 \U0001F600"), "\u03c4 \u2264 \U0001F600");
  const std::string replacement = "\xEF\xBF\xBD";
  EXPECT_EQ(xml_escaped(std::string_view("a\0b", 3)), "a" + replacement + "b");
  EXPECT_EQ(xml_escaped("\x1B[0m"), replacement + "[0m");
  EXPECT_EQ(xml_escaped("\xC3"), replacement) << "cut short";
  EXPECT_EQ(xml_escaped("\xC0\xAF"), replacement + replacement) << "overlong";
  EXPECT_EQ(xml_escaped("\xED\xA0\x80"), replacement + replacement + replacement) << "a surrogate";
  EXPECT_EQ(xml_escaped("\xEF\xBF\xBF"), replacement + replacement + replacement) << "U+FFFF";
}

TEST(Utf8, CutsAtCodePoints) {
  EXPECT_EQ(utf8_length("\u03c4\u03b1x"), 3u);
  EXPECT_EQ(utf8_cut("\u03c4\u03b1\u03b2\u03b3\u03b4", 5), "\u03c4\u03b1\u03b2\u03b3\u03b4");
  EXPECT_EQ(utf8_cut("\u03c4\u03b1\u03b2\u03b3\u03b4", 4), "\u03c4...");
  EXPECT_EQ(utf8_cut("abc", 2), "ab");
  EXPECT_EQ(utf8_cut("abc", 0), "");
}

}  // namespace
}  // namespace siattn::verify
