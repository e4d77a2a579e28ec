// SPDX-License-Identifier: Apache-2.0
#include "verify/pictures/html_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "verify/pictures/svg.hpp"
#include "verify/utf8.hpp"

namespace siattn::verify {
namespace {

constexpr const char* kStyle = R"(<style>
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,'DejaVu Sans',sans-serif;max-width:1240px;margin:0 auto;padding:0 20px 60px}
body{color:#1b1b1b;background:#fff}
h1{font-size:28px;margin:32px 0 8px}
h2{font-size:22px;margin:44px 0 12px}
code{font:14px ui-monospace,'DejaVu Sans Mono',monospace;overflow-wrap:anywhere}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:15px}
table.t{font-size:14px;margin-bottom:16px}
caption{text-align:left;padding:6px 0}
th,td{text-align:left;padding:5px 12px 5px 0;border-bottom:1px solid #d5d5d5;vertical-align:top}
td:first-child{white-space:nowrap}
td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
details{margin:0 0 10px}
summary{cursor:pointer;padding:3px 0}
dl{margin:6px 0 12px 18px}
dt{font-weight:600}
dd{margin:0 0 8px}
.pass{color:#00643f}
.fail,.error{color:#b00020;font-weight:700}
.skip,.how{color:#5c5c5c}
figure{margin:0 0 48px}
figure svg{max-width:100%;height:auto;display:block}
figcaption{max-width:900px}
figcaption p{margin:6px 0}
@media (prefers-color-scheme:dark){
body{color:#ececec;background:#14171a}
th,td{border-color:#3a4147}
.pass{color:#5fd6a8}
.fail,.error{color:#ff8a80}
.skip,.how{color:#a8a8a8}
}
</style>)";

std::string number(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "−inf";
  return x == 0 ? "0" : fmt::format("{:.3g}", x);
}

/// The verdict in words and a sign: never by colour alone.
std::string verdict_cell(Verdict verdict) {
  const char* sign = verdict == Verdict::pass ? "✓ " : verdict == Verdict::skip ? "– " : "✗ ";
  return fmt::format("<td class=\"{0}\">{1}{0}</td>", name_of(verdict), sign);
}

std::string nearest_wrong(const CheckResult& r) {
  const auto it = std::min_element(r.wrong_variants.begin(), r.wrong_variants.end(), [](const auto& a, const auto& b) {
    return std::pair(a.rejected, a.figure) < std::pair(b.rejected, b.figure);
  });
  return it == r.wrong_variants.end() ? "–" : number(it->figure);
}

std::string overview(std::span<const CheckResult> results) {
  std::string out =
      "<div class=\"scroll\"><table><thead><tr><th>check</th><th>what it says</th><th>in the "
      "paper</th><th>method</th><th class=\"n\">figure</th><th class=\"n\">limit</th><th class=\"n\">nearest "
      "mistake</th><th class=\"n\">false alarm</th><th class=\"n\">seconds</th><th>verdict</th></tr></thead><tbody>\n";
  for (const CheckResult& r : results) {
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td>", xml_escaped(r.id), xml_escaped(r.title),
                       xml_escaped(r.reference), xml_escaped(r.method));
    for (const std::string& cell : {number(r.figure), number(r.threshold), nearest_wrong(r), number(r.false_alarm),
                                    fmt::format("{:.2f}", r.seconds)})
      out += "<td class=\"n\">" + cell + "</td>";
    out += verdict_cell(r.verdict) + "</tr>\n";
  }
  return out +
         "</tbody></table></div>\n<p class=\"how\">Figure: how far the computed is from the stated, at worst; it may "
         "not exceed the limit. Nearest mistake: the figure of that planted mistake which came nearest to being "
         "accepted; it has to exceed the limit. False alarm: the chance, over seeds, that the check fails though what "
         "it checks holds.</p>\n";
}

std::string details(const CheckResult& r) {
  const bool good = r.verdict == Verdict::pass || r.verdict == Verdict::skip;
  std::string out = fmt::format("<details{}><summary>{}: {}</summary><dl>", good ? "" : " open=\"open\"",
                                xml_escaped(r.id), xml_escaped(r.title));
  const auto entry = [&out](const char* term, const std::string& text) {
    if (!text.empty()) out += fmt::format("<dt>{}</dt><dd>{}</dd>", term, xml_escaped(text));
  };
  entry("Checked", r.statement);
  entry("Limit", fmt::format("{}: {}", number(r.threshold), r.threshold_reason));
  entry("Figure", r.witness.empty() ? number(r.figure) : fmt::format("{}, at {}", number(r.figure), r.witness));
  entry("Message", r.message);
  std::string mistakes;
  for (const WrongVariant& w : r.wrong_variants)
    mistakes += fmt::format("{}{}: {}, {}", mistakes.empty() ? "" : "; ", w.name, number(w.figure),
                            w.rejected ? "rejected" : "ACCEPTED");
  entry("Planted mistakes", mistakes);
  out += "</dl>\n";
  for (const Table& table : r.tables) out += html_table(table);
  return out + "</details>\n";
}

}  // namespace

std::string html_page(const std::string& title, const std::string& body) {
  return "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\"><head><meta charset=\"utf-8\"/>"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/><title>" +
         xml_escaped(title) + "</title>\n" + kStyle + "</head><body>\n<h1>" + xml_escaped(title) + "</h1>\n" + body +
         "</body></html>\n";
}

std::string html_paragraph(const std::string& text) { return "<p>" + xml_escaped(text) + "</p>\n"; }

std::string html_table(const Table& table) {
  std::string out =
      "<div class=\"scroll\"><table class=\"t\"><caption>" + xml_escaped(table.title) + "</caption><thead><tr>";
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const bool words = !table.rows.empty() && std::holds_alternative<std::string>(table.rows.front()[c]);
    out += fmt::format("<th{}>{}</th>", words ? "" : " class=\"n\"", xml_escaped(table.columns[c]));
  }
  out += "</tr></thead><tbody>";
  for (const auto& row : table.rows) {
    out += "<tr>";
    for (const Table::Cell& cell : row) {
      if (const double* x = std::get_if<double>(&cell)) {
        out += fmt::format("<td class=\"n\">{:.6g}</td>", *x);
      } else {
        out += "<td>" + xml_escaped(std::get<std::string>(cell)) + "</td>";
      }
    }
    out += "</tr>";
  }
  return out + "</tbody></table></div>\n";
}

std::string html_figure(const Picture& picture) {
  return fmt::format("<figure id=\"{}\">{}<figcaption><p>{}</p><p class=\"how\">{}</p></figcaption></figure>\n",
                     xml_escaped(picture.id), svg(picture.plot), xml_escaped(picture.caption),
                     xml_escaped(picture.method));
}

std::string html_report(const ReportHeader& header, const std::string& command, std::span<const CheckResult> results,
                        std::span<const Picture> pictures) {
  const Tally t = tally(results);
  std::string out = "<p>" + xml_escaped(header.suite);
  for (const auto& [key, value] : header.properties) out += ", " + xml_escaped(key) + " " + xml_escaped(value);
  out += fmt::format(
      ". {} of {} passed, {} failed, {} errors, {} skipped; {:.1f} s.</p>\n<p>The same again: <code>{}</code></p>\n",
      t.passed, results.size(), t.failed, t.errors, t.skipped, t.seconds, xml_escaped(command));
  out +=
      "<p>The paper: Anson, Wang, Aitchison, Scale-invariant attention, NeurIPS 2025, arXiv 2505.17083. Every number "
      "here, those behind the pictures too, stands in report.json.</p>\n";
  if (!pictures.empty()) {
    out += "<p>Pictures: ";
    for (const Picture& picture : pictures) {
      out += fmt::format("{}<a href=\"#{}\">{}</a>", &picture == &pictures.front() ? "" : ", ", xml_escaped(picture.id),
                         xml_escaped(picture.id));
    }
    out += "</p>\n";
  }
  out += "<h2>Claims</h2>\n" + overview(results) + "<h2>Claim by claim</h2>\n";
  for (const CheckResult& r : results) out += details(r);
  if (!pictures.empty()) out += "<h2>Pictures</h2>\n";
  for (const Picture& picture : pictures) out += html_figure(picture);
  return html_page("Scale-invariant attention: the claims, checked", out);
}

}  // namespace siattn::verify
