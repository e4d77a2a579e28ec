// SPDX-License-Identifier: Apache-2.0
// siattn gaussian and what takes its calibration, from outside.
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/command.hpp"

namespace siattn::test {
namespace {

class GaussianCommand : public Command {
 protected:
  /// Four query heads on two kv heads, 30 queries at the end of 40 keys; scores far from standard.
  std::vector<std::string> tensors() const {
    const verify::Random random(1, 1);
    const auto value = [&](std::int64_t k) { return 2 * random.gaussian(static_cast<std::uint64_t>(k)) + 0.5; };
    return {"--query", write("q.npy", {4, 30, 16}, value), "--key",
            write("k.npy", {2, 40, 16}, [&](std::int64_t k) { return value(k + 5000) - 1; })};
  }
  std::vector<std::string> command(const char* name, std::initializer_list<std::string> more = {}) const {
    std::vector<std::string> words{name};
    for (const std::string& word : tensors()) words.push_back(word);
    return with(words, more);
  }
  nlohmann::json json(const std::vector<std::string>& arguments) const {
    const Outcome outcome = siattn(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out, nullptr, false);
  }
  /// S of head h, query i, key j, from the files.
  double score(std::int64_t h, std::int64_t i, std::int64_t j) const {
    const std::vector<double> q = values(file("q.npy")), k = values(file("k.npy"));
    double dot = 0;
    for (std::int64_t d = 0; d < 16; ++d)
      dot +=
          q[static_cast<std::size_t>((h * 30 + i) * 16 + d)] * k[static_cast<std::size_t>((h / 2 * 40 + j) * 16 + d)];
    return dot / 4;
  }
};

TEST_F(GaussianCommand, MeasuresAndCalibrates) {
  const auto document = json(command("gaussian", {"--json", "--calibration-out", file("c.json")}));
  const auto factors = nlohmann::json::parse(io::read_bytes(file("c.json")));
  ASSERT_EQ(document["heads"].size(), 4u);
  for (std::int64_t h = 0; h < 4; ++h) {
    double n = 0, sum = 0, squares = 0;
    for (std::int64_t i = 0; i < 30; ++i) {
      for (std::int64_t j = 1; j <= 10 + i; ++j) {
        const double s = score(h, i, j);
        n += 1;
        sum += s;
        squares += s * s;
      }
    }
    const auto& head = document["heads"][static_cast<std::size_t>(h)];
    EXPECT_EQ(head["pairs"], n);
    EXPECT_NEAR(head["mean"]["value"], sum / n, 1e-10);
    EXPECT_NEAR(head["standard_deviation"]["value"], std::sqrt((squares - sum * sum / n) / (n - 1)), 1e-10);
    EXPECT_EQ(factors["mean"][static_cast<std::size_t>(h)], head["mean"]["value"]);
    EXPECT_EQ(factors["standard_deviation"][static_cast<std::size_t>(h)], head["standard_deviation"]["value"]);
  }
  ASSERT_EQ(document["transforms"].size(), 6u);
  for (const auto& t : document["transforms"]) {
    double mass = t["sink_mass"];
    for (const auto& decade : t["decades"]) mass += decade["mass"].get<double>();
    EXPECT_NEAR(mass, 1, 1e-12) << t["transform"];
  }
  // The last three columns are what decades prints with this file.
  for (const auto& [column, option] : {std::pair{4, "--calibration-sd"}, std::pair{5, "--calibration"}}) {
    const auto decades = json(command("decades", {"--json", "--sinks", "1", option, file("c.json")}));
    EXPECT_EQ(decades[0]["decades"], document["transforms"][static_cast<std::size_t>(column)]["decades"]) << option;
  }
}

TEST_F(GaussianCommand, RunTakesTheFile) {
  ASSERT_EQ(siattn(command("gaussian", {"--calibration-out", file("c.json")})).status, 0);
  write("v.npy", {2, 40, 3}, [](std::int64_t k) { return std::sin(static_cast<double>(k)); });
  const auto run = [&](std::initializer_list<std::string> more) {
    const Outcome outcome =
        siattn(with(command("run", {"--value", file("v.npy"), "--out", file("o.npy"), "--check"}), more));
    EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
    return values(file("o.npy"));
  };
  const auto factors = nlohmann::json::parse(io::read_bytes(file("c.json")));
  for (const bool with_mean : {true, false}) {
    const std::vector<double> out =
        run({with_mean ? "--calibration" : "--calibration-sd", file("c.json"), "--sinks", "1", "--dtype", "f64"});
    // Head 3, query 7, by hand.
    const double sd = factors["standard_deviation"][3];
    const double mean = with_mean ? factors["mean"][3].get<double>() : 0;
    double z = 0, sum = 0;
    for (std::int64_t j = 0; j <= 17; ++j) {
      const double t = static_cast<double>(17 - j), s = score(3, 7, j);
      const double log = std::log1p(t / 10);
      const double w = std::exp(j == 0 ? s : std::sqrt(1 + 2 * log) * (s - mean) / sd - 2 * log);
      z += w;
      sum += w * std::sin(static_cast<double>((40 + j) * 3));
    }
    const std::vector<double> v = values(file("v.npy"));
    EXPECT_NEAR(out[static_cast<std::size_t>((3 * 30 + 7) * 3)], sum / z, 1e-6) << with_mean;
  }
  const std::vector<double> plain = run({}), calibrated = run({"--calibration", file("c.json")});
  EXPECT_NE(plain, calibrated);
}

TEST_F(GaussianCommand, LogitsAreAsGoodAsTensors) {
  const auto expected = json(command("gaussian", {"--json"}));
  write("s.npy", {4, 30, 40}, [&](std::int64_t) { return 0.0; });
  Tensor logits = *Tensor::zeros(DType::float64, {4, 30, 40});
  for (std::int64_t h = 0; h < 4; ++h) {
    for (std::int64_t i = 0; i < 30; ++i) {
      const std::vector<double> q = {};
      for (std::int64_t j = 0; j < 40; ++j)
        logits.values<double>()[static_cast<std::size_t>((h * 30 + i) * 40 + j)] = j > 10 + i ? std::nan("") : 0;
    }
  }
  const std::vector<double> q = values(file("q.npy")), k = values(file("k.npy"));
  for (std::int64_t r = 0; r < 4 * 30; ++r) {
    for (std::int64_t j = 0; j <= 10 + r % 30; ++j) {
      double& s = logits.values<double>()[static_cast<std::size_t>(r * 40 + j)];
      for (std::int64_t d = 0; d < 16; ++d)
        s += q[static_cast<std::size_t>(r * 16 + d)] * k[static_cast<std::size_t>((r / 60 * 40 + j) * 16 + d)];
      s /= 4;
    }
  }
  ASSERT_TRUE(io::save(file("s.npy"), logits).ok());
  auto found = json({"gaussian", "--logits", file("s.npy"), "--json"});
  found["source"] = expected["source"];
  EXPECT_EQ(found, expected);
}

TEST_F(GaussianCommand, EncodesFirst) {
  const auto plain = json(command("gaussian", {"--json"}));
  const auto rotated = json(command("gaussian", {"--json", "--encoding", "rope"}));
  EXPECT_NE(plain["heads"][0]["mean"], rotated["heads"][0]["mean"]);
  EXPECT_EQ(plain["heads"][0]["pairs"], rotated["heads"][0]["pairs"]);
}

TEST_F(GaussianCommand, ReportsAreWhole) {
  const Outcome outcome =
      siattn(command("gaussian", {"--report", file("report"), "--calibration-out", file("c.json")}));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(io::read_bytes(file("report/report.txt")), outcome.out);
  EXPECT_EQ(nlohmann::json::parse(io::read_bytes(file("report/report.json"))), json(command("gaussian", {"--json"})));
  const std::string page = io::read_bytes(file("report/report.html"));
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("http://"),
            page.find("http://www.w3.org/1999/xhtml"));  // no more than the names of XML's languages
  std::size_t panels = 0;
  for (std::size_t at = page.find("standard normal quantile"); at != std::string::npos;
       at = page.find("standard normal quantile", at + 1))
    ++panels;
  EXPECT_GE(panels, 5u);  // four heads and all of them together
  for (std::size_t at = outcome.out.find('\n'), from = 0; at != std::string::npos;
       from = at + 1, at = outcome.out.find('\n', from))
    EXPECT_LE(at - from, 120u) << outcome.out.substr(from, at - from);
  EXPECT_NE(outcome.out.find("depend on each other"), std::string::npos);
}

TEST_F(GaussianCommand, WrongUse) {
  const auto good = command("gaussian");
  write("flat.npy", {2, 20, 20}, [](std::int64_t) { return 3.0; });
  write("short.npy", {2, 40, 8}, [](std::int64_t k) { return static_cast<double>(k % 7); });
  write("three.npy", {3, 40, 16}, [](std::int64_t k) { return static_cast<double>(k % 7); });
  expect_failure({"gaussian"}, {"--query", "--logits"});
  expect_failure({"gaussian", "--query", file("q.npy")}, {"--query and --key"});
  expect_failure(with(good, {"--logits", file("flat.npy")}), {"--query", "--logits"});
  const std::vector<std::string> logits{"gaussian", "--logits", file("flat.npy")};
  expect_failure(logits, {"head 0", "are 3"});
  for (const Shape& empty : {Shape{0, 20, 20}, Shape{2, 0, 20}, Shape{2, 20, 0}}) {
    write("empty.npy", empty, [](std::int64_t) { return 0.0; });
    expect_failure({"gaussian", "--logits", file("empty.npy")}, {});
  }
  expect_failure(with(logits, {"--encoding", "rope"}), {"--encoding", "--logits"});
  expect_failure(with(logits, {"--softmax-scale", "2"}), {"--softmax-scale", "--logits"});
  expect_failure(with(logits, {"--layout", "bshd"}), {"--layout", "--logits"});
  expect_failure(with(logits, {"--sinks", "20", "--calibration-out", file("c.json")}), {"head 0", "0 pairs"});
  expect_failure(with(good, {"--sinks", "-1"}), {"n_sink = -1"});
  expect_failure(with(good, {"--tau", "0"}), {"tau = 0"});
  expect_failure(with(good, {"--tau", "1,2"}), {"tau has 2 values"});
  expect_failure(with(good, {"--logn-scale", "nan"}), {"logn"});
  expect_failure(with(good, {"--softmax-scale", "inf"}), {"softmax_scale = inf"});
  expect_failure(with(good, {"--softmax-scale", "0"}), {"head 0", "are 0"});
  expect_failure(with(good, {"--query-offset", "-100"}), {"0 pairs"});
  expect_failure(with(good, {"--query-offset", "2147483647"}), {"query_offset = 2147483647"});
  expect_failure(with(good, {"--rope-base", "500"}), {"--rope-base", "--encoding none"});
  expect_failure(with_other(good, "--key", file("short.npy")), {"--query", "--key", "head_dim (16, 8)"});
  expect_failure(with_other(good, "--key", file("three.npy")), {"query_heads = 4", "kv_heads = 3"});
  expect_failure(with_other(good, "--key", file("none.npy")), {"none.npy"});
  expect_failure(with(good, {"--calibration-out", file("no-folder/c.json")}), {"no-folder"});
  expect_failure(with(good, {"--calibration-out", file("q.npy")}), {"--calibration-out", "--query"});
  expect_failure(with(good, {"--report", file("q.npy")}), {"q.npy"});
  expect_failure(with(good, {"--report", file("r"), "--calibration-out", file("r/report.json")}), {"report.json"});
}

TEST_F(GaussianCommand, WrongCalibration) {
  const auto good = command("decades");
  const auto refused = [&](const std::string& content, std::initializer_list<std::string> words) {
    io::write_bytes(file("c.json"), content);
    expect_failure(with(good, {"--calibration", file("c.json")}), words);
  };
  expect_failure(with(good, {"--calibration", file("none.json")}), {"--calibration", "none.json", "No such file"});
  refused("", {"c.json", "no JSON"});
  refused("{\"mean\": [1,", {"c.json", "no JSON"});
  refused("[1, 2]", {"c.json", "no \"mean\""});
  refused("{\"mean\": 0}", {"c.json", "no \"standard_deviation\""});
  refused("{\"mean\": [0, \"1\"], \"standard_deviation\": 1}", {"\"mean\" holds \"1\"", "numbers"});
  refused("{\"mean\": 0, \"standard_deviation\": [1, null, 1, 1]}", {"\"standard_deviation\" holds null"});
  refused("{\"mean\": [0, 1], \"standard_deviation\": 1}", {"calibration mean has 2 values", "4"});
  refused("{\"mean\": 0, \"standard_deviation\": 0}", {"calibration standard_deviation = 0"});
  refused("{\"mean\": 0, \"standard_deviation\": [1, 1, 1, -2]}", {"calibration standard_deviation = -2"});
  refused("{\"mean\": [], \"standard_deviation\": 1}", {"calibration mean has 0 values"});
  io::write_bytes(file("c.json"), "{\"mean\": -3, \"standard_deviation\": 2}");
  expect_failure(with(good, {"--calibration", file("c.json"), "--transform", "logn"}), {"mean = -3", "LogN"});
  EXPECT_EQ(siattn(with(good, {"--calibration-sd", file("c.json"), "--transform", "logn"})).status, 0);
  expect_failure(with(good, {"--calibration", file("c.json"), "--calibration-sd", file("c.json")}), {"--calibration"});
  expect_failure(with(good, {"--calibration", file("c.json"), "--calibrate"}), {"--calibrate"});
  expect_failure(with(good, {"--transform", "logn", "--calibrate"}), {"--calibrate", "scale-invariant"});
}

}  // namespace
}  // namespace siattn::test
