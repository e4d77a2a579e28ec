// SPDX-License-Identifier: Apache-2.0
// Who may include whom: include <- reference, cpu, gpu, encoding <- dispatch <- capi, verify <- bench <- tools. Reads the #include lines.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kRoot = SIATTN_SOURCE_DIR;

/// Folder -> folders whose headers it may include, besides itself and <siattn/...>.
const std::map<std::string, std::set<std::string>> kAllowed = {
    {"include", {}},
    {"reference", {}},
    {"cpu", {}},
    {"gpu", {}},
    {"encoding", {}},
    {"dispatch", {"reference", "cpu", "gpu", "encoding"}},
    {"capi", {"dispatch"}},
    {"verify", {"reference", "cpu", "gpu", "encoding", "dispatch"}},
    {"bench", {"reference", "cpu", "gpu", "encoding", "dispatch", "verify"}},
    {"tools", {"reference", "cpu", "gpu", "encoding", "dispatch", "verify", "bench"}},
    {"fuzz", {"reference", "cpu", "gpu", "encoding", "dispatch", "verify", "tools"}},
};

std::vector<fs::path> sources(const std::string& folder) {
  std::vector<fs::path> list;
  if (!fs::exists(kRoot / folder)) return list;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
    const std::string extension = entry.path().extension();
    for (const char* known : {".hpp", ".cpp", ".h", ".c", ".cu", ".cuh", ".inc", ".in"}) {
      if (extension == known) list.push_back(entry.path());
    }
  }
  return list;
}

/// What stands between the quotes or brackets of each #include line.
std::vector<std::string> includes(const fs::path& path) {
  std::vector<std::string> list;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    line.erase(std::remove(line.begin(), line.end(), ' '), line.end());
    if (line.rfind("#include", 0) != 0 || line.size() < 10) continue;
    list.push_back(line.substr(9, line.find_first_of("\">", 9) - 9));
  }
  return list;
}

TEST(Layering, EveryFolderIncludesOnlyWhatLiesBelowIt) {
  for (const auto& [folder, allowed] : kAllowed) {
    for (const fs::path& path : sources(folder)) {
      for (const std::string& header : includes(path)) {
        const std::string top = header.substr(0, header.find('/'));
        if (top == header || top == folder || top == "siattn")
          continue;                                               // the standard library, its own, the public ones
        if (!kAllowed.contains(top) && top != "tests") continue;  // another library
        EXPECT_TRUE(allowed.contains(top)) << fs::relative(path, kRoot) << " includes " << header;
      }
    }
  }
}

TEST(Layering, PublicHeadersIncludeTheStandardLibraryAndEachOtherOnly) {
  ASSERT_FALSE(sources("include").empty());
  for (const fs::path& path : sources("include")) {
    for (const std::string& header : includes(path)) {
      const bool standard = header.find('/') == std::string::npos && header.find('.') == std::string::npos;
      const bool c_header =
          path.extension() == ".h" && (header == "stddef.h" || header == "stdint.h" || header == "stdbool.h");
      EXPECT_TRUE(standard || c_header || header.rfind("siattn/", 0) == 0) << path << " includes " << header;
    }
  }
}

/// A relative path would go round the rule above.
TEST(Layering, NobodyIncludesByARelativePath) {
  for (const auto& [folder, allowed] : kAllowed) {
    for (const fs::path& path : sources(folder)) {
      for (const std::string& header : includes(path)) {
        EXPECT_EQ(header.find(".."), std::string::npos) << path << " includes " << header;
      }
    }
  }
}

TEST(Layering, NothingButTheTestsIncludesTheTests) {
  for (const auto& [folder, allowed] : kAllowed) {
    for (const fs::path& path : sources(folder)) {
      for (const std::string& header : includes(path))
        EXPECT_NE(header.rfind("tests/", 0), 0u) << path << " includes " << header;
    }
  }
}

/// After the line that names an interpreter, where there is one.
TEST(License, EverySourceFileStartsWithItsIdentifier) {
  std::size_t count = 0;
  for (const char* folder : {"include", "reference", "cpu", "gpu", "encoding", "capi", "dispatch", "verify", "bench", "tools",
                             "tests", "cmake", "examples", "fuzz"}) {
    if (!fs::exists(kRoot / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      const fs::path& path = entry.path();
      const std::string extension = path.extension();
      const std::set<std::string> code{".hpp", ".cpp", ".h", ".c", ".cu", ".cuh", ".cmake", ".py", ".sh"};
      if (!code.contains(extension) && path.filename() != "CMakeLists.txt") continue;
      std::ifstream file(path);
      std::string line;
      std::getline(file, line);
      if (line.rfind("#!", 0) == 0) std::getline(file, line);
      EXPECT_TRUE(line == "// SPDX-License-Identifier: Apache-2.0" || line == "# SPDX-License-Identifier: Apache-2.0" ||
                  line == "/* SPDX-License-Identifier: Apache-2.0 */")
          << path << ": " << line;
      ++count;
    }
  }
  EXPECT_GT(count, 50u);
}

}  // namespace
