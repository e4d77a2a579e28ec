// SPDX-License-Identifier: Apache-2.0
// Relations between results that hold for any input, on problems drawn at random. A failure shrinks to a small problem
// and prints it with the seed; RC_PARAMS="seed=.. max_success=.." chooses others.
#include <rapidcheck.h>

#include <cmath>

#include "tests/support.hpp"

namespace siattn::test {
namespace {

/// One type for all properties, so that the templates of RapidCheck are compiled once.
void expect(const std::string& relation, const std::function<void()>& property) {
  setenv("RC_PARAMS", "seed=20250517 max_success=60", 0);
  EXPECT_TRUE(rc::check(relation, property));
}

void require(const ::testing::AssertionResult& result) {
  if (!result) RC_FAIL(result.message());
}
void require(const Status& status) {
  if (!status) RC_FAIL(status.message());
}

int draw(const char* name, int low, int high) { return *rc::gen::inRange(low, high + 1).as(name); }

/// Transforms whose factors do not depend on how many keys a query sees.
constexpr std::int64_t kByDistance[] = {0, 1, 2, 3, 4, 8, 9, 10};

Recipe any_recipe() {
  Recipe r;
  r.batch = draw("batch", 1, 3);
  r.kv_heads = draw("kv_heads", 1, 2);
  r.group = draw("query heads per kv head", 1, 3);
  r.query_len = draw("query_len", 1, 20);
  r.kv_len = draw("kv_len", 1, 70);
  r.head_dim = draw("head_dim", 1, 20);
  r.value_dim = draw("value_dim", 1, 20);
  r.mask = draw("mask", 0, 1);
  r.window = draw("window (0: none)", 0, 40);
  r.offset = draw("offset (0: default, 1: zero, 2: negative, 3: far)", 0, 3);
  r.sinks = draw("sinks", 0, 5);
  r.transform = draw("transform_choice", 0, kTransformChoices - 1);
  return r;
}

class Relations : public TargetTest {
 protected:
  ProblemData run_on(ProblemData data) const {
    require(run(backend(), data));
    return data;
  }
  static void fill_value(ProblemData& data, const ProblemData::Fill& fill) {
    const Shape4 shape = data.value.view().shape;
    for (std::int64_t k = 0; k < shape[0] * shape[1] * shape[2] * shape[3]; ++k) {
      const std::int64_t d = k % shape[3], i = k / shape[3] % shape[2], h = k / shape[3] / shape[2] % shape[1];
      const std::int64_t b = k / shape[3] / shape[2] / shape[1];
      data.value.set(b, h, i, d, fill(b, h, i, d));
    }
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
};

TEST_P(Relations, AnyProblemAgreesWithTheReference) {
  expect("agrees with the reference", [this] {
    Recipe recipe = any_recipe();
    recipe.lengths = draw("lengths", 0, 1);
    recipe.placement = draw("placement", 0, 2);
    ProblemData data = data_of(recipe, dtype(), static_cast<std::uint64_t>(draw("data", 0, 1000)));
    require(right(backend(), data));
  });
}

/// Values on a coarse grid, so that c v + b is exact in every type.
TEST_P(Relations, AffineMapOfTheValuesMapsOut) {
  expect("V -> c V + b gives c out + b", [this] {
    const Recipe recipe = any_recipe();
    const double c = draw("c", -3, 3);
    const double shift = draw("b", -5, 5);
    const auto on_grid = [](auto b, auto h, auto i, auto d) {
      return static_cast<double>((7 * b + 3 * h + 5 * i + d) % 33 - 16) / 4;
    };
    ProblemData data = data_of(recipe, dtype());
    fill_value(data, on_grid);
    ProblemData mapped = data_of(recipe, dtype());
    fill_value(mapped, [&](auto... at) { return c * on_grid(at...) + shift; });
    require(run(backend(), data));
    require(run(backend(), mapped));
    for_each_row(data, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
      if (std::isinf(data.lse.get(b, h, i, 0))) return;  // sees no key: 0 either way
      const auto before = bound_of(backend(), data, b, h, i).out;
      const auto after = bound_of(backend(), mapped, b, h, i).out;
      for (std::size_t k = 0; k < before.size(); ++k) {
        const auto channel = static_cast<std::int64_t>(k);
        const double expected = c * data.out.get(b, h, i, channel) + shift;
        const double allowed = std::abs(c) * before[k].total() + after[k].total();
        RC_ASSERT(std::abs(mapped.out.get(b, h, i, channel) - expected) <= allowed);
      }
    });
  });
}

TEST_P(Relations, ValuesOfOneGiveOne) {
  expect("V = 1 gives 1", [this] {
    ProblemData data = data_of(any_recipe(), dtype());
    fill_value(data, [](auto...) { return 1.0; });
    require(run(backend(), data));
    for_each_row(data, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
      const double expected = std::isinf(data.lse.get(b, h, i, 0)) ? 0 : 1;
      RC_ASSERT(std::abs(data.out.get(b, h, i, 0) - expected) <= bound_of(backend(), data, b, h, i).out[0].total());
    });
  });
}

TEST_P(Relations, PowerOfTwoTimesTheValuesIsExact) {
  expect("V -> 4 V gives 4 out, bit by bit", [this] {
    const Recipe recipe = any_recipe();
    const double least_normal = dtype() == DType::float16 ? 0x1p-14 : 0x1p-126;
    ProblemData data = run_on(data_of(recipe, dtype()));
    ProblemData scaled = data_of(recipe, dtype());
    fill_value(scaled, [&](auto... at) { return 4 * data.value.get(at...); });
    require(run(backend(), scaled));
    for_each_row(data, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
      for (std::int64_t c = 0; c < recipe.value_dim; ++c) {
        const double out = data.out.get(b, h, i, c);
        if (std::abs(out) < least_normal && out != 0) continue;  // rounded to fewer digits than four times it
        RC_ASSERT(scaled.out.get(b, h, i, c) == 4 * out);
      }
    });
    RC_ASSERT(scaled.lse.bits() == data.lse.bits());
  });
}

