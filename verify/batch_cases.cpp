// SPDX-License-Identifier: Apache-2.0
// Designed cases of ragged, paged and int8 batches.
#include <fmt/format.h>

#include "verify/case_list.hpp"

namespace siattn::verify {
namespace {

/// Sequences of a server's batch: prompts, parts of prompts and single tokens, some without queries or keys, some longer
/// than a chunk, a split or a page; with two heads a kv head 4 queries stream, 5 do not.
Case& add_batch(Cases& cases, const std::string& name, const AttentionOptions& options, const Batching& batching,
                bool long_keys = true) {
  AttentionShape shape = shape_of(37, long_keys ? 1100 : 70, 20, 4, 2);
  shape.value_dim = 12;
  shape.batch = 9;
  Case& c = cases.add(name, shape, options);
  c.query_lengths = {1, 9, 0, 1, 37, 4, 1, 5, 1};
  c.kv_lengths = {70, 9, 16, 0, 40, 64, 1, 5, 33};
  if (long_keys) c.kv_lengths[0] = 1100;
  if (long_keys) c.kv_lengths[4] = 300;
  c.batching = batching;
  return c;
}

/// The options that a batch has to get right for each sequence by itself.
struct BatchOptions {
  const char* name;
  AttentionOptions options;
};
std::vector<BatchOptions> batch_options() {
  AttentionOptions windowed;
  windowed.window = 11;
  windowed.n_sink = 2;
  AttentionOptions both;
  both.mask = Mask::bidirectional;
  AttentionOptions logn;
  logn.transform = LogN{};
  AttentionOptions offset;
  offset.query_offset = 3;
  return {{"causal", {}}, {"window", windowed}, {"bidirectional", both}, {"logn", logn}, {"offset", offset}};
}

}  // namespace

void add_ragged(Cases& cases) {
  for (const auto& [name, options] : batch_options()) {
    add_batch(cases, fmt::format("{}-queries-and-keys", name), options, {.ragged_queries = true, .ragged_keys = true});
    add_batch(cases, fmt::format("{}-queries", name), options, {.ragged_queries = true, .spare_tokens = 3});
    add_batch(cases, fmt::format("{}-keys", name), options, {.ragged_keys = true, .spare_tokens = 5});
  }
  Case& offsets = add_batch(cases, "own-offsets", {}, {.ragged_queries = true, .ragged_keys = true});
  offsets.batching.query_offsets = {1000, 0, 5, 7, 12, 90, -3, 2, 1063};
  Case& inside = add_batch(cases, "heads-inside", {}, {.ragged_queries = true, .ragged_keys = true});
  inside.placement = {.heads_inside = true, .row_padding = 3, .misalignment = 1};
  for (const Guard guard : {Guard::page_behind, Guard::page_before}) {
    Case& c = add_batch(cases, guard == Guard::page_behind ? "guard-behind" : "guard-before", {},
                        {.ragged_queries = true, .ragged_keys = true}, false);
    c.placement.guard = guard;
  }
  // Empty sequences between others, exact answers.
  AttentionShape shape = shape_of(1, 5, 64, 9, 3);
  shape.batch = 4;
  AttentionOptions exact;
  exact.transform = ScaleInvariant{.tau = 1};
  Case& empty = cases.add("empty-sequences", shape, exact);
  empty.query_lengths = {0, 1, 0, 1};
  empty.kv_lengths = {0, 3, 0, 5};
  empty.batching = {.ragged_queries = true, .ragged_keys = true};
  empty.fill = [](ProblemData& data) { data.fill_h_inputs(); };
}

void add_paged(Cases& cases) {
  std::vector<Index> sizes{1, 4, 16, 256};
  if (!cases.quick()) sizes = {1, 2, 4, 8, 16, 32, 64, 128, 256, 2048};
  for (const Index page_size : sizes) {
    for (const bool ragged : {false, true}) {
      const Batching batching{.ragged_queries = ragged, .page_size = page_size};
      add_batch(cases, fmt::format("{}page-{}", ragged ? "ragged-" : "", page_size), {}, batching);
    }
  }
  for (const auto& [name, options] : batch_options()) {
    add_batch(cases, fmt::format("{}-page-16", name), options, {.ragged_queries = true, .page_size = 16});
  }
  Case& shared = add_batch(cases, "shared", {}, {.ragged_queries = true, .page_size = 4, .shared_pages = true});
  shared.kv_lengths = {70, 9, 16, 8, 40, 64, 13, 12, 33};
  for (const bool heads_inside : {false, true}) {
    Case& c = add_batch(cases, heads_inside ? "heads-inside" : "gap", {}, {.ragged_queries = true, .page_size = 16});
    c.placement = {.heads_inside = heads_inside, .row_padding = 3, .misalignment = 1};
  }
  for (const Guard guard : {Guard::page_behind, Guard::page_before}) {
    Case& c = add_batch(cases, guard == Guard::page_behind ? "guard-behind" : "guard-before", {},
                        {.ragged_queries = true, .page_size = 8}, false);
    c.placement.guard = guard;
  }
  // Address space by the hundred gigabytes, for which an emulator of another processor keeps tables.
  if (!cases.quick()) add_batch(cases, "far", {}, {.ragged_queries = true, .page_size = 16}, false).far = true;
}

void add_int8(Cases& cases) {
  for (const bool paged : {false, true}) {
    Case& c = add_batch(cases, paged ? "paged-heads-inside-gap" : "heads-inside-gap", {},
                        {.ragged_queries = true, .page_size = paged ? 16 : 0});
    c.problem.kv_dtype = DType::int8;
    c.placement = {.heads_inside = true, .row_padding = 3, .misalignment = 1};
  }
  for (const auto& [name, options] : batch_options()) {
    Case& c = add_batch(cases, fmt::format("{}-page-16", name), options, {.ragged_queries = true, .page_size = 16});
    c.problem.kv_dtype = DType::int8;
  }
  for (const Index query_len : {Index{1}, Index{3}, Index{40}}) {
    for (const Index dim : {Index{1}, Index{8}, Index{17}, Index{64}, Index{128}}) {
      AttentionShape shape = shape_of(query_len, 300, dim, 2, 1);
      shape.value_dim = dim + 3;
      cases.add(fmt::format("dim-{}-queries-{}", dim, query_len), shape).problem.kv_dtype = DType::int8;
    }
  }
  for (const Guard guard : {Guard::page_behind, Guard::page_before}) {
    for (const bool paged : {false, true}) {
      const char* const side = guard == Guard::page_behind ? "guard-behind" : "guard-before";
      Case& c = add_batch(cases, fmt::format("{}{}", paged ? "paged-" : "", side), {},
                          {.ragged_queries = true, .page_size = paged ? 8 : 0}, false);
      c.problem.kv_dtype = DType::int8;
      c.placement.guard = guard;
    }
  }
}

}  // namespace siattn::verify
