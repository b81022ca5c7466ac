// Layers of three instructions under a loss of many, optax's binary cross-entropy of logits, as JAX prints them: layers are equal
// blocks though they are less than half of the forward pass's instructions.
// RUN: for r in 1 2; do gshard-opt pipeline %s --stages 2 --microbatches 4 --schedule shift --repeats $r -o long_loss_pipelined.tmp && gshard-opt partition long_loss_pipelined.tmp -o long_loss_device.tmp && gshard-run long_loss_device.tmp --reference %s --verify || exit 1; done
// CHECK-COUNT-2: verify        ok
module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<8x8xf32> {tf.aliasing_output = 1 : i32}, %arg2: tensor<8xf32> {tf.aliasing_output = 2 : i32}, %arg3: tensor<8x8xf32> {tf.aliasing_output = 3 : i32}, %arg4: tensor<8xf32> {tf.aliasing_output = 4 : i32}, %arg5: tensor<8x8xf32> {tf.aliasing_output = 5 : i32}, %arg6: tensor<8xf32> {tf.aliasing_output = 6 : i32}, %arg7: tensor<8x8xf32> {tf.aliasing_output = 7 : i32}, %arg8: tensor<16x8xf32>, %arg9: tensor<16x8xf32>) -> (tensor<8xf32> {jax.result_info = "result[0][0]['b']"}, tensor<8x8xf32> {jax.result_info = "result[0][0]['w']"}, tensor<8xf32> {jax.result_info = "result[0][1]['b']"}, tensor<8x8xf32> {jax.result_info = "result[0][1]['w']"}, tensor<8xf32> {jax.result_info = "result[0][2]['b']"}, tensor<8x8xf32> {jax.result_info = "result[0][2]['w']"}, tensor<8xf32> {jax.result_info = "result[0][3]['b']"}, tensor<8x8xf32> {jax.result_info = "result[0][3]['w']"}, tensor<f32> {jax.result_info = "result[1]"}) {
    %0 = stablehlo.dot_general %arg8, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<16x8xf32>
    %3 = stablehlo.add %0, %2 : tensor<16x8xf32>
    %4 = stablehlo.tanh %3 : tensor<16x8xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %6 = stablehlo.subtract %5, %4 : tensor<16x8xf32>
    %7 = stablehlo.dot_general %4, %arg3, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %8 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<16x8xf32>
    %10 = stablehlo.add %7, %9 : tensor<16x8xf32>
    %11 = stablehlo.tanh %10 : tensor<16x8xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %13 = stablehlo.subtract %12, %11 : tensor<16x8xf32>
    %14 = stablehlo.dot_general %11, %arg5, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %15 = stablehlo.broadcast_in_dim %arg4, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<16x8xf32>
    %17 = stablehlo.add %14, %16 : tensor<16x8xf32>
    %18 = stablehlo.tanh %17 : tensor<16x8xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %20 = stablehlo.subtract %19, %18 : tensor<16x8xf32>
    %21 = stablehlo.dot_general %18, %arg7, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %22 = stablehlo.broadcast_in_dim %arg6, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<16x8xf32>
    %24 = stablehlo.add %21, %23 : tensor<16x8xf32>
    %25 = stablehlo.tanh %24 : tensor<16x8xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %27 = stablehlo.subtract %26, %25 : tensor<16x8xf32>
    %28 = stablehlo.negate %arg9 : tensor<16x8xf32>
    %29 = stablehlo.exponential %28 : tensor<16x8xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %31 = stablehlo.add %30, %29 : tensor<16x8xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %33 = stablehlo.divide %32, %31 : tensor<16x8xf32>
    %34:2 = call @log_sigmoid(%25) : (tensor<16x8xf32>) -> (tensor<16x8xf32>, tensor<16x8xf32>)
    %35 = stablehlo.negate %25 : tensor<16x8xf32>
    %36:2 = call @log_sigmoid(%35) : (tensor<16x8xf32>) -> (tensor<16x8xf32>, tensor<16x8xf32>)
    %37 = stablehlo.negate %33 : tensor<16x8xf32>
    %38 = stablehlo.multiply %37, %34#0 : tensor<16x8xf32>
    %cst_5 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %39 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %40 = stablehlo.subtract %39, %33 : tensor<16x8xf32>
    %41 = stablehlo.multiply %40, %36#0 : tensor<16x8xf32>
    %42 = stablehlo.subtract %38, %41 : tensor<16x8xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %43 = stablehlo.reduce(%42 init: %cst_6) applies stablehlo.add across dimensions = [0, 1] : (tensor<16x8xf32>, tensor<f32>) -> tensor<f32>
    %cst_7 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %44 = stablehlo.divide %43, %cst_7 : tensor<f32>
    %cst_8 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_9 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %45 = stablehlo.divide %cst_8, %cst_9 : tensor<f32>
    %46 = stablehlo.broadcast_in_dim %45, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %47 = stablehlo.negate %46 : tensor<16x8xf32>
    %48 = stablehlo.multiply %40, %47 : tensor<16x8xf32>
    %49 = stablehlo.multiply %37, %46 : tensor<16x8xf32>
    %50 = call @log_sigmoid_0(%36#1, %48) : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    %51 = stablehlo.negate %50 : tensor<16x8xf32>
    %52 = call @log_sigmoid_0(%34#1, %49) : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    %53 = stablehlo.add %51, %52 : tensor<16x8xf32>
    %54 = stablehlo.multiply %53, %27 : tensor<16x8xf32>
    %55 = stablehlo.multiply %54, %25 : tensor<16x8xf32>
    %56 = stablehlo.add %54, %55 : tensor<16x8xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %57 = stablehlo.reduce(%56 init: %cst_10) applies stablehlo.add across dimensions = [0] : (tensor<16x8xf32>, tensor<f32>) -> tensor<8xf32>
    %58 = stablehlo.reshape %57 : (tensor<8xf32>) -> tensor<1x8xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %59 = stablehlo.reduce(%58 init: %cst_11) applies stablehlo.add across dimensions = [0] : (tensor<1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %60 = stablehlo.dot_general %56, %18, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %61 = stablehlo.transpose %60, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %62 = stablehlo.dot_general %56, %arg7, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %63 = stablehlo.multiply %62, %20 : tensor<16x8xf32>
    %64 = stablehlo.multiply %63, %18 : tensor<16x8xf32>
    %65 = stablehlo.add %63, %64 : tensor<16x8xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %66 = stablehlo.reduce(%65 init: %cst_12) applies stablehlo.add across dimensions = [0] : (tensor<16x8xf32>, tensor<f32>) -> tensor<8xf32>
    %67 = stablehlo.reshape %66 : (tensor<8xf32>) -> tensor<1x8xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %68 = stablehlo.reduce(%67 init: %cst_13) applies stablehlo.add across dimensions = [0] : (tensor<1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %69 = stablehlo.dot_general %65, %11, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %70 = stablehlo.transpose %69, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %71 = stablehlo.dot_general %65, %arg5, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %72 = stablehlo.multiply %71, %13 : tensor<16x8xf32>
    %73 = stablehlo.multiply %72, %11 : tensor<16x8xf32>
    %74 = stablehlo.add %72, %73 : tensor<16x8xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %75 = stablehlo.reduce(%74 init: %cst_14) applies stablehlo.add across dimensions = [0] : (tensor<16x8xf32>, tensor<f32>) -> tensor<8xf32>
    %76 = stablehlo.reshape %75 : (tensor<8xf32>) -> tensor<1x8xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %77 = stablehlo.reduce(%76 init: %cst_15) applies stablehlo.add across dimensions = [0] : (tensor<1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %78 = stablehlo.dot_general %74, %4, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %79 = stablehlo.transpose %78, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %80 = stablehlo.dot_general %74, %arg3, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %81 = stablehlo.multiply %80, %6 : tensor<16x8xf32>
    %82 = stablehlo.multiply %81, %4 : tensor<16x8xf32>
    %83 = stablehlo.add %81, %82 : tensor<16x8xf32>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %84 = stablehlo.reduce(%83 init: %cst_16) applies stablehlo.add across dimensions = [0] : (tensor<16x8xf32>, tensor<f32>) -> tensor<8xf32>
    %85 = stablehlo.reshape %84 : (tensor<8xf32>) -> tensor<1x8xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %86 = stablehlo.reduce(%85 init: %cst_17) applies stablehlo.add across dimensions = [0] : (tensor<1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %87 = stablehlo.dot_general %83, %arg8, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %88 = stablehlo.transpose %87, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %cst_18 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %89 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %90 = stablehlo.multiply %89, %86 : tensor<8xf32>
    %91 = stablehlo.subtract %arg0, %90 : tensor<8xf32>
    %cst_19 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %92 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %93 = stablehlo.multiply %92, %88 : tensor<8x8xf32>
    %94 = stablehlo.subtract %arg1, %93 : tensor<8x8xf32>
    %cst_20 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %95 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %96 = stablehlo.multiply %95, %77 : tensor<8xf32>
    %97 = stablehlo.subtract %arg2, %96 : tensor<8xf32>
    %cst_21 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %98 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %99 = stablehlo.multiply %98, %79 : tensor<8x8xf32>
    %100 = stablehlo.subtract %arg3, %99 : tensor<8x8xf32>
    %cst_22 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %101 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %102 = stablehlo.multiply %101, %68 : tensor<8xf32>
    %103 = stablehlo.subtract %arg4, %102 : tensor<8xf32>
    %cst_23 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %104 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %105 = stablehlo.multiply %104, %70 : tensor<8x8xf32>
    %106 = stablehlo.subtract %arg5, %105 : tensor<8x8xf32>
    %cst_24 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %107 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %108 = stablehlo.multiply %107, %59 : tensor<8xf32>
    %109 = stablehlo.subtract %arg6, %108 : tensor<8xf32>
    %cst_25 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %110 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %111 = stablehlo.multiply %110, %61 : tensor<8x8xf32>
    %112 = stablehlo.subtract %arg7, %111 : tensor<8x8xf32>
    return %91, %94, %97, %100, %103, %106, %109, %112, %44 : tensor<8xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<f32>
  }
  func.func private @log_sigmoid(%arg0: tensor<16x8xf32>) -> (tensor<16x8xf32>, tensor<16x8xf32>) {
    %0 = stablehlo.negate %arg0 : tensor<16x8xf32>
    %1:2 = call @softplus(%0) : (tensor<16x8xf32>) -> (tensor<16x8xf32>, tensor<16x8xf32>)
    %2 = stablehlo.negate %1#0 : tensor<16x8xf32>
    return %2, %1#1 : tensor<16x8xf32>, tensor<16x8xf32>
  }
  func.func private @softplus(%arg0: tensor<16x8xf32>) -> (tensor<16x8xf32>, tensor<16x8xf32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<16x8xf32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %3 = stablehlo.subtract %arg0, %2 : tensor<16x8xf32>
    %4 = stablehlo.compare NE, %3, %3, FLOAT : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xi1>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %6 = stablehlo.add %arg0, %5 : tensor<16x8xf32>
    %7 = stablehlo.abs %3 : tensor<16x8xf32>
    %8 = stablehlo.negate %7 : tensor<16x8xf32>
    %9 = stablehlo.exponential %8 : tensor<16x8xf32>
    %10 = stablehlo.log_plus_one %9 : tensor<16x8xf32>
    %11 = stablehlo.add %1, %10 : tensor<16x8xf32>
    %12 = stablehlo.select %4, %6, %11 : tensor<16x8xi1>, tensor<16x8xf32>
    %cst_0 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %14 = stablehlo.compare EQ, %arg0, %13, FLOAT : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xi1>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %16 = stablehlo.select %14, %15, %arg0 : tensor<16x8xi1>, tensor<16x8xf32>
    %cst_2 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %17 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %18 = stablehlo.compare EQ, %12, %17, FLOAT : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xi1>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %20 = stablehlo.select %18, %19, %12 : tensor<16x8xi1>, tensor<16x8xf32>
    %21 = stablehlo.subtract %16, %20 : tensor<16x8xf32>
    %22 = stablehlo.exponential %21 : tensor<16x8xf32>
    return %12, %22 : tensor<16x8xf32>, tensor<16x8xf32>
  }
  func.func private @log_sigmoid_0(%arg0: tensor<16x8xf32>, %arg1: tensor<16x8xf32>) -> tensor<16x8xf32> {
    %0 = stablehlo.negate %arg1 : tensor<16x8xf32>
    %1 = call @softplus_1(%arg0, %0) : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    %2 = stablehlo.negate %1 : tensor<16x8xf32>
    return %2 : tensor<16x8xf32>
  }
  func.func private @softplus_1(%arg0: tensor<16x8xf32>, %arg1: tensor<16x8xf32>) -> tensor<16x8xf32> {
    %0 = stablehlo.multiply %arg1, %arg0 : tensor<16x8xf32>
    return %0 : tensor<16x8xf32>
  }
}
