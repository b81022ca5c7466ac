func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0:2 = "stablehlo.infeed"(%x) <{infeed_config = ""}> : (tensor<4xf32>) -> (tensor<4xf32>, !stablehlo.token)
  return %0#0 : tensor<4xf32>
}
