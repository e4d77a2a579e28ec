// SPDX-License-Identifier: Apache-2.0
// Relations that hold for any input, of keys: sets of keys that merge, permutations, sinks, windows, transforms that
// leave logits alone, a constant added to every key.
#include <numeric>

#include "tests/properties.hpp"

namespace siattn::test {
namespace {

/// Transforms whose factors do not depend on how many keys a query sees.
constexpr std::int64_t kByDistance[] = {0, 1, 2, 3, 4, 8, 9, 10};
/// Of these, the ones that multiply no logit: a = 1.
constexpr std::int64_t kUnscaled[] = {4, 8, 9, 10};
constexpr std::int64_t kNone = 4;

void by_distance(Recipe& r) { r.transform = kByDistance[r.transform % 8]; }

/// What attention over a set of keys leaves of a row, and how far each number may be off. Two such states merge into
/// that of the union, in any order.
struct State {
  double lse = -kInfinity, lse_error = 0;
  std::vector<double> out, out_error;
};

State state_of(const Backend& backend, ProblemData& data, std::int64_t b, std::int64_t h, std::int64_t i) {
  State state;
  state.lse = data.lse.get(b, h, i, 0);
  const verify::RowBound bound = bound_of(backend, data, b, h, i);
  state.lse_error = bound.lse.total();
  for (const verify::Tolerance& tolerance : bound.out) {
    state.out.push_back(data.out.get(b, h, i, static_cast<std::int64_t>(state.out.size())));
    state.out_error.push_back(tolerance.total());
  }
  return state;
}

/// The shares s and 1 - s of the two are known to factors exp(d) of their ratio, d = the sum of the errors of lse; that
/// moves a mean of two numbers by at most s (1 - s) (exp(d) - 1) times their difference. Some u for the doubles here.
State merged(const State& x, const State& y) {
  constexpr double u = 0x1p-50;
  if (std::isinf(x.lse)) return y;
  if (std::isinf(y.lse)) return x;
  const double top = std::max(x.lse, y.lse);
  State both;
  both.lse = top + std::log(std::exp(x.lse - top) + std::exp(y.lse - top));
  both.lse_error = std::max(x.lse_error, y.lse_error) + u * (std::abs(both.lse) + std::abs(top) + 1);
  const double share = std::exp(x.lse - both.lse), rest = std::exp(y.lse - both.lse);
  const double d = x.lse_error + y.lse_error + u * (std::abs(both.lse) + std::abs(top) + 1);
  for (std::size_t c = 0; c < x.out.size(); ++c) {
    both.out.push_back(share * x.out[c] + rest * y.out[c]);
    both.out_error.push_back(std::exp(d) * (share * x.out_error[c] + rest * y.out_error[c]) +
                             share * rest * std::expm1(d) * std::abs(x.out[c] - y.out[c]) +
                             u * (std::abs(x.out[c]) + std::abs(y.out[c])));
  }
  return both;
}

class KeyRelations : public RelationTest {
 protected:
  /// The same queries before keys first .. last - 1 alone, which keep their positions.
  ProblemData over_keys(const ProblemData& whole, std::int64_t first, std::int64_t last) const {
    AttentionProblem problem = whole.problem();
    problem.shape.kv_len = last - first;
    problem.options.query_offset = offset_of(whole) - first;
    problem.options.n_sink = std::clamp<std::int64_t>(problem.options.n_sink - first, 0, last - first);
    return with_keys_of(whole, problem, first);
  }

  /// The same where the keys are there but do not count: the first `last` of them, by their length.
  ProblemData before_key(const ProblemData& whole, std::int64_t last) const {
    AttentionProblem problem = whole.problem();
    problem.options.query_offset = offset_of(whole);
    ProblemData data = with_keys_of(whole, problem, 0);
    data.kv_lengths.assign(static_cast<std::size_t>(problem.shape.batch), last);
    return data;
  }

