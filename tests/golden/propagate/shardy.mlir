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
// -----
// RUN: gshard-opt propagate %s
// Operands of one size: in a dot the first one's axes lead, though the second is cut finer.
// CHECK: ROOT %dot_general.0 = {{.*}}sharding={mesh['a'=2,'b'=4], [{'b'}, {}, {'a'}]}
module @first_operand attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["a"=2, "b"=4]>
  func.func public @main(%q: tensor<4x8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"b"}, {}, {}]>}, %k: tensor<4x8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"a", "b"}, {}]>}) -> tensor<4x8x8xf32> {
    %0 = stablehlo.dot_general %q, %k, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<4x8x16xf32>, tensor<4x8x16xf32>) -> tensor<4x8x8xf32>
    return %0 : tensor<4x8x8xf32>
  }
}
// -----
// RUN: gshard-opt propagate %s
// An addition takes what is cut finer, of either operand.
// CHECK: ROOT %add.0 = {{.*}}sharding={mesh['a'=2,'b'=4], [{}, {'a', 'b'}]}
module @finer attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["a"=2, "b"=4]>
  func.func public @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"b"}, {}]>}, %y: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"a", "b"}]>}) -> tensor<8x16xf32> {
    %0 = stablehlo.add %x, %y : tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  }
}
// -----
// RUN: gshard-opt propagate %s
// The gradient of a kernel: its window is the whole image, whose rows are summed.
// CHECK: %dy = f32[8,16,16,16] parameter(1), sharding={mesh['a'=2,'b'=4], [{'b'}, {'a'}, {}, {}]}
module @kernel_gradient attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["a"=2, "b"=4]>
  func.func public @main(%x: tensor<8x16x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"b"}, {"a"}, {}, {}]>}, %dy: tensor<8x16x16x16xf32>) -> tensor<3x3x8x16xf32> {
    %0 = stablehlo.convolution(%x, %dy) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x16x16x8xf32>, tensor<8x16x16x16xf32>) -> tensor<3x3x8x16xf32>
    return %0 : tensor<3x3x8x16xf32>
  }
}
// -----
// RUN: gshard-opt propagate %s
// One branch's value is on one device, as a callback to the host has it: nothing passes between the branches.
// CHECK: ROOT %case.0 = f32[8] conditional({{.*}}branch_computations={%branch_0, %branch_1}{{$}}
module @callback attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["a"=2, "b"=4]>
  sdy.mesh @one = <[], device_ids=[0]>
  func.func public @main(%i: tensor<i32>, %x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"b"}]>}) -> tensor<8xf32> {
    %0 = "stablehlo.case"(%i) ({
      stablehlo.return %x : tensor<8xf32>
    }, {
      %1 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%i) {sdy.sharding = #sdy.sharding_per_value<[<@one, [{?}]>]>} : (tensor<i32>) -> tensor<8xf32>
      stablehlo.return %1 : tensor<8xf32>
    }) : (tensor<i32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
// -----
// RUN: gshard-opt propagate %s
// Members of a group take what continues their own axes; what contradicts these stays, and nobody takes turns.
// CHECK-DAG: %x = {{.*}} sharding={mesh['a'=2,'b'=4], [{'a'}, {}]}
// CHECK-DAG: %tanh.0 = {{.*}} sharding={mesh['a'=2,'b'=4], [{'b'}, {}]}
module @taking_turns attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["a"=2, "b"=4]>
  func.func public @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a", ?}, {?}]>}, %y: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"b", ?}, {?}]>}) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
    sdy.sharding_group %x group_id=0 : tensor<8x8xf32>
    sdy.sharding_group %y group_id=0 : tensor<8x8xf32>
    %0 = stablehlo.tanh %x : tensor<8x8xf32>
    %1 = stablehlo.negate %y : tensor<8x8xf32>
    sdy.sharding_group %0 group_id=0 : tensor<8x8xf32>
    return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}
// -----
// RUN: gshard-opt propagate %s
// One visit gives "a" to %x (its batch dim 3) and to the product (batch dim 0), which are to be alike: the product leads,
// being the last one written.
// CHECK-DAG: %x = {{.*}} sharding={mesh['a'=2], [{'a'}, {}, {}, {}]}
// CHECK-DAG: ROOT %dot_general.0 = {{.*}} sharding={mesh['a'=2], [{'a'}, {}, {}, {}]}
module @grouped_operand_and_result attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["a"=2]>
  func.func public @main(%x: tensor<12x1x1x12xf32>, %y: tensor<12x12x12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}, {}]>}) -> tensor<12x1x1x12xf32> {
    sdy.sharding_group %x group_id=0 : tensor<12x1x1x12xf32>
    %0 = stablehlo.dot_general %x, %y, batching_dims = [3] x [0], contracting_dims = [0] x [1] : (tensor<12x1x1x12xf32>, tensor<12x12x12xf32>) -> tensor<12x1x1x12xf32>
    sdy.sharding_group %0 group_id=0 : tensor<12x1x1x12xf32>
    return %0 : tensor<12x1x1x12xf32>
  }
}
// -----
// RUN: gshard-opt propagate %s
// Of two operands that are to be alike the second one leads.
// CHECK-DAG: %x = {{.*}} sharding={mesh['a'=2], [{}, {'a'}, {}]}
// CHECK-DAG: %y = {{.*}} sharding={mesh['a'=2], [{}, {'a'}, {}]}
module @grouped_operands attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["a"=2]>
  func.func public @main(%x: tensor<12x12x12xf32>, %y: tensor<12x12x12xf32>) -> (tensor<12x12x12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}, {}]>}) {
    sdy.sharding_group %x group_id=0 : tensor<12x12x12xf32>
    sdy.sharding_group %y group_id=0 : tensor<12x12x12xf32>
    %0 = stablehlo.dot_general %x, %y, batching_dims = [0] x [1], contracting_dims = [2] x [0] : (tensor<12x12x12xf32>, tensor<12x12x12xf32>) -> tensor<12x12x12xf32>
    return %0 : tensor<12x12x12xf32>
  }
}
// -----
// RUN: gshard-opt propagate %s
// Rows of a ragged-dot are where those of the left operand are, as in XLA; jaxlib's passes alone have no rule for it.
// CHECK: ROOT %ragged_dot.0 = {{.*}}sharding={mesh['a'=2,'b'=2,'c'=2], [{'a'}, {'c'}]}
module @ragged_rows attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["a"=2, "b"=2, "c"=2]>
  func.func public @main(%x: tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {"b"}]>}, %w: tensor<8x16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"b"}, {"c"}]>}, %sizes: tensor<8xi32>) -> tensor<64x32xf32> {
    %0 = "chlo.ragged_dot"(%x, %w, %sizes) <{precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<64x16xf32>, tensor<8x16x32xf32>, tensor<8xi32>) -> tensor<64x32xf32>
    return %0 : tensor<64x32xf32>
  }
}
// -----
// RUN: gshard-opt propagate %s
// Its gradient's groups are where their sizes are.
// CHECK: ROOT %ragged_dot.0 = {{.*}}sharding={mesh['a'=2,'b'=2], [{'b'}, {}, {}]}
module @ragged_sizes attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["a"=2, "b"=2]>
  func.func public @main(%x: tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>}, %y: tensor<64x32xf32>, %sizes: tensor<8xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"b"}]>}) -> tensor<8x16x32xf32> {
    %0 = "chlo.ragged_dot"(%x, %y, %sizes) <{precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0], lhs_ragged_dimensions = [0]>}> : (tensor<64x16xf32>, tensor<64x32xf32>, tensor<8xi32>) -> tensor<8x16x32xf32>
    return %0 : tensor<8x16x32xf32>
  }
}
// -----
// RUN: gshard-opt propagate %s
// An empty open dim with a priority takes axes when its turn comes, though nobody gives any then. XLA cuts all three so.
// CHECK-DAG: %x = {{.*}} sharding={mesh['a'=2,'b'=4], [{'b'}, {}]}
// CHECK-DAG: %y = {{.*}} sharding={mesh['a'=2,'b'=4], [{'b'}, {}]}
// CHECK-DAG: ROOT %add.{{.}} = {{.*}} sharding={mesh['a'=2,'b'=4], [{'b'}, {}]}
module @empty_with_priority attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["a"=2, "b"=4]>
  func.func public @main(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}p4, {?}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"b"}p2, {?}]>}) -> (tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}p9, {?}]>}) {
    %0 = stablehlo.add %x, %y : tensor<16x8xf32>
    return %0 : tensor<16x8xf32>
  }
}
