// Instructions, operations and attributes: what every converter needs. Functions and regions are in
// importer_functions.cc and importer_regions.cc, the header and results in importer_module.cc.
#include "ir/stablehlo/import/importer.h"

#include <fmt/format.h>

#include "ir/metadata.h"
#include "ir/proto/errors.h"
#include "ir/proto/shardings.h"
#include "ir/shape_inference.h"
#include "ir/sharding_algebra.h"
#include "ir/sharding_text.h"
#include "ir/stablehlo/import/simplify.h"
#include "ir/stablehlo/syntax/lexer.h"

namespace gshard::stablehlo {
namespace {

bool IsStatic(const Shape* shape) {
  if (shape->IsTuple()) return std::ranges::all_of(shape->elements(), IsStatic);
  for (const int64_t dim : shape->dims()) {
    if (dim == Shape::kUnbounded) return false;
  }
  return true;
}

bool IsNumber(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) { return HasClass(c, kDigit); });
}

// For a message: text that fits on a line.
std::string Shortened(std::string_view text) {
  constexpr size_t kMax = 80;
  std::string shortened(text.substr(0, kMax));
  std::ranges::replace(shortened, '\n', ' ');
  return text.size() > kMax ? shortened + ".." : shortened;
}

// The operation's name without its dialect.
std::string_view ShortName(std::string_view name) {
  const size_t dot = name.find('.');
  return dot == name.npos ? name : name.substr(dot + 1);
}

}  // namespace

Importer::Importer(Errors& errors, Program& program, std::shared_ptr<const SourceText> source,
                   std::shared_ptr<Context> context, const DimSizes& dims)
    : errors_(errors),
      program_(program),
      given_dims_(dims),
      module_(std::make_unique<Module>(std::string(program.name), std::move(context))),
      locations_(program, module_->arena()) {
  module_->set_source(std::move(source));
}

// --- what converters ask

Builder Importer::BuilderFor(const Operation& op) {
  Builder builder(*module_, computation_);
  // An instruction only to derive from: it is in no computation.
  auto* origin = arena().New<Instruction>();
  origin->set_source(op.source);
  origin->set_metadata(locations_.Of(op.location).metadata);
  builder.set_origin(origin);
  return builder;
}

bool Importer::Fail(const Operation& op, ParseError code, std::string message, std::string hint) {
  return errors_.Fail(code, op.source, std::move(message), std::move(hint));
}

bool Importer::WantOperands(const Operation& op, size_t count, bool arrays) {
  if (op.operands.size() != count) {
    return Fail(op, ParseError::kOperandCount,
                fmt::format("{} has {} operands, not {}", op.name, op.operands.size(), count));
  }
  if (!arrays) return true;
  for (size_t i = 0; i < count; ++i) {
    if (!Operand(op, i)->shape()->IsArray()) {
      return Fail(op, ParseError::kShape, fmt::format("operand {} of {} is no tensor", i, op.name));
    }
  }
  return true;
}

bool Importer::WantResults(const Operation& op, size_t count) {
  if (op.results.size() == count) return true;
  return Fail(op, ParseError::kOperandCount,
              fmt::format("{} has {} results, not {}", op.name, op.results.size(), count));
}

bool Importer::WantRegions(const Operation& op, size_t count) {
  if (op.regions.size() == count) return true;
  return Fail(op, ParseError::kOperandCount,
              fmt::format("{} has {} regions, not {}", op.name, op.regions.size(), count));
}

std::vector<Instruction*> Importer::Operands(const Operation& op) const {
  std::vector<Instruction*> operands;
  operands.reserve(op.operands.size());
  for (const Value* value : op.operands) operands.push_back(value->instruction);
  return operands;
}

const Shape* Importer::ResultShape(const Operation& op, size_t i) const {
  if (i >= op.results.size()) return nullptr;
  const Shape* shape = op.results[i].type;
  return shape != nullptr && IsStatic(shape) ? shape : nullptr;
}

