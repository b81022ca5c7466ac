#include "ir/linalg_call.h"

#include <algorithm>
#include <charconv>

#include "ir/attributes.h"
#include "ir/metadata.h"

namespace gshard {

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

std::string_view LinalgRoutine(std::string_view target) {
  if (const std::string_view routine = TpuLinalgRoutine(target); !routine.empty()) return routine;
  if (const std::string_view routine = GpuLinalgRoutine(target); !routine.empty()) return routine;
  constexpr std::string_view kPrefix = "lapack_", kSuffix = "_ffi";
  if (!target.starts_with(kPrefix) || !target.ends_with(kSuffix)) return {};
  if (target.size() <= kPrefix.size() + 1 + kSuffix.size()) return {};
  target.remove_prefix(kPrefix.size() + 1);  // a letter says the type
  target.remove_suffix(kSuffix.size());
  if (target == "heevd") return "syevd";
  if (target == "hetrd") return "sytrd";
  if (target == "ungqr") return "orgqr";
  if (target == "unmqr") return "ormqr";
  return target;
}

namespace {

// Values by key; what is no `key = value` is passed over.
LinalgOptions ParseOptions(std::string_view text) {
  LinalgOptions options;
  const auto is_word = [](char c) { return c == '_' || (c >= 'a' && c <= 'z'); };
  for (size_t i = 0; i < text.size();) {
    if (!is_word(text[i])) {
      ++i;
      continue;
    }
    const size_t begin = i;
    while (i < text.size() && is_word(text[i])) ++i;
    const std::string key(text.substr(begin, i - begin));
    while (i < text.size() && text[i] == ' ') ++i;
    if (i == text.size() || text[i] != '=') continue;
    ++i;
    while (i < text.size() && text[i] == ' ') ++i;
    int64_t value = text.substr(i, 4) == "true" ? 1 : 0;
    std::from_chars(text.data() + i, text.data() + text.size(), value);
    options[key] = value;
    while (i < text.size() && text[i] != ',') ++i;
  }
  return options;
}

// Of "lower,sort,iterations,tolerance"; yes if that says nothing.
bool EighReadsLower(std::string_view backend_config) {
  const size_t first = backend_config.find_first_of("01");
  return first == std::string_view::npos || backend_config[first] == '1';
}

}  // namespace

LinalgOptions LinalgOptionsOf(const Instruction& call) {
  const std::string_view target = call.attributes<CustomCallAttributes>().target;
  LinalgOptions options = ParseOptions(call.backend_config());
  const auto letter_of = [&](std::string_view from, const char* to, char yes, char no) {
    if (const auto it = options.find(from); it != options.end()) {
      options[to] = it->second != 0 ? yes : no;
    }
  };
  letter_of("lower", "uplo", 'L', 'U');
  if (target == "Eigh") options["uplo"] = EighReadsLower(call.backend_config()) ? 'L' : 'U';
  const std::string_view routine = LinalgRoutine(target);
  if (routine == "syevd") options.emplace("mode", 'V');
  if (routine == "eig") {
    letter_of("left", "compute_left", 'V', 'N');
    letter_of("right", "compute_right", 'V', 'N');
  }
  return options;
}

namespace {

bool StartsWith(const Shape* shape, std::span<const int64_t> batch) {
  return shape->IsArray() && shape->rank() >= static_cast<int64_t>(batch.size()) &&
         std::equal(batch.begin(), batch.end(), shape->dims().begin());
}

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
