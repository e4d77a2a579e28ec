// SPDX-License-Identifier: Apache-2.0
// Relations between results that hold for any input: of values, queries, heads, sequences. Keys: relations_keys_test.cpp.
#include <siattn/position_encoding.hpp>

#include "tests/properties.hpp"

namespace siattn::test {
namespace {

class Relations : public RelationTest {
 protected:
  static void fill_value(ProblemData& data, const ProblemData::Fill& fill) {
    const Shape4 shape = data.value.view().shape;
    for (std::int64_t k = 0; k < shape[0] * shape[1] * shape[2] * shape[3]; ++k) {
      const std::int64_t d = k % shape[3], i = k / shape[3] % shape[2], h = k / shape[3] / shape[2] % shape[1];
      const std::int64_t b = k / shape[3] / shape[2] / shape[1];
      data.value.set(b, h, i, d, fill(b, h, i, d));
    }
  }
};

TEST_P(Relations, AnyProblemAgreesWithTheReference) {
  expect("agrees with the reference", [this] {
    ProblemData data = data_of(any_recipe(), dtype());
    require(right(backend(), data));
  });
}

/// Values on a coarse grid, so that c v + b is exact in every type.
TEST_P(Relations, AffineMapOfTheValuesMapsOut) {
  expect("V -> c V + b gives c out + b", [this] {
    const Recipe recipe = any_recipe();
    const auto c = static_cast<double>(draw_signed("c", 3));
    const auto shift = static_cast<double>(draw_signed("b", 5));
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
      if (sees_nothing(data, b, h, i)) return;  // 0 either way
      const auto before = bound_of(backend(), data, b, h, i).out;
      const auto after = bound_of(backend(), mapped, b, h, i).out;
      for (std::size_t k = 0; k < before.size(); ++k) {
        const auto channel = static_cast<std::int64_t>(k);
        require_close(mapped.out.get(b, h, i, channel), c * data.out.get(b, h, i, channel) + shift,
                      std::abs(c) * before[k].total() + after[k].total(), verify::element_name({b, h, i, channel}));
      }
    });
    RC_ASSERT(mapped.lse.bits() == data.lse.bits());
  });
}

TEST_P(Relations, ValuesOfOneGiveOne) {
  expect("V = 1 gives 1", [this] {
    ProblemData data = data_of(any_recipe(), dtype());
    fill_value(data, [](auto...) { return 1.0; });
    require(run(backend(), data));
    for_each_row(data, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
      const double expected = sees_nothing(data, b, h, i) ? 0 : 1;
      const double allowed = bound_of(backend(), data, b, h, i).out[0].total();
      for (std::int64_t c = 0; c < data.problem().shape.value_dim; ++c) {
        require_close(data.out.get(b, h, i, c), expected, allowed, verify::element_name({b, h, i, c}));
      }
    });
  });
}

/// Channel j of value j alone is 1: out is the weights.
TEST_P(Relations, WeightsSumToOneAndAreZeroBehindTheMask) {
  const auto one_hot = [](Recipe& r) {
    r.kv_len = std::min<std::int64_t>(r.kv_len, 300);
    r.value_dim = r.kv_len;
  };
  expect("weights are a distribution over the visible keys", [&] {
    ProblemData data = data_of(any_recipe(one_hot), dtype());
    fill_value(data, [](auto, auto, auto j, auto c) { return j == c ? 1.0 : 0.0; });
    require(run(backend(), data));
    for_each_row(data, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
      const auto sequence = reference::sequence(data.problem().shape, data.problem().options, data.tensors(), b);
      const auto bounds = bound_of(backend(), data, b, h, i).out;
      double sum = 0, allowed = 0;
      bool some = false;
      for (std::int64_t j = 0; j < data.problem().shape.kv_len; ++j) {
        const double weight = data.out.get(b, h, i, j);
        const bool visible = reference::visible(sequence, data.problem().options, i, j);
        some = some || visible;
        RC_ASSERT((visible ? weight >= 0 && weight <= 1 : weight == 0));
        sum += weight;
        allowed += bounds[static_cast<std::size_t>(j)].total();
      }
      require_close(sum, some ? 1 : 0, allowed,
                    fmt::format("sum of the weights of {}", verify::element_name({b, h, i, -1})));
    });
  });
}