const Shape* Importer::ArrayOf(const Operation& op, DType dtype, Dims dims) {
  for (const int64_t dim : dims) {
    if (dim >= 0) continue;
    Fail(op, ParseError::kShape, fmt::format("{} gets a negative dim: {}", op.name, dim));
    return nullptr;
  }
  return context().Array(dtype, dims);
}

// --- attributes

std::optional<std::string_view> Importer::Find(const Operation& op,
                                               std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) {
    for (const NamedAttribute& attribute : op.attributes) {
      if (attribute.key == key) return Resolve(attribute.value);
    }
  }
  return std::nullopt;
}

std::string_view Importer::Resolve(std::string_view text) const {
  for (int i = 0; i < 8 && text.starts_with('#'); ++i) {
    const auto it = program_.aliases.find(text);
    if (it == program_.aliases.end()) break;
    text = it->second;
  }
  return text;
}

bool Importer::BadValue(const Operation& op, std::string_view key, std::string_view value) {
  const SourceRange range = value.empty() ? op.source : errors_.RangeOf(value);
  const bool elided = value.find("elided") != value.npos;
  return errors_.Fail(
      ParseError::kAttributeValue, range.empty() ? op.source : range,
      elided ? fmt::format("'{}' of {} was left out of the text", key, op.name)
             : fmt::format("this is no value for '{}' of {}", key, op.name),
      elided ? "print without large_elements_limit (--mlir-elide-elementsattrs-if-larger)" : "");
}

bool Importer::Int(const Operation& op, std::initializer_list<std::string_view> keys,
                   int64_t& value, bool required) {
  const auto text = Find(op, keys);
  if (text.has_value()) return ReadInteger(*text, value) || BadValue(op, *keys.begin(), *text);
  if (!required) return true;
  return Fail(op, ParseError::kMissingAttribute,
              fmt::format("{} needs the attribute '{}'", op.name, *keys.begin()));
}

bool Importer::Bool(const Operation& op, std::initializer_list<std::string_view> keys,
                    bool& value) {
  const auto text = Find(op, keys);
  if (!text.has_value()) return true;
  return ReadBoolean(*text, value) || BadValue(op, *keys.begin(), *text);
}

bool Importer::Integers(const Operation& op, std::initializer_list<std::string_view> keys,
                        Dims& value, bool required) {
  const auto text = Find(op, keys);
  if (text.has_value()) {
    std::vector<int64_t> values;
    if (!ReadIntegers(*text, values)) return BadValue(op, *keys.begin(), *text);
    value = arena().Copy(values);
    return true;
  }
  if (!required) return true;
  return Fail(op, ParseError::kMissingAttribute,
              fmt::format("{} needs the attribute '{}'", op.name, *keys.begin()));
}

bool Importer::String(const Operation& op, std::initializer_list<std::string_view> keys,
                      std::string& value) {
  const auto text = Find(op, keys);
  if (!text.has_value()) return true;
  return ReadString(*text, value) || BadValue(op, *keys.begin(), *text);
}

// --- instructions

// What the user sees: `%12 = stablehlo.add` is add.12, `%cst_0 = ..` is cst_0; with locations the
// last part of op_name stands for the operation.
std::string_view Importer::NameFor(const Operation& op, Opcode opcode) {
  const std::string_view result = op.results.empty() ? std::string_view() : op.results[0].name;
  if (!result.empty() && !IsNumber(result) && result.find('$') == result.npos &&
      HasClass(result[0], kNameStart) && !DTypeFromName(result).has_value()) {
    return result;
  }
  std::string_view base = locations_.Of(op.location).base_name;
  if (base.empty()) base = ShortName(op.name);
  if (base.empty() || !HasClass(base[0], kNameStart)) base = OpcodeName(opcode);
  std::string name(base);
  if (IsNumber(result)) {
    name += '.';
    name += result;
  }
  for (char& c : name) {
    if (!HasClass(c, kNameContinue)) c = '_';
  }
  if (DTypeFromName(name).has_value()) name += '_';
  return arena().Copy(std::string_view(name));
}

