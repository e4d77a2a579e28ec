// SPDX-License-Identifier: Apache-2.0
#include "verify/cases.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "verify/case_list.hpp"
#include "verify/random.hpp"

namespace siattn::verify {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kLargestPosition = std::numeric_limits<std::int32_t>::max();

/// Lengths around the borders of tiles, panels, vectors and chunks of any kernel.
std::vector<Index> lengths(bool quick) {
  if (quick) return {0, 1, 2, 3, 16, 17, 33, 65, 97, 257};
  return {0,  1,  2,  3,  7,   8,   9,   15,  16,  17,  31,  32,  33,  63, 64,
          65, 95, 96, 97, 127, 128, 129, 191, 193, 255, 256, 257, 385, 513};
}

void add_sizes(Cases& cases) {
  for (const Index n : lengths(cases.quick())) {
    cases.add(fmt::format("causal-{}", n), shape_of(n, n, 16));
    cases.add(fmt::format("decode-{}", n), shape_of(1, n, 16));
    cases.add(fmt::format("chunk-5-of-{}", n), shape_of(5, n, 16));
    AttentionOptions both;
    both.mask = Mask::bidirectional;
    cases.add(fmt::format("bidirectional-{}x40", n), shape_of(n, 40, 16), both);
  }
  if (!cases.quick()) {
    cases.add("decode-5000", shape_of(1, 5000, 64, 2, 1));
    cases.add("causal-1025", shape_of(1025, 1025, 64));
  }
  cases.add("empty-batch", {0, 2, 1, 3, 5, 8, 8});
}

void add_dims(Cases& cases) {
  std::vector<Index> dims{1, 3, 8, 17, 64, 80, 128, 129, 512};
  if (!cases.quick()) {
    dims = {1,  2,  3,  4,  7,   8,   9,   15,  16,  17,  31,  32,  33,  48, 63,
            64, 65, 80, 96, 112, 127, 128, 129, 192, 255, 256, 257, 511, 512};
  }
  for (const Index d : dims) {
    cases.add(fmt::format("dim-{}", d), shape_of(37, 37, d));
    cases.add(fmt::format("decode-dim-{}", d), shape_of(1, 67, d, 2, 1));
    AttentionShape shape = shape_of(19, 41, d);
    shape.value_dim = dims[(static_cast<std::size_t>(d) * 7 + 3) % dims.size()];
    cases.add(fmt::format("dim-{}-value-{}", d, shape.value_dim), shape);
  }
}

void add_heads(Cases& cases) {
  for (const auto& [heads, kv] :
       {std::pair<Index, Index>{2, 1}, {3, 1}, {8, 1}, {4, 2}, {6, 3}, {9, 3}, {5, 5}, {17, 1}}) {
    for (const Index query_len : {Index{1}, Index{4}, Index{50}}) {
      AttentionShape shape = shape_of(query_len, 70, 24, heads, kv);
      shape.batch = 2;
      Case& c = cases.add(fmt::format("heads-{}-kv-{}-queries-{}", heads, kv, query_len), shape);
      // V of kv head g is near 100 g: a wrong head shows whatever the weights are.
      c.fill = [](ProblemData& data) {
        data.fill_gaussian(7);
        const Shape4 shape_v = data.value.view().shape;
        for (Index b = 0; b < shape_v[0]; ++b) {
          for (Index g = 0; g < shape_v[1]; ++g) {
            for (Index j = 0; j < shape_v[2]; ++j) {
              for (Index d = 0; d < shape_v[3]; ++d)
                data.value.set(b, g, j, d, 100.0 * static_cast<double>(g) + 1e-2 * static_cast<double>(d));
            }
          }
        }
      };
    }
  }
  // One thread takes 38 queries of each head, and tiles of 96 rows end amid a head.
  cases.add("tiles-across-heads", shape_of(100, 100, 8, 5, 1)).threads = 1;
}

void add_positions(Cases& cases) {
  for (const Mask mask : {Mask::causal, Mask::bidirectional}) {
    const char* name = mask == Mask::causal ? "causal" : "bidirectional";
    for (const Index offset : {Index{-40}, Index{-5}, Index{-1}, Index{0}, Index{3}, Index{29}, Index{1000},
                               Index{1} << 24, kLargestPosition - 19}) {
      AttentionOptions options;
      options.mask = mask;
      options.query_offset = offset;
      cases.add(fmt::format("{}-offset-{}", name, offset), shape_of(20, 33, 8), options);
    }
  }
}

void add_windows(Cases& cases) {
  std::vector<Index> windows{1, 2, 16, 64, 200};
  if (!cases.quick()) windows = {1, 2, 3, 15, 16, 17, 63, 64, 65, 127, 199, 200, 201, 1000};
  for (const Mask mask : {Mask::causal, Mask::bidirectional}) {
    for (const Index window : windows) {
      AttentionOptions options;
      options.mask = mask;
      options.window = window;
      const char* name = mask == Mask::causal ? "causal" : "bidirectional";
      cases.add(fmt::format("{}-window-{}", name, window), shape_of(200, 200, 16), options);
      cases.add(fmt::format("{}-window-{}-decode", name, window), shape_of(1, 200, 16), options);
    }
  }
}

void add_sinks(Cases& cases) {
  for (const Index sinks : {Index{1}, Index{4}, Index{16}, Index{17}, Index{130}, Index{1000}}) {
    AttentionOptions options;
    options.n_sink = sinks;
    cases.add(fmt::format("sinks-{}", sinks), shape_of(130, 130, 16), options);
    cases.add(fmt::format("sinks-{}-decode", sinks), shape_of(1, 130, 16, 2, 1), options);
    options.window = 20;
    cases.add(fmt::format("sinks-{}-window-20", sinks), shape_of(40, 40, 16), options);
  }
}

void add_strides(Cases& cases) {
  for (const bool heads_inside : {false, true}) {
    for (const Index padding : {Index{0}, Index{3}}) {
      for (const Index misalignment : {Index{0}, Index{1}, Index{9}}) {
        for (const Index query_len : {Index{1}, Index{23}}) {
          AttentionShape shape = shape_of(query_len, 61, 20, 4, 2);
          shape.batch = 2;
          Case& c = cases.add(fmt::format("{}-gap-{}-shift-{}-queries-{}", heads_inside ? "bshd" : "bhsd", padding,
                                          misalignment, query_len),
                              shape);
          c.placement = {heads_inside, padding, misalignment};
        }
      }
    }
  }
  // A window, so that the keys of a chunk do not begin at its first; 7 channels, so that every vector has a tail; 26
  // queries, so that whole blocks and single rows begin beyond 2^31 elements.
  for (const Index query_len : {Index{1}, Index{26}}) {
    for (const bool windowed : {false, true}) {
      AttentionOptions options;
      if (windowed) options.window = 60;
      cases
          .add(fmt::format("far-{}queries-{}", windowed ? "window-60-" : "", query_len), shape_of(query_len, 300, 7),
               options)
          .far = true;
    }
  }
}

void add_lengths(Cases& cases) {
  for (const Mask mask : {Mask::causal, Mask::bidirectional}) {
    for (const bool fixed_offset : {false, true}) {
      AttentionShape shape = shape_of(9, 40, 16, 2, 1);
      shape.batch = 6;
      AttentionOptions options;
      options.mask = mask;
      if (fixed_offset) options.query_offset = 12;
      Case& c = cases.add(fmt::format("{}-{}", mask == Mask::causal ? "causal" : "bidirectional",
                                      fixed_offset ? "offset-12" : "at-the-end"),
                          shape, options);
      c.query_lengths = {9, 0, 3, 9, 1, 7};  // with two heads 4 queries stream, 7 do not
      c.kv_lengths = {40, 40, 0, 1, 33, 5};
    }
  }
}

void add_transforms(Cases& cases) {
  const std::vector<std::pair<std::string, LogitTransform>> transforms{
      {"none", NoTransform{}},
      {"tau-10", ScaleInvariant{}},
      {"tau-0.01", ScaleInvariant{.tau = 0.01}},
      {"tau-1000", ScaleInvariant{.tau = 1000}},
      {"tau-1e30", ScaleInvariant{.tau = 1e30}},
      {"tau-per-head", ScaleInvariant{.tau = {1, 10, 100}}},
      {"alpha-1-beta-1", ScaleInvariant{.alpha = 1, .beta = 1}},
      {"alpha-2-beta-3", ScaleInvariant{.alpha = 2, .beta = 3}},
      {"logn", LogN{}},
      {"logn-per-head", LogN{{0.1, 0.4, 1.5}}},
      {"infoscale", InfoScale{64}},
      {"alibi", Alibi{}},
      {"alibi-per-head", Alibi{{0.5, 0.0, -0.01}}}};
  for (const auto& [name, transform] : transforms) {
    for (const Index query_len : {Index{1}, Index{70}}) {
      AttentionOptions options;
      options.transform = transform;
      cases.add(fmt::format("{}-queries-{}", name, query_len), shape_of(query_len, 70, 16, 3, 1), options);
      if (query_len == 1) continue;
      options.mask = Mask::bidirectional;
      options.window = 30;
      options.softmax_scale = -0.3;
      cases.add(fmt::format("{}-bidirectional-window", name), shape_of(query_len, 70, 16, 3, 3), options);
    }
  }
}

/// Base logits of mean -9 and standard deviation 3, as models without normalised queries and keys have them: the data is
/// such that a missing, doubled or misplaced mean or deviation moves every weight.
void add_calibration(Cases& cases) {
  const Calibration per_head{.mean = {-9, -2.5, 0.5}, .standard_deviation = {3, 1.5, 0.4}};
  const Calibration deviations{.standard_deviation = {3, 1.5, 0.4}};
  struct Row {
    const char* name;
    LogitTransform transform;
    Calibration calibration;
  };
  const Row rows[] = {{"scale-invariant-all-heads", ScaleInvariant{}, {.mean = -9.0, .standard_deviation = 3.0}},
                      {"scale-invariant-per-head", ScaleInvariant{}, per_head},
                      {"scale-invariant-mean", ScaleInvariant{}, {.mean = {-9, -2.5, 0.5}}},
                      {"scale-invariant-deviation", ScaleInvariant{}, deviations},
                      {"tau-per-head", ScaleInvariant{.tau = {1, 10, 100}}, per_head},
                      {"none", NoTransform{}, per_head},
                      {"alibi", Alibi{}, per_head},
                      {"logn", LogN{}, deviations},
                      {"logn-per-head", LogN{{0.1, 0.4, 1.5}}, {.standard_deviation = 0.5}},
                      {"infoscale", InfoScale{64}, deviations}};
  for (const Row& row : rows) {
    for (const Index query_len : {Index{1}, Index{70}}) {
      for (const Index sinks : {Index{0}, Index{2}}) {
        AttentionOptions options;
        options.transform = row.transform;
        options.calibration = row.calibration;
        options.n_sink = sinks;
        cases.add(fmt::format("{}-sinks-{}-queries-{}", row.name, sinks, query_len), shape_of(query_len, 70, 16, 3, 1),
                  options);
      }
    }
  }
}

/// D = 1, q = 1: the keys are the scores.
void add_probe(Cases& cases, const std::string& name, Index n, Index query_len, const LogitTransform& transform,
               const std::function<double(Index j, Index n)>& key,
               const std::function<double(Index j, Index c, Index n)>& value, Index value_dim = 1) {
  AttentionShape shape = shape_of(query_len, n, 1);
  shape.value_dim = value_dim;
  AttentionOptions options;
  options.transform = transform;
  options.softmax_scale = 1;
  Case& c = cases.add(fmt::format("{}-{}x{}", name, query_len, n), shape, options);
  c.fill = [=](ProblemData& data) {
    data.fill([](Index, Index, Index, Index) { return 1.0; }, [=](Index, Index, Index j, Index) { return key(j, n); },
              [=](Index, Index, Index j, Index d) { return value(j, d, n); });
  };
}

/// Logits that jump at the border of a chunk or split, by little or by far more than exp can hold, down or up.
void add_cliffs(Cases& cases) {
  const auto thirds = [](Index j, Index c, Index n) { return j * 3 / n == c ? 1.0 : 0.0; };
  for (const Index border : {Index{256}, Index{1024}}) {
    for (const Index queries : {Index{1}, Index{20}}) {
      for (const double height : {-1000.0, -2.0, 2.0, 1000.0}) {
        add_probe(
            cases, fmt::format("cliff-{}", height), border + 60, queries, NoTransform{},
            [=](Index j, Index) { return j < border ? 0.0 : height; }, thirds, 3);
      }
    }
  }
}

void add_probes(Cases& cases) {
  const LogitTransform tau_1 = ScaleInvariant{.tau = 1};
  const LogitTransform flat = ScaleInvariant{.tau = 1e30};
  const auto position = [](Index j, Index, Index) { return static_cast<double>(j); };
  // One channel for each of keys 0, 1, n/2, n-2, n-1: any of them dropped, doubled or moved shows.
  const auto one_hot = [](Index j, Index c, Index n) {
    const Index at[] = {0, 1, n / 2, n - 2, n - 1};
    return j == at[c] ? 1.0 : 0.0;
  };
  std::vector<Index> sizes{5, 17, 65, 257};
  if (!cases.quick())
    sizes = {1, 2, 3, 4, 5, 15, 16, 17, 31, 33, 63, 64, 65, 95, 96, 97, 127, 129, 255, 257, 300, 513, 1025};
  for (const Index n : sizes) {
    for (const Index queries : {Index{1}, std::min<Index>(n, 40)}) {
      add_probe(
          cases, "h-inputs", n, queries, tau_1, [](Index, Index) { return 0.0; }, position);
      add_probe(
          cases, "flat-one-hot", n, queries, flat, [](Index, Index) { return 0.0; }, one_hot, 5);
      add_probe(
          cases, "keys-1000", n, queries, tau_1, [](Index, Index) { return -1000.0; }, position);
      add_probe(
          cases, "keys-60000", n, queries, tau_1, [](Index, Index) { return -60000.0; }, position);
      add_probe(
          cases, "needle-oldest", n, queries, tau_1, [](Index j, Index) { return j == 0 ? 9.0 : 0.0; }, one_hot, 5);
      add_probe(
          cases, "alternating", n, queries, tau_1, [](Index j, Index) { return j % 2 == 0 ? -5.0 : 1.5; }, one_hot, 5);
      add_probe(
          cases, "rising", n, queries, NoTransform{}, [](Index j, Index) { return 0.125 * static_cast<double>(j); },
          position);
      add_probe(
          cases, "falling", n, queries, NoTransform{}, [](Index j, Index) { return -0.125 * static_cast<double>(j); },
          position);
    }
  }
  add_cliffs(cases);
}

void add_scaled(Cases& cases, const std::string& name, double scale, double key_scale, double value_scale) {
  for (const Index query_len : {Index{1}, Index{45}}) {
    AttentionOptions options;
    options.softmax_scale = scale;
    Case& c = cases.add(fmt::format("{}-queries-{}", name, query_len), shape_of(query_len, 90, 24), options);
    c.fill = [=](ProblemData& data) {
      const auto gaussian = [](std::uint32_t stream, double factor) -> ProblemData::Fill {
        return [random = Random(11, stream), factor](Index, Index h, Index i, Index d) {
          return factor * random.gaussian(static_cast<std::uint64_t>((h * 4096 + i) * 1024 + d));
        };
      };
      data.fill(gaussian(1, 1.0), gaussian(2, key_scale), gaussian(3, value_scale));
    };
  }
}

void add_range(Cases& cases) {
  add_scaled(cases, "logits-of-hundreds", 30, 1, 1);
  add_scaled(cases, "logits-of-ten-thousands", 3000, 1, 1);
  add_scaled(cases, "logits-near-zero", 1e-30, 1, 1);
  add_scaled(cases, "scale-zero", 0, 1, 1);
  add_scaled(cases, "tiny-keys", 1, 1e-6, 1);
  add_scaled(cases, "tiny-values", 0.2, 1, 1e-7);
  add_scaled(cases, "large-values", 0.2, 1, 1e4);
}

/// Several chunks of 256 keys and splits of 1024, for few query rows and for many.
void add_long(Cases& cases) {
  const auto add = [&cases](const char* name, const AttentionOptions& options) {
    for (const auto& [queries, keys] : {std::pair<Index, Index>{1, 2100}, {4, 2100}, {4, 700}, {20, 700}}) {
      cases.add(fmt::format("{}-{}x{}", name, queries, keys), shape_of(queries, keys, 8, 2, 1), options);
    }
  };
  add("plain", {});
  add("sharp", {.softmax_scale = 3});
  add("sinks-300", {.n_sink = 300});
  add("window-10", {.window = 10});
  add("window-187", {.window = 187});  // some of 4 queries before 700 keys see the second chunk
  add("window-250-sinks-530", {.window = 250, .n_sink = 530});
  add("logn-window-300", {.transform = LogN{{0.3, 0.5}}, .window = 300});
  if (!cases.quick()) {
    add("sinks-1500", {.n_sink = 1500});
    add("window-1100", {.window = 1100});
    add("bidirectional-window-400", {.mask = Mask::bidirectional, .window = 400, .query_offset = 500});
    add("offset-520", {.query_offset = 520});
  }
  // Several tiles of an item, some of which see nothing of a chunk that others see.
  cases.add("window-50-1200x1200", shape_of(1200, 1200, 8), {.window = 50});
  // Waves of splits: a sequence that begins in one and ends in the next, one that passes through several.
  for (const auto& [batch, keys] : {std::pair<Index, Index>{6, 2049}, {1, 35000}}) {
    AttentionShape shape = shape_of(1, keys, 4);
    shape.batch = batch;
    cases.add(fmt::format("waves-{}x{}", batch, keys), shape).threads = 1;
  }
}

/// A NaN or an infinity in one key or value: rows that see it and rows that do not.
void add_not_finite(Cases& cases) {
  const auto add = [&cases](double bad, bool in_value, Index at, Index query_len) {
    AttentionOptions options;
    options.window = 50;
    Case& c = cases.add(fmt::format("{}-in-{}-{}-queries-{}", bad, in_value ? "value" : "key", at, query_len),
                        shape_of(query_len, 70, 9, 2, 1), options);
    c.fill = [=](ProblemData& data) {
      data.fill_gaussian(13);
      // Positive queries in channel 2: a key of -infinity there is a weight of 0, one of +infinity has no limit.
      for (Index i = 0; i < query_len; ++i) data.query.set(0, 0, i, 2, 0.5), data.query.set(0, 1, i, 2, 0.25);
      (in_value ? data.value : data.key).set(0, 0, at, 2, bad);
    };
  };
  for (const double bad : {kNaN, kInfinity, -kInfinity}) {
    for (const bool in_value : {false, true}) {
      for (const Index at : {Index{0}, Index{3}, Index{40}, Index{69}}) add(bad, in_value, at, 70);
      // 4 queries see from 17, 18, 19, 20 to 66, 67, 68, 69.
      for (const Index at : {Index{0}, Index{18}, Index{40}, Index{67}, Index{69}}) add(bad, in_value, at, 4);
    }
  }
  // In the second chunk, before items of several tiles.
  for (const bool padded : {false, true}) {
    Case& c = cases.add(padded ? "inf-in-value-310-of-padded-rows" : "inf-in-value-310-of-several-tiles",
                        shape_of(200, 500, 9, 8, 1));
    c.placement.row_padding = padded ? 3 : 0;
    c.fill = [](ProblemData& data) {
      data.fill_gaussian(13);
      data.value.set(0, 0, 310, 2, kInfinity);
    };
  }
}

/// Every buffer against a page that nobody may touch, on either side: a read one byte outside is a crash. Sizes that end
/// within a vector, in each of the ways through a backend.
void add_guards(Cases& cases) {
  for (const Guard guard : {Guard::page_behind, Guard::page_before}) {
    const char* const side = guard == Guard::page_behind ? "behind" : "before";
    const auto add = [&](const std::string& name, const AttentionShape& shape,
                         const AttentionOptions& options = {}) -> Case& {
      Case& c = cases.add(fmt::format("{}-{}", side, name), shape, options);
      c.placement.guard = guard;
      return c;
    };
    for (const Index query_len : {Index{1}, Index{3}, Index{37}}) {
      for (const Index dim : {Index{1}, Index{5}, Index{15}, Index{16}, Index{17}, Index{33}, Index{79}}) {
        AttentionShape shape = shape_of(query_len, 67, dim, 4, 2);
        shape.value_dim = dim == 16 ? 16 : dim % 16 + 2;
        add(fmt::format("dim-{}-queries-{}", dim, query_len), shape);
      }
      for (const Index keys : {Index{0}, Index{1}, Index{257}}) {
        add(fmt::format("keys-{}-queries-{}", keys, query_len), shape_of(query_len, keys, 9));
      }
      for (const bool heads_inside : {false, true}) {
        AttentionShape shape = shape_of(query_len, 35, 19, 2, 1);
        shape.batch = 2;
        Case& c = add(fmt::format("{}-gap-3-queries-{}", heads_inside ? "bshd" : "bhsd", query_len), shape);
        c.placement.heads_inside = heads_inside;
        c.placement.row_padding = 3;
      }
      AttentionShape shape = shape_of(query_len, 41, 7, 2, 2);
      shape.batch = 3;
      AttentionOptions both;
      both.mask = Mask::bidirectional;
      both.window = 9;
      both.n_sink = 3;
      Case& c = add(fmt::format("lengths-queries-{}", query_len), shape, both);
      c.query_lengths = {query_len, 0, 1};
      c.kv_lengths = {41, 41, 30};
    }
    add("decode-1100", shape_of(1, 1100, 11, 3, 1));
  }
}

}  // namespace

