// Layers in manual regions beside the residual stream. What is handed to the layer below is the cotangent before it enters the
// region, as in the layers between, though the first layer has no other use for it: the rows of one device are no less to send.
// RUN: gshard-opt grad %s --wrt w0,w1,w2,w3 -o residual_step.tmp && gshard-opt pipeline residual_step.tmp --stages 2 --microbatches 4 --schedule shift --report residual_report.tmp -o residual_pipelined.tmp && grep -o 'schedule shift' residual_report.tmp && gshard-opt partition residual_pipelined.tmp -o residual_device.tmp && gshard-run residual_device.tmp --reference residual_step.tmp --verify
// CHECK: schedule shift
// CHECK: verify        ok: 5 outputs
module @layers attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["d"=2, "t"=2]>
  func.func public @main(%arg0: tensor<16x8xf32> loc("x"), %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"t"}]>} loc("w0"), %arg2: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"t"}]>} loc("w1"), %arg3: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"t"}]>} loc("w2"), %arg4: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"t"}]>} loc("w3")) -> tensor<f32> {
    %r0 = sdy.manual_computation(%arg0, %arg1) in_shardings=[<@mesh, [{"d"}, {}]>, <@mesh, [{}, {"t"}]>] out_shardings=[<@mesh, [{"d"}, {"t"}]>] manual_axes={"d", "t"} (%a: tensor<8x8xf32>, %b: tensor<8x4xf32>) {
      %4 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      %5 = stablehlo.tanh %4 : tensor<8x4xf32>
      sdy.return %5 : tensor<8x4xf32>
    } : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %h0 = stablehlo.add %arg0, %r0 : tensor<16x8xf32>
    %r1 = sdy.manual_computation(%h0, %arg2) in_shardings=[<@mesh, [{"d"}, {}]>, <@mesh, [{}, {"t"}]>] out_shardings=[<@mesh, [{"d"}, {"t"}]>] manual_axes={"d", "t"} (%a: tensor<8x8xf32>, %b: tensor<8x4xf32>) {
      %4 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      %5 = stablehlo.tanh %4 : tensor<8x4xf32>
      sdy.return %5 : tensor<8x4xf32>
    } : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %h1 = stablehlo.add %h0, %r1 : tensor<16x8xf32>
    %r2 = sdy.manual_computation(%h1, %arg3) in_shardings=[<@mesh, [{"d"}, {}]>, <@mesh, [{}, {"t"}]>] out_shardings=[<@mesh, [{"d"}, {"t"}]>] manual_axes={"d", "t"} (%a: tensor<8x8xf32>, %b: tensor<8x4xf32>) {
      %4 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      %5 = stablehlo.tanh %4 : tensor<8x4xf32>
      sdy.return %5 : tensor<8x4xf32>
    } : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %h2 = stablehlo.add %h1, %r2 : tensor<16x8xf32>
    %r3 = sdy.manual_computation(%h2, %arg4) in_shardings=[<@mesh, [{"d"}, {}]>, <@mesh, [{}, {"t"}]>] out_shardings=[<@mesh, [{"d"}, {"t"}]>] manual_axes={"d", "t"} (%a: tensor<8x8xf32>, %b: tensor<8x4xf32>) {
      %4 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      %5 = stablehlo.tanh %4 : tensor<8x4xf32>
      sdy.return %5 : tensor<8x4xf32>
    } : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %h3 = stablehlo.add %h2, %r3 : tensor<16x8xf32>
    %square = stablehlo.multiply %h3, %h3 : tensor<16x8xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %loss = stablehlo.reduce(%square init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<16x8xf32>, tensor<f32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}
