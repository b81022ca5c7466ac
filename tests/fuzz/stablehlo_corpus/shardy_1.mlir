module @gspmd attributes {mhlo.num_partitions = 8 : i32} {
  func.func public @main(%x: tensor<16x32xf32> {mhlo.sharding = "{devices=[4,2]<=[8]}"}) -> tensor<16x32xf32> {
    %0 = stablehlo.tanh %x : tensor<16x32xf32>
    return %0 : tensor<16x32xf32>
  }
}
