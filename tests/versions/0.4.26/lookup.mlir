module @jit_lookup attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<32x8xf32> {mhlo.layout_mode = "default", mhlo.sharding = "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, %arg1: tensor<8x4xi32> {mhlo.layout_mode = "default", mhlo.sharding = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"}) -> (tensor<8x2xf32> {jax.result_info = "[0]", mhlo.layout_mode = "default"}, tensor<8x2xi32> {jax.result_info = "[1]", mhlo.layout_mode = "default"}) {
    %0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.constant dense<31> : tensor<i32>
    %2 = call @clip(%arg1, %0, %1) : (tensor<8x4xi32>, tensor<i32>, tensor<i32>) -> tensor<8x4xi32>
    %3 = stablehlo.constant dense<0> : tensor<i32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<i32>) -> tensor<8x4xi32>
    %5 = stablehlo.compare  LT, %2, %4,  SIGNED : (tensor<8x4xi32>, tensor<8x4xi32>) -> tensor<8x4xi1>
    %6 = stablehlo.constant dense<32> : tensor<i32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<i32>) -> tensor<8x4xi32>
    %8 = stablehlo.add %2, %7 : tensor<8x4xi32>
    %9 = stablehlo.select %5, %8, %2 : tensor<8x4xi1>, tensor<8x4xi32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<8x4xi32>) -> tensor<8x4x1xi32>
    %11 = "stablehlo.gather"(%arg0, %10) {dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 8>} : (tensor<32x8xf32>, tensor<8x4x1xi32>) -> tensor<8x4x8xf32>
    %12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %13 = stablehlo.reduce(%11 init: %12) applies stablehlo.add across dimensions = [2] : (tensor<8x4x8xf32>, tensor<f32>) -> tensor<8x4xf32>
    %values, %indices = chlo.top_k(%13, k = 2) : tensor<8x4xf32> -> (tensor<8x2xf32>, tensor<8x2xi32>)
    return %values, %indices : tensor<8x2xf32>, tensor<8x2xi32>
  }
  func.func private @clip(%arg0: tensor<8x4xi32>, %arg1: tensor<i32>, %arg2: tensor<i32>) -> tensor<8x4xi32> {
    %0 = stablehlo.convert %arg1 : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<i32>) -> tensor<8x4xi32>
    %2 = stablehlo.maximum %1, %arg0 : tensor<8x4xi32>
    %3 = stablehlo.convert %arg2 : tensor<i32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<i32>) -> tensor<8x4xi32>
    %5 = stablehlo.minimum %4, %2 : tensor<8x4xi32>
    return %5 : tensor<8x4xi32>
  }
}
