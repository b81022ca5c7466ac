// RUN: gshard-run %s --verify
// A region that takes nothing in: its loop belongs to it, too, and each device's copies of what it carries
// are not compared with those of others.
// CHECK: verify        ok: 1 output
module @loop attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["sp"=2, "tp"=2]>
  func.func public @main(%x: tensor<8x3xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}]>}) -> tensor<8x16xi32> {
    %y = sdy.manual_computation() in_shardings=[] out_shardings=[<@mesh, [{}, {"sp", "tp"}]>] manual_axes={"sp", "tp"} () {
      %id = stablehlo.partition_id : tensor<ui32>
      %device = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
      %begin = stablehlo.broadcast_in_dim %device, dims = [] : (tensor<i32>) -> tensor<3x4xi32>
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %loop:2 = stablehlo.while(%i = %zero, %sum = %begin) : tensor<i32>, tensor<3x4xi32>
      cond {
        %three = stablehlo.constant dense<3> : tensor<i32>
        %more = stablehlo.compare LT, %i, %three, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %more : tensor<i1>
      } do {
        %one = stablehlo.constant dense<1> : tensor<i32>
        %next = stablehlo.add %i, %one : tensor<i32>
        %twice = stablehlo.add %sum, %sum : tensor<3x4xi32>
        stablehlo.return %next, %twice : tensor<i32>, tensor<3x4xi32>
      }
      sdy.return %loop#1 : tensor<3x4xi32>
    } : () -> tensor<3x16xi32>
    %z = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<8x3xi32>, tensor<3x16xi32>) -> tensor<8x16xi32>
    return %z : tensor<8x16xi32>
  }
}
