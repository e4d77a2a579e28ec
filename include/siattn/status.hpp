// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_STATUS_HPP
#define SIATTN_STATUS_HPP

#include <optional>
#include <string>
#include <utility>

namespace siattn {

/// What kind of failure a Status reports.
enum class StatusCode {
  ok,
  invalid_argument,  ///< The call is wrong: the message names the argument and the value it had.
  unsupported,       ///< The call is right, but the chosen backend cannot do it: the message names the limit.
  unavailable,       ///< A backend, file or device that was asked for is not there: the message says why.
  out_of_memory,
  internal,  ///< A defect of the library.
};

/// Errors are values: no function that returns a Status or a Result throws, aborts or prints. A Status converts to
/// true when it is good, so that `if (!status) return status;` reads as it should.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status invalid(std::string message) { return {StatusCode::invalid_argument, std::move(message)}; }
  static Status unsupported(std::string message) { return {StatusCode::unsupported, std::move(message)}; }
  static Status unavailable(std::string message) { return {StatusCode::unavailable, std::move(message)}; }

  bool ok() const noexcept { return code_ == StatusCode::ok; }
  explicit operator bool() const noexcept { return ok(); }
  StatusCode code() const noexcept { return code_; }
  /// One line, empty when ok: what is wrong, the value that was given, what was expected.
  const std::string& message() const noexcept { return message_; }

 private:
  StatusCode code_ = StatusCode::ok;
  std::string message_;
};

/// A value, or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return ok(); }
  const Status& status() const noexcept { return status_; }

  /// Only when ok().
  T& operator*() & noexcept { return *value_; }
  const T& operator*() const& noexcept { return *value_; }
  T&& operator*() && noexcept { return std::move(*value_); }
  T* operator->() noexcept { return &*value_; }
  const T* operator->() const noexcept { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace siattn

#endif  // SIATTN_STATUS_HPP
