// SPDX-License-Identifier: Apache-2.0
// What the tests share: which backends and types there are, running one, and what every run owes.
#ifndef SIATTN_TESTS_SUPPORT_HPP
#define SIATTN_TESTS_SUPPORT_HPP

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

#include <siattn/backend.hpp>

#include "verify/bounds.hpp"
#include "verify/compare.hpp"
#include "verify/problem_data.hpp"

#ifdef _OPENMP
#include <omp.h>
#else
extern "C" void omp_set_num_threads(int);  // the library brings it, also where tests are compiled without OpenMP
#endif

namespace siattn::test {

/// The tests of one processor are many small processes side by side: each uses one thread where it asks for no more.
inline const bool kOneThread = (omp_set_num_threads(1), true);

using verify::Placement;
using verify::ProblemData;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kLastPosition = (std::int64_t{1} << 31) - 1;

/// Sets a variable of the environment (nullptr: removes it) and puts the old value back.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ~ScopedVariable() { set(old_ ? old_->c_str() : nullptr); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  void set(const char* value) const { value == nullptr ? unsetenv(name_) : setenv(name_, value, 1); }
  const char* name_;
  std::optional<std::string> old_;
};

// ---- Backends and types ---------------------------------------------------------------------------------------------

inline constexpr DType kTypes[] = {DType::float32, DType::bfloat16, DType::float16, DType::float64};

/// A backend, and a type that it computes.
struct Target {
  const Backend* backend;
  DType dtype;
  friend void PrintTo(const Target& t, std::ostream* stream) {
    *stream << t.backend->name() << ' ' << name_of(t.dtype);
  }
};

/// Every backend that was built with every type it supports, available here or not; but cuda only where there is a
/// device: hundreds of skipped tests would hide the few that say something.
inline std::vector<Target> targets() {
  std::vector<Target> list;
  for (const Backend* backend : backends()) {
    if (backend->family() == "cuda" && !backend->available()) continue;
    for (const DType dtype : kTypes) {
      AttentionProblem smallest;
      smallest.shape = {1, 1, 1, 1, 1, 1, 1};
      smallest.dtype = dtype;
      if (backend->supports(smallest)) list.push_back({backend, dtype});
    }
  }
  return list;
}

