// SPDX-License-Identifier: Apache-2.0
// Not a claim of the paper but of this library: the float32 tables that kernels read are Eq. 16 rounded once.
#include "dispatch/tables.hpp"
#include "verify/claims/list.hpp"
#include "verify/claims/support.hpp"

namespace siattn::verify {
namespace {

constexpr std::array<std::string_view, 2> kWrong = {"the exact value moved by 1e-8 of itself", "tau 1 % too large"};

/// The tables as dispatch compiles them for one causal sequence, natural log, scale 1. Entry t is at [count - 1 - t].
LogitTables tables_for(const ScaleInvariant& transform, std::int64_t count) {
  PreparedAttention problem;
  problem.shape = {1, 1, 1, count, count, 1, 1};
  problem.options.transform = transform;
  problem.softmax_scale = 1;
  auto tables = dispatch::compile_tables(problem, LogBase::natural);
  if (!tables) throw std::runtime_error(tables.status().message());
  return *std::move(tables);
}

/// Whether `entry` is the float nearest to a value known as `near` to within `margin`. Only where the margin leaves it
/// open is the value itself asked for, at 50 digits: a handful of times in 2^24.
template <class Exact>
bool is_rounded(float entry, double near, double margin, Exact exact) {
  const auto low = static_cast<float>(near - margin);
  const auto high = static_cast<float>(near + margin);
  if (low == high) return entry == low;
  const Real50 value = exact();
  const Real50 above(std::nextafter(entry, std::numeric_limits<float>::infinity()));
  const Real50 below(std::nextafter(entry, -std::numeric_limits<float>::infinity()));
  return 2 * value <= entry + above && 2 * value >= entry + below;
}

struct Exceptions {
  std::int64_t count = 0;
  std::int64_t entries = 0;
  std::int64_t decided_at_50_digits = 0;
};

void count_exceptions(Exceptions& found, Worst& worst, const ScaleInvariant& transform, std::int64_t count,
                      std::size_t variant) {
  const LogitTables tables = tables_for(transform, count);
  ScaleInvariant stated = transform;
  if (variant == 2) stated.tau = transform.tau.at(0) * 1.01;
  const auto near = reference::parameters_of<double>(stated);
  const auto wide = reference::parameters_of<Real50>(stated);
  const double moved = variant == 1 ? 1 + 1e-8 : 1;
  const auto see = [&](const char* what, std::int64_t t, float entry, double value, auto exact) {
    ++found.entries;
    // The double value is within 1e-15 of the exact one, relative (claim golden-values): ten times that.
    if (is_rounded(entry, value * moved, 1e-14 * std::abs(value), [&] {
          ++found.decided_at_50_digits;
          return exact();
        })) {
      return;
    }
    ++found.count;
    worst.see(static_cast<double>(found.count), [&] { return fmt::format("{}_{}, {}", what, t, text_of(transform)); });
  };
  for (std::int64_t t = 0; t < count; ++t) {
    const auto d = static_cast<double>(t);
    see("a", t, tables.scale(0)[count - 1 - t], reference::scale(d, near),
        [&] { return Real50(reference::scale(Real50(t), wide) * moved); });
    see("m", t, tables.shift(0)[count - 1 - t], reference::shift(d, near),
        [&] { return Real50(reference::shift(Real50(t), wide) * moved); });
  }
}

Measurement measure(const ClaimOptions& options, std::size_t variant) {
  Worst worst;
  worst.see(0.0, [] { return std::string("none"); });
  Exceptions found;
  const std::int64_t count = options.full ? std::int64_t{1} << 24 : std::int64_t{1} << 16;
  for (const double tau : {10.0, 0.5, 1.0, 100.0, 1000.0}) {
    count_exceptions(found, worst, ScaleInvariant{.tau = tau}, count, variant);
  }
  return std::move(worst).result(fmt::format("{} entries, {} exceptions, {} decided at 50 digits", found.entries,
                                             found.count, found.decided_at_50_digits));
}

}  // namespace

constinit const Claim kTableRounding = {
    .id = "table-rounding",
    .title = "float32 tables: rounded once",
    .reference = "Eq. 16, every t",
    .statement = "a_t and m_t in float32 are the exact values correctly rounded, for every t below 2^16 (full: 2^24)",
    .method = Method::exact,
    .threshold = 0,
    .threshold_reason = "no exception",
    .wrong_variants = kWrong,
    .measure = measure,
};

}  // namespace siattn::verify
