// RUN: gshard-opt grad %s > %s.grad; cat %s.grad; gshard-opt partition %s.grad -o /dev/null 2>&1; gshard-run %s.grad --verify; rm %s.grad
//
// A region that is manual in i only: each border of the gradient is one of the forward pass. The sum is over i, which the second operand
// lacks, and not over j; open dims stay open.
module @m attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["i"=2, "j"=4]>
  func.func public @main(%arg0: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"i"}, {}]>}, %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"j"}]>}) -> tensor<f32> {
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = sdy.manual_computation(%arg0, %arg1) in_shardings=[<@mesh, [{"i", ?}, {?}]>, <@mesh, [{?}, {?}]>] out_shardings=[<@mesh, [{"i", ?}, {?}]>] manual_axes={"i"} (%a: tensor<8x8xf32>, %b: tensor<8x8xf32>) {
      %1 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      sdy.return %1 : tensor<8x8xf32>
    } : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %2 = stablehlo.reduce(%0 init: %c) applies stablehlo.add across dimensions = [0, 1] : (tensor<16x8xf32>, tensor<f32>) -> tensor<f32>
    return %2 : tensor<f32>
  }
}
// CHECK: ENTRY %main
// CHECK: "SPMDFullToShardShape", sharding={mesh['i'=2,'j'=4], [{}, {}], manual={'i'}}, frontend_attributes={gshard.adjoint_of={{.*}}}, backend_config="unspecified_dims=[0,1]"
// CHECK-DAG: "SPMDShardToFullShape", sharding={mesh['i'=2,'j'=4], [{'i'}, {}]}, frontend_attributes={gshard.adjoint_of={{.*}}}, backend_config="unspecified_dims=[0,1]"
// CHECK-DAG: f32[8,8] all-reduce({{.*}}replica_groups=[4,2]<=[2,4]T(1,0)
// CHECK-DAG: "SPMDShardToFullShape", sharding={mesh['i'=2,'j'=4], [{}, {}]}, frontend_attributes={gshard.adjoint_of={{.*}}}, backend_config="unspecified_dims=[0,1]"
// CHECK-NOT: all-reduce(
// CHECK: ROOT %tuple
// CHECK: verify {{.*}}ok
