// Values for entry parameters: arrays of a .npz file, or random numbers that depend on the seed,
// the parameter and the element's place in the global array only, so that neither the sharding nor
// the number of threads changes them.
#ifndef GSHARD_BACKENDS_CPU_IO_INPUTS_H_
#define GSHARD_BACKENDS_CPU_IO_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/arrays/fill.h"
#include "backends/cpu/io/index_values.h"
#include "backends/cpu/io/npz.h"
#include "core/analysis/device_grid.h"
#include "core/analysis/index_inputs.h"
#include "ir/module.h"

namespace gshard::cpu {

// One leaf of the entry's parameters.
struct ParameterLeaf {
  std::string name;  // of the parameter instruction
  // The name without the ".N" that makes it unique in the module, if no other parameter shares it.
  std::string base_name;
  int64_t number = 0;
  const Shape* shape = nullptr;        // of this leaf in the module that runs
  const Sharding* sharding = nullptr;  // its record, or null
};
std::vector<ParameterLeaf> ParameterLeaves(const Computation& entry);

// A whole input: loaded, or a recipe for random numbers.
struct GlobalArray {
  DType dtype = DType::kF32;
  std::vector<int64_t> dims;
  std::vector<std::byte> data;  // empty: random, or `stored`
  StoredArray stored;           // as it lies in a file: only what is read takes memory
  uint64_t seed = 0, stream = 0;
  // Of random integers that index something; null: as FillRandom has it.
  std::shared_ptr<const IndexValues> indices;
  int64_t draw = 0;            // of `indices`
  // Random floats are positive, as FillRandom has those of arrays of rank 1.
  bool is_positive = false;
  std::string converted_from;  // NumPy's name of the file's type, where that is not `dtype`

  bool IsRandom() const { return data.empty() && stored.file == nullptr; }
  // The box of `sizes` that begins at `start`, row-major, into `out`. Errors: E-NPZ-FILE if the
  // file of a stored array has become shorter.
  Expected<void> ReadBox(std::span<const int64_t> start, std::span<const int64_t> sizes,
                         Padding padding, std::byte* out) const;
};

// How a parameter is given: whole, or one array for every replica or device, along a new first dim.
enum class InputForm : uint8_t { kWhole, kPerReplica, kPerDevice };

class Inputs {
 public:
  // Empty path: all random.
  static Expected<std::unique_ptr<Inputs>> Open(const std::string& path, uint64_t seed);
  // Literals as the whole values of a program's parameters, tuples as their leaves: what a snapshot
  // has. Elided ones are random, as without a file. Errors: other shapes than the parameters'.
  static Expected<std::unique_ptr<Inputs>> FromLiterals(std::span<const Literal* const> literals,
                                                        const Computation& entry, uint64_t seed);
  // One array per leaf, whole.
  static std::unique_ptr<Inputs> FromArrays(std::vector<GlobalArray> arrays);

  // What leaves index, so that random values lie in all of it: found in the program before it is
  // partitioned.
  void SetIndexInputs(std::vector<IndexInput> inputs) { index_inputs_ = std::move(inputs); }
  const std::vector<IndexInput>& index_inputs() const { return index_inputs_; }
  // Leaves whose random values have to be positive (positive_inputs.h).
  void SetPositiveInputs(std::vector<int64_t> leaves) { positive_inputs_ = std::move(leaves); }
  // Which draw of indices Load takes from now on: 0 first.
  void set_draw(int64_t draw) { draw_ = draw; }

  // Leaf `k` as an array of `dims`, or, where a file has it so, of [replicas] + `dims` or
  // [devices] + `local_dims`; *form tells which. Not `exact`: `dims` are tiles times tile counts,
  // and the file may have smaller arrays that are cut into the same tiles. Errors: another shape
  // or type.
  Expected<GlobalArray> Load(const ParameterLeaf& leaf, size_t k, std::span<const int64_t> dims,
                             std::span<const int64_t> local_dims, bool exact,
                             const DeviceGrid& grid, InputForm* form) const;
  // Dims of the file's array for leaf `k`; nothing if it has none.
  Expected<std::optional<std::vector<int64_t>>> FileDims(const ParameterLeaf& leaf, size_t k) const;
  // The first array of the file that is no parameter's; empty if there is none.
  std::string UnknownName(std::span<const ParameterLeaf> leaves) const;

 private:
  std::string NameOf(const ParameterLeaf& leaf, size_t k) const;
  GlobalArray WithUse(GlobalArray array, size_t k) const;
  std::string path_;
  std::unique_ptr<NpzReader> file_;
  std::vector<GlobalArray> arrays_;
  std::vector<IndexInput> index_inputs_;
  std::vector<int64_t> positive_inputs_;
  int64_t draw_ = 0;
  uint64_t seed_ = 0;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_IO_INPUTS_H_
