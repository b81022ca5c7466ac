// Attributes of instructions: the rows of the opcode's table, and those that every opcode has.
#include <fmt/format.h>

#include <algorithm>

#include "ir/metadata.h"
#include "ir/module_parser.h"
#include "ir/sharding_text.h"

namespace gshard {
namespace {

template <typename T>
T& Member(void* attributes, const AttributeRow& row) {
  return *reinterpret_cast<T*>(static_cast<char*>(attributes) + row.offset);
}

constexpr std::string_view kCommonAttributes[] = {
    "sharding", "metadata",   "backend_config", "frontend_attributes", "control-predecessors",
    "origin",   "statistics",
};

}  // namespace

bool ModuleParser::ParseAttributes(Computation* computation, Line& line) {
  const auto rows = AttributesOf(line.opcode);
  const auto async_rows = line.async == Line::Async::kStart ? AttributesOf(Opcode::kAsyncStart)
                                                            : std::span<const AttributeRow>{};
  while (lexer_.Consume(',')) {
    const std::string_view name = lexer_.Identifier();
    if (name.empty()) return FailExpected("an attribute after ','");
    if (!Expect('=', "after the name of an attribute")) return false;
    const AttributeRow* row = nullptr;
    void* attributes = line.attributes;
    uint32_t* seen = &line.own_seen;
    uint32_t bit = 0;
    for (size_t i = 0; i < rows.size() && row == nullptr; ++i) {
      if (rows[i].name == name) {
        row = &rows[i];
        bit = 1u << i;
      }
    }
    if (row == nullptr) {
      // The thread and aliasing of OP-start; its computation is OP itself.
      for (size_t i = 0; i < async_rows.size() && row == nullptr; ++i) {
        if (async_rows[i].name == name && async_rows[i].kind != AttributeKind::kComputation) {
          row = &async_rows[i];
          bit = 1u << i;
          seen = &line.async_seen;
          attributes = line.async_attributes;
        }
      }
    }
    if (row == nullptr) {
      for (size_t i = 0; i < std::size(kCommonAttributes); ++i) {
        if (kCommonAttributes[i] == name) bit = 1u << i;
      }
      if (bit == 0) return UnknownAttribute(line, name);
      seen = &line.common_seen;
    }
    if ((*seen & bit) != 0) {
      return FailAt(ParseError::kRepeatedAttribute, name,
                    fmt::format("attribute '{}' is given twice", name));
    }
    *seen |= bit;
    if (row != nullptr ? !ParseRow(*row, line, attributes)
                       : !ParseCommonAttribute(computation, line, name)) {
      return false;
    }
  }
  return CheckRequired(line, rows, line.own_seen);
}

bool ModuleParser::UnknownAttribute(const Line& line, std::string_view name) {
  NearestWord nearest(name);
  std::vector<std::string_view> names;
  for (const AttributeRow& row : AttributesOf(line.opcode)) names.push_back(row.name);
  const std::string own = Listed(names);
  for (std::string_view common : kCommonAttributes) names.push_back(common);
  for (std::string_view known : names) nearest.Offer(known);
  std::string hint = nearest.Hint();
  if (hint.empty() && !own.empty()) hint = fmt::format("{} has {}", line.opcode_text, own);
  if (hint.empty()) hint = fmt::format("{} has no attributes of its own", line.opcode_text);
  return FailAt(ParseError::kUnknownAttribute, name,
                fmt::format("{} has no attribute '{}'", line.opcode_text, name), std::move(hint));
}

bool ModuleParser::CheckRequired(const Line& line, std::span<const AttributeRow> rows,
                                 uint32_t seen) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].required || (seen & (1u << i)) != 0) continue;
    std::vector<std::string_view> required;
    for (const AttributeRow& row : rows) {
      if (row.required) required.push_back(row.name);
    }
    return FailAt(ParseError::kMissingAttribute, line.opcode_text,
                  fmt::format("{} needs the attribute '{}'", line.opcode_text, rows[i].name),
                  fmt::format("{} requires: {}", line.opcode_text, Listed(required)));
  }
  return true;
}

bool ModuleParser::ParseCommonAttribute(Computation* computation, Line& line,
                                        std::string_view name) {
  switch (name[0]) {
    case 's':
      if (name == "sharding") return ParseSharding(line);
      line.has_extras = true;
      return ParseRaw(line.extras.statistics);
    case 'm':
      line.metadata = lexer_.Balanced();
      return !line.metadata.empty() || FailUnclosed("'{' of metadata");
    case 'b':
      line.backend_config = lexer_.Peek() == '{' ? lexer_.JsonDict() : lexer_.String();
      return !line.backend_config.empty() || FailUnclosed("a string or '{' of backend_config");
    case 'f':
      return ParseFrontendAttributes(line.frontend_attributes);
    case 'c':
      return ParsePredecessors(computation, line);
    default:
      line.has_extras = true;
      return ParseRaw(line.extras.origin);
  }
}