  ProblemData with_keys_of(const ProblemData& whole, const AttentionProblem& problem, std::int64_t first) const {
    ProblemData data(problem);
    const auto later = [first](const Shape4& at) { return Shape4{at[0], at[1], at[2] + first, at[3]}; };
    data.query = whole.query;
    fill_from(data.key, whole.key, later);
    fill_from(data.value, whole.value, later);
    return data;
  }

  /// Row by row, the states of the parts merge to that of the whole; `order` says which two come next.
  void require_merge(ProblemData& whole, std::vector<ProblemData>& parts, std::uint64_t order = 0) const {
    for_each_row(whole, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
      std::vector<State> states;
      for (ProblemData& part : parts) states.push_back(state_of(backend(), part, b, h, i));
      for (std::uint64_t left = order; states.size() > 1; left /= 7) {
        const std::size_t at = left % states.size();
        const State x = states[at];
        states.erase(states.begin() + static_cast<std::ptrdiff_t>(at));
        State& y = states[left / 3 % states.size()];
        y = merged(y, x);
      }
      const State& merge = states.front();
      const State expected = state_of(backend(), whole, b, h, i);
      RC_ASSERT(std::isinf(merge.lse) == std::isinf(expected.lse));
      if (std::isinf(expected.lse)) return;
      require_close(merge.lse, expected.lse, merge.lse_error + expected.lse_error, verify::element_name({b, h, i, -1}));
      for (std::size_t c = 0; c < merge.out.size(); ++c) {
        require_close(merge.out[c], expected.out[c], merge.out_error[c] + expected.out_error[c],
                      verify::element_name({b, h, i, static_cast<std::int64_t>(c)}));
      }
    });
  }

  /// Two results for the same rows that are equal but for rounding; `shift_of_lse` says by how much lse is larger.
  void require_same(ProblemData& x, ProblemData& y,
                    const std::function<double(std::int64_t, std::int64_t, std::int64_t)>& shift_of_lse = {}) const {
    for_each_row(x, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
      const State before = state_of(backend(), x, b, h, i), after = state_of(backend(), y, b, h, i);
      RC_ASSERT(std::isinf(before.lse) == std::isinf(after.lse));
      for (std::size_t c = 0; c < before.out.size(); ++c) {
        require_close(after.out[c], before.out[c], before.out_error[c] + after.out_error[c],
                      verify::element_name({b, h, i, static_cast<std::int64_t>(c)}));
      }
      if (std::isinf(before.lse)) return;
      const double shift = shift_of_lse ? shift_of_lse(b, h, i) : 0;
      require_close(after.lse, before.lse + shift, before.lse_error + after.lse_error + 0x1p-48 * std::abs(shift),
                    verify::element_name({b, h, i, -1}));
    });
  }

  /// Equal as numbers; -0 is 0.
  static void require_equal(const ProblemData& x, const ProblemData& y) {
    for_each_row(x, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
      RC_ASSERT(x.lse.get(b, h, i, 0) == y.lse.get(b, h, i, 0));
      for (std::int64_t c = 0; c < x.problem().shape.value_dim; ++c)
        RC_ASSERT(x.out.get(b, h, i, c) == y.out.get(b, h, i, c));
    });
  }
};

// ---- Sets of keys ---------------------------------------------------------------------------------------------------

/// Runs of keys as their own problems (the first one perhaps by its length), merged in any order.
TEST_P(KeyRelations, RunsOfKeysMergeToTheWholeInAnyOrder) {
  expect("merge of runs of keys = whole", [this] {
    const Recipe recipe = any_recipe(by_distance);
    std::vector<std::int64_t> cuts =
        *rc::gen::resize(4, rc::gen::container<std::vector<std::int64_t>>(between(0, recipe.kv_len))).as("cuts");
    const auto order = static_cast<std::uint64_t>(draw("order", 0, 100000));
    const bool by_length = draw("first by its length", 0, 1) == 1;
    cuts.push_back(0);
    cuts.push_back(recipe.kv_len);
    std::sort(cuts.begin(), cuts.end());
    ProblemData whole = run_on(data_of(recipe, dtype()));
    std::vector<ProblemData> parts;
    for (std::size_t k = 0; k + 1 < cuts.size(); ++k) {
      parts.push_back(
          run_on(by_length && k == 0 ? before_key(whole, cuts[1]) : over_keys(whole, cuts[k], cuts[k + 1])));
    }
    require_merge(whole, parts, order);
  });
}

