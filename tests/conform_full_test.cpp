// SPDX-License-Identifier: Apache-2.0
#include "tests/conform_figures.hpp"

namespace siattn::test {
namespace {

TEST(ConformFiguresFull, AllCasesStayWithinFourTimesTheRecord) { expect_figures_near_record(false); }

}  // namespace
}  // namespace siattn::test
