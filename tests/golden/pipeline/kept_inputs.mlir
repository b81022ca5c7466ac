// Layers whose checkpoints keep products alone, and whose weights come in different orders: the backward pass makes again what
// follows from the layer's input, which of the first layer is made otherwise. Stages are alike all the same.
// RUN: gshard-opt pipeline %s --stages 2 --microbatches 4 --schedule shift --report kept_inputs_report.tmp -o kept_inputs_pipelined.tmp && grep -o 'schedule shift' kept_inputs_report.tmp && gshard-opt partition kept_inputs_pipelined.tmp -o kept_inputs_device.tmp && gshard-run kept_inputs_device.tmp --reference %s --verify=outputs
// CHECK: schedule shift
// CHECK: verify        ok: 13 outputs
module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<4xf32> {tf.aliasing_output = 1 : i32}, %arg2: tensor<4x4xf32> {tf.aliasing_output = 2 : i32}, %arg3: tensor<4xf32> {tf.aliasing_output = 3 : i32}, %arg4: tensor<4xf32> {tf.aliasing_output = 4 : i32}, %arg5: tensor<4x4xf32> {tf.aliasing_output = 5 : i32}, %arg6: tensor<4xf32> {tf.aliasing_output = 6 : i32}, %arg7: tensor<4xf32> {tf.aliasing_output = 7 : i32}, %arg8: tensor<4x4xf32> {tf.aliasing_output = 8 : i32}, %arg9: tensor<4xf32> {tf.aliasing_output = 9 : i32}, %arg10: tensor<4xf32> {tf.aliasing_output = 10 : i32}, %arg11: tensor<4x4xf32> {tf.aliasing_output = 11 : i32}, %arg12: tensor<8x4xf32>) -> (tensor<4xf32> {jax.result_info = "result[0][0]['a']"}, tensor<4xf32> {jax.result_info = "result[0][0]['b']"}, tensor<4x4xf32> {jax.result_info = "result[0][0]['w']"}, tensor<4xf32> {jax.result_info = "result[0][1]['a']"}, tensor<4xf32> {jax.result_info = "result[0][1]['b']"}, tensor<4x4xf32> {jax.result_info = "result[0][1]['w']"}, tensor<4xf32> {jax.result_info = "result[0][2]['a']"}, tensor<4xf32> {jax.result_info = "result[0][2]['b']"}, tensor<4x4xf32> {jax.result_info = "result[0][2]['w']"}, tensor<4xf32> {jax.result_info = "result[0][3]['a']"}, tensor<4xf32> {jax.result_info = "result[0][3]['b']"}, tensor<4x4xf32> {jax.result_info = "result[0][3]['w']"}, tensor<f32> {jax.result_info = "result[1]"}) {
    %0 = stablehlo.tanh %arg12 : tensor<8x4xf32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<8x4xf32>
    %3 = stablehlo.multiply %0, %2 : tensor<8x4xf32>
    %4 = stablehlo.tanh %3 : tensor<8x4xf32>
    %5 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<8x4xf32>
    %7 = stablehlo.multiply %4, %6 : tensor<8x4xf32>
    %8 = stablehlo.dot_general %7, %arg2, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %9 = stablehlo.add %0, %8 : tensor<8x4xf32>
    %10 = stablehlo.broadcast_in_dim %arg4, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<8x4xf32>
    %12 = stablehlo.multiply %9, %11 : tensor<8x4xf32>
    %13 = stablehlo.tanh %12 : tensor<8x4xf32>
    %14 = stablehlo.broadcast_in_dim %arg3, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<8x4xf32>
    %16 = stablehlo.multiply %13, %15 : tensor<8x4xf32>
    %17 = stablehlo.dot_general %16, %arg5, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %18 = stablehlo.add %9, %17 : tensor<8x4xf32>
    %19 = stablehlo.broadcast_in_dim %arg6, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<8x4xf32>
    %21 = stablehlo.multiply %18, %20 : tensor<8x4xf32>
    %22 = stablehlo.tanh %21 : tensor<8x4xf32>
    %23 = stablehlo.broadcast_in_dim %arg7, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<8x4xf32>
    %25 = stablehlo.multiply %22, %24 : tensor<8x4xf32>
    %26 = stablehlo.dot_general %25, %arg8, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %27 = stablehlo.add %18, %26 : tensor<8x4xf32>
    %28 = stablehlo.broadcast_in_dim %arg9, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<8x4xf32>
    %30 = stablehlo.multiply %27, %29 : tensor<8x4xf32>
    %31 = stablehlo.tanh %30 : tensor<8x4xf32>
    %32 = stablehlo.broadcast_in_dim %arg10, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %33 = stablehlo.broadcast_in_dim %32, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<8x4xf32>
    %34 = stablehlo.multiply %31, %33 : tensor<8x4xf32>
    %35 = stablehlo.dot_general %34, %arg11, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %36 = stablehlo.add %27, %35 : tensor<8x4xf32>
    %37 = stablehlo.multiply %36, %36 : tensor<8x4xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %38 = stablehlo.reduce(%37 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %39 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %40 = stablehlo.multiply %36, %39 : tensor<8x4xf32>
    %41 = stablehlo.multiply %39, %36 : tensor<8x4xf32>
    %42 = stablehlo.add %40, %41 : tensor<8x4xf32>
    %43:5 = stablehlo.optimization_barrier %27, %arg9, %arg10, %arg11, %42 : tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<8x4xf32>
    %44 = stablehlo.broadcast_in_dim %43#1, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<8x4xf32>
    %46 = stablehlo.multiply %43#0, %45 : tensor<8x4xf32>
    %47 = stablehlo.tanh %46 : tensor<8x4xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %48 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %49 = stablehlo.subtract %48, %47 : tensor<8x4xf32>
    %50 = stablehlo.broadcast_in_dim %43#2, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %51 = stablehlo.broadcast_in_dim %50, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<8x4xf32>
    %52 = stablehlo.multiply %47, %51 : tensor<8x4xf32>
    %53 = stablehlo.dot_general %43#4, %52, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %54 = stablehlo.transpose %53, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %55 = stablehlo.dot_general %43#4, %43#3, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %56 = stablehlo.multiply %47, %55 : tensor<8x4xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %57 = stablehlo.reduce(%56 init: %cst_2) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
    %58 = stablehlo.reshape %57 : (tensor<4xf32>) -> tensor<1x4xf32>
    %59 = stablehlo.broadcast_in_dim %50, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<8x4xf32>
    %60 = stablehlo.multiply %55, %59 : tensor<8x4xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %61 = stablehlo.reduce(%58 init: %cst_3) applies stablehlo.add across dimensions = [0] : (tensor<1x4xf32>, tensor<f32>) -> tensor<4xf32>
    %62 = stablehlo.multiply %60, %49 : tensor<8x4xf32>
    %63 = stablehlo.multiply %62, %47 : tensor<8x4xf32>
    %64 = stablehlo.add %62, %63 : tensor<8x4xf32>
    %65 = stablehlo.multiply %43#0, %64 : tensor<8x4xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %66 = stablehlo.reduce(%65 init: %cst_4) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
    %67 = stablehlo.reshape %66 : (tensor<4xf32>) -> tensor<1x4xf32>
    %68 = stablehlo.broadcast_in_dim %44, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<8x4xf32>
    %69 = stablehlo.multiply %64, %68 : tensor<8x4xf32>
    %70 = stablehlo.add %43#4, %69 : tensor<8x4xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %71 = stablehlo.reduce(%67 init: %cst_5) applies stablehlo.add across dimensions = [0] : (tensor<1x4xf32>, tensor<f32>) -> tensor<4xf32>
    %72:5 = stablehlo.optimization_barrier %18, %arg6, %arg7, %arg8, %70 : tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<8x4xf32>
    %73 = stablehlo.broadcast_in_dim %72#1, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %74 = stablehlo.broadcast_in_dim %73, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<8x4xf32>
    %75 = stablehlo.multiply %72#0, %74 : tensor<8x4xf32>
    %76 = stablehlo.tanh %75 : tensor<8x4xf32>
    %cst_6 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %77 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %78 = stablehlo.subtract %77, %76 : tensor<8x4xf32>
    %79 = stablehlo.broadcast_in_dim %72#2, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %80 = stablehlo.broadcast_in_dim %79, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<8x4xf32>
    %81 = stablehlo.multiply %76, %80 : tensor<8x4xf32>
    %82 = stablehlo.dot_general %72#4, %81, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %83 = stablehlo.transpose %82, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %84 = stablehlo.dot_general %72#4, %72#3, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %85 = stablehlo.multiply %76, %84 : tensor<8x4xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %86 = stablehlo.reduce(%85 init: %cst_7) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
    %87 = stablehlo.reshape %86 : (tensor<4xf32>) -> tensor<1x4xf32>
    %88 = stablehlo.broadcast_in_dim %79, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<8x4xf32>
    %89 = stablehlo.multiply %84, %88 : tensor<8x4xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %90 = stablehlo.reduce(%87 init: %cst_8) applies stablehlo.add across dimensions = [0] : (tensor<1x4xf32>, tensor<f32>) -> tensor<4xf32>
    %91 = stablehlo.multiply %89, %78 : tensor<8x4xf32>
    %92 = stablehlo.multiply %91, %76 : tensor<8x4xf32>
    %93 = stablehlo.add %91, %92 : tensor<8x4xf32>
    %94 = stablehlo.multiply %72#0, %93 : tensor<8x4xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %95 = stablehlo.reduce(%94 init: %cst_9) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
    %96 = stablehlo.reshape %95 : (tensor<4xf32>) -> tensor<1x4xf32>
    %97 = stablehlo.broadcast_in_dim %73, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<8x4xf32>
    %98 = stablehlo.multiply %93, %97 : tensor<8x4xf32>
    %99 = stablehlo.add %72#4, %98 : tensor<8x4xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %100 = stablehlo.reduce(%96 init: %cst_10) applies stablehlo.add across dimensions = [0] : (tensor<1x4xf32>, tensor<f32>) -> tensor<4xf32>
    %101:5 = stablehlo.optimization_barrier %9, %arg4, %arg3, %arg5, %99 : tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<8x4xf32>
    %102 = stablehlo.broadcast_in_dim %101#1, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %103 = stablehlo.broadcast_in_dim %102, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<8x4xf32>
    %104 = stablehlo.multiply %101#0, %103 : tensor<8x4xf32>
    %105 = stablehlo.tanh %104 : tensor<8x4xf32>
    %cst_11 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %106 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %107 = stablehlo.subtract %106, %105 : tensor<8x4xf32>
    %108 = stablehlo.broadcast_in_dim %101#2, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %109 = stablehlo.broadcast_in_dim %108, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<8x4xf32>
    %110 = stablehlo.multiply %105, %109 : tensor<8x4xf32>
    %111 = stablehlo.dot_general %101#4, %110, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %112 = stablehlo.transpose %111, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %113 = stablehlo.dot_general %101#4, %101#3, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %114 = stablehlo.multiply %105, %113 : tensor<8x4xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %115 = stablehlo.reduce(%114 init: %cst_12) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
    %116 = stablehlo.reshape %115 : (tensor<4xf32>) -> tensor<1x4xf32>
    %117 = stablehlo.broadcast_in_dim %108, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<8x4xf32>
    %118 = stablehlo.multiply %113, %117 : tensor<8x4xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %119 = stablehlo.reduce(%116 init: %cst_13) applies stablehlo.add across dimensions = [0] : (tensor<1x4xf32>, tensor<f32>) -> tensor<4xf32>
    %120 = stablehlo.multiply %118, %107 : tensor<8x4xf32>
    %121 = stablehlo.multiply %120, %105 : tensor<8x4xf32>
    %122 = stablehlo.add %120, %121 : tensor<8x4xf32>
    %123 = stablehlo.multiply %101#0, %122 : tensor<8x4xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %124 = stablehlo.reduce(%123 init: %cst_14) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
    %125 = stablehlo.reshape %124 : (tensor<4xf32>) -> tensor<1x4xf32>
    %126 = stablehlo.broadcast_in_dim %102, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<8x4xf32>
    %127 = stablehlo.multiply %122, %126 : tensor<8x4xf32>
    %128 = stablehlo.add %101#4, %127 : tensor<8x4xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %129 = stablehlo.reduce(%125 init: %cst_15) applies stablehlo.add across dimensions = [0] : (tensor<1x4xf32>, tensor<f32>) -> tensor<4xf32>
    %130:5 = stablehlo.optimization_barrier %0, %arg0, %arg1, %arg2, %128 : tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<8x4xf32>
    %131 = stablehlo.broadcast_in_dim %130#1, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %132 = stablehlo.broadcast_in_dim %131, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<8x4xf32>
    %133 = stablehlo.multiply %130#0, %132 : tensor<8x4xf32>
    %134 = stablehlo.tanh %133 : tensor<8x4xf32>
    %cst_16 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %135 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %136 = stablehlo.subtract %135, %134 : tensor<8x4xf32>
    %137 = stablehlo.broadcast_in_dim %130#2, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %138 = stablehlo.broadcast_in_dim %137, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<8x4xf32>
    %139 = stablehlo.multiply %134, %138 : tensor<8x4xf32>
    %140 = stablehlo.dot_general %130#4, %139, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %141 = stablehlo.transpose %140, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %142 = stablehlo.dot_general %130#4, %130#3, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %143 = stablehlo.multiply %134, %142 : tensor<8x4xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %144 = stablehlo.reduce(%143 init: %cst_17) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
    %145 = stablehlo.reshape %144 : (tensor<4xf32>) -> tensor<1x4xf32>
    %146 = stablehlo.broadcast_in_dim %137, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<8x4xf32>
    %147 = stablehlo.multiply %142, %146 : tensor<8x4xf32>
    %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %148 = stablehlo.reduce(%145 init: %cst_18) applies stablehlo.add across dimensions = [0] : (tensor<1x4xf32>, tensor<f32>) -> tensor<4xf32>
    %149 = stablehlo.multiply %147, %136 : tensor<8x4xf32>
    %150 = stablehlo.multiply %149, %134 : tensor<8x4xf32>
    %151 = stablehlo.add %149, %150 : tensor<8x4xf32>
    %152 = stablehlo.multiply %130#0, %151 : tensor<8x4xf32>
    %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %153 = stablehlo.reduce(%152 init: %cst_19) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
    %154 = stablehlo.reshape %153 : (tensor<4xf32>) -> tensor<1x4xf32>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %155 = stablehlo.reduce(%154 init: %cst_20) applies stablehlo.add across dimensions = [0] : (tensor<1x4xf32>, tensor<f32>) -> tensor<4xf32>
    %cst_21 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %156 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %157 = stablehlo.multiply %156, %155 : tensor<4xf32>
    %158 = stablehlo.subtract %arg0, %157 : tensor<4xf32>
    %cst_22 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %159 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %160 = stablehlo.multiply %159, %148 : tensor<4xf32>
    %161 = stablehlo.subtract %arg1, %160 : tensor<4xf32>
    %cst_23 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %162 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
    %163 = stablehlo.multiply %162, %141 : tensor<4x4xf32>
    %164 = stablehlo.subtract %arg2, %163 : tensor<4x4xf32>
    %cst_24 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %165 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %166 = stablehlo.multiply %165, %119 : tensor<4xf32>
    %167 = stablehlo.subtract %arg3, %166 : tensor<4xf32>
    %cst_25 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %168 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %169 = stablehlo.multiply %168, %129 : tensor<4xf32>
    %170 = stablehlo.subtract %arg4, %169 : tensor<4xf32>
    %cst_26 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %171 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
    %172 = stablehlo.multiply %171, %112 : tensor<4x4xf32>
    %173 = stablehlo.subtract %arg5, %172 : tensor<4x4xf32>
    %cst_27 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %174 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %175 = stablehlo.multiply %174, %100 : tensor<4xf32>
    %176 = stablehlo.subtract %arg6, %175 : tensor<4xf32>
    %cst_28 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %177 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %178 = stablehlo.multiply %177, %90 : tensor<4xf32>
    %179 = stablehlo.subtract %arg7, %178 : tensor<4xf32>
    %cst_29 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %180 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
    %181 = stablehlo.multiply %180, %83 : tensor<4x4xf32>
    %182 = stablehlo.subtract %arg8, %181 : tensor<4x4xf32>
    %cst_30 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %183 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %184 = stablehlo.multiply %183, %71 : tensor<4xf32>
    %185 = stablehlo.subtract %arg9, %184 : tensor<4xf32>
    %cst_31 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %186 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %187 = stablehlo.multiply %186, %61 : tensor<4xf32>
    %188 = stablehlo.subtract %arg10, %187 : tensor<4xf32>
    %cst_32 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %189 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
    %190 = stablehlo.multiply %189, %54 : tensor<4x4xf32>
    %191 = stablehlo.subtract %arg11, %190 : tensor<4x4xf32>
    return %158, %161, %164, %167, %170, %173, %176, %179, %182, %185, %188, %191, %38 : tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<f32>
  }
}
