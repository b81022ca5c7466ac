// NumPy's array file format, version 1 to 3 headers read, version 1 (2 for long headers) written.
//
// Element types NumPy does not know (bfloat16, 8-bit and smaller floats, 4-bit integers) are raw
// bytes "|V2" and "|V1", as NumPy with ml_dtypes stores them.
#ifndef GSHARD_BACKENDS_CPU_IO_NPY_H_
#define GSHARD_BACKENDS_CPU_IO_NPY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/diagnostic.h"
#include "ir/dtype.h"

namespace gshard::cpu {

struct NpyArray {
  std::string descr;          // "<f4", "|V2", ..
  std::vector<int64_t> dims;  // row-major
  std::vector<std::byte> data;
};

// What stands before the data.
struct NpyHeader {
  std::string descr;
  std::vector<int64_t> dims;
  bool fortran_order = false;
  size_t data_begin = 0;  // bytes from the start of the file
  size_t data_bytes = 0;
};
// Bytes of the header, from the first kNpyPrefixBytes of a file.
inline constexpr size_t kNpyPrefixBytes = 12;
Expected<size_t> NpyHeaderBytes(std::span<const std::byte> file, const std::string& name);
// `file` is the header or more.
Expected<NpyHeader> ParseNpyHeader(std::span<const std::byte> file, const std::string& name);

// Are such data, as they lie in the file, what a run reads as `dtype`?
bool LiesAsRead(const NpyHeader& header, DType dtype);

// `name` stands in errors (E-NPY-*). Fortran order is turned into row-major and big-endian types
// into little-endian ones. The file ends with the data.
Expected<NpyArray> ParseNpy(std::span<const std::byte> file, const std::string& name);
// `data` must have the elements of `dims` at StorageBytes(dtype) each.
std::vector<std::byte> FormatNpy(DType dtype, std::span<const int64_t> dims,
                                 std::span<const std::byte> data);
// What stands before the data there.
std::string FormatNpyHeader(DType dtype, std::span<const int64_t> dims);
std::string NpyDescr(DType dtype);

// The array's elements as `dtype`: the same bytes if the types agree (raw bytes of the right size
// agree with any type), else converted number by number. Errors: types that do not convert, and
// integers as wide as a float that NumPy does not know (bf16, 8 bits), which may be its bits.
Expected<std::vector<std::byte>> ConvertNpy(NpyArray array, DType dtype, const std::string& name);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_IO_NPY_H_
