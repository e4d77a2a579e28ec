// SPDX-License-Identifier: Apache-2.0
// Properties of attention problems drawn at random: the generator, whose problems shrink field by field to the simplest
// that still fails and print as one line, and what a failure tells.
#ifndef SIATTN_TESTS_PROPERTIES_HPP
#define SIATTN_TESTS_PROPERTIES_HPP

#include <rapidcheck.h>
#include <rapidcheck/detail/TestListenerAdapter.h>

#include <cmath>
#include <filesystem>
#include <sstream>

#include "tests/support.hpp"

namespace siattn::test {

/// How RapidCheck prints a problem; its type stands in the name of the test.
inline void showValue(const Recipe& recipe, std::ostream& stream) {
  const std::string text = text_of(problem_of(recipe, DType::float32));
  const char* const placements[] = {"", ", heads inside", ", rows padded"};
  stream << text.substr(text.find(' ') + 1) << (recipe.lengths == 1 ? ", lengths" : "") << placements[recipe.placement]
         << ", data " << recipe.seed;
}

/// A number low .. high; it shrinks towards low. (By way of a type: RapidCheck's templates are slow to compile.)
inline rc::Gen<std::int64_t> between(std::int64_t low, std::int64_t high) { return rc::gen::inRange(low, high + 1); }

/// Where a window or a query reaches a border of the keys, neither can shrink alone.
inline rc::Seq<Recipe> shrink_together(const Recipe& recipe) {
  std::vector<Recipe> shorter;
  for (const std::int64_t less : {recipe.window / 2, std::int64_t{1}}) {
    if (less < 1 || recipe.window <= less || recipe.kv_len <= less) continue;
    shorter.push_back(recipe);
    shorter.back().kv_len -= less;
    shorter.back().window -= less;
  }
  for (const std::int64_t less : {recipe.query_len / 2, std::int64_t{1}}) {
    if (less < 1 || recipe.query_len <= less || recipe.kv_len <= less) continue;
    shorter.push_back(recipe);
    shorter.back().kv_len -= less;
    shorter.back().query_len -= less;
  }
  return rc::seq::fromContainer(std::move(shorter));
}

inline rc::Gen<Recipe> recipes() {
  // Mostly short, so that many are drawn; sometimes across the border of a chunk of keys, seldom of a split.
  const auto length = [](std::int64_t usual, std::int64_t long_, std::int64_t longest) {
    return rc::gen::weightedOneOf<std::int64_t>(
        {{40, between(1, usual)}, {6, between(1, long_)}, {1, between(1, longest)}});
  };
  // In the order in which they shrink.
  auto free = rc::gen::build<Recipe>(
      rc::gen::set(&Recipe::batch, between(1, 3)), rc::gen::set(&Recipe::query_len, length(20, 50, 150)),
      rc::gen::set(&Recipe::kv_len, length(70, 300, 1100)), rc::gen::set(&Recipe::kv_heads, between(1, 2)),
      rc::gen::set(&Recipe::group, between(1, 3)), rc::gen::set(&Recipe::head_dim, between(1, 20)),
      rc::gen::set(&Recipe::value_dim, between(1, 20)), rc::gen::set(&Recipe::mask, between(0, 1)),
      rc::gen::set(&Recipe::window, between(0, 40)), rc::gen::set(&Recipe::offset, between(0, 3)),
      rc::gen::set(&Recipe::sinks, between(0, 5)), rc::gen::set(&Recipe::transform, between(0, kTransformChoices - 1)),
      rc::gen::set(&Recipe::calibration, between(0, kCalibrationChoices - 1)),
      rc::gen::set(&Recipe::seed, rc::gen::inRange<std::uint64_t>(1, 1000)));
  return rc::gen::shrink(std::move(free), shrink_together);
}

/// A problem, after `adjust` has made it one that the relation speaks of.
inline Recipe any_recipe(const std::function<void(Recipe&)>& adjust = [](Recipe&) {}) {
  return *rc::gen::map(recipes(), [adjust](Recipe recipe) {
            adjust(recipe);
            return recipe;
          }).as("problem");
}

inline std::int64_t draw(const char* name, std::int64_t low, std::int64_t high) { return *between(low, high).as(name); }

/// -most .. most; it shrinks towards 0.
inline std::int64_t draw_signed(const char* name, std::int64_t most) {
  return *rc::gen::map(between(0, 2 * most), [](std::int64_t k) { return k % 2 == 0 ? -k / 2 : (k + 1) / 2; }).as(name);
}

inline void require(const ::testing::AssertionResult& result) {
  if (!result) RC_FAIL(result.message());
}
inline void require(const Status& status) {
  if (!status) RC_FAIL(status.message());
}

/// NaN is close to nothing.
inline void require_close(double value, double expected, double allowed, const std::string& what) {
  if (!(std::abs(value - expected) <= allowed)) {
    RC_FAIL(fmt::format("{} = {:.9g}: expected {:.9g} within {:.3g}", what, value, expected, allowed));
  }
}

/// One type of function for all properties, so that RapidCheck's templates are compiled once.
using Property = std::function<void()>;

inline rc::detail::TestResult check(const std::string& relation, const Property& property) {
  setenv("RC_PARAMS", "seed=20250517", 0);  // RapidCheck's own is another one each time
  rc::detail::TestListenerAdapter silent;
  return rc::detail::checkTestable(property, rc::detail::TestMetadata{"", relation},
                                   rc::detail::configuration().testParams, silent);
}

/// The running test from the command line, with the seed that the properties have now.
inline std::string command_of_this_test() {
  const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  return fmt::format("RC_PARAMS=\"seed={}\" {} --gtest_filter={}.{}", rc::detail::configuration().testParams.seed,
                     std::filesystem::read_symlink("/proc/self/exe").string(), test->test_suite_name(), test->name());
}

/// Holds for every problem drawn. If not, the failure has the simplest one found and a line that runs it again.
inline void expect(const std::string& relation, const Property& property) {
  const auto result = check(relation, property);
  if (result.is<rc::detail::SuccessResult>()) return;
  std::ostringstream text;
  rc::detail::printResultMessage(result, text);
  ADD_FAILURE() << relation << "\n" << text.str() << "\nAgain: " << command_of_this_test();
}

/// Does not hold: a problem that refutes it is found.
inline void expect_refuted(const std::string& relation, const Property& property) {
  EXPECT_TRUE(check(relation, property).is<rc::detail::FailureResult>())
      << relation << ": holds for all problems drawn, and should not\nAgain: " << command_of_this_test();
}

/// A test of relations on one backend and type.
class RelationTest : public TargetTest {
 protected:
  ProblemData run_on(ProblemData data) const {
    require(run(backend(), data));
    return data;
  }

  template <class Visit>
  static void for_each_row(const ProblemData& data, Visit visit) {
    const AttentionShape& s = data.problem().shape;
    for (std::int64_t b = 0; b < s.batch; ++b) {
      for (std::int64_t h = 0; h < s.query_heads; ++h) {
        for (std::int64_t i = 0; i < s.query_len; ++i) visit(b, h, i);
      }
    }
  }

  static bool sees_nothing(const ProblemData& data, std::int64_t b, std::int64_t h, std::int64_t i) {
    return std::isinf(data.lse.get(b, h, i, 0));
  }
};

/// Position of query 0.
inline std::int64_t offset_of(const ProblemData& data) {
  const AttentionShape& s = data.problem().shape;
  return data.problem().options.query_offset.value_or(s.kv_len - s.query_len);
}

}  // namespace siattn::test

#endif  // SIATTN_TESTS_PROPERTIES_HPP
