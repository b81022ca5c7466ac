// Folding by one tile function, or by the body's program.
#include "backends/cpu/ops/tile_folder.h"

#include <cstring>

#include "core/analysis/combiner.h"
#include "ir/try.h"

namespace gshard::cpu {

Expected<std::unique_ptr<TileFolder>> TileFolder::Make(const Computation& body,
                                                       std::vector<DType> dtypes) {
  auto folder = std::make_unique<TileFolder>();
  folder->dtypes_ = std::move(dtypes);
  if (folder->dtypes_.size() == 1) {
    const DType dtype = folder->dtypes_[0];
    const auto operation = SingleBinaryOperation(body);
    if (operation && HasFlag(*operation, kCommutative) &&
        ArithmeticFunction(*operation, ComputeType(dtype)) != nullptr) {
      folder->operation_ = operation;
      folder->combine_ = ArithmeticFunction(*operation, ComputeType(dtype));
      if (IsSmallFloat(dtype)) {
        folder->load_ = LoadFunction(dtype);
        folder->store_ = StoreFunction(dtype);
      } else if (IsSubByteInteger(dtype)) {
        folder->store_ = WrapFunction(dtype);
      }
      return folder;
    }
  }
  folder->program_ = GSHARD_TRY(ScalarProgram::Compile(body));
  return folder;
}

int64_t TileFolder::FlopsPerElement() const {
  return program_ != nullptr ? program_->FlopsPerElement() : 1;
}

TileFolder::Workspace TileFolder::MakeWorkspace(int64_t tile, Scratch& scratch) const {
  const auto pointers = [&](size_t n) {
    return reinterpret_cast<std::byte**>(scratch.Allocate(n * sizeof(std::byte*)));
  };
  Workspace work;
  work.scratch = &scratch;
  work.accumulators = pointers(inputs());
  work.elements = pointers(inputs());
  work.arguments = const_cast<const std::byte**>(pointers(3 * inputs()));
  for (size_t k = 0; k < inputs(); ++k) {
    work.accumulators[k] = scratch.Allocate(static_cast<size_t>(tile * bytes(k)));
    work.elements[k] = scratch.Allocate(static_cast<size_t>(tile * stored_bytes(k)));
  }
  if (load_ != nullptr) work.loaded = scratch.Allocate(static_cast<size_t>(tile) * sizeof(float));
  return work;
}

void TileFolder::Start(const std::byte* const* init, int64_t begin, int64_t n,
                       Workspace& work) const {
  for (size_t k = 0; k < inputs(); ++k) {
    alignas(16) std::byte value[16];
    if (load_ != nullptr) {
      load_(Tile{{init[k], nullptr, nullptr}, value, 1, 0});
    } else {
      std::memcpy(value, init[k], static_cast<size_t>(stored_bytes(k)));
    }
    FillElements(work.accumulators[k] + begin * bytes(k), value, bytes(k), n);
  }
}

void TileFolder::Fold(int64_t begin, int64_t n, Workspace& work, bool swapped) const {
  if (n <= 0) return;
  if (combine_ != nullptr) {
    const std::byte* elements = work.elements[0];
    if (load_ != nullptr) {
      load_(Tile{{elements, nullptr, nullptr}, work.loaded, n, 0});
      elements = work.loaded;
    }
    std::byte* sums = work.accumulators[0] + begin * bytes(0);
    combine_(Tile{{sums, elements, nullptr}, sums, n, DTypeBits(dtypes_[0])});
    return;
  }
  const size_t k_count = inputs();
  std::byte** results = const_cast<std::byte**>(work.arguments + 2 * k_count);
  for (size_t k = 0; k < k_count; ++k) {
    results[k] = work.accumulators[k] + begin * bytes(k);
    work.arguments[swapped ? k_count + k : k] = results[k];
    work.arguments[swapped ? k : k_count + k] = work.elements[k];
  }
  program_->Run(n, {work.arguments, 2 * k_count}, {results, k_count}, *work.scratch);
}

void TileFolder::Store(size_t input, int64_t begin, int64_t n, std::byte* out,
                       const Workspace& work) const {
  const std::byte* sums = work.accumulators[input] + begin * bytes(input);
  if (store_ != nullptr) {
    store_(Tile{{sums, nullptr, nullptr}, out, n, 0});
  } else {
    std::memcpy(out, sums, static_cast<size_t>(n * bytes(input)));
  }
}

}  // namespace gshard::cpu