bool ModuleParser::ParseRow(const AttributeRow& row, Line& line, void* attributes) {
  switch (row.kind) {
    case AttributeKind::kInt:
      return ParseInt(Member<int64_t>(attributes, row), "an integer");
    case AttributeKind::kBool:
      return ParseBool(Member<bool>(attributes, row));
    case AttributeKind::kDouble:
      return ParseDouble(Member<double>(attributes, row));
    case AttributeKind::kEnum: {
      size_t index = 0;
      std::string_view word;
      if (!ParseWord(row, index, word)) return false;
      Member<uint8_t>(attributes, row) = static_cast<uint8_t>(index);
      return true;
    }
    case AttributeKind::kWord: {
      size_t index = 0;
      return ParseWord(row, index, Member<std::string_view>(attributes, row));
    }
    case AttributeKind::kString: {
      return ParseString(Member<std::string_view>(attributes, row));
    }
    case AttributeKind::kRaw:
      return ParseRaw(Member<std::string_view>(attributes, row));
    case AttributeKind::kDims:
      return ParseDims(Member<Dims>(attributes, row));
    case AttributeKind::kDim:
      return ParseOneDim(Member<int64_t>(attributes, row));
    case AttributeKind::kSlice:
      return ParseSlice(*static_cast<SliceAttributes*>(attributes));
    case AttributeKind::kPadding:
      // A scalar has none.
      if (operands_.size() > line.first_operand &&
          operands_[line.first_operand]->shape()->IsScalar() && !HasClass(lexer_.Peek(), kDigit) &&
          lexer_.Raw() != '-') {
        return true;
      }
      return ParsePadding(Member<std::span<const PadDim>>(attributes, row));
    case AttributeKind::kWindow:
      return ParseWindow(Member<std::span<const WindowDim>>(attributes, row));
    case AttributeKind::kDimLabels:
      return ParseDimLabels(Member<std::string_view>(attributes, row));
    case AttributeKind::kPrecision:
      return ParsePrecision(Member<std::span<const Precision>>(attributes, row));
    case AttributeKind::kReplicaGroups:
      return ParseReplicaGroups(Member<const ReplicaGroups*>(attributes, row));
    case AttributeKind::kDevicePairs:
      return ParseDevicePairs(Member<std::span<const DevicePair>>(attributes, row));
    case AttributeKind::kShape:
      return ParseShape(Member<const Shape*>(attributes, row));
    case AttributeKind::kShapeList: {
      auto& call = *static_cast<CustomCallAttributes*>(attributes);
      call.has_operand_layout_constraints = true;
      return ParseShapeList(Member<std::span<const Shape* const>>(attributes, row));
    }
    case AttributeKind::kLiteral: {
      const Shape* shape = nullptr;
      return ParseShape(shape) && ParseLiteral(shape, Member<const Literal*>(attributes, row));
    }
    case AttributeKind::kComputation: {
      const size_t index = line.first_called + row.offset;
      Computation* computation = nullptr;
      if (!ParseComputationReference(&computation)) return false;
      if (called_.size() <= index) called_.resize(index + 1, nullptr);
      called_[index] = computation;
      return true;
    }
    case AttributeKind::kComputations: {
      lexer_.SkipSpace();
      const Open open(this, "list of computations");
      if (!Expect('{', "before the computations")) return false;
      if (lexer_.Consume('}')) return true;
      do {
        Computation* computation = nullptr;
        if (!ParseComputationReference(&computation)) return false;
        called_.push_back(computation);
      } while (lexer_.Consume(','));
      return Expect('}', "after the computations");
    }
    case AttributeKind::kIgnored: {
      std::string_view text;
      lexer_.Consume('%');
      return ParseRaw(text);
    }
  }
  throw InternalError("attribute kind out of range");
}

