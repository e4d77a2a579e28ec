// SPDX-License-Identifier: Apache-2.0
#include "tools/io/file.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "tools/io/guarded.hpp"
#include "tools/io/text.hpp"

namespace siattn::io {
namespace {

/// One read(2) or write(2) moves less than 2 GiB on Linux; this keeps well inside.
constexpr std::size_t most_at_once = std::size_t{1} << 30;

std::string error_text(int error) { return std::generic_category().message(error); }

Status failure(std::string_view path, std::string_view what, int error) {
  return at_path(path, Status::unavailable(fmt::format("{}: {}", what, error_text(error))));
}

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISCHR(mode)) return "a character device";
  if (S_ISBLK(mode)) return "a block device";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "no regular file";
}

/// A path that open(2) would take for another one, or for none.
Status check_path(std::string_view path) {
  if (path.empty()) return Status::invalid("the path is empty, expected the name of a file");
  if (path.find('\0') != std::string_view::npos) {
    return at_path(path, Status::invalid("the path holds a NUL byte, expected none"));
  }
  return {};
}

/// The absolute path with every link resolved, or empty with errno set.
std::string resolve(const std::string& path) {
  struct Free {
    void operator()(char* text) const noexcept { std::free(text); }
  };
  const std::unique_ptr<char, Free> resolved(::realpath(path.c_str(), nullptr));
  return resolved == nullptr ? std::string() : std::string(resolved.get());
}

/// Names of partial files, for unlink_partial_files(), which may neither lock nor allocate. Where there are more than
/// slots the rest is not remembered, and would be left behind by a signal.
std::array<std::atomic<const char*>, 64> partial_names{};

void remember_partial(const char* name) noexcept {
  for (auto& slot : partial_names) {
    const char* free = nullptr;
    if (slot.compare_exchange_strong(free, name)) return;
  }
}

/// While it lives this thread handles no signal: the handler would not know of a file just made.
class SignalsWait {
 public:
  SignalsWait() noexcept {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsWait() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;

 private:
  sigset_t before_{};
};

void forget_partial(const char* name) noexcept {
  for (auto& slot : partial_names) {
    const char* mine = name;
    if (slot.compare_exchange_strong(mine, nullptr)) return;
  }
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    close();
    number_ = std::exchange(other.number_, -1);
  }
  return *this;
}

int Descriptor::close() noexcept {
  if (number_ < 0) return 0;
  // Linux gives the number up even when it reports EINTR: a second try could close somebody else's file.
  const int result = ::close(std::exchange(number_, -1));
  return result == 0 || errno == EINTR ? 0 : errno;
}

Result<InputFile> InputFile::open(std::string path) {
  return guarded(path, [&]() -> Result<InputFile> {
    if (Status status = check_path(path); !status) return status;
    InputFile file;
    // O_NONBLOCK: a pipe is refused below, not waited for.
    file.descriptor_ = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!file.descriptor_.is_open()) return failure(path, "cannot open it for reading", errno);
    struct stat info {};
    if (::fstat(file.descriptor_.number(), &info) != 0) return failure(path, "cannot examine it", errno);
    if (!S_ISREG(info.st_mode)) {
      return at_path(path, Status::invalid(fmt::format("is {}, expected a regular file", kind_of(info.st_mode))));
    }
    file.size_ = static_cast<std::uint64_t>(info.st_size);
    file.path_ = path;
    return file;
  });
}

Status InputFile::read_at(std::uint64_t offset, void* data, std::size_t bytes) const {
  return guarded(path_, [&]() -> Status {
    auto* target = static_cast<char*>(data);
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t count = ::pread(descriptor_.number(), target + done, std::min(bytes - done, most_at_once),
                                    static_cast<off_t>(offset + done));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return failure(path_, "cannot read it", errno);
      if (count == 0) {
        return at_path(path_, Status::invalid(fmt::format("ends at byte {}, expected {} (cut while being read?)",
                                                          offset + done, offset + bytes)));
      }
      done += static_cast<std::size_t>(count);
    }
    return {};
  });
}

