// SPDX-License-Identifier: Apache-2.0
// The conformance suite can fail: backends with planted mistakes, what the report says of them, the command's status.
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/conform_figures.hpp"
#include "tests/support.hpp"
#include "tests/wrong_backends.hpp"
#include "verify/conform.hpp"

namespace siattn::test {
namespace {

using verify::ConformOptions;
using verify::ConformRun;

std::vector<ConformRun> conform(const Backend& backend, const std::string& only = "", const std::string& dtype = "") {
  const Backend* const list[] = {&backend};
  ConformOptions options;
  options.quick = true;
  options.dtype = dtype;
  options.only = only;
  return verify::run_conformance(list, options);
}

std::vector<ConformRun> failures(std::vector<ConformRun> runs) {
  std::erase_if(runs, [](const ConformRun& run) { return run.good(); });
  return runs;
}

bool fails(const std::vector<ConformRun>& runs, const std::string& name) {
  return std::any_of(runs.begin(), runs.end(), [&](const ConformRun& run) { return run.name == name && !run.good(); });
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  return {std::istream_iterator<std::string>(stream), {}};
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// ---- Wrong backends -------------------------------------------------------------------------------------------------

TEST(Conform, TauOnePercentOffFailsInEveryTypeWhereTauCounts) {
  const WrongBackend wrong("wrong-tau", Mistake::tau_one_percent_off);
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    const auto runs = conform(wrong, "", dtype);
    ASSERT_GT(runs.size(), 300u);
    for (const char* name : {"sizes/causal-33", "sizes/decode-257", "windows/causal-window-16", "dims/dim-64",
                             "probes/h-inputs-40x65", "transforms/tau-10-queries-70", "guards/behind-decode-1100"}) {
      EXPECT_TRUE(fails(runs, name)) << dtype << " " << name;
    }
    // Where tau has no part the inner backend shows, which is right.
    for (const char* name : {"sizes/causal-0", "sizes/causal-1", "transforms/none-queries-70",
                             "transforms/alibi-queries-1", "probes/rising-40x65", "transforms/tau-1e30-queries-70"}) {
      EXPECT_FALSE(fails(runs, name)) << dtype << " " << name;
    }
  }
}

TEST(Conform, WriteOutsideIsAFailure) {
  const WrongBackend wrong("wrong-write", Mistake::writes_behind_out);
  for (const char* only : {"sizes/causal-33", "strides/bhsd-gap-3-shift-1-queries-23"}) {
    const auto runs = conform(wrong, only);
    ASSERT_EQ(runs.size(), 3u);
    for (const ConformRun& run : runs) {
      EXPECT_FALSE(run.intact);
      EXPECT_TRUE(run.comparison.good());
      EXPECT_NE(verify::conform_text(runs).find("memory outside the outputs was written"), std::string::npos);
    }
  }
}

TEST(Conform, ElementLeftUnwrittenIsAFailureThatNamesIt) {
  const auto runs = conform(WrongBackend("wrong-hole", Mistake::leaves_one_element), "sizes/causal-33");
  ASSERT_EQ(runs.size(), 3u);
  for (const ConformRun& run : runs) {
    EXPECT_EQ(run.comparison.failures, 1) << run.dtype;
    EXPECT_TRUE(run.comparison.first_failure.starts_with("out[0, 0, 32, 0] = ")) << run.comparison.first_failure;
    EXPECT_NE(run.comparison.first_failure.find("nan:"), std::string::npos) << run.comparison.first_failure;
  }
}

TEST(Conform, ErrorOfABackendIsAFailureWithItsMessage) {
  const auto runs = conform(WrongBackend("wrong-error", Mistake::returns_an_error), "sizes/decode-17");
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(failures(runs).size(), 3u);
  EXPECT_NE(verify::conform_text(runs).find("planted"), std::string::npos);
}

TEST(Conform, NaNEverywhereIsAFailure) {
  const auto runs = conform(WrongBackend("wrong-nan", Mistake::nan_everywhere), "sizes/");
  for (const ConformRun& run : runs) EXPECT_EQ(run.good(), run.comparison.elements == 0) << run.name;
}

TEST(Conform, SwappedHeadsAreAFailureWhereThereAreSome) {
  const auto runs = conform(WrongBackend("wrong-heads", Mistake::swaps_heads), "heads/");
  ASSERT_GT(runs.size(), 50u);
  EXPECT_EQ(failures(runs).size(), runs.size());
}

TEST(Conform, OutputRoundedToBfloat16IsAFailureInFloat32Alone) {
  const auto runs = conform(WrongBackend("wrong-rounding", Mistake::rounds_out_to_bfloat16), "dims/");
  for (const ConformRun& run : runs) EXPECT_EQ(run.good(), run.dtype != "f32") << run.dtype << " " << run.name;
}

/// Reads leave no trace but at a guard page, which the process does not survive.
TEST(ConformDeathTest, ReadOutsideDiesAndNamesTheBufferAndTheCase) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(conform(WrongBackend("wrong-read", Mistake::reads_behind_key), "guards/behind-dim-5-queries-37"),
               "siattn: wrong-read f32 on guards/behind-dim-5-queries-37: touched byte 1 behind the end of key\n");
  EXPECT_DEATH(
      conform(WrongBackend("wrong-read", Mistake::reads_behind_workspace), "guards/behind-dim-5-queries-1", "f16"),
      "siattn: wrong-read f16 on guards/behind-dim-5-queries-1: touched byte 1 behind the end of the workspace\n");
}

// ---- Reports --------------------------------------------------------------------------------------------------------

/// Two features that fail and one that does not.
std::vector<ConformRun> mixed_runs() {
  static const WrongBackend wrong("wrong-tau", Mistake::tau_one_percent_off);
  std::vector<ConformRun> runs = conform(wrong, "heads/", "f32");
  for (const char* only : {"transforms/", "not-finite/"}) {
    for (ConformRun& run : conform(wrong, only, "f32")) runs.push_back(std::move(run));
  }
  for (ConformRun& run : conform(wrong, "transforms/alibi", "bf16")) runs.push_back(std::move(run));
  return runs;
}

TEST(Conform, TextHasTheMatrixTheCommandsAndTheSum) {
  const auto runs = mixed_runs();
  const auto wrong = failures(runs);
  const std::string text = verify::conform_text(runs);
  const auto lines = lines_of(text);
  const std::vector<std::string> features = words_of(lines[2]);
  ASSERT_EQ(features, (std::vector<std::string>{"heads", "transforms", "not-finite"}));
  const std::vector<std::string> row = words_of(lines[3]), other_row = words_of(lines[4]);
  ASSERT_EQ(row.size(), 5u) << lines[3];
  EXPECT_EQ(row[0] + " " + row[1], "wrong-tau f32");
  for (std::size_t k = 0; k < features.size(); ++k) {
    const bool bad =
        std::any_of(wrong.begin(), wrong.end(), [&](const auto& run) { return run.feature == features[k]; });
    EXPECT_EQ(row[2 + k] == "FAIL", bad) << lines[3];
  }
  EXPECT_EQ(row[3], "FAIL");
  EXPECT_EQ(other_row[0] + " " + other_row[1], "wrong-tau bf16");
  EXPECT_EQ(other_row[2], "-");
  EXPECT_NE(other_row[3], "FAIL");
  EXPECT_EQ(other_row[4], "-");

  ASSERT_GT(wrong.size(), 5u);
  EXPECT_NE(text.find(fmt::format("\nfailures ({})\n", wrong.size())), std::string::npos);
  for (std::size_t k = 0; k < std::min<std::size_t>(wrong.size(), 20); ++k) {
    EXPECT_NE(text.find(fmt::format("\n  siattn conform --backend wrong-tau --dtype f32 --case {}\n", wrong[k].name)),
              std::string::npos);
    EXPECT_NE(text.find(wrong[k].comparison.first_failure), std::string::npos);
  }
  EXPECT_EQ(lines.back(), fmt::format("{} passed, {} failed", runs.size() - wrong.size(), wrong.size()));
}

TEST(Conform, TextOfNoRunsAndOfGoodOnesHasNoFailures) {
  EXPECT_EQ(lines_of(verify::conform_text({})).back(), "0 passed, 0 failed");
  const std::string text =
      verify::conform_text(conform(WrongBackend("w", Mistake::tau_one_percent_off), "transforms/none"));
  EXPECT_EQ(text.find("FAIL"), std::string::npos);
}

TEST(Conform, ChecksCountAndNameWhatFailed) {
  const auto runs = mixed_runs();
  const auto checks = verify::conform_checks(runs);
  ASSERT_EQ(checks.size(), 4u);
  std::size_t failed = 0, named = 0;
  for (const verify::CheckResult& check : checks) {
    const std::string feature = check.id.substr(check.id.rfind('/') + 1);
    std::size_t bad = 0;
    for (const ConformRun& run : failures(runs)) {
      if (check.id != run.backend + "/" + run.dtype + "/" + run.feature) continue;
      ++bad;
      EXPECT_NE(check.message.find("--case " + run.name + ": "), std::string::npos) << check.message;
    }
    EXPECT_EQ(check.verdict, bad > 0 ? verify::Verdict::fail : verify::Verdict::pass) << check.id;
    failed += bad > 0 ? 1 : 0;
    named += bad;
    EXPECT_EQ(check.message.empty(), bad == 0) << check.message;
  }
  EXPECT_EQ(named, failures(runs).size());

  const auto json = nlohmann::json::parse(verify::json_report({"conformance", {{"mode", "quick"}}}, checks));
  EXPECT_EQ(json["suite"], "conformance");
  EXPECT_EQ(json["failed"], failed);
  EXPECT_EQ(json["passed"], checks.size() - failed);
  ASSERT_EQ(json["checks"].size(), checks.size());
  for (std::size_t k = 0; k < checks.size(); ++k) {
    EXPECT_EQ(json["checks"][k]["id"], checks[k].id);
    EXPECT_EQ(json["checks"][k]["message"], checks[k].message);
    EXPECT_EQ(json["checks"][k]["verdict"], verify::name_of(checks[k].verdict));
  }

  const std::string xml = verify::junit_report({"conformance", {}}, checks);
  EXPECT_EQ(xml.rfind("<?xml version=\"1.0\"", 0), 0u);
  EXPECT_EQ(count(xml, "<testsuite "), 1u);
  EXPECT_EQ(count(xml, "</testsuite>"), 1u);
  EXPECT_EQ(count(xml, "<testcase "), checks.size());
  EXPECT_EQ(count(xml, "</testcase>"), checks.size());
  EXPECT_EQ(count(xml, "<failure"), failed);
  EXPECT_EQ(count(xml, "</failure>"), failed);
  EXPECT_NE(xml.find(fmt::format("failures=\"{}\"", failed)), std::string::npos);
  // Every < opens or closes an element, and each element that opens closes.
  std::size_t depth = 0;
  for (std::size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at + 1)) {
    const std::size_t end = xml.find('>', at);
    ASSERT_NE(end, std::string::npos);
    ASSERT_TRUE(std::isalpha(static_cast<unsigned char>(xml[at + 1])) || xml[at + 1] == '/' || xml[at + 1] == '?');
    if (xml[at + 1] == '/') {
      ASSERT_GT(depth--, 0u);
    } else if (xml[at + 1] != '?' && xml[end - 1] != '/') {
      ++depth;
    }
  }
  EXPECT_EQ(depth, 0u);
}

