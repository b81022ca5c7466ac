// RUN: gshard-opt print %s --dim b=16
//
// A shape-polymorphic export: sizes come from the command line, all shapes follow.
module @poly attributes {jax.uses_shape_polymorphism = true} {
  // CHECK: ENTRY %main (arg0: f32[16,4]) -> f32[16,16]
  func.func public @main(%arg0: tensor<?x4xf32>) -> (tensor<?x?xf32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    // CHECK: s32[] constant(16)
    %0 = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
    %1 = stablehlo.compare GE, %0, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%1, %0) {api_version = 2 : i32, error_message = "b is {0}, not >= 1", has_side_effect = true} : (tensor<i1>, tensor<i32>) -> ()
    // CHECK: ROOT %call.2 = f32[16,16] call(%constant, %arg0), to_apply=%inner
    %2 = call @inner(%0, %arg0) : (tensor<i32>, tensor<?x4xf32>) -> tensor<?x?xf32>
    return %2 : tensor<?x?xf32>
  }
  func.func private @inner(%arg0: tensor<i32> {jax.global_constant = "b"}, %arg1: tensor<?x4xf32>) -> tensor<?x?xf32> {
    %0 = stablehlo.transpose %arg1, dims = [1, 0] : (tensor<?x4xf32>) -> tensor<4x?xf32>
    %1 = stablehlo.dot_general %arg1, %0, contracting_dims = [1] x [0] : (tensor<?x4xf32>, tensor<4x?xf32>) -> tensor<?x?xf32>
    return %1 : tensor<?x?xf32>
  }
}
// -----
// RUN: gshard-opt print %s --dim x:0=0
func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c = stablehlo.constant dense<1> : tensor<i32>
  %0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %1 = stablehlo.compare GE, %0, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  // EXPECT-ERROR@+1: 0 rows are too few
  stablehlo.custom_call @shape_assertion(%1, %0) {error_message = "{0} rows are too few"} : (tensor<i1>, tensor<i32>) -> ()
  return %x : tensor<?xf32>
}
// -----
// RUN: gshard-opt print %s --dim b=16
// A dim that is no dim of the operand, in a function of open dims.
func.func public @main(%arg0: tensor<?x4xf32>) -> tensor<4x?xf32> {
  %0 = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
  %1 = call @turned(%0, %arg0) : (tensor<i32>, tensor<?x4xf32>) -> tensor<4x?xf32>
  return %1 : tensor<4x?xf32>
}
func.func private @turned(%arg0: tensor<i32> {jax.global_constant = "b"}, %arg1: tensor<?x4xf32>) -> tensor<4x?xf32> {
  // EXPECT-ERROR@+1: dimensions={2,0} names dim 2, out of range for rank 2
  %0 = stablehlo.transpose %arg1, dims = [2, 0] : (tensor<?x4xf32>) -> tensor<4x?xf32>
  return %0 : tensor<4x?xf32>
}
// -----
// RUN: gshard-opt print %s --dim x:0=16
// Types that are left open follow from the operands and the written element type.
func.func @main(%x: tensor<?x4xbf16>, %i: tensor<i32>) -> tensor<?x?xf32> {
  // CHECK: %reduce_precision.0 = bf16[16,4] reduce-precision(
  %0 = stablehlo.reduce_precision %x, format = e5m2 : tensor<?x4xbf16>
  // CHECK: %slice.1 = bf16[2,4] slice(
  %1 = stablehlo.slice %0 [0:4:2, 0:4] : (tensor<?x4xbf16>) -> tensor<?x4xbf16>
  // CHECK: %dynamic_update_slice.2 = bf16[16,4] dynamic-update-slice(
  %2 = stablehlo.dynamic_update_slice %0, %1, %i, %i : (tensor<?x4xbf16>, tensor<?x4xbf16>, tensor<i32>, tensor<i32>) -> tensor<?x4xbf16>
  // CHECK: ROOT %dot_general.3 = f32[16,16] dot(
  %3 = stablehlo.dot_general %2, %0, contracting_dims = [1] x [1] : (tensor<?x4xbf16>, tensor<?x4xbf16>) -> tensor<?x?xf32>
  return %3 : tensor<?x?xf32>
}

