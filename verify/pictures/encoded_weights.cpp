// SPDX-License-Identifier: Apache-2.0
// Attention weight by distance for transforms on top of position encodings, on random queries and keys.
#include <siattn/position_encoding.hpp>

#include <algorithm>
#include <numeric>
#include <stdexcept>

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

/// 0, 1, 2, 3, .., so many or fewer a decade.
std::vector<std::size_t> distance_edges(int per_decade) {
  std::vector<std::size_t> edges = {0};
  for (int k = 0; edges.back() < kKeys; ++k) {
    const std::int64_t edge = std::llround(std::pow(10, static_cast<double>(k) / per_decade));
    if (static_cast<std::size_t>(edge) > edges.back()) edges.push_back(static_cast<std::size_t>(std::min(kKeys, edge)));
  }
  return edges;
}

/// Rows of kHeadDim, the first of which stands at first_position.
std::vector<double> encode(const PositionEncoding& encoding, const std::vector<double>& rows,
                           std::int64_t first_position) {
  std::vector<double> out(rows.size());
  const Shape4 shape = {1, 1, static_cast<std::int64_t>(rows.size()) / kHeadDim, kHeadDim};
  const Status status = apply(encoding, {rows.data(), shape}, {out.data(), shape}, first_position);
  if (!status) throw std::runtime_error(status.message());
  return out;
}

/// Scores of the one query, at the end, by distance.
std::vector<double> scores(const std::vector<double>& query, const std::vector<double>& keys) {
  std::vector<double> list;
  for (std::int64_t t = 0; t < kKeys; ++t) {
    const std::span<const double> key(&keys[static_cast<std::size_t>((kKeys - 1 - t) * kHeadDim)], kHeadDim);
    list.push_back(reference::score<double>(query, key, reference::default_softmax_scale<double>(kHeadDim)));
  }
  return list;
}

/// kCommon everywhere, and standard normals of one repetition.
std::vector<double> random_rows(const Random& random, std::int64_t rows, std::uint64_t first) {
  std::vector<double> list(static_cast<std::size_t>(rows * kHeadDim));
  for (std::size_t k = 0; k < list.size(); k += 2) {
    const auto pair = random.gaussian_pair(first + k / 2);
    list[k] = kCommon + pair[0];
    list[k + 1] = kCommon + pair[1];
  }
  return list;
}

/// Mean weight of a token by interval of distances, for each method. Given the query, scores are independent normal
/// with the means of `common` and one variance: weights are estimated by the same tilt as in IidProfile.
std::vector<std::vector<double>> mean_weights(const std::vector<double>& base, const std::vector<double>& common,
                                              double variance, const std::vector<ProfileMethod>& methods,
                                              const std::vector<std::size_t>& edges) {
  std::vector<std::vector<double>> result;
  for (const ProfileMethod& method : methods) {
    std::vector<double> weights, means, tilts;
    double z = 0;
    for (std::size_t t = 0; t < base.size(); ++t) {
      const AffineMap map = affine_map(method.transform, static_cast<double>(t), kKeys);
      weights.push_back(std::exp(map.a * base[t] + map.m));
      means.push_back(reference::mean_exp(map.a * common[t] + map.m, map.a * std::sqrt(variance)));
      tilts.push_back(std::exp(map.a * map.a * variance));
      z += weights.back();
    }
    result.emplace_back();
    for (std::size_t i = 0; i + 1 < edges.size(); ++i) {
      double sum = 0;
      for (std::size_t t = edges[i]; t < edges[i + 1]; ++t)
        sum += means[t] / (weights[t] * tilts[t] + (z - weights[t]));
      result.back().push_back(sum / static_cast<double>(edges[i + 1] - edges[i]));
    }
  }
  return result;
}

/// [encoding][method][interval] of one repetition.
std::vector<std::vector<std::vector<double>>> draw(const PictureInputs& inputs, std::size_t repetition,
                                                   const std::vector<std::vector<double>>& common_keys,
                                                   const std::vector<std::size_t>& edges) {
  const Random random(inputs.options.seed, kStream);
  const std::uint64_t first = repetition * static_cast<std::uint64_t>((kKeys + 1) * kHeadDim / 2);
  const std::vector<double> keys = random_rows(random, kKeys, first);
  const std::vector<double> query = random_rows(random, 1, first + static_cast<std::uint64_t>(kKeys * kHeadDim / 2));
  double variance = 0;
  for (const double x : query) variance += x * x / kHeadDim;
  std::vector<std::vector<std::vector<double>>> result;
  const auto list = encodings();
  for (std::size_t e = 0; e < list.size(); ++e) {
    const std::vector<double> turned = encode(list[e].encoding, query, kKeys - 1);
    result.push_back(mean_weights(scores(turned, encode(list[e].encoding, keys, 0)), scores(turned, common_keys[e]),
                                  variance, inputs.iid.methods, edges));
  }
  return result;
}

