/* SPDX-License-Identifier: Apache-2.0 */
/* The library is compiled with hidden visibility: what its public headers declare, and nothing else, is exported. */
#ifndef SIATTN_EXPORT_H
#define SIATTN_EXPORT_H

#define SIATTN_EXPORT __attribute__((visibility("default")))

#endif /* SIATTN_EXPORT_H */