// What operands and attributes make of a type with open dims.
const Shape* Importer::InferredShape(const Operation& op, Opcode opcode,
                                     std::span<Instruction* const> operands, void* attributes,
                                     std::span<Computation* const> called) {
  std::vector<const Shape*> shapes;
  shapes.reserve(operands.size());
  for (const Instruction* operand : operands) shapes.push_back(operand->shape());
  // The written type says what operands do not: the element type of a dot or a convert.
  const Shape* declared = op.results.size() == 1 ? op.results[0].type : nullptr;
  const tl::expected<const Shape*, std::string> inferred =
      declared != nullptr || ShapeIsInferable(opcode)
          ? InferShape(context(), OpView{.opcode = opcode,
                                         .operands = shapes,
                                         .attributes = attributes,
                                         .called = called,
                                         .declared = declared})
          : tl::unexpected<std::string>("its result types are not static");
  if (inferred.has_value() && IsStatic(*inferred)) return *inferred;
  Fail(op, ParseError::kShape,
       fmt::format("{}: {}", op.name,
                   inferred.has_value() ? "its result type is not static" : inferred.error()));
  return nullptr;
}

Instruction* Importer::EmitRaw(const Operation& op, Opcode opcode,
                               std::span<Instruction* const> operands, void* attributes,
                               const Shape* shape, std::span<Computation* const> called) {
  const int arity = InfoOf(opcode).arity;
  if (arity != kVariadic && static_cast<size_t>(arity) != operands.size()) {
    Fail(op, ParseError::kOperandCount,
         fmt::format("{} has {} operands, not {}", op.name, operands.size(), arity));
    return nullptr;
  }
  if (shape == nullptr) {
    shape = InferredShape(op, opcode, operands, attributes, called);
    if (shape == nullptr) return nullptr;
  }
  Instruction* x = module_->AddRaw(computation_, opcode, module_->UniqueName(NameFor(op, opcode)),
                                   shape, operands, attributes, called);
  x->set_source(op.source);
  x->set_metadata(locations_.Of(op.location).metadata);
  return x;
}

Instruction* Importer::EmitElement(const Operation& op, Instruction* tuple, int64_t index) {
  auto* attributes = arena().New<GetTupleElementAttributes>();
  attributes->index = index;
  std::string name(tuple->name());
  name += '.';
  name += std::to_string(index);
  Instruction* const operands[] = {tuple};
  Instruction* x = module_->AddRaw(computation_, Opcode::kGetTupleElement,
                                   module_->UniqueName(arena().Copy(std::string_view(name))),
                                   tuple->shape()->element(index), operands, attributes, {});
  x->set_source(op.source);
  x->set_metadata(locations_.Of(op.location).metadata);
  return x;
}

bool Importer::Define(const Operation& op, size_t i, Instruction* x) {
  if (x == nullptr) return false;
  if (i < op.results.size()) op.results[i].instruction = x;
  return true;
}

const Shape* Importer::ResultsShape(const Operation& op) {
  if (op.results.size() == 1) return ResultShape(op);
  std::vector<const Shape*> shapes;
  for (size_t i = 0; i < op.results.size(); ++i) {
    shapes.push_back(ResultShape(op, i));
    if (shapes.back() == nullptr) return nullptr;
  }
  return context().Tuple(shapes);
}

bool Importer::DefineAll(const Operation& op, Instruction* x) {
  if (x == nullptr) return false;
  if (op.results.size() == 1) return Define(op, 0, x);
  if (!op.results.empty() &&
      (!x->shape()->IsTuple() || x->shape()->elements().size() != op.results.size())) {
    return Fail(op, ParseError::kShape,
                fmt::format("{} has {} results, its shape is {}", op.name, op.results.size(),
                            ToString(x->shape(), /*layouts=*/false)));
  }
  for (size_t i = 0; i < op.results.size(); ++i) {
    if (!Define(op, i, EmitElement(op, x, static_cast<int64_t>(i)))) return false;
  }
  return true;
}

