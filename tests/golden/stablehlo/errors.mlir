// RUN: gshard-opt print %s
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // EXPECT-ERROR@+1: unknown operation 'stablehlo.sin'
  %0 = stablehlo.sin %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // EXPECT-ERROR@+1: no value '%1' is defined before this one
  %0 = stablehlo.sine %1 : tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // EXPECT-ERROR@+1: operand 0 of stablehlo.sine is written with the type f32[8], but it is f32[4]
  %0 = stablehlo.sine %x : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
// -----
func.func @main(%x: tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.1>> {
  // EXPECT-ERROR@-1: quantized tensors are not read
  return %x : tensor<4xf32>
}
// -----
func.func @main(%x: tensor<4xf32>) -> tensor<2x2xf32> {
  // EXPECT-ERROR@+1: the values do not fill f32[2,2]
  %c = stablehlo.constant dense<[[1.0, 2.0], [3.0]]> : tensor<2x2xf32>
  return %c : tensor<2x2xf32>
}
// -----
func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  // EXPECT-ERROR@-1: dim 0 of '%x' has no size
  return %x : tensor<?x4xf32>
}
// -----
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // EXPECT-ERROR@+1: function '@main' calls itself
  %0 = call @main(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
func.func @main(%x: tensor<4xf32>, %k: tensor<f32>) -> tensor<f32> {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  // EXPECT-ERROR@+1: the region of stablehlo.reduce uses '%k' from outside, which is no constant
  %0 = stablehlo.reduce(%x init: %c) across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
   reducer(%a: tensor<f32>, %b: tensor<f32>) {
    %1 = stablehlo.add %a, %b : tensor<f32>
    %2 = stablehlo.multiply %1, %k : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }
  return %0 : tensor<f32>
}
// -----
func.func @main(%x: tensor<4xf32>, %y: tensor<8xf32>) -> tensor<4xf32> {
  // EXPECT-ERROR@+1: add
  %0 = "stablehlo.add"(%x, %y) : (tensor<4xf32>, tensor<8xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // EXPECT-ERROR@+1: 'replica_groups' of stablehlo.all_reduce was left out of the text
  %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense_resource<__elided__> : tensor<2x4xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
// RUN: gshard-opt print %s 2>&1
// What is printed with pretty_debug_info.
#loc1 = "x"
module {
}
// EXIT: 1
// CHECK: error: expected the value of an alias
// CHECK: hint: what pretty_debug_info prints, MLIR itself does not read: print without it