// -----
// RUN: gshard-opt print %s --dim a:0=6
// A size that a function computes, as the export of x[2 * b] has it, whose dim has no name.
module @halves attributes {jax.uses_shape_polymorphism = true} {
  func.func public @main(%a: tensor<?x4xf32>) -> tensor<?x2x4xf32> {
    %c = stablehlo.constant dense<2> : tensor<i32>
    %0 = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
    %1:2 = call @divmod(%0, %c) : (tensor<i32>, tensor<i32>) -> (tensor<i32>, tensor<i32>)
    %2 = call @body(%1#0, %a) : (tensor<i32>, tensor<?x4xf32>) -> tensor<?x2x4xf32>
    return %2 : tensor<?x2x4xf32>
  }
  func.func private @divmod(%n: tensor<i32> {jax.global_constant = ""}, %d: tensor<i32> {jax.global_constant = ""}) -> (tensor<i32>, tensor<i32>) {
    %0 = stablehlo.divide %n, %d : tensor<i32>
    %1 = stablehlo.remainder %n, %d : tensor<i32>
    return %0, %1 : tensor<i32>, tensor<i32>
  }
  func.func private @body(%b: tensor<i32> {jax.global_constant = "b"}, %a: tensor<?x4xf32>) -> tensor<?x2x4xf32> {
    %c = stablehlo.constant dense<[2, 4]> : tensor<2xi32>
    %0 = stablehlo.reshape %b : (tensor<i32>) -> tensor<1xi32>
    %1 = stablehlo.concatenate %0, %c, dim = 0 : (tensor<1xi32>, tensor<2xi32>) -> tensor<3xi32>
    %2 = stablehlo.dynamic_reshape %a, %1 : (tensor<?x4xf32>, tensor<3xi32>) -> tensor<?x2x4xf32>
    return %2 : tensor<?x2x4xf32>
  }
}
// CHECK: f32[3,2,4] reshape

// -----
// RUN: gshard-opt print %s 2>&1
// EXIT: 1
func.func public @main(%a: tensor<?xf32>) -> tensor<?xf32> {
  %c = stablehlo.constant dense<2> : tensor<i32>
  %0 = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %1 = call @half(%0, %c) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  return %a : tensor<?xf32>
}
func.func private @half(%n: tensor<i32> {jax.global_constant = ""}, %d: tensor<i32> {jax.global_constant = ""}) -> tensor<i32> {
  %0 = stablehlo.divide %n, %d : tensor<i32>
  return %0 : tensor<i32>
}
// CHECK: error: dim 0 of '%a' has no size
// CHECK: hint: give it one: --dim a:0=16

// -----
// A function of sizes alone makes arrays of them; padding of a window is a table of rows.
// RUN: gshard-opt print %s --dim b=8
module @sizes {
  func.func public @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
    %b = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
    %0 = call @sums(%b, %x) : (tensor<i32>, tensor<?x4xf32>) -> tensor<?x4xf32>
    %1 = call @ramp(%b) : (tensor<i32>) -> tensor<?x4xf32>
    %2 = stablehlo.add %0, %1 : tensor<?x4xf32>
    return %2 : tensor<?x4xf32>
  }
  func.func private @ramp(%b: tensor<i32> {jax.global_constant = "b"}) -> tensor<?x4xf32> {
    %four = stablehlo.constant dense<4> : tensor<1xi32>
    %0 = stablehlo.reshape %b : (tensor<i32>) -> tensor<1xi32>
    %1 = stablehlo.concatenate %0, %four, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %2 = stablehlo.dynamic_iota %1, dim = 0 : (tensor<2xi32>) -> tensor<?x4xf32>
    return %2 : tensor<?x4xf32>
  }
  func.func private @sums(%b: tensor<i32> {jax.global_constant = "b"}, %x: tensor<?x4xf32>) -> tensor<?x4xf32> {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %ones = stablehlo.constant dense<1> : tensor<2xi32>
    %length = stablehlo.constant dense<1> : tensor<1xi32>
    %none = stablehlo.constant dense<0> : tensor<1x1xi32>
    %init = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.subtract %b, %one : tensor<i32>
    %1 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1x1xi32>
    %2 = stablehlo.concatenate %1, %none, dim = 1 : (tensor<1x1xi32>, tensor<1x1xi32>) -> tensor<1x2xi32>
    %3 = stablehlo.concatenate %none, %none, dim = 1 : (tensor<1x1xi32>, tensor<1x1xi32>) -> tensor<1x2xi32>
    %4 = stablehlo.concatenate %2, %3, dim = 0 : (tensor<1x2xi32>, tensor<1x2xi32>) -> tensor<2x2xi32>
    %5 = stablehlo.reshape %b : (tensor<i32>) -> tensor<1xi32>
    %6 = stablehlo.concatenate %5, %length, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %7 = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %init, %6, %ones, %ones, %ones, %4) {called_computations = [@plus]} : (tensor<?x4xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2x2xi32>) -> tensor<?x4xf32>
    return %7 : tensor<?x4xf32>
  }
  func.func private @plus(%a: tensor<f32>, %c: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.add %a, %c : tensor<f32>
    return %0 : tensor<f32>
  }
}
// CHECK: f32[8,4] reduce-window({{.*}}), window={size=8x1 pad=7_0x0_0}
// CHECK: f32[8,4] iota(), iota_dimension=0

