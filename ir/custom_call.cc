#include "ir/custom_call.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "ir/attributes.h"
#include "ir/metadata.h"

namespace gshard {
namespace {

bool StartsWith(const Shape* shape, std::span<const int64_t> batch) {
  return shape->IsArray() && shape->rank() >= static_cast<int64_t>(batch.size()) &&
         std::equal(batch.begin(), batch.end(), shape->dims().begin());
}

}  // namespace

bool IsRegionMarker(const Instruction& x) {
  return IsCustomCallTo(x, kEnterManualTarget) || IsCustomCallTo(x, kLeaveManualTarget);
}

bool IsShardingMarker(std::string_view target) {
  return target == kShardingTarget || target == "xla.sdy.FuncResultSharding" ||
         target == kShardBarrierFrom || target == kShardBarrierTo;
}

bool IsPlacementHint(std::string_view target) {
  return target == "annotate_device_placement" || target == "MoveToHost" ||
         target == "MoveToDevice" || target == "LayoutConstraint";
}

bool IsIndexHint(std::string_view target) {
  return target == "AssumeGatherIndicesInBound" || target == "GatherScatterIndicesBitpacked";
}

bool IsIdentityCall(const Instruction& x) {
  if (x.opcode() != Opcode::kCustomCall) return false;
  std::string_view target = x.attributes<CustomCallAttributes>().target;
  return IsRegionMarker(x) || IsShardingMarker(target) || IsPlacementHint(target) ||
         IsIndexHint(target);
}

std::string_view GpuLinalgRoutine(std::string_view target) {
  for (std::string_view vendor : {"cu", "hip"}) {
    if (!target.starts_with(vendor)) continue;
    for (std::string_view library : {"solver_", "sparse_", "hybrid_", "_lu_"}) {
      std::string_view routine = target.substr(vendor.size());
      if (!routine.starts_with(library)) continue;
      if (library == "_lu_") return routine.substr(1);
      routine.remove_prefix(library.size());
      for (std::string_view suffix : {"_ffi", "_real", "_comp"}) {
        if (routine.ends_with(suffix)) return routine.substr(0, routine.size() - suffix.size());
      }
    }
  }
  return {};
}

std::string_view TpuLinalgRoutine(std::string_view target) {
  if (target == "Qr") return "geqrf";
  if (target == "ProductOfElementaryHouseholderReflectors") return "orgqr";
  if (target == "Eigh") return "syevd";
  if (target == "LuDecomposition") return "getrf";
  return {};
}

bool IsLinalgCall(std::string_view target) {
  return (target.starts_with("lapack_") && target.ends_with("_ffi")) ||
         !GpuLinalgRoutine(target).empty() || !TpuLinalgRoutine(target).empty();
}

bool EighReadsLower(std::string_view backend_config) {
  const size_t first = backend_config.find_first_of("01");
  return first == std::string_view::npos || backend_config[first] == '1';
}

namespace {

// What num_batch_dims says, or 0.
int64_t WrittenBatchDims(const Instruction& x) {
  const std::string text = FrontendAttribute(x.frontend_attributes(), "num_batch_dims");
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  return error == std::errc() && end == text.data() + text.size() ? count : 0;
}

}  // namespace

int64_t BatchDimsOf(const Instruction& x) {
  if (x.opcode() != Opcode::kCustomCall || x.operand_count() == 0) return 0;
  const std::string_view target = x.attributes<CustomCallAttributes>().target;
  const Shape* first = x.operand(0)->shape();
  if (!first->IsArray() || !IsLinalgCall(target)) return 0;
  const int64_t count = TpuLinalgRoutine(target).empty() ? WrittenBatchDims(x) : first->rank() - 2;
  if (count <= 0 || first->rank() < count) return 0;
  const std::span<const int64_t> batch = first->dims().first(static_cast<size_t>(count));
  for (int64_t i = 0; i < x.operand_count(); ++i) {
    if (!StartsWith(x.operand(i)->shape(), batch)) return 0;
  }
  if (!x.shape()->IsTuple()) return StartsWith(x.shape(), batch) ? count : 0;
  for (const Shape* element : x.shape()->elements()) {
    if (!StartsWith(element, batch)) return 0;
  }
  return count;
}

}  // namespace gshard
