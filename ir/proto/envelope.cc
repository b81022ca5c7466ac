#include "ir/proto/envelope.h"

#include <algorithm>

#include "ir/proto/wire.h"

namespace gshard::proto {
namespace {

bool IsText(std::string_view bytes) {
  return !bytes.empty() && std::all_of(bytes.begin(), bytes.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
  });
}

// A computation begins with its name, and has instructions that begin with theirs.
bool IsComputation(std::string_view bytes) {
  bool named = false;
  FieldReader field(bytes);
  while (field.Next()) {
    if (field.number() == 1 && IsText(field.bytes())) named = true;
    if (field.number() == 2 && field.IsBytes() && named) return true;
    if (field.number() > 2) return false;
  }
  return false;
}

// {1 name, 2 entry_computation_name, 3 computations*}
bool IsModule(std::string_view bytes) {
  bool named = false;
  FieldReader field(bytes);
  while (field.Next()) {
    if (field.number() == 1 && IsText(field.bytes())) named = true;
    if (field.number() == 3) return named && IsComputation(field.bytes());
    if (field.number() > 3) return false;
  }
  return false;
}

// The fields of one number that are bytes.
std::vector<std::string_view> FieldsOf(std::string_view message, uint32_t number) {
  std::vector<std::string_view> fields;
  FieldReader field(message);
  while (field.Next()) {
    if (field.number() == number && field.IsBytes()) fields.push_back(field.bytes());
  }
  return fields;
}

// {1 shape{2 element_type}, ..}
bool IsLiteral(std::string_view bytes) {
  const auto shapes = FieldsOf(bytes, 1);
  if (shapes.size() != 1) return false;
  FieldReader field(shapes[0]);
  while (field.Next()) {
    if (field.number() == 2 && field.type() == WireType::kVarint && field.value() > 0) return true;
  }
  return false;
}

std::vector<std::string_view> LiteralsOf(std::string_view message, uint32_t number) {
  std::vector<std::string_view> literals = FieldsOf(message, number);
  if (!std::all_of(literals.begin(), literals.end(), IsLiteral)) literals.clear();
  return literals;
}

// What is left of a first field, of number 1, that ends behind the end of the file; else empty.
std::string_view CutFirstField(std::string_view bytes) {
  constexpr char kKey = 0x0a;
  if (bytes.empty() || bytes[0] != kKey) return {};
  const char* end = bytes.data() + bytes.size();
  uint64_t size = 0;
  const char* p = LongVarint(bytes.data() + 1, end, size);
  if (p == nullptr || size <= static_cast<uint64_t>(end - p)) return {};
  return {p, static_cast<size_t>(end - p)};
}

}  // namespace

std::optional<Envelope> OpenEnvelope(std::string_view bytes) {
  if (IsModule(bytes)) return Envelope{bytes, {}};
  // The reader of the module says what is missing.
  if (const auto rest = CutFirstField(bytes); IsModule(rest)) return Envelope{rest, {}};
  const auto inner = FieldsOf(bytes, 1);
  if (inner.size() != 1) return std::nullopt;
  if (IsModule(inner[0])) {
    // HloProto, HloModuleProtoWithConfig, HloUnoptimizedSnapshot {1 module, 2 partitions*}: the
    // arguments of the first partition.
    Envelope envelope{inner[0], {}};
    const auto partitions = FieldsOf(bytes, 2);
    if (!partitions.empty()) envelope.arguments = LiteralsOf(partitions[0], 1);
    return envelope;
  }
  const auto module = FieldsOf(inner[0], 1);
  if (module.size() != 1 || !IsModule(module[0])) return std::nullopt;
  // HloSnapshot {1 hlo, 2 arguments*}
  return Envelope{module[0], LiteralsOf(bytes, 2)};
}

}  // namespace gshard::proto
