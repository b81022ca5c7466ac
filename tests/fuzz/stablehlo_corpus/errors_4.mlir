func.func @main(%x: tensor<4xf32>) -> tensor<2x2xf32> {
  %c = stablehlo.constant dense<[[1.0, 2.0], [3.0]]> : tensor<2x2xf32>
  return %c : tensor<2x2xf32>
}
