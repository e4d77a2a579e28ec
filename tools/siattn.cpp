// SPDX-License-Identifier: Apache-2.0
// The command. Exit status: 0 good, 1 a check failed, 2 wrong use or bad input (one line on stderr).
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

#include <siattn/version.hpp>

#include "tools/command.hpp"
#include "tools/io/file.hpp"

namespace {

int fail(std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::fprintf(stderr, "siattn: %s\n", message.c_str());
  return siattn::tools::kWrongUse;
}

/// Ends the program as the signal would have, with no half-written file left.
void end_by_signal(int number) {
  siattn::io::unlink_partial_files();
  std::signal(number, SIG_DFL);
  std::raise(number);
}

/// CLI11 would only say that a subcommand is required.
std::string unknown_subcommand(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || app.get_option_no_throw(argv[1]) != nullptr) return {};
  std::string known;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (command->get_name() == argv[1]) return {};
    known += (known.empty() ? "" : ", ") + command->get_name();
  }
  return std::string("'") + argv[1] + "' is no subcommand: expected one of " + known;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace siattn::tools;
  int exit_status = kGood;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    // nohup and the like have it ignored: so it stays.
    if (std::signal(number, end_by_signal) == SIG_IGN) std::signal(number, SIG_IGN);
  }
  CLI::App app{"Scale-invariant attention: compute it, and check that it is what the paper says.", "siattn"};
  app.set_version_flag("--version", std::string("siattn ") + siattn::version());
  app.require_subcommand(1);
  try {
    add_info(app, exit_status);
    add_table(app, exit_status);
    add_run(app, exit_status);
    add_decades(app, exit_status);
    add_gaussian(app, exit_status);
#ifdef SIATTN_HAS_CLAIMS
    add_verify(app, exit_status);
#endif
    add_conform(app, exit_status);
    add_bench(app, exit_status);
    check_values_strictly(app);
    if (const std::string message = unknown_subcommand(app, argc, argv); !message.empty()) return fail(message);
    app.parse(argc, argv);
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) return fail("cannot write to standard output");
    return exit_status;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return fail(error.what());
  } catch (const std::bad_alloc&) {
    return fail("out of memory");
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}