TEST(Conform, OptionsChooseTypesAndCases) {
  const WrongBackend backend("any", Mistake::tau_one_percent_off);
  for (const ConformRun& run : conform(backend, "sinks/sinks-1", "bf16")) {
    EXPECT_EQ(run.dtype, "bf16");
    EXPECT_EQ(run.name.rfind("sinks/sinks-1", 0), 0u);
  }
  EXPECT_EQ(conform(backend, "sizes/causal-33").size(), 3u);
  EXPECT_EQ(conform(backend, "sizes/causal-33", "f16").size(), 1u);
  EXPECT_TRUE(conform(backend, "no-such-case").empty());
}

// ---- The command ----------------------------------------------------------------------------------------------------

struct Outcome {
  int status;
  std::string text;  ///< of both streams
};

Outcome command(const std::string& program, const std::string& arguments) {
  for (const char* name : {"SIATTN_BACKEND", "SIATTN_MAX_CPU_ISA"}) unsetenv(name);
  Outcome outcome{-1, {}};
  FILE* const pipe = popen((program + " conform " + arguments + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> part;
  for (std::size_t n; (n = fread(part.data(), 1, part.size(), pipe)) > 0;) outcome.text.append(part.data(), n);
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

/// Some backend that is available here.
std::string some_backend() {
  for (const Backend* backend : cpu::backends()) {
    if (backend->available()) return std::string(backend->name());
  }
  return "reference";
}

/// A program whose list of backends has one more, which is wrong: no other line of it differs.
TEST(ConformCommand, WrongBackendInTheListIsCoveredAndFails) {
  const auto all = command(SIATTN_WRONG_TOOL, "--quick --case sizes/ --dtype f32");
  EXPECT_EQ(all.status, 1) << all.text;
  EXPECT_NE(all.text.find("\nwrong-tau f32 "), std::string::npos) << all.text;
  EXPECT_NE(all.text.find("  siattn conform --backend wrong-tau --dtype f32 --case sizes/causal-33\n"),
            std::string::npos);
  EXPECT_NE(all.text.find("\n" + some_backend() + " f32 "), std::string::npos);
  EXPECT_EQ(all.text.find("--backend " + some_backend()), std::string::npos) << "a right backend fails\n" << all.text;

  const auto json = command(SIATTN_WRONG_TOOL, "--quick --backend wrong-tau --case transforms/ --json");
  EXPECT_EQ(json.status, 1);
  EXPECT_EQ(nlohmann::json::parse(json.text)["failed"], 3);
  EXPECT_EQ(command(SIATTN_WRONG_TOOL, "--quick --backend " + some_backend() + " --case sizes/ --dtype f32").status, 0);
  EXPECT_EQ(command(SIATTN_WRONG_TOOL, "--quick --backend wrong-tau --case transforms/none").status, 0);
}

TEST(ConformCommand, OptionsFilter) {
  const std::string backend = some_backend();
  const auto outcome = command(SIATTN_TOOL, "--backend " + backend + " --dtype bf16 --case heads/heads-3 --json");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  const auto json = nlohmann::json::parse(outcome.text);
  ASSERT_EQ(json["checks"].size(), 1u);
  EXPECT_EQ(json["checks"][0]["id"], backend + "/bf16/heads");
  const auto one = command(SIATTN_TOOL, "--backend " + backend + " --dtype f16 --case transforms/tau-10-queries-70");
  EXPECT_EQ(lines_of(one.text).back(), "1 passed, 0 failed");
}

/// A suite that runs nothing has not passed.
TEST(ConformCommand, NamesThatMeanNothingAreWrongUse) {
  for (const char* arguments :
       {"--backend no-such", "--backend ''", "--dtype f8", "--dtype f64", "--dtype ''", "--case no-such", "--case ''",
        "--case sizes/no-such --dtype f32", "--case SIZES", "--backend reference --case no-such"}) {
    const auto outcome = command(SIATTN_TOOL, std::string("--quick ") + arguments);
    EXPECT_EQ(outcome.status, 2) << arguments << "\n" << outcome.text;
    EXPECT_EQ(lines_of(outcome.text).size(), 1u) << outcome.text;
    EXPECT_EQ(outcome.text.rfind("siattn: ", 0), 0u) << outcome.text;
  }
  const auto outcome = command(SIATTN_TOOL, "--quick --case no-such --dtype f32");
  EXPECT_NE(outcome.text.find("no-such"), std::string::npos) << outcome.text;
}

// ---- The alarm ------------------------------------------------------------------------------------------------------

TEST(ConformFigures, QuickCasesStayWithinFourTimesTheRecord) { expect_figures_near_record(true); }

/// The comparison with the record can fail: a table of figures five times as large.
TEST(ConformFigures, FivefoldRiseIsAnAlarm) {
  const auto record = recorded_figures();
  ASSERT_FALSE(record.empty());
  auto risen = record;
  for (auto& [id, figure] : risen) figure *= 5;
  EXPECT_EQ(risen_figures(risen, record).size(), record.size());
  EXPECT_TRUE(risen_figures(record, record).empty());
  EXPECT_EQ(risen_figures({{"cpu-avx2/f32/no-such-feature", 0.1}}, record).size(), 1u);
}

}  // namespace
}  // namespace siattn::test
