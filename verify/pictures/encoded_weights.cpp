// SPDX-License-Identifier: Apache-2.0
// Attention weight by distance for transforms on top of position encodings, on random queries and keys.
#include <siattn/position_encoding.hpp>

#include "reference/equations.hpp"
#include "verify/pictures/list.hpp"
#include "verify/pictures/support.hpp"
#include "verify/random.hpp"

namespace siattn::verify {
namespace {

constexpr std::int64_t kKeys = 16384;
constexpr std::int64_t kHeadDim = 64;
constexpr double kCommon = 0.5;  // in every dimension of query and key: their scores have mean 64 / 8 * 0.25 = 2
constexpr std::uint32_t kStream = 0x50494380;

struct Encoded {
  std::string name;
  PositionEncoding encoding;
  int style;
};

std::vector<Encoded> encodings() {
  return {{"NoPE", NoEncoding{}, 4}, {"RoPE, base 10⁴", Rope{}, 5}, {"p-RoPE, half the pairs", HalfTruncatedRope{}, 6}};
}

/// Distances 0, [1, 2), [2, 3), [3, 4), .. four or so a decade.
std::vector<std::int64_t> distance_edges() {
  std::vector<std::int64_t> edges = {0};
  for (int k = 0; edges.back() < kKeys; ++k) {
    const std::int64_t edge = std::min(kKeys, std::int64_t{std::llround(std::pow(10, k / 6.0))});
    if (edge > edges.back()) edges.push_back(edge);
  }
  return edges;
}

/// The base logits by distance of one random query, for one encoding after the other.
std::vector<std::vector<double>> base_logits(std::uint64_t seed, std::size_t repetition) {
  const Random random(seed, kStream);
  std::vector<double> key(kKeys * kHeadDim), query(kHeadDim);
  const std::uint64_t first = repetition * (key.size() + query.size()) / 2;
  const auto fill = [&](std::vector<double>& list, std::uint64_t index) {
    for (std::size_t k = 0; k < list.size(); k += 2) {
      const auto pair = random.gaussian_pair(index + k / 2);
      list[k] = kCommon + pair[0];
      list[k + 1] = kCommon + pair[1];
    }
  };
  fill(key, first);
  fill(query, first + key.size() / 2);
  std::vector<std::vector<double>> logits;
  std::vector<double> turned_key(key.size()), turned_query(query.size());
  for (const Encoded& one : encodings()) {
    const auto turn = [&](const std::vector<double>& in, std::vector<double>& out, std::int64_t position) {
      const auto tokens = static_cast<std::int64_t>(in.size()) / kHeadDim;
      const Status status =
          apply(one.encoding, {in.data(), {1, 1, tokens, kHeadDim}}, {out.data(), {1, 1, tokens, kHeadDim}}, position);
      if (!status) throw std::runtime_error(status.message());
    };
    turn(key, turned_key, 0);
    turn(query, turned_query, kKeys - 1);
    logits.emplace_back();
    for (std::int64_t t = 0; t < kKeys; ++t) {
      const std::span<const double> at(&turned_key[static_cast<std::size_t>((kKeys - 1 - t) * kHeadDim)], kHeadDim);
      logits.back().push_back(
          reference::score<double>(turned_query, at, reference::default_softmax_scale<double>(kHeadDim)));
    }
  }
  return logits;
}

/// Means over intervals of distances, of one repetition: base logits, then the weights of each method.
std::vector<std::vector<double>> interval_means(const std::vector<double>& base,
                                                const std::vector<ProfileMethod>& methods,
                                                const std::vector<std::int64_t>& edges) {
  const auto means = [&](const std::vector<double>& values) {
    std::vector<double> list;
    for (std::size_t k = 0; k + 1 < edges.size(); ++k) {
      double sum = 0;
      for (std::int64_t t = edges[k]; t < edges[k + 1]; ++t) sum += values[static_cast<std::size_t>(t)];
      list.push_back(sum / static_cast<double>(edges[k + 1] - edges[k]));
    }
    return list;
  };
  std::vector<std::vector<double>> result = {means(base)};
  for (const ProfileMethod& method : methods) {
    std::vector<double> weights;
    double z = 0;
    for (std::int64_t t = 0; t < kKeys; ++t) {
      const AffineMap map = affine_map(method.transform, static_cast<double>(t), kKeys);
      weights.push_back(std::exp(map.a * base[static_cast<std::size_t>(t)] + map.m));
      z += weights.back();
    }
    for (double& weight : weights) weight /= z;
    result.push_back(means(weights));
  }
  return result;
}

Picture make(const PictureInputs& inputs) {
  const std::size_t repetitions = inputs.options.full ? 200 : 20;
  const auto edges = distance_edges();
  const std::vector<ProfileMethod>& methods = inputs.iid.methods;
  const auto encoded = encodings();
  // [repetition][encoding][base logits, then methods][interval]
  std::vector<std::vector<std::vector<std::vector<double>>>> drawn(repetitions);
#pragma omp parallel for schedule(dynamic)
  for (std::size_t r = 0; r < repetitions; ++r) {
    for (const auto& base : base_logits(inputs.options.seed, r))
      drawn[r].push_back(interval_means(base, methods, edges));
  }
  const auto series_of = [&](Series series, std::size_t encoding, std::size_t row) {
    for (std::size_t i = 1; i + 1 < edges.size(); ++i) {
      std::vector<RangeSample> samples;  // its estimate of a mean serves here as well
      for (const auto& one : drawn) samples.push_back({one[encoding][row][i], 0});
      add_point(series, log_middle(static_cast<double>(edges[i]), static_cast<double>(edges[i + 1])),
                mean_total(samples));
    }
    return series;
  };
  const Axis distance{"distance t (tokens)", true};
  Plot plot{"Attention weight over distance with position encodings",
            "The mean base logit by distance for NoPE, RoPE and p-RoPE, and for each of them the mean weight of a "
            "token by distance under four transforms.",
            {{"Mean base logit", distance, {"nats", false}, {}}},
            2};
  for (std::size_t e = 0; e < encoded.size(); ++e) {
    plot.panels.front().series.push_back(
        series_of({.name = encoded[e].name, .draw = Draw::line_markers, .style = encoded[e].style}, e, 0));
    Panel panel{encoded[e].name, distance, {"mean weight of a token", true, 1e-8, 1}, {}};
    for (std::size_t k = 0; k < methods.size(); ++k) {
      panel.series.push_back(
          series_of({.name = methods[k].name, .draw = Draw::line, .style = methods[k].style}, e, k + 1));
    }
    plot.panels.push_back(std::move(panel));
  }
  return {.id = {},
          .plot = std::move(plot),
          .caption =
              "Queries and keys share a direction (0.5 in every dimension), so the mean base logit is 2 before "
              "encoding. Were they "
              "isotropic, turning them would change nothing in law. RoPE turns the shared part away within some "
              "hundred tokens; p-RoPE, with "
              "half of the pairs unturned, keeps half of it at any distance. Weights bend with that mean, and the "
              "transform's own "
              "shape, level or 1/t, comes on top.",
          .method = fmt::format("{} keys, head_dim {}, a new query and new keys in each repetition. p-RoPE in the "
                                "paper's form, effective base 1024. {}",
                                kKeys, kHeadDim, sampled_words(repetitions, inputs.options.seed))};
}

}  // namespace

constinit const PictureMaker kEncodedWeights = {"encodings", "Attention weight with position encodings", make};

}  // namespace siattn::verify