/// The newest w keys by a window, the older ones by queries that stand w earlier: distances change, so no transform.
TEST_P(KeyRelations, WindowMergesWithTheKeysBeforeIt) {
  const auto plain_causal = [](Recipe& r) {
    r.mask = 0;
    r.window = 0;
    r.transform = kNone;
  };
  expect("window + the keys before it = no window", [&] {
    const Recipe recipe = any_recipe(plain_causal);
    const std::int64_t window = draw("window", 1, 80);
    ProblemData whole = run_on(data_of(recipe, dtype()));
    AttentionProblem newest = whole.problem(), older = whole.problem();
    newest.options.window = window;
    older.options.query_offset = offset_of(whole) - window;
    std::vector<ProblemData> parts;
    parts.push_back(run_on(with_keys_of(whole, newest, 0)));
    parts.push_back(run_on(with_keys_of(whole, older, 0)));
    require_merge(whole, parts);
  });
}

/// Sinks are keys without the transform, the others keys that never had sinks before them.
TEST_P(KeyRelations, SinksMergeWithTheKeysAfterThem) {
  expect("untransformed sinks + the other keys = whole", [this] {
    const Recipe recipe = any_recipe(by_distance);
    const std::int64_t sinks = std::min(recipe.sinks, recipe.kv_len);
    ProblemData whole = run_on(data_of(recipe, dtype()));
    ProblemData first = over_keys(whole, 0, sinks);
    AttentionProblem plain = first.problem();
    plain.options.transform = NoTransform{};
    plain.options.calibration = {};
    plain.options.n_sink = 0;
    std::vector<ProblemData> parts;
    parts.push_back(run_on(with_keys_of(first, plain, 0)));
    parts.push_back(run_on(over_keys(whole, sinks, recipe.kv_len)));
    require_merge(whole, parts);
  });
}

/// The contract has no positions of single keys: key j stands at j. So keys can be permuted with their positions only
/// where the distance is of no account and every query sees all of them. The two permutations that keep distances are
/// below and above: the mirror image, and the shift (a run of keys as a problem of its own).
TEST_P(KeyRelations, PermutingKeysWithTheirValuesChangesNothing) {
  const auto distance_free = [](Recipe& r) {
    constexpr std::int64_t row_factors[] = {4, 5, 6, 7};
    r.window = 0;
    if (r.sinks > 2) {
      r.sinks = r.kv_len;  // any transform, on no key
    } else {
      r.sinks = 0;
      r.transform = row_factors[r.transform % 4];
    }
  };
  expect("keys and values in another order", [&] {
    const Recipe recipe = any_recipe(distance_free);
    const auto swaps = *rc::gen::container<std::vector<std::pair<std::int64_t, std::int64_t>>>(
                            rc::gen::pair(between(0, recipe.kv_len - 1), between(0, recipe.kv_len - 1)))
                            .as("swaps");
    std::vector<std::int64_t> from(static_cast<std::size_t>(recipe.kv_len));
    std::iota(from.begin(), from.end(), 0);
    for (const auto& [x, y] : swaps) std::swap(from[static_cast<std::size_t>(x)], from[static_cast<std::size_t>(y)]);
    ProblemData data = data_of(recipe, dtype());
    AttentionProblem problem = data.problem();
    if (recipe.mask == 0) problem.options.query_offset = recipe.kv_len;  // all keys lie behind every query
    ProblemData before = run_on(with_keys_of(data, problem, 0));
    ProblemData after(problem);
    const auto permuted = [&from](const Shape4& at) {
      return Shape4{at[0], at[1], from[static_cast<std::size_t>(at[2])], at[3]};
    };
    after.query = data.query;
    fill_from(after.key, data.key, permuted);
    fill_from(after.value, data.value, permuted);
    require(run(backend(), after));
    require_same(before, after);
  });
}