std::vector<Case> conformance_cases(bool quick) {
  struct Feature {
    const char* name;
    void (*add)(Cases&);
  };
  constexpr Feature features[] = {{"sizes", add_sizes},           {"dims", add_dims},
                                  {"heads", add_heads},           {"positions", add_positions},
                                  {"windows", add_windows},       {"sinks", add_sinks},
                                  {"strides", add_strides},       {"lengths", add_lengths},
                                  {"transforms", add_transforms}, {"calibration", add_calibration},
                                  {"probes", add_probes},         {"range", add_range},
                                  {"not-finite", add_not_finite}, {"long", add_long},
                                  {"ragged", add_ragged},         {"paged", add_paged},
                                  {"int8", add_int8},             {"guards", add_guards}};
  std::vector<Case> all;
  for (const Feature& feature : features) {
    Cases cases(feature.name, quick);
    feature.add(cases);
    all.insert(all.end(), cases.list.begin(), cases.list.end());
  }
  return all;
}

ProblemData data_of(const Case& test_case, DType dtype) {
  AttentionProblem problem = test_case.problem;
  problem.dtype = dtype;
  ProblemData data(problem, test_case.placement, test_case.batching, test_case.query_lengths, test_case.kv_lengths);
  if (test_case.fill) {
    test_case.fill(data);
  } else {
    std::uint64_t seed = 14695981039346656037u;  // FNV-1a of the name
    for (const char c : test_case.name) seed = (seed ^ static_cast<unsigned char>(c)) * 1099511628211u;
    data.fill_gaussian(seed);
  }
  return data;
}

}  // namespace siattn::verify
