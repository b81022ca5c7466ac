// RUN: gshard-opt propagate %s
// Image and kernel want one axis. The larger one has it, without the kernel's window: 8 x 4 x 4 x 128 elements against 128 x 120, and
// against 128 x 136. Shardy says the same.
module @m attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["a"=8]>
  func.func public @main(%x: tensor<8x4x4x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}, {}, {}]>}, %k: tensor<3x3x128x120xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {"a"}]>}, %l: tensor<3x3x128x136xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {"a"}]>}) -> (tensor<8x4x4x120xf32>, tensor<8x4x4x136xf32>) {
    %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x4x4x128xf32>, tensor<3x3x128x120xf32>) -> tensor<8x4x4x120xf32>
    %1 = stablehlo.convolution(%x, %l) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x4x4x128xf32>, tensor<3x3x128x136xf32>) -> tensor<8x4x4x136xf32>
    return %0, %1 : tensor<8x4x4x120xf32>, tensor<8x4x4x136xf32>
  }
}
// CHECK: f32[8,4,4,120] convolution({{.*}}sharding={mesh['a'=8], [{'a'}, {}, {}, {}]}
// CHECK: f32[8,4,4,136] convolution({{.*}}sharding={mesh['a'=8], [{}, {}, {}, {'a'}]}
