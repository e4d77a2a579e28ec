/* SPDX-License-Identifier: Apache-2.0 */
/* Every member of a descriptor gets to where it counts: seen from C, against loops written here. The reference backend
 * computes in float64, so that a wrong parameter cannot hide in rounding. */
#include <math.h>
#include <stdlib.h>

#include "tests/capi/check.h"

enum { BATCH = 2, HEADS = 4, KV_HEADS = 2, QUERIES = 5, KEYS = 9, DIM = 6, VALUES = 3 };

static double query[BATCH][HEADS][QUERIES][DIM], key[BATCH][KV_HEADS][KEYS][DIM], value[BATCH][KV_HEADS][KEYS][VALUES];
static double out[BATCH][HEADS][QUERIES][VALUES], lse[BATCH][HEADS][QUERIES];

static void fill(double* list, size_t count) {
  static unsigned state = 7;
  for (size_t k = 0; k < count; ++k) {
    state = state * 1664525U + 1013904223U;
    list[k] = (double)(state >> 8) / (1 << 22) - 2;
  }
}

static siattn_tensor tensor_of(void* data, siattn_dtype dtype, int64_t batch, int64_t heads, int64_t len, int64_t dim) {
  const siattn_tensor tensor = {.data = data, .dtype = dtype, .shape = {batch, heads, len, dim}};
  return tensor;
}

static siattn_tensors good_tensors(void) {
  siattn_tensors tensors = SIATTN_INIT(siattn_tensors);
  tensors.query = tensor_of(query, SIATTN_F64, BATCH, HEADS, QUERIES, DIM);
  tensors.key = tensor_of(key, SIATTN_F64, BATCH, KV_HEADS, KEYS, DIM);
  tensors.value = tensor_of(value, SIATTN_F64, BATCH, KV_HEADS, KEYS, VALUES);
  tensors.out = tensor_of(out, SIATTN_F64, BATCH, HEADS, QUERIES, VALUES);
  tensors.lse = tensor_of(lse, SIATTN_F64, BATCH, HEADS, QUERIES, 1);
  return tensors;
}

static double at(siattn_per_head list, int head, double otherwise) {
  return list.count == 0 ? otherwise : list.values[list.count == 1 ? 0 : head];
}

/* The logit of a key at distance t, of n keys that the query sees. */
static double logit(const siattn_problem* p, int h, double score, double t, double n) {
  const double dim = DIM, root_e = exp(0.5);
  score = (score - at(p->calibration_mean, h, 0)) / at(p->calibration_standard_deviation, h, 1);
  switch (p->transform) {
    case SIATTN_SCALE_INVARIANT: {
      const double alpha = p->alpha != 0 ? p->alpha : root_e, beta = p->beta != 0 ? p->beta : root_e;
      const double a2 = 2 * (log(t / at(p->tau, h, 10) + 1) - log(alpha) + beta / alpha);
      return sqrt(a2) * score - a2 + beta / alpha;
    }
    case SIATTN_LOGN: return at(p->logn_scale, h, 0.4) * log(n) * score;
    case SIATTN_INFOSCALE:
      return score * sqrt((1 - pow(n, -2 / dim)) / (1 - pow(p->train_length != 0 ? p->train_length : 4096, -2 / dim)));
    case SIATTN_ALIBI: return score - at(p->slopes, h, pow(2, -8.0 * (h + 1) / HEADS)) * t;
    default: return score;
  }
}

