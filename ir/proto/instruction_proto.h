// The fields of one HloInstructionProto: numbers, and views of the messages within it.
#ifndef GSHARD_IR_PROTO_INSTRUCTION_PROTO_H_
#define GSHARD_IR_PROTO_INSTRUCTION_PROTO_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/proto/wire.h"

namespace gshard::proto {

class InstructionProto {
 public:
  std::string_view name, opcode, shape, metadata, literal, fusion_kind, window, convolution_dims;
  std::string_view padding, infeed_config, outfeed_config, outfeed_shape, target, dot_dims;
  std::string_view gather_dims, scatter_dims, ragged_dims, precision, sharding, backend_config;
  std::string_view domain_entry, domain_exit, triangular_solve, cholesky, replication;
  std::string_view frontend_attributes, statistics, origin, accuracy, async_thread;
  std::string_view comparison_direction, comparison_type, comparison_order;
  std::string_view group_list, iota_groups, mesh_groups;
  bool has_literal = false, has_dot_dims = false, has_sharding = false, has_outfeed_shape = false;
  bool has_group_list = false, has_iota_groups = false, has_mesh_groups = false;
  int64_t id = 0, parameter_number = 0, tuple_index = 0, exponent_bits = 0, mantissa_bits = 0;
  int64_t distribution = 0, feature_index = 0, channel_id = 0, fft_type = 0;
  int64_t feature_group_count = 0, batch_group_count = 0, delta = 0, rng_algorithm = 0;
  int64_t padding_type = 0, schedule = 0, api_version = 0, prefetch_index = -1, k = 0;
  int64_t num_carries = 0, associativity = 0, convolution_kind = 0;
  double epsilon = 0;
  bool is_host_transfer = false, constrain_layout = false, is_stable = false;
  bool has_side_effect = false, indices_are_sorted = false, unique_indices = false;
  bool use_global_device_ids = false, largest = false, is_composite = false;
  bool is_reverse = false, has_dynamic_root = false;
  std::vector<int64_t> dimensions, fft_length, dynamic_slice_sizes, gather_slice_sizes;
  std::vector<int64_t> operand_ids, control_ids, called_ids;
  // Numbers of the fields with content that no member stands for, each once.
  std::vector<uint32_t> unknown;
  std::vector<std::string_view> slice_dims, groups, source_target_pairs, operand_shapes, aliasing;

  // Made anew of the bytes; lists keep their memory. False where the bytes are no message.
  bool Read(std::string_view bytes);

 private:
  void Clear();
  bool ReadOther(FieldReader field);

  // Numbers of the fields with a value that ReadOther read, in the order of the message.
  std::vector<uint8_t> others_;
};

}  // namespace gshard::proto

#endif  // GSHARD_IR_PROTO_INSTRUCTION_PROTO_H_
