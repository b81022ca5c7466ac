// Typed attributes: one plain struct per set of attributes; ir/opcodes.def says which one an opcode
// uses. Instruction::attributes<T>() returns it.
//
// Structs live in the module's arena, so they are trivially destructible: spans and views point
// into the arena, the context or the source text. Called computations (to_apply, body, ..) are not
// here: Instruction::called() holds them, in the order given below. `raw` views are kept verbatim,
// brackets included; empty means absent.
#ifndef GSHARD_IR_ATTRIBUTES_H_
#define GSHARD_IR_ATTRIBUTES_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "ir/literal.h"
#include "ir/replica_groups.h"
#include "ir/shape.h"

namespace gshard {

using Dims = std::span<const int64_t>;

struct NoAttributes {};

struct ParameterAttributes {
  int64_t number = 0;
  std::string_view replication;  // raw parameter_replication={..}
};
struct ConstantAttributes {
  const Literal* literal = nullptr;
};
struct IotaAttributes {
  int64_t dimension = 0;
};

struct MathAttributes {
  std::string_view result_accuracy;  // raw
};
struct ReducePrecisionAttributes {
  int64_t exponent_bits = 0;
  int64_t mantissa_bits = 0;
};
enum class ComparisonDirection : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe };
enum class ComparisonType : uint8_t { kDefault, kFloat, kTotalOrder, kSigned, kUnsigned };
struct CompareAttributes {
  ComparisonDirection direction = ComparisonDirection::kEq;
  ComparisonType type = ComparisonType::kDefault;  // kDefault: by the operands' element type
};

// dimensions={..} of broadcast, transpose, reverse, concatenate, reduce, map,
// get-/set-dimension-size. called(): reduce, map: {to_apply}.
struct DimensionsAttributes {
  Dims dimensions;
};
struct ReshapeAttributes {
  int64_t inferred_dimension = -1;  // -1: absent
};

struct SliceAttributes {
  Dims starts, limits, strides;  // one per dim; strides filled with 1 if not written
};
struct DynamicSliceAttributes {
  Dims slice_sizes;
};
struct PadDim {
  int64_t low = 0, high = 0, interior = 0;
};
struct PadAttributes {
  std::span<const PadDim> padding;  // one per dim
};

struct WindowDim {
  int64_t size = 1, stride = 1;
  int64_t pad_low = 0, pad_high = 0;
  int64_t base_dilation = 1;    // lhs_dilate
  int64_t window_dilation = 1;  // rhs_dilate
  bool reversal = false;
};
// Of reduce-window and select-and-scatter: one entry per operand dim.
// called(): reduce-window {to_apply}; select-and-scatter {select, scatter}.
struct WindowAttributes {
  std::span<const WindowDim> window;
};

enum class Precision : uint8_t { kDefault, kHigh, kHighest, kPackedNibble };
struct DotAttributes {
  Dims lhs_batch, lhs_contracting, rhs_batch, rhs_contracting;
  Dims lhs_ragged, rhs_group;            // ragged-dot
  std::span<const Precision> precision;  // empty: all default
  std::string_view algorithm;            // "dot_bf16_bf16_f32"; empty: unset
};

struct ConvolutionAttributes {
  std::span<const WindowDim> window;  // one per spatial dim
  // Positions of each role in the operand / result shapes; spatial lists in order of their digits.
  int64_t input_batch = 0, input_feature = 0;
  int64_t kernel_input_feature = 0, kernel_output_feature = 0;
  int64_t output_batch = 0, output_feature = 0;
  Dims input_spatial, kernel_spatial, output_spatial;
  int64_t feature_group_count = 1;
  int64_t batch_group_count = 1;
  std::span<const Precision> precision;
  std::string_view dim_labels;        // as written ("b01f_01io->b01f"), '?' dims included
  std::string_view convolution_kind;  // fprop, wgrad, dgrad; empty: absent
  std::string_view sparsity_config;   // raw
};

// called(): {to_apply}, which maps (elements.., carries..) to (outputs.., carries..). Operands are
// inputs then initial carries; the scanned dim comes back in the outputs.
struct ScanAttributes {
  int64_t dimension = 0;
  int64_t num_carries = 0;
  bool is_reverse = false;
  bool is_associative = false;
};
struct BatchNormAttributes {
  double epsilon = 0;
  int64_t feature_index = 0;
};

