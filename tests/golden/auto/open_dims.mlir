// RUN: gshard-opt auto %s --mesh data=4 --dim b=16 --time-limit 2s -o - 2>/dev/null
// RUN: gshard-cost sweep %s --mesh data=1..2 --dim b=16 --shard '^x$=data,_'
//
// Open dims have their sizes from --dim here, too.
// CHECK: f32[16,8] parameter(0)
// CHECK: data=2
func.func public @main(%x: tensor<?x8xf32>, %w: tensor<8x8xf32>) -> tensor<?x8xf32> {
  %c = stablehlo.constant dense<true> : tensor<i1>
  stablehlo.custom_call @shape_assertion(%c) {error_message = "Using the following polymorphic shapes specifications: args[0].shape = (b, 8). Obtained dimension variables: ."} : (tensor<i1>) -> ()
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