/* out and lse are those of the problem. */
static void compare(const char* name, const siattn_problem* p, const int64_t* offsets, const int64_t* lengths) {
  double largest = 0;
  for (int b = 0; b < BATCH; ++b) {
    for (int h = 0; h < HEADS; ++h) {
      for (int i = 0; i < QUERIES; ++i) {
        const int kv_len = lengths != NULL ? (int)lengths[b] : KEYS, g = h / (HEADS / KV_HEADS);
        const double first = offsets != NULL                             ? (double)offsets[b]
                             : (p->flags & SIATTN_HAS_QUERY_OFFSET) != 0 ? (double)p->query_offset
                                                                         : kv_len - QUERIES;
        const double scale = (p->flags & SIATTN_HAS_SOFTMAX_SCALE) != 0 ? p->softmax_scale : 1 / sqrt(DIM);
        double sum = 0, mean[VALUES] = {0}, n = 0;
        for (int pass = 0; pass < 2; ++pass) { /* counts the keys that are seen, then weighs them */
          for (int j = 0; j < kv_len; ++j) {
            double t = first + i - j, score = 0;
            if (p->mask == SIATTN_BIDIRECTIONAL) t = fabs(t);
            if (t < 0 || (p->window > 0 && t >= (double)p->window)) continue;
            if (pass == 0) {
              n += 1;
              continue;
            }
            for (int d = 0; d < DIM; ++d) score += scale * query[b][h][i][d] * key[b][g][j][d];
            const double weight = exp(j < p->n_sink ? score : logit(p, h, score, t, n));
            sum += weight;
            for (int d = 0; d < VALUES; ++d) mean[d] += weight * value[b][g][j][d];
          }
        }
        for (int d = 0; d < VALUES; ++d) largest = fmax(largest, fabs(out[b][h][i][d] - (n > 0 ? mean[d] / sum : 0)));
        if (n > 0) largest = fmax(largest, fabs(lse[b][h][i] - log(sum)));
        if (isnan(out[b][h][i][0]) || isnan(lse[b][h][i])) largest = INFINITY;
      }
    }
  }
  if (largest < 1e-12) return;
  ++failures;
  fprintf(stderr, "%s: off by %g\n", name, largest);
}

static void check_problem(const char* name, siattn_problem problem) {
  const siattn_execution reference = {.struct_size = sizeof reference, .backend = "reference"};
  const siattn_tensors tensors = good_tensors();
  fill(&out[0][0][0][0], sizeof out / sizeof(double));
  EXPECT_OK(siattn_attention(&tensors, &problem, &reference, &message));
  compare(name, &problem, NULL, NULL);
}

#define PROBLEM(...) \
  (siattn_problem) { .struct_size = sizeof(siattn_problem), __VA_ARGS__ }

static void options(void) {
  static const double four[4] = {0.3, 1.5, 2.25, 0.75}, one[1] = {3};
  const siattn_per_head each = {four, 4}, all = {one, 1};
  check_problem("defaults", PROBLEM(.mask = 0));
  check_problem("tau", PROBLEM(.tau = all));
  check_problem("tau per head", PROBLEM(.tau = each));
  check_problem("alpha, beta", PROBLEM(.alpha = 2, .beta = 3));
  check_problem("none", PROBLEM(.transform = SIATTN_NO_TRANSFORM));
  check_problem("logn", PROBLEM(.transform = SIATTN_LOGN));
  check_problem("logn per head", PROBLEM(.transform = SIATTN_LOGN, .logn_scale = each));
  check_problem("infoscale", PROBLEM(.transform = SIATTN_INFOSCALE));
  check_problem("infoscale 64", PROBLEM(.transform = SIATTN_INFOSCALE, .train_length = 64));
  check_problem("alibi", PROBLEM(.transform = SIATTN_ALIBI));
  check_problem("alibi per head", PROBLEM(.transform = SIATTN_ALIBI, .slopes = each));
  check_problem("mean", PROBLEM(.calibration_mean = each));
  check_problem("standard deviation", PROBLEM(.calibration_standard_deviation = each, .calibration_mean = all));
  check_problem("bidirectional", PROBLEM(.mask = SIATTN_BIDIRECTIONAL));
  check_problem("window", PROBLEM(.window = 3));
  check_problem("sinks", PROBLEM(.n_sink = 2));
  check_problem("offset 0", PROBLEM(.flags = SIATTN_HAS_QUERY_OFFSET));
  check_problem("offset", PROBLEM(.flags = SIATTN_HAS_QUERY_OFFSET, .query_offset = 7));
  check_problem("scale 0", PROBLEM(.flags = SIATTN_HAS_SOFTMAX_SCALE));
  check_problem("scale", PROBLEM(.flags = SIATTN_HAS_SOFTMAX_SCALE, .softmax_scale = 0.2));
}

