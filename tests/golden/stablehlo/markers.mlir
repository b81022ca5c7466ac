// RUN: gshard-run %s --verify
//
// Sharding groups and barriers speak of propagation only; JAX's shard_alike.
// CHECK: ok
module @markers attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["data"=4, "model"=2]>
  func.func public @main(%x: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x32xf32>) -> (tensor<16x32xf32>, tensor<16x32xf32>) {
    sdy.sharding_group %x group_id=0 : tensor<16x32xf32>
    %0 = stablehlo.sine %y : tensor<16x32xf32>
    sdy.sharding_group %0 group_id=0 : tensor<16x32xf32>
    %1 = sdy.propagation_barrier %x allowed_direction=NONE : tensor<16x32xf32>
    %2 = sdy.propagation_barrier %1 allowed_direction=BACKWARD : tensor<16x32xf32>
    %3 = sdy.propagation_barrier %2 allowed_direction=FORWARD : tensor<16x32xf32>
    %4 = sdy.propagation_barrier %3 allowed_direction=BOTH : tensor<16x32xf32>
    return %0, %4 : tensor<16x32xf32>, tensor<16x32xf32>
  }
}
// -----
// RUN: gshard-opt propagate %s
module @group attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["data"=4, "model"=2]>
  func.func public @main(%x: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x32xf32>) -> tensor<16x32xf32> {
    sdy.sharding_group %x group_id=0 : tensor<16x32xf32>
    // CHECK: %sine.0 = f32[16,32] sine(%y), sharding={mesh['data'=4,'model'=2], [{'data'}, {}]}
    %0 = stablehlo.sine %y : tensor<16x32xf32>
    sdy.sharding_group %0 group_id=0 : tensor<16x32xf32>
    return %0 : tensor<16x32xf32>
  }
}
// -----
// RUN: gshard-opt print %s --format stablehlo | gshard-opt print - --format stablehlo
module @print attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @maximal_mesh_0 = <[], device_ids=[0]>
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    // CHECK: stablehlo.custom_call @callback(%arg0) {has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@maximal_mesh_0, []>]>}
    stablehlo.custom_call @callback(%x) {has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@maximal_mesh_0, []>]>} : (tensor<4xf32>) -> ()
    return %x : tensor<4xf32>
  }
}
// -----
// RUN: gshard-opt partition %s
//
// An operation without results has one sharding, which says who does it.
module @print attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @maximal_mesh_0 = <[], device_ids=[0]>
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    // CHECK: = () custom-call(%x), custom_call_target="callback"
    stablehlo.custom_call @callback(%x) {has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@maximal_mesh_0, []>]>} : (tensor<4xf32>) -> ()
    return %x : tensor<4xf32>
  }
}
