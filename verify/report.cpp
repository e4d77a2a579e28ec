// SPDX-License-Identifier: Apache-2.0
#include "verify/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "verify/json_number.hpp"
#include "verify/utf8.hpp"

namespace siattn::verify {
namespace {

constexpr std::size_t kWidth = 118;

std::string number(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  return x == 0 ? "0" : fmt::format("{:.1e}", x);
}

/// The wrong variant that came nearest to being accepted; an accepted one first of all.
const WrongVariant* nearest(const CheckResult& r) {
  const auto it = std::min_element(r.wrong_variants.begin(), r.wrong_variants.end(), [](const auto& a, const auto& b) {
    return std::pair(a.rejected, a.figure) < std::pair(b.rejected, b.figure);
  });
  return it == r.wrong_variants.end() ? nullptr : &*it;
}

std::string shouted(Verdict verdict) {  // so that the eye finds it in a column of "pass"
  switch (verdict) {
    case Verdict::fail: return "FAIL";
    case Verdict::error: return "ERROR";
    case Verdict::pass:
    case Verdict::skip: break;
  }
  return std::string(name_of(verdict));
}

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
  return text;
}

struct Column {
  std::string head;
  bool right_aligned;
  std::vector<std::string> cells = {};
  std::size_t width = 0;

  void measure() {
    width = utf8_length(head);
    for (const std::string& cell : cells) width = std::max(width, utf8_length(cell));
  }
  std::string pad(const std::string& cell) const {
    const std::string shown = utf8_cut(cell, width);
    const std::string space(width - utf8_length(shown), ' ');
    return right_aligned ? space + shown : shown + space;
  }
};

std::string table(std::span<const CheckResult> results) {
  std::vector<Column> columns = {{"check", false},  {"title", false}, {"reference", false},
                                 {"method", false}, {"figure", true}, {"limit", true},
                                 {"wrong", true},   {"time", true},   {"verdict", false}};
  for (const CheckResult& r : results) {
    const WrongVariant* wrong = nearest(r);
    const std::string cells[] = {r.id,
                                 r.title,
                                 r.reference,
                                 r.method,
                                 number(r.figure),
                                 number(r.threshold),
                                 wrong != nullptr ? number(wrong->figure) : "-",
                                 fmt::format("{:.2f}", r.seconds),
                                 shouted(r.verdict)};
    for (std::size_t c = 0; c < columns.size(); ++c) columns[c].cells.push_back(one_line(cells[c]));
  }
  std::size_t total = columns.size() - 1;
  for (Column& column : columns) {
    column.measure();
    total += column.width;
  }
  // What does not fit is taken from the words, title first; figures and verdicts are always whole.
  for (const std::size_t c : {1, 2, 0, 3}) {
    const std::size_t room = columns[c].width - utf8_length(columns[c].head);
    const std::size_t cut = total > kWidth ? std::min(total - kWidth, room) : 0;
    columns[c].width -= cut;
    total -= cut;
  }
  std::string out;
  const auto line = [&](auto cell_of) {
    std::string row;
    for (const Column& column : columns) row += column.pad(cell_of(column)) + ' ';
    row.erase(row.find_last_not_of(' ') + 1);
    out += row + '\n';
  };
  line([](const Column& column) { return column.head; });
  line([](const Column& column) { return std::string(column.width, '-'); });
  for (std::size_t i = 0; i < results.size(); ++i) line([i](const Column& column) { return column.cells[i]; });
  return out;
}

/// Breaks at spaces so that no line is wider than the terminal; a longer word stays whole.
std::string wrapped(const std::string& text, const std::string& indent) {
  std::string out = indent;
  std::size_t used = indent.size();
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (used > indent.size() && used + 1 + utf8_length(word) > kWidth) {
      out += '\n' + indent;
      used = indent.size();
    }
    if (used > indent.size()) {
      out += ' ';
      ++used;
    }
    out += word;
    used += utf8_length(word);
    begin = end + 1;
  }
  return out + '\n';
}

std::string failure_text(const CheckResult& r) {
  std::string out = fmt::format("{} {}: {}\n", shouted(r.verdict), one_line(r.id), one_line(r.title));
  if (!r.statement.empty()) out += wrapped("checked: " + one_line(r.statement), "  ");
  out += wrapped(
      fmt::format("figure {} of at most {} ({})", number(r.figure), number(r.threshold), one_line(r.threshold_reason)),
      "  ");
  if (!r.witness.empty()) out += wrapped("at " + one_line(r.witness), "  ");
  if (!r.message.empty()) out += wrapped(one_line(r.message), "  ");
  return out;
}

nlohmann::ordered_json json_of(const Table& table) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& row : table.rows) {
    nlohmann::ordered_json cells = nlohmann::ordered_json::array();
    for (const Table::Cell& cell : row) {
      const double* x = std::get_if<double>(&cell);
      cells.push_back(x != nullptr ? json_number(*x) : nlohmann::ordered_json(std::get<std::string>(cell)));
    }
    rows.push_back(std::move(cells));
  }
  return {{"title", table.title}, {"columns", table.columns}, {"rows", std::move(rows)}};
}

