// SPDX-License-Identifier: Apache-2.0
// Reading files by their ranges, and outputs that appear whole or not at all.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tools/io/file.hpp"
#include "tools/io/scratch.hpp"

namespace siattn::io {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

TEST(IoFile, ReadsRanges) {
  const ScratchFolder folder;
  write_bytes(folder / "f", "0123456789");
  const Result<InputFile> file = InputFile::open(folder / "f");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->size(), 10u);
  std::string part(4, ' ');
  EXPECT_TRUE(file->read_at(3, part.data(), 4).ok());
  EXPECT_EQ(part, "3456");
  EXPECT_TRUE(file->read_at(10, part.data(), 0).ok());
  const Status beyond = file->read_at(8, part.data(), 4);
  EXPECT_EQ(beyond.message(), (folder / "f") + ": ends at byte 10, expected 12 (cut while being read?)");
}

TEST(IoFile, RefusesWhatIsNoRegularFile) {
  const ScratchFolder folder;
  const std::string missing = folder / "missing";
  EXPECT_EQ(InputFile::open(missing).status().message(),
            missing + ": cannot open it for reading: No such file or directory");
  EXPECT_EQ(InputFile::open(missing).status().code(), StatusCode::unavailable);
  EXPECT_EQ(InputFile::open(folder / "").status().message(), (folder / "") + ": is a folder, expected a regular file");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(InputFile::open(folder / "pipe").status().message(),
            (folder / "pipe") + ": is a pipe, expected a regular file");
  EXPECT_EQ(InputFile::open("/dev/null").status().message(),
            "/dev/null: is a character device, expected a regular file");
  EXPECT_FALSE(InputFile::open("").ok());
  EXPECT_FALSE(InputFile::open(std::string("a\0b", 3)).ok());
}

TEST(IoFile, ReadsBeyondFourGibibytes) {
  const ScratchFolder folder;
  const std::string path = folder / "sparse";
  write_bytes(path, "");
  ASSERT_EQ(::truncate(path.c_str(), (std::int64_t{5} << 30) + 1), 0);
  const Result<InputFile> file = InputFile::open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->size(), (std::uint64_t{5} << 30) + 1);
  char last = 'x';
  EXPECT_TRUE(file->read_at(std::uint64_t{5} << 30, &last, 1).ok());
  EXPECT_EQ(last, '\0');
}

TEST(IoAtomicFile, AppearsOnCommitOnly) {
  const ScratchFolder folder;
  Result<AtomicFile> file = AtomicFile::create(folder / "out");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_TRUE(file->write("abc", 3).ok());
  EXPECT_TRUE(file->write("de", 2).ok());
  EXPECT_FALSE(fs::exists(folder / "out"));
  EXPECT_TRUE(file->commit().ok());
  EXPECT_EQ(read_bytes(folder / "out"), "abcde");
  EXPECT_EQ(folder.names(), Names{"out"});
}

TEST(IoAtomicFile, LeavesNothingWhenNotCommitted) {
  const ScratchFolder folder;
  write_bytes(folder / "out", "old");
  {
    Result<AtomicFile> file = AtomicFile::create(folder / "out");
    ASSERT_TRUE(file.ok());
    EXPECT_TRUE(file->write("new", 3).ok());
    EXPECT_EQ(folder.names().size(), 2u);
    const AtomicFile moved = *std::move(file);
    EXPECT_EQ(folder.names().size(), 2u);
  }
  EXPECT_EQ(folder.names(), Names{"out"});
  EXPECT_EQ(read_bytes(folder / "out"), "old");
}

TEST(IoAtomicFile, AssignmentDropsTheFileBefore) {
  const ScratchFolder folder;
  AtomicFile file = *AtomicFile::create(folder / "first");
  file = *AtomicFile::create(folder / "second");
  EXPECT_TRUE(file.write("2", 1).ok());
  EXPECT_TRUE(file.commit().ok());
  EXPECT_EQ(folder.names(), Names{"second"});
  EXPECT_EQ(read_bytes(folder / "second"), "2");
}

