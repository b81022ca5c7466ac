// RUN: gshard-opt print %s
//
// A sharding that cannot be read is quoted, and what is wrong in it is marked.
module {
  sdy.mesh @mesh = <["a"=2, "b"=2]>
  func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
    // EXPECT-ERROR@+1: cannot read the sharding #sdy.sharding_per_value<[<@grid, [{"a"}, {}]>]>: no mesh is called @grid; the module declares @mesh
    %0 = stablehlo.tanh %x {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"a"}, {}]>]>} : tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}
// -----
module {
  func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
    // EXPECT-ERROR@+1: cannot read the sharding <@mesh, [{"a"}, {}]>: no mesh is called @mesh: the module declares none
    %0 = sdy.sharding_constraint %x <@mesh, [{"a"}, {}]> : tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}
// -----
module {
  sdy.mesh @mesh = <["a"=2, "b"=2]>
  // EXPECT-ERROR@+1: partial values are combined by sum, max or min, not by 'mean'
  func.func @main(%x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}], unreduced=mean{"b"}>}) -> tensor<8x4xf32> {
    return %x : tensor<8x4xf32>
  }
}
// -----
module {
  sdy.mesh @mesh = <["a"=2, "b"=2]>
  func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
    // EXPECT-ERROR@+1: cannot read the sharding [<@mesh, [{c}, {}]>]: the name of an axis in quotes is expected here
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{c}, {}]>] out_shardings=[<@mesh, [{"a"}, {}]>] manual_axes={"a"} (%a: tensor<4x4xf32>) {
      sdy.return %a : tensor<4x4xf32>
    } : (tensor<8x4xf32>) -> tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}
// -----
module {
  // EXPECT-ERROR@+1: mhlo.sharding is neither a sharding in braces nor the bytes of one
  func.func @main(%x: tensor<8x4xf32> {mhlo.sharding = "\FF\FF"}) -> tensor<8x4xf32> {
    return %x : tensor<8x4xf32>
  }
}
