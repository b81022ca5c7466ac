#include "ir/device_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/device_subsets.h"
#include "ir/named_sharding.h"

namespace gshard {
namespace {

constexpr size_t kMaxMeshAxes = 256;

int64_t ProductOf(std::span<const int64_t> values) {
  int64_t product = 1;
  for (int64_t value : values) product *= value;
  return product;
}

void AppendIntegers(std::string& out, std::span<const int64_t> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += ',';
    AppendInteger(out, values[i]);
  }
}

void AppendQuoted(std::string& out, std::string_view name) {
  out += '\'';
  for (char c : name) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  out += '\'';
}

}  // namespace

bool DeviceTextReader::Fail(const char* start, const char* end, std::string message) {
  if (failed_) return false;
  failed_ = true;
  const char* begin = lex.text().data();
  error_.offset = static_cast<size_t>(start - begin);
  error_.length = std::max<size_t>(static_cast<size_t>(end - start), 1);
  error_.message = std::move(message);
  return false;
}

bool DeviceTextReader::FailHere(std::string message) {
  if (lex.AtEnd() && lex.unclosed_comment() != nullptr) {
    return Fail(lex.unclosed_comment(), lex.unclosed_comment() + 2, "comment is not closed");
  }
  return Fail(lex.position(), lex.position(), std::move(message));
}

bool DeviceTextReader::Expect(char c, std::string_view expected) {
  if (lex.Consume(c)) return true;
  return FailHere(fmt::format("expected {}", expected));
}

bool DeviceTextReader::ExpectEnd() {
  return lex.AtEnd() && lex.unclosed_comment() == nullptr ? true : FailHere("text after the end");
}

bool DeviceTextReader::Integer(int64_t& value, int64_t low, int64_t high, std::string_view what) {
  lex.SkipSpace();
  const char* start = lex.position();
  const Lexer::Number number = lex.Integer(value);
  if (number == Lexer::Number::kNone) return FailHere(fmt::format("expected {}", what));
  const char* end = start;
  while (end < lex.end() && (*end == '-' || HasClass(*end, kDigit))) ++end;
  if (number == Lexer::Number::kTooLarge || value > high) {
    return Fail(start, end, fmt::format("{} is too large, at most {} is possible", what, high));
  }
  if (value < low) return Fail(start, end, fmt::format("{} must be at least {}", what, low));
  return true;
}

bool DeviceTextReader::IntegerList(std::vector<int64_t>& values, int64_t low, int64_t high,
                                   char close, std::string_view what) {
  do {
    int64_t value = 0;
    if (!Integer(value, low, high, what)) return false;
    values.push_back(value);
  } while (lex.Consume(','));
  return Expect(close, fmt::format("',' or '{}'", close));
}

bool DeviceTextReader::Dims(std::vector<int64_t>& dims, std::string_view what) {
  if (!Expect('[', fmt::format("'[' and {}", what))) return false;
  const char* start = lex.position() - 1;
  if (!IntegerList(dims, 1, TileAssignment::kMaxDevices, ']', "a size")) return false;
  int64_t product = 1;
  for (int64_t dim : dims) {
    product *= dim;  // both factors are at most 2^20
    if (product > TileAssignment::kMaxDevices) {
      return Fail(start, lex.position(),
                  fmt::format("more than {} devices", TileAssignment::kMaxDevices));
    }
  }
  return true;
}

bool DeviceTextReader::IotaOrder(int64_t devices, std::vector<int64_t>& reshape_dims,
                                 std::vector<int64_t>& permutation) {
  lex.SkipSpace();
  const char* start = lex.position();
  if (!Dims(reshape_dims, "the sizes of the iota")) return false;
  if (ProductOf(reshape_dims) != devices) {
    return Fail(
        start, lex.position(),
        fmt::format("the iota has {} devices, the dims have {}", ProductOf(reshape_dims), devices));
  }
  if (reshape_dims.size() == 1) {
    permutation = {0};
    if (lex.Peek() == 'T') return FailHere("an iota of one dim takes no transpose T(..)");
    return true;
  }
  lex.SkipSpace();
  start = lex.position();
  if (!lex.Consume('T') || !lex.Consume('(')) {
    return Fail(start, start, "expected the transpose T(..) of an iota of several dims");
  }
  if (!IntegerList(permutation, 0, INT64_MAX, ')', "a dim number")) return false;
  if (permutation.size() != reshape_dims.size() || !TileAssignment::IsPermutation(permutation)) {
    return Fail(start, lex.position(),
                fmt::format("not a permutation of the dims 0 to {}", reshape_dims.size() - 1));
  }
  return true;
}