TEST(IoAtomicFile, KeepsPermissionsAndLinks) {
  const ScratchFolder folder;
  write_bytes(folder / "real", "old");
  fs::permissions(folder / "real", fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("real", folder / "link");
  AtomicFile file = *AtomicFile::create(folder / "link");
  EXPECT_TRUE(file.write("new", 3).ok());
  EXPECT_TRUE(file.commit().ok());
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(read_bytes(folder / "real"), "new");
  EXPECT_EQ(fs::status(folder / "real").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST(IoAtomicFile, LongestNameWorks) {
  const ScratchFolder folder;
  const std::string name(255, 'n');
  AtomicFile file = *AtomicFile::create(folder / name);
  EXPECT_TRUE(file.commit().ok());
  EXPECT_EQ(folder.names(), Names{name});
  EXPECT_FALSE(AtomicFile::create(folder / (name + "n")).ok());
}

TEST(IoAtomicFile, ClearErrors) {
  const ScratchFolder folder;
  const auto message = [](const std::string& path) { return AtomicFile::create(path).status().message(); };
  fs::create_directory(folder / "sub");
  EXPECT_EQ(message(folder / "sub"), (folder / "sub") + ": is a folder, expected a file to write");
  EXPECT_EQ(message(folder / "new/"), (folder / "new/") + ": ends in '/', expected the name of a file");
  EXPECT_EQ(message(folder / "no/f"),
            (folder / "no/f") + ": cannot write into folder '" + (folder / "no/") + "': No such file or directory");
  write_bytes(folder / "file", "");
  EXPECT_EQ(message(folder / "file/f"), (folder / "file/f") + ": cannot write it: Not a directory");
  fs::create_symlink("nowhere", folder / "dangling");
  EXPECT_EQ(message(folder / "dangling"), (folder / "dangling") + ": is a link to nothing, expected a file to write");
  EXPECT_EQ(message(""), "the path is empty, expected the name of a file");
  EXPECT_NE(message("/proc/siattn-no-such-file"), "") << "a folder that takes no new file, not even from root";
  EXPECT_EQ(folder.names(), (Names{"dangling", "file", "sub"}));
}

TEST(IoAtomicFile, UnwritableFolderAndReadOnlyFile) {
  const ScratchFolder folder;
  write_bytes(folder / "kept", "old");
  fs::permissions(folder / "kept", static_cast<fs::perms>(0444));
  fs::permissions(folder / "", static_cast<fs::perms>(0555));
  const bool is_root = ::geteuid() == 0;  // whom no permission stops
  if (is_root && ::seteuid(65534) != 0) GTEST_SKIP() << "root may write anywhere";
  const std::string kept = AtomicFile::create(folder / "kept").status().message();
  const std::string fresh = AtomicFile::create(folder / "f").status().message();
  if (is_root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  fs::permissions(folder / "", fs::perms::owner_all);
  EXPECT_EQ(kept, (folder / "kept") + ": cannot replace it: Permission denied");
  EXPECT_EQ(fresh, (folder / "f") + ": cannot make a file in folder '" +
                       fs::canonical(fs::path(folder / "x").parent_path()).string() + "': Permission denied");
  EXPECT_EQ(folder.names(), Names{"kept"});
}

TEST(IoAtomicFile, DevicesAndPipesAreWrittenThrough) {
  Result<AtomicFile> null = AtomicFile::create("/dev/null");
  ASSERT_TRUE(null.ok()) << null.status().message();
  EXPECT_TRUE(null->writes_through());
  EXPECT_TRUE(null->write("abc", 3).ok());
  EXPECT_TRUE(null->commit().ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));

  const ScratchFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::string received;
  std::thread reader([&] { received = read_bytes(folder / "pipe"); });
  {
    AtomicFile pipe = *AtomicFile::create(folder / "pipe");
    EXPECT_TRUE(pipe.write("abc", 3).ok());
    EXPECT_TRUE(pipe.commit().ok());
  }
  reader.join();
  EXPECT_EQ(received, "abc");
  EXPECT_TRUE(fs::is_fifo(folder / "pipe"));
}

TEST(IoAtomicFile, AFullDiskIsAnError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  AtomicFile full = *AtomicFile::create("/dev/full");
  EXPECT_EQ(full.write("abc", 3).message(), "/dev/full: cannot write it: No space left on device");
}

TEST(IoAtomicFile, FailedRenameLeavesNothing) {
  const ScratchFolder folder;
  AtomicFile file = *AtomicFile::create(folder / "out");
  fs::create_directory(folder / "out");  // in the way, too late to be seen by create()
  EXPECT_EQ(file.commit().message(), (folder / "out") + ": cannot put the finished file in place: Is a directory");
  EXPECT_EQ(folder.names(), Names{"out"});
}

TEST(IoAtomicFile, CommitAllIsAllOrNone) {
  const ScratchFolder folder;
  const auto three = [&] {
    std::vector<AtomicFile> files;
    for (const char* name : {"a", "b", "c"}) files.push_back(*AtomicFile::create(folder / name));
    return files;
  };
  std::vector<AtomicFile> files = three();
  fs::create_directory(folder / "b");
  EXPECT_FALSE(AtomicFile::commit_all(files).ok());
  EXPECT_EQ(folder.names(), Names{"b"});
  fs::remove(folder / "b");
  files = three();
  EXPECT_TRUE(AtomicFile::commit_all(files).ok());
  EXPECT_EQ(folder.names(), (Names{"a", "b", "c"}));
}

TEST(IoDescriptor, MoveAndClose) {
  Descriptor first(::open("/dev/null", O_RDONLY));
  ASSERT_TRUE(first.is_open());
  Descriptor second(std::move(first));
  EXPECT_TRUE(second.is_open());
  first = std::move(second);
  EXPECT_TRUE(first.is_open());
  EXPECT_EQ(first.close(), 0);
  EXPECT_EQ(first.close(), 0);
  EXPECT_NE(Descriptor(1 << 20).close(), 0) << "no such descriptor";
}

}  // namespace
}  // namespace siattn::io
