/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong comes back as a status and one line, and nothing has been written: seen from C. */
#include <stdlib.h>

#include "tests/capi/check.h"

enum { HEADS = 4, KV_HEADS = 2, QUERIES = 3, KEYS = 5, DIM = 8 };

static float query[HEADS * QUERIES * DIM], key[KV_HEADS * KEYS * DIM], value[KV_HEADS * KEYS * DIM];
static float out[HEADS * QUERIES * DIM];

static siattn_problem good_problem(void) {
  siattn_problem problem = SIATTN_INIT(siattn_problem);
  problem.dtype = SIATTN_F32;
  problem.batch = 1;
  problem.query_heads = HEADS;
  problem.kv_heads = KV_HEADS;
  problem.query_len = QUERIES;
  problem.kv_len = KEYS;
  problem.head_dim = problem.value_dim = DIM;
  return problem;
}

static siattn_tensors good_tensors(void) {
  siattn_tensors tensors = SIATTN_INIT(siattn_tensors);
  tensors.query = (siattn_tensor){.data = query, .dtype = SIATTN_F32, .shape = {1, HEADS, QUERIES, DIM}};
  tensors.key = (siattn_tensor){.data = key, .dtype = SIATTN_F32, .shape = {1, KV_HEADS, KEYS, DIM}};
  tensors.value = (siattn_tensor){.data = value, .dtype = SIATTN_F32, .shape = {1, KV_HEADS, KEYS, DIM}};
  tensors.out = (siattn_tensor){.data = out, .dtype = SIATTN_F32, .shape = {1, HEADS, QUERIES, DIM}};
  return tensors;
}

/* siattn_plan_create on the good problem with one change; no handle comes back from a failure. */
#define EXPECT_INVALID_PROBLEM(words, change)                             \
  do {                                                                    \
    siattn_problem p = good_problem();                                    \
    siattn_plan* made = (siattn_plan*)&p;                                 \
    change;                                                               \
    EXPECT_INVALID(words, siattn_plan_create(&p, NULL, &made, &message)); \
    CHECK(made == NULL);                                                  \
  } while (0)

static void problems(void) {
  const double values[3] = {1, 2, 3};
  EXPECT_INVALID_PROBLEM("dtype = 0", p.dtype = 0);
  EXPECT_INVALID_PROBLEM("dtype = 6", p.dtype = 6);
  EXPECT_INVALID_PROBLEM("dtype = -1", p.kv_dtype = -1);
  EXPECT_INVALID_PROBLEM("mask = 256", p.mask = 256);
  EXPECT_INVALID_PROBLEM("transform = 5", p.transform = 5);
  EXPECT_INVALID_PROBLEM("transform = -1", p.transform = -1);
  EXPECT_INVALID_PROBLEM("flags = 4", p.flags = 4);
  EXPECT_INVALID_PROBLEM("problem.reserved = 1", p.reserved = 1);
  EXPECT_INVALID_PROBLEM("SIATTN_HAS_QUERY_OFFSET", p.query_offset = 7);
  EXPECT_INVALID_PROBLEM("SIATTN_HAS_SOFTMAX_SCALE", p.softmax_scale = 0.5);
  EXPECT_INVALID_PROBLEM("window = -1", p.window = -1);
  EXPECT_INVALID_PROBLEM("n_sink = -2", p.n_sink = -2);
  EXPECT_INVALID_PROBLEM("batch = -1", p.batch = -1);
  EXPECT_INVALID_PROBLEM("query_heads = 3", p.query_heads = 3);
  EXPECT_INVALID_PROBLEM("alpha = -1", p.alpha = -1);
  EXPECT_INVALID_PROBLEM("tau.values is null", p.tau.count = 1);
  EXPECT_INVALID_PROBLEM("tau.count = -1", p.tau.count = -1);
  EXPECT_INVALID_PROBLEM("tau.count = 4611686018427387904", p.tau.count = INT64_C(1) << 62);
  EXPECT_INVALID_PROBLEM("tau has 3 values", p.tau = ((siattn_per_head){values, 3}));
  EXPECT_INVALID_PROBLEM("logn_scale.values is null", (p.transform = SIATTN_LOGN, p.logn_scale.count = 4));
  EXPECT_INVALID_PROBLEM("slopes.values is null", (p.transform = SIATTN_ALIBI, p.slopes.count = 4));
  EXPECT_INVALID_PROBLEM("train_length = 0.5", (p.transform = SIATTN_INFOSCALE, p.train_length = 0.5));
  EXPECT_INVALID_PROBLEM("calibration_mean.values is null", p.calibration_mean.count = 1);
  EXPECT_INVALID_PROBLEM("calibration_standard_deviation.count = -9", p.calibration_standard_deviation.count = -9);
}

