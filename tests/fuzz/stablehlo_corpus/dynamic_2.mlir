func.func @main(%x: tensor<?x4xbf16>, %i: tensor<i32>) -> tensor<?x?xf32> {
  %0 = stablehlo.reduce_precision %x, format = e5m2 : tensor<?x4xbf16>
  %1 = stablehlo.slice %0 [0:4:2, 0:4] : (tensor<?x4xbf16>) -> tensor<?x4xbf16>
  %2 = stablehlo.dynamic_update_slice %0, %1, %i, %i : (tensor<?x4xbf16>, tensor<?x4xbf16>, tensor<i32>, tensor<i32>) -> tensor<?x4xbf16>
  %3 = stablehlo.dot_general %2, %0, contracting_dims = [1] x [1] : (tensor<?x4xbf16>, tensor<?x4xbf16>) -> tensor<?x?xf32>
  return %3 : tensor<?x?xf32>
}
