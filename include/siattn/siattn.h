/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C interface, for C11 and any language that calls C. What is computed, and every promise about it, stands in
 * <siattn/attention.hpp>, <siattn/kv_cache.hpp>, <siattn/position_encoding.hpp> and <siattn/introspection.hpp>; here is
 * how C says it. Nothing throws.
 *
 * Status. Functions that can fail return a siattn_status, SIATTN_OK = 0 when all went well. Otherwise they have written
 *   nothing but one line that names the argument and its value, into the message, where the caller gives one; and NULL
 *   for a handle that was to be created.
 * Descriptors. A struct whose first member is struct_size is a descriptor: zero it, then set that member to its size
 *   (in C SIATTN_INIT does both). A member left 0 has its default, so that later versions can add members at the end: a
 *   program compiled against an older header keeps working, and one that sets what an older library does not know is
 *   told so. Arrays that a descriptor points to are read during the call only.
 * Handles are opaque. A plan and a table cache may be used from several threads at once, and are destroyed by one.
 * Strings that functions return live as long as the library, or as the handle that was asked.
 */
#ifndef SIATTN_SIATTN_H
#define SIATTN_SIATTN_H

#include <stddef.h>
#include <stdint.h>

#include <siattn/export.h>

/* Of this header. siattn_version() tells that of the library. */
#define SIATTN_VERSION_MAJOR 0
#define SIATTN_VERSION_MINOR 1
#define SIATTN_VERSION_PATCH 0

/* siattn_problem problem = SIATTN_INIT(siattn_problem); */
#define SIATTN_INIT(type) \
  { .struct_size = sizeof(type) }