// -----
// A size that a loop's body captures stays known, also by what it calls.
// RUN: gshard-opt print %s --dim x:0=8
module @loop {
  func.func public @main(%x: tensor<?xf32>) -> tensor<?xf32> {
    %b = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %n = stablehlo.constant dense<5> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<?xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %1 = func.call @ramp(%b) : (tensor<i32>) -> tensor<?xf32>
      %2 = stablehlo.add %y, %1 : tensor<?xf32>
      %3 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %3, %2 : tensor<i32>, tensor<?xf32>
    }
    return %0#1 : tensor<?xf32>
  }
  func.func private @ramp(%b: tensor<i32> {jax.global_constant = "b"}) -> tensor<?xf32> {
    %0 = stablehlo.reshape %b : (tensor<i32>) -> tensor<1xi32>
    %1 = stablehlo.dynamic_iota %0, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
    return %1 : tensor<?xf32>
  }
}
// CHECK: f32[8] iota(), iota_dimension=0
// CHECK: = (s32[], f32[8], s32[]) while(
// -----
// RUN: gshard-opt print %s --dim b=4 --dim arg2:0=6
// Only the first argument's sizes are measured; what the message says of the others follows from the variables, of which one is
// given by a place that it stands at.
// CHECK: ENTRY %main (arg0: f32[4,3], arg1: f32[2], arg2: f32[6,9]) -> f32[4,3]
func.func public @main(%arg0: tensor<?x3xf32>, %arg1: tensor<2xf32>, %arg2: tensor<?x?xf32>) -> tensor<?x3xf32> {
  %c = stablehlo.constant dense<1> : tensor<i32>
  %0 = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
  %1 = stablehlo.compare GE, %0, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.custom_call @shape_assertion(%1, %0) {error_message = "Using the following polymorphic shapes specifications: args[0].shape = (b, 3),args[2].shape = (s, 2*b + 1). Obtained dimension variables: 'b' = {0}."} : (tensor<i1>, tensor<i32>) -> ()
  return %arg0 : tensor<?x3xf32>
}
// -----
// RUN: gshard-opt print %s --dim b=4 2>&1
// EXIT: 1
// CHECK: error: dim 1 of '%arg1' has no size
// CHECK: hint: give it one: --dim s=16
func.func public @main(%arg0: tensor<?xf32>, %arg1: tensor<?x?xf32>) -> tensor<?xf32> {
  %c = stablehlo.constant dense<true> : tensor<i1>
  stablehlo.custom_call @shape_assertion(%c) {error_message = "Using the following polymorphic shapes specifications: args[0].shape = (b,),args[1].shape = (b, b + s). Obtained dimension variables: ."} : (tensor<i1>) -> ()
  return %arg0 : tensor<?xf32>
}
// -----
// RUN: gshard-opt print %s --dim x:0=6
// A slice that starts where the program computes, of sizes that are known, is a dynamic-slice.
// CHECK: ROOT %real_dynamic_slice.{{[0-9]+}} = f32[1,8] dynamic-slice(%x, %{{\S+}}, %{{\S+}}), dynamic_slice_sizes={1,8}
func.func @main(%x: tensor<?x8xf32>, %i: tensor<i32>) -> tensor<1x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<1xi32>
  %sizes = stablehlo.constant dense<[1, 8]> : tensor<2xi32>
  %ones = stablehlo.constant dense<1> : tensor<2xi32>
  %0 = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32>
  %1 = stablehlo.concatenate %0, %zero, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %2 = stablehlo.add %1, %sizes : tensor<2xi32>
  %3 = stablehlo.real_dynamic_slice %x, %1, %2, %ones : (tensor<?x8xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<1x8xf32>
  return %3 : tensor<1x8xf32>
}
// -----
// RUN: gshard-opt print %s --dim x:0=6
// Other limits of a computed start are not known, nor are they in steps.
func.func @main(%x: tensor<?xf32>, %i: tensor<1xi32>) -> tensor<1xf32> {
  %one = stablehlo.constant dense<1> : tensor<1xi32>
  %two = stablehlo.constant dense<2> : tensor<1xi32>
  %0 = stablehlo.add %i, %two : tensor<1xi32>
  // EXPECT-ERROR@+1: the shape of this stablehlo.real_dynamic_slice depends on '%i', which is not known before the program runs
  %1 = stablehlo.real_dynamic_slice %x, %i, %0, %two : (tensor<?xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1xf32>
  return %1 : tensor<1xf32>
}