/// "cpu_avx2_bf16"
inline std::string target_name(const ::testing::TestParamInfo<Target>& info) {
  std::string name = fmt::format("{}_{}", info.param.backend->name(), name_of(info.param.dtype));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// A test of one backend and type; skipped, with the reason, where the backend is not available.
class TargetTest : public ::testing::TestWithParam<Target> {
 protected:
  void SetUp() override {
    if (const Status status = backend().available(); !status) GTEST_SKIP() << status.message();
  }
  const Backend& backend() const { return *GetParam().backend; }
  DType dtype() const { return GetParam().dtype; }
  AttentionProblem problem(const AttentionShape& shape, const AttentionOptions& options = {}) const {
    return {shape, dtype(), options};
  }
};

/// Instantiates a suite derived from TargetTest for every target.
#define SIATTN_FOR_EVERY_TARGET(suite) \
  INSTANTIATE_TEST_SUITE_P(, suite, ::testing::ValuesIn(::siattn::test::targets()), ::siattn::test::target_name)

// ---- Running --------------------------------------------------------------------------------------------------------

/// The attention of these tensors by one backend, on a workspace that starts at an odd address and holds NaN.
inline Status run(const Backend& backend, const AttentionProblem& problem, const AttentionTensors& tensors,
                  int threads = 1) {
  const auto plan = AttentionPlan::create(problem, {std::string(backend.name()), threads});
  if (!plan) return plan.status();
  std::vector<std::byte> workspace(plan->workspace_bytes() + 1, std::byte{0xFF});
  return plan->run(tensors, std::span(workspace).subspan(1));
}

/// The same on outputs that hold NaN before.
inline Status run(const Backend& backend, ProblemData& data, int threads = 1) {
  data.clear_outputs();
  return run(backend, data.problem(), data.tensors(), threads);
}

/// "scale-invariant tau 0.5 3.5", "none".
inline std::string text_of(const LogitTransform& transform) {
  const auto values = [](const PerHead& per_head) { return fmt::format("{}", fmt::join(per_head.values, " ")); };
  return std::visit(
      [&values](const auto& t) -> std::string {
        using T = std::decay_t<decltype(t)>;
        if constexpr (std::is_same_v<T, NoTransform>) {
          return "none";
        } else if constexpr (std::is_same_v<T, ScaleInvariant>) {
          const bool common = t.alpha == kSqrtE && t.beta == kSqrtE;
          return "scale-invariant tau " + values(t.tau) +
                 (common ? "" : fmt::format(" alpha {} beta {}", t.alpha, t.beta));
        } else if constexpr (std::is_same_v<T, LogN>) {
          return "logn " + values(t.scale);
        } else if constexpr (std::is_same_v<T, InfoScale>) {
          return fmt::format("infoscale {}", t.train_length);
        } else {
          return t.slopes.values.empty() ? "alibi" : "alibi " + values(t.slopes);
        }
      },
      transform);
}

/// In one line: "f32 batch 1, heads 2/1, 3 queries, 9 keys, dims 8 and 8, causal, window 5, 0 sinks, none".
inline std::string text_of(const AttentionProblem& problem) {
  const AttentionShape& s = problem.shape;
  const AttentionOptions& o = problem.options;
  const Calibration& c = o.calibration;
  const std::string calibrated = fmt::format(", calibrated by {} and {}", fmt::join(c.mean.values, " "),
                                             fmt::join(c.standard_deviation.values, " "));
  return fmt::format("{} batch {}, heads {}/{}, {} queries, {} keys, dims {} and {}, {}{}{}{}, {} sinks, {}{}",
                     name_of(problem.dtype), s.batch, s.query_heads, s.kv_heads, s.query_len, s.kv_len, s.head_dim,
                     s.value_dim, o.mask == Mask::causal ? "causal" : "bidirectional",
                     o.window ? fmt::format(", window {}", *o.window) : "",
                     o.query_offset ? fmt::format(", offset {}", *o.query_offset) : "",
                     o.softmax_scale ? fmt::format(", softmax_scale {}", *o.softmax_scale) : "", o.n_sink,
                     text_of(o.transform), calibrated == ", calibrated by 0 and 1" ? "" : calibrated);
}

/// What stands in the outputs of `data` is right: every element within the bound, no guard written.
inline ::testing::AssertionResult agrees(const Backend& backend, ProblemData& data) {
  const auto comparison =
      verify::compare_with_reference(data.problem(), data.tensors(), backend.numerics(data.problem().dtype));
  if (!comparison.good()) {
    return ::testing::AssertionFailure() << text_of(data.problem()) << ": " << comparison.failures << " of "
                                         << comparison.elements << " elements wrong; " << comparison.first_failure;
  }
  if (!data.intact()) return ::testing::AssertionFailure() << text_of(data.problem()) << ": wrote outside its elements";
  return ::testing::AssertionSuccess();
}

/// What every run owes: it succeeds, every element of out and lse is written and within the bound, no guard is.
inline ::testing::AssertionResult right(const Backend& backend, ProblemData& data, int threads = 1) {
  if (const Status status = run(backend, data, threads); !status) {
    return ::testing::AssertionFailure() << text_of(data.problem()) << ": " << status.message();
  }
  return agrees(backend, data);
}

/// The same for Gaussian inputs.
inline ::testing::AssertionResult right(const Backend& backend, const AttentionProblem& problem,
                                        const Placement& placement = {}) {
  ProblemData data(problem, placement);
  data.fill_gaussian(1);
  return right(backend, data);
}

/// How far out and lse of one row may be from exact, for these inputs.
inline verify::RowBound bound_of(const Backend& backend, ProblemData& data, std::int64_t b, std::int64_t h,
                                 std::int64_t i) {
  const AttentionProblem& problem = data.problem();
  const auto n = static_cast<std::size_t>(problem.shape.kv_len);
  std::vector<double> scores(n), logits(n), weights(n), out(static_cast<std::size_t>(problem.shape.value_dim));
  reference::Row<double> row{scores, logits, weights, out};
  const reference::Transform<double> transform(problem.options, problem.shape);
  reference::attention_row(problem.shape, problem.options, transform, data.tensors(), b, h, i, row);
  return verify::forward_bound(problem, data.tensors(), transform, backend.numerics(problem.dtype), b, h, i, row);
}

/// Row (b, h, i) holds the number `out` in every channel, and `lse`, to the bound. For values known without reference.
inline void expect_row(const Backend& backend, ProblemData& data, const std::array<std::int64_t, 3>& at, double out,
                       double lse) {
  const auto [b, h, i] = at;
  const verify::RowBound bound = bound_of(backend, data, b, h, i);
  const std::string where = fmt::format("{}, row {} of head {} of sequence {}", text_of(data.problem()), i, h, b);
  for (std::int64_t c = 0; c < data.problem().shape.value_dim; ++c) {
    EXPECT_NEAR(data.out.get(b, h, i, c), out, bound.out[static_cast<std::size_t>(c)].total())
        << where << ", channel " << c;
  }
  if (std::isinf(lse)) {
    EXPECT_EQ(data.lse.get(b, h, i, 0), lse) << where;
  } else {
    EXPECT_NEAR(data.lse.get(b, h, i, 0), lse, bound.lse.total()) << where;
  }
}

/// The outputs as bits, in logical order: equal bits means equal results, NaN and signed zeros included.
struct Bits {
  std::vector<std::byte> out, lse;
  friend bool operator==(const Bits&, const Bits&) = default;
};
inline Bits bits_of(const ProblemData& data) { return {data.out.bits(), data.lse.bits()}; }

/// Elements first .. last - 1 of one axis.
template <class Void>
BasicTensorView<Void> part(BasicTensorView<Void> view, int axis, std::int64_t first, std::int64_t last) {
  using Byte = std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>;
  const std::int64_t skipped = first * view.strides[axis] * static_cast<std::int64_t>(size_of(view.dtype));
  view.data = static_cast<Byte*>(view.data) + skipped;
  view.shape[axis] = last - first;
  return view;
}

/// to[at] = from[map(at)] for every element of `to`.
inline void fill_from(verify::GuardedTensor& to, const verify::GuardedTensor& from,
                      const std::function<Shape4(const Shape4&)>& map) {
  const Shape4 shape = to.view().shape;
  for (std::int64_t b = 0; b < shape[0]; ++b) {
    for (std::int64_t h = 0; h < shape[1]; ++h) {
      for (std::int64_t i = 0; i < shape[2]; ++i) {
        for (std::int64_t d = 0; d < shape[3]; ++d) {
          const Shape4 at = map({b, h, i, d});
          to.set(b, h, i, d, from.get(at[0], at[1], at[2], at[3]));
        }
      }
    }
  }
}

inline bool says(const std::string& message, std::initializer_list<const char*> parts) {
  return std::all_of(parts.begin(), parts.end(),
                     [&](const char* part) { return message.find(part) != std::string::npos; }) &&
         message.find('\n') == std::string::npos;
}

// ---- Designed problems ----------------------------------------------------------------------------------------------

inline constexpr int kTransformChoices = 11;

/// Every transform, with one parameter for all heads and one for each.
inline LogitTransform transform_choice(int choice, std::int64_t heads) {
  const auto per_head = [heads](double first, double step) {
    std::vector<double> values;
    for (std::int64_t h = 0; h < heads; ++h) values.push_back(first + step * static_cast<double>(h));
    return values;
  };
  switch (choice) {
    case 0: return ScaleInvariant{};
    case 1: return ScaleInvariant{.tau = 1.0};
    case 2: return ScaleInvariant{.tau = per_head(0.5, 3)};
    case 3: return ScaleInvariant{.tau = 30.0, .alpha = 2, .beta = 3};
    case 4: return NoTransform{};
    case 5: return LogN{};
    case 6: return LogN{per_head(-0.3, 0.4)};
    case 7: return InfoScale{.train_length = 32};
    case 8: return Alibi{};
    case 9: return Alibi{0.25};
    default: return Alibi{per_head(-0.01, 0.07)};
  }
}

/// No calibration; one for all heads; one for each, with means and without. The mean stays 0 where the transform takes
/// none.
inline Calibration calibration_choice(int choice, const LogitTransform& transform, std::int64_t heads) {
  Calibration calibration;
  if (choice == 0) return calibration;
  if (choice == 1) {
    calibration = {.mean = -1.5, .standard_deviation = 2.5};
  } else {
    calibration.mean.values.clear();
    calibration.standard_deviation.values.clear();
    for (std::int64_t h = 0; h < heads; ++h) {
      calibration.mean.values.push_back(choice == 2 ? 0.7 * static_cast<double>(h) - 1 : 0);
      calibration.standard_deviation.values.push_back(0.6 + 0.9 * static_cast<double>(h));
    }
  }
  if (std::holds_alternative<LogN>(transform) || std::holds_alternative<InfoScale>(transform)) calibration.mean = 0.0;
  return calibration;
}
inline constexpr int kCalibrationChoices = 4;

/// A problem in small numbers, each of which a designed set or a generator may choose freely.
struct Recipe {
  std::int64_t batch = 1, kv_heads = 1, group = 1, query_len = 1, kv_len = 1, head_dim = 8, value_dim = 8;
  std::int64_t mask = 0;    ///< 0: causal, 1: bidirectional
  std::int64_t window = 0;  ///< 0: none
  std::int64_t offset = 0;  ///< 0: default, 1: zero, 2: negative, 3: near the last position
  std::int64_t sinks = 0;
  std::int64_t transform = 0;    ///< transform_choice
  std::int64_t calibration = 0;  ///< calibration_choice
  std::int64_t lengths = 0;      ///< 1: sequences of the batch end early, the second has no key, the third no query
  std::int64_t placement = 0;    ///< 0: dense, 1: heads inside, 2: padded rows off alignment
  std::uint64_t seed = 1;        ///< of the data, which is Gaussian
};

inline AttentionProblem problem_of(const Recipe& r, DType dtype) {
  AttentionProblem problem;
  problem.shape = {r.batch, r.kv_heads * r.group, r.kv_heads, r.query_len, r.kv_len, r.head_dim, r.value_dim};
  problem.dtype = dtype;
  problem.options.transform = transform_choice(static_cast<int>(r.transform), problem.shape.query_heads);
  problem.options.calibration =
      calibration_choice(static_cast<int>(r.calibration), problem.options.transform, problem.shape.query_heads);
  problem.options.mask = r.mask == 0 ? Mask::causal : Mask::bidirectional;
  if (r.window > 0) problem.options.window = r.window;
  const std::int64_t offsets[] = {0, 0, -(r.query_len + 1) / 2, kLastPosition - 200};
  if (r.offset > 0) problem.options.query_offset = offsets[r.offset];
  problem.options.n_sink = r.sinks;
  return problem;
}

inline ProblemData data_of(const Recipe& r, DType dtype) {
  const Placement placements[] = {{}, {.heads_inside = true}, {.row_padding = 5, .misalignment = 1}};
  ProblemData data(problem_of(r, dtype), placements[r.placement]);
  data.fill_gaussian(r.seed);
  for (std::int64_t b = 0; r.lengths == 1 && b < r.batch; ++b) {
    data.query_lengths.push_back(b == 2 ? 0 : std::max<std::int64_t>(r.query_len - b, 0));
    data.kv_lengths.push_back(b == 1 ? 0 : (r.kv_len + 1) / 2);
  }
  return data;
}

/// One number of a recipe and the values that it takes.
struct Factor {
  std::int64_t Recipe::*member;
  std::vector<std::int64_t> levels;
};

/// Recipes such that every value of a factor meets every value of every other one: most defects need two circumstances
/// at most. Greedy: each recipe starts from a pair that is still missing and adds, factor by factor, the value that
/// makes most pairs new.
inline std::vector<Recipe> pairwise(const std::vector<Factor>& factors) {
  const std::size_t count = factors.size();
  const auto pair_key = [](std::size_t f, std::size_t l, std::size_t g, std::size_t m) {
    return f < g ? std::array{f, l, g, m} : std::array{g, m, f, l};
  };
  std::set<std::array<std::size_t, 4>> missing;
  for (std::size_t f = 0; f < count; ++f) {
    for (std::size_t g = f + 1; g < count; ++g) {
      for (std::size_t l = 0; l < factors[f].levels.size(); ++l) {
        for (std::size_t m = 0; m < factors[g].levels.size(); ++m) missing.insert(pair_key(f, l, g, m));
      }
    }
  }
  std::vector<Recipe> recipes;
  while (!missing.empty()) {
    const auto [f0, l0, g0, m0] = *missing.begin();
    std::map<std::size_t, std::size_t> chosen{{f0, l0}, {g0, m0}};
    for (std::size_t f = 0; f < count; ++f) {
      if (chosen.contains(f)) continue;
      std::size_t best = recipes.size() % factors[f].levels.size();  // a tie goes to another value each time
      long most = -1;
      for (std::size_t k = 0; k < factors[f].levels.size(); ++k) {
        const std::size_t level = (recipes.size() + k) % factors[f].levels.size();
        const long fresh = std::count_if(chosen.begin(), chosen.end(), [&](const auto& other) {
          return missing.contains(pair_key(f, level, other.first, other.second));
        });
        if (fresh > most) std::tie(most, best) = std::pair(fresh, level);
      }
      chosen[f] = best;
    }
    Recipe recipe;
    for (const auto& [f, l] : chosen) {
      recipe.*factors[f].member = factors[f].levels[l];
      for (const auto& [g, m] : chosen) {
        if (f < g) missing.erase(pair_key(f, l, g, m));
      }
    }
    recipes.push_back(recipe);
  }
  return recipes;
}

}  // namespace siattn::test

#endif  // SIATTN_TESTS_SUPPORT_HPP
