// SPDX-License-Identifier: Apache-2.0
// What the README shows is what is there.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>

namespace {

std::string content(const std::string& path) {
  std::ifstream file(std::string(SIATTN_SOURCE_DIR) + "/" + path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Readme, HoldsTheLinkExampleWordForWord) {
  const std::string example = content("examples/attention.cpp");
  const std::string without_licence_line = example.substr(example.find('\n') + 1);
  EXPECT_NE(content("README.md").find(without_licence_line), std::string::npos);
}

TEST(Readme, NamesEveryFolderAndNoOther) {
  const std::string readme = content("README.md");
  for (const auto& entry : std::filesystem::directory_iterator(SIATTN_SOURCE_DIR)) {
    const std::string name = entry.path().filename();
    if (!entry.is_directory() || name.starts_with('.') || name.starts_with("build") || name == "cmake") continue;
    EXPECT_NE(readme.find(name + "/"), std::string::npos) << name << " is not on the map";
  }
  const std::regex link("\\]\\(([A-Za-z0-9_./-]+)\\)");
  for (std::sregex_iterator it(readme.begin(), readme.end(), link), end; it != end; ++it) {
    EXPECT_TRUE(std::filesystem::exists(std::string(SIATTN_SOURCE_DIR) + "/" + (*it)[1].str())) << (*it)[1].str();
  }
}

}  // namespace