// What follows from other attributes or from the operands.
bool ModuleParser::CompleteAttributes(Line& line) {
  const auto operands = std::span<Instruction* const>(operands_).subspan(line.first_operand);
  const auto called = std::span<Computation* const>(called_).subspan(line.first_called);
  switch (line.opcode) {
    case Opcode::kCompare: {
      auto& compare = *static_cast<CompareAttributes*>(line.attributes);
      if (operands.empty() || !operands[0]->shape()->IsArray()) return true;
      const DType dtype = operands[0]->shape()->dtype();
      const ComparisonType usual = IsFloat(dtype) || IsComplex(dtype) ? ComparisonType::kFloat
                                   : ClassOf(dtype) == DTypeClass::kSigned
                                       ? ComparisonType::kSigned
                                       : ComparisonType::kUnsigned;
      if (compare.type == usual) compare.type = ComparisonType::kDefault;
      return true;
    }
    case Opcode::kMap: {
      // All dims, if not written.
      auto& map = *static_cast<DimensionsAttributes*>(line.attributes);
      if (!map.dimensions.empty() || operands.empty()) return true;
      const auto dims = module_->arena().NewSpan<int64_t>(operands[0]->shape()->dims().size());
      for (size_t i = 0; i < dims.size(); ++i) dims[i] = static_cast<int64_t>(i);
      map.dimensions = dims;
      return true;
    }
    case Opcode::kBroadcast: {
      if (line.own_seen != 0 || operands.empty() || operands[0]->shape()->IsScalar()) return true;
      return FailAt(ParseError::kMissingAttribute, line.opcode_text,
                    "broadcast of an array needs the attribute 'dimensions'");
    }
    case Opcode::kSlice: {
      auto& slice = *static_cast<SliceAttributes*>(line.attributes);
      if (operands.empty() || !operands[0]->shape()->IsArray() ||
          slice.starts.size() == operands[0]->shape()->dims().size()) {
        return true;
      }
      return FailAt(ParseError::kAttributeValue, line.opcode_text,
                    fmt::format("slice has ranges for {} dimensions, its operand has {}",
                                slice.starts.size(), operands[0]->shape()->rank()));
    }
    case Opcode::kConditional: {
      constexpr uint32_t kTrueAndFalse = 3;
      constexpr uint32_t kBranches = 4;
      if (line.own_seen == kTrueAndFalse || (line.own_seen == kBranches && !called.empty())) {
        return true;
      }
      return FailAt(ParseError::kMissingAttribute, line.opcode_text,
                    "conditional needs the computations of its branches",
                    "either true_computation= and false_computation=, or "
                    "branch_computations={..}");
    }
    case Opcode::kConvolution:
      return PlaceDimLabels(*static_cast<ConvolutionAttributes*>(line.attributes));
    case Opcode::kCustomCall: {
      auto& call = *static_cast<CustomCallAttributes*>(line.attributes);
      if (call.api_version == "API_VERSION_ORIGINAL") call.api_version = {};
      return true;
    }
    default:
      return true;
  }
}

bool ModuleParser::ParseComputationReference(Computation** computation) {
  if (lexer_.Peek() == '{') return ParseComputation(computation, /*is_inline=*/true);
  const char* start = lexer_.position();
  std::string_view name;
  if (!ParseName(name, "the name of a computation or '{'")) return false;
  if (const auto it = computation_of_.find(name); it != computation_of_.end()) {
    *computation = it->second;
    return true;
  }
  NearestWord nearest(name);
  for (const auto& entry : computation_of_) nearest.Offer(entry.first);
  std::string hint = nearest.Hint();
  if (hint.empty()) hint = "computations must stand before their uses";
  return FailAt(ParseError::kUnknownComputation, lexer_.Since(start),
                fmt::format("no computation '{}' before this one", name), std::move(hint));
}

bool ModuleParser::ParseSharding(Line& line) {
  const std::string_view text = lexer_.Balanced();
  if (text.empty()) return FailUnclosed("'{' of a sharding");
  if (const auto it = sharding_of_.find(text); it != sharding_of_.end()) {
    line.sharding = it->second;
    return true;
  }
  const auto sharding = gshard::ParseSharding(*context_, text, module_->header().meshes);
  if (!sharding.has_value()) {
    const TextError& error = sharding.error();
    return FailAt(ParseError::kSharding,
                  text.substr(std::min(error.offset, text.size()), error.length), error.message);
  }
  line.sharding = *sharding;
  sharding_of_.emplace(text, *sharding);
  return true;
}

// {key="value",key2={"json":1}}, kept as it is.
bool ModuleParser::ParseFrontendAttributes(std::string_view& text) {
  lexer_.SkipSpace();
  const char* start = lexer_.position();
  const Open open(this, "frontend_attributes");
  if (!Expect('{', "of frontend_attributes")) return false;
  if (!lexer_.Consume('}')) {
    do {
      if (lexer_.Identifier().empty()) return FailExpected("the key of a frontend attribute");
      if (!Expect('=', "after the key of a frontend attribute")) return false;
      const std::string_view value = lexer_.Peek() == '{' ? lexer_.JsonDict() : lexer_.String();
      if (value.empty()) return FailUnclosed("a string or '{' as a frontend attribute");
    } while (lexer_.Consume(','));
    if (!Expect('}', "at the end of frontend_attributes")) return false;
  }
  text = lexer_.Since(start);
  return true;
}

bool ModuleParser::ParsePredecessors(Computation* computation, Line& line) {
  lexer_.SkipSpace();
  const Open open(this, "control-predecessors");
  if (!Expect('{', "of control-predecessors")) return false;
  const size_t first = operands_.size();
  if (!lexer_.Consume('}')) {
    do {
      lexer_.SkipSpace();
      const char* start = lexer_.position();
      std::string_view name;
      if (!ParseName(name, "the name of an instruction") ||
          !ResolveOperand(computation, lexer_.Since(start), name, nullptr)) {
        return false;
      }
    } while (lexer_.Consume(','));
    if (!Expect('}', "at the end of control-predecessors")) return false;
  }
  line.extras.control_predecessors =
      module_->arena().Copy(std::span<Instruction* const>(operands_).subspan(first));
  line.has_extras = true;
  operands_.resize(first);
  return true;
}

}  // namespace gshard
