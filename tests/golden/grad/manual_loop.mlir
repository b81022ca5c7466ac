// RUN: gshard-opt grad %s > %s.grad; cat %s.grad; gshard-run %s.grad --verify; rm %s.grad
//
// A loop in a region that is manual in all axes: the stacks that it keeps for the gradient are each device's own, as all of the loop is.
module @m attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["i"=2, "j"=4]>
  func.func public @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"i"}, {"j"}]>}) -> tensor<f32> {
    %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"i"}, {"j"}]>] out_shardings=[<@mesh, [{"i"}, {"j"}]>] manual_axes={"i", "j"} (%a: tensor<4x2xf32>) {
      %c = stablehlo.constant dense<0> : tensor<i32>
      %1:2 = stablehlo.while(%k = %c, %x = %a) : tensor<i32>, tensor<4x2xf32>
      cond {
        %c3 = stablehlo.constant dense<3> : tensor<i32>
        %2 = stablehlo.compare LT, %k, %c3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %2 : tensor<i1>
      } do {
        %c1 = stablehlo.constant dense<1> : tensor<i32>
        %2 = stablehlo.add %k, %c1 : tensor<i32>
        %3 = stablehlo.sine %x : tensor<4x2xf32>
        stablehlo.return %2, %3 : tensor<i32>, tensor<4x2xf32>
      }
      sdy.return %1#1 : tensor<4x2xf32>
    } : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %4 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x8xf32>, tensor<f32>) -> tensor<f32>
    return %4 : tensor<f32>
  }
}
// CHECK: (s32[], f32[4,2], s32[], f32[3,4,2]) while({{.*}}sharding={{[{][{]}}manual}, {manual}, {manual}, {manual}}
// CHECK: verify {{.*}}ok
