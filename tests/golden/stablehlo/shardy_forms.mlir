// RUN: gshard-opt print %s
//
// Shardy's operations as XLA's dumps have them before and after its passes: names of attributes may be written or not.
module @forms attributes {mhlo.num_partitions = 4 : i32} {
  // CHECK: HloModule forms, {{.*}}xla.sdy.meshes={mesh = #sdy.mesh<["a"=2, "b"=2]>}
  sdy.mesh @mesh = #sdy.mesh<["a"=2, "b"=2]>
  func.func @main(%x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>}) -> tensor<8x4xf32> {
    // CHECK: ENTRY
    // CHECK: %c.1 = f32[8,4] broadcast(%c), dimensions={}
    %c = sdy.constant dense< 2.0> : tensor<8x4xf32>
    // CHECK: sharding={mesh['a'=2,'b'=2], [{'a'}, {}]}, frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{\"a\"}, {}]>]>"}
    %0 = stablehlo.add %x, %c {sdy.sharding = #sdy.sharding_per_value<[#sdy.sharding<@mesh, [{"a"}, {}]>]>} : tensor<8x4xf32>
    // CHECK: sharding={mesh['a'=2,'b'=2], [{}, {}], unreduced=max{'b'}}
    %1 = stablehlo.tanh %0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}], unreduced=max{"b"}>]>} : tensor<8x4xf32>
    // CHECK: %all_reduce.2 = f32[8,4] custom-call(%tanh.1), custom_call_target="Sharding", sharding={mesh['a'=2,'b'=2], [{'a'}, {}]}
    %2 = sdy.all_reduce {"b"} %1 out_sharding=<@mesh, [{"a"}, {}]> : tensor<8x4xf32>
    // CHECK: %all_slice.3 = {{.*}} sharding={mesh['a'=2,'b'=2], [{'a'}, {'b'}]}
    %3 = sdy.all_slice [{}, {"b"}] %2 out_sharding=<@mesh, [{"a"}, {"b"}]> : tensor<8x4xf32>
    // CHECK: %all_to_all.4 = {{.*}} sharding={mesh['a'=2,'b'=2], [{'a', 'b'}, {}]}
    %4 = sdy.all_to_all [{"b"}: 1->0] %3 out_sharding=<@mesh, [{"a", "b"}, {}]> : tensor<8x4xf32>
    // CHECK: %collective_permute.5 = {{.*}} sharding={mesh['a'=2,'b'=2], [{'b', 'a'}, {}]}
    %5 = sdy.collective_permute %4 out_sharding=<@mesh, [{"b", "a"}, {}]> : tensor<8x4xf32>
    // CHECK: %all_gather.6 = {{.*}} sharding={mesh['a'=2,'b'=2], [{'b'}, {}]}
    %6 = sdy.all_gather [{"a"}, {}] %5 out_sharding=<@mesh, [{"b"}, {}]> : tensor<8x4xf32>
    // CHECK: %replicated_to_unreduced.7 = {{.*}} sharding={mesh['a'=2,'b'=2], [{'b'}, {}], unreduced={'a'}}
    %7 = sdy.replicated_to_unreduced {"a"} %6 out_sharding=<@mesh, [{"b"}, {}], unreduced={"a"}> : tensor<8x4xf32>
    // CHECK: %reduce_scatter.8 = {{.*}} sharding={mesh['a'=2,'b'=2], [{'b'}, {'a'}]}
    %8 = sdy.reduce_scatter [{}, {"a"}] %7 out_sharding=<@mesh, [{"b"}, {"a"}]> : tensor<8x4xf32>
    // CHECK: %sharded_to_unreduced.9 = {{.*}} unreduced={'a'}}
    %9 = sdy.sharded_to_unreduced [{}, {"a"}] %8 out_sharding=<@mesh, [{"b"}, {}], unreduced={"a"}> : tensor<8x4xf32>
    // CHECK: %data_flow_edge.10 = {{.*}} sharding={mesh['a'=2,'b'=2], [{'a'}, {}]}
    %10 = sdy.data_flow_edge %9 sharding=<@mesh, [{"a"}, {?}]> : tensor<8x4xf32>
    %11 = sdy.data_flow_edge %10 : tensor<8x4xf32>
    // CHECK: ROOT %copy.12 = f32[8,4] copy(%data_flow_edge.10), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
    %12 = mhlo.copy %11 {mhlo.sharding = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"} : tensor<8x4xf32>
    return %12 : tensor<8x4xf32>
  }
}
// -----
// Attributes behind the region of a manual computation; shardings as bytes of the proto.
// RUN: gshard-opt print %s
module attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["a"=2]>
  func.func @main(%x: tensor<8x4xf32>, %y: tensor<16x16xf32>) -> (tensor<8x4xf32>, tensor<16x16xf32>) {
    // CHECK: custom_call_target="xla.sdy.LocalToGlobalShape", {{.*}}k="v",
    %0 = sdy.manual_computation(%x) in_shardings=[#sdy.sharding<@mesh, [{"a"}, {}]>] out_shardings=[<@mesh, [{"a"}, {}]>] manual_axes={"a"} (%a: tensor<4x4xf32>) {
      %1 = stablehlo.tanh %a : tensor<4x4xf32>
      sdy.return %1 : tensor<4x4xf32>
    } {mhlo.frontend_attributes = {k = "v"}} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    // CHECK: custom_call_target="Sharding", sharding={devices=[2,1]0,1}
    %2 = stablehlo.custom_call @Sharding(%y) {mhlo.sharding = "\08\03\1A\02\02\01\22\02\00\01"} : (tensor<16x16xf32>) -> tensor<16x16xf32>
    return %0, %2 : tensor<8x4xf32>, tensor<16x16xf32>
  }
}
// -----
// What is written reads back, open dims, reductions and all.
// RUN: gshard-opt print %s --format stablehlo | gshard-opt print - --format stablehlo
module @again attributes {mhlo.num_partitions = 4 : i32} {
  // CHECK: sdy.mesh @mesh = <["a"=2, "b"=2]>
  sdy.mesh @mesh = #sdy.mesh<["a"=2, "b"=2]>
  func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
    // CHECK: stablehlo.tanh %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"a"}, {}], unreduced=max{"b"}>]>}
    %0 = stablehlo.tanh %x {sdy.sharding = #sdy.sharding_per_value<[#sdy.sharding<@mesh, [{"a"}, {}], unreduced=max{"b"}>]>} : tensor<8x4xf32>
    // CHECK: sdy.sharding_constraint %0 <@mesh, [{"a"}, {?}]>
    %1 = sdy.all_reduce {"b"} %0 out_sharding=<@mesh, [{"a"}, {?}]> : tensor<8x4xf32>
    return %1 : tensor<8x4xf32>
  }
}
// -----
// RUN: gshard-run %s --verify
//
// Collectives of Shardy from tiles to sums of partial values and back.
// CHECK: ok
module @collectives attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%a: tensor<16x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}, %b: tensor<24x40xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) -> tensor<16x40xf32> {
    %0 = sdy.all_slice [{}, {"x"}] %a out_sharding=<@mesh, [{"y"}, {"x"}]> : tensor<16x24xf32>
    %1 = sdy.all_slice [{"x"}, {}] %b out_sharding=<@mesh, [{"x"}, {}]> : tensor<24x40xf32>
    %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}, {}], unreduced={"x"}>]>} : (tensor<16x24xf32>, tensor<24x40xf32>) -> tensor<16x40xf32>
    %3 = sdy.all_reduce {"x"} %2 out_sharding=<@mesh, [{"y"}, {}]> : tensor<16x40xf32>
    %4 = sdy.all_to_all [{"y"}: 0->1] %3 out_sharding=<@mesh, [{}, {"y"}]> : tensor<16x40xf32>
    return %4 : tensor<16x40xf32>
  }
}
// -----
// Dumps of Shardy's passes: a loop with a sharding for each of its values, and a region that captures another value, which keeps
// the sharding that it has outside.
// RUN: gshard-opt print %s
// RUN: gshard-run %s --verify
sdy.mesh @mesh = <["data"=2, "model"=2]>
func.func public @main(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> tensor<8x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %end = stablehlo.constant dense<3> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %t = stablehlo.transpose %w, dims = [1, 0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"model"}]>]>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %out:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<8x4xf32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{"data"}, {}]>]>}
   cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %z = stablehlo.dot_general %y, %t, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %z : tensor<i32>, tensor<8x4xf32>
  }
  return %out#1 : tensor<8x4xf32>
}
// CHECK: while({{.*}} replicated}, {mesh['data'=2,'model'=2], [{'data'}, {}]}, {mesh['data'=2,'model'=2], [{}, {'model'}]}
// CHECK: verify        ok