/// Bidirectional attention does not know left from right: with all positions mirrored, rows come out mirrored.
TEST_P(KeyRelations, MirrorImageOfBidirectionalAttention) {
  const auto bidirectional = [](Recipe& r) {
    r.mask = 1;
    r.offset %= 3;
    r.sinks = 0;
  };
  expect("mirror image", [&] {
    const Recipe recipe = any_recipe(bidirectional);
    ProblemData data = data_of(recipe, dtype());
    AttentionProblem problem = data.problem();
    problem.options.query_offset = recipe.kv_len - recipe.query_len - offset_of(data);
    ProblemData mirrored(problem);
    const auto mirror = [](std::int64_t length) {
      return [length](const Shape4& at) { return Shape4{at[0], at[1], length - 1 - at[2], at[3]}; };
    };
    fill_from(mirrored.query, data.query, mirror(recipe.query_len));
    fill_from(mirrored.key, data.key, mirror(recipe.kv_len));
    fill_from(mirrored.value, data.value, mirror(recipe.kv_len));
    require(run(backend(), mirrored));
    fill_from(data.out, mirrored.out, mirror(recipe.query_len));
    fill_from(data.lse, mirrored.lse, mirror(recipe.query_len));
    require(agrees(backend(), data));
  });
}

// ---- Windows and sinks that change nothing --------------------------------------------------------------------------

/// The narrowest such window has the largest distance of the problem, plus one.
TEST_P(KeyRelations, WindowBeyondEveryDistanceChangesNoBit) {
  const auto no_window = [](Recipe& r) { r.window = 0; };
  expect("a wide window = no window", [&] {
    const Recipe recipe = any_recipe(no_window);
    const ProblemData without = run_on(data_of(recipe, dtype()));
    AttentionProblem problem = without.problem();
    const std::int64_t newest = offset_of(without) + recipe.query_len - 1;
    const std::int64_t behind = recipe.mask == 0 ? 0 : recipe.kv_len - 1 - offset_of(without);
    problem.options.window = std::max<std::int64_t>({newest + 1, behind + 1, 1}) +
                             *rc::gen::element<std::int64_t>(0, 1, 63, 1L << 40).as("more");
    RC_ASSERT(bits_of(run_on(with_keys_of(without, problem, 0))) == bits_of(without));
  });
}

/// One less hides the farthest pair. Bits of other rows stay, so the control of the relation above asks all of them.
TEST_P(KeyRelations, WindowOfTheLargestDistanceChangesBits) {
  expect_refuted("a window that hides one pair = no window", [this] {
    const Recipe recipe = any_recipe([](Recipe& r) {
      r.mask = 0;
      r.window = 0;
      r.offset = 1;
    });
    const ProblemData without = run_on(data_of(recipe, dtype()));
    AttentionProblem problem = without.problem();
    problem.options.window = std::max<std::int64_t>(recipe.query_len - 1, 1);
    RC_ASSERT(bits_of(run_on(with_keys_of(without, problem, 0))) == bits_of(without));
  });
}

TEST_P(KeyRelations, MoreSinksThanKeysAreAllKeys) {
  expect("n_sink > kv_len = kv_len", [this] {
    const Recipe recipe = any_recipe([](Recipe& r) { r.sinks = r.kv_len; });
    const ProblemData all = run_on(data_of(recipe, dtype()));
    AttentionProblem problem = all.problem();
    problem.options.n_sink += draw("more", 1, 100);
    RC_ASSERT(bits_of(run_on(with_keys_of(all, problem, 0))) == bits_of(all));
  });
}

