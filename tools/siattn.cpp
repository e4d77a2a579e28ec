// SPDX-License-Identifier: Apache-2.0
// The command. Exit status: 0 good, 1 a check failed, 2 wrong use or bad input (one line on stderr).
#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>

#include <siattn/version.hpp>

#include "tools/command.hpp"

namespace {

int fail(std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::fprintf(stderr, "siattn: %s\n", message.c_str());
  return siattn::tools::kWrongUse;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace siattn::tools;
  int exit_status = kGood;
  CLI::App app{"Scale-invariant attention: compute it, and check that it is what the paper says.", "siattn"};
  app.set_version_flag("--version", std::string("siattn ") + siattn::version());
  app.require_subcommand(1);
  try {
    add_info(app, exit_status);
    add_table(app, exit_status);
    add_run(app, exit_status);
    add_decades(app, exit_status);
    add_verify(app, exit_status);
    add_conform(app, exit_status);
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
