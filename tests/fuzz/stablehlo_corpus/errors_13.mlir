func.func private @greater(%a: tensor<f32>, %b: tensor<f32>) -> tensor<i1> {
  %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}
func.func public @main(%x: tensor<4xf32>, %z: tensor<f32>) -> tensor<2xf32> {
  %0:2 = stablehlo.custom_call @ApproxTopK(%x, %z) {called_computations = [@greater], mhlo.backend_config = {top_k = 2 : i64, reduction_dim = 0 : i64}} : (tensor<4xf32>, tensor<f32>) -> (tensor<2xf32>, tensor<2xi32>)
  return %0#0 : tensor<2xf32>
}
