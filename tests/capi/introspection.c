/* SPDX-License-Identifier: Apache-2.0 */
/* Introspection from C: what it says of chosen rows is what attention made of them. */
#include <math.h>

#include "tests/capi/check.h"

enum { BATCH = 2, HEADS = 4, KV_HEADS = 2, QUERIES = 5, KEYS = 30, DIM = 6, ROWS = 2, SINKS = 2 };

static float query[BATCH][HEADS][QUERIES][DIM], key[BATCH][KV_HEADS][KEYS][DIM], value[BATCH][KV_HEADS][KEYS][1];
static float out[BATCH][HEADS][QUERIES][1], lse[BATCH][HEADS][QUERIES];

static void fill(float* list, size_t count) {
  static unsigned state = 7;
  for (size_t k = 0; k < count; ++k) {
    state = state * 1664525U + 1013904223U;
    list[k] = (float)(state >> 8) / (1 << 22) - 2;
  }
}

static siattn_tensor tensor_of(void* data, int64_t batch, int64_t heads, int64_t len, int64_t dim) {
  const siattn_tensor tensor = {.data = data, .dtype = SIATTN_F32, .shape = {batch, heads, len, dim}};
  return tensor;
}

int main(void) {
  fill(&query[0][0][0][0], sizeof query / sizeof(float));
  fill(&key[0][0][0][0], sizeof key / sizeof(float));
  fill(&value[0][0][0][0], sizeof value / sizeof(float));
  siattn_tensors tensors = SIATTN_INIT(siattn_tensors);
  tensors.query = tensor_of(query, BATCH, HEADS, QUERIES, DIM);
  tensors.key = tensor_of(key, BATCH, KV_HEADS, KEYS, DIM);
  tensors.value = tensor_of(value, BATCH, KV_HEADS, KEYS, 1);
  tensors.out = tensor_of(out, BATCH, HEADS, QUERIES, 1);
  tensors.lse = tensor_of(lse, BATCH, HEADS, QUERIES, 1);
  siattn_problem problem = SIATTN_INIT(siattn_problem);
  problem.n_sink = SINKS;
  EXPECT_OK(siattn_attention(&tensors, &problem, NULL, &message));

  const siattn_query_index rows[ROWS] = {{1, 3, 2}, {0, 1, 4}};
  siattn_row_summary summaries[ROWS];
  double logits[ROWS][KEYS], weights[ROWS][KEYS];
  siattn_introspection wanted = SIATTN_INIT(siattn_introspection);
  wanted.rows = rows;
  wanted.row_count = ROWS;
  wanted.summaries = summaries;
  wanted.logits = tensor_of(logits, 1, 1, ROWS, KEYS);
  wanted.weights = tensor_of(weights, 1, 1, ROWS, KEYS);
  wanted.logits.dtype = wanted.weights.dtype = SIATTN_F64;
  EXPECT_OK(siattn_introspect(&tensors, &problem, &wanted, 0, &message));

  for (int r = 0; r < ROWS; ++r) {
    const siattn_query_index row = rows[r];
    const int position = KEYS - QUERIES + (int)row.query;
    const siattn_row_summary* got = &summaries[r];
    double mean = 0, sinks = 0, near = 0, entropy = 0, largest = -INFINITY;
    for (int j = 0; j <= position; ++j) {
      CHECK(fabs(exp(logits[r][j] - got->lse) - weights[r][j]) < 1e-14);
      mean += weights[r][j] * value[row.sequence][row.head / (HEADS / KV_HEADS)][j][0];
      entropy -= weights[r][j] * log(weights[r][j]);
      largest = fmax(largest, logits[r][j]);
      if (j < SINKS) sinks += weights[r][j];
      if (j >= position - 9 && j < position) near += weights[r][j];
    }
    CHECK(fabs(mean - out[row.sequence][row.head][row.query][0]) < 1e-5);
    CHECK(fabs(got->lse - lse[row.sequence][row.head][row.query]) < 1e-5);
    CHECK(got->keys == position + 1);
    CHECK(fabs(got->max_logit - largest) < 1e-12);
    CHECK(fabs(got->entropy - entropy) < 1e-12);
    CHECK(fabs(got->sink_mass - sinks) < 1e-14);
    CHECK(fabs(got->decades[1].mass - near) < 1e-14 && got->decades[1].entropy > 0);
    CHECK(got->decades[0].keys == 1 && got->decades[1].keys == 9 && got->decades[3].keys == 0);
    CHECK(fabs(got->decades[0].mass - weights[r][position]) < 1e-14);
  }

  wanted.row_count = -1;
  EXPECT_INVALID("row_count = -1", siattn_introspect(&tensors, &problem, &wanted, 0, &message));
  wanted.row_count = ROWS;
  wanted.rows = NULL;
  EXPECT_INVALID("rows is null", siattn_introspect(&tensors, &problem, &wanted, 0, &message));
  const siattn_query_index far[ROWS] = {{0, 0, 0}, {0, HEADS, 0}};
  wanted.rows = far;
  summaries[0].keys = -7;
  EXPECT_INVALID("rows[1].head = 4", siattn_introspect(&tensors, &problem, &wanted, 0, &message));
  CHECK(summaries[0].keys == -7);
  wanted.rows = rows;
  EXPECT_INVALID("threads = -1", siattn_introspect(&tensors, &problem, &wanted, -1, &message));
  wanted.struct_size = 8;
  EXPECT_INVALID("introspection.struct_size = 8", siattn_introspect(&tensors, &problem, &wanted, 0, &message));
  EXPECT_INVALID("introspection is null", siattn_introspect(&tensors, &problem, NULL, 0, &message));
  return finish();
}