TEST_P(Relations, PowerOfTwoTimesTheValuesIsExact) {
  expect("V -> 2^e V gives 2^e out, bit by bit", [this] {
    const Recipe recipe = any_recipe();
    const double factor = std::ldexp(1.0, static_cast<int>(draw_signed("e", 3)));
    const double least_normal = dtype() == DType::float16 ? 0x1p-14 : 0x1p-126;
    const double least = least_normal / std::min(factor, 1.0);  // below it one of the two is rounded to fewer digits
    ProblemData data = data_of(recipe, dtype());
    fill_value(data, [&data, least](auto... at) {
      const double v = data.value.get(at...);
      return std::abs(v) < least ? 0 : v;
    });
    require(run(backend(), data));
    ProblemData scaled = data_of(recipe, dtype());
    fill_value(scaled, [&](auto... at) { return factor * data.value.get(at...); });
    require(run(backend(), scaled));
    for_each_row(data, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
      for (std::int64_t c = 0; c < recipe.value_dim; ++c) {
        const double out = data.out.get(b, h, i, c);
        if (std::abs(out) < least && out != 0) continue;
        RC_ASSERT(scaled.out.get(b, h, i, c) == factor * out);
      }
    });
    RC_ASSERT(scaled.lse.bits() == data.lse.bits());
  });
}

