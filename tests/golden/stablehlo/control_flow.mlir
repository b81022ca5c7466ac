// RUN: gshard-opt print %s
//
// Values of scopes around a region come in with its arguments; constants are cloned.
module @control {
  func.func public @main(%x: tensor<8xf32>, %n: tensor<i32>) -> tensor<8xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    // CHECK: %while_condition (arg_tuple: (s32[], f32[8], s32[], f32[8])) -> pred[]
    // CHECK: compare(%arg_tuple.0, %arg_tuple.2), direction=LT
    // CHECK: %while_body
    // CHECK: %one.1 = s32[] constant(1)
    // CHECK: ROOT %tuple = (s32[], f32[8], s32[], f32[8]) tuple(%add.2, %multiply.3, %arg_tuple.4.2, %arg_tuple.4.3)
    %0:2 = stablehlo.while(%i = %c, %y = %x) : tensor<i32>, tensor<8xf32>
    cond {
      %2 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      %2 = stablehlo.add %i, %one : tensor<i32>
      %3 = stablehlo.multiply %y, %x : tensor<8xf32>
      stablehlo.return %2, %3 : tensor<i32>, tensor<8xf32>
    }
    // CHECK: %branch_0 (x.1: f32[8]) -> f32[8]
    // CHECK: %branch_1
    // CHECK: ENTRY %main
    // CHECK: conditional(%n, %x, %case.1), branch_computations={%branch_0, %branch_1}
    %1 = "stablehlo.case"(%n) ({
      %2 = stablehlo.sine %x : tensor<8xf32>
      stablehlo.return %2 : tensor<8xf32>
    }, {
      %2 = stablehlo.add %x, %0#1 : tensor<8xf32>
      stablehlo.return %2 : tensor<8xf32>
    }) : (tensor<i32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}