/* Descriptors that are older, newer, or have no size. */
static void sizes(void) {
  siattn_plan* plan = NULL;
  EXPECT_INVALID("problem is null", siattn_plan_create(NULL, NULL, &plan, &message));
  const size_t wrong[] = {0, 8, sizeof(siattn_problem) - 1, 4097, (size_t)-1};
  for (size_t k = 0; k < sizeof wrong / sizeof *wrong; ++k) {
    EXPECT_INVALID_PROBLEM("struct_size = ", p.struct_size = wrong[k]);
  }
  /* A newer caller: what this library does not know may be there as long as it is 0. */
  struct {
    siattn_problem problem;
    unsigned char more[40];
  } newer = {.problem = good_problem()};
  newer.problem.struct_size = sizeof newer;
  EXPECT_OK(siattn_plan_create(&newer.problem, NULL, &plan, &message));
  siattn_plan_destroy(plan);
  newer.more[39] = 1;
  EXPECT(SIATTN_UNSUPPORTED, "and what follows is not 0", siattn_plan_create(&newer.problem, NULL, &plan, &message));
  CHECK(plan == NULL);
}

static void executions(void) {
  siattn_problem problem = good_problem();
  siattn_plan* plan = NULL;
  siattn_execution execution = {0};
  EXPECT_INVALID("execution.struct_size = 0", siattn_plan_create(&problem, &execution, &plan, &message));
  execution.struct_size = sizeof execution;
  execution.backend = "abacus";
  EXPECT_INVALID("backend = 'abacus'", siattn_plan_create(&problem, &execution, &plan, &message));
  execution.backend = "cpu";
  execution.threads = -3;
  EXPECT_INVALID("threads = -3", siattn_plan_create(&problem, &execution, &plan, &message));
  execution.threads = 0;
  execution.reserved = 2;
  EXPECT_INVALID("execution.reserved = 2", siattn_plan_create(&problem, &execution, &plan, &message));
  EXPECT_INVALID("plan is null", siattn_plan_create(&problem, NULL, NULL, &message));
}

/* A message that does not fit is cut, between characters; nobody has to want one. */
static void messages(void) {
  siattn_problem problem = good_problem();
  siattn_plan* plan = NULL;
  static char name[2001];
  for (int shift = 0; shift < 2; ++shift) {
    memset(name, 'x', sizeof name - 1);
    for (int k = shift; k + 1 < 2000; k += 2) memcpy(name + k, "\xC3\xA9", 2); /* e with an acute accent */
    const siattn_execution execution = {.struct_size = sizeof execution, .backend = name};
    EXPECT_INVALID("backend = '", siattn_plan_create(&problem, &execution, &plan, &message));
    const size_t length = strlen(message.text);
    CHECK(length == sizeof message.text - 1 || length == sizeof message.text - 2);
    CHECK((unsigned char)message.text[length - 1] == 0xA9);
    CHECK(siattn_plan_create(&problem, &execution, &plan, NULL) == SIATTN_INVALID_ARGUMENT);
  }
  CHECK(strcmp(siattn_status_name(SIATTN_UNAVAILABLE), "unavailable") == 0);
  CHECK(strcmp(siattn_status_name(99), "unknown status") == 0);
}

#define EXPECT_INVALID_TENSORS(words, change)                                     \
  do {                                                                            \
    siattn_tensors t = good_tensors();                                            \
    change;                                                                       \
    EXPECT_INVALID(words, siattn_plan_run(plan, &t, workspace, bytes, &message)); \
    for (int k = 0; k < HEADS * QUERIES * DIM; ++k) CHECK(out[k] == 7);           \
  } while (0)

