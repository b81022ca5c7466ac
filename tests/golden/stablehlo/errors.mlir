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
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // EXPECT-ERROR@+1: the last operand of stablehlo.infeed is a token
  %0:2 = "stablehlo.infeed"(%x) <{infeed_config = ""}> : (tensor<4xf32>) -> (tensor<4xf32>, !stablehlo.token)
  return %0#0 : tensor<4xf32>
}
// -----
func.func @main(%t: !stablehlo.token) -> tensor<4xf32> {
  // EXPECT-ERROR@+1: this is no value for 'channel_handle' of stablehlo.recv
  %0:2 = "stablehlo.recv"(%t) <{channel_handle = #stablehlo.channel_handle<handle = x, type = 3>}> : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
  return %0#0 : tensor<4xf32>
}
// -----
func.func @main(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  // EXPECT-ERROR@+1: stablehlo.if has 1 regions, not 2
  %0 = "stablehlo.if"(%p) ({
    stablehlo.return %x : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
func.func @main(%p: tensor<i1>) -> tensor<4xf32> {
  // EXPECT-ERROR@+1: stablehlo.custom_call has 1 results, not 0
  %0 = stablehlo.custom_call @shape_assertion(%p) : (tensor<i1>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
func.func private @greater(%a: tensor<f32>, %b: tensor<f32>) -> tensor<i1> {
  %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}
func.func public @main(%x: tensor<4xf32>, %z: tensor<f32>) -> tensor<2xf32> {
  // EXPECT-ERROR@+1: stablehlo.custom_call has 2 results, not 1
  %0:2 = stablehlo.custom_call @ApproxTopK(%x, %z) {called_computations = [@greater], mhlo.backend_config = {top_k = 2 : i64, reduction_dim = 0 : i64}} : (tensor<4xf32>, tensor<f32>) -> (tensor<2xf32>, tensor<2xi32>)
  return %0#0 : tensor<2xf32>
}
// -----
func.func @main(%x: tensor<4xf32>, %i: tensor<i32>) -> tensor<?xf32> {
  // EXPECT-ERROR@+1: stablehlo.dynamic_slice gets a negative dim: -1
  %0 = stablehlo.dynamic_slice %x, %i, sizes = [-1] : (tensor<4xf32>, tensor<i32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
// -----
func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<?xf32> {
  %c = stablehlo.constant dense<[-3]> : tensor<1xi64>
  // EXPECT-ERROR@+1: stablehlo.rng gets a negative dim: -3
  %0 = stablehlo.rng %a, %b, %c, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
// -----
func.func @main(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %0 = call @turned(%x) : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
func.func private @turned(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {
  // EXPECT-ERROR@+1: dimensions={2,0} names dim 2, out of range for rank 2
  %0 = stablehlo.transpose %x, dims = [2, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
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
// -----
// RUN: gshard-opt print %s
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // EXPECT-ERROR@+1: dynamic-update-slice needs an operand and an update
  %0 = stablehlo.dynamic_update_slice %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
