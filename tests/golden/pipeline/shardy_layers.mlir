// Layers in manual regions, as JAX prints them. Which examples a micro-batch has does not depend on the propagation that the text
// is for: GSPMD's rules find it in Shardy's text, too.
// RUN: gshard-opt grad %s --wrt w0,w1 -o shardy_step.tmp && for schedule in gpipe 1f1b zero-bubble; do gshard-opt pipeline shardy_step.tmp --stages 2 --microbatches 4 --schedule $schedule -o shardy_pipelined.tmp && gshard-opt partition shardy_pipelined.tmp -o shardy_device.tmp && gshard-run shardy_device.tmp --reference shardy_step.tmp --verify=outputs; done; rm -f shardy_*.tmp
// CHECK-COUNT-3: verify        ok: 3 outputs
module @layers attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["d"=2, "t"=2]>
  func.func public @main(%arg0: tensor<16x8xf32> loc("x"), %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"t"}]>} loc("w0"), %arg2: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"t"}]>} loc("w1")) -> tensor<f32> {
    %0 = sdy.manual_computation(%arg0, %arg1) in_shardings=[<@mesh, [{"d"}, {}]>, <@mesh, [{}, {"t"}]>] out_shardings=[<@mesh, [{"d"}, {"t"}]>] manual_axes={"d", "t"} (%a: tensor<8x8xf32>, %b: tensor<8x4xf32>) {
      %4 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      %5 = stablehlo.tanh %4 : tensor<8x4xf32>
      sdy.return %5 : tensor<8x4xf32>
    } : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %1 = sdy.manual_computation(%0, %arg2) in_shardings=[<@mesh, [{"d"}, {}]>, <@mesh, [{}, {"t"}]>] out_shardings=[<@mesh, [{"d"}, {"t"}]>] manual_axes={"d", "t"} (%a: tensor<8x8xf32>, %b: tensor<8x4xf32>) {
      %4 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      %5 = stablehlo.tanh %4 : tensor<8x4xf32>
      sdy.return %5 : tensor<8x4xf32>
    } : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %2 = stablehlo.multiply %1, %1 : tensor<16x8xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.reduce(%2 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<16x8xf32>, tensor<f32>) -> tensor<f32>
    return %3 : tensor<f32>
  }
}
