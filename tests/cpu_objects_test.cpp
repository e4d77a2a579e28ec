// SPDX-License-Identifier: Apache-2.0
// The object files of the vector kernels hold what they should and export nothing else: cpu/check_object.sh on each.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "cpu/isa.hpp"

namespace siattn::cpu {
namespace {

TEST(CpuObjects, EachIsWhatItShouldBe) {
  std::ifstream list(SIATTN_BINARY_DIR "/cpu_objects.txt");
  ASSERT_TRUE(list) << "no cpu_objects.txt in the build folder";
  std::size_t checked = 0;
  std::string name;
  std::string object;
  while (list >> name && std::getline(list >> std::ws, object)) {
    const std::string command = "sh '" SIATTN_SOURCE_DIR "/cpu/check_object.sh' " + name + " '" + object + "' 2>&1";
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.c_str(), "r"), pclose);
    ASSERT_TRUE(pipe);
    std::string complaints;
    char buffer[4096];
    while (std::fgets(buffer, sizeof(buffer), pipe.get()) != nullptr) complaints += buffer;
    EXPECT_EQ(complaints, "");
    ++checked;
  }
  if (checked == 0) GTEST_SKIP() << "a build with sanitizers, which add symbols of their own";
  EXPECT_EQ(checked, isas().size());
}

}  // namespace
}  // namespace siattn::cpu
