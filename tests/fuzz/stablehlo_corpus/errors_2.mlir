func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.sine %x : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
