// SPDX-License-Identifier: Apache-2.0
// The program `siattn` from outside: how a test runs it, on files in a folder of its own.
#ifndef SIATTN_TESTS_COMMAND_HPP
#define SIATTN_TESTS_COMMAND_HPP

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support.hpp"
#include "tools/io/load.hpp"
#include "tools/io/save.hpp"
#include "tools/io/scratch.hpp"
#include "verify/random.hpp"

extern char** environ;

namespace siattn::test {

using io::Shape;
using io::Tensor;

struct Outcome {
  int status = -1;
  std::string out, err;
};

class Command : public ::testing::Test {
 protected:
  Command() {
    for (const char* name : {"SIATTN_BACKEND", "SIATTN_NUM_THREADS", "SIATTN_MAX_CPU_ISA"}) unsetenv(name);
    setenv("OMP_NUM_THREADS", "2", 1);
    std::filesystem::create_directory(folder_ / "files");
    std::filesystem::create_directory(folder_ / "files/a-folder.npy");
  }

  /// The path of a file for the program to read or write.
  std::string file(const std::string& name) const { return folder_ / ("files/" + name); }

  /// Runs the program; standard output may be sent elsewhere.
  Outcome siattn(std::vector<std::string> arguments, const std::string& out_path = {}) const {
    const std::string out = out_path.empty() ? folder_ / "stdout" : out_path, err = folder_ / "stderr";
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    std::vector<char*> argv;
    arguments.insert(arguments.begin(), SIATTN_TOOL);
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_t child = 0;
    const int failed = posix_spawn(&child, SIATTN_TOOL, &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) return {};
    int status = 0;
    waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, out_path.empty() ? io::read_bytes(out) : "",
            io::read_bytes(err)};
  }

  std::string write(const std::string& name, const Shape& shape,
                    const std::function<double(std::int64_t)>& value) const {
    Tensor tensor = *Tensor::zeros(DType::float32, shape);
    for (std::int64_t k = 0; k < tensor.count(); ++k)
      tensor.values<float>()[static_cast<std::size_t>(k)] = static_cast<float>(value(k));
    EXPECT_TRUE(io::save(file(name), tensor).ok());
    return file(name);
  }

  /// Five tokens of H-inputs: query and key 0, value j in both of its channels; 1/(t + 1)^2 are the weights.
  std::vector<std::string> h_inputs(const std::string& out) const {
    const auto zero = [](std::int64_t) { return 0.0; };
    return {"run",
            "--query",
            write("q.npy", {5, 8}, zero),
            "--key",
            write("k.npy", {5, 8}, zero),
            "--value",
            write("v.npy", {5, 2}, [](std::int64_t k) { return static_cast<double>(k / 2); }),
            "--out",
            file(out),
            "--tau",
            "1",
            "--softmax-scale",
            "1"};
  }

  /// Two query heads, one kv head, Gaussian.
  std::vector<std::string> gaussian(const std::string& out) const {
    const verify::Random random(1, 1);
    const auto value = [&](std::int64_t k) { return random.gaussian(static_cast<std::uint64_t>(k)); };
    return {"run",
            "--query",
            write("q.npy", {2, 7, 8}, value),
            "--key",
            write("k.npy", {1, 9, 8}, value),
            "--value",
            write("v.npy", {1, 9, 4}, value),
            "--out",
            file(out)};
  }

  std::vector<double> values(const std::string& spec) const {
    const auto loaded = io::load(spec);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    if (!loaded.ok()) return {};
    const Tensor wide = *io::convert(*loaded, DType::float64);
    return {wide.values<double>().begin(), wide.values<double>().end()};
  }

  Shape shape(const std::string& spec) const { return io::load(spec)->shape(); }
  std::vector<std::string> names() const {
    std::vector<std::string> list;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "files"))
      list.push_back(entry.path().filename());
    std::sort(list.begin(), list.end());
    return list;
  }

  /// Status 2, nothing on stdout, one line on stderr that holds all the words, and no file more or less than before.
  void expect_failure(const std::vector<std::string>& arguments, std::initializer_list<std::string> words) const {
    const auto before = names();
    const Outcome outcome = siattn(arguments);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_TRUE(!outcome.err.empty() && outcome.err.back() == '\n');
    for (const std::string& word : words)
      EXPECT_NE(outcome.err.find(word), std::string::npos) << word << " in " << outcome.err;
    EXPECT_EQ(names(), before);
  }

  io::ScratchFolder folder_;
};

inline std::vector<std::string> with(std::vector<std::string> arguments, std::initializer_list<std::string> more) {
  arguments.insert(arguments.end(), more);
  return arguments;
}

/// The same with another value of an option that is there.
inline std::vector<std::string> with_other(std::vector<std::string> arguments, const std::string& option,
                                           const std::string& value) {
  *(std::find(arguments.begin(), arguments.end(), option) + 1) = value;
  return arguments;
}

}  // namespace siattn::test

#endif  // SIATTN_TESTS_COMMAND_HPP
