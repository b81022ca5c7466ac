// RUN: gshard-cost %s --advice 0
// A device's program spells the mesh of an argument in its sharding, without its name: that it has copies along
// an axis of it is told all the same.
// CHECK: argument   x f32[1024,512] of f32[1024,1024] [_, tp], replicated though dp was free
module @square attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["dp"=2, "tp"=2]>
  func.func public @main(%x: tensor<1024x1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}]>}) -> tensor<1024x1024xf32> {
    %y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    return %y : tensor<1024x1024xf32>
  }
}
