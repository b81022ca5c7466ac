// RUN: gshard-opt print %s
//
// Pretty and generic forms of the same operations.
module @forms attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x8xf32>, %arg1: tensor<8x2xf32>, %arg2: tensor<i32>) -> (tensor<4x2xf32>, tensor<2x8xf32>, tensor<4xf32>, tensor<4xi32>) {
    // CHECK: HloModule forms
    // CHECK: %arg0 = f32[4,8] parameter(0)
    // CHECK: %dot_general.0 = f32[4,2] dot(%arg0, %arg1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    // CHECK: %dot_general.1 = f32[4,2] dot(%arg0, %arg1), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,default}
    %1 = "stablehlo.dot_general"(%arg0, %arg1) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision DEFAULT>]}> : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    // CHECK: %add.2 = f32[4,2] add(%dot_general.0, %dot_general.1)
    %2 = stablehlo.add %0, %1 : tensor<4x2xf32>
    // CHECK: %slice.3 = f32[2,8] slice(%arg0), slice={[0:4:2], [0:8:1]}
    %3 = stablehlo.slice %arg0 [0:4:2, 0:8] : (tensor<4x8xf32>) -> tensor<2x8xf32>
    // CHECK: %slice.4 = f32[2,8] slice(%arg0), slice={[1:3], [0:8]}
    %4 = "stablehlo.slice"(%arg0) {limit_indices = dense<[3, 8]> : tensor<2xi64>, start_indices = dense<[1, 0]> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} : (tensor<4x8xf32>) -> tensor<2x8xf32>
    %5 = stablehlo.maximum %3, %4 : tensor<2x8xf32>
    // CHECK: %iota.6 = s32[4,8] iota(), iota_dimension=1
    // CHECK: %cst = f32[] constant(-inf)
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    // CHECK: %c = s32[] constant(0)
    %c = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.iota dim = 1 : tensor<4x8xi32>
    // CHECK: %reduce.7 = (f32[4], s32[4]) reduce(%arg0, %iota.6, %cst, %c), dimensions={1}, to_apply=%region_reduce
    %7:2 = stablehlo.reduce(%arg0 init: %cst), (%6 init: %c) across dimensions = [1] : (tensor<4x8xf32>, tensor<4x8xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>)  {
      %8 = stablehlo.compare GE, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %9 = stablehlo.select %8, %a, %b : tensor<i1>, tensor<f32>
      %10 = stablehlo.select %8, %i, %j : tensor<i1>, tensor<i32>
      stablehlo.return %9, %10 : tensor<f32>, tensor<i32>
    }
    // CHECK: %reduce.7.0 = f32[4] get-tuple-element(%reduce.7), index=0
    // CHECK: ROOT %tuple.{{[0-9]+}} = {{.*}} tuple(%add.2, %maximum.5, %reduce.7.0, %reduce.7.1)
    return %2, %5, %7#0, %7#1 : tensor<4x2xf32>, tensor<2x8xf32>, tensor<4xf32>, tensor<4xi32>
  }
}

// -----
// Operands of a concatenate that have no elements are left out, as XLA's export has it; what is left of
// one operand is that operand, which does not take the result's sharding.
module @empty_operands attributes {mhlo.num_partitions = 4 : i32} {
  func.func public @main(%arg0: tensor<3x8xf32>, %arg1: tensor<0x8xf32>) -> (tensor<6x8xf32>, tensor<3x8xf32>, tensor<0x8xf32>) {
    // CHECK: %add.0 = f32[3,8] add(%arg0, %arg0){{$}}
    // CHECK-NEXT: %concatenate.1 = f32[6,8] concatenate(%arg0, %add.0), dimensions={0}
    // CHECK-NEXT: %arg1 = f32[0,8] parameter(1)
    // CHECK-NEXT: %concatenate.3 = f32[0,8] concatenate(%arg1, %arg1), dimensions={0}
    // CHECK-NEXT: ROOT {{.*}} tuple(%concatenate.1, %add.0, %concatenate.3)
    %0 = stablehlo.add %arg0, %arg0 : tensor<3x8xf32>
    %1 = stablehlo.concatenate %arg0, %arg1, %0, dim = 0 : (tensor<3x8xf32>, tensor<0x8xf32>, tensor<3x8xf32>) -> tensor<6x8xf32>
    %2 = stablehlo.concatenate %arg1, %0, dim = 0 {mhlo.sharding = "{devices=[1,4]<=[4]}"} : (tensor<0x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %3 = stablehlo.concatenate %arg1, %arg1, dim = 0 : (tensor<0x8xf32>, tensor<0x8xf32>) -> tensor<0x8xf32>
    return %1, %2, %3 : tensor<6x8xf32>, tensor<3x8xf32>, tensor<0x8xf32>
  }
}
// -----
// MHLO, as in the dumps of Shardy's passes.
// RUN: gshard-opt print %s
func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>) {
  // CHECK: erf(
  // CHECK: topk(%{{.*}}), k=2, largest=true
  %0 = mhlo.erf %x : tensor<4x8xf32>
  %values, %indices = mhlo.topk(%0, k = 2) : tensor<4x8xf32> -> (tensor<4x2xf32>, tensor<4x2xi32>)
  return %values, %indices : tensor<4x2xf32>, tensor<4x2xi32>
}
// -----
// RUN: gshard-opt print %s
// The arc tangent of complex numbers is -i atanh(i z), as XLA has it.
// CHECK: %complex = c64[4] complex(%negate, %real)
// CHECK: %atanh = c64[4] atanh(%complex)
// CHECK: ROOT %complex.1 = c64[4] complex(%imag.1, %negate.1)
module @complex_atan {
  func.func public @main(%z: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
    %0 = chlo.atan %z : tensor<4xcomplex<f32>> -> tensor<4xcomplex<f32>>
    return %0 : tensor<4xcomplex<f32>>
  }
}
