/* SPDX-License-Identifier: Apache-2.0 */
/* siattn_introspect: every member of what goes in and comes out, against numbers that are known. */
#include <math.h>

#include "tests/capi/check.h"

enum { QUERIES = 3, KEYS = 12, WIDTH = 13 };

/* Two heads; scores are 0, so that L = m_t = -2 log(1 + t) and weights are 1 / (1 + t)^2 over their sum. */
static float query[2][QUERIES][1], key[1][KEYS][1];
static double logits[2][WIDTH];
static float weights[2][WIDTH];
static siattn_row_summary summaries[2];

static siattn_tensor tensor_of(void* data, siattn_dtype dtype, int64_t heads, int64_t len, int64_t dim) {
  const siattn_tensor tensor = {.data = data, .dtype = dtype, .shape = {1, heads, len, dim}};
  return tensor;
}

static int near(double a, double b) { return fabs(a - b) < 1e-12; }

int main(void) {
  const double tau = 1;
  const siattn_query_index rows[2] = {{0, 1, 2}, {0, 0, 0}}; /* positions 11 and 9 */
  siattn_tensors tensors = SIATTN_INIT(siattn_tensors);
  tensors.query = tensor_of(query, SIATTN_F32, 2, QUERIES, 1);
  tensors.key = tensor_of(key, SIATTN_F32, 1, KEYS, 1);
  siattn_problem problem = SIATTN_INIT(siattn_problem);
  problem.tau = (siattn_per_head){&tau, 1};
  problem.n_sink = 1;
  siattn_introspection outputs = SIATTN_INIT(siattn_introspection);
  outputs.summaries = summaries;
  outputs.logits = tensor_of(logits, SIATTN_F64, 1, 2, WIDTH);
  outputs.weights = tensor_of(weights, SIATTN_F32, 1, 2, WIDTH);
  EXPECT_OK(siattn_introspect(&tensors, &problem, rows, 2, &outputs, 1, &message));
  for (int r = 0; r < 2; ++r) {
    const int position = 9 + (int)rows[r].query;
    double z = 1, decade[2] = {0, 0}, of_decade = 0, entropy = 0; /* the sink keeps L = S = 0: weight 1 */
    for (int j = 1; j <= position; ++j) {
      const double w = pow(1 + position - j, -2);
      z += w;
      if (position - j < 10) decade[position != j] += w;
    }
    for (int j = 0; j < WIDTH; ++j) {
      const double w = j == 0 ? 1 : pow(1 + position - j, -2);
      const int seen = j <= position;
      CHECK(seen ? near(logits[r][j], log(w)) : logits[r][j] == -INFINITY);
      CHECK(fabs(weights[r][j] - (seen ? w / z : 0)) < 1e-7);
      if (!seen) continue;
      entropy -= w / z * log(w / z);
      if (j > 0 && position - j > 0 && position - j < 10) of_decade -= w / decade[1] * log(w / decade[1]);
    }
    CHECK(summaries[r].keys == position + 1 && summaries[r].max_logit == 0 && near(summaries[r].lse, log(z)));
    CHECK(near(summaries[r].entropy, entropy) && near(summaries[r].sink_mass, 1 / z));
    CHECK(summaries[r].decades[0].keys == 1 && near(summaries[r].decades[0].mass, decade[0] / z));
    CHECK(summaries[r].decades[1].keys == (position < 10 ? position - 1 : 9));
    CHECK(near(summaries[r].decades[1].mass, decade[1] / z) && near(summaries[r].decades[1].entropy, of_decade));
    CHECK(summaries[r].decades[2].keys == (position > 10 ? position - 10 : 0));
  }

  /* One output alone, and none of the options. */
  outputs.summaries = NULL;
  outputs.logits = (siattn_tensor){0};
  EXPECT_OK(siattn_introspect(&tensors, NULL, rows, 2, &outputs, 0, &message));
  CHECK(fabs(weights[1][9] / weights[1][8] - pow(1.1, 2)) < 1e-6);

  EXPECT_INVALID("weights has shape", siattn_introspect(&tensors, NULL, rows, 1, &outputs, 0, &message));
  EXPECT_INVALID("rows is null", siattn_introspect(&tensors, NULL, NULL, 2, &outputs, 0, &message));
  EXPECT_INVALID("count = -1", siattn_introspect(&tensors, NULL, rows, -1, &outputs, 0, &message));
  EXPECT_INVALID("introspection is null", siattn_introspect(&tensors, NULL, rows, 2, NULL, 0, &message));
  EXPECT_INVALID("tensors is null", siattn_introspect(NULL, NULL, rows, 2, &outputs, 0, &message));
  EXPECT_INVALID("threads = -1", siattn_introspect(&tensors, NULL, rows, 2, &outputs, -1, &message));
  outputs.struct_size = 8;
  EXPECT_INVALID("introspection.struct_size = 8", siattn_introspect(&tensors, NULL, rows, 2, &outputs, 0, &message));
  const siattn_query_index none = {0, 2, 0};
  outputs.struct_size = sizeof outputs;
  outputs.weights.shape[2] = 1;
  EXPECT_INVALID("rows[0].head = 2", siattn_introspect(&tensors, NULL, &none, 1, &outputs, 0, &message));
  return finish();
}