Result<AtomicFile> AtomicFile::create(std::string path) {
  return guarded(path, [&]() -> Result<AtomicFile> {
    if (Status status = check_path(path); !status) return status;
    AtomicFile file;
    file.path_ = path;
    struct stat info {};
    const bool exists = ::stat(path.c_str(), &info) == 0;
    if (!exists && errno != ENOENT) return failure(path, "cannot write it", errno);
    if (exists && (S_ISCHR(info.st_mode) || S_ISFIFO(info.st_mode))) {
      if (Status status = file.open_through(); !status) return status;
      return file;
    }
    if (exists && !S_ISREG(info.st_mode)) {
      return at_path(path, Status::invalid(fmt::format("is {}, expected a file to write", kind_of(info.st_mode))));
    }
    // rename(2) asks the folder only: a file made read-only is not to be replaced all the same.
    if (exists && ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) {
      return failure(path, "cannot replace it", errno);
    }
    struct stat link {};
    if (!exists && ::lstat(path.c_str(), &link) == 0) {
      return at_path(path, Status::invalid("is a link to nothing, expected a file to write"));
    }
    std::string final_path = exists ? resolve(path) : path;
    if (final_path.empty()) return failure(path, "cannot write it", errno);
    const std::size_t slash = final_path.rfind('/');
    const std::string base = final_path.substr(slash + 1);  // npos + 1 == 0
    if (base.empty()) return at_path(path, Status::invalid("ends in '/', expected the name of a file"));
    const std::string given_folder = slash == std::string::npos ? "." : final_path.substr(0, slash + 1);
    const std::string folder = resolve(given_folder);
    if (folder.empty()) {
      const int error = errno;
      return failure(path, fmt::format("cannot write into folder {}", in_quotes(given_folder)), error);
    }
    if (Status status = file.open_partial(folder); !status) return status;
    if (exists) static_cast<void>(::fchmod(file.descriptor_.number(), info.st_mode & 0777));
    file.target_ = (folder == "/" ? "" : folder) + "/" + base;
    return file;
  });
}

Status AtomicFile::open_through() {
  descriptor_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  return descriptor_.is_open() ? Status() : failure(path_, "cannot open it for writing", errno);
}

Status AtomicFile::open_partial(const std::string& folder) {
  static std::atomic<unsigned> counter{0};
  constexpr int tries = 1000;  // names may be taken by a killed process that had this number
  int error = EEXIST;
  for (int i = 0; i < tries && error == EEXIST; ++i) {
    // No part of the target's name: with it, a name of allowed length could become too long.
    auto partial = std::make_unique<Partial>();
    std::string name = fmt::format("{}/.siattn-{}-{}.partial", folder, ::getpid(), counter++);
    const SignalsWait from_open_to_remember;
    descriptor_ = Descriptor(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (descriptor_.is_open()) {
      partial->name = std::move(name);  // not before: it would remove somebody else's file
      remember_partial(partial->name.c_str());
      partial_ = std::move(partial);
      return {};
    }
    error = errno;
  }
  return failure(path_, fmt::format("cannot make a file in folder {}", in_quotes(folder)), error);
}

Status AtomicFile::write(const void* data, std::size_t bytes) {
  return guarded(path_, [&]() -> Status {
    const auto* source = static_cast<const char*>(data);
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t count = ::write(descriptor_.number(), source + done, std::min(bytes - done, most_at_once));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return failure(path_, "cannot write it", count < 0 ? errno : EIO);
      done += static_cast<std::size_t>(count);
    }
    return {};
  });
}

Status AtomicFile::finish() {
  const int error = descriptor_.close();
  return error == 0 ? Status() : failure(path_, "cannot write it", error);
}

Status AtomicFile::publish() {
  if (writes_through()) return {};
  if (::rename(partial_->name.c_str(), target_.c_str()) != 0) {
    return failure(path_, "cannot put the finished file in place", errno);
  }
  partial_->forget();
  partial_.reset();
  return {};
}

Status AtomicFile::commit() {
  return guarded(path_, [&]() -> Status {
    Status status = finish();
    if (status) status = publish();
    if (!status) discard();
    return status;
  });
}

Status AtomicFile::commit_all(std::vector<AtomicFile>& files) {
  return guarded("outputs", [&]() -> Status {
    Status status;
    for (AtomicFile& file : files) {
      if (status) status = file.finish();
    }
    std::size_t published = 0;
    while (status && published < files.size()) {
      status = files[published].publish();
      if (status) ++published;
    }
    if (status) return status;
    for (std::size_t i = 0; i < published; ++i) {
      if (!files[i].writes_through()) ::unlink(files[i].target_.c_str());
    }
    for (AtomicFile& file : files) file.discard();
    return status;
  });
}

void AtomicFile::discard() noexcept {
  descriptor_.close();
  partial_.reset();
}

void AtomicFile::Partial::forget() noexcept {
  forget_partial(name.c_str());
  name.clear();
}

AtomicFile::Partial::~Partial() {
  if (name.empty()) return;
  ::unlink(name.c_str());
  forget();
}

void unlink_partial_files() noexcept {
  for (const auto& slot : partial_names) {
    if (const char* name = slot.load()) ::unlink(name);
  }
}

}  // namespace siattn::io
