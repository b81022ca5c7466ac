// RUN: gshard-cost %s --chip b200 --as-xla && gshard-opt propagate %s
// A result that its axis does not divide has a copy with the sharding that it may have; what makes
// it is explained by what was there before.
module @uneven attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["data"=4, "model"=2]>
  func.func public @main(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}) -> tensor<7x16xf32> {
    %cst = stablehlo.constant dense<1.0> : tensor<f32>
    %0 = "stablehlo.reduce_window"(%arg0, %cst) <{padding = dense<[[1, 0], [1, 1]]> : tensor<2x2xi64>, window_dilations = array<i64: 2, 1>, window_dimensions = array<i64: 2, 3>}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %1 = stablehlo.multiply %arg1, %arg2 : tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }) : (tensor<8x16xf32>, tensor<f32>) -> tensor<7x16xf32>
    return %0 : tensor<7x16xf32>
  }
}
// CHECK: ROOT %result = f32[7,16] copy(%{{.*}}), sharding={mesh['data'=4,'model'=2], [{}, {'model'}]}
