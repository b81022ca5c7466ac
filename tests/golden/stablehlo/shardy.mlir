// RUN: gshard-opt print %s
//
// Shardings of arguments, results and values; a manual computation as XLA exports it.
module @shardy attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: HloModule shardy, {{.*}}num_partitions=8, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["data"=4, "model"=2]>}}
  sdy.mesh @mesh = <["data"=4, "model"=2]> {stablehlo.mesh = {axes = [{name = "data", size = 4 : i64}, {name = "model", size = 2 : i64}]}}
  func.func public @main(%x: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {?}]>, tf.aliasing_output = 0 : i32}) -> (tensor<16x32xf32> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) {
    // CHECK: %xla.sdy.manual_computation_body (arg2: f32[4,32]) -> f32[4,32]
    // CHECK: ROOT %all_reduce.2 = f32[4,32] all-reduce(%arg2), channel_id=1, replica_groups={{.*}}0,2,4,6},{1,3,5,7{{.*}}, use_global_device_ids=true, to_apply=%region_all_reduce
    // CHECK: ENTRY
    // CHECK: %x = f32[16,32] parameter(0), sharding={mesh['data'=4,'model'=2], [{'data'}, {}]}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"data\"}, {?}]>"}
    // CHECK: %sharding_constraint.0 = f32[16,32] custom-call(%x), custom_call_target="Sharding", sharding={mesh['data'=4,'model'=2], [{'data'}, {'model'}]}
    %0 = sdy.sharding_constraint %x <@mesh, [{"data"}, {"model"}]> : tensor<16x32xf32>
    // CHECK: custom-call(%sharding_constraint.0), custom_call_target="xla.sdy.GlobalToLocalShape", {{.*}},xla.sdy.manual_axes="#sdy<manual_axes{\"data\"}>"
    // CHECK: f32[4,32] call(%manual_computation.1), to_apply=%xla.sdy.manual_computation_body, frontend_attributes={inlineable="false"}
    // CHECK: custom_call_target="xla.sdy.LocalToGlobalShape"
    %1 = sdy.manual_computation(%0) in_shardings=[<@mesh, [{"data"}, {?}]>] out_shardings=[<@mesh, [{"data"}, {?}]>] manual_axes={"data"} (%arg2: tensor<4x32xf32>) {
      %2 = "stablehlo.all_reduce"(%arg2) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %3 = stablehlo.add %a, %b : tensor<f32>
        %4 = sdy.sharding_constraint %3 <@mesh, []> : tensor<f32>
        stablehlo.return %4 : tensor<f32>
      }) : (tensor<4x32xf32>) -> tensor<4x32xf32>
      sdy.return %2 : tensor<4x32xf32>
    } : (tensor<16x32xf32>) -> tensor<16x32xf32>
    // CHECK: ROOT {{.*}} custom_call_target="xla.sdy.FuncResultSharding"
    return %1 : tensor<16x32xf32>
  }
}
// -----
// RUN: gshard-opt propagate %s
// CHECK: ROOT {{.*}} sharding={devices=[4,2]<=[8]}
module @gspmd attributes {mhlo.num_partitions = 8 : i32} {
  func.func public @main(%x: tensor<16x32xf32> {mhlo.sharding = "{devices=[4,2]<=[8]}"}) -> tensor<16x32xf32> {
    %0 = stablehlo.tanh %x : tensor<16x32xf32>
    return %0 : tensor<16x32xf32>
  }
}
