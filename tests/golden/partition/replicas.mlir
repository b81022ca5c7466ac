// RUN: gshard-opt partition %s 2>&1
//
// jax.pmap up to JAX 0.7.2: replicas, whose arrays are each device's own.
// CHECK: note: the program has 8 replicas and one partition, as jax.pmap makes it
module @pmap attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 8 : i32} {
  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.negate %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