void Importer::SetFrontendAttribute(Instruction* x, std::string_view key, std::string_view value) {
  x->set_frontend_attributes(WithFrontendAttribute(arena(), x->frontend_attributes(), key, value));
}

void Importer::SetRawFrontendAttribute(Instruction* x, std::string_view key,
                                       std::string_view text) {
  std::string attributes(x->frontend_attributes());
  if (attributes.empty()) attributes = "{}";
  attributes.insert(attributes.size() - 1,
                    fmt::format("{}{}={}", attributes.size() > 2 ? "," : "", key, text));
  x->set_frontend_attributes(arena().Copy(std::string_view(attributes)));
}

// --- operations

bool Importer::CheckOperandTypes(const Operation& op) {
  for (size_t i = 0; i < op.operand_types.size(); ++i) {
    const Shape* written = op.operand_types[i];
    const Shape* actual = op.operands[i]->instruction->shape();
    if (Compatible(written, actual) || !IsStatic(written)) continue;
    if (SameUpToDynamic(written, actual)) continue;
    Fail(op, ParseError::kShapeMismatch,
         fmt::format("operand {} of {} is written with the type {}, but it is {}", i, op.name,
                     ToString(written, /*layouts=*/false), ToString(actual, /*layouts=*/false)));
    errors_.Note(op.operands[i]->source, "it is defined here");
    return false;
  }
  return true;
}

bool Importer::ConvertOperation(const Operation& op) {
  if (op.row == nullptr) op.row = FindRow(op.name);
  if (op.row == nullptr) {
    NearestWord nearest(op.name);
    for (const OpRow& row : AllRows()) nearest.Offer(row.name);
    std::string hint = nearest.Hint();
    if (hint.empty()) {
      hint = "operations of StableHLO, CHLO and Shardy are read (docs/stablehlo.md has the table)";
    }
    return Fail(op, ParseError::kUnknownOpcode, fmt::format("unknown operation '{}'", op.name),
                std::move(hint));
  }
  for (const Value* operand : op.operands) {
    if (operand->instruction == nullptr) {
      return Fail(op, ParseError::kUnknownOperand,
                  fmt::format("'%{}' cannot be used here", operand->name));
    }
  }
  const size_t made_before = computation_->instructions().size();
  if (!CheckOperandTypes(op) || !op.row->convert(*this, op)) {
    CheckInternal(errors_.failed(), "a converter failed without an error");
    return false;
  }
  for (const Value& result : op.results) {
    CheckInternal(result.instruction != nullptr, "a converter left a result undefined");
  }
  for (const Instruction* made : computation_->instructions().subspan(made_before)) {
    simplifies_ = simplifies_ && FitsItsOperands(*module_, *made);
  }
  if (op.results.empty()) {
    const auto made = computation_->instructions().subspan(made_before);
    return made.empty() || SetSharding(op, made.back());
  }
  if (!SetSharding(op, op.results[0].instruction)) return false;
  Instruction*& result = op.results[0].instruction;
  // What carries a sharding is there to carry it.
  if (simplifies_ && op.results.size() == 1 && computation_->instructions().back() == result &&
      result->sharding() == nullptr && result->frontend_attributes().empty()) {
    result = Simplified(*module_, computation_, result);
  }
  return true;
}

bool Importer::ConvertOperations(const Region& region) {
  // The terminator comes last, without a row of its own.
  for (const Operation* op :
       region.operations.first(region.operations.empty() ? 0 : region.operations.size() - 1)) {
    if (!ConvertOperation(*op)) return false;
  }
  return true;
}

// --- shardings

