// Folding of tiles of elements into tiles of accumulators by a called computation.
//
// One operation on one array folds in its compute type (small floats in f32, rounded once at the
// end); anything else runs the body's program on the stored types.
#ifndef GSHARD_BACKENDS_CPU_OPS_TILE_FOLDER_H_
#define GSHARD_BACKENDS_CPU_OPS_TILE_FOLDER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/cpu/elementwise/scalar_program.h"

namespace gshard::cpu {

class TileFolder {
 public:
  // Body of k arrays: parameters (accumulators.., elements..), results the new accumulators.
  static Expected<std::unique_ptr<TileFolder>> Make(const Computation& body,
                                                    std::vector<DType> dtypes);

  size_t inputs() const { return dtypes_.size(); }
  int64_t stored_bytes(size_t input) const { return StorageBytes(dtypes_[input]); }
  // Of an accumulator.
  int64_t bytes(size_t input) const {
    return load_ != nullptr ? static_cast<int64_t>(sizeof(float)) : stored_bytes(input);
  }
  // The one associative and commutative operation that the body is; none for a general body.
  std::optional<Opcode> operation() const { return operation_; }
  int64_t FlopsPerElement() const;

  // Pointers and tiles for up to `tile` elements, for as long as the scratch position holds.
  struct Workspace {
    std::byte** accumulators = nullptr;
    std::byte** elements = nullptr;  // stored form; may be set to other memory
    const std::byte** arguments = nullptr;
    std::byte* loaded = nullptr;
    Scratch* scratch = nullptr;
  };
  Workspace MakeWorkspace(int64_t tile, Scratch& scratch) const;

  // Accumulators [begin, begin + n) = the init values (stored form).
  void Start(const std::byte* const* init, int64_t begin, int64_t n, Workspace& work) const;
  // Accumulators [begin, begin + n) = body(accumulators, elements[0 .. n)); elements in
  // work.elements. With `swapped`: body(elements, accumulators).
  void Fold(int64_t begin, int64_t n, Workspace& work, bool swapped = false) const;
  // Accumulators [begin, begin + n) of one input, in stored form, to `out`.
  void Store(size_t input, int64_t begin, int64_t n, std::byte* out, const Workspace& work) const;

 private:
  std::vector<DType> dtypes_;
  std::optional<Opcode> operation_;
  TileFunction combine_ = nullptr;
  TileFunction load_ = nullptr, store_ = nullptr;
  std::unique_ptr<ScalarProgram> program_;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_OPS_TILE_FOLDER_H_
