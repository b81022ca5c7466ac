func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<?xf32> {
  %c = stablehlo.constant dense<[-3]> : tensor<1xi64>
  %0 = stablehlo.rng %a, %b, %c, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
