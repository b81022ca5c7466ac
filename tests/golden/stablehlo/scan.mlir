// RUN: gshard-opt print %s --format stablehlo | gshard-opt print - --format stablehlo
//
// The printed form of chlo.scan, as JAX has it for GPUs.
func.func @main(%x: tensor<8x6xf32>, %y: tensor<8xf32>) -> (tensor<8x6xf32>, tensor<8xf32>) {
  // CHECK: "chlo.scan"(%arg0, %arg1) <{dimension = 1 : i64, is_associative = true, is_reverse = false, operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>}>
  %0:2 = chlo.scan(%x) inits (%y) dimension=1  attributes {is_associative = true, is_reverse = false} {
  ^bb0(%input: tensor<8xf32>, %carry: tensor<8xf32>):
    %1 = stablehlo.add %input, %carry : tensor<8xf32>
    stablehlo.return %1, %1 : tensor<8xf32>, tensor<8xf32>
  } : (tensor<8x6xf32>, tensor<8xf32>) -> (tensor<8x6xf32>, tensor<8xf32>)
  return %0#0, %0#1 : tensor<8x6xf32>, tensor<8xf32>
}
// -----
// RUN: gshard-opt print %s
func.func @main(%x: tensor<4xi32>, %y: tensor<i32>) -> (tensor<4xi32>, tensor<i32>) {
  // CHECK: scan(%x, %y), dimensions={0}, num_carries=1,
  %0:2 = chlo.scan(%x) inits(%y) dimension=0 {
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %1 = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %1, %1 : tensor<i32>, tensor<i32>
  } : (tensor<4xi32>, tensor<i32>) -> (tensor<4xi32>, tensor<i32>)
  func.return %0#0, %0#1 : tensor<4xi32>, tensor<i32>
}