static void runs(void) {
  const int64_t lengths[2] = {1, 9};
  const int32_t cumulative[2] = {0, 3};
  siattn_problem problem = good_problem();
  siattn_plan* plan = NULL;
  EXPECT_OK(siattn_plan_create(&problem, NULL, &plan, &message));
  size_t bytes = siattn_plan_workspace_bytes(plan);
  void* workspace = malloc(bytes + 1);
  for (int k = 0; k < HEADS * QUERIES * DIM; ++k) out[k] = 7;

  EXPECT_INVALID_TENSORS("query is null", t.query.data = NULL);
  EXPECT_INVALID_TENSORS("query has shape [0, 0, 0, 0]", memset(&t.query, 0, sizeof t.query));
  EXPECT_INVALID_TENSORS("key: dtype = 77", t.key.dtype = 77);
  EXPECT_INVALID_TENSORS("key has type", t.key.dtype = SIATTN_BF16);
  EXPECT_INVALID_TENSORS("value has shape [1, 2, 5, 7]", t.value.shape[3] = 7);
  EXPECT_INVALID_TENSORS("value.reserved = 3", t.value.reserved = 3);
  EXPECT_INVALID_TENSORS("query has shape", (t.query.shape[0] = INT64_MAX, t.query.shape[1] = 3));
  EXPECT_INVALID_TENSORS("out at", t.out = t.query);
  EXPECT_INVALID_TENSORS("kv_lengths.values is null", t.kv_lengths.count = 1);
  EXPECT_INVALID_TENSORS("kv_lengths.count = -1", t.kv_lengths.count = -1);
  EXPECT_INVALID_TENSORS("kv_lengths has 2 values", t.kv_lengths = ((siattn_int64s){lengths, 2}));
  EXPECT_INVALID_TENSORS("kv_lengths[0] = 9", t.kv_lengths = ((siattn_int64s){lengths + 1, 1}));
  EXPECT_INVALID_TENSORS("cu_query.bits = 16", t.cu_query = ((siattn_cumulative){cumulative, 2, 16, 0}));
  EXPECT_INVALID_TENSORS("cu_query.values is null", t.cu_query = ((siattn_cumulative){NULL, 2, 32, 0}));
  EXPECT_INVALID_TENSORS("cu_kv.count = -2", t.cu_kv = ((siattn_cumulative){cumulative, -2, 32, 0}));
  EXPECT_INVALID_TENSORS("cu_kv.reserved = 5", t.cu_kv = ((siattn_cumulative){cumulative, 2, 32, 5}));
  EXPECT_INVALID_TENSORS("tensors.struct_size = 8", t.struct_size = 8);

  siattn_tensors tensors = good_tensors();
  EXPECT_INVALID("tensors is null", siattn_plan_run(plan, NULL, workspace, bytes, &message));
  EXPECT_INVALID("plan is null", siattn_plan_run(NULL, &tensors, workspace, bytes, &message));
  if (bytes > 0) {
    EXPECT_INVALID("workspace is null", siattn_plan_run(plan, &tensors, NULL, bytes, &message));
    EXPECT_INVALID("workspace has", siattn_plan_run(plan, &tensors, workspace, bytes - 1, &message));
  }
  EXPECT_INVALID("slice", siattn_plan_run_slice(plan, &tensors, workspace, bytes, 1, 1, &message));
  EXPECT_INVALID("slice", siattn_plan_run_slice(plan, &tensors, workspace, bytes, 0, 0, &message));
  EXPECT_INVALID("tensors is null", siattn_attention(NULL, NULL, NULL, &message));
  for (int k = 0; k < HEADS * QUERIES * DIM; ++k) CHECK(out[k] == 7);
  EXPECT_OK(siattn_plan_run(plan, &tensors, workspace, bytes, &message));
  CHECK(out[0] == 0);
  free(workspace);
  siattn_plan_destroy(plan);
  siattn_plan_destroy(NULL);
  CHECK(siattn_plan_backend(NULL) == NULL && siattn_plan_workspace_bytes(NULL) == 0);
}

#define EXPECT_INVALID_APPEND(words, change)                                            \
  do {                                                                                  \
    siattn_kv_cache c = cache;                                                          \
    siattn_kv_tokens t = tokens;                                                        \
    siattn_int64s n = {lengths, 2};                                                     \
    change;                                                                             \
    EXPECT_INVALID(words, siattn_kv_append(&c, &t, n, NULL, &message));                 \
    for (int k = 0; k < PAGES * PAGE * DIM; ++k) CHECK(keys[k] == 7 && values[k] == 7); \
  } while (0)