// `text` is `#sdy.sharding<..>`, `#sdy.sharding_per_value<[..]>`, or either without its name.
bool Importer::ReadShardyList(std::string_view text, std::vector<ShardySharding>& list) {
  const std::string_view name = text.starts_with('<')   ? "#sdy.sharding"
                                : text.starts_with('[') ? "#sdy.sharding_per_value<"
                                                        : "";
  const std::string full = fmt::format("{}{}{}", name, text, name.ends_with('<') ? ">" : "");
  TextError error;
  if (ReadShardyShardings(full, meshes_, list, &error)) return true;
  const size_t at = std::min(error.offset - std::min(error.offset, name.size()), text.size());
  return errors_.Fail(
      ParseError::kSharding, text.substr(at, std::max<size_t>(error.length, 1)),
      fmt::format("cannot read the sharding {}: {}", Shortened(text), error.message));
}

const Sharding* Importer::ReadSharding(std::string_view text, const Shape* shape) {
  text = Resolve(text);
  std::string key(text);
  if (const auto it = shardings_.find(key); it != shardings_.end() && !shape->IsTuple()) {
    return it->second;
  }
  std::vector<ShardySharding> list;
  if (!ReadShardyList(text, list)) return nullptr;
  const auto fail = [&](std::string_view why) {
    errors_.Fail(ParseError::kSharding, text,
                 fmt::format("cannot read the sharding {}: {}", Shortened(text), why));
    return nullptr;
  };
  std::vector<const Sharding*> leaves;
  for (const ShardySharding& sharding : list) {
    const auto leaf = ParseSharding(context(), MeshFormOf(sharding));
    if (!leaf.has_value()) return fail(leaf.error().message);
    leaves.push_back(*leaf);
  }
  if (leaves.empty()) return fail("no shardings");
  if (!shape->IsTuple()) {
    shardings_[key] = leaves[0];
    return leaves[0];
  }
  // An operation without results has one sharding, which says who does it.
  const auto count = std::max<size_t>(static_cast<size_t>(shape->leaf_count()), 1);
  if (leaves.size() == 1) leaves.resize(count, leaves[0]);
  if (leaves.size() != count)
    return fail(fmt::format("{} shardings for {} values", leaves.size(), count));
  return context().TupleOf(std::move(leaves));
}

bool Importer::CheckManualRegion(const Operation& op, std::string_view in_shardings,
                                 std::string_view out_shardings, const std::string& axes) {
  std::vector<ShardySharding> ins, outs;
  std::vector<std::string> names;
  if (!ReadShardyManualAxes(axes, names)) return BadValue(op, "manual_axes", {});
  if (!ReadShardyList(in_shardings, ins) || !ReadShardyList(out_shardings, outs)) return false;
  const auto counts = [&](std::string_view text, size_t found, size_t wanted) {
    return found == wanted ||
           errors_.Fail(ParseError::kSharding, text,
                        fmt::format("{} shardings for {} values", found, wanted));
  };
  return counts(in_shardings, ins.size(), op.operands.size()) &&
         counts(out_shardings, outs.size(), op.results.size());
}

const Sharding* Importer::ReadHloSharding(SourceRange place, std::string_view quoted,
                                          const Shape* shape) {
  std::string text;
  if (!ReadString(Resolve(quoted), text)) {
    errors_.Fail(ParseError::kSharding, place, "mhlo.sharding is a string");
    return nullptr;
  }
  // Names of axes and devices of the text outlive it in the arena.
  const std::string_view kept = arena().Copy(std::string_view(text));
  if (!kept.starts_with('{')) {  // older text has the bytes of the proto
    proto::Errors wrong(*module_->source());
    const Sharding* read = proto::ShardingReader(context(), wrong).Read(kept);
    if (read == nullptr) {
      errors_.Fail(ParseError::kSharding, place,
                   "mhlo.sharding is neither a sharding in braces nor the bytes of one: " +
                       wrong.Take().message);
      return nullptr;
    }
    return SpreadOver(shape, read);
  }
  const auto sharding = ParseSharding(context(), kept);
  if (!sharding.has_value()) {
    errors_.Fail(ParseError::kSharding, place, sharding.error().message);
    return nullptr;
  }
  return SpreadOver(shape, *sharding);
}

