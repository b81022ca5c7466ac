func.func @main(%p: tensor<i1>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @shape_assertion(%p) : (tensor<i1>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
