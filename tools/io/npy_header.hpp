// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_TOOLS_IO_NPY_HEADER_HPP
#define SIATTN_TOOLS_IO_NPY_HEADER_HPP

#include <string>
#include <string_view>

#include <siattn/status.hpp>

#include "tools/io/tensor.hpp"

namespace siattn::io {

/// What the dictionary at the start of an .npy file says.
struct NpyHeader {
  DType dtype = DType::float32;
  bool big_endian = false;
  bool fortran_order = false;
  Shape shape;
};

/// Reads the dictionary, a Python literal such as {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, with the
/// white space after it. Exactly these three keys, in any order. An error names the byte or the value that is wrong; a
/// type that is no floating-point number of 16, 32 or 64 bits has code unsupported.
///
/// numpy has no bfloat16: the package ml_dtypes writes it as '<V2', two bytes of no known meaning, which numpy writes
/// on as '|V2'. Both are read as bfloat16.
Result<NpyHeader> parse_npy_header(std::string_view text);

/// The dictionary for a dense row-major little-endian tensor, without the white space after it.
std::string npy_header_text(DType dtype, const Shape& shape);

}  // namespace siattn::io

#endif  // SIATTN_TOOLS_IO_NPY_HEADER_HPP
