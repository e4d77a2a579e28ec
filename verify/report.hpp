// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_REPORT_HPP
#define SIATTN_VERIFY_REPORT_HPP

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

/// Results of checks, of any suite, and three ways to write them down. Nothing here touches files.
namespace siattn::verify {

enum class Verdict : std::uint8_t {
  pass,
  fail,   ///< the check ran and what it checks does not hold, or a wrong variant was accepted
  error,  ///< the check could not be carried out
  skip,   ///< the check does not apply here; the message says why
};

/// "pass", "fail", "error", "skip".
std::string_view name_of(Verdict verdict) noexcept;

/// A variant with a planted mistake, which a check that can fail has to reject.
struct WrongVariant {
  std::string name;
  double figure = 0;      ///< the figure it gave, in the unit of CheckResult::figure
  bool rejected = false;  ///< figure > threshold, or not a number
};

/// Figures that a check found, for reports and pictures. A cell is a number or text; every row has as many as columns.
struct Table {
  using Cell = std::variant<double, std::string>;
  std::string title;                 ///< what it shows, with what was held fixed
  std::vector<std::string> columns;  ///< with units: "t (tokens)", "E[H] (nats)"
  std::vector<std::vector<Cell>> rows;
};

/// One check: a figure (how far the computed is from the stated, at worst) that may not exceed a threshold.
struct CheckResult {
  std::string id;         ///< short, unique in its suite, stable between versions
  std::string title;      ///< one phrase
  std::string reference;  ///< where what is checked is stated: equation, lemma, section
  std::string statement;  ///< what is checked, in a sentence
  std::string method;     ///< "exact", "certified", "quadrature", "sampled", ...
  double figure = 0;
  double threshold = std::numeric_limits<double>::infinity();
  std::string threshold_reason;
  std::string witness;  ///< the input that gave the figure
  std::vector<WrongVariant> wrong_variants;
  double seconds = 0;
  Verdict verdict = Verdict::error;
  std::string message;  ///< what a reader should know besides; the cause, where the verdict is not pass
  std::vector<Table> tables = {};
  /// Chance that the check fails though what it checks holds, over seeds: 0 where nothing is left to chance.
  double false_alarm = 0;
};

/// What the report is about. `properties` are written in their order: ("seed", "1"), ("version", "0.1.0"), ...
struct ReportHeader {
  std::string suite;
  std::vector<std::pair<std::string, std::string>> properties;
};

struct Tally {
  std::size_t passed = 0;
  std::size_t failed = 0;
  std::size_t errors = 0;
  std::size_t skipped = 0;
  double seconds = 0;

  bool good() const noexcept { return failed == 0 && errors == 0; }
};

Tally tally(std::span<const CheckResult> results);

/// A table for a terminal, at most 118 columns wide, UTF-8: a row for each check, below it the messages of those that
/// did not pass and a line that sums up. Of the wrong variants the smallest figure is shown: the one nearest to being
/// accepted. Long titles are cut. Tables are left out.
std::string text_report(const ReportHeader& header, std::span<const CheckResult> results);

/// All that is known, as one JSON object: {"suite", "properties": {}, "passed", "failed", "errors", "skipped",
/// "seconds", "checks": [{the fields of CheckResult}]}. Numbers that JSON lacks are the strings "inf", "-inf", "nan".
std::string json_report(const ReportHeader& header, std::span<const CheckResult> results);

/// The same as a document that a suite may add to; json_text() writes it.
nlohmann::ordered_json json_document(const ReportHeader& header, std::span<const CheckResult> results);
std::string json_text(const nlohmann::ordered_json& document);

/// JUnit XML as CI systems read it: one <testsuite>, one <testcase> for each check with its time, <failure>, <error> or
/// <skipped> with the message, and the figures in <system-out>. Characters that XML 1.0 forbids become U+FFFD.
std::string junit_report(const ReportHeader& header, std::span<const CheckResult> results);

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_REPORT_HPP
