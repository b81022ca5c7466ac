// The module's header, the entry's arguments and results, and the way through all of it.
#include <fmt/format.h>

#include "ir/attribute_names.h"
#include "ir/metadata.h"
#include "ir/stablehlo/import/importer.h"
#include "ir/stablehlo/syntax/lexer.h"
#include "ir/traversal.h"

namespace gshard::stablehlo {
namespace {

std::string_view ValueOf(std::span<const NamedAttribute> attributes, std::string_view key) {
  return FieldOf(attributes, key);
}

// Memory kinds of arguments and results, as the entry's layouts have them: on the host S(5).
void ReadMemoryKinds(const Function& function, const Computation& entry, Module& module) {
  Context& context = module.context();
  bool any = false;
  auto place = [&](std::span<const NamedAttribute> attributes, const Shape* shape) {
    const std::string_view kind = ValueOf(attributes, "mhlo.memory_kind");
    if (kind.find("host") == std::string_view::npos || !shape->IsArray()) return shape;
    any = true;
    std::vector<int64_t> order;
    for (int64_t d = shape->rank(); d-- > 0;) order.push_back(d);
    return context.Array(shape->dtype(), shape->dims(), context.InternLayout(order, "S(5)"));
  };
  auto at = [](const auto& list, size_t i) {
    return i < list.size() ? std::span<const NamedAttribute>(list[i])
                           : std::span<const NamedAttribute>();
  };
  std::vector<const Shape*> parameters, results;
  for (size_t i = 0; i < entry.parameters().size(); ++i) {
    parameters.push_back(
        place(at(function.argument_attributes, i), entry.parameters()[i]->shape()));
  }
  const Shape* result = entry.root()->shape();
  if (result->IsTuple()) {
    for (const Shape* element : result->elements()) {
      results.push_back(place(at(function.result_attributes, results.size()), element));
    }
    result = context.Tuple(results);
  } else {
    result = place(at(function.result_attributes, 0), result);
  }
  if (!any) return;
  module.header().entry_parameter_layouts = std::move(parameters);
  module.header().entry_result_layout = result;
}

}  // namespace

// `mesh = #sdy.mesh<["x"=2]>` of every mesh, as XLA's export has them in the header.
bool Importer::ReadMeshes() {
  if (program_.meshes.empty()) return true;
  std::string text = "{";
  for (const NamedAttribute& mesh : program_.meshes) {
    if (text.size() > 1) text += ", ";
    text += fmt::format("{} = #sdy.mesh{}", mesh.key, mesh.value);
    ShardyMeshes one;
    TextError error;
    if (!ReadShardyMeshes(fmt::format("{{{} = #sdy.mesh{}}}", mesh.key, mesh.value), one, &error)) {
      return errors_.Fail(ParseError::kSharding, mesh.value,
                          fmt::format("cannot read the mesh '{}': {}", mesh.key, error.message),
                          "a mesh is <[\"x\"=2, \"y\"=4]>");
    }
    meshes_.merge(one);
  }
  text += '}';
  module_->header().frontend_attributes =
      arena().Copy(std::string_view(fmt::format("{{xla.sdy.meshes={}}}", text)));
  return true;
}

bool Importer::ReadHeader() {
  if (program_.name.empty()) module_->set_name("module");
  std::string name = module_->name();
  for (char& c : name) {
    if (!HasClass(c, kNameContinue)) c = '_';
  }
  if (!HasClass(name[0], kNameStart)) name.insert(0, 1, '_');
  module_->set_name(name);
  ModuleHeader& header = module_->header();
  for (const NamedAttribute& attribute : program_.attributes) {
    int64_t* count = attribute.key == "mhlo.num_partitions" ? &header.num_partitions
                     : attribute.key == "mhlo.num_replicas" ? &header.replica_count
                                                            : nullptr;
    if (count == nullptr) continue;
    if (!ReadInteger(attribute.value, *count) || *count < 1 || *count > (int64_t{1} << 31)) {
      return errors_.Fail(ParseError::kNumberRange, attribute.value,
                          fmt::format("{} must be at least 1 and at most 2^31", attribute.key));
    }
  }
  if (!ReadMeshes()) return false;
  std::vector<NamedAttribute> fields;
  if (!SplitFields(FieldOf(program_.attributes, "mhlo.frontend_attributes"), fields)) return true;
  for (const NamedAttribute& field : fields) {
    std::string value;
    if (!ReadString(field.value, value)) continue;
    header.frontend_attributes =
        WithFrontendAttribute(arena(), header.frontend_attributes, field.key, value);
  }
  return true;
}

// The sharding that a parameter of a partitioned module keeps as a record (docs/partitioning.md).
bool Importer::ReadShardRecord(std::span<const NamedAttribute> attributes, Instruction* x) {
  std::vector<NamedAttribute> fields;
  if (!SplitFields(FieldOf(attributes, "mhlo.frontend_attributes"), fields)) return true;
  const std::string_view record = FieldOf(fields, kShardingAttribute);
  if (record.empty()) return true;
  const Sharding* sharding = ReadHloSharding(errors_.RangeOf(record), record, x->shape());
  x->set_sharding(sharding);
  return sharding != nullptr;
}

Function* Importer::FindEntry() {
  if (const auto it = program_.function_of.find("main"); it != program_.function_of.end()) {
    return it->second;
  }
  Function* found = nullptr;
  for (Function* function : program_.functions) {
    if (!function->is_public || function->body == nullptr) continue;
    if (found != nullptr) {
      errors_.Fail(ParseError::kModule, function->source,
                   "there are several public functions and none is called @main");
      return nullptr;
    }
    found = function;
  }
  if (found == nullptr) {
    errors_.Fail(ParseError::kModule, errors_.text().substr(0, 1),
                 "this module has no public function to run");
  }
  return found;
}

// Parameter i of the current computation, with its sharding.
bool Importer::AddArgument(Function& function, size_t i, bool is_entry, const Shape* shape) {
  Value& argument = function.body->arguments[i];
  std::string_view base = argument.name;
  if (base.empty()) base = "arg";
  Instruction* x = AddParameter(computation_, static_cast<int64_t>(i), shape, base, argument.source,
                                argument.location);
  argument.instruction = x;
  if (i >= function.argument_attributes.size()) return true;
  const std::span<const NamedAttribute> attributes = function.argument_attributes[i];
  const std::string_view sdy = ValueOf(attributes, "sdy.sharding");
  const std::string_view hlo = ValueOf(attributes, "mhlo.sharding");
  if (!sdy.empty()) {
    const Sharding* sharding = ReadSharding(sdy, shape);
    if (sharding == nullptr) return false;
    x->set_sharding(sharding);
    SetFrontendAttribute(x, "xla.sdy.sharding", Resolve(sdy));
  } else if (!hlo.empty()) {
    const Sharding* sharding = ReadHloSharding(errors_.RangeOf(hlo), hlo, shape);
    if (sharding == nullptr) return false;
    x->set_sharding(sharding);
  }
  if (is_entry && !ReadShardRecord(attributes, x)) return false;
  return !is_entry || AddArgumentAliases(function, i, function.results.size() == 1);
}

bool Importer::AddArgumentAliases(Function& function, size_t i, bool single_result) {
  const std::span<const NamedAttribute> attributes = function.argument_attributes[i];
  const std::string_view alias = ValueOf(attributes, "tf.aliasing_output");
  if (!alias.empty()) {
    int64_t output = 0;
    if (!ReadInteger(alias, output) || output < 0 ||
        output >= static_cast<int64_t>(function.results.size())) {
      return errors_.Fail(
          ParseError::kAttributeValue, alias,
          fmt::format("there is no result of this number: there are {}", function.results.size()));
    }
    ModuleHeader::Alias entry;
    if (!single_result) entry.output_index = {output};
    entry.parameter = static_cast<int64_t>(i);
    module_->header().input_output_alias.push_back(entry);
  }
  if (ValueOf(attributes, "jax.buffer_donor") == "true") {
    module_->header().buffer_donor.push_back({static_cast<int64_t>(i), {}});
  }
  return true;
}

// Result shardings: Shardy's as xla.sdy.FuncResultSharding calls, as XLA exports them; GSPMD's on
// the root. Which results and parameters propagation may still lay out, the header says.
bool Importer::FinishEntry(Function& function, std::vector<Instruction*>& values) {
  std::vector<const Sharding*> leaves(values.size());
  bool any = false;
  for (size_t i = 0; i < values.size() && i < function.result_attributes.size(); ++i) {
    const std::string_view sdy = ValueOf(function.result_attributes[i], "sdy.sharding");
    const std::string_view hlo = ValueOf(function.result_attributes[i], "mhlo.sharding");
    if (sdy.empty() && hlo.empty()) continue;
    any = true;
    const SourceRange place = errors_.RangeOf(sdy.empty() ? hlo : sdy);
    const Shape* shape = values[i]->shape();
    leaves[i] = sdy.empty() ? ReadHloSharding(place, hlo, shape) : ReadSharding(sdy, shape);
    if (leaves[i] == nullptr) return false;
    if (sdy.empty()) continue;
    CustomCallAttributes attributes;
    attributes.target = "xla.sdy.FuncResultSharding";
    attributes.has_side_effect = true;
    Instruction* const operands[] = {values[i]};
    Instruction* call =
        module_->Add(computation_, Opcode::kCustomCall, module_->UniqueName(values[i]->name()),
                     shape, operands, attributes);
    call->set_source(place);
    call->set_metadata(values[i]->metadata());
    call->set_sharding(leaves[i]);
    const std::string_view text = Resolve(sdy);
    SetFrontendAttribute(call, "xla.sdy.sharding",
                         fmt::format("#sdy.sharding_per_value<[{}]>",
                                     text.substr(std::min(text.find('<'), text.size()))));
    values[i] = call;
  }
  const Operation* last = function.body->operations.back();
  // A single annotated result is an element of a tuple: its sharding is the result's alone.
  const bool wrapped = any && values.size() == 1 && values[0]->sharding() != leaves[0];
  SetRoot(computation_, values, last, wrapped);
  if (wrapped) {
    Instruction* element = EmitElement(*last, computation_->root(), 0);
    element->set_sharding(leaves[0]);
    computation_->set_root(element);
  }
  ReadMemoryKinds(function, *computation_, *module_);
  ModuleHeader& header = module_->header();
  if (any && values.size() > 1) {
    for (const Sharding*& leaf : leaves) {
      if (leaf == nullptr) leaf = context().Replicated();
    }
    computation_->root()->set_sharding(context().TupleOf(leaves));
  }
  bool annotated = any;
  for (const Instruction* x : computation_->parameters()) annotated |= x->sharding() != nullptr;
  // What is partitioned already has records, not annotations.
  const bool partitioned =
      header.frontend_attributes.find(kNumPartitionsAttribute) != std::string_view::npos;
  if (!annotated || partitioned) return true;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto attributes = i < function.result_attributes.size()
                                ? function.result_attributes[i]
                                : std::span<const NamedAttribute>();
    header.propagation_to_output.push_back(ValueOf(attributes, "sdy.sharding").empty() &&
                                           ValueOf(attributes, "mhlo.sharding").empty());
  }
  for (const Instruction* x : computation_->parameters()) {
    header.propagation_to_parameters.push_back(x->sharding() == nullptr);
  }
  return true;
}

std::unique_ptr<Module> Importer::Run() {
  if (!ReadHeader()) return nullptr;
  Function* entry = FindEntry();
  if (entry == nullptr) return nullptr;
  if (entry->body == nullptr) {
    errors_.Fail(ParseError::kModule, entry->source,
                 fmt::format("function '@{}' is declared without a body", entry->name));
    return nullptr;
  }
  if (!BindDynamicDims(*entry) || !ConvertEntry(*entry)) return nullptr;
  module_->SetComputations(std::move(finished_));
  // As XLA's export has it: what nobody needs is gone, and the order is the one XLA prints. Who
  // partitions goes by the order, so that both texts of a program cost the same.
  RemoveDeadCode(*module_);
  for (Computation* computation : module_->computations()) {
    computation->SetInstructions(PostOrder(*computation));
  }
  if (const std::string tables = locations_.DebugTables(); !tables.empty()) {
    module_->set_debug_tables(arena().Copy(std::string_view(tables)));
  }
  return std::move(module_);
}

}  // namespace gshard::stablehlo
