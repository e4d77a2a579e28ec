// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_TOOLS_IO_FILE_HPP
#define SIATTN_TOOLS_IO_FILE_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <siattn/status.hpp>

/// Files, with errors as values. Every message begins with the path.
namespace siattn::io {

/// A file descriptor, closed at the end of its life.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) noexcept : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { close(); }

  int number() const noexcept { return number_; }
  bool is_open() const noexcept { return number_ >= 0; }
  /// 0, or the errno of close(2), which may be the first to tell that a write failed. The number is given up either
  /// way.
  int close() noexcept;

 private:
  int number_ = -1;
};

/// Removes every partial file of an AtomicFile that is not committed yet. May be called in a signal handler, by a
/// program that is about to end.
void unlink_partial_files() noexcept;

/// A regular file, open for reading. Larger than 4 GiB is fine.
class InputFile {
 public:
  /// Code unavailable: there is no such file, or it can't be opened. invalid_argument: a folder, a pipe, a device.
  static Result<InputFile> open(std::string path);

  const std::string& path() const noexcept { return path_; }
  /// Bytes, when it was opened.
  std::uint64_t size() const noexcept { return size_; }

  /// Reads exactly `bytes` bytes from `offset`. Fails if the file ends earlier, as it can if it was cut meanwhile.
  Status read_at(std::uint64_t offset, void* data, std::size_t bytes) const;

 private:
  std::string path_;
  Descriptor descriptor_;
  std::uint64_t size_ = 0;
};

/// A file that appears under its name whole or not at all: it is written under another name in the same folder
/// (".siattn-PID-N.partial") and renamed by commit(). A target that is there keeps its permissions and is replaced only
/// then; one that is a symbolic link stays a link, and what it points to is replaced. A character device or a pipe
/// (/dev/null, /dev/stdout into a pipe) can't be renamed to: it is written straight through.
class AtomicFile {
 public:
  /// Finds what can be found wrong before anything is computed: the target is a folder, a socket, a block device, a
  /// link to nothing or not writable; its folder is not there or takes no new file.
  static Result<AtomicFile> create(std::string path);

  // The end of one that was not committed leaves nothing behind.
  AtomicFile(AtomicFile&&) noexcept = default;
  AtomicFile& operator=(AtomicFile&&) noexcept = default;
  ~AtomicFile() = default;

  const std::string& path() const noexcept { return path_; }
  /// The absolute path, links resolved, that commit() puts in place. Empty when written straight through.
  const std::string& target() const noexcept { return target_; }
  bool writes_through() const noexcept { return target_.empty(); }

  Status write(const void* data, std::size_t bytes);

  /// At most once. After a failure nothing is left but what was there before.
  Status commit();

  /// Commits all or none: everything is written out and closed before the first is renamed, and if a rename fails those
  /// before it are removed again (what they replaced is lost then).
  static Status commit_all(std::vector<AtomicFile>& files);

 private:
  /// The file under its passing name, removed at the end of this object's life.
  struct Partial {
    std::string name;
    void forget() noexcept;  ///< It has got another name, or is gone.
    Partial() = default;
    Partial(const Partial&) = delete;
    Partial& operator=(const Partial&) = delete;
    ~Partial();
  };

  AtomicFile() = default;
  Status open_through();
  Status open_partial(const std::string& folder);
  Status finish();
  Status publish();
  void discard() noexcept;

  std::string path_;                  ///< As the user gave it, for messages.
  std::string target_;                ///< What the partial file becomes.
  std::unique_ptr<Partial> partial_;  ///< Null once there is none.
  Descriptor descriptor_;
};

}  // namespace siattn::io

#endif  // SIATTN_TOOLS_IO_FILE_HPP
