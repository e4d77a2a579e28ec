// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <vector>

#include <siattn/attention.hpp>

int main() {
  constexpr int heads = 8, kv_heads = 2, len = 1024, dim = 64;
  std::vector<float> query(heads * len * dim, 0.1f), key(kv_heads * len * dim, 0.1f), value(key), out(query.size());
  siattn::AttentionTensors tensors;
  tensors.query = {query.data(), {1, heads, len, dim}};
  tensors.key = {key.data(), {1, kv_heads, len, dim}};
  tensors.value = {value.data(), {1, kv_heads, len, dim}};
  tensors.out = {out.data(), {1, heads, len, dim}};
  const siattn::Status status = siattn::attention(tensors);  // causal, scale-invariant with tau = 10
  if (!status) return std::fprintf(stderr, "%s\n", status.message().c_str()), 1;
  std::printf("out[0, 0, %d, 0] = %g\n", len - 1, out[(len - 1) * dim]);
}