/// Scores do not change, and no operation on the way rounds otherwise.
TEST_P(Relations, PowerOfTwoMayMoveFromTheQueryIntoTheScale) {
  expect("Q -> 4 Q, softmax_scale / 4 changes no bit", [this] {
    const Recipe recipe = any_recipe();
    const ProblemData data = run_on(data_of(recipe, dtype()));
    AttentionProblem problem = data.problem();
    problem.options.softmax_scale = 0.25 / std::sqrt(static_cast<double>(recipe.head_dim));
    ProblemData scaled(problem);
    scaled.fill([&](auto... at) { return 4 * data.query.get(at...); }, [&](auto... at) { return data.key.get(at...); },
                [&](auto... at) { return data.value.get(at...); });
    require(run(backend(), scaled));
    RC_ASSERT(bits_of(scaled) == bits_of(data));
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

/// As a server runs it: causal, each chunk of queries before the keys that its cache then holds. Chunks of 1: decoding,
/// which may go another way through a backend, so the bits may differ.
TEST_P(Relations, PrefillChunksAndDecodingAgree) {
  expect("prefill = chunks = decoding", [this] {
    const Recipe recipe = any_recipe();
    const std::int64_t first_chunk = draw("first chunk", 1, 20);
    const std::int64_t other_chunks = draw("other chunks", 1, 20);
    ProblemData data = data_of(recipe, dtype());
    data.clear_outputs();
    std::int64_t last = 0;
    for (std::int64_t first = 0; first < recipe.query_len; first = last) {
      last = std::min(recipe.query_len, first + (first == 0 ? first_chunk : other_chunks));
      AttentionTensors tensors = data.tensors();
      tensors.query = part(tensors.query, 2, first, last);
      tensors.out = part(tensors.out, 2, first, last);
      tensors.lse = part(tensors.lse, 2, first, last);
      const std::int64_t offset = offset_of(data) + first;
      if (recipe.mask == 0) {
        const std::int64_t keys = std::clamp<std::int64_t>(offset_of(data) + last, 0, recipe.kv_len);
        tensors.key = part(tensors.key, 2, 0, keys);
        tensors.value = part(tensors.value, 2, 0, keys);
      }
      AttentionProblem chunk = siattn::problem_of(tensors, data.problem().options);
      // The default is right as it stands, where the queries are the newest tokens.
      chunk.options.query_offset.reset();
      if (chunk.shape.kv_len - chunk.shape.query_len != offset) chunk.options.query_offset = offset;
      require(run(backend(), chunk, tensors));
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

TEST_P(Relations, PermutingTheBatchPermutesBits) {
  expect("sequences of a batch in another order", [this] {
    Recipe recipe = any_recipe([](Recipe& r) { r.lengths = static_cast<std::int64_t>(r.seed % 2); });
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

TEST_P(Relations, BatchTwiceOverGivesTheSameBitsTwice) {
  expect("a batch twice over", [this] {
    Recipe recipe = any_recipe();
    const ProblemData data = run_on(data_of(recipe, dtype()));
    const auto wrap = [batch = recipe.batch](const Shape4& at) { return Shape4{at[0] % batch, at[1], at[2], at[3]}; };
    recipe.batch *= 2;
    ProblemData twice = data_of(recipe, dtype());
    fill_from(twice.query, data.query, wrap);
    fill_from(twice.key, data.key, wrap);
    fill_from(twice.value, data.value, wrap);
    require(run(backend(), twice));
    ProblemData expected = data_of(recipe, dtype());
    fill_from(expected.out, data.out, wrap);
    fill_from(expected.lse, data.lse, wrap);
    RC_ASSERT(bits_of(twice) == bits_of(expected));
  });
}

TEST_P(Relations, PlacementAndThreadsChangeNoBit) {
  expect("other strides, alignment and threads", [this] {
    Recipe recipe = any_recipe();
    const ProblemData dense = run_on(data_of(recipe, dtype()));
    recipe.placement = draw("placement", 0, 2);
    ProblemData data = data_of(recipe, dtype());
    require(run(backend(), data, static_cast<int>(draw("threads", 1, 4))));
    RC_ASSERT(bits_of(data) == bits_of(dense));
    RC_ASSERT(data.intact());
  });
}

// ---- Position encodings ---------------------------------------------------------------------------------------------

PositionEncoding encoding_choice(std::int64_t choice) {
  const PositionEncoding encodings[] = {Rope{},
                                        Rope{.layout = PairLayout::interleaved},
                                        PartialRope{.rotary_dim = 4},
                                        PRope{.p = 0.5},
                                        HalfTruncatedRope{},
                                        NtkRope{.factor = 2},
                                        Yarn{.factor = 4}};
  return encodings[choice];
}
constexpr std::int64_t kEncodings = 7;

void for_encodings(Recipe& r) {
  r.head_dim = (r.head_dim + 3) / 4 * 4;
  r.offset %= 3;  // a shift has to stay among the positions
}

class Encoded : public RelationTest {
 protected:
  /// Attention of the queries and keys, turned to positions that are `query_shift` and `key_shift` later.
  ProblemData encoded(const Recipe& recipe, const PositionEncoding& encoding, std::int64_t query_shift,
                      std::int64_t key_shift) const {
    const ProblemData plain = data_of(recipe, dtype());
    ProblemData data = data_of(recipe, dtype());
    require(apply(encoding, plain.query.view(), data.query.view(), offset_of(plain) + query_shift));
    require(apply(encoding, plain.key.view(), data.key.view(), key_shift));
    return run_on(std::move(data));
  }

  static double norm(const verify::GuardedTensor& x, std::int64_t b, std::int64_t h, std::int64_t i) {
    double sum = 0;
    for (std::int64_t d = 0; d < x.view().shape[3]; ++d) sum += x.get(b, h, i, d) * x.get(b, h, i, d);
    return std::sqrt(sum);
  }

  /// How much the rounding of encoded queries and keys may move a logit of this row. A vector x of norm |x| is encoded
  /// with an error of norm at most e = u |x| + 2^-48 |x| + sqrt(head_dim) times half a subnormal: its last rounding, and
  /// the rotation in double (include/siattn/position_encoding.hpp). By Cauchy and Schwarz a score, factor s, is then off by
  /// at most s (|q| e_k + |k| e_q + e_q e_k), and its logit by |r a_t| times that. Two encodings: twice.
  double logit_error(const ProblemData& data, std::int64_t b, std::int64_t h, std::int64_t i) const {
    const AttentionShape& s = data.problem().shape;
    const AttentionOptions& options = data.problem().options;
    const auto sequence = reference::sequence(s, options, const_cast<ProblemData&>(data).tensors(), b);
    const reference::Transform<double> transform(options, s);
    const auto [u, half_subnormal] = verify::rounding_of(dtype());
    const auto error = [&, u = u, half = half_subnormal](double length) {
      return (u + 0x1p-48) * length * (1 + 2 * u) + std::sqrt(static_cast<double>(s.head_dim)) * half;
    };
    std::int64_t n = 0;
    for (std::int64_t j = 0; j < s.kv_len; ++j) n += reference::visible(sequence, options, i, j) ? 1 : 0;
    const double q = norm(data.query, b, h, i);
    double worst = 0;
    for (std::int64_t j = 0; j < s.kv_len; ++j) {
      if (!reference::visible(sequence, options, i, j)) continue;
      const double k = norm(data.key, b, h / (s.query_heads / s.kv_heads), j);
      const double factor =
          j < options.n_sink
              ? 1
              : std::abs(transform.row_factor(h, n) * transform.scale(h, std::abs(sequence.query_offset + i - j)));
      const double score = q * error(k) + k * error(q) + error(q) * error(k);
      worst = std::max(worst, 2 * factor * score / std::sqrt(static_cast<double>(s.head_dim)));
    }
    return worst;
  }

  /// Both were computed from the same vectors at positions that differ by a shift of all.
  void require_unmoved(ProblemData& at_zero, ProblemData& shifted) const {
    for_each_row(at_zero, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
      RC_ASSERT(sees_nothing(at_zero, b, h, i) == sees_nothing(shifted, b, h, i));
      if (sees_nothing(at_zero, b, h, i)) return;
      const double moved = logit_error(at_zero, b, h, i);
      const verify::RowBound before = bound_of(backend(), at_zero, b, h, i);
      const verify::RowBound after = bound_of(backend(), shifted, b, h, i);
      require_close(shifted.lse.get(b, h, i, 0), at_zero.lse.get(b, h, i, 0),
                    moved + before.lse.total() + after.lse.total(), verify::element_name({b, h, i, -1}));
      // Weights p exp(d), |d| <= e, move their mean by at most (exp(2e) - 1) max |v - out|.
      const std::int64_t g = h / (at_zero.problem().shape.query_heads / at_zero.problem().shape.kv_heads);
      for (std::int64_t c = 0; c < at_zero.problem().shape.value_dim; ++c) {
        const auto k = static_cast<std::size_t>(c);
        const double out = at_zero.out.get(b, h, i, c);
        double spread = 0;
        for (std::int64_t j = 0; j < at_zero.problem().shape.kv_len; ++j)
          spread = std::max(spread, std::abs(at_zero.value.get(b, g, j, c) - out));
        require_close(
            shifted.out.get(b, h, i, c), out,
            std::expm1(2 * moved) * (spread + before.out[k].total()) + before.out[k].total() + after.out[k].total(),
            verify::element_name({b, h, i, c}));
      }
    });
  }
};

TEST_P(Encoded, ShiftOfAllPositionsMovesNothing) {
  expect("all positions shifted", [this] {
    const Recipe recipe = any_recipe(for_encodings);
    const PositionEncoding encoding = encoding_choice(draw("encoding", 0, kEncodings - 1));
    const std::int64_t shift = draw_signed("shift", 1000000);
    ProblemData at_zero = encoded(recipe, encoding, 0, 0);
    ProblemData shifted = encoded(recipe, encoding, shift, shift);
    require_unmoved(at_zero, shifted);
  });
}

TEST_P(Encoded, ShiftOfTheQueriesAloneMoves) {
  expect_refuted("queries shifted, keys not", [this] {
    const Recipe recipe = any_recipe(for_encodings);
    ProblemData at_zero = encoded(recipe, Rope{}, 0, 0);
    ProblemData shifted = encoded(recipe, Rope{}, 1, 0);
    require_unmoved(at_zero, shifted);
  });
}

SIATTN_FOR_EVERY_TARGET(Relations);
SIATTN_FOR_EVERY_TARGET(Encoded);

}  // namespace
}  // namespace siattn::test
