/* SPDX-License-Identifier: Apache-2.0 */
/* A paged cache seen from C: what is appended lies where the page table says, rotated and rounded, and attention over
 * the pages is attention over the same rows in a dense tensor. */
#include <math.h>

#include "tests/capi/check.h"

enum { HEADS = 2, DIM = 4, TOKENS = 7, PAGE = 2, PAGES = 6, PAGES_OF_ONE = 2, SEQUENCES = 2 };

static float query[HEADS][TOKENS][DIM], key[TOKENS][DIM], value[TOKENS][DIM];
static const int64_t cumulative[SEQUENCES + 1] = {0, 4, TOKENS}, lengths[SEQUENCES] = {4, 3};
static const int32_t table[SEQUENCES * PAGES_OF_ONE] = {5, 0, 1, 3};

/* The memory of one of the two tensors of a cache. */
struct slots {
  float floats[PAGES][PAGE][DIM];
  signed char integers[PAGES][PAGE][DIM];
  float scales[PAGES][PAGE];
};

static void fill(float* list, size_t count) {
  static unsigned state = 7;
  for (size_t k = 0; k < count; ++k) {
    state = state * 1664525U + 1013904223U;
    list[k] = (float)(state >> 8) / (1 << 22) - 2;
  }
}

static siattn_tensor rows_of(void* data, int64_t heads, int64_t len) {
  const siattn_tensor tensor = {.data = data, .dtype = SIATTN_F32, .shape = {1, heads, len, DIM}};
  return tensor;
}

static siattn_tensor slots_of(struct slots* slots, siattn_dtype dtype) {
  const siattn_tensor tensor = {.data = dtype == SIATTN_I8 ? (void*)slots->integers : (void*)slots->floats,
                                .dtype = dtype,
                                .shape = {PAGES, 1, PAGE, DIM}};
  return tensor;
}

static siattn_tensor scales_of(struct slots* slots) {
  const siattn_tensor tensor = {.data = slots->scales, .dtype = SIATTN_F32, .shape = {PAGES, 1, PAGE, 1}};
  return tensor;
}

/* Row j of sequence b, as the slots hold it; expected is what went in. */
static void read_row(const struct slots* slots, siattn_dtype dtype, int b, int j, const float* expected, float* row) {
  const int page = table[b * PAGES_OF_ONE + j / PAGE], slot = j % PAGE;
  for (int d = 0; d < DIM; ++d) {
    const float scale = slots->scales[page][slot];
    row[d] = dtype == SIATTN_I8 ? scale * (float)slots->integers[page][slot][d] : slots->floats[page][slot][d];
    CHECK(fabsf(row[d] - expected[d]) <= (dtype == SIATTN_I8 ? 0.501F * scale : 0.0F));
  }
}

static void run(siattn_dtype dtype) {
  static struct slots keys, values;
  siattn_encoding rope = SIATTN_INIT(siattn_encoding);
  rope.kind = SIATTN_ROPE;
  siattn_kv_cache cache = SIATTN_INIT(siattn_kv_cache);
  cache.key = slots_of(&keys, dtype);
  cache.value = slots_of(&values, dtype);
  if (dtype == SIATTN_I8) {
    cache.key_scale = scales_of(&keys);
    cache.value_scale = scales_of(&values);
  }
  cache.pages = (siattn_page_table){table, PAGES_OF_ONE, PAGE};

  /* In two steps: the first tokens of both sequences, then all that is left. */
  const int64_t none[SEQUENCES] = {0, 0}, one[SEQUENCES] = {1, 1};
  const int32_t first[SEQUENCES + 1] = {0, 1, 2};
  float some_keys[TOKENS][DIM], some_values[TOKENS][DIM];
  siattn_kv_tokens tokens = SIATTN_INIT(siattn_kv_tokens);
  for (int step = 0; step < 2; ++step) {
    int count = 0;
    int64_t rest[SEQUENCES + 1] = {0};
    for (int b = 0; b < SEQUENCES; ++b) {
      for (int64_t i = cumulative[b] + step; i < (step == 0 ? cumulative[b] + 1 : cumulative[b + 1]); ++i, ++count) {
        memcpy(some_keys[count], key[i], sizeof key[i]);
        memcpy(some_values[count], value[i], sizeof value[i]);
      }
      rest[b + 1] = count;
    }
    tokens.key = rows_of(some_keys, 1, count);
    tokens.value = rows_of(some_values, 1, count);
    tokens.cu_tokens = step == 0 ? (siattn_cumulative){first, 3, 32, 0} : (siattn_cumulative){rest, 3, 64, 0};
    const siattn_int64s before = {step == 0 ? none : one, SEQUENCES};
    EXPECT_OK(siattn_kv_append(&cache, &tokens, before, &rope, &message));
  }

  float out[HEADS][TOKENS][DIM];
  siattn_tensors ragged = SIATTN_INIT(siattn_tensors);
  ragged.query = rows_of(query, HEADS, TOKENS);
  ragged.out = rows_of(out, HEADS, TOKENS);
  ragged.cu_query = (siattn_cumulative){cumulative, SEQUENCES + 1, 64, 0};
  EXPECT_OK(siattn_kv_read_from(&cache, (siattn_int64s){lengths, SEQUENCES}, &ragged, &message));
  EXPECT_OK(siattn_attention(&ragged, NULL, NULL, &message));

  for (int b = 0; b < SEQUENCES; ++b) {
    const int n = (int)lengths[b], begin = (int)cumulative[b];
    float rotated[TOKENS][DIM], dense_keys[TOKENS][DIM], dense_values[TOKENS][DIM], dense_out[HEADS][TOKENS][DIM];
    const siattn_tensor plain = rows_of(key[begin], 1, n), turned = rows_of(rotated, 1, n);
    EXPECT_OK(siattn_encode(&rope, &plain, &turned, 0, (siattn_int64s){NULL, 0}, &message));
    for (int j = 0; j < n; ++j) {
      read_row(&keys, dtype, b, j, rotated[j], dense_keys[j]);
      read_row(&values, dtype, b, j, value[begin + j], dense_values[j]);
    }
    siattn_tensors dense = SIATTN_INIT(siattn_tensors);
    dense.query = rows_of(query[0][begin], HEADS, n);
    const int64_t strides[4] = {HEADS * TOKENS * DIM, TOKENS * DIM, DIM, 1};
    memcpy(dense.query.strides, strides, sizeof strides);
    dense.key = rows_of(dense_keys, 1, n);
    dense.value = rows_of(dense_values, 1, n);
    dense.out = rows_of(dense_out, HEADS, n);
    memcpy(dense.out.strides, strides, sizeof strides);
    EXPECT_OK(siattn_attention(&dense, NULL, NULL, &message));
    for (int h = 0; h < HEADS; ++h) {
      for (int i = 0; i < n; ++i) {
        for (int d = 0; d < DIM; ++d) {
          const float difference = fabsf(out[h][begin + i][d] - dense_out[h][i][d]);
          CHECK(difference <= (dtype == SIATTN_I8 ? 1e-5F : 0.0F));
        }
      }
    }
  }
}

int main(void) {
  fill(&query[0][0][0], sizeof query / sizeof(float));
  fill(&key[0][0], sizeof key / sizeof(float));
  fill(&value[0][0], sizeof value / sizeof(float));
  run(SIATTN_F32);
  run(SIATTN_I8);
  return finish();
}
