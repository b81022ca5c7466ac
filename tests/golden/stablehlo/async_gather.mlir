// RUN: gshard-run %s --verify
//
// JAX's asynchronous collectives are custom calls for a compiler to expand.
// CHECK: ok
module @gather attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%arg0: tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<512x16xf32> {
    %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%arg1: tensor<8x16xf32>) {
      %1 = stablehlo.custom_call @"all-gather-start"(%arg1) {backend_config = "", mhlo.frontend_attributes = {async_collective_config = "{\22all_gather_dimension\22: 0, \22replica_groups\22: [[0, 1, 2, 3, 4, 5, 6, 7]], \22use_global_device_ids\22: true, \22channel_id\22: 1}"}} : (tensor<8x16xf32>) -> tensor<64x16xf32>
      %2 = stablehlo.sine %arg1 : tensor<8x16xf32>
      %3 = stablehlo.custom_call @"all-gather-done"(%1) {backend_config = ""} : (tensor<64x16xf32>) -> tensor<64x16xf32>
      sdy.return %3 : tensor<64x16xf32>
    } : (tensor<64x16xf32>) -> tensor<512x16xf32>
    return %0 : tensor<512x16xf32>
  }
}
// -----
// RUN: gshard-opt print %s
func.func public @main(%x: tensor<8x16xf32>) -> (tensor<64x16xf32>, tensor<64x16xf32>) {
  // CHECK: %[[G:.*]] = f32[64,16] all-gather(%x), channel_id=1, replica_groups={{.*}}0,1,2,3,4,5,6,7{{.*}}, dimensions={0}, use_global_device_ids=true
  %0 = stablehlo.custom_call @"all-gather-start"(%x) {mhlo.frontend_attributes = {async_collective_config = "{\22all_gather_dimension\22: 0, \22replica_groups\22: [[0, 1, 2, 3, 4, 5, 6, 7]], \22use_global_device_ids\22: true, \22channel_id\22: 1}"}} : (tensor<8x16xf32>) -> tensor<64x16xf32>
  %1 = stablehlo.custom_call @"all-gather-done"(%0) : (tensor<64x16xf32>) -> tensor<64x16xf32>
  // What is no such pair stays.
  // CHECK: custom-call(%x), custom_call_target="all-gather-start"
  %2 = stablehlo.custom_call @"all-gather-start"(%x) : (tensor<8x16xf32>) -> tensor<64x16xf32>
  return %1, %2 : tensor<64x16xf32>, tensor<64x16xf32>
}
