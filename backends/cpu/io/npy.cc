// Reading and writing of .npy: a magic number, a Python dict as text, raw data.
#include "backends/cpu/io/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "ir/literal.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kHeaderAlignment = 64;
constexpr size_t kMaxHeaderBytes = 1 << 20;  // plain arrays need hundreds

tl::unexpected<Diagnostic> NpyError(const std::string& name, std::string message) {
  return Fail(MakeError("E-NPY-FORMAT", fmt::format("{}: {}", name, message)));
}

// The text after 'key': in the header's dict; empty if absent.
std::string_view DictValue(std::string_view dict, std::string_view key) {
  const std::string quoted = fmt::format("'{}'", key);
  size_t at = dict.find(quoted);
  if (at == std::string_view::npos) return {};
  at = dict.find(':', at + quoted.size());
  if (at == std::string_view::npos) return {};
  ++at;
  while (at < dict.size() && dict[at] == ' ') ++at;
  return dict.substr(at);
}

int64_t ElementCount(std::span<const int64_t> dims) {
  int64_t count = 1;
  for (int64_t dim : dims) {
    if (dim < 0 || (dim > 0 && count > std::numeric_limits<int64_t>::max() / dim / 16)) return -1;
    count *= dim;
  }
  return count;
}

void ReorderFortran(NpyArray& array, size_t element_bytes) {
  const size_t rank = array.dims.size();
  std::vector<std::byte> data(array.data.size());
  std::vector<int64_t> index(rank, 0), stride(rank, 1);
  for (size_t i = 1; i < rank; ++i) stride[i] = stride[i - 1] * array.dims[i - 1];
  const int64_t count = ElementCount(array.dims);
  for (int64_t flat = 0; flat < count; ++flat) {
    int64_t from = 0;
    for (size_t i = 0; i < rank; ++i) from += index[i] * stride[i];
    std::memcpy(data.data() + static_cast<size_t>(flat) * element_bytes,
                array.data.data() + static_cast<size_t>(from) * element_bytes, element_bytes);
    for (size_t i = rank; i-- > 0;) {
      if (++index[i] < array.dims[i]) break;
      index[i] = 0;
    }
  }
  array.data = std::move(data);
}

int64_t ItemSize(std::string_view descr) {
  int64_t size = 0;
  if (descr.size() < 3) return 0;
  std::from_chars(descr.data() + 2, descr.data() + descr.size(), size);
  return size;
}

void SwapBytes(NpyArray& array) {
  const bool complex = array.descr[1] == 'c';
  const auto bytes = static_cast<ptrdiff_t>(ItemSize(array.descr) / (complex ? 2 : 1));
  for (auto at = array.data.begin(); at != array.data.end(); at += bytes) {
    std::reverse(at, at + bytes);
  }
  array.descr[0] = '<';
}

struct Number {
  bool is_float = false;
  int64_t integer = 0;  // of floats: cut off, within its range
  double real = 0;
};

// What lies beyond the range, and NaN, is not defined by the language.
int64_t CutOff(double real) {
  constexpr double kEnd = 0x1p63;
  if (std::isnan(real)) return 0;
  if (real >= kEnd) return std::numeric_limits<int64_t>::max();
  return real < -kEnd ? std::numeric_limits<int64_t>::min() : static_cast<int64_t>(real);
}

