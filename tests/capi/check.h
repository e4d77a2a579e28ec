/* SPDX-License-Identifier: Apache-2.0 */
/* What the C programs of this folder say when something is not as it should be, and how they end. */
#ifndef SIATTN_TESTS_CAPI_CHECK_H
#define SIATTN_TESTS_CAPI_CHECK_H

#include <stdio.h>
#include <string.h>

#include <siattn/siattn.h>

static int failures = 0;
static siattn_message message;

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      ++failures;                                                     \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
    }                                                                 \
  } while (0)

/* The call gives this status, and a message that holds these words; none after success. */
#define EXPECT(status, words, call)                                                                                   \
  do {                                                                                                                \
    const siattn_status status_ = (call);                                                                             \
    if (status_ != (status) || strstr(message.text, (words)) == NULL ||                                               \
        (status_ == SIATTN_OK) != (*message.text == 0)) {                                                             \
      ++failures;                                                                                                     \
      fprintf(stderr, "%s:%d: %s: %s: '%s', expected '%s'\n", __FILE__, __LINE__, #call, siattn_status_name(status_), \
              message.text, (words));                                                                                 \
    }                                                                                                                 \
  } while (0)

#define EXPECT_OK(call) EXPECT(SIATTN_OK, "", call)
#define EXPECT_INVALID(words, call) EXPECT(SIATTN_INVALID_ARGUMENT, words, call)

static int finish(void) {
  if (failures == 0) printf("all good\n");
  return failures == 0 ? 0 : 1;
}

#endif /* SIATTN_TESTS_CAPI_CHECK_H */