TEST_P(Relations, PaddingBehindTheLengthsChangesNoBit) {
  expect("padding changes no bit", [this] {
    const Recipe recipe = any_recipe();
    ProblemData data = run_on(data_of(recipe, dtype()));
    Recipe longer = recipe;
    longer.kv_len += draw("keys of padding", 0, 70);
    longer.query_len += draw("queries of padding", 0, 20);
    AttentionProblem problem = problem_of(longer, dtype());
    problem.options.query_offset = data.problem().options.query_offset;
    ProblemData padded(problem);
    const auto or_nan = [](const verify::GuardedTensor& tensor) -> ProblemData::Fill {
      return [&tensor](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d) {
        return i < tensor.view().shape[2] ? tensor.get(b, h, i, d) : std::nan("");
      };
    };
    padded.fill(or_nan(data.query), or_nan(data.key), or_nan(data.value));
    padded.query_lengths.assign(static_cast<std::size_t>(recipe.batch), recipe.query_len);
    padded.kv_lengths.assign(static_cast<std::size_t>(recipe.batch), recipe.kv_len);
    require(run(backend(), padded));
    ProblemData cut = data_of(recipe, dtype());
    fill_from(cut.out, padded.out, [](const Shape4& at) { return at; });
    fill_from(cut.lse, padded.lse, [](const Shape4& at) { return at; });
    RC_ASSERT(bits_of(cut) == bits_of(data));
  });
}

TEST_P(Relations, QueriesInTwoPiecesAgreeWithTheWhole) {
  expect("prefill = chunk + chunk", [this] {
    const Recipe recipe = any_recipe();
    ProblemData data = data_of(recipe, dtype());
    data.clear_outputs();
    const std::int64_t cut = draw("cut", 0, 20) % (recipe.query_len + 1);
    for (const auto& [first, last] : {std::pair{std::int64_t{0}, cut}, {cut, recipe.query_len}}) {
      AttentionTensors tensors = data.tensors();
      tensors.query = part(tensors.query, 2, first, last);
      tensors.out = part(tensors.out, 2, first, last);
      tensors.lse = part(tensors.lse, 2, first, last);
      AttentionProblem piece = siattn::problem_of(tensors, data.problem().options);
      piece.options.query_offset =
          data.problem().options.query_offset.value_or(recipe.kv_len - recipe.query_len) + first;
      require(run(backend(), piece, tensors));
    }
    require(agrees(backend(), data));
  });
}

TEST_P(Relations, GroupedHeadsEqualRepeatedKvHeads) {
  expect("GQA = repeated kv heads", [this] {
    Recipe recipe = any_recipe();
    ProblemData grouped = data_of(recipe, dtype());
    const std::int64_t group = recipe.group;
    recipe.kv_heads *= group;
    recipe.group = 1;
    ProblemData repeated = data_of(recipe, dtype());
    const auto of_group = [group](const Shape4& at) { return Shape4{at[0], at[1] / group, at[2], at[3]}; };
    repeated.query = grouped.query;
    fill_from(repeated.key, grouped.key, of_group);
    fill_from(repeated.value, grouped.value, of_group);
    require(run(backend(), repeated));
    grouped.out = repeated.out;
    grouped.lse = repeated.lse;
    require(agrees(backend(), grouped));
  });
}

