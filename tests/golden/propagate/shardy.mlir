// RUN: gshard-opt propagate %s
// A sharding only grows at its minor end: where two operands differ, the first of equal size leads.
// CHECK: ROOT %add.0 = {{.*}}sharding={mesh['a'=2,'b'=4], [{'a'}, {'b'}]}
module @both attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["a"=2, "b"=4]>
  func.func public @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {?}]>}, %y: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"b"}]>}) -> tensor<8x16xf32> {
    %0 = stablehlo.add %x, %y : tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  }
}
// -----
// RUN: gshard-opt propagate %s
// CHECK: ROOT %add.0 = {{.*}}sharding={mesh['a'=2,'b'=4], [{'a'}, {}]}
module @conflict attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["a"=2, "b"=4]>
  func.func public @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>}, %y: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"a"}]>}) -> tensor<8x16xf32> {
    %0 = stablehlo.add %x, %y : tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  }
}
// -----
// RUN: gshard-opt propagate %s
// The user's priority p0 comes before p1.
// CHECK: ROOT %add.0 = {{.*}}sharding={mesh['a'=2,'b'=4], [{}, {'a'}]}
module @priorities attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["a"=2, "b"=4]>
  func.func public @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}p1, {}]>}, %y: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"a"}p0]>}) -> tensor<8x16xf32> {
    %0 = stablehlo.add %x, %y : tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  }
}
// -----
// RUN: gshard-opt propagate %s
// A reshape splits an axis between two dims; the program's result has no parts of axes.
// CHECK: %reshape.0 = f32[2,4] reshape(%x), sharding={mesh['a'=2,'b'=4], [{'b':(1)2}, {'b':(2)2}]}
// CHECK-NEXT: ROOT %result = f32[2,4] copy(%reshape.0), sharding={replicated}
module @sub_axes attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["a"=2, "b"=4]>
  func.func public @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"b"}]>}) -> tensor<2x4xf32> {
    %0 = stablehlo.reshape %x : (tensor<8xf32>) -> tensor<2x4xf32>
    return %0 : tensor<2x4xf32>
  }
}
// -----
// RUN: gshard-opt propagate %s
// Batch dims of a transform pass, and its result is not replicated for being free; the transformed dim does not pass.
// CHECK: ROOT %fft.0 = c64[8,9] fft(%x), {{.*}}sharding={mesh['a'=2,'b'=4], [{'b'}, {}]}
module @transform attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["a"=2, "b"=4]>
  func.func public @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"b"}, {"a"}]>}) -> tensor<8x9xcomplex<f32>> {
    %0 = stablehlo.fft %x, type = RFFT, length = [16] : (tensor<8x16xf32>) -> tensor<8x9xcomplex<f32>>
    return %0 : tensor<8x9xcomplex<f32>>
  }
}
// -----
// RUN: gshard-opt propagate %s
// The borders of a region of the axis a are open: the region's inside and outside agree on b.
// CHECK: %dot_general.{{.*}} sharding={mesh['a'=2,'b'=4], [{}, {'b'}], manual={'a'}}
// CHECK: ROOT {{.*}}sharding={mesh['a'=2,'b'=4], [{'a'}, {'b'}]}
module @border attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["a"=2, "b"=4]>
  func.func public @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>}, %w: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"b"}]>}) -> tensor<8x32xf32> {
    %0 = sdy.manual_computation(%x, %w) in_shardings=[<@mesh, [{"a", ?}, {?}]>, <@mesh, [{?}, {?}]>] out_shardings=[<@mesh, [{"a", ?}, {?}]>] manual_axes={"a"} (%p: tensor<4x16xf32>, %q: tensor<16x32xf32>) {
      %1 = stablehlo.dot_general %p, %q, contracting_dims = [1] x [0] : (tensor<4x16xf32>, tensor<16x32xf32>) -> tensor<4x32xf32>
      sdy.return %1 : tensor<4x32xf32>
    } : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    return %0 : tensor<8x32xf32>
  }
}
// -----
// RUN: gshard-opt propagate %s --propagation=gspmd
// The same text by GSPMD's rules: a transform takes no sharding.
// CHECK: ROOT %fft.0 = c64[8,9] fft(%x)
// CHECK-NOT: fft({{.*}}'b'
module @gspmd attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["a"=2, "b"=4]>
  func.func public @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"b"}, {"a"}]>}) -> tensor<8x9xcomplex<f32>> {
    %0 = stablehlo.fft %x, type = RFFT, length = [16] : (tensor<8x16xf32>) -> tensor<8x9xcomplex<f32>>
    return %0 : tensor<8x9xcomplex<f32>>
  }
}
// -----
// RUN: gshard-opt explain %s dot_general.0
// CHECK: dot_general.0 = [a, b]: from operand 'w' through dot, factor j of ([i, k], [k, j])->([i, j]), P2
module @why attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["a"=2, "b"=4]>
  func.func public @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>}, %w: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"b"}]>}) -> tensor<8x32xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    return %0 : tensor<8x32xf32>
  }
}
// -----
// RUN: gshard-run %s --verify
// An automatic axis cuts the border behind the manual one: the reference cuts it by the manual axis alone.
// CHECK: verify        ok
module @both_at_a_border attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["a"=2, "b"=4]>
  func.func public @main(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>}) -> tensor<16x8xf32> {
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"a", ?}, {?}]>] out_shardings=[<@mesh, [{"a", ?}, {?}]>] manual_axes={"a"} (%p: tensor<8x8xf32>) {
      %1 = stablehlo.tanh %p : tensor<8x8xf32>
      %2 = sdy.sharding_constraint %1 <@mesh, [{"b"}, {}]> : tensor<8x8xf32>
      sdy.return %2 : tensor<8x8xf32>
    } : (tensor<16x8xf32>) -> tensor<16x8xf32>
    return %0 : tensor<16x8xf32>
  }
}