#ifdef __cplusplus
extern "C" {
#endif

/* Semantic version of the library, "MAJOR.MINOR.PATCH". */
SIATTN_EXPORT const char* siattn_version(void);

/* ---- Status ---------------------------------------------------------------------------------------------------- */

typedef int32_t siattn_status;
enum {
  SIATTN_OK = 0,
  SIATTN_INVALID_ARGUMENT = 1, /* the call is wrong: the message names the argument and the value it had */
  SIATTN_UNSUPPORTED = 2,      /* the call is right, but the chosen backend cannot do it, or this library is too old */
  SIATTN_UNAVAILABLE = 3,      /* a backend or device that was asked for is not there */
  SIATTN_OUT_OF_MEMORY = 4,
  SIATTN_INTERNAL = 5 /* a defect of the library */
};

/* "ok", "invalid argument", ...; "unknown status" for a number that is none. */
SIATTN_EXPORT const char* siattn_status_name(siattn_status status);

/* One line, cut to fit, always ended by a zero; empty after success. */
typedef struct siattn_message {
  char text[512];
} siattn_message;

/* ---- Tensors --------------------------------------------------------------------------------------------------- */

typedef int32_t siattn_dtype;
enum {
  SIATTN_F32 = 1,
  SIATTN_BF16 = 2,
  SIATTN_F16 = 3,
  SIATTN_F64 = 4, /* the backend "reference" only */
  SIATTN_I8 = 5   /* key and value of a cache only, each row with a scale */
};

/* Element (b, h, i, d) lies at data + (b, h, i, d) . strides, in elements. The innermost stride is 1; all four 0 stand
 * for those of a dense row-major tensor. Inputs are not written. All zero: absent, where that is allowed. */
typedef struct siattn_tensor {
  void* data;
  siattn_dtype dtype;
  int32_t reserved; /* 0, as every member of this name */
  int64_t shape[4];
  int64_t strides[4];
} siattn_tensor;

/* One value for all query heads (count 1), or one for each; count 0: the default. */
typedef struct siattn_per_head {
  const double* values;
  int64_t count;
} siattn_per_head;

/* count 0: absent. */
typedef struct siattn_int64s {
  const int64_t* values;
  int64_t count;
} siattn_int64s;

/* Cumulative lengths c_0 = 0 <= c_1 <= .. <= c_n of n sequences that lie behind each other; count is n + 1, 0: absent.
 * values are int32_t or int64_t, as bits says: 32 or 64. */
typedef struct siattn_cumulative {
  const void* values;
  int64_t count;
  int32_t bits;
  int32_t reserved;
} siattn_cumulative;

/* Key j of sequence b lies in slot j % page_size of page pages[b * stride + j / page_size]; page_size is a power of
 * two, stride the number of entries that a sequence may have. All zero: no pages. */
typedef struct siattn_page_table {
  const int32_t* pages;
  int64_t stride;
  int64_t page_size;
} siattn_page_table;

/* ---- The problem ----------------------------------------------------------------------------------------------- */

typedef int32_t siattn_mask;
enum { SIATTN_CAUSAL = 0, SIATTN_BIDIRECTIONAL = 1 };

typedef int32_t siattn_transform;
enum {
  SIATTN_SCALE_INVARIANT = 0, /* tau, alpha, beta */
  SIATTN_NO_TRANSFORM = 1,
  SIATTN_LOGN = 2,      /* logn_scale */
  SIATTN_INFOSCALE = 3, /* train_length */
  SIATTN_ALIBI = 4      /* slopes */
};

/* Flags of a siattn_problem: members for which 0 is a value like others. */
enum { SIATTN_HAS_QUERY_OFFSET = 1, SIATTN_HAS_SOFTMAX_SCALE = 2 };

/* AttentionProblem: shape, types and options. For ragged and paged batches the most that a run may bring. */
typedef struct siattn_problem {
  size_t struct_size;
  siattn_dtype dtype;
  siattn_dtype kv_dtype; /* of key and value: dtype (the same as 0) or SIATTN_I8 */
  int64_t batch, query_heads, kv_heads, query_len, kv_len, head_dim, value_dim;
  siattn_mask mask;
  siattn_transform transform;
  uint32_t flags; /* SIATTN_HAS_... */
  int32_t reserved;
  int64_t window;             /* keys at distance t < window only; 0: all */
  int64_t n_sink;             /* so many keys, from position 0 on, are left untransformed */
  int64_t query_offset;       /* position of query 0; without the flag kv length - query length, per sequence */
  double softmax_scale;       /* without the flag 1 / sqrt(head_dim) */
  siattn_per_head tau;        /* default 10 */
  double alpha, beta;         /* 0: e^(1/2) */
  siattn_per_head logn_scale; /* default 0.4 */
  double train_length;        /* 0: 4096 */
  siattn_per_head slopes;     /* default: the published rule */
  siattn_per_head calibration_mean, calibration_standard_deviation; /* of the base logits; default 0 and 1 */
} siattn_problem;

/* The tensors of one run. Arrays of lengths, offsets and pages are in host memory. */
typedef struct siattn_tensors {
  size_t struct_size;
  siattn_tensor query, key, value, out;
  siattn_tensor lse;                    /* absent: not wanted */
  siattn_tensor key_scale, value_scale; /* F32, one element a row: with I8 keys and values */
  siattn_int64s query_lengths, kv_lengths;
  siattn_cumulative cu_query, cu_kv;
  siattn_page_table pages;
  siattn_int64s query_offsets; /* per sequence, in place of the problem's */
  void* stream;                /* a CUDA stream; other backends do not look at it */
} siattn_tensors;

/* Tables that plans share: see TableCache. */
typedef struct siattn_table_cache siattn_table_cache;

/* How it is computed; NULL in place of it, or what is left 0: SIATTN_BACKEND, SIATTN_NUM_THREADS, or the best. */
typedef struct siattn_execution {
  size_t struct_size;
  const char* backend; /* a name or a family: "cpu-avx2", "cpu", "reference" */
  int32_t threads;
  int32_t reserved;
  const siattn_table_cache* table_cache;
} siattn_execution;

SIATTN_EXPORT siattn_status siattn_table_cache_create(siattn_table_cache** cache, siattn_message* message);
SIATTN_EXPORT void siattn_table_cache_destroy(siattn_table_cache* cache); /* plans made with it keep their tables */

/* ---- Plan, then run -------------------------------------------------------------------------------------------- */

typedef struct siattn_plan siattn_plan;

SIATTN_EXPORT siattn_status siattn_plan_create(const siattn_problem* problem, const siattn_execution* execution,
                                               siattn_plan** plan, siattn_message* message);
SIATTN_EXPORT void siattn_plan_destroy(siattn_plan* plan);

SIATTN_EXPORT const char* siattn_plan_backend(const siattn_plan* plan);
SIATTN_EXPORT size_t siattn_plan_workspace_bytes(const siattn_plan* plan); /* of any alignment */

SIATTN_EXPORT siattn_status siattn_plan_run(const siattn_plan* plan, const siattn_tensors* tensors, void* workspace,
                                            size_t workspace_bytes, siattn_message* message);

/* The index-th of count shares of it, in the calling thread alone: see AttentionPlan::run_slice. */
SIATTN_EXPORT siattn_status siattn_plan_run_slice(const siattn_plan* plan, const siattn_tensors* tensors,
                                                  void* workspace, size_t workspace_bytes, int32_t index, int32_t count,
                                                  siattn_message* message);

/* Plans and runs once. The options are those of the problem (NULL: the defaults), whose extents and types are not
 * looked at: they are those of the tensors. */
SIATTN_EXPORT siattn_status siattn_attention(const siattn_tensors* tensors, const siattn_problem* problem,
                                             const siattn_execution* execution, siattn_message* message);

/* ---- Position encodings ------------------------------------------------------------------------------------------ */

typedef int32_t siattn_encoding_kind;
enum {
  SIATTN_NO_ENCODING = 0,
  SIATTN_ROPE = 1,                /* base */
  SIATTN_PARTIAL_ROPE = 2,        /* rotary_dim, base */
  SIATTN_P_ROPE = 3,              /* p, base */
  SIATTN_HALF_TRUNCATED_ROPE = 4, /* effective_base */
  SIATTN_NTK_ROPE = 5,            /* factor, base */
  SIATTN_DYNAMIC_NTK_ROPE = 6,    /* train_length, length, base */
  SIATTN_YARN = 7                 /* factor, train_length, beta_fast, beta_slow, magnitude, base */
};

typedef int32_t siattn_pair_layout;
enum { SIATTN_PAIRS_HALF = 0, SIATTN_PAIRS_INTERLEAVED = 1 };

/* PositionEncoding. Members that the kind does not name are not looked at. */
typedef struct siattn_encoding {
  size_t struct_size;
  siattn_encoding_kind kind;
  siattn_pair_layout layout;
  double base;           /* 0: 10000 */
  double effective_base; /* 0: 1024 */
  double p;
  double factor;
  double beta_fast, beta_slow; /* 0: 32 and 1 */
  double magnitude;            /* 0: 0.1 ln(factor) + 1 */
  int64_t rotary_dim;
  int64_t train_length, length; /* 0: 4096 */
} siattn_encoding;

/* Rotates in into out, which may be the same tensor. positions has one for each token, shared by the sequences, or
 * batch * len of them; with count 0 token i stands at first_position + i. */
SIATTN_EXPORT siattn_status siattn_encode(const siattn_encoding* encoding, const siattn_tensor* in,
                                          const siattn_tensor* out, int64_t first_position, siattn_int64s positions,
                                          siattn_message* message);

/* Writes the frequencies of the pairs and how many there are, at most head_dim / 2; frequencies holds capacity. */
SIATTN_EXPORT siattn_status siattn_pair_frequencies(const siattn_encoding* encoding, int64_t head_dim,
                                                    double* frequencies, int64_t capacity, int64_t* count,
                                                    siattn_message* message);

/* ---- KV cache -------------------------------------------------------------------------------------------------- */

/* KvCacheView: paged where it has a page table, else contiguous. */
typedef struct siattn_kv_cache {
  size_t struct_size;
  siattn_tensor key, value;
  siattn_tensor key_scale, value_scale; /* F32, one element a row: with I8 keys and values */
  siattn_page_table pages;
} siattn_kv_cache;

/* KvTokens: the new tokens of some sequences. */
typedef struct siattn_kv_tokens {
  size_t struct_size;
  siattn_tensor key, value;
  siattn_cumulative cu_tokens; /* absent: as many for each sequence */
} siattn_kv_tokens;

/* Writes new tokens behind the lengths[b] that sequence b has; the caller keeps count. With an encoding (NULL: none)
 * keys are rotated first, at their positions. */
SIATTN_EXPORT siattn_status siattn_kv_append(const siattn_kv_cache* cache, const siattn_kv_tokens* tokens,
                                             siattn_int64s lengths, const siattn_encoding* encoding,
                                             siattn_message* message);

/* Sets what attention reads: key, value, scales, pages and kv_lengths of the tensors (after an append: with the new
 * tokens). The cache's memory and the lengths must outlive the run. */
SIATTN_EXPORT siattn_status siattn_kv_read_from(const siattn_kv_cache* cache, siattn_int64s lengths,
                                                siattn_tensors* tensors, siattn_message* message);

/* ---- Introspection --------------------------------------------------------------------------------------------- */

/* See <siattn/introspection.hpp>: logits, weights and where attention falls by distance, of chosen query rows. */
typedef struct siattn_query_index {
  int64_t sequence, head, query;
} siattn_query_index;

enum { SIATTN_DISTANCE_DECADES = 11 };

typedef struct siattn_decade_share {
  int64_t keys;
  double mass, entropy;
} siattn_decade_share;

typedef struct siattn_row_summary {
  int64_t keys;
  double max_logit, lse, entropy, sink_mass;
  siattn_decade_share decades[SIATTN_DISTANCE_DECADES]; /* distance 0, 1 .. 9, 10 .. 99, ... */
} siattn_row_summary;

/* Which rows, and what of them; at least one of the three outputs. */
typedef struct siattn_introspection {
  size_t struct_size;
  const siattn_query_index* rows;
  int64_t row_count;
  siattn_row_summary* summaries; /* row_count of them; NULL: not wanted */
  siattn_tensor logits, weights; /* F32 or F64, [1, 1, row_count, at least the keys]; absent: not wanted */
} siattn_introspection;

/* Reads query and key of the tensors. Options as for siattn_attention(); threads 0: as many as OpenMP would use. */
SIATTN_EXPORT siattn_status siattn_introspect(const siattn_tensors* tensors, const siattn_problem* problem,
                                              const siattn_introspection* introspection, int32_t threads,
                                              siattn_message* message);

/* ---- What there is --------------------------------------------------------------------------------------------- */

/* The backends that were built, best first. */
SIATTN_EXPORT int32_t siattn_backend_count(void);
SIATTN_EXPORT const char* siattn_backend_name(int32_t index); /* NULL past the end */

/* SIATTN_OK, or why it cannot run here and now. */
SIATTN_EXPORT siattn_status siattn_backend_available(int32_t index, siattn_message* message);

/* The published slopes of ALiBi: heads of them. */
SIATTN_EXPORT siattn_status siattn_alibi_slopes(int32_t heads, double* slopes, siattn_message* message);

#ifdef __cplusplus
}
#endif

#endif /* SIATTN_SIATTN_H */