Number ReadNumber(std::string_view descr, const std::byte* at) {
  auto read = [at](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  auto integer = [](auto value) {
    return Number{false, static_cast<int64_t>(value), static_cast<double>(value)};
  };
  auto real = [](double value) { return Number{true, CutOff(value), value}; };
  const std::string_view type = descr.substr(1);
  if (type == "b1" || type == "u1") return integer(read(uint8_t{}));
  if (type == "i1") return integer(read(int8_t{}));
  if (type == "i2") return integer(read(int16_t{}));
  if (type == "u2") return integer(read(uint16_t{}));
  if (type == "i4") return integer(read(int32_t{}));
  if (type == "u4") return integer(read(uint32_t{}));
  if (type == "i8") return integer(read(int64_t{}));
  if (type == "u8") return integer(read(uint64_t{}));
  if (type == "f2") return real(DecodeSmallFloat(DType::kF16, read(uint16_t{})));
  if (type == "f4") return real(static_cast<double>(read(float{})));
  return real(read(double{}));
}

void WriteNumber(DType dtype, const Number& number, std::byte* at) {
  const double real = number.real;
  const int64_t integer = number.integer;
  auto write = [at](auto value) { std::memcpy(at, &value, sizeof value); };
  switch (dtype) {
    case DType::kPred:
      write(static_cast<uint8_t>(real != 0));
      return;
    case DType::kF32:
      write(static_cast<float>(real));
      return;
    case DType::kF64:
      write(real);
      return;
    default:
      break;
  }
  const int bytes = StorageBytes(dtype);
  if (IsFloat(dtype)) {
    const uint16_t bits = EncodeSmallFloat(dtype, real);
    std::memcpy(at, &bits, static_cast<size_t>(bytes));
  } else {
    std::memcpy(at, &integer, static_cast<size_t>(bytes));
  }
}

// Kernels count on truth values of 0 and 1 and on narrow integers within their range, one a byte.
bool IsCanonical(DType dtype) {
  return dtype != DType::kPred && (DTypeBits(dtype) >= 8 || IsFloat(dtype));
}

void MakeCanonical(DType dtype, std::span<std::byte> data) {
  if (IsCanonical(dtype)) return;
  const int bits = DTypeBits(dtype);
  for (std::byte& byte : data) {
    const auto value = static_cast<uint8_t>(byte);
    if (dtype == DType::kPred) {
      byte = std::byte{value != 0};
    } else if (ClassOf(dtype) == DTypeClass::kSigned) {
      const auto shifted = static_cast<int8_t>(value << (8 - bits));
      byte = static_cast<std::byte>(shifted >> (8 - bits));
    } else {
      byte = static_cast<std::byte>(value & ((1 << bits) - 1));
    }
  }
}

}  // namespace

std::string NpyDescr(DType dtype) {
  switch (dtype) {
    case DType::kPred:
      return "|b1";
    case DType::kS8:
      return "|i1";
    case DType::kU8:
      return "|u1";
    case DType::kS16:
      return "<i2";
    case DType::kU16:
      return "<u2";
    case DType::kS32:
      return "<i4";
    case DType::kU32:
      return "<u4";
    case DType::kS64:
      return "<i8";
    case DType::kU64:
      return "<u8";
    case DType::kF16:
      return "<f2";
    case DType::kF32:
      return "<f4";
    case DType::kF64:
      return "<f8";
    case DType::kC64:
      return "<c8";
    case DType::kC128:
      return "<c16";
    default:
      return fmt::format("|V{}", StorageBytes(dtype));
  }
}

namespace {
// Does the file have the type, or raw bytes of its size?
bool IsSameType(const std::string& descr, DType dtype) {
  const char kind = descr.size() > 1 ? descr[1] : '?';
  // What ml_dtypes writes: 'f1' is its name of this one, 'V1' and 'V2' those of all others.
  if (dtype == DType::kF8E5M2 && descr.substr(1) == "f1") return true;
  return descr == NpyDescr(dtype) || (kind == 'V' && ItemSize(descr) == StorageBytes(dtype));
}
}  // namespace

bool LiesAsRead(const NpyHeader& header, DType dtype) {
  return !header.fortran_order && IsSameType(header.descr, dtype) && IsCanonical(dtype);
}

Expected<size_t> NpyHeaderBytes(std::span<const std::byte> file, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.size() < kNpyPrefixBytes || text.substr(0, 6) != kMagic) {
    return NpyError(name, "not a .npy array");
  }
  const auto major = static_cast<unsigned char>(text[6]);
  if (major < 1 || major > 3) {
    return NpyError(name, fmt::format("version {} of the format is not known", major));
  }
  const size_t digits = major == 1 ? 2 : 4;
  size_t length = 0;
  for (size_t i = 0; i < digits; ++i) {
    length |= static_cast<size_t>(static_cast<unsigned char>(text[8 + i])) << (8 * i);
  }
  if (length > kMaxHeaderBytes) return NpyError(name, "the header is cut off");
  return 8 + digits + length;
}

Expected<NpyHeader> ParseNpyHeader(std::span<const std::byte> file, const std::string& name) {
  auto bytes = GSHARD_TRY(NpyHeaderBytes(file, name));
  if (bytes > file.size()) return NpyError(name, "the header is cut off");
  const std::string_view dict(reinterpret_cast<const char*>(file.data()), bytes);
  NpyHeader header;
  header.data_begin = bytes;
  std::string_view descr = DictValue(dict, "descr");
  if (descr.size() < 2 || descr[0] != '\'' || descr.find('\'', 1) == std::string_view::npos) {
    return NpyError(name, "only plain arrays are read, no records");
  }
  header.descr = descr.substr(1, descr.find('\'', 1) - 1);
  std::string_view shape = DictValue(dict, "shape");
  if (shape.empty() || shape[0] != '(') return NpyError(name, "the header has no shape");
  for (size_t i = 1; i < shape.size() && shape[i] != ')';) {
    if (shape[i] == ' ' || shape[i] == ',') {
      ++i;
      continue;
    }
    int64_t dim = 0;
    auto [end, error] = std::from_chars(shape.data() + i, shape.data() + shape.size(), dim);
    if (error != std::errc())
      return NpyError(name, "the shape in the header is no tuple of numbers");
    header.dims.push_back(dim);
    i = static_cast<size_t>(end - shape.data());
  }
  const int64_t item = ItemSize(header.descr), count = ElementCount(header.dims);
  if (item <= 0 || item > 16 || count < 0) return NpyError(name, "unreasonable type or shape");
  header.data_bytes = static_cast<size_t>(item * count);
  header.fortran_order = DictValue(dict, "fortran_order").starts_with("True");
  return header;
}

