#include "ir/proto/attributes.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <numeric>
#include <optional>

#include "ir/dot_algorithms.h"
#include "ir/metadata.h"
#include "ir/proto/literals.h"
#include "ir/proto/shardings.h"
#include "ir/proto/texts.h"
#include "ir/proto/wire.h"
#include "ir/sharding_text.h"

namespace gshard::proto {
namespace {

constexpr std::array<std::string_view, 4> kConvolutionKinds = {"", "fprop", "dgrad", "wgrad"};
constexpr std::array<std::string_view, 3> kPaddingTypes = {"", "PADDING_VALID", "PADDING_SAME"};
constexpr std::array<std::string_view, 3> kSchedules = {"", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST"};
constexpr std::array<std::string_view, 5> kApiVersions = {"", "", "API_VERSION_STATUS_RETURNING",
                                                          "API_VERSION_STATUS_RETURNING_UNIFIED",
                                                          "API_VERSION_TYPED_FFI"};
constexpr std::array<std::string_view, 4> kFusionKinds = {"kLoop", "kInput", "kOutput", "kCustom"};

// A number in the shortest decimals that name the float: what text has, and not its nearest double.
double Decimal(double value) {
  const std::string text = fmt::format("{}", static_cast<float>(value));
  double result = value;
  std::from_chars(text.data(), text.data() + text.size(), result);
  return result;
}

// Of one role: where in a shape's dims it stands.
bool Place(std::string& labels, int64_t dim, char label) {
  if (dim < 0 || dim >= static_cast<int64_t>(labels.size()) ||
      labels[static_cast<size_t>(dim)] != '?') {
    return false;
  }
  labels[static_cast<size_t>(dim)] = label;
  return true;
}
bool PlaceSpatial(std::string& labels, const std::vector<int64_t>& dims) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 9 || !Place(labels, dims[i], static_cast<char>('0' + i))) return false;
  }
  return true;
}

std::string Unknown(std::string_view name, std::span<const std::string_view> known, size_t& index) {
  for (index = 0; index < known.size(); ++index) {
    if (known[index] == name) return {};
  }
  return fmt::format("'{}', not one of {}", name, fmt::join(known, ", "));
}

}  // namespace

void* AttributeReader::Fail(std::string message) {
  errors_.Fail(Error::kValue, std::move(message));
  return nullptr;
}

bool AttributeReader::OneEnum(int64_t value, int64_t count, std::string_view what) {
  if (value >= 0 && value < count) return true;
  return errors_.Fail(Error::kValue, fmt::format("{} of number {}", what, value));
}

bool AttributeReader::ReadList(std::string_view message, uint32_t number, Dims& dims) {
  std::vector<int64_t> values;
  FieldReader field(message);
  bool ok = true;
  while (ok && field.Next()) {
    if (field.number() == number) ok = field.AppendTo(values);
  }
  if (!ok || !field.ok()) return errors_.Damaged("a list of dimensions");
  dims = Copy(values);
  return true;
}

bool AttributeReader::Window(std::string_view bytes, std::span<const WindowDim>& window) {
  std::vector<WindowDim> dims;
  FieldReader field(bytes);
  bool ok = true;
  while (ok && field.Next()) {
    if (field.number() != 1) continue;
    WindowDim& dim = dims.emplace_back();
    dim.size = 0;
    FieldReader part(field.bytes());
    while (part.Next()) {
      if (part.number() == 1) dim.size = part.integer();
      if (part.number() == 2) dim.stride = part.integer();
      if (part.number() == 3) dim.pad_low = part.integer();
      if (part.number() == 4) dim.pad_high = part.integer();
      if (part.number() == 5) dim.window_dilation = part.integer();
      if (part.number() == 6) dim.base_dilation = part.integer();
      if (part.number() == 7) dim.reversal = part.boolean();
    }
    ok = part.ok();
  }
  if (!ok || !field.ok()) return errors_.Damaged("a window");
  window = module_.arena().Copy(dims);
  return true;
}