/* A plan made with shared tables, which outlives its handle to them, run whole and in shares. */
static void plans(void) {
  siattn_table_cache* cache = NULL;
  siattn_plan* plan = NULL;
  EXPECT_OK(siattn_table_cache_create(&cache, &message));
  const siattn_execution execution = {
      .struct_size = sizeof execution, .backend = "reference", .threads = 3, .table_cache = cache};
  const siattn_problem problem =
      PROBLEM(.dtype = SIATTN_F64, .batch = BATCH, .query_heads = HEADS, .kv_heads = KV_HEADS, .query_len = QUERIES,
              .kv_len = KEYS, .head_dim = DIM, .value_dim = VALUES);
  EXPECT_OK(siattn_plan_create(&problem, &execution, &plan, &message));
  siattn_table_cache_destroy(cache);
  CHECK(strcmp(siattn_plan_backend(plan), "reference") == 0);
  const size_t bytes = siattn_plan_workspace_bytes(plan);
  void* workspace = malloc(bytes + 1);

  const int64_t lengths[BATCH] = {9, 6}, offsets[BATCH] = {3, 2};
  siattn_tensors tensors = good_tensors();
  tensors.kv_lengths = (siattn_int64s){lengths, BATCH};
  EXPECT_OK(siattn_plan_run(plan, &tensors, workspace, bytes, &message));
  compare("kv_lengths", &problem, NULL, lengths);
  tensors.query_offsets = (siattn_int64s){offsets, BATCH};
  fill(&out[0][0][0][0], sizeof out / sizeof(double));
  for (int32_t k = 3; k-- > 0;) EXPECT_OK(siattn_plan_run_slice(plan, &tensors, workspace, bytes, k, 3, &message));
  compare("query_offsets, in shares", &problem, offsets, lengths);

  const int64_t first[BATCH] = {QUERIES, 0}; /* the second sequence has no query: its rows see nothing */
  tensors = good_tensors();
  tensors.query_lengths = (siattn_int64s){first, BATCH};
  EXPECT_OK(siattn_plan_run(plan, &tensors, workspace, bytes, &message));
  CHECK(out[1][0][0][0] == 0 && lse[1][HEADS - 1][QUERIES - 1] == -INFINITY && lse[0][0][0] != -INFINITY);
  free(workspace);
  siattn_plan_destroy(plan);
}

/* Two sequences behind each other: those of the dense batch. */
static void ragged(void) {
  static double rows[HEADS][BATCH * QUERIES][DIM], keys[KV_HEADS][BATCH * KEYS][DIM],
      values[KV_HEADS][BATCH * KEYS][VALUES];
  static double flat[HEADS][BATCH * QUERIES][VALUES];
  for (int b = 0; b < BATCH; ++b) {
    for (int h = 0; h < HEADS; ++h) memcpy(rows[h][b * QUERIES], query[b][h], sizeof query[b][h]);
    for (int g = 0; g < KV_HEADS; ++g) memcpy(keys[g][b * KEYS], key[b][g], sizeof key[b][g]);
    for (int g = 0; g < KV_HEADS; ++g) memcpy(values[g][b * KEYS], value[b][g], sizeof value[b][g]);
  }
  const siattn_execution reference = {.struct_size = sizeof reference, .backend = "reference"};
  const int32_t cu_query[] = {0, QUERIES, 2 * QUERIES};
  const int64_t cu_kv[] = {0, KEYS, 2 * KEYS};
  siattn_tensors tensors = SIATTN_INIT(siattn_tensors);
  tensors.query = tensor_of(rows, SIATTN_F64, 1, HEADS, BATCH * QUERIES, DIM);
  tensors.key = tensor_of(keys, SIATTN_F64, 1, KV_HEADS, BATCH * KEYS, DIM);
  tensors.value = tensor_of(values, SIATTN_F64, 1, KV_HEADS, BATCH * KEYS, VALUES);
  tensors.out = tensor_of(flat, SIATTN_F64, 1, HEADS, BATCH * QUERIES, VALUES);
  tensors.cu_query = (siattn_cumulative){cu_query, 3, 32, 0};
  tensors.cu_kv = (siattn_cumulative){cu_kv, 3, 64, 0};
  EXPECT_OK(siattn_attention(&tensors, NULL, &reference, &message));
  check_problem("dense", PROBLEM(.mask = 0));
  for (int b = 0; b < BATCH; ++b) {
    for (int h = 0; h < HEADS; ++h) CHECK(memcmp(flat[h][b * QUERIES], out[b][h], sizeof out[b][h]) == 0);
  }
}