Expected<NpyArray> ParseNpy(std::span<const std::byte> file, const std::string& name) {
  auto header = GSHARD_TRY(ParseNpyHeader(file, name));
  const size_t rest = file.size() - header.data_begin;
  if (rest < header.data_bytes) return NpyError(name, "the data is cut off");
  if (rest > header.data_bytes) {
    return NpyError(name, fmt::format("{} bytes follow the data", rest - header.data_bytes));
  }
  NpyArray array{std::move(header.descr), std::move(header.dims), {}};
  const auto data = file.subspan(header.data_begin);
  array.data.assign(data.begin(), data.end());
  if (array.descr[0] == '>') SwapBytes(array);
  if (header.fortran_order) {
    ReorderFortran(array, static_cast<size_t>(ItemSize(array.descr)));
  }
  return array;
}

std::string FormatNpyHeader(DType dtype, std::span<const int64_t> dims) {
  std::string shape;
  for (int64_t dim : dims) shape += fmt::format("{}, ", dim);
  if (dims.size() > 1) shape.resize(shape.size() - 2);
  if (dims.size() == 1) shape.resize(shape.size() - 1);
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                 NpyDescr(dtype), shape);
  const size_t prefix = dict.size() + 1 + 10 < 65536 ? 10 : 12;
  while ((prefix + dict.size() + 1) % kHeaderAlignment != 0) dict += ' ';
  dict += '\n';
  std::string head(kMagic);
  head += static_cast<char>(prefix == 10 ? 1 : 2);
  head += '\0';
  for (size_t i = 0; i < prefix - 8; ++i) head += static_cast<char>(dict.size() >> (8 * i) & 0xff);
  return head + dict;
}

std::vector<std::byte> FormatNpy(DType dtype, std::span<const int64_t> dims,
                                 std::span<const std::byte> data) {
  const std::string head = FormatNpyHeader(dtype, dims);
  std::vector<std::byte> file(head.size() + data.size());
  std::memcpy(file.data(), head.data(), head.size());
  if (!data.empty()) std::memcpy(file.data() + head.size(), data.data(), data.size());
  return file;
}

Expected<std::vector<std::byte>> ConvertNpy(NpyArray array, DType dtype, const std::string& name) {
  const int64_t item = ItemSize(array.descr);
  const int bytes = StorageBytes(dtype);
  if (IsSameType(array.descr, dtype)) {
    MakeCanonical(dtype, array.data);
    return std::move(array.data);
  }
  static constexpr std::string_view kNumbers[] = {"b1", "i1", "u1", "i2", "u2", "i4",
                                                  "u4", "i8", "u8", "f2", "f4", "f8"};
  const std::string_view type = std::string_view(array.descr).substr(1);
  if (std::find(std::begin(kNumbers), std::end(kNumbers), type) == std::end(kNumbers) ||
      IsComplex(dtype)) {
    return Fail(MakeError("E-NPY-TYPE", fmt::format("{}: elements of type {} do not convert to {}",
                                                    name, array.descr, DTypeName(dtype))));
  }
  if (item == bytes && (type[0] == 'i' || type[0] == 'u') && IsFloat(dtype) &&
      NpyDescr(dtype).starts_with("|V")) {
    return Fail(MakeError("E-NPY-TYPE",
                          fmt::format("{}: elements of type {} may be numbers or the bits of {}",
                                      name, array.descr, DTypeName(dtype)),
                          fmt::format("bits: x.view('V{}'); numbers: x.astype('float32')", bytes)));
  }
  const int64_t count = ElementCount(array.dims);
  std::vector<std::byte> data(static_cast<size_t>(count * bytes));
  for (int64_t i = 0; i < count; ++i) {
    const Number number = ReadNumber(array.descr, array.data.data() + i * item);
    WriteNumber(dtype, number, data.data() + i * bytes);
  }
  MakeCanonical(dtype, data);
  return data;
}

}  // namespace gshard::cpu