bool AttributeReader::Precisions(std::string_view bytes, std::span<const Precision>& precision,
                                 std::string_view* algorithm) {
  std::vector<int64_t> numbers;
  int64_t algorithm_number = 0;
  FieldReader field(bytes);
  bool ok = true;
  while (ok && field.Next()) {
    if (field.number() == 1) ok = field.AppendTo(numbers);
    if (field.number() == 2) algorithm_number = field.integer();
  }
  if (!ok || !field.ok()) return errors_.Damaged("a precision");
  std::vector<Precision> values;
  bool all_default = true;
  for (int64_t number : numbers) {
    if (!OneEnum(number, 4, "a precision")) return false;
    values.push_back(static_cast<Precision>(number));
    all_default &= number == 0;
  }
  if (!all_default) precision = module_.arena().Copy(values);
  if (algorithm == nullptr) return true;
  if (!OneEnum(algorithm_number, kDotAlgorithms.size(), "a dot algorithm")) return false;
  *algorithm = kDotAlgorithms[static_cast<size_t>(algorithm_number)];
  return true;
}

void* AttributeReader::Literal(const InstructionProto& proto, const Shape* shape) {
  if (!proto.has_literal) return Fail("a constant without a literal");
  const gshard::Literal* literal = ReadLiteral(proto.literal, module_.arena(), shapes_, errors_);
  if (literal == nullptr) return nullptr;
  if (!Compatible(literal->shape, shape)) {
    return Fail(fmt::format("a literal of {} for a constant of {}",
                            ToString(literal->shape, /*layouts=*/false),
                            ToString(shape, /*layouts=*/false)));
  }
  if (literal->shape != shape) {  // the text has the instruction's layout only
    auto* copy = module_.arena().New<gshard::Literal>(*literal);
    copy->shape = shape;
    literal = copy;
  }
  return New(ConstantAttributes{literal});
}

