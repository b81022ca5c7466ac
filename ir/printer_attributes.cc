// Attributes in text, driven by the rows of ir/attribute_table.h.
#include <algorithm>

#include "ir/literal_text.h"
#include "ir/module_printer.h"
#include "ir/replica_groups.h"
#include "ir/sharding_text.h"

namespace gshard {
namespace {

template <typename T>
const T& Member(const void* attributes, const AttributeRow& row) {
  return *reinterpret_cast<const T*>(static_cast<const char*>(attributes) + row.offset);
}

}  // namespace

void ModulePrinter::PrintRows(const Instruction& instruction, Opcode opcode,
                              const void* attributes) {
  for (const AttributeRow& row : AttributesOf(opcode)) {
    // The short spelling of an asynchronous operation has no calls=: `instruction` is then what it
    // wraps.
    if (row.kind == AttributeKind::kComputation && instruction.opcode() != opcode) continue;
    if (!IsPrinted(row, instruction, attributes)) continue;
    out_ += ", ";
    out_ += row.name;
    out_ += '=';
    PrintValue(row, instruction, attributes);
  }
}

bool ModulePrinter::IsPrinted(const AttributeRow& row, const Instruction& instruction,
                              const void* attributes) {
  switch (row.kind) {
    case AttributeKind::kComputation:
      if (instruction.opcode() == Opcode::kConditional) {
        return instruction.operand_count() > 0 &&
               instruction.operand(0)->shape()->bare()->IsArray() &&
               instruction.operand(0)->shape()->dtype() == DType::kPred;
      }
      return row.required;  // custom-call prints called_computations
    case AttributeKind::kComputations:
      if (instruction.opcode() == Opcode::kConditional) {
        return instruction.operand_count() == 0 ||
               instruction.operand(0)->shape()->dtype() != DType::kPred;
      }
      return !instruction.called().empty();
    case AttributeKind::kIgnored:
      return false;
    case AttributeKind::kShapeList:
      return options_.layouts &&
             static_cast<const CustomCallAttributes*>(attributes)->has_operand_layout_constraints;
    default:
      break;
  }
  if (row.read_only) return false;
  if (row.always_printed) return true;
  switch (row.kind) {
    case AttributeKind::kInt:
    case AttributeKind::kDim:
      return Member<int64_t>(attributes, row) != row.omitted;
    case AttributeKind::kBool:
      return Member<bool>(attributes, row) != (row.omitted != 0);
    case AttributeKind::kEnum:
      return Member<uint8_t>(attributes, row) != row.omitted;
    case AttributeKind::kDims:
      return !Member<Dims>(attributes, row).empty();
    case AttributeKind::kWindow:
      return !Member<std::span<const WindowDim>>(attributes, row).empty();
    case AttributeKind::kPrecision:
      return !Member<std::span<const Precision>>(attributes, row).empty();
    case AttributeKind::kReplicaGroups:
    case AttributeKind::kShape:
    case AttributeKind::kLiteral:
      return Member<const void*>(attributes, row) != nullptr;
    default:  // kWord, kString, kRaw, kDimLabels
      return !Member<std::string_view>(attributes, row).empty();
  }
}

int64_t ModulePrinter::ChannelOf(int64_t channel_id) {
  if (!short_names_) return channel_id;
  const auto next = static_cast<int64_t>(short_channel_of_.size()) + 1;
  return short_channel_of_.try_emplace(channel_id, next).first->second;
}

void ModulePrinter::PrintValue(const AttributeRow& row, const Instruction& instruction,
                               const void* attributes) {
  switch (row.kind) {
    case AttributeKind::kInt:
      PrintInteger(row.name == "channel_id" ? ChannelOf(Member<int64_t>(attributes, row))
                                            : Member<int64_t>(attributes, row));
      return;
    case AttributeKind::kBool:
      out_ += Member<bool>(attributes, row) ? "true" : "false";
      return;
    case AttributeKind::kDouble:
      AppendDouble(out_, Member<double>(attributes, row));
      return;
    case AttributeKind::kEnum:
      out_ += row.words[Member<uint8_t>(attributes, row)];
      return;
    case AttributeKind::kWord:
    case AttributeKind::kRaw:
    case AttributeKind::kDimLabels:
      out_ += Member<std::string_view>(attributes, row);
      return;
    case AttributeKind::kString:
      out_ += '"';
      out_ += Member<std::string_view>(attributes, row);
      out_ += '"';
      return;
    case AttributeKind::kDims:
      PrintDims(Member<Dims>(attributes, row));
      return;
    case AttributeKind::kDim:
      out_ += '{';
      PrintInteger(Member<int64_t>(attributes, row));
      out_ += '}';
      return;
    case AttributeKind::kSlice:
      PrintSlice(*static_cast<const SliceAttributes*>(attributes));
      return;
    case AttributeKind::kPadding:
      PrintPadding(Member<std::span<const PadDim>>(attributes, row));
      return;
    case AttributeKind::kWindow:
      PrintWindow(Member<std::span<const WindowDim>>(attributes, row));
      return;
    case AttributeKind::kPrecision:
      PrintPrecision(Member<std::span<const Precision>>(attributes, row));
      return;
    case AttributeKind::kReplicaGroups:
      PrintGroups(Member<const ReplicaGroups*>(attributes, row));
      return;
    case AttributeKind::kDevicePairs:
      PrintPairs(Member<std::span<const DevicePair>>(attributes, row));
      return;
    case AttributeKind::kShape:
      PrintShape(Member<const Shape*>(attributes, row));
      return;
    case AttributeKind::kShapeList: {
      const auto shapes = Member<std::span<const Shape* const>>(attributes, row);
      out_ += '{';
      for (size_t i = 0; i < shapes.size(); ++i) {
        if (i > 0) out_ += ", ";
        PrintShape(shapes[i], /*layouts=*/true);
      }
      out_ += '}';
      return;
    }
    case AttributeKind::kLiteral: {
      const Literal* literal = Member<const Literal*>(attributes, row);
      PrintShapeWithLayout(literal->shape);
      out_ += ' ';
      AppendLiteral(out_, *literal);
      return;
    }
    case AttributeKind::kComputation:
      PrintPercentName(NameOf(*instruction.called(row.offset)));
      return;
    case AttributeKind::kComputations:
      out_ += '{';
      for (size_t i = 0; i < instruction.called().size(); ++i) {
        if (i > 0) out_ += ", ";
        PrintPercentName(NameOf(*instruction.called()[i]));
      }
      out_ += '}';
      return;
    case AttributeKind::kIgnored:
      return;
  }
}

void ModulePrinter::PrintDims(Dims dims) { PrintIndex(dims); }

void ModulePrinter::PrintSlice(const SliceAttributes& slice) {
  const bool strided = std::any_of(slice.strides.begin(), slice.strides.end(),
                                   [](int64_t stride) { return stride != 1; });
  out_ += '{';
  for (size_t i = 0; i < slice.starts.size(); ++i) {
    out_ += i > 0 ? ", [" : "[";
    PrintInteger(slice.starts[i]);
    out_ += ':';
    PrintInteger(slice.limits[i]);
    if (strided) {
      out_ += ':';
      PrintInteger(slice.strides[i]);
    }
    out_ += ']';
  }
  out_ += '}';
}

void ModulePrinter::PrintPadding(std::span<const PadDim> padding) {
  const bool interior = std::any_of(padding.begin(), padding.end(),
                                    [](const PadDim& dim) { return dim.interior != 0; });
  for (size_t i = 0; i < padding.size(); ++i) {
    if (i > 0) out_ += 'x';
    PrintInteger(padding[i].low);
    out_ += '_';
    PrintInteger(padding[i].high);
    if (interior) {
      out_ += '_';
      PrintInteger(padding[i].interior);
    }
  }
}

void ModulePrinter::PrintWindow(std::span<const WindowDim> window) {
  auto print_field = [&](std::string_view name, bool always, auto&& differs, auto&& print) {
    if (!always && std::none_of(window.begin(), window.end(), differs)) return;
    out_ += name;
    for (size_t i = 0; i < window.size(); ++i) {
      if (i > 0) out_ += 'x';
      print(window[i]);
    }
  };
  print_field(
      "{size=", true, [](const WindowDim&) { return true; },
      [this](const WindowDim& dim) { PrintInteger(dim.size); });
  print_field(
      " stride=", false, [](const WindowDim& dim) { return dim.stride != 1; },
      [this](const WindowDim& dim) { PrintInteger(dim.stride); });
  print_field(
      " pad=", false, [](const WindowDim& dim) { return dim.pad_low != 0 || dim.pad_high != 0; },
      [this](const WindowDim& dim) {
        PrintInteger(dim.pad_low);
        out_ += '_';
        PrintInteger(dim.pad_high);
      });
  print_field(
      " lhs_dilate=", false, [](const WindowDim& dim) { return dim.base_dilation != 1; },
      [this](const WindowDim& dim) { PrintInteger(dim.base_dilation); });
  print_field(
      " rhs_dilate=", false, [](const WindowDim& dim) { return dim.window_dilation != 1; },
      [this](const WindowDim& dim) { PrintInteger(dim.window_dilation); });
  print_field(
      " rhs_reversal=", false, [](const WindowDim& dim) { return dim.reversal; },
      [this](const WindowDim& dim) { out_ += dim.reversal ? '1' : '0'; });
  out_ += '}';
}

// There are as many as devices: each is appended as one piece.
void ModulePrinter::PrintPairs(std::span<const DevicePair> pairs) {
  char pair[48] = ",{";
  char* const last = pair + sizeof(pair) - 2;  // a number has 10 digits, a sign behind it
  out_ += '{';
  for (size_t i = 0; i < pairs.size(); ++i) {
    char* end = std::to_chars(pair + 2, last, pairs[i].source).ptr;
    *end++ = ',';
    end = std::to_chars(end, last, pairs[i].target).ptr;
    *end++ = '}';
    const char* begin = i > 0 ? pair : pair + 1;
    out_.append(begin, static_cast<size_t>(end - begin));
  }
  out_ += '}';
}

void ModulePrinter::PrintPrecision(std::span<const Precision> precision) {
  out_ += '{';
  for (size_t i = 0; i < precision.size(); ++i) {
    if (i > 0) out_ += ',';
    out_ += kPrecisionWords[static_cast<size_t>(precision[i])];
  }
  out_ += '}';
}

void ModulePrinter::PrintGroups(const ReplicaGroups* groups) {
  if (groups == nullptr) {
    out_ += "{}";
    return;
  }
  PrintCached(groups, [&] {
    if (options_.named && groups->form() == ReplicaGroups::Form::kIota) {
      for (const Mesh* mesh : module_.header().meshes) {
        const auto named = SpelledByMesh(*groups, *mesh);
        if (named && (options_.sub_axes || !HasSubAxes(ToString(*named)))) {
          out_ += ToString(*named);
          return;
        }
      }
    }
    out_ += ToString(*groups);
  });
}

void ModulePrinter::PrintSharding(const Sharding* sharding) {
  PrintCached(sharding, [&] {
    const Sharding* spelled = sharding;
    if (options_.named) {
      for (const Mesh* mesh : module_.header().meshes) {
        if (sharding->spelling != Spelling::kIota) break;
        spelled = SpelledByMesh(module_.context(), sharding, mesh, /*sugar=*/true);
        if (spelled == sharding) continue;
        if (options_.sub_axes || !HasSubAxes(ToString(spelled))) break;
        spelled = sharding;
      }
    }
    AppendSharding(out_, spelled, {.keep_sugar = options_.named, .tiles = options_.tiles});
  });
}

void ModulePrinter::PrintShape(const Shape* shape, bool layouts) {
  // Without layouts the bare shape prints the same.
  const Shape* printed = layouts ? shape : shape->bare();
  PrintCached(printed, [&] { AppendShape(out_, printed); });
}

void ModulePrinter::PrintShapeWithLayout(const Shape* shape) {
  if (!shape->IsArray() || shape->IsScalar() || shape->layout() != nullptr) {
    PrintShape(shape, /*layouts=*/true);
    return;
  }
  std::vector<int64_t> row_major(shape->dims().size());
  for (size_t i = 0; i < row_major.size(); ++i) {
    row_major[i] = static_cast<int64_t>(row_major.size() - 1 - i);
  }
  Context& context = module_.context();
  PrintShape(context.Array(shape->dtype(), shape->dims(), context.InternLayout(row_major, {}),
                           shape->dynamic_flags()),
             /*layouts=*/true);
}

}  // namespace gshard
