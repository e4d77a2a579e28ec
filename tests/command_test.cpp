// SPDX-License-Identifier: Apache-2.0
// The program `siattn` from outside: what it writes and prints, its exit status, and how it fails.
#include "tests/command.hpp"

#include <pty.h>
#include <signal.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include <siattn/version.hpp>

// The command has no `verify` in a build without the claims: those with sanitizers.
#if defined(SIATTN_HAS_CLAIMS)
#define SIATTN_NEEDS_CLAIMS() static_cast<void>(0)
#else
#define SIATTN_NEEDS_CLAIMS() GTEST_SKIP() << "built without the claims"
#endif

namespace siattn::test {
namespace {

TEST_F(Command, VersionAndHelpAreGood) {
  const Outcome version = siattn({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_EQ(version.out, std::string("siattn ") + siattn::version() + "\n");
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--help"}, {"run", "--help"}, {"table", "-h"}}) {
    const Outcome help = siattn(arguments);
    EXPECT_EQ(help.status, 0);
    EXPECT_NE(help.out.find("Usage: siattn"), std::string::npos);
    EXPECT_EQ(help.err, "");
  }
}

TEST_F(Command, InfoNamesEveryBackendAndTheChosenOne) {
  const Outcome text = siattn({"info"});
  const Outcome json = siattn({"info", "--json"});
  EXPECT_EQ(text.status, 0);
  EXPECT_EQ(json.status, 0);
  const auto document = nlohmann::json::parse(json.out);
  EXPECT_EQ(document["version"], siattn::version());
  EXPECT_EQ(document["threads"], 2);
  ASSERT_EQ(document["backends"].size(), backends().size());
  for (std::size_t k = 0; k < backends().size(); ++k) {
    EXPECT_EQ(document["backends"][k]["name"], backends()[k]->name());
    EXPECT_EQ(document["backends"][k]["available"], backends()[k]->available().ok());
    EXPECT_NE(text.out.find(backends()[k]->name()), std::string::npos);
  }
  const ScopedVariable variable("SIATTN_BACKEND", "reference");
  EXPECT_EQ(nlohmann::json::parse(siattn({"info", "--json"}).out)["chosen"], "reference");
}

TEST_F(Command, TableWritesScaleAndShift) {
  ASSERT_EQ(siattn({"table", "--length", "101", "--out", file("t.npy")}).status, 0);
  EXPECT_EQ(shape(file("t.npy")), (Shape{2, 101}));
  const std::vector<double> table = values(file("t.npy"));
  EXPECT_EQ(table[0], 1);
  EXPECT_EQ(table[101], 0);
  EXPECT_NEAR(table[100], 2.407444816729293400258778, 1e-15);
  EXPECT_NEAR(table[201], -4.795790545596741088123887, 2e-15);
  ASSERT_EQ(siattn({"table", "--tau", "1", "--length", "2", "--dtype", "f32", "--out", file("t.npy")}).status, 0);
  EXPECT_EQ(io::load(file("t.npy"))->dtype(), DType::float32);
  EXPECT_EQ(values(file("t.npy"))[3], static_cast<float>(-2 * std::log(2.0)));
}

TEST_F(Command, RunWritesOutLseAndWeights) {
  const Outcome outcome =
      siattn(with(h_inputs("o.npy"), {"--lse", file("l.npy"), "--weights", file("w.npy"), "--check"}));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("of the bound"), std::string::npos);
  EXPECT_EQ(shape(file("o.npy")), (Shape{5, 2}));
  EXPECT_EQ(shape(file("l.npy")), (Shape{5}));
  EXPECT_EQ(shape(file("w.npy")), (Shape{5, 5}));
  const double out[] = {0, 4.0 / 5, 81.0 / 49, 104.0 / 41, 18125.0 / 5269};
  const double lse[] = {0, .22314355131420976, .30830135965451661, .35319667956240757, .38090674576508441};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(values(file("o.npy"))[2 * i], out[i], 1e-6);
    EXPECT_NEAR(values(file("o.npy"))[2 * i + 1], out[i], 1e-6);
    EXPECT_NEAR(values(file("l.npy"))[i], lse[i], 1e-6);
    for (std::size_t j = 0; j < 5; ++j) {
      const double weight = j > i ? 0 : std::pow(static_cast<double>(i - j + 1), -2) / std::exp(lse[i]);
      EXPECT_NEAR(values(file("w.npy"))[5 * i + j], weight, 1e-7);
    }
  }
}

TEST_F(Command, RunComputesInTheTypeAskedFor) {
  for (const DType dtype : kTypes) {
    const Outcome outcome =
        siattn(with(gaussian("o.npy"), {"--dtype", std::string(name_of(dtype)), "--check", "--json"}));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(io::load(file("o.npy"))->dtype(), dtype);
    const auto document = nlohmann::json::parse(outcome.out);
    EXPECT_EQ(document["dtype"], name_of(dtype));
    EXPECT_TRUE(document["check"]["good"]);
    EXPECT_EQ(document["shape"]["query_heads"], 2);
    EXPECT_EQ(document["shape"]["kv_heads"], 1);
  }
}

TEST_F(Command, RunTakesBothLayouts) {
  ASSERT_EQ(siattn(with(gaussian("o.npy"), {"--lse", file("l.npy")})).status, 0);
  const std::vector<double> query = values(file("q.npy"));
  const std::string bshd = write("q-bshd.npy", {1, 7, 2, 8}, [&](std::int64_t k) {
    return query[static_cast<std::size_t>((k / 8 % 2 * 7 + k / 16) * 8 + k % 8)];
  });
  const std::string key = write("k-bshd.npy", {1, 9, 1, 8}, [&, x = values(file("k.npy"))](std::int64_t k) {
    return x[static_cast<std::size_t>(k)];
  });
  const std::string value = write("v-bshd.npy", {1, 9, 1, 4}, [&, x = values(file("v.npy"))](std::int64_t k) {
    return x[static_cast<std::size_t>(k)];
  });
  ASSERT_EQ(siattn({"run", "--layout", "bshd", "--query", bshd, "--key", key, "--value", value, "--out",
                    file("o-bshd.npy"), "--lse", file("l-bshd.npy")})
                .status,
            0);
  EXPECT_EQ(shape(file("o-bshd.npy")), (Shape{1, 7, 2, 4}));
  const std::vector<double> out = values(file("o.npy")), other = values(file("o-bshd.npy"));
  for (std::size_t k = 0; k < out.size(); ++k) EXPECT_EQ(other[(k / 4 % 7 * 2 + k / 28) * 4 + k % 4], out[k]);
  EXPECT_EQ(values(file("l-bshd.npy")), values(file("l.npy")));  // lse is [batch, heads, len] in either
}

TEST_F(Command, RunReadsAndWritesTensorsByName) {
  const auto npy = gaussian("o.npy");
  ASSERT_EQ(siattn(npy).status, 0);
  const Tensor query = *io::load(file("q.npy")), key = *io::load(file("k.npy")), value = *io::load(file("v.npy"));
  io::OutputSet inputs;
  for (const char* name : {"q", "k", "v"}) ASSERT_TRUE(inputs.reserve(file("in.safetensors:") + name, "").ok());
  ASSERT_TRUE(inputs.commit({&query, &key, &value}).ok());
  const std::string in = file("in.safetensors:"), out = file("out.safetensors");
  ASSERT_EQ(siattn({"run", "--query", in + "q", "--key", in + "k", "--value", in + "v", "--out", out + ":o", "--lse",
                    out + ":l"})
                .status,
            0);
  EXPECT_EQ(values(out + ":o"), values(file("o.npy")));
  expect_failure({"run", "--query", in + "q", "--key", in + "k", "--value", in + "w", "--out", file("n.npy")},
                 {"in.safetensors", "'w'", "v"});
}

TEST_F(Command, RunUsesTheOptionsGiven) {
  const auto out = [&](std::initializer_list<std::string> options) {
    EXPECT_EQ(siattn(with(gaussian("o.npy"), options)).status, 0) << *options.begin();
    return values(file("o.npy"));
  };
  const std::vector<double> plain = out({"--transform", "none"});
  for (const auto& options : {std::initializer_list<std::string>{"--tau", "3"},
                              {"--tau", "3,4"},
                              {"--alpha", "2", "--beta", "2"},
                              {"--transform", "logn"},
                              {"--transform", "ssmax", "--logn-scale", "0.7"},
                              {"--transform", "infoscale", "--train-length", "64"},
                              {"--transform", "alibi"},
                              {"--sinks", "1"},
                              {"--mask", "bidirectional"},
                              {"--window", "2"},
                              {"--query-offset", "0"},
                              {"--softmax-scale", "0.1"}}) {
    EXPECT_NE(out(options), plain);
  }
  EXPECT_EQ(out({"--transform", "ssmax"}), out({"--transform", "logn"}));
  EXPECT_EQ(out({"--sinks", "9"}), plain);
  EXPECT_EQ(siattn(with(gaussian("o.npy"), {"--backend", "reference", "--threads", "1"}))
                .out.rfind("reference f32, 1 thread:", 0),
            0u);
}

TEST_F(Command, DecadesShareOutAllAttention) {
  gaussian("o.npy");
  const Outcome outcome = siattn({"decades", "--query", file("q.npy"), "--key", file("k.npy"), "--transform", "none",
                                  "--transform", "scale-invariant", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto document = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(document.size(), 2u);
  for (const auto& table : document) {
    double mass = table["sink_mass"];
    for (const auto& decade : table["decades"]) mass += decade["mass"].get<double>();
    EXPECT_NEAR(mass, 1, 1e-12);
  }
}

/// Decades that no pair of query and key falls into are not printed; the last ends where distances end.
TEST_F(Command, DecadesAreThoseThatOccur) {
  gaussian("o.npy");
  const std::vector<std::string> decades{"decades", "--query", file("q.npy"), "--key", file("k.npy"), "--json"};
  const auto ranges = [&](std::initializer_list<std::string> more) {
    const Outcome outcome = siattn(with(decades, more));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::vector<std::pair<int, int>> result;
    const auto document = nlohmann::json::parse(outcome.out);
    for (const auto& d : document[0]["decades"]) result.emplace_back(d["first"], d["last"]);
    return result;
  };
  using Ranges = std::vector<std::pair<int, int>>;
  EXPECT_EQ(ranges({}), (Ranges{{0, 0}, {1, 8}}));
  EXPECT_EQ(ranges({"--window", "1"}), (Ranges{{0, 0}}));
  EXPECT_EQ(ranges({"--sinks", "2"}), (Ranges{{0, 0}, {1, 6}}));
  EXPECT_EQ(ranges({"--query-offset", "1000"}), (Ranges{{992, 999}, {1000, 1006}}));
  EXPECT_EQ(ranges({"--mask", "bidirectional", "--query-offset", "-20"}), (Ranges{{14, 28}}));
}

/// The calibrated column is the scale-invariant map on (S - mean) / sd of the rows that are counted.
TEST_F(Command, DecadesCalibrate) {
  gaussian("o.npy");
  const Outcome outcome = siattn({"decades", "--query", file("q.npy"), "--key", file("k.npy"), "--transform", "none",
                                  "--transform", "scale-invariant", "--sinks", "1", "--calibrate", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto document = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(document.size(), 3u);
  EXPECT_EQ(document[2]["transform"], "scale-invariant, calibrated");
  nlohmann::json factors;
  for (const auto& head : document[1]["base_logits"]) {
    factors["mean"].push_back(head["mean"]);
    factors["standard_deviation"].push_back(head["standard_deviation"]);
  }
  io::write_bytes(file("c.json"), factors.dump());
  const Outcome by_file = siattn({"decades", "--query", file("q.npy"), "--key", file("k.npy"), "--sinks", "1",
                                  "--calibration", file("c.json"), "--json"});
  ASSERT_EQ(by_file.status, 0) << by_file.err;
  const auto same = nlohmann::json::parse(by_file.out)[0];
  EXPECT_EQ(same["decades"], document[2]["decades"]);
  EXPECT_NE(same["decades"], document[1]["decades"]);
}

TEST_F(Command, VerifyQuickIsGood) {
  SIATTN_NEEDS_CLAIMS();
  const Outcome outcome = siattn({"verify", "--quick"});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out, "");
  EXPECT_EQ(outcome.err, "");  // progress is for terminals
}

/// What is in them: tests/independent/check_report.py.
TEST_F(Command, AReportThatCannotBeWrittenLeavesNoPartOfIt) {
  SIATTN_NEEDS_CLAIMS();
  std::filesystem::create_directory(file("report"));
  std::filesystem::create_directory(file("report/report.html"));
  expect_failure({"verify", "--quick", "--report", file("report")}, {"report.html"});
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(file("report")), {}), 1);
}

TEST_F(Command, VerifyShowsABarOnATerminal) {
  SIATTN_NEEDS_CLAIMS();
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child < 0) GTEST_SKIP() << "no pseudo-terminal here: " << std::strerror(errno);
  if (child == 0) {
    ::execl(SIATTN_TOOL, "siattn", "verify", "--claim", "boundary", nullptr);
    ::_exit(127);
  }
  std::string shown;
  std::array<char, 4096> buffer;
  for (ssize_t n = 0; (n = ::read(terminal, buffer.data(), buffer.size())) > 0;) shown.append(buffer.data(), n);
  ::close(terminal);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_NE(shown.find("[------------------------] 0/1 boundary-condition"), std::string::npos) << shown;
  EXPECT_NE(shown.find("[########################] 1/1"), std::string::npos) << shown;
}

TEST_F(Command, VerifyRunsTheClaimsAskedFor) {
  SIATTN_NEEDS_CLAIMS();
  const Outcome outcome = siattn({"verify", "--claim", "gaussian", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto document = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(document["checks"].size(), 1u);
  EXPECT_EQ(document["checks"][0]["id"], "gaussian-moments");
  EXPECT_EQ(document["properties"]["false alarms at most"], "0");
  expect_failure({"verify", "--claim", "riemann"}, {"--claim", "riemann", "lemma-1"});
}

TEST_F(Command, WrongUse) {
  const auto good = gaussian("o.npy");
  expect_failure({}, {"subcommand"});
  expect_failure({"frobnicate"}, {"frobnicate"});
  expect_failure({"run", "--query", file("q.npy")}, {"required"});
  expect_failure(with(good, {"--frobnicate"}), {"--frobnicate"});
  expect_failure(with(good, {"--transform", "softmax"}), {"--transform", "softmax", "scale-invariant"});
  expect_failure(with(good, {"--logn-scale", "0.4"}), {"--logn-scale", "scale-invariant"});
  expect_failure(with(good, {"--tau", "3", "--transform", "none"}), {"--tau", "none"});
  expect_failure(with(good, {"--tau", "nan"}), {"tau = nan"});
  expect_failure(with(good, {"--tau", "0"}), {"tau = 0"});
  expect_failure(with(good, {"--tau", "1,2,3"}), {"tau has 3 values", "2"});
  expect_failure(with(good, {"--tau", "ten"}), {"--tau", "ten"});
  expect_failure(with(good, {"--window", "0"}), {"window = 0"});
  expect_failure(with(good, {"--window", "1.5"}), {"--window", "1.5"});
  expect_failure(with(good, {"--sinks", "-1"}), {"n_sink = -1"});
  expect_failure(with(good, {"--softmax-scale", "inf"}), {"softmax_scale = inf"});
  expect_failure(with(good, {"--query-offset", "3000000000"}), {"query_offset = 3000000000"});
  expect_failure(with(good, {"--dtype", "f8"}), {"--dtype", "f8"});
  expect_failure(with(good, {"--backend", "gpu"}), {"backend = 'gpu'", "reference"});
  expect_failure(with(good, {"--threads", "-1"}), {"threads = -1"});
  expect_failure(with(good, {"--layout", "hbsd"}), {"--layout", "hbsd"});
  expect_failure({"table", "--length", "0", "--out", file("t.npy")}, {"length = 0"});
  expect_failure({"table", "--tau", "-1", "--length", "3", "--out", file("t.npy")}, {"tau = -1"});
  expect_failure({"decades", "--query", file("q.npy"), "--key", file("k.npy"), "--tau", "nan"}, {"tau = nan"});
}

TEST_F(Command, BadInputs) {
  const auto good = gaussian("o.npy");
  const auto zero = [](std::int64_t) { return 0.0; };
  expect_failure(with_other(good, "--query", file("missing.npy")), {"missing.npy"});
  expect_failure(with_other(good, "--query", file("a-folder.npy")), {"a-folder.npy"});
  expect_failure(with_other(good, "--query", file("q.txt")), {"q.txt", ".npy"});
  const std::string bytes = io::read_bytes(file("k.npy"));
  io::write_bytes(file("cut.npy"), bytes.substr(0, bytes.size() - 1));
  io::write_bytes(file("text.npy"), "not an array");
  expect_failure(with_other(good, "--key", file("cut.npy")), {"cut.npy"});
  expect_failure(with_other(good, "--key", file("text.npy")), {"text.npy"});
  expect_failure(with_other(good, "--key", write("k7.npy", {1, 9, 7}, zero)), {"key", "7", "8"});
  expect_failure(with_other(good, "--key", write("k3.npy", {3, 9, 8}, zero)), {"query_heads = 2", "kv_heads = 3"});
  expect_failure(with_other(good, "--value", write("v8.npy", {1, 8, 4}, zero)), {"value", "8", "9"});
  expect_failure(with_other(good, "--value", write("v1.npy", {4}, zero)), {"--value", "[4]"});
  expect_failure(with_other(good, "--value", write("v5.npy", {1, 1, 1, 9, 4}, zero)), {"--value", "[1, 1, 1, 9, 4]"});
}

TEST_F(Command, OutputsThatCannotBeWritten) {
  const auto good = gaussian("o.npy");
  expect_failure(with_other(good, "--out", file("no-folder/o.npy")), {"no-folder"});
  expect_failure(with_other(good, "--out", file("a-folder.npy")), {"a-folder.npy"});
  expect_failure(with_other(good, "--out", file("q.npy/o.npy")), {"q.npy"});
  expect_failure(with_other(good, "--out", file("o.txt")), {"o.txt"});
  expect_failure(with(good, {"--lse", file("o.npy")}), {"o.npy"});
  expect_failure(with(good, {"--lse", file("no-folder/l.npy")}), {"no-folder"});
  expect_failure({"table", "--length", "3", "--out", file("no-folder/t.npy")}, {"no-folder"});
}

TEST_F(Command, BadEnvironment) {
  const auto good = gaussian("o.npy");
  for (const auto& [name, value] :
       {std::pair{"SIATTN_BACKEND", "gpu"}, {"SIATTN_NUM_THREADS", "zero"}, {"SIATTN_MAX_CPU_ISA", "avx9"}}) {
    const ScopedVariable variable(name, value);
    expect_failure(good, {name, value});
    expect_failure({"info"}, {name, value});
  }
}

/// A file of the output's name is as it was after a failure, and replaced after success.
TEST_F(Command, AnOldOutputSurvivesAFailure) {
  const auto good = gaussian("o.npy");
  io::write_bytes(file("o.npy"), "precious");
  expect_failure(with(good, {"--tau", "nan"}), {"tau"});
  EXPECT_EQ(io::read_bytes(file("o.npy")), "precious");
  EXPECT_EQ(siattn(good).status, 0);
  EXPECT_NE(io::read_bytes(file("o.npy")), "precious");
}

TEST_F(Command, AFullDeviceIsAFailure) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const Outcome outcome = siattn({"info"}, "/dev/full");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("standard output"), std::string::npos) << outcome.err;
}

/// The report cannot be written: then the result is not there either.
TEST_F(Command, AFullDeviceLeavesNoOutput) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  EXPECT_EQ(siattn(gaussian("o.npy"), "/dev/full").status, 2);
  EXPECT_FALSE(std::filesystem::exists(file("o.npy")));
}