void* AttributeReader::Compare(const InstructionProto& proto,
                               std::span<Instruction* const> operands) {
  constexpr std::string_view kDirections[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  constexpr std::string_view kTypes[] = {"", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"};
  size_t direction = 0;
  size_t type = 0;
  std::string wrong = Unknown(proto.comparison_direction, kDirections, direction);
  if (wrong.empty()) wrong = Unknown(proto.comparison_type, kTypes, type);
  // Newer protos have PARTIAL or TOTAL in place of a type.
  constexpr std::string_view kOrders[] = {"", "PARTIAL", "TOTAL"};
  size_t order = 0;
  if (wrong.empty()) wrong = Unknown(proto.comparison_order, kOrders, order);
  if (!wrong.empty()) return Fail("compares by " + wrong);
  if (proto.comparison_order == "TOTAL") type = static_cast<size_t>(ComparisonType::kTotalOrder);
  CompareAttributes compare;
  compare.direction = static_cast<ComparisonDirection>(direction);
  compare.type = static_cast<ComparisonType>(type);
  if (!operands.empty() && operands[0]->shape()->IsArray()) {
    const DType dtype = operands[0]->shape()->dtype();
    const bool is_float = IsFloat(dtype) || IsComplex(dtype);
    const ComparisonType usual = is_float ? ComparisonType::kFloat
                                 : ClassOf(dtype) == DTypeClass::kSigned
                                     ? ComparisonType::kSigned
                                     : ComparisonType::kUnsigned;
    if (compare.type == usual) compare.type = ComparisonType::kDefault;
  }
  return New(compare);
}

void* AttributeReader::Slice(const InstructionProto& proto,
                             std::span<Instruction* const> operands) {
  const size_t rank = proto.slice_dims.size();
  if (operands.empty() || !operands[0]->shape()->IsArray() ||
      operands[0]->shape()->dims().size() != rank) {
    return Fail(fmt::format("a slice with ranges for {} dimensions", rank));
  }
  const auto starts = module_.arena().NewSpan<int64_t>(rank);
  const auto limits = module_.arena().NewSpan<int64_t>(rank);
  const auto strides = module_.arena().NewSpan<int64_t>(rank);
  for (size_t i = 0; i < rank; ++i) {
    starts[i] = limits[i] = strides[i] = 0;
    FieldReader field(proto.slice_dims[i]);
    while (field.Next()) {
      if (field.number() == 1) starts[i] = field.integer();
      if (field.number() == 2) limits[i] = field.integer();
      if (field.number() == 3) strides[i] = field.integer();
    }
    if (!field.ok()) {
      errors_.Damaged("a slice");
      return nullptr;
    }
  }
  return New(SliceAttributes{starts, limits, strides});
}

void* AttributeReader::Pad(const InstructionProto& proto) {
  std::vector<PadDim> dims;
  FieldReader field(proto.padding);
  bool ok = true;
  while (ok && field.Next()) {
    if (field.number() != 1) continue;
    PadDim& dim = dims.emplace_back();
    FieldReader part(field.bytes());
    while (part.Next()) {
      if (part.number() == 1) dim.low = part.integer();
      if (part.number() == 2) dim.high = part.integer();
      if (part.number() == 3) dim.interior = part.integer();
    }
    ok = part.ok();
  }
  if (!ok || !field.ok()) {
    errors_.Damaged("padding");
    return nullptr;
  }
  return New(PadAttributes{module_.arena().Copy(dims)});
}

void* AttributeReader::Dot(const InstructionProto& proto) {
  DotAttributes dot;
  std::string_view dims = proto.dot_dims;
  if (!proto.ragged_dims.empty()) {
    FieldReader field(proto.ragged_dims);
    while (field.Next()) {
      if (field.number() == 1) dims = field.bytes();
    }
    if (!ReadList(proto.ragged_dims, 2, dot.lhs_ragged) ||
        !ReadList(proto.ragged_dims, 3, dot.rhs_group)) {
      return nullptr;
    }
  }
  if (!ReadList(dims, 1, dot.lhs_contracting) || !ReadList(dims, 2, dot.rhs_contracting) ||
      !ReadList(dims, 3, dot.lhs_batch) || !ReadList(dims, 4, dot.rhs_batch) ||
      !Precisions(proto.precision, dot.precision, &dot.algorithm)) {
    return nullptr;
  }
  return New(dot);
}

bool AttributeReader::DimLabels(const InstructionProto& proto,
                                std::span<Instruction* const> operands, const Shape* shape,
                                ConvolutionAttributes& convolution) {
  convolution.input_batch = convolution.input_feature = convolution.kernel_input_feature = 0;
  convolution.kernel_output_feature = convolution.output_batch = convolution.output_feature = 0;
  std::vector<int64_t> input, kernel, output;
  FieldReader field(proto.convolution_dims);
  bool ok = true;
  while (ok && field.Next()) {
    switch (field.number()) {
      case 3:
        convolution.kernel_input_feature = field.integer();
        break;
      case 4:
        convolution.kernel_output_feature = field.integer();
        break;
      case 6:
        ok = field.AppendTo(kernel);
        break;
      case 7:
        convolution.input_batch = field.integer();
        break;
      case 8:
        convolution.input_feature = field.integer();
        break;
      case 9:
        convolution.output_batch = field.integer();
        break;
      case 10:
        convolution.output_feature = field.integer();
        break;
      case 11:
        ok = field.AppendTo(input);
        break;
      case 12:
        ok = field.AppendTo(output);
        break;
      default:
        break;
    }
  }
  if (!ok || !field.ok()) return errors_.Damaged("the dimensions of a convolution");
  const Shape* result = shape->IsTuple() && !shape->elements().empty() ? shape->element(0) : shape;
  if (operands.size() < 2 || !operands[0]->shape()->IsArray() || !operands[1]->shape()->IsArray() ||
      !result->IsArray()) {
    return errors_.Fail(Error::kValue, "a convolution of what are no two arrays");
  }
  std::string parts[3] = {std::string(operands[0]->shape()->dims().size(), '?'),
                          std::string(operands[1]->shape()->dims().size(), '?'),
                          std::string(result->dims().size(), '?')};
  if (!Place(parts[0], convolution.input_batch, 'b') ||
      !Place(parts[0], convolution.input_feature, 'f') || !PlaceSpatial(parts[0], input) ||
      !Place(parts[1], convolution.kernel_input_feature, 'i') ||
      !Place(parts[1], convolution.kernel_output_feature, 'o') || !PlaceSpatial(parts[1], kernel) ||
      !Place(parts[2], convolution.output_batch, 'b') ||
      !Place(parts[2], convolution.output_feature, 'f') || !PlaceSpatial(parts[2], output)) {
    return errors_.Fail(Error::kValue, "a convolution whose dimensions are not each named once");
  }
  convolution.input_spatial = Copy(input);
  convolution.kernel_spatial = Copy(kernel);
  convolution.output_spatial = Copy(output);
  const std::string labels = fmt::format("{}_{}->{}", parts[0], parts[1], parts[2]);
  convolution.dim_labels = module_.arena().Copy(std::string_view(labels));
  return true;
}

void* AttributeReader::Convolution(const InstructionProto& proto,
                                   std::span<Instruction* const> operands, const Shape* shape) {
  ConvolutionAttributes convolution;
  convolution.feature_group_count = std::max<int64_t>(proto.feature_group_count, 1);
  convolution.batch_group_count = std::max<int64_t>(proto.batch_group_count, 1);
  if (!Window(proto.window, convolution.window) ||
      !DimLabels(proto, operands, shape, convolution) ||
      !Precisions(proto.precision, convolution.precision, nullptr) ||
      !OneEnum(proto.convolution_kind, kConvolutionKinds.size(), "a kind of convolution")) {
    return nullptr;
  }
  convolution.convolution_kind = kConvolutionKinds[static_cast<size_t>(proto.convolution_kind)];
  const size_t spatial = convolution.window.size();
  if (convolution.input_spatial.size() != spatial || convolution.kernel_spatial.size() != spatial ||
      convolution.output_spatial.size() != spatial) {
    return Fail(fmt::format("a window of {} dimensions for a convolution of {}", spatial,
                            convolution.input_spatial.size()));
  }
  return New(convolution);
}

void* AttributeReader::Gather(const InstructionProto& proto) {
  GatherAttributes gather;
  FieldReader field(proto.gather_dims);
  while (field.Next()) {
    if (field.number() == 4) gather.index_vector_dim = field.integer();
  }
  if (!ReadList(proto.gather_dims, 1, gather.offset_dims) ||
      !ReadList(proto.gather_dims, 2, gather.collapsed_slice_dims) ||
      !ReadList(proto.gather_dims, 3, gather.start_index_map) ||
      !ReadList(proto.gather_dims, 5, gather.operand_batching_dims) ||
      !ReadList(proto.gather_dims, 6, gather.start_indices_batching_dims)) {
    return nullptr;
  }
  gather.slice_sizes = Copy(proto.gather_slice_sizes);
  gather.indices_are_sorted = proto.indices_are_sorted;
  return New(gather);
}

void* AttributeReader::Scatter(const InstructionProto& proto) {
  ScatterAttributes scatter;
  FieldReader field(proto.scatter_dims);
  while (field.Next()) {
    if (field.number() == 4) scatter.index_vector_dim = field.integer();
  }
  if (!ReadList(proto.scatter_dims, 1, scatter.update_window_dims) ||
      !ReadList(proto.scatter_dims, 2, scatter.inserted_window_dims) ||
      !ReadList(proto.scatter_dims, 3, scatter.scatter_dims_to_operand_dims) ||
      !ReadList(proto.scatter_dims, 5, scatter.input_batching_dims) ||
      !ReadList(proto.scatter_dims, 6, scatter.scatter_indices_batching_dims)) {
    return nullptr;
  }
  scatter.indices_are_sorted = proto.indices_are_sorted;
  scatter.unique_indices = proto.unique_indices;
  return New(scatter);
}

void* AttributeReader::TriangularSolve(const InstructionProto& proto) {
  TriangularSolveAttributes solve;
  int64_t transpose = 1;
  FieldReader field(proto.triangular_solve);
  while (field.Next()) {
    if (field.number() == 1) solve.left_side = field.boolean();
    if (field.number() == 2) solve.lower = field.boolean();
    if (field.number() == 3) solve.unit_diagonal = field.boolean();
    if (field.number() == 4) transpose = field.integer();
  }
  if (!field.ok() || !OneEnum(transpose - 1, 3, "a transposition")) return nullptr;
  solve.transpose_a = static_cast<TransposeKind>(transpose - 1);
  return New(solve);
}

void* AttributeReader::Domain(const InstructionProto& proto) {
  const auto entry = ShardingText(proto.domain_entry, errors_);
  if (!entry.has_value()) return nullptr;
  const auto exit = ShardingText(proto.domain_exit, errors_);
  if (!exit.has_value()) return nullptr;
  const std::string text = fmt::format("{{kind=\"sharding\", entry={}, exit={}}}", *entry, *exit);
  return New(DomainAttributes{module_.arena().Copy(std::string_view(text))});
}

bool AttributeReader::Groups(const InstructionProto& proto, const ReplicaGroups*& groups) {
  std::string text;
  std::vector<std::string_view> lists = proto.groups;
  // Explicit lists, or, up to jaxlib 0.8.3, an array of device numbers within them.
  std::optional<std::string_view> iota;
  if (proto.has_iota_groups) iota = proto.iota_groups;
  FieldReader group_list(proto.group_list);
  while (group_list.Next()) {
    if (group_list.number() == 1) lists.push_back(group_list.bytes());
    if (group_list.number() == 2) iota = group_list.bytes();
  }
  if (!group_list.ok()) return errors_.Damaged("replica groups");
  if (proto.has_mesh_groups) {
    const auto mesh = MeshGroupsText(proto.mesh_groups, errors_);
    if (!mesh.has_value()) return false;
    text = *mesh;
  } else if (iota.has_value()) {
    int64_t count = 0, size = 0;
    std::vector<int64_t> dims, permutation;
    FieldReader field(*iota);
    bool ok = true;
    while (ok && field.Next()) {
      if (field.number() == 1) count = field.integer();
      if (field.number() == 2) size = field.integer();
      if (field.number() == 3) ok = field.AppendTo(dims);
      if (field.number() == 4) ok = field.AppendTo(permutation);
    }
    if (!ok || !field.ok()) return errors_.Damaged("replica groups");
    text = fmt::format("[{},{}]<=[{}]", count, size, fmt::join(dims, ","));
    if (dims.size() > 1) text += fmt::format("T({})", fmt::join(permutation, ","));
  } else {
    text = "{";
    for (std::string_view list : lists) {
      Dims devices;
      if (!ReadList(list, 1, devices)) return false;
      text += fmt::format("{}{{{}}}", text.size() > 1 ? "," : "", fmt::join(devices, ","));
    }
    text += '}';
  }
  if (const auto it = groups_.find(text); it != groups_.end()) {
    groups = it->second;
    return true;
  }
  auto parsed = ParseReplicaGroups(text);
  if (!parsed.has_value()) {
    return errors_.Fail(Error::kValue,
                        fmt::format("its replica groups {}: {}", text, parsed.error().message));
  }
  groups = module_.Own(*std::move(parsed));
  groups_.emplace(module_.arena().Copy(std::string_view(text)), groups);
  return true;
}

bool AttributeReader::Pairs(const InstructionProto& proto, std::span<const DevicePair>& pairs) {
  const auto read = module_.arena().NewSpan<DevicePair>(proto.source_target_pairs.size());
  for (size_t i = 0; i < read.size(); ++i) {
    read[i] = {};
    FieldReader field(proto.source_target_pairs[i]);
    while (field.Next()) {
      if (field.number() == 1) read[i].source = field.integer();
      if (field.number() == 2) read[i].target = field.integer();
    }
    if (!field.ok()) return errors_.Damaged("a pair of devices");
  }
  pairs = read;
  return true;
}

void* AttributeReader::Collective(Opcode opcode, const InstructionProto& proto) {
  CollectiveAttributes collective;
  collective.channel_id = proto.channel_id;
  collective.constrain_layout = proto.constrain_layout;
  collective.use_global_device_ids = proto.use_global_device_ids;
  if (opcode == Opcode::kCollectiveBroadcast && proto.has_dynamic_root) {
    collective.has_dynamic_root = "true";
  }
  const bool has_dimension = opcode == Opcode::kAllGather || opcode == Opcode::kAllGatherStart ||
                             opcode == Opcode::kReduceScatter || opcode == Opcode::kAllToAll;
  if (has_dimension) collective.dimension = OneDimension(proto);
  if (opcode == Opcode::kCollectivePermute || opcode == Opcode::kCollectivePermuteStart) {
    if (!Pairs(proto, collective.source_target_pairs)) return nullptr;
    if (!proto.dynamic_slice_sizes.empty()) {
      const std::string text = fmt::format("{{{{{}}}}}", fmt::join(proto.dynamic_slice_sizes, ","));
      collective.slice_sizes = module_.arena().Copy(std::string_view(text));
    }
  } else if (!Groups(proto, collective.replica_groups)) {
    return nullptr;
  }
  return New(collective);
}

// {{0}: (1, {})}
bool AttributeReader::Aliasing(const InstructionProto& proto, std::string_view& text) {
  if (proto.aliasing.empty()) return true;
  std::string out = "{";
  for (std::string_view alias : proto.aliasing) {
    if (out.size() > 1) out += ", ";
    if (!AppendOperandAliasing(alias, out)) return errors_.Damaged("an alias");
  }
  out += '}';
  text = module_.arena().Copy(std::string_view(out));
  return true;
}

void* AttributeReader::CustomCall(const InstructionProto& proto,
                                  std::span<Instruction* const> operands, const Shape* shape) {
  CustomCallAttributes call;
  call.target = Escaped(proto.target, module_.arena());
  call.feature_group_count = std::max<int64_t>(proto.feature_group_count, 1);
  call.batch_group_count = std::max<int64_t>(proto.batch_group_count, 1);
  call.has_side_effect = proto.has_side_effect;
  if (!Window(proto.window, call.window) || !Precisions(proto.precision, call.precision, nullptr) ||
      !Aliasing(proto, call.output_to_operand_aliasing) ||
      !OneEnum(proto.padding_type, kPaddingTypes.size(), "a padding type") ||
      !OneEnum(proto.schedule, kSchedules.size(), "a schedule") ||
      !OneEnum(proto.api_version, kApiVersions.size(), "an API version")) {
    return nullptr;
  }
  if (!proto.convolution_dims.empty()) {
    ConvolutionAttributes convolution;
    if (!DimLabels(proto, operands, shape, convolution)) return nullptr;
    call.dim_labels = convolution.dim_labels;
  }
  call.padding_type = kPaddingTypes[static_cast<size_t>(proto.padding_type)];
  call.schedule = kSchedules[static_cast<size_t>(proto.schedule)];
  call.api_version = kApiVersions[static_cast<size_t>(proto.api_version)];
  if (proto.constrain_layout) {
    call.has_operand_layout_constraints = true;
    const auto shapes = module_.arena().NewSpan<const Shape*>(proto.operand_shapes.size());
    for (size_t i = 0; i < shapes.size(); ++i) {
      shapes[i] = shapes_.Read(proto.operand_shapes[i]);
      if (shapes[i] == nullptr) return nullptr;
    }
    call.operand_layout_constraints = shapes;
  }
  if (proto.has_literal) {
    call.literal = ReadLiteral(proto.literal, module_.arena(), shapes_, errors_);
    if (call.literal == nullptr) return nullptr;
  }
  return New(call);
}

void* AttributeReader::Read(Opcode opcode, const InstructionProto& proto, const Shape* shape,
                            std::span<Instruction* const> operands) {
  switch (opcode) {
    case Opcode::kConstant:
      return Literal(proto, shape);
    case Opcode::kCompare:
      return Compare(proto, operands);
    case Opcode::kSlice:
      return Slice(proto, operands);
    case Opcode::kPad:
      return Pad(proto);
    case Opcode::kDot:
    case Opcode::kRaggedDot:
    case Opcode::kScaledDot:
      return Dot(proto);
    case Opcode::kConvolution:
      return Convolution(proto, operands, shape);
    case Opcode::kGather:
      return Gather(proto);
    case Opcode::kScatter:
      return Scatter(proto);
    case Opcode::kTriangularSolve:
      return TriangularSolve(proto);
    case Opcode::kDomain:
      return Domain(proto);
    case Opcode::kCustomCall:
      return CustomCall(proto, operands, shape);
    default:
      break;
  }
  const AttributeTag tag = AttributeTagOf(opcode);
  if (tag == &AttributeType<CollectiveAttributes>::kTag) return Collective(opcode, proto);
  if (tag == &AttributeType<DimensionsAttributes>::kTag) {
    if (opcode == Opcode::kMap && proto.dimensions.empty() && !operands.empty()) {
      std::vector<int64_t> all(operands[0]->shape()->dims().size());
      std::iota(all.begin(), all.end(), 0);
      return New(DimensionsAttributes{Copy(all)});
    }
    return New(DimensionsAttributes{Copy(proto.dimensions)});
  }
  if (tag == &AttributeType<NoAttributes>::kTag) return New(NoAttributes{});
  if (tag == &AttributeType<MathAttributes>::kTag) {
    std::string text;
    if (!AppendResultAccuracy(proto.accuracy, text)) return Fail("a damaged result accuracy");
    return New(MathAttributes{module_.arena().Copy(std::string_view(text))});
  }
  if (tag == &AttributeType<ChannelAttributes>::kTag) {
    return New(ChannelAttributes{proto.channel_id, proto.is_host_transfer});
  }
  if (tag == &AttributeType<BatchNormAttributes>::kTag) {
    return New(BatchNormAttributes{Decimal(proto.epsilon), proto.feature_index});
  }
  return Other(opcode, proto);
}

void* AttributeReader::Other(Opcode opcode, const InstructionProto& proto) {
  switch (opcode) {
    case Opcode::kParameter: {
      ParameterAttributes parameter{proto.parameter_number, {}};
      Dims flags;
      if (!ReadList(proto.replication, 1, flags)) return nullptr;
      std::string text;
      for (int64_t flag : flags) text += fmt::format("{}{}", text.empty() ? "{" : ",", flag != 0);
      if (!text.empty()) parameter.replication = module_.arena().Copy(std::string_view(text + "}"));
      return New(parameter);
    }
    case Opcode::kIota:
      return New(IotaAttributes{std::max<int64_t>(OneDimension(proto), 0)});
    case Opcode::kReducePrecision:
      return New(ReducePrecisionAttributes{proto.exponent_bits, proto.mantissa_bits});
    case Opcode::kReshape:
      return New(ReshapeAttributes{OneDimension(proto)});
    case Opcode::kDynamicSlice:
      return New(DynamicSliceAttributes{Copy(proto.dynamic_slice_sizes)});
    case Opcode::kReduceWindow:
    case Opcode::kSelectAndScatter: {
      WindowAttributes attributes;
      return Window(proto.window, attributes.window) ? New(attributes) : nullptr;
    }
    case Opcode::kScan:
      return New(ScanAttributes{OneDimension(proto), proto.num_carries, proto.is_reverse,
                                proto.associativity == 1});
    case Opcode::kSort:
      return New(SortAttributes{OneDimension(proto), proto.is_stable});
    case Opcode::kTopK:
      return New(TopKAttributes{proto.k, proto.largest, proto.is_stable});
    case Opcode::kRng:
      if (!OneEnum(proto.distribution - 1, 2, "a distribution")) return nullptr;
      return New(RngAttributes{static_cast<RngDistribution>(proto.distribution - 1)});
    case Opcode::kRngBitGenerator:
      if (!OneEnum(proto.rng_algorithm, 3, "a random algorithm")) return nullptr;
      return New(RngBitGeneratorAttributes{static_cast<RngAlgorithm>(proto.rng_algorithm)});
    case Opcode::kRngGetAndUpdateState:
      return New(RngStateAttributes{proto.delta});
    case Opcode::kCholesky: {
      FieldReader field(proto.cholesky);
      CholeskyAttributes cholesky;
      while (field.Next()) {
        if (field.number() == 1) cholesky.lower = field.boolean();
      }
      return New(cholesky);
    }
    case Opcode::kFft:
      if (!OneEnum(proto.fft_type, 4, "a type of FFT")) return nullptr;
      return New(FftAttributes{static_cast<FftType>(proto.fft_type), Copy(proto.fft_length)});
    case Opcode::kCall:
      return New(CallAttributes{proto.is_composite});
    default:
      return Calling(opcode, proto);
  }
}

// Of what calls computations, and of what moves data between memories and hosts.
void* AttributeReader::Calling(Opcode opcode, const InstructionProto& proto) {
  switch (opcode) {
    case Opcode::kFusion: {
      size_t index = 0;
      const std::string wrong = Unknown(proto.fusion_kind, kFusionKinds, index);
      if (!wrong.empty()) return Fail("a fusion of kind " + wrong);
      FusionAttributes fusion{kFusionKinds[index], {}};
      return Aliasing(proto, fusion.output_to_operand_aliasing) ? New(fusion) : nullptr;
    }
    case Opcode::kAsyncStart: {
      AsyncAttributes async;
      // "main" is what no thread means.
      if (proto.async_thread != "main") {
        async.execution_thread = Escaped(proto.async_thread, module_.arena());
      }
      return Aliasing(proto, async.output_to_operand_aliasing) ? New(async) : nullptr;
    }
    case Opcode::kGetTupleElement:
      return New(GetTupleElementAttributes{proto.tuple_index});
    case Opcode::kCopyStart:
      return New(CopyStartAttributes{proto.prefetch_index});
    case Opcode::kInfeed:
    case Opcode::kOutfeed: {
      const bool infeed = opcode == Opcode::kInfeed;
      const std::string_view config = infeed ? proto.infeed_config : proto.outfeed_config;
      std::string_view text;
      if (!config.empty()) text = module_.arena().Copy(std::string_view(Quoted(config)));
      if (infeed) return New(InfeedAttributes{text});
      OutfeedAttributes outfeed{nullptr, text};
      if (proto.has_outfeed_shape) {
        outfeed.shape = shapes_.Read(proto.outfeed_shape);
        if (outfeed.shape == nullptr) return nullptr;
      }
      return New(outfeed);
    }
    default:
      return Fail(fmt::format("the attributes of {} are not known", OpcodeName(opcode)));
  }
}

}  // namespace gshard::proto
