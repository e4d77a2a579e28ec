// SPDX-License-Identifier: Apache-2.0
#include "tools/gaussian_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "verify/json_number.hpp"
#include "verify/pictures/html_report.hpp"

namespace siattn::tools {
namespace {

using verify::HeadMarginals;
using verify::json_number;

constexpr const char* kCaveat =
    "Logits of one sequence share queries and keys, so they depend on each other: standard errors, the band and p\n"
    "are those of as many independent draws and only indicate. p also takes the fitted mean and deviation as known,\n"
    "which makes it too large. What counts are the sizes. D: largest difference of the distribution functions.\n"
    "A2/n: Anderson-Darling's weighted mean square of it.";

constexpr const char* kColumns =
    "calibrated: scale-invariant on (S - mean) / sd of each head; calibrated, sd: on S / sd; sinks keep L = S";

std::string in_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string sink_words(std::int64_t n_sink) {
  if (n_sink == 0) return "no key left out";
  return n_sink == 1 ? "key 0 left out as sink" : fmt::format("keys 0 .. {} left out as sinks", n_sink - 1);
}

std::string range_words(std::int64_t first, std::int64_t last) {
  return last - first == 1 ? fmt::format("t = {}", first) : fmt::format("t = {} .. {}", first, last - 1);
}

std::string summary_words(const GaussianFindings& f) {
  return fmt::format("base logits of {} head{}, {} queries, {} keys, causal pairs, {}: {} pairs in all",
                     f.logits.heads.size(), f.logits.heads.size() == 1 ? "" : "s", f.query_len, f.kv_len,
                     sink_words(f.n_sink), f.logits.pooled.count);
}

/// The rows of the table of marginal laws: heads, then all of them together.
struct LawRow {
  std::string name;
  verify::MomentSummary moments;
  const HeadMarginals* law;  ///< null: moments only
};

std::vector<LawRow> law_rows(const verify::GaussianReport& report) {
  std::vector<LawRow> rows;
  for (std::size_t h = 0; h < report.heads.size(); ++h) {
    rows.push_back({fmt::format("head {}", h), report.heads[h].moments, &report.heads[h]});
  }
  rows.push_back({"all heads", report.pooled, nullptr});
  rows.push_back({"all, calibrated", report.pooled_calibrated.moments, &report.pooled_calibrated});
  return rows;
}

double share(double a2, double n) { return a2 / n; }

std::string laws_text(const verify::GaussianReport& report) {
  std::string out = fmt::format("{:<16}{:>10}{:>10}{:>10}{:>10}{:>11}{:>12}{:>10}{:>10}\n", "", "mean", "sd",
                                "skewness", "ex.kurt.", "D, N(0,1)", "D, N(m,sd)", "A2/n", "p");
  for (const LawRow& row : law_rows(report)) {
    out += fmt::format("{:<16}{:>10.3f}{:>10.3f}{:>10.3f}{:>10.3f}", row.name, row.moments.mean.value,
                       row.moments.standard_deviation.value, row.moments.skewness.value,
                       row.moments.excess_kurtosis.value);
    if (row.law != nullptr) {
      out += fmt::format("{:>11.3f}{:>12.3f}{:>10.5f}{:>10.2g}", row.law->from_standard.kolmogorov.distance,
                         row.law->from_fitted.kolmogorov.distance,
                         share(row.law->from_fitted.anderson_darling, row.moments.count), row.law->p_value);
    }
    out += '\n';
  }
  return out;
}

std::string distances_text(const verify::GaussianReport& report) {
  std::string out = "(S - mean) / sd of each head, by distance: the theory has mean 0, sd 1 at every distance\n";
  for (const verify::DistanceMoments& d : report.by_distance) {
    out += fmt::format("{:<20}  mean {:>6.2f}   sd {:>5.2f}\n", range_words(d.first, d.last), d.calibrated.mean(),
                       d.calibrated.count() > 1 ? d.calibrated.standard_deviation() : std::nan(""));
  }
  return out;
}

/// A block of numbers: a row for each decade, a column for each transform.
template <class Cell>
std::string block(const GaussianFindings& f, const char* title, std::string_view sink_row, const Cell& cell) {
  std::string out = fmt::format("{:<20}", title);
  for (const TransformTable& t : f.transforms) out += fmt::format("{:>16}", t.name);
  out += '\n';
  const auto& decades = f.transforms.front().table.decades;
  for (std::size_t k = 0; k < decades.size(); ++k) {
    out += fmt::format("{:<20}", range_words(decades[k].first, decades[k].last));
    for (const TransformTable& t : f.transforms) out += fmt::format("{:>16}", cell(t.table, k));
    out += '\n';
  }
  out += fmt::format("{:<20}", sink_row);
  for (const TransformTable& t : f.transforms) out += fmt::format("{:>16}", cell(t.table, decades.size()));
  return out + '\n';
}

std::string decades_text(const GaussianFindings& f) {
  const auto mass = [](const verify::DecadeTable& table, std::size_t k) {
    return fmt::format("{:.2f}", 100 * (k < table.decades.size() ? table.decades[k].mass : table.sink_mass));
  };
  const auto entropy = [](const verify::DecadeTable& table, std::size_t k) {
    return fmt::format("{:.2f}", k < table.decades.size() ? table.decades[k].entropy : table.entropy);
  };
  return block(f, "attention, %", f.n_sink > 0 ? "sinks" : "no sinks", mass) + '\n' +
         block(f, "entropy, nats", "all", entropy) + '\n' + kColumns + '\n';
}

nlohmann::ordered_json json_of(const verify::Estimate& e) {
  return {{"value", json_number(e.value)}, {"standard_error", json_number(e.standard_error)}};
}

nlohmann::ordered_json json_of(const verify::MomentSummary& m) {
  return {{"pairs", m.count},
          {"mean", json_of(m.mean)},
          {"standard_deviation", json_of(m.standard_deviation)},
          {"skewness", json_of(m.skewness)},
          {"excess_kurtosis", json_of(m.excess_kurtosis)}};
}

nlohmann::ordered_json json_of(const verify::LawDistance& d, double n) {
  return {{"kolmogorov", d.kolmogorov.distance},
          {"kolmogorov_resolution", d.kolmogorov.resolution},
          {"anderson_darling", json_number(d.anderson_darling)},
          {"anderson_darling_over_n", json_number(share(d.anderson_darling, n))}};
}

nlohmann::ordered_json json_of(const HeadMarginals& head) {
  auto quantiles = nlohmann::ordered_json::array();
  for (const verify::QuantilePoint& q : head.quantiles) {
    quantiles.push_back(
        {q.probability, json_number(q.theoretical), json_number(q.sample), json_number(q.low), json_number(q.high)});
  }
  auto document = json_of(head.moments);
  document["least"] = head.least;
  document["greatest"] = head.greatest;
  document["from_standard_normal"] = json_of(head.from_standard, head.moments.count);
  document["from_fitted_normal"] = json_of(head.from_fitted, head.moments.count);
  document["p_value"] = head.p_value;
  document["quantiles"] = quantiles;
  return document;
}

nlohmann::ordered_json json_of(const TransformTable& t) {
  auto decades = nlohmann::ordered_json::array();
  for (const verify::Decade& d : t.table.decades) {
    decades.push_back({{"first", d.first}, {"last", d.last - 1}, {"mass", d.mass}, {"entropy", d.entropy}});
  }
  return {{"transform", t.name},
          {"rows", t.table.rows},
          {"sink_mass", t.table.sink_mass},
          {"entropy", t.table.entropy},
          {"decades", decades}};
}

// ---- Pictures -------------------------------------------------------------------------------------------------------

verify::Panel qq_panel(const std::string& title, const HeadMarginals& head) {
  verify::Panel panel;
  panel.title = title;
  panel.x = {.label = "standard normal quantile"};
  panel.y = {.label = "(S − mean) / sd"};
  verify::Series normal{.name = "normal", .draw = verify::Draw::guide};
  verify::Series sample{.name = "logits", .draw = verify::Draw::line, .style = 0};
  for (const verify::QuantilePoint& q : head.quantiles) {
    normal.x.push_back(q.theoretical);
    normal.y.push_back(q.theoretical);
    sample.x.push_back(q.theoretical);
    sample.y.push_back(q.sample);
    // Where the band has no end it is drawn to the extreme logit.
    sample.low.push_back(std::isfinite(q.low) ? q.low : head.quantiles.front().sample);
    sample.high.push_back(std::isfinite(q.high) ? q.high : head.quantiles.back().sample);
  }
  panel.series = {normal, sample};
  return panel;
}

verify::Picture qq_picture(const GaussianFindings& f) {
  verify::Picture picture;
  picture.id = "qq";
  picture.plot.title = "Base logits against the normal law, head by head";
  picture.plot.description = "QQ plots of standardised base logits of each head and of all heads together.";
  for (std::size_t h = 0; h < f.logits.heads.size(); ++h)
    picture.plot.panels.push_back(qq_panel(fmt::format("head {}", h), f.logits.heads[h]));
  if (f.logits.heads.size() > 1)
    picture.plot.panels.push_back(qq_panel("all heads, each by its own mean and sd", f.logits.pooled_calibrated));
  picture.caption =
      "On the grey line the logits of a head are normal, whatever their mean and deviation. A line that is steeper at "
      "an end "
      "than the grey one has a heavier tail there, a flatter one a lighter tail.";
  picture.method = fmt::format(
      "Band: Dvoretzky, Kiefer and Wolfowitz, level {:g} for a whole plot, if the pairs were independent (which they "
      "are "
      "not): {:.2g} in probability. Quantiles from counts in bins of 2^-10.",
      f.logits.band_level, f.logits.band);
  return picture;
}

verify::Picture moments_picture(const GaussianFindings& f) {
  verify::Picture picture;
  picture.id = "moments";
  picture.plot.title = "Mean and deviation of the base logits";
  picture.plot.description = "Left: of each head. Right: of the calibrated logits of all heads, by distance.";
  verify::Panel heads{"by head, as they are", {.label = "head"}, {.label = "base logit S"}, {}};
  verify::Series mean{.name = "mean ± sd", .draw = verify::Draw::markers, .style = 0};
  for (std::size_t h = 0; h < f.logits.heads.size(); ++h) {
    const verify::MomentSummary& m = f.logits.heads[h].moments;
    heads.x.categories.push_back(std::to_string(h));
    mean.x.push_back(static_cast<double>(h));
    mean.y.push_back(m.mean.value);
    mean.low.push_back(m.mean.value - m.standard_deviation.value);
    mean.high.push_back(m.mean.value + m.standard_deviation.value);
  }
  heads.series = {mean};
  verify::Panel distances{
      "by distance, calibrated", {.label = "distance t (tokens)"}, {.label = "(S − mean) / sd"}, {}};
  verify::Series by_distance{.name = "mean ± sd", .draw = verify::Draw::markers, .style = 0};
  for (const verify::DistanceMoments& d : f.logits.by_distance) {
    distances.x.categories.push_back(d.last - d.first == 1 ? std::to_string(d.first)
                                                           : fmt::format("{}–{}", d.first, d.last - 1));
    const double sd = d.calibrated.count() > 1 ? d.calibrated.standard_deviation() : 0;
    by_distance.x.push_back(static_cast<double>(by_distance.x.size()));
    by_distance.y.push_back(d.calibrated.mean());
    by_distance.low.push_back(d.calibrated.mean() - sd);
    by_distance.high.push_back(d.calibrated.mean() + sd);
  }
  distances.series = {by_distance};
  picture.plot.panels = {heads, distances};
  picture.caption =
      "The theory takes base logits as N(0, 1) at every distance. A mean that falls with distance means that queries "
      "and keys "
      "are less alike the farther they are apart.";
  picture.method = "Whiskers: one standard deviation of the logits on either side.";
  return picture;
}

verify::Picture decades_picture(const GaussianFindings& f) {
  verify::Picture picture;
  picture.id = "decades";
  picture.plot.title = "Where the attention falls, by transform";
  picture.plot.description = "Share of attention and entropy within each decade of distance, for each transform.";
  verify::Panel mass{"attention", {.label = "distance t (tokens)"}, {.label = "share (%)", .low = 0.0}, {}};
  verify::Panel entropy{
      "entropy within the decade", {.label = "distance t (tokens)"}, {.label = "nats", .low = 0.0}, {}};
  for (const verify::Decade& d : f.transforms.front().table.decades) {
    mass.x.categories.push_back(d.last - d.first == 1 ? std::to_string(d.first)
                                                      : fmt::format("{}–{}", d.first, d.last - 1));
  }
  entropy.x.categories = mass.x.categories;
  if (f.n_sink > 0) mass.x.categories.emplace_back("sinks");
  for (std::size_t k = 0; k < f.transforms.size(); ++k) {
    const TransformTable& t = f.transforms[k];
    verify::Series masses{.name = t.name, .draw = verify::Draw::bars, .style = static_cast<int>(k)};
    verify::Series entropies = masses;
    for (std::size_t d = 0; d < t.table.decades.size(); ++d) {
      masses.x.push_back(static_cast<double>(d));
      masses.y.push_back(100 * t.table.decades[d].mass);
      entropies.x.push_back(static_cast<double>(d));
      entropies.y.push_back(t.table.decades[d].entropy);
    }
    if (f.n_sink > 0) {
      masses.x.push_back(static_cast<double>(t.table.decades.size()));
      masses.y.push_back(100 * t.table.sink_mass);
    }
    mass.series.push_back(masses);
    entropy.series.push_back(entropies);
  }
  picture.plot.panels = {mass, entropy};
  picture.plot.columns = 1;
  picture.caption =
      "The model was trained with its own attention: this shows what each map does to its logits, not what a model "
      "trained with that map would do. " +
      std::string(kColumns) + ".";
  picture.method = "Means over heads and queries, in double; entropy is that of the weights within the decade.";
  return picture;
}

verify::Table laws_table(const GaussianFindings& f) {
  verify::Table table{
      "Marginal law of the base logits",
      {"", "mean", "sd", "skewness", "excess kurtosis", "D from N(0,1)", "D from N(mean, sd)", "A²/n", "p"},
      {}};
  for (const LawRow& row : law_rows(f.logits)) {
    const auto short_number = [](double x) { return fmt::format("{:.3f}", std::abs(x) < 5e-4 ? 0 : x); };
    std::vector<verify::Table::Cell> cells{row.name};
    for (const verify::Estimate& e :
         {row.moments.mean, row.moments.standard_deviation, row.moments.skewness, row.moments.excess_kurtosis})
      cells.emplace_back(short_number(e.value));
    if (row.law != nullptr) {
      cells.insert(cells.end(), {short_number(row.law->from_standard.kolmogorov.distance),
                                 short_number(row.law->from_fitted.kolmogorov.distance),
                                 share(row.law->from_fitted.anderson_darling, row.moments.count), row.law->p_value});
    } else {
      cells.insert(cells.end(), {"", "", "", ""});
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

std::vector<verify::Picture> pictures_of(const GaussianFindings& f) {
  return {qq_picture(f), moments_picture(f), decades_picture(f)};
}

}  // namespace

std::string gaussian_text(const GaussianFindings& f) {
  std::string out = summary_words(f) + '\n';
  if (f.logits.rows_left_out > 0)
    out += fmt::format("{} query rows left out: NaN or infinity among their logits\n", f.logits.rows_left_out);
  out += '\n' + laws_text(f.logits) + '\n' + kCaveat + '\n';
  out += fmt::format("DKW band of one head at level {:g}: {:.2g} in probability\n", f.logits.band_level, f.logits.band);
  out += '\n' + distances_text(f.logits) + '\n' + decades_text(f);
  return out;
}

nlohmann::ordered_json gaussian_json(const GaussianFindings& f) {
  auto heads = nlohmann::ordered_json::array();
  for (const HeadMarginals& head : f.logits.heads) heads.push_back(json_of(head));
  auto by_distance = nlohmann::ordered_json::array();
  for (const verify::DistanceMoments& d : f.logits.by_distance) {
    auto entry = json_of(verify::summary_of(d.calibrated));
    entry["first"] = d.first;
    entry["last"] = d.last - 1;
    by_distance.push_back(entry);
  }
  auto transforms = nlohmann::ordered_json::array();
  for (const TransformTable& t : f.transforms) transforms.push_back(json_of(t));
  return {{"source", f.source},
          {"queries", f.query_len},
          {"keys", f.kv_len},
          {"sinks", f.n_sink},
          {"rows_left_out", f.logits.rows_left_out},
          {"caveat", in_one_line(kCaveat)},
          {"band_level", f.logits.band_level},
          {"band", f.logits.band},
          {"quantile_columns", {"probability", "standard_normal", "standardised_logit", "low", "high"}},
          {"heads", heads},
          {"pooled", json_of(f.logits.pooled)},
          {"pooled_calibrated", json_of(f.logits.pooled_calibrated)},
          {"calibrated_by_distance", by_distance},
          {"transforms", transforms}};
}

std::string gaussian_html(const GaussianFindings& f) {
  std::string body = verify::html_paragraph(f.source) + verify::html_paragraph(summary_words(f) + ".");
  if (f.logits.rows_left_out > 0) {
    body += verify::html_paragraph(
        fmt::format("{} query rows left out: NaN or infinity among their logits.", f.logits.rows_left_out));
  }
  body += verify::html_table(laws_table(f)) + verify::html_paragraph(in_one_line(kCaveat));
  for (const verify::Picture& picture : pictures_of(f)) body += verify::html_figure(picture);
  return verify::html_page("Are these logits Gaussian?", body);
}

}  // namespace siattn::tools
