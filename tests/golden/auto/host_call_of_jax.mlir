// RUN: gshard-opt auto %s --mesh data=2,model=2 --keep none --chip tpu-v5p
// As JAX says it: on a mesh of one device, which goes with the others.
module @m attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["data"=4, "model"=2]>
  sdy.mesh @maximal_mesh_0 = <[], device_ids=[0]>
  func.func public @main(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}) -> tensor<8x16xf32> {
    %0 = stablehlo.custom_call @callback(%arg0) {has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@maximal_mesh_0, []>]>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %1 = stablehlo.negate %0 : tensor<8x16xf32>
    return %1 : tensor<8x16xf32>
  }
}
// CHECK: custom-call({{.*}}), custom_call_target="callback", custom_call_has_side_effect=true, {{.*}}sharding={maximal device=0}{{$}}
