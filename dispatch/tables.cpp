// SPDX-License-Identifier: Apache-2.0
#include "dispatch/tables.hpp"

#include <cmath>
#include <limits>
#include <numbers>

#include "dispatch/message.hpp"
#include "reference/transform.hpp"

namespace siattn::dispatch {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

/// How many keys one query can see.
std::int64_t most_visible_keys(const AttentionShape& shape, const AttentionOptions& options) {
  if (!options.window || *options.window >= shape.kv_len) return shape.kv_len;
  return std::min(shape.kv_len, options.mask == Mask::causal ? *options.window : 2 * *options.window - 1);
}

class Compiler {
 public:
  Compiler(const PreparedAttention& problem, LogBase base, const TableExtent& extent)
      : transform_(problem.options, problem.shape),
        depends_(transform_.dependence()),
        heads_(problem.shape.query_heads),
        fold_(base == LogBase::two ? std::numbers::log2e : 1.0),
        softmax_scale_(problem.softmax_scale) {
    tables_.base = base;
    tables_.t_min = extent.distances.first;
    tables_.t_max = extent.distances.last;
    if (depends_.has_row_factor) tables_.row_factor_count = extent.most_visible_keys + 1;
  }

  Result<LogitTables> compile() {
    tables_.sink_scale = rounded(softmax_scale_ * fold_, "softmax_scale", 0);
    fill_by_distance(tables_.scales, tables_.scales_per_head = depends_.scale, [this](std::int64_t h, std::int64_t t) {
      return transform_.scale(h, t) * softmax_scale_ * fold_;
    });
    fill_by_distance(tables_.shifts, tables_.shifts_per_head = depends_.shift,
                     [this](std::int64_t h, std::int64_t t) { return transform_.shift(h, t) * fold_; });
    fill_row_factors();
    if (!bad_.empty()) return Status::invalid(bad_);
    return std::move(tables_);
  }

 private:
  template <class Entry>
  void fill_by_distance(std::vector<float>& table, bool per_head, Entry entry) {
    const bool is_shift = &table == &tables_.shifts;
    const std::int64_t entries = tables_.entries();
    const std::int64_t heads = per_head ? heads_ : 1;
    table.assign(static_cast<std::size_t>(heads * entries), is_shift ? kMinusInfinity : 0.0F);
    for (std::int64_t h = 0; h < heads; ++h) {
      float* row = table.data() + h * entries + LogitTables::padding;
      for (std::int64_t t = tables_.t_max; t >= tables_.t_min; --t) {
        const double value = entry(h, std::abs(t));
        row[tables_.t_max - t] =
            is_shift ? finite(value, "shift m_t", std::abs(t)) : rounded(value, "scale a_t", std::abs(t));
      }
    }
  }

  void fill_row_factors() {
    if (!depends_.has_row_factor) return;
    const std::int64_t heads = depends_.row_factor ? heads_ : 1;
    tables_.row_factors_per_head = depends_.row_factor;
    tables_.row_factors.assign(static_cast<std::size_t>(heads * tables_.row_factor_count), 1.0F);
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t n = 1; n < tables_.row_factor_count; ++n) {
        tables_.row_factors[static_cast<std::size_t>(h * tables_.row_factor_count + n)] =
            rounded(transform_.row_factor(h, n), "row factor for n", n);
      }
    }
  }

  /// A shift counts by its absolute error: one that underflows may do so.
  float finite(double value, const char* what, std::int64_t index) {
    const auto result = static_cast<float>(value);
    if (!std::isfinite(result)) refuse(value, what, index);
    return result;
  }

  /// A factor counts by its relative error, which a subnormal would not keep.
  float rounded(double value, const char* what, std::int64_t index) {
    const float result = finite(value, what, index);
    if (value != 0 && std::abs(result) < std::numeric_limits<float>::min()) refuse(value, what, index);
    return result;
  }

  void refuse(double value, const char* what, std::int64_t index) {
    if (!bad_.empty()) return;
    bad_ = text("the transform's ", what, " at ", index, " is ", value, " with softmax_scale = ", softmax_scale_,
                " and the calibration: float32 tables hold 1.2e-38 .. 3.4e38 and 0");
  }

  reference::Transform<double> transform_;
  reference::Dependence depends_;
  std::int64_t heads_;
  double fold_;
  double softmax_scale_;
  LogitTables tables_;
  std::string bad_;
};

}  // namespace

DistanceRange visible_distances(const AttentionShape& shape, const AttentionOptions& options,
                                std::optional<std::int64_t> query_offset) noexcept {
  if (shape.query_len == 0 || shape.kv_len == 0) return {};
  DistanceRange range;
  if (query_offset) {
    range = {*query_offset - (shape.kv_len - 1), *query_offset + shape.query_len - 1};
  } else {
    // The last query stands beside the last key, whatever the lengths of a sequence turn out to be.
    range = {1 - shape.query_len, shape.kv_len - 1};
  }
  if (options.window) {
    range.first = std::max(range.first, 1 - *options.window);
    range.last = std::min(range.last, *options.window - 1);
  }
  if (options.mask == Mask::causal) range.first = std::max<std::int64_t>(range.first, 0);
  return range.last < range.first ? DistanceRange{} : range;
}

TableExtent table_extent(const AttentionShape& shape, const AttentionOptions& options) noexcept {
  return {visible_distances(shape, options), most_visible_keys(shape, options)};
}

Result<LogitTables> compile_tables(const PreparedAttention& problem, LogBase base, const TableExtent& extent) {
  return Compiler(problem, base, extent).compile();
}

}  // namespace siattn::dispatch