/* One key: out is its value, whatever the type. */
static void types(void) {
  const struct {
    siattn_dtype dtype;
    unsigned short one, two;
  } halves[] = {{SIATTN_BF16, 0x3F80, 0x4000}, {SIATTN_F16, 0x3C00, 0x4000}};
  for (int k = 0; k < 2; ++k) {
    unsigned short ones = halves[k].one, twos = halves[k].two, result = 0;
    siattn_tensors tensors = SIATTN_INIT(siattn_tensors);
    tensors.query = tensors.key = tensor_of(&ones, halves[k].dtype, 1, 1, 1, 1);
    tensors.value = tensor_of(&twos, halves[k].dtype, 1, 1, 1, 1);
    tensors.out = tensor_of(&result, halves[k].dtype, 1, 1, 1, 1);
    float log_sum = 0;
    tensors.lse = tensor_of(&log_sum, SIATTN_F32, 1, 1, 1, 1);
    EXPECT_OK(siattn_attention(&tensors, NULL, NULL, &message));
    CHECK(result == twos);
    CHECK(log_sum == 1);
  }
  signed char integers[2] = {3, -5};
  float scales[2] = {0.5F, 2}, one = 1, result = 0, log_sum = 0;
  siattn_tensors tensors = SIATTN_INIT(siattn_tensors);
  tensors.query = tensor_of(&one, SIATTN_F32, 1, 1, 1, 1);
  tensors.key = tensor_of(&integers[0], SIATTN_I8, 1, 1, 1, 1);
  tensors.value = tensor_of(&integers[1], SIATTN_I8, 1, 1, 1, 1);
  tensors.key_scale = tensor_of(&scales[0], SIATTN_F32, 1, 1, 1, 1);
  tensors.value_scale = tensor_of(&scales[1], SIATTN_F32, 1, 1, 1, 1);
  tensors.out = tensor_of(&result, SIATTN_F32, 1, 1, 1, 1);
  tensors.lse = tensor_of(&log_sum, SIATTN_F32, 1, 1, 1, 1);
  EXPECT_OK(siattn_attention(&tensors, NULL, NULL, &message));
  CHECK(result == -10);
  CHECK(fabs(log_sum - 1.5) < 1e-6);

  siattn_plan* plan = NULL;
  siattn_problem problem = PROBLEM(.dtype = SIATTN_F32, .batch = 1, .query_heads = 1, .kv_heads = 1, .query_len = 1,
                                   .kv_len = 1, .head_dim = 1, .value_dim = 1, .kv_dtype = SIATTN_I8);
  EXPECT_OK(siattn_plan_create(&problem, NULL, &plan, &message));
  const size_t bytes = siattn_plan_workspace_bytes(plan);
  void* workspace = malloc(bytes + 1);
  result = 0;
  EXPECT_OK(siattn_plan_run(plan, &tensors, workspace, bytes, &message));
  CHECK(result == -10);
  free(workspace);
  siattn_plan_destroy(plan);
}

static siattn_encoding encoding_of(siattn_encoding_kind kind) {
  siattn_encoding encoding = SIATTN_INIT(siattn_encoding);
  encoding.kind = kind;
  return encoding;
}

/* Of head_dim 8: how many pairs, and the first, the second and the last of them. */
static void expect_frequencies(siattn_encoding encoding, int64_t count, double first, double second, double last) {
  double list[4] = {-1, -1, -1, -1};
  int64_t got = -1;
  EXPECT_OK(siattn_pair_frequencies(&encoding, 8, list, 4, &got, &message));
  CHECK(got == count);
  if (count == 0 || got != count) return;
  CHECK(fabs(list[0] - first) < 1e-14);
  CHECK(fabs(list[1] - second) < 1e-14);
  CHECK(fabs(list[count - 1] - last) < 1e-14);
}

