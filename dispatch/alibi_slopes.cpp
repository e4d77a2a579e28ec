// SPDX-License-Identifier: Apache-2.0
#include "reference/equations.hpp"

namespace siattn {

std::vector<double> alibi_slopes(int heads) {
  std::vector<double> slopes;
  for (int h = 0; h < heads; ++h) slopes.push_back(reference::alibi_slope<double>(h, heads));
  return slopes;
}

}  // namespace siattn