/// By distance and encoding: the score of the shared parts alone, which is the mean of the scores.
Panel mean_logit_panel(const std::vector<std::vector<double>>& common_keys) {
  Panel panel{"Mean base logit", {"distance t (tokens)", true}, {"nats"}, {}};
  const auto edges = distance_edges(12);
  const auto list = encodings();
  for (std::size_t e = 0; e < list.size(); ++e) {
    const std::vector<double> query(kHeadDim, kCommon);
    const std::vector<double> mean = scores(encode(list[e].encoding, query, kKeys - 1), common_keys[e]);
    Series series{.name = list[e].name, .draw = Draw::line_markers, .style = list[e].style};
    for (std::size_t i = 1; i + 1 < edges.size(); ++i) {
      const auto first = static_cast<double>(edges[i]), last = static_cast<double>(edges[i + 1]);
      series.x.push_back(log_middle(first, last));
      series.y.push_back(std::accumulate(&mean[edges[i]], mean.data() + edges[i + 1], 0.0) / (last - first));
    }
    panel.series.push_back(std::move(series));
  }
  return panel;
}

/// The mean weight of a token, a panel for each encoding.
std::vector<Panel> weight_panels(const PictureInputs& inputs, const std::vector<std::vector<double>>& common_keys,
                                 std::size_t repetitions) {
  const auto edges = distance_edges(6);
  std::vector<std::vector<std::vector<std::vector<double>>>> drawn(repetitions);
#pragma omp parallel for schedule(dynamic)
  for (std::size_t r = 0; r < repetitions; ++r) drawn[r] = draw(inputs, r, common_keys, edges);
  std::vector<Panel> panels;
  const auto list = encodings();
  for (std::size_t e = 0; e < list.size(); ++e) {
    Panel panel{list[e].name, {"distance t (tokens)", true}, {"mean weight of a token", true, 1e-8, 1}, {}};
    for (std::size_t k = 0; k < inputs.iid.methods.size(); ++k) {
      const ProfileMethod& method = inputs.iid.methods[k];
      Series series{.name = method.name, .draw = Draw::line_markers, .style = method.style};
      for (std::size_t i = 1; i + 1 < edges.size(); ++i) {
        Moments moments;
        for (const auto& one : drawn) moments.add(one[e][k][i]);
        const double t = log_middle(static_cast<double>(edges[i]), static_cast<double>(edges[i + 1]));
        add_log_point(series, t, summary_of(moments).mean);
      }
      panel.series.push_back(std::move(series));
    }
    panels.push_back(std::move(panel));
  }
  return panels;
}

Picture make(const PictureInputs& inputs) {
  const std::size_t repetitions = inputs.options.full ? 200 : 20;
  std::vector<std::vector<double>> common_keys;
  for (const Encoded& one : encodings()) {
    common_keys.push_back(encode(one.encoding, std::vector<double>(kKeys * kHeadDim, kCommon), 0));
  }
  std::vector<Panel> panels = weight_panels(inputs, common_keys, repetitions);
  panels.insert(panels.begin(), mean_logit_panel(common_keys));
  return {
      .id = {},
      .plot = {"Attention weight over distance with position encodings",
               "The mean base logit by distance for NoPE, RoPE and p-RoPE, and for each of them the mean weight of a "
               "token by distance under four transforms.",
               std::move(panels), 2},
      .caption =
          "Queries and keys share a direction (0.5 in every dimension), so that the mean base logit is 2 before "
          "encoding. Were they isotropic, turning them would change nothing in law. RoPE turns the shared part away, "
          "some more with each decade of distance; p-RoPE, which leaves half of the pairs alone, keeps half of it at "
          "any distance. Eq. 16 takes the mean to be 0: where it stays at 2 (NoPE), the factor aₜ lifts distant tokens "
          "and their weight hardly falls; where it goes (RoPE), the weight falls as 1/t.",
      .method = fmt::format(
          "Mean base logits: from the library's encodings, nothing sampled. Weights: {} keys, head_dim {}, a new query "
          "and new keys in each repetition, estimated with the tilt of the Gaussian. p-RoPE in the paper's form, "
          "effective base 1024. {}",
          kKeys, kHeadDim, sampled_words(repetitions, inputs.options.seed))};
}

}  // namespace

constinit const PictureMaker kEncodedWeightsPicture = {"encodings", "Attention weight with position encodings", make};

}  // namespace siattn::verify
