// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_REFERENCE_REAL_HPP
#define SIATTN_REFERENCE_REAL_HPP

#include <boost/multiprecision/mpfr.hpp>

/// The two wide types at which the equations are evaluated. A result counts as known where both agree: an error of
/// rounding shrinks by 50 digits from one to the other, an error of the formula stays.
namespace siattn::reference {

/// 50 and 100 decimal digits (168 and 335 bits), each operation and elementary function correctly rounded by MPFR.
/// Expression templates are off, so that `auto` and templates see plain values.
using Real50 =
    boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<50>, boost::multiprecision::et_off>;
using Real100 =
    boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<100>, boost::multiprecision::et_off>;

}  // namespace siattn::reference

#endif  // SIATTN_REFERENCE_REAL_HPP
