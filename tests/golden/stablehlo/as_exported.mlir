// RUN: gshard-opt print %s
//
// What XLA's export leaves out, so that JAX's two texts of a program are partitioned alike.
// Operations that change nothing, constants, and what nobody needs.
module @nothing_changes attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x8xf32>, %arg1: tensor<4xi32>) -> (tensor<4x8xf32>, tensor<4xi32>, tensor<8x8xf32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %1 = stablehlo.add %0, %arg0 : tensor<4x8xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.reshape %cst_0 : (tensor<f32>) -> tensor<1x1xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<4x8xf32>
    %4 = stablehlo.multiply %1, %3 : tensor<4x8xf32>
    %5 = stablehlo.sine %4 : tensor<4x8xf32>
    %dead = stablehlo.cosine %4 : tensor<4x8xf32>
    // Constants second where operands commute; -1 / 16 is one.
    %6 = stablehlo.negate %cst_0 : tensor<f32>
    %cst_1 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %7 = stablehlo.divide %6, %cst_1 : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %9 = stablehlo.maximum %8, %5 : tensor<4x8xf32>
    // The branch is known.
    %c = stablehlo.constant dense<1> : tensor<i32>
    %10 = "stablehlo.case"(%c) ({
      %11 = stablehlo.negate %arg1 : tensor<4xi32>
      stablehlo.return %11 : tensor<4xi32>
    }, {
      %11 = stablehlo.abs %arg1 : tensor<4xi32>
      stablehlo.return %11 : tensor<4xi32>
    }) : (tensor<i32>) -> tensor<4xi32>
    // A slice within one operand of a concatenate is one of that; padding of nothing is its value.
    %12 = stablehlo.concatenate %arg0, %9, dim = 0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %13 = stablehlo.slice %12 [4:8, 0:8] : (tensor<8x8xf32>) -> tensor<4x8xf32>
    %14 = stablehlo.slice %arg0 [0:0, 0:8] : (tensor<4x8xf32>) -> tensor<0x8xf32>
    %15 = stablehlo.pad %14, %cst_1, low = [0, 0], high = [8, 0], interior = [0, 0] : (tensor<0x8xf32>, tensor<f32>) -> tensor<8x8xf32>
    return %13, %10, %15 : tensor<4x8xf32>, tensor<4xi32>, tensor<8x8xf32>
  }
}
// CHECK: ENTRY %main
// CHECK-NEXT: %arg0 = f32[4,8] parameter(0)
// CHECK-NEXT: %sine.5 = f32[4,8] sine(%arg0)
// CHECK-NEXT: [[C:%\S+]] = f32[] constant(-0.0625)
// CHECK-NEXT: [[B:%\S+]] = f32[4,8] broadcast([[C]]), dimensions={}
// CHECK-NEXT: %maximum.9 = f32[4,8] maximum(%sine.5, [[B]])
// CHECK-NEXT: %arg1 = s32[4] parameter(1)
// CHECK-NEXT: %abs.11 = s32[4] abs(%arg1)
// CHECK-NEXT: %cst_1 = f32[] constant(16)
// CHECK-NEXT: [[P:%\S+]] = f32[8,8] broadcast(%cst_1), dimensions={}
// CHECK-NEXT: ROOT {{.*}} tuple(%maximum.9, %abs.11, [[P]])

// -----
// What a body returns as it came is not carried: constants are its own, the rest is captured behind
// what the loop changes, by first use. Results are the operands.
module @loop attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>, %arg2: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<3> : tensor<i32>
    %0:5 = stablehlo.while(%a = %arg2, %k = %arg1, %i = %c, %x = %arg0, %n = %c_0) : tensor<4xf32>, tensor<4xf32>, tensor<i32>, tensor<4xf32>, tensor<i32>
    cond {
      %1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %c_1 = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.add %i, %c_1 : tensor<i32>
      %2 = stablehlo.multiply %x, %k : tensor<4xf32>
      %3 = stablehlo.subtract %2, %a : tensor<4xf32>
      stablehlo.return %a, %k, %1, %3, %n : tensor<4xf32>, tensor<4xf32>, tensor<i32>, tensor<4xf32>, tensor<i32>
    }
    return %0#3, %0#1 : tensor<4xf32>, tensor<4xf32>
  }
}
// CHECK: %while_condition
// CHECK: [[N:%\S+]] = s32[] constant(3)
// CHECK-NEXT: ROOT {{.*}} compare({{%\S+}}, [[N]]), direction=LT
// CHECK: ENTRY %main
// CHECK: [[T:%\S+]] = (s32[], f32[4], f32[4], f32[4]) tuple(%c, %arg0, %arg1, %arg2)
// CHECK-NEXT: [[W:%\S+]] = (s32[], f32[4], f32[4], f32[4]) while([[T]])
// CHECK-NEXT: [[X:%\S+]] = f32[4] get-tuple-element([[W]]), index=1
// CHECK-NEXT: ROOT {{.*}} tuple([[X]], %arg1)
