#loc = loc(unknown)
#loc1 = loc("f.py":3:4 to :9)
#loc2 = loc("f"(#loc1))
#loc3 = loc(callsite(#loc2 at #loc2))
#loc4 = loc(fused<"m">["a", #loc3])
module @m {
  func.func @main(%x: tensor<2x2xf32> loc("x")) -> tensor<4xf32> {
    %c = stablehlo.constant dense_resource<w> : tensor<4xf32> loc(#loc4)
    %0 = stablehlo.reshape %x : (tensor<2x2xf32>) -> tensor<4xf32> loc("jit(f)/r"(#loc3))
    %1 = chlo.erf_inv %0 : tensor<4xf32> -> tensor<4xf32>
    %2 = stablehlo.add %1, %c : tensor<4xf32>
    return %2 : tensor<4xf32> loc(#loc)
  }
}
{-# dialect_resources: { builtin: { w: "0x040000000000803F000000400000404000008040" } } #-}
