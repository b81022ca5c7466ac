// RUN: gshard-run %s --propagation gspmd --verify
// GSPMD's rules give a top-k in a region of some axes no sharding. Its two results belong to the region,
// and the copies of its operand in other groups of the region are not taken for equal ones.
// CHECK: verify        ok: 1 output
module @top attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=2]>
  func.func @main(%x: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<8x2xf32> {
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{"data"}, {}]>] manual_axes={"data"} (%a: tensor<4x6xf32>) {
      %1 = stablehlo.negate %a : tensor<4x6xf32>
      %2 = sdy.sharding_constraint %1 <@mesh, [{?}, {?}]> : tensor<4x6xf32>
      %values, %indices = chlo.top_k(%2, k = 2) : tensor<4x6xf32> -> (tensor<4x2xf32>, tensor<4x2xi32>)
      %3 = stablehlo.convert %indices : (tensor<4x2xi32>) -> tensor<4x2xf32>
      %4 = stablehlo.add %values, %3 : tensor<4x2xf32>
      sdy.return %4 : tensor<4x2xf32>
    } : (tensor<8x6xf32>) -> tensor<8x2xf32>
    return %0 : tensor<8x2xf32>
  }
}