TEST_F(Command, AnOutputThatIsAnInputIsRefused) {
  const auto good = gaussian("o.npy");
  const std::string query = good[2];
  const std::string before = io::read_bytes(query);
  auto arguments = good;
  for (std::string& argument : arguments) {
    if (argument == file("o.npy")) argument = query;
  }
  expect_failure(arguments, {"--query"});
  EXPECT_EQ(io::read_bytes(query), before);
}

/// A signal ends the program as it would any other, and takes the half-written files along.
TEST_F(Command, ASignalLeavesNoFileBehind) {
  const std::string big = write("big.npy", {8000, 64}, [](std::int64_t k) { return static_cast<double>(k % 7); });
  std::vector<std::string> arguments{SIATTN_TOOL, "run", "--query", big,           "--key",     big,
                                     "--value",   big,   "--out",   file("o.npy"), "--backend", "reference"};
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const auto partial_files = [this] {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "files")) {
      count += entry.path().extension() == ".partial" ? 1 : 0;
    }
    return count;
  };
  pid_t child = 0;
  ASSERT_EQ(posix_spawn(&child, SIATTN_TOOL, nullptr, nullptr, argv.data(), environ), 0);
  for (int k = 0; k < 2000 && partial_files() == 0; ++k) usleep(10000);
  EXPECT_EQ(partial_files(), 1);  // it is at work
  kill(child, SIGTERM);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  EXPECT_EQ(partial_files(), 0);
  EXPECT_FALSE(std::filesystem::exists(file("o.npy")));
}

}  // namespace
}  // namespace siattn::test