bool DeviceTextReader::DeviceList(int64_t devices, bool all, std::vector<int64_t>& list) {
  lex.SkipSpace();
  const char* start = lex.position();
  do {
    int64_t device = 0;
    if (!Integer(device, 0, TileAssignment::kMaxDevices - 1, "a device number")) return false;
    list.push_back(device);
  } while (lex.Consume(','));
  if (static_cast<int64_t>(list.size()) != devices) {
    return Fail(start, lex.position(),
                fmt::format("{} devices are listed, the dims have {}", list.size(), devices));
  }
  if (const auto repeated = FirstRepeated(list)) {
    return Fail(start, lex.position(), fmt::format("device {} is listed twice", *repeated));
  }
  if (all && !TileAssignment::IsPermutation(list)) {
    return Fail(start, lex.position(),
                fmt::format("not every device from 0 to {} is listed once", devices - 1));
  }
  return true;
}

bool DeviceTextReader::QuotedName(std::string& name, std::string_view what) {
  const std::string_view quoted = lex.String();
  if (quoted.empty()) return FailHere(fmt::format("expected {} in quotes", what));
  if (quoted.size() == 2) return Fail(quoted, fmt::format("{} must not be empty", what));
  name.clear();
  for (size_t i = 1; i + 1 < quoted.size(); ++i) {
    if (quoted[i] == '\\' && i + 2 < quoted.size()) ++i;
    name += quoted[i];
  }
  return true;
}

bool DeviceTextReader::MeshBody(Mesh& mesh) {
  if (!Expect('[', "'[' and the axes of the mesh")) return false;
  const char* start = lex.position() - 1;
  std::vector<int64_t> sizes;
  int64_t product = 1;
  if (!lex.Consume(']')) {
    do {
      lex.SkipSpace();
      const char* axis_start = lex.position();
      MeshAxis axis;
      if (!QuotedName(axis.name, "an axis name")) return false;
      if (mesh.FindAxis(axis.name) >= 0) {
        return Fail(axis_start, lex.position(),
                    fmt::format("the mesh has two axes '{}'", axis.name));
      }
      if (!Expect('=', "'=' and the size of the axis") ||
          !Integer(axis.size, 1, TileAssignment::kMaxDevices, "the size of an axis")) {
        return false;
      }
      product *= axis.size;
      if (product > TileAssignment::kMaxDevices) {
        return Fail(start, lex.position(),
                    fmt::format("more than {} devices", TileAssignment::kMaxDevices));
      }
      if (mesh.axes.size() == kMaxMeshAxes) {
        return Fail(axis_start, lex.position(), fmt::format("more than {} axes", kMaxMeshAxes));
      }
      sizes.push_back(axis.size);
      mesh.axes.push_back(std::move(axis));
    } while (lex.Consume(','));
    if (!Expect(']', "',' or ']'")) return false;
  }
  mesh.devices = TileAssignment::Iota(sizes);
  const char* end = lex.position();
  if (lex.Consume(',') && lex.ConsumeWord("device_ids")) {
    return Expect('=', "'='") && DeviceIds(mesh);
  }
  lex.set_position(end);
  return true;
}

