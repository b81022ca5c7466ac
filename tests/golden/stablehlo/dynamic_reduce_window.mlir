// RUN: gshard-opt print %s --dim x:0=8
//
// A window of a size that the program computes from the size of its argument, as jax.export has it.
func.func @sum(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.add %a, %b : tensor<f32>
  return %0 : tensor<f32>
}
func.func public @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c = stablehlo.constant dense<1> : tensor<1xi32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %padding = stablehlo.constant dense<[[0, 1]]> : tensor<1x2xi32>
  %0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %1 = stablehlo.divide %0, %two : tensor<i32>
  %2 = stablehlo.reshape %1 : (tensor<i32>) -> tensor<1xi32>
  // CHECK: ROOT {{.*}} = f32[6] reduce-window(%x, %zero), window={size=4 pad=0_1}, to_apply=%sum
  %3 = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %zero, %2, %c, %c, %c, %padding) {called_computations = [@sum]} : (tensor<?xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1x2xi32>) -> tensor<?xf32>
  return %3 : tensor<?xf32>
}