/// a = 1 and m = 0, to the last bit of a float32 table: the same numbers as without a transform. As double the terms of
/// tau = 1e300 are not quite 0.
TEST_P(KeyRelations, FactorsOfOneAndShiftsOfZeroAreNoTransform) {
  expect("a = 1, m = 0 is plain softmax attention", [this] {
    const Recipe recipe = any_recipe([](Recipe& r) {
      r.transform = kNone;
      r.calibration = 0;
    });
    ProblemData plain = run_on(data_of(recipe, dtype()));
    AttentionProblem problem = plain.problem();
    switch (draw("way (0: tau 1e300, 1: slope 0, 2: all keys are sinks)", 0, 2)) {
      case 0: problem.options.transform = ScaleInvariant{.tau = 1e300}; break;
      case 1: problem.options.transform = Alibi{0.0}; break;
      default: problem.options.transform = ScaleInvariant{}; problem.options.n_sink = recipe.kv_len;
    }
    ProblemData other = run_on(with_keys_of(plain, problem, 0));
    if (dtype() == DType::float64 || backend().family() == "reference") {
      require_same(plain, other);
    } else {
      require_equal(plain, other);
    }
  });
}

// ---- A constant added to every key ----------------------------------------------------------------------------------

class ConstantInKeys : public KeyRelations {
 protected:
  /// K against K + c, both exact: entries are quarters below 8. Every score of a row changes by s <q, c>.
  void require_cancels(const std::function<void(Recipe&)>& adjust) const {
    const Recipe recipe = any_recipe(adjust);
    const auto key = [](auto b, auto g, auto j, auto d) {
      return static_cast<double>((11 * b + 5 * g + 7 * j * (d + 1) + d) % 33 - 16) / 4;
    };
    const std::vector<std::int64_t> c =
        *rc::gen::container<std::vector<std::int64_t>>(static_cast<std::size_t>(recipe.head_dim), between(0, 8))
             .as("4 c");
    const auto constant = [&c](auto d) { return static_cast<double>(c[static_cast<std::size_t>(d)]) / 4; };
    const ProblemData gaussian = data_of(recipe, dtype());
    ProblemData before(gaussian.problem()), after(gaussian.problem());
    const ProblemData::Fill query = [&](auto... at) { return gaussian.query.get(at...); };
    const ProblemData::Fill value = [&](auto... at) { return gaussian.value.get(at...); };
    before.fill(query, key, value);
    after.fill(
        query, [&](auto b, auto g, auto j, auto d) { return key(b, g, j, d) + constant(d); }, value);
    require(run(backend(), before));
    require(run(backend(), after));
    require_same(before, after, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
      double dot = 0;
      for (std::int64_t d = 0; d < recipe.head_dim; ++d) dot += gaussian.query.get(b, h, i, d) * constant(d);
      return dot / std::sqrt(static_cast<double>(recipe.head_dim));
    });
  }
};

TEST_P(ConstantInKeys, CancelsWhereNoLogitIsMultiplied) {
  expect("K + c gives the same out, lse + s <q, c>", [this] {
    require_cancels([](Recipe& r) {
      r.transform = kUnscaled[r.transform % 4];
      r.calibration = 0;
    });
  });
}

/// a differs from key to key: a program that drops the constant of a row of scores is wrong here.
TEST_P(ConstantInKeys, DoesNotCancelUnderScaleInvariance) {
  expect_refuted("K + c cancels under scale-invariant attention",
                 [this] { require_cancels([](Recipe& r) { r.transform %= 4; }); });
}

SIATTN_FOR_EVERY_TARGET(KeyRelations);
SIATTN_FOR_EVERY_TARGET(ConstantInKeys);

}  // namespace
}  // namespace siattn::test