static void encodings(void) {
  siattn_encoding e = encoding_of(SIATTN_NO_ENCODING);
  expect_frequencies(e, 0, 0, 0, 0);
  expect_frequencies(encoding_of(SIATTN_ROPE), 4, 1, 0.1, 1e-3);
  e = encoding_of(SIATTN_ROPE), e.base = 16;
  expect_frequencies(e, 4, 1, 0.5, 0.125);
  e = encoding_of(SIATTN_PARTIAL_ROPE), e.rotary_dim = 4;
  expect_frequencies(e, 2, 1, 0.01, 0.01);
  e = encoding_of(SIATTN_P_ROPE), e.p = 1;
  expect_frequencies(e, 4, 1, 0.1, 1e-3);
  e = encoding_of(SIATTN_P_ROPE);
  expect_frequencies(e, 4, 0, 0, 0);
  e = encoding_of(SIATTN_HALF_TRUNCATED_ROPE);
  expect_frequencies(e, 4, 1, 1.0 / 1024, 0);
  e.effective_base = 16;
  expect_frequencies(e, 4, 1, 1.0 / 16, 0);
  e = encoding_of(SIATTN_NTK_ROPE), e.factor = 4;
  expect_frequencies(e, 4, 1, 0.1 * pow(4, -1.0 / 3), 1e-3 / 4);
  e = encoding_of(SIATTN_DYNAMIC_NTK_ROPE), e.length = 8192;
  expect_frequencies(e, 4, 1, 0.1 * pow(2, -1.0 / 3), 1e-3 / 2);
  e = encoding_of(SIATTN_DYNAMIC_NTK_ROPE), e.train_length = 2048;
  expect_frequencies(e, 4, 1, 0.1 * pow(2, -1.0 / 3), 1e-3 / 2);
  /* The ramp goes over pairs 1 .. 3, 0 .. 2, 0 .. 3, 0 .. 3; the second pair is pair 1. */
  e = encoding_of(SIATTN_YARN), e.factor = 2;
  expect_frequencies(e, 4, 1, 0.1, 1e-3 / 2);
  e.train_length = 64;
  expect_frequencies(e, 4, 1, 0.1 * 3 / 4, 1e-3 / 2);
  e.beta_slow = 0.1;
  expect_frequencies(e, 4, 1, 0.1 * 5 / 6, 1e-3 / 2);
  e = encoding_of(SIATTN_YARN), e.factor = 2, e.beta_fast = 200;
  expect_frequencies(e, 4, 1, 0.1 * 5 / 6, 1e-3 / 2);

  /* A pair (1, 0) at position 3 turns to (cos 3, sin 3); half: dimensions 0 and 2, interleaved: 0 and 1. */
  double in[2][4] = {{1, 0, 0, 0}, {1, 0, 0, 0}}, turned[2][4];
  const siattn_tensor from = tensor_of(in, SIATTN_F64, 1, 1, 2, 4), to = tensor_of(turned, SIATTN_F64, 1, 1, 2, 4);
  const int64_t positions[2] = {5, 3};
  e = encoding_of(SIATTN_ROPE);
  EXPECT_OK(siattn_encode(&e, &from, &to, 2, (siattn_int64s){NULL, 0}, &message));
  CHECK(fabs(turned[1][0] - cos(3)) < 1e-15 && fabs(turned[1][2] - sin(3)) < 1e-15 &&
        fabs(turned[0][0] - cos(2)) < 1e-15);
  e.layout = SIATTN_PAIRS_INTERLEAVED;
  EXPECT_OK(siattn_encode(&e, &from, &to, 0, (siattn_int64s){positions, 2}, &message));
  CHECK(fabs(turned[0][0] - cos(5)) < 1e-15 && fabs(turned[1][1] - sin(3)) < 1e-15);
  e = encoding_of(SIATTN_YARN), e.factor = 1, e.magnitude = 2;
  EXPECT_OK(siattn_encode(&e, &from, &to, 0, (siattn_int64s){NULL, 0}, &message));
  CHECK(turned[0][0] == 2);
}

static void lists(void) {
  char version[64];
  snprintf(version, sizeof version, "%d.%d.%d", SIATTN_VERSION_MAJOR, SIATTN_VERSION_MINOR, SIATTN_VERSION_PATCH);
  CHECK(strcmp(siattn_version(), version) == 0);
  const int32_t count = siattn_backend_count();
  CHECK(count >= 2 && strcmp(siattn_backend_name(count - 1), "reference") == 0);
  EXPECT_OK(siattn_backend_available(count - 1, &message));
  double slopes[8];
  EXPECT_OK(siattn_alibi_slopes(8, slopes, &message));
  for (int h = 0; h < 8; ++h) CHECK(slopes[h] == pow(2, -(h + 1)));
}

int main(void) {
  fill(&query[0][0][0][0], sizeof query / sizeof(double));
  fill(&key[0][0][0][0], sizeof key / sizeof(double));
  fill(&value[0][0][0][0], sizeof value / sizeof(double));
  options();
  plans();
  ragged();
  types();
  encodings();
  lists();
  return finish();
}
