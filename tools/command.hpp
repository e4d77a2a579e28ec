// SPDX-License-Identifier: Apache-2.0
// What the subcommands of `siattn` share: how they are added, how they fail.
#ifndef SIATTN_TOOLS_COMMAND_HPP
#define SIATTN_TOOLS_COMMAND_HPP

#include <CLI/CLI.hpp>
#include <stdexcept>
#include <string>

#include <siattn/status.hpp>

namespace siattn::tools {

enum ExitStatus : int { kGood = 0, kCheckFailed = 1, kWrongUse = 2 };

/// Ends a subcommand: one line for stderr, exit status 2. Only inside the tool; the library returns Status.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void require(const Status& status) {
  if (!status) throw Failure(status.message());
}

template <class T>
T require(Result<T> result) {
  if (!result) throw Failure(result.status().message());
  return *std::move(result);
}

/// Gives every option of the application's subcommands a check that its values are whole: not empty, and where a number
/// is wanted, a decimal number that its type can hold. (CLI11 takes "" and "0x10" and lets 1e-5000 pass as 0.)
void check_values_strictly(CLI::App& app);

/// Each adds one subcommand to the application; its callback sets the exit status.
void add_info(CLI::App& app, int& exit_status);
void add_table(CLI::App& app, int& exit_status);
void add_run(CLI::App& app, int& exit_status);
void add_decades(CLI::App& app, int& exit_status);
void add_gaussian(CLI::App& app, int& exit_status);
void add_verify(CLI::App& app, int& exit_status);
void add_conform(CLI::App& app, int& exit_status);
void add_bench(CLI::App& app, int& exit_status);

}  // namespace siattn::tools

#endif  // SIATTN_TOOLS_COMMAND_HPP