bool DeviceTextReader::DeviceIds(Mesh& mesh) {
  const int64_t devices = mesh.device_count();
  const std::vector<int64_t> sizes(mesh.devices.dims().begin(), mesh.devices.dims().end());
  const TileAssignment plain = TileAssignment::Iota(sizes);
  if (!Expect('(', "'(' and the device numbers")) return false;
  std::string text = "(";
  if (lex.Peek() == '[') {
    std::vector<int64_t> reshape_dims, permutation;
    if (!IotaOrder(devices, reshape_dims, permutation)) return false;
    mesh.devices = TileAssignment::Iota(sizes, reshape_dims, permutation);
    text += '[';
    AppendIntegers(text, reshape_dims);
    text += "]T(";
    AppendIntegers(text, permutation);
    text += ')';
  } else {
    std::vector<int64_t> list;
    if (!DeviceList(devices, /*all=*/true, list)) return false;
    AppendIntegers(text, list);
    mesh.devices = TileAssignment::List(sizes, std::move(list));
  }
  text += ')';
  // XLA rejects a list that says what the plain iota says.
  mesh.device_ids_text = mesh.devices == plain ? "" : text;
  return Expect(')', "')'");
}

bool DeviceTextReader::Axis(const Mesh& mesh, AxisRef& ref) {
  lex.SkipSpace();
  const char* start = lex.position();
  std::string name;
  if (!QuotedName(name, "an axis name")) return false;
  ref.axis = mesh.FindAxis(name);
  if (ref.axis < 0) {
    std::string known;
    for (const MeshAxis& axis : mesh.axes) {
      known += fmt::format("{}'{}'", known.empty() ? "" : ", ", axis.name);
    }
    return Fail(
        start, lex.position(),
        fmt::format("the mesh has no axis '{}'; it has {}", name, known.empty() ? "none" : known));
  }
  ref.pre_size = 1;
  ref.size = mesh.axes[static_cast<size_t>(ref.axis)].size;
  if (!lex.Consume(':')) return true;
  const int64_t axis_size = ref.size;
  if (!Expect('(', "'(' and what is major to the part") ||
      !Integer(ref.pre_size, 1, axis_size, "what is major to the part") || !Expect(')', "')'") ||
      !Integer(ref.size, 1, axis_size, "the size of the part")) {
    return false;
  }
  if (axis_size % (ref.pre_size * ref.size) != 0) {
    return Fail(start, lex.position(),
                fmt::format("{} * {} does not divide the size of the axis, {}", ref.pre_size,
                            ref.size, axis_size));
  }
  return true;
}

bool DeviceTextReader::AxisList(const Mesh& mesh, std::vector<AxisRef>& refs,
                                std::vector<AxisRef>& used, bool* open) {
  if (!Expect('{', "'{' and a list of axes")) return false;
  if (lex.Consume('}')) return true;
  do {
    if (open != nullptr && lex.Consume('?')) {
      *open = true;
      break;
    }
    lex.SkipSpace();
    const char* start = lex.position();
    AxisRef ref;
    if (!Axis(mesh, ref)) return false;
    if (std::string why = WhyAxisConflicts(mesh, used, ref); !why.empty()) {
      return Fail(start, lex.position(), std::move(why));
    }
    used.push_back(ref);
    refs.push_back(ref);
  } while (lex.Consume(','));
  return Expect('}', "',' or '}'");
}

void AppendInteger(std::string& out, int64_t value) {
  const fmt::format_int text(value);
  out.append(text.data(), text.size());
}

void AppendMeshBody(std::string& out, const Mesh& mesh) {
  out += '[';
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    if (i > 0) out += ',';
    AppendQuoted(out, mesh.axes[i].name);
    out += '=';
    AppendInteger(out, mesh.axes[i].size);
  }
  out += ']';
  if (!mesh.device_ids_text.empty()) {
    out += ", device_ids=";
    out += mesh.device_ids_text;
  }
}

void AppendAxes(std::string& out, const Mesh& mesh, std::span<const AxisRef> refs,
                std::string_view separator, bool open) {
  out += '{';
  for (size_t i = 0; i < refs.size(); ++i) {
    if (i > 0) out += separator;
    out += ToString(mesh, refs[i]);
  }
  if (open) {
    if (!refs.empty()) out += separator;
    out += '?';
  }
  out += '}';
}

}  // namespace gshard
