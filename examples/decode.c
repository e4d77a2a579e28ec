/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes token by token over a paged KV cache, in C11, and compares every row with attention over all tokens at once.
 * Random numbers stand in for the queries, keys and values that a model would project from its tokens. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <siattn/siattn.h>

enum { HEADS = 8, KV_HEADS = 2, DIM = 64, PROMPT = 40, TOKENS = 100, PAGE = 16, PAGES = 7 };

static siattn_message message;

static void check(siattn_status status, const char* what) {
  if (status == SIATTN_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, siattn_status_name(status), message.text);
  exit(1);
}

static float* numbers(size_t count) {
  static unsigned state = 1;
  float* list = malloc(count * sizeof *list);
  if (list == NULL) exit(2);
  for (size_t k = 0; k < count; ++k) {
    state = state * 1664525U + 1013904223U;
    list[k] = (float)(state >> 8) / (1 << 23) - 1.0F;
  }
  return list;
}

/* Tokens first .. first + count of a dense [1, heads, TOKENS, DIM] tensor. */
static siattn_tensor tokens_of(float* data, int64_t heads, int64_t first, int64_t count) {
  siattn_tensor tensor = {.data = data + first * DIM,
                          .dtype = SIATTN_F32,
                          .shape = {1, heads, count, DIM},
                          .strides = {heads * TOKENS * DIM, TOKENS * DIM, DIM, 1}};
  return tensor;
}

int main(void) {
  float *query = numbers(HEADS * TOKENS * DIM), *key = numbers(KV_HEADS * TOKENS * DIM);
  float *value = numbers(KV_HEADS * TOKENS * DIM), *out = numbers(HEADS * TOKENS * DIM);
  float* expected = numbers(HEADS * TOKENS * DIM);
  const siattn_int64s in_order = {0};
  siattn_encoding rope = SIATTN_INIT(siattn_encoding);
  rope.kind = SIATTN_ROPE;

  /* The cache: [pages, kv_heads, page size, dim], of which this sequence has seven pages in any order. */
  const int32_t pages[PAGES] = {4, 0, 6, 1, 5, 2, 3};
  siattn_kv_cache cache = SIATTN_INIT(siattn_kv_cache);
  const siattn_tensor slots = {.dtype = SIATTN_F32, .shape = {PAGES, KV_HEADS, PAGE, DIM}};
  cache.key = cache.value = slots;
  cache.key.data = numbers(PAGES * KV_HEADS * PAGE * DIM);
  cache.value.data = numbers(PAGES * KV_HEADS * PAGE * DIM);
  cache.pages = (siattn_page_table){pages, PAGES, PAGE};

  /* One plan for the prompt, one for every token after it: a plan holds for all shorter sequences. */
  siattn_plan* plans[2];
  const int64_t steps[2] = {PROMPT, 1};
  for (int k = 0; k < 2; ++k) {
    siattn_problem problem = SIATTN_INIT(siattn_problem); /* causal, scale-invariant with tau = 10 */
    problem.dtype = SIATTN_F32;
    problem.batch = 1;
    problem.query_heads = HEADS;
    problem.kv_heads = KV_HEADS;
    problem.query_len = steps[k];
    problem.kv_len = TOKENS;
    problem.head_dim = problem.value_dim = DIM;
    check(siattn_plan_create(&problem, NULL, &plans[k], &message), "plan");
  }
  size_t bytes = siattn_plan_workspace_bytes(plans[0]);
  if (bytes < siattn_plan_workspace_bytes(plans[1])) bytes = siattn_plan_workspace_bytes(plans[1]);
  void* workspace = malloc(bytes + 1);

  for (int64_t length = 0, step = PROMPT; length < TOKENS; length += step, step = 1) {
    siattn_kv_tokens tokens = SIATTN_INIT(siattn_kv_tokens);
    tokens.key = tokens_of(key, KV_HEADS, length, step);
    tokens.value = tokens_of(value, KV_HEADS, length, step);
    check(siattn_kv_append(&cache, &tokens, (siattn_int64s){&length, 1}, &rope, &message), "append");

    siattn_tensors tensors = SIATTN_INIT(siattn_tensors);
    const int64_t now = length + step;
    tensors.query = tokens_of(query, HEADS, length, step);
    tensors.out = tokens_of(out, HEADS, length, step);
    check(siattn_encode(&rope, &tensors.query, &tensors.query, length, in_order, &message), "encode");
    check(siattn_kv_read_from(&cache, (siattn_int64s){&now, 1}, &tensors, &message), "cache");
    check(siattn_plan_run(plans[step == 1], &tensors, workspace, bytes, &message), "run");
  }

  /* The same without a cache. The queries have been rotated in place. */
  siattn_tensors all = SIATTN_INIT(siattn_tensors);
  all.query = tokens_of(query, HEADS, 0, TOKENS);
  all.key = tokens_of(key, KV_HEADS, 0, TOKENS);
  all.value = tokens_of(value, KV_HEADS, 0, TOKENS);
  all.out = tokens_of(expected, HEADS, 0, TOKENS);
  check(siattn_encode(&rope, &all.key, &all.key, 0, in_order, &message), "encode");
  check(siattn_attention(&all, NULL, NULL, &message), "attention");

  double largest = 0;
  for (size_t k = 0; k < HEADS * TOKENS * DIM; ++k) largest = fmax(largest, fabs((double)out[k] - expected[k]));
  printf("siattn %s, %s: %d tokens in %d pages, the largest difference from one prefill is %.1e\n", siattn_version(),
         siattn_plan_backend(plans[1]), TOKENS, PAGES, largest);
  for (int k = 0; k < 2; ++k) siattn_plan_destroy(plans[k]);
  free(query), free(key), free(value), free(out), free(expected), free(workspace);
  free(cache.key.data), free(cache.value.data);
  return largest < 1e-5 ? 0 : 1; /* also where it is NaN */
}
