// RUN: gshard-opt print %s
//
// Replica groups by the axes of a mesh: a named one, one written there, a part of an axis.
module @groups attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%a: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4x4xf32>) {
    // CHECK: all-reduce(%a), channel_id=1, replica_groups=mesh['x'=2,'y'=4] {'y'}, use_global_device_ids=true
    %0 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "y">]>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    // CHECK: all-reduce(%a), channel_id=2, replica_groups=mesh['z'=8], device_ids=(0,2,4,6,1,3,5,7) {'z':(2)4}
    %1 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<axes=[<name = "z", size = 8>], device_ids=dense<[0, 2, 4, 6, 1, 3, 5, 7]> : tensor<8xi64>>, axes = [#stablehlo.axis_ref<name = "z", sub_axis_info = (2)4>]>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    // CHECK: all-gather(%a), channel_id=3, replica_groups=mesh['x'=2,'y'=4] {'x'}, dimensions={0}
    %2 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "x", size = 2>, #stablehlo.mesh_axis<name = "y", size = 4>]>, axes = [#stablehlo.axis_ref<name = "x">]>, use_global_device_ids}> : (tensor<2x4xf32>) -> tensor<4x4xf32>
    return %0, %1, %2 : tensor<2x4xf32>, tensor<2x4xf32>, tensor<4x4xf32>
  }
}
// -----
// RUN: gshard-opt print %s
module attributes {mhlo.num_partitions = 8 : i32} {
  func.func public @main(%a: tensor<2x4xf32>) -> tensor<4x4xf32> {
    // EXPECT-ERROR@+1: this is no value for 'replica_groups' of stablehlo.all_gather
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "x">]>, use_global_device_ids}> : (tensor<2x4xf32>) -> tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }
}