nlohmann::ordered_json json_of(const CheckResult& r) {
  nlohmann::ordered_json wrong = nlohmann::ordered_json::array();
  for (const WrongVariant& w : r.wrong_variants) {
    wrong.push_back({{"name", w.name}, {"figure", json_number(w.figure)}, {"rejected", w.rejected}});
  }
  nlohmann::ordered_json tables = nlohmann::ordered_json::array();
  for (const Table& table : r.tables) tables.push_back(json_of(table));
  return {{"id", r.id},
          {"title", r.title},
          {"reference", r.reference},
          {"statement", r.statement},
          {"method", r.method},
          {"figure", json_number(r.figure)},
          {"threshold", json_number(r.threshold)},
          {"threshold_reason", r.threshold_reason},
          {"witness", r.witness},
          {"false_alarm", json_number(r.false_alarm)},
          {"wrong_variants", std::move(wrong)},
          {"seconds", json_number(r.seconds)},
          {"verdict", name_of(r.verdict)},
          {"message", r.message},
          {"tables", std::move(tables)}};
}

std::string junit_case(const std::string& suite, const CheckResult& r) {
  std::string out = fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\">\n", xml_escaped(suite),
                                xml_escaped(r.id), r.seconds);
  const std::string cause = xml_escaped(r.message.empty() ? "no message" : r.message);
  switch (r.verdict) {
    case Verdict::pass: break;
    case Verdict::fail:
      out += fmt::format("      <failure message=\"{}\">{}</failure>\n", cause, xml_escaped(failure_text(r)));
      break;
    case Verdict::error: out += fmt::format("      <error message=\"{}\"/>\n", cause); break;
    case Verdict::skip: out += fmt::format("      <skipped message=\"{}\"/>\n", cause); break;
  }
  std::string figures = fmt::format("{} ({})\nmethod {}, figure {}, limit {}: {}\nat {}\n", r.title, r.reference,
                                    r.method, number(r.figure), number(r.threshold), r.threshold_reason, r.witness);
  if (r.false_alarm > 0) figures += fmt::format("chance of a false alarm: at most {}\n", number(r.false_alarm));
  for (const WrongVariant& w : r.wrong_variants) {
    figures += fmt::format("wrong variant \"{}\": figure {}, {}\n", w.name, number(w.figure),
                           w.rejected ? "rejected" : "ACCEPTED");
  }
  return out + fmt::format("      <system-out>{}</system-out>\n    </testcase>\n", xml_escaped(figures));
}

}  // namespace

std::string_view name_of(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::pass: return "pass";
    case Verdict::fail: return "fail";
    case Verdict::error: return "error";
    case Verdict::skip: return "skip";
  }
  return "?";
}

Tally tally(std::span<const CheckResult> results) {
  Tally t;
  for (const CheckResult& r : results) {
    switch (r.verdict) {
      case Verdict::pass: ++t.passed; break;
      case Verdict::fail: ++t.failed; break;
      case Verdict::error: ++t.errors; break;
      case Verdict::skip: ++t.skipped; break;
    }
    t.seconds += r.seconds;
  }
  return t;
}

std::string text_report(const ReportHeader& header, std::span<const CheckResult> results) {
  std::string title = header.suite;
  for (const auto& [key, value] : header.properties)
    title += fmt::format("{} {} {}", &key == &header.properties[0].first ? ":" : ",", key, value);
  std::string out = wrapped(one_line(title), "") + '\n' + table(results);
  for (const CheckResult& r : results) {
    if (r.verdict == Verdict::fail || r.verdict == Verdict::error) out += '\n' + failure_text(r);
  }
  const auto planted = [](const CheckResult& r) { return !r.wrong_variants.empty(); };
  if (std::any_of(results.begin(), results.end(), planted)) {
    out +=
        "\nwrong: the figure of that planted mistake which came nearest to being accepted; it has to exceed the "
        "limit\n";
  }
  const Tally t = tally(results);
  out += fmt::format("\n{} of {} passed, {} failed, {} errors, {} skipped; {:.1f} s\n", t.passed, results.size(),
                     t.failed, t.errors, t.skipped, t.seconds);
  return out;
}

nlohmann::ordered_json json_document(const ReportHeader& header, std::span<const CheckResult> results) {
  nlohmann::ordered_json properties = nlohmann::ordered_json::object();
  for (const auto& [key, value] : header.properties) properties[key] = value;
  nlohmann::ordered_json checks = nlohmann::ordered_json::array();
  for (const CheckResult& r : results) checks.push_back(json_of(r));
  const Tally t = tally(results);
  return {{"suite", header.suite},
          {"properties", std::move(properties)},
          {"passed", t.passed},
          {"failed", t.failed},
          {"errors", t.errors},
          {"skipped", t.skipped},
          {"seconds", json_number(t.seconds)},
          {"checks", std::move(checks)}};
}

std::string json_text(const nlohmann::ordered_json& document) {
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

std::string json_report(const ReportHeader& header, std::span<const CheckResult> results) {
  return json_text(json_document(header, results));
}

std::string junit_report(const ReportHeader& header, std::span<const CheckResult> results) {
  const Tally t = tally(results);
  const std::string suite = xml_escaped(header.suite);
  const std::string counts = fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3f}\"",
                                         results.size(), t.failed, t.errors, t.skipped, t.seconds);
  std::string out = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {0}>\n  <testsuite name=\"{1}\" {0}>\n", counts, suite);
  out += "    <properties>\n";
  for (const auto& [key, value] : header.properties) {
    out += fmt::format("      <property name=\"{}\" value=\"{}\"/>\n", xml_escaped(key), xml_escaped(value));
  }
  out += "    </properties>\n";
  for (const CheckResult& r : results) out += junit_case(header.suite, r);
  return out + "  </testsuite>\n</testsuites>\n";
}

}  // namespace siattn::verify
