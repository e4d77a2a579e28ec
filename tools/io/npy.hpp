// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_TOOLS_IO_NPY_HPP
#define SIATTN_TOOLS_IO_NPY_HPP

#include <string>

#include <siattn/status.hpp>

#include "tools/io/file.hpp"
#include "tools/io/tensor.hpp"

/// The file format of numpy.save, one tensor a file.
namespace siattn::io {

/// Reads versions 1.0, 2.0 and 3.0; see parse_npy_header for the types. Big-endian and column-major (fortran_order)
/// files give the same values as their usual forms. The size that the header tells must be exactly that of the file,
/// and is compared before the tensor's memory is taken. Every error begins with the path.
Result<Tensor> read_npy(const std::string& path);

/// Writes version 1.0, row-major, little-endian, the data 64-byte aligned in the file; bfloat16 as '<V2'. An error
/// beyond 32 axes: numpy reads no more.
Status write_npy(AtomicFile& file, const Tensor& tensor);

}  // namespace siattn::io

#endif  // SIATTN_TOOLS_IO_NPY_HPP
