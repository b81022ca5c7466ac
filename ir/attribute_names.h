// Names of the frontend attributes that gshard's passes leave in a program, so that the text says
// what was done to it. Every reader and writer takes them from here; ir/metadata.h reads and sets
// them. Passes document the values where they write them.
#ifndef GSHARD_IR_ATTRIBUTE_NAMES_H_
#define GSHARD_IR_ATTRIBUTE_NAMES_H_

#include <string_view>

namespace gshard {

// --- of the header: the partitioner's record (core/analysis/partition_record.h)
inline constexpr std::string_view kNumPartitionsAttribute = "gshard.num_partitions";
inline constexpr std::string_view kOutputShardingsAttribute = "gshard.output_shardings";
// Shapes of the whole parameters, as a tuple, and of the whole result: shards do not tell them
// where tiles do not divide a dim.
inline constexpr std::string_view kParameterShapesAttribute = "gshard.parameter_shapes";
inline constexpr std::string_view kOutputShapesAttribute = "gshard.output_shapes";
// "xla": partitioned with --as-xla, so that a reference is to be partitioned so, too.
inline constexpr std::string_view kPartitionedAsAttribute = "gshard.partitioned_as";
// --- of the header: others
inline constexpr std::string_view kMeshesAttribute = "gshard.meshes";  // core/analysis/meshes.h
inline constexpr std::string_view kInferredMeshAttribute = "gshard.inferred_mesh";
// "1=0 2=3": result 1 is the gradient of parameter 0.
inline constexpr std::string_view kGradientsAttribute = "gshard.gradients";
// How the program is pipelined, words KEY=VALUE: "stages=8 repeats=1 microbatches=32 schedule=1f1b
// bubble=0.193989 remat=stage recompute=0.24 imbalance=1.05 useful_flops=1.2e9 executed_flops=1.2e9
// forward_s=1e-3,1e-3,.. recompute_s=.. backward_s=.. weights_s=.. layers=18 first_layers=0,3,..
// cuts=gather.1,dot.7,.. batch=93:0:4,94:0:4 microbatch_sums=0". first_layers and cuts are the
// first layer of each virtual stage, and that layer's first instruction; batch is the parameters
// that hold examples, each with the dim that counts them and the shards of that dim;
// microbatch_sums counts those of W-PIPELINE-001. Times are the cost model's, lists by virtual
// stage (shift: the layers before and after are the first and the last); the rest as in WorkSummary
// (core/pipeline/work.h).
inline constexpr std::string_view kPipelineAttribute = "gshard.pipeline";

// --- of instructions
// Of a collective: what it was inserted for, in words or the name of the instruction that needs it.
inline constexpr std::string_view kCauseAttribute = "gshard.cause";
// Of a cast to bf16 that a TPU's compiler is known to put there
// (core/transforms/tpu/rounded_operands.h).
inline constexpr std::string_view kRoundingAttribute = "gshard.rounding";
// Of a dot that a compiler makes of a ragged-dot: how many groups that has
// (core/transforms/dense_ragged_dots.h).
inline constexpr std::string_view kRaggedGroupsAttribute = "gshard.ragged_groups";
// Of an instruction of the backward pass: the instruction whose adjoint it helps to make.
inline constexpr std::string_view kAdjointOfAttribute = "gshard.adjoint_of";
// Of the root of a pass's computation: "forward 0,1,2", the pass and the virtual stages that run
// it; or "idle". Of a parameter that stages use as a weight: "weight 0,3".
inline constexpr std::string_view kStageAttribute = "gshard.stage";
// Of what a pass computes: "1 backward", the layer counted from the stage's first, and forward,
// again (a forward value that the backward pass computes anew) or backward.
inline constexpr std::string_view kLayerAttribute = "gshard.layer";
// Of a parameter or result of a partitioned program in StableHLO text: the sharding it is a shard
// of.
inline constexpr std::string_view kShardingAttribute = "gshard.sharding";

}  // namespace gshard

#endif  // GSHARD_IR_ATTRIBUTE_NAMES_H_