// One sharding for a tuple counts for each of its leaves.
const Sharding* Importer::SpreadOver(const Shape* shape, const Sharding* sharding) {
  if (!shape->IsTuple() || sharding->IsTuple()) return sharding;
  return context().TupleOf(std::vector<const Sharding*>(
      std::max<size_t>(static_cast<size_t>(shape->leaf_count()), 1), sharding));
}

// A loop carries what its regions capture behind its operands, and its sharding says nothing of
// them: as XLA's export has it, they keep the shardings that they have outside. `shape` is that of
// the operands and `sharding` theirs.
const Sharding* Importer::WithCaptures(const Instruction& loop, const Shape* shape,
                                       const Sharding* sharding, const Sharding* otherwise) {
  std::vector<const Sharding*> leaves = LeafShardings(shape, sharding);
  const auto captures = loop.operand(0)->operands().subspan(shape->elements().size());
  for (const Instruction* captured : captures) {
    const Sharding* own = captured->sharding() != nullptr ? captured->sharding() : otherwise;
    const std::vector<const Sharding*> part = LeafShardings(captured->shape(), own);
    leaves.insert(leaves.end(), part.begin(), part.end());
  }
  return context().TupleOf(std::move(leaves));
}

// Shardings and frontend attributes that any operation may carry.
bool Importer::SetSharding(const Operation& op, Instruction* x) {
  std::string_view sdy, hlo, frontend;
  for (const NamedAttribute& attribute : op.attributes) {
    if (attribute.key == "sdy.sharding") sdy = attribute.value;
    if (attribute.key == "mhlo.sharding") hlo = attribute.value;
    if (attribute.key == "mhlo.frontend_attributes") frontend = attribute.value;
  }
  if (sdy.empty() && hlo.empty() && frontend.empty()) return true;
  // Of several results: the tuple they are elements of, or of a tuple in it (infeed).
  while (op.results.size() > 1 && x->opcode() == Opcode::kGetTupleElement &&
         x->source().begin == op.source.begin) {
    x = x->operand(0);
  }
  // Where nothing was made, the sharding is not the operand's.
  const auto is_x = [x](const Value* operand) { return operand->instruction == x; };
  if (std::ranges::any_of(op.operands, is_x)) return true;
  std::vector<NamedAttribute> fields;
  if (!frontend.empty() && SplitFields(Resolve(frontend), fields)) {
    for (const NamedAttribute& field : fields) {
      std::string value;
      if (!ReadString(field.value, value)) continue;
      if (FrontendAttribute(x->frontend_attributes(), field.key).empty()) {
        SetFrontendAttribute(x, field.key, value);
      }
    }
  }
  if (sdy.empty() && hlo.empty()) return true;
  const bool captures = x->opcode() == Opcode::kWhile && x->shape()->IsTuple() &&
                        x->shape()->elements().size() > op.operands.size();
  const Shape* shape =
      captures ? context().Tuple(x->shape()->elements().first(op.operands.size())) : x->shape();
  const Sharding* sharding =
      sdy.empty() ? ReadHloSharding(errors_.RangeOf(hlo), hlo, shape) : ReadSharding(sdy, shape);
  if (sharding == nullptr) return false;
  if (captures) {
    const Sharding* otherwise = sdy.empty() ? context().Replicated() : context().Unknown();
    sharding = WithCaptures(*x, shape, sharding, otherwise);
  } else if (!sdy.empty()) {
    SetFrontendAttribute(x, "xla.sdy.sharding", WithoutInnerNames(Resolve(sdy)));
  }
  x->set_sharding(sharding);
  return true;
}

}  // namespace gshard::stablehlo