/// Attention over a set of keys is (lse, out); two such states merge into that of the union.
TEST_P(Relations, KeysInTwoSetsMergeToTheWhole) {
  expect("merge of two key sets = whole", [this] {
    Recipe recipe = any_recipe();
    recipe.transform = kByDistance[recipe.transform % 8];
    ProblemData whole = run_on(data_of(recipe, dtype()));
    const std::int64_t cut = draw("cut", 0, 70) % (recipe.kv_len + 1);
    const std::int64_t offset = whole.problem().options.query_offset.value_or(recipe.kv_len - recipe.query_len);
    const auto over_keys = [&](std::int64_t first, std::int64_t last) {
      AttentionProblem problem = whole.problem();
      problem.shape.kv_len = last - first;
      problem.options.query_offset = offset - first;
      problem.options.n_sink = std::clamp<std::int64_t>(recipe.sinks - first, 0, last - first);
      ProblemData data(problem);
      const auto later = [first](const Shape4& at) { return Shape4{at[0], at[1], at[2] + first, at[3]}; };
      data.query = whole.query;
      fill_from(data.key, whole.key, later);
      fill_from(data.value, whole.value, later);
      return run_on(std::move(data));
    };
    ProblemData early = over_keys(0, cut);
    ProblemData late = over_keys(cut, recipe.kv_len);
    for_each_row(whole, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
      const double lse = whole.lse.get(b, h, i, 0);
      if (std::isinf(lse)) return;
      const verify::RowBound bounds[] = {bound_of(backend(), early, b, h, i), bound_of(backend(), late, b, h, i),
                                         bound_of(backend(), whole, b, h, i)};
      const double share[] = {std::exp(early.lse.get(b, h, i, 0) - lse), std::exp(late.lse.get(b, h, i, 0) - lse)};
      const double lse_error = bounds[0].lse.total() + bounds[1].lse.total() + bounds[2].lse.total();
      RC_ASSERT(std::abs(share[0] + share[1] - 1) <= std::expm1(lse_error));
      for (std::int64_t c = 0; c < recipe.value_dim; ++c) {
        const auto k = static_cast<std::size_t>(c);
        const double outs[] = {early.out.get(b, h, i, c), late.out.get(b, h, i, c)};
        const double merged = share[0] * outs[0] + share[1] * outs[1];
        const double allowed = share[0] * bounds[0].out[k].total() + share[1] * bounds[1].out[k].total() +
                               bounds[2].out[k].total() +
                               std::expm1(lse_error) * (share[0] * std::abs(outs[0]) + share[1] * std::abs(outs[1]));
        RC_ASSERT(std::abs(merged - whole.out.get(b, h, i, c)) <= allowed);
      }
    });
  });
}

TEST_P(Relations, ScaleInvariantWithSinksOnlyEqualsNoTransform) {
  expect("all keys are sinks = no transform", [this] {
    Recipe recipe = any_recipe();
    recipe.transform = draw("scale-invariant parameters", 0, 3);
    recipe.sinks = recipe.kv_len + draw("more sinks than keys", 0, 3);
    const ProblemData sinks = run_on(data_of(recipe, dtype()));
    recipe.sinks = 0;
    recipe.transform = 4;
    ProblemData plain = data_of(recipe, dtype());
    plain.out = sinks.out;
    plain.lse = sinks.lse;
    require(agrees(backend(), plain));
  });
}

TEST_P(Relations, PermutingTheBatchPermutesBits) {
  expect("sequences of a batch in another order", [this] {
    Recipe recipe = any_recipe();
    recipe.lengths = draw("lengths", 0, 1);
    const std::int64_t turn = draw("turn", 0, 2);
    const ProblemData data = run_on(data_of(recipe, dtype()));
    ProblemData turned = data_of(recipe, dtype());
    const auto turn_batch = [&](const Shape4& at) {
      return Shape4{(at[0] + turn) % recipe.batch, at[1], at[2], at[3]};
    };
    fill_from(turned.query, data.query, turn_batch);
    fill_from(turned.key, data.key, turn_batch);
    fill_from(turned.value, data.value, turn_batch);
    for (std::size_t b = 0; b < data.kv_lengths.size(); ++b) {
      const std::size_t from = (b + static_cast<std::size_t>(turn)) % data.kv_lengths.size();
      turned.kv_lengths[b] = data.kv_lengths[from];
      turned.query_lengths[b] = data.query_lengths[from];
    }
    require(run(backend(), turned));
    ProblemData expected = data_of(recipe, dtype());
    fill_from(expected.out, data.out, turn_batch);
    fill_from(expected.lse, data.lse, turn_batch);
    RC_ASSERT(bits_of(turned) == bits_of(expected));
  });
}

TEST_P(Relations, WindowBeyondEveryDistanceChangesNoBit) {
  expect("a wide window = no window", [this] {
    Recipe recipe = any_recipe();
    recipe.window = 0;
    recipe.offset %= 3;
    const ProblemData without = run_on(data_of(recipe, dtype()));
    recipe.window = recipe.kv_len + recipe.query_len + draw("more", 0, 100);
    RC_ASSERT(bits_of(run_on(data_of(recipe, dtype()))) == bits_of(without));
  });
}

/// Bidirectional attention does not know left from right: with all positions mirrored, rows come out mirrored.
TEST_P(Relations, MirrorImageOfBidirectionalAttention) {
  expect("mirror image", [this] {
    Recipe recipe = any_recipe();
    recipe.mask = 1;
    recipe.offset %= 3;
    recipe.sinks = 0;
    ProblemData data = data_of(recipe, dtype());
    const std::int64_t offset = data.problem().options.query_offset.value_or(recipe.kv_len - recipe.query_len);
    AttentionProblem problem = data.problem();
    problem.options.query_offset = recipe.kv_len - recipe.query_len - offset;
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

SIATTN_FOR_EVERY_TARGET(Relations);

}  // namespace
}  // namespace siattn::test