static void caches(void) {
  enum { PAGES = 3, PAGE = 4 };
  static float keys[PAGES * PAGE * DIM], values[PAGES * PAGE * DIM];
  for (int k = 0; k < PAGES * PAGE * DIM; ++k) keys[k] = values[k] = 7;
  const int64_t lengths[2] = {1, 2}, late[2] = {1, 4};
  const int32_t pages[2] = {2, 0}, far[2] = {2, 3}, shared[2] = {1, 1}, backwards[3] = {0, 2, 1};
  siattn_kv_cache cache = SIATTN_INIT(siattn_kv_cache);
  const siattn_tensor slots = {.data = keys, .dtype = SIATTN_F32, .shape = {PAGES, 1, PAGE, DIM}};
  cache.key = cache.value = slots;
  cache.value.data = values;
  cache.pages = (siattn_page_table){pages, 1, PAGE};
  siattn_kv_tokens tokens = SIATTN_INIT(siattn_kv_tokens);
  tokens.key = tokens.value = (siattn_tensor){.data = key, .dtype = SIATTN_F32, .shape = {2, 1, 1, DIM}};

  EXPECT_INVALID_APPEND("kv_cache.struct_size = 0", c.struct_size = 0);
  EXPECT_INVALID_APPEND("kv_tokens.struct_size = 1", t.struct_size = 1);
  EXPECT_INVALID_APPEND("cache.key: dtype = 9", c.key.dtype = 9);
  EXPECT_INVALID_APPEND("tokens.value: dtype = 8", t.value.dtype = 8);
  EXPECT_INVALID_APPEND("lengths.values is null", n.values = NULL);
  EXPECT_INVALID_APPEND("3", c.pages.pages = far);
  EXPECT_INVALID_APPEND("1", c.pages.pages = shared);
  EXPECT_INVALID_APPEND("4", n.values = late);
  EXPECT_INVALID_APPEND("", t.cu_tokens = ((siattn_cumulative){backwards, 3, 32, 0}));
  EXPECT_INVALID("kv_cache is null", siattn_kv_append(NULL, &tokens, (siattn_int64s){lengths, 2}, NULL, &message));
  siattn_tensors tensors = good_tensors();
  tensors.struct_size = 16;
  EXPECT_INVALID("tensors.struct_size = 16",
                 siattn_kv_read_from(&cache, (siattn_int64s){lengths, 2}, &tensors, &message));
  EXPECT_OK(siattn_kv_append(&cache, &tokens, (siattn_int64s){lengths, 2}, NULL, &message));
  CHECK(keys[(2 * PAGE + 1) * DIM] == 0 && keys[2 * DIM] == 0 && keys[0] == 7 && keys[3 * DIM] == 7);
}

static void others(void) {
  siattn_encoding encoding = SIATTN_INIT(siattn_encoding);
  siattn_tensor tensor = {.data = query, .dtype = SIATTN_F32, .shape = {1, HEADS, QUERIES, DIM}};
  const siattn_int64s none = {0};
  double list[4];
  int64_t count = 0;
  encoding.kind = SIATTN_ROPE;
  EXPECT_INVALID("in is null", siattn_encode(&encoding, NULL, &tensor, 0, none, &message));
  EXPECT_INVALID("out is null", siattn_encode(&encoding, &tensor, NULL, 0, none, &message));
  EXPECT_INVALID("encoding is null", siattn_encode(NULL, &tensor, &tensor, 0, none, &message));
  EXPECT_INVALID("frequencies has room for 3: expected 4",
                 siattn_pair_frequencies(&encoding, DIM, list, 3, &count, &message));
  EXPECT_INVALID("count is null", siattn_pair_frequencies(&encoding, DIM, list, 4, NULL, &message));
  encoding.layout = 2;
  EXPECT_INVALID("layout = 2", siattn_encode(&encoding, &tensor, &tensor, 0, none, &message));
  encoding.layout = 0;
  encoding.kind = 8;
  EXPECT_INVALID("encoding kind = 8", siattn_encode(&encoding, &tensor, &tensor, 0, none, &message));
  encoding.kind = SIATTN_NTK_ROPE; /* whose factor was not set */
  EXPECT_INVALID("factor = 0", siattn_encode(&encoding, &tensor, &tensor, 0, none, &message));
  EXPECT_INVALID("heads = 0", siattn_alibi_slopes(0, list, &message));
  EXPECT_INVALID("slopes is null", siattn_alibi_slopes(4, NULL, &message));
  EXPECT_INVALID("cache is null", siattn_table_cache_create(NULL, &message));
  EXPECT_INVALID("index = -1", siattn_backend_available(-1, &message));
  CHECK(siattn_backend_name(-1) == NULL && siattn_backend_name(siattn_backend_count()) == NULL);
  siattn_table_cache_destroy(NULL);
}

int main(void) {
  problems();
  sizes();
  executions();
  messages();
  runs();
  caches();
  others();
  return finish();
}