struct GatherAttributes {
  Dims offset_dims, collapsed_slice_dims, start_index_map;
  Dims operand_batching_dims, start_indices_batching_dims;
  int64_t index_vector_dim = 0;
  Dims slice_sizes;
  bool indices_are_sorted = false;
};
struct ScatterAttributes {  // called(): {to_apply}
  Dims update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims;
  Dims input_batching_dims, scatter_indices_batching_dims;
  int64_t index_vector_dim = 0;
  bool indices_are_sorted = false;
  bool unique_indices = false;
};
struct SortAttributes {  // called(): {to_apply}
  int64_t dimension = 0;
  bool is_stable = false;
};
struct TopKAttributes {
  int64_t k = 0;
  bool largest = true;
  bool is_stable = false;
};

enum class RngDistribution : uint8_t { kUniform, kNormal };
struct RngAttributes {
  RngDistribution distribution = RngDistribution::kUniform;
};
enum class RngAlgorithm : uint8_t { kDefault, kThreeFry, kPhilox };
struct RngBitGeneratorAttributes {
  RngAlgorithm algorithm = RngAlgorithm::kDefault;
};
struct RngStateAttributes {
  int64_t delta = 0;
};

struct CholeskyAttributes {
  bool lower = false;
};
enum class TransposeKind : uint8_t { kNoTranspose, kTranspose, kAdjoint };
struct TriangularSolveAttributes {
  bool left_side = false, lower = false, unit_diagonal = false;
  TransposeKind transpose_a = TransposeKind::kNoTranspose;
};
enum class FftType : uint8_t { kFft, kIfft, kRfft, kIrfft };
struct FftAttributes {
  FftType type = FftType::kFft;
  Dims length;
};

// called(): while {condition, body}; conditional: the branches in order (pred form: true, false).
struct CallAttributes {  // called(): {to_apply}
  bool is_composite = false;
};
struct FusionAttributes {                       // called(): {calls}
  std::string_view kind;                        // "kLoop"
  std::string_view output_to_operand_aliasing;  // raw
};
struct AsyncAttributes {                        // called(): {calls}
  std::string_view execution_thread;            // without quotes; empty: main
  std::string_view output_to_operand_aliasing;  // raw
};

struct GetTupleElementAttributes {
  int64_t index = 0;
};
struct DomainAttributes {
  std::string_view domain;  // raw
};
struct CopyStartAttributes {
  int64_t cross_program_prefetch_index = -1;  // -1: absent
};

struct DevicePair {
  int64_t source = 0, target = 0;
  bool operator==(const DevicePair&) const = default;
};
// All collectives. called(): all-reduce, reduce-scatter, all-reduce-start: {to_apply}.
struct CollectiveAttributes {
  int64_t channel_id = 0;                         // 0: absent
  const ReplicaGroups* replica_groups = nullptr;  // owned by the module; null: attribute absent
  bool constrain_layout = false;
  bool use_global_device_ids = false;
  int64_t dimension = -1;  // dimensions={d}; -1: absent (tuple all-to-all, all-reduce, ..)
  std::span<const DevicePair> source_target_pairs;  // collective-permute
  std::string_view slice_sizes;                     // raw, collective-permute
  std::string_view has_dynamic_root;                // raw, collective-broadcast
};
struct ChannelAttributes {  // send, recv and their -done
  int64_t channel_id = 0;   // 0: absent
  bool is_host_transfer = false;
};
struct InfeedAttributes {
  std::string_view config;  // raw string, quotes included
};
struct OutfeedAttributes {
  const Shape* shape = nullptr;
  std::string_view config;  // raw
};

struct CustomCallAttributes {  // called(): {called_computations..}
  std::string_view target;     // without quotes, escapes as written
  std::span<const WindowDim> window;
  std::string_view dim_labels;
  int64_t feature_group_count = 1;
  int64_t batch_group_count = 1;
  std::span<const Precision> precision;
  std::string_view padding_type;  // PADDING_VALID, ..
  bool has_operand_layout_constraints = false;
  std::span<const Shape* const> operand_layout_constraints;
  bool has_side_effect = false;
  const Literal* literal = nullptr;
  std::string_view output_to_operand_aliasing;  // raw
  std::string_view schedule;
  std::string_view api_version;
};

}  // namespace gshard

#endif  // GSHARD_IR_ATTRIBUTES_H_
