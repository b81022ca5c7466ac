module @jit_step attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x16x16xf32> {mhlo.layout_mode = "default", mhlo.sharding = "{devices=[1,1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, %arg1: tensor<8x16xf32> {mhlo.layout_mode = "default", mhlo.sharding = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"}) -> (tensor<3x16x16xf32> {jax.result_info = "", mhlo.layout_mode = "default"}) {
    %0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<3x8x16xf32>
    %2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<f32>) -> tensor<3x8x16xf32>
    %4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<f32>) -> tensor<3x8x16xf32>
    %6 = stablehlo.constant dense<0> : tensor<i32>
    %7:6 = stablehlo.while(%iterArg = %arg0, %iterArg_0 = %6, %iterArg_1 = %arg1, %iterArg_2 = %1, %iterArg_3 = %3, %iterArg_4 = %5) : tensor<3x16x16xf32>, tensor<i32>, tensor<8x16xf32>, tensor<3x8x16xf32>, tensor<3x8x16xf32>, tensor<3x8x16xf32>
     cond {
      %25 = stablehlo.constant dense<3> : tensor<i32>
      %26 = stablehlo.compare  LT, %iterArg_0, %25,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %26 : tensor<i1>
    } do {
      %25 = stablehlo.constant dense<0> : tensor<i32>
      %26 = stablehlo.compare  LT, %iterArg_0, %25,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %27 = stablehlo.convert %iterArg_0 : tensor<i32>
      %28 = stablehlo.constant dense<3> : tensor<i32>
      %29 = stablehlo.add %27, %28 : tensor<i32>
      %30 = stablehlo.select %26, %29, %iterArg_0 : tensor<i1>, tensor<i32>
      %31 = stablehlo.constant dense<0> : tensor<i32>
      %32 = stablehlo.constant dense<0> : tensor<i32>
      %33 = stablehlo.dynamic_slice %iterArg, %30, %31, %32, sizes = [1, 16, 16] : (tensor<3x16x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x16xf32>
      %34 = stablehlo.reshape %33 : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
      %35 = stablehlo.dot_general %iterArg_1, %34, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
      %36 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
      %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
      %38 = stablehlo.multiply %37, %35 : tensor<8x16xf32>
      %39 = stablehlo.tanh %38 : tensor<8x16xf32>
      %40 = stablehlo.custom_call @Sharding(%39) {mhlo.sharding = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"} : (tensor<8x16xf32>) -> tensor<8x16xf32>
      %41 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %42 = stablehlo.broadcast_in_dim %41, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
      %43 = stablehlo.subtract %42, %39 : tensor<8x16xf32>
      %44 = stablehlo.broadcast_in_dim %iterArg_1, dims = [1, 2] : (tensor<8x16xf32>) -> tensor<1x8x16xf32>
      %45 = stablehlo.constant dense<0> : tensor<i32>
      %46 = stablehlo.compare  LT, %iterArg_0, %45,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %47 = stablehlo.convert %iterArg_0 : tensor<i32>
      %48 = stablehlo.constant dense<3> : tensor<i32>
      %49 = stablehlo.add %47, %48 : tensor<i32>
      %50 = stablehlo.select %46, %49, %iterArg_0 : tensor<i1>, tensor<i32>
      %51 = stablehlo.constant dense<0> : tensor<i32>
      %52 = stablehlo.constant dense<0> : tensor<i32>
      %53 = stablehlo.dynamic_update_slice %iterArg_2, %44, %50, %51, %52 : (tensor<3x8x16xf32>, tensor<1x8x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x8x16xf32>
      %54 = stablehlo.broadcast_in_dim %39, dims = [1, 2] : (tensor<8x16xf32>) -> tensor<1x8x16xf32>
      %55 = stablehlo.constant dense<0> : tensor<i32>
      %56 = stablehlo.compare  LT, %iterArg_0, %55,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %57 = stablehlo.convert %iterArg_0 : tensor<i32>
      %58 = stablehlo.constant dense<3> : tensor<i32>
      %59 = stablehlo.add %57, %58 : tensor<i32>
      %60 = stablehlo.select %56, %59, %iterArg_0 : tensor<i1>, tensor<i32>
      %61 = stablehlo.constant dense<0> : tensor<i32>
      %62 = stablehlo.constant dense<0> : tensor<i32>
      %63 = stablehlo.dynamic_update_slice %iterArg_3, %54, %60, %61, %62 : (tensor<3x8x16xf32>, tensor<1x8x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x8x16xf32>
      %64 = stablehlo.broadcast_in_dim %43, dims = [1, 2] : (tensor<8x16xf32>) -> tensor<1x8x16xf32>
      %65 = stablehlo.constant dense<0> : tensor<i32>
      %66 = stablehlo.compare  LT, %iterArg_0, %65,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %67 = stablehlo.convert %iterArg_0 : tensor<i32>
      %68 = stablehlo.constant dense<3> : tensor<i32>
      %69 = stablehlo.add %67, %68 : tensor<i32>
      %70 = stablehlo.select %66, %69, %iterArg_0 : tensor<i1>, tensor<i32>
      %71 = stablehlo.constant dense<0> : tensor<i32>
      %72 = stablehlo.constant dense<0> : tensor<i32>
      %73 = stablehlo.dynamic_update_slice %iterArg_4, %64, %70, %71, %72 : (tensor<3x8x16xf32>, tensor<1x8x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x8x16xf32>
      %74 = stablehlo.constant dense<1> : tensor<i32>
      %75 = stablehlo.add %iterArg_0, %74 : tensor<i32>
      stablehlo.return %iterArg, %75, %40, %53, %63, %73 : tensor<3x16x16xf32>, tensor<i32>, tensor<8x16xf32>, tensor<3x8x16xf32>, tensor<3x8x16xf32>, tensor<3x8x16xf32>
    }
    %8 = call @integer_pow(%7#2) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %9 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
    %11 = stablehlo.multiply %10, %8 : tensor<8x16xf32>
    %12 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %13 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %14 = stablehlo.divide %12, %13 : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
    %16 = stablehlo.multiply %15, %11 : tensor<8x16xf32>
    %17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [] : (tensor<f32>) -> tensor<3x16x16xf32>
    %19 = stablehlo.constant dense<0> : tensor<i32>
    %20:7 = stablehlo.while(%iterArg = %arg0, %iterArg_0 = %7#3, %iterArg_1 = %7#4, %iterArg_2 = %7#5, %iterArg_3 = %19, %iterArg_4 = %16, %iterArg_5 = %18) : tensor<3x16x16xf32>, tensor<3x8x16xf32>, tensor<3x8x16xf32>, tensor<3x8x16xf32>, tensor<i32>, tensor<8x16xf32>, tensor<3x16x16xf32>
     cond {
      %25 = stablehlo.constant dense<3> : tensor<i32>
      %26 = stablehlo.compare  LT, %iterArg_3, %25,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %26 : tensor<i1>
    } do {
      %25 = stablehlo.constant dense<3> : tensor<i32>
      %26 = stablehlo.subtract %25, %iterArg_3 : tensor<i32>
      %27 = stablehlo.constant dense<1> : tensor<i32>
      %28 = stablehlo.subtract %26, %27 : tensor<i32>
      %29 = stablehlo.constant dense<0> : tensor<i32>
      %30 = stablehlo.compare  LT, %28, %29,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %31 = stablehlo.convert %28 : tensor<i32>
      %32 = stablehlo.constant dense<3> : tensor<i32>
      %33 = stablehlo.add %31, %32 : tensor<i32>
      %34 = stablehlo.select %30, %33, %28 : tensor<i1>, tensor<i32>
      %35 = stablehlo.constant dense<0> : tensor<i32>
      %36 = stablehlo.constant dense<0> : tensor<i32>
      %37 = stablehlo.dynamic_slice %iterArg, %34, %35, %36, sizes = [1, 16, 16] : (tensor<3x16x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x16xf32>
      %38 = stablehlo.reshape %37 : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
      %39 = stablehlo.constant dense<0> : tensor<i32>
      %40 = stablehlo.compare  LT, %28, %39,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %41 = stablehlo.convert %28 : tensor<i32>
      %42 = stablehlo.constant dense<3> : tensor<i32>
      %43 = stablehlo.add %41, %42 : tensor<i32>
      %44 = stablehlo.select %40, %43, %28 : tensor<i1>, tensor<i32>
      %45 = stablehlo.constant dense<0> : tensor<i32>
      %46 = stablehlo.constant dense<0> : tensor<i32>
      %47 = stablehlo.dynamic_slice %iterArg_0, %44, %45, %46, sizes = [1, 8, 16] : (tensor<3x8x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x16xf32>
      %48 = stablehlo.reshape %47 : (tensor<1x8x16xf32>) -> tensor<8x16xf32>
      %49 = stablehlo.constant dense<0> : tensor<i32>
      %50 = stablehlo.compare  LT, %28, %49,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %51 = stablehlo.convert %28 : tensor<i32>
      %52 = stablehlo.constant dense<3> : tensor<i32>
      %53 = stablehlo.add %51, %52 : tensor<i32>
      %54 = stablehlo.select %50, %53, %28 : tensor<i1>, tensor<i32>
      %55 = stablehlo.constant dense<0> : tensor<i32>
      %56 = stablehlo.constant dense<0> : tensor<i32>
      %57 = stablehlo.dynamic_slice %iterArg_1, %54, %55, %56, sizes = [1, 8, 16] : (tensor<3x8x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x16xf32>
      %58 = stablehlo.reshape %57 : (tensor<1x8x16xf32>) -> tensor<8x16xf32>
      %59 = stablehlo.constant dense<0> : tensor<i32>
      %60 = stablehlo.compare  LT, %28, %59,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %61 = stablehlo.convert %28 : tensor<i32>
      %62 = stablehlo.constant dense<3> : tensor<i32>
      %63 = stablehlo.add %61, %62 : tensor<i32>
      %64 = stablehlo.select %60, %63, %28 : tensor<i1>, tensor<i32>
      %65 = stablehlo.constant dense<0> : tensor<i32>
      %66 = stablehlo.constant dense<0> : tensor<i32>
      %67 = stablehlo.dynamic_slice %iterArg_2, %64, %65, %66, sizes = [1, 8, 16] : (tensor<3x8x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x16xf32>
      %68 = stablehlo.reshape %67 : (tensor<1x8x16xf32>) -> tensor<8x16xf32>
      %69 = stablehlo.custom_call @Sharding(%iterArg_4) {mhlo.sharding = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"} : (tensor<8x16xf32>) -> tensor<8x16xf32>
      %70 = stablehlo.multiply %69, %68 : tensor<8x16xf32>
      %71 = stablehlo.multiply %70, %58 : tensor<8x16xf32>
      %72 = stablehlo.add %70, %71 : tensor<8x16xf32>
      %73 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
      %74 = stablehlo.broadcast_in_dim %73, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
      %75 = stablehlo.multiply %74, %72 : tensor<8x16xf32>
      %76 = stablehlo.dot_general %75, %48, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
      %77 = stablehlo.transpose %76, dims = [1, 0] : (tensor<16x16xf32>) -> tensor<16x16xf32>
      %78 = stablehlo.dot_general %75, %38, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
      %79 = stablehlo.broadcast_in_dim %77, dims = [1, 2] : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
      %80 = stablehlo.constant dense<0> : tensor<i32>
      %81 = stablehlo.compare  LT, %28, %80,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %82 = stablehlo.convert %28 : tensor<i32>
      %83 = stablehlo.constant dense<3> : tensor<i32>
      %84 = stablehlo.add %82, %83 : tensor<i32>
      %85 = stablehlo.select %81, %84, %28 : tensor<i1>, tensor<i32>
      %86 = stablehlo.constant dense<0> : tensor<i32>
      %87 = stablehlo.constant dense<0> : tensor<i32>
      %88 = stablehlo.dynamic_update_slice %iterArg_5, %79, %85, %86, %87 : (tensor<3x16x16xf32>, tensor<1x16x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x16x16xf32>
      %89 = stablehlo.constant dense<1> : tensor<i32>
      %90 = stablehlo.add %iterArg_3, %89 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_0, %iterArg_1, %iterArg_2, %90, %78, %88 : tensor<3x16x16xf32>, tensor<3x8x16xf32>, tensor<3x8x16xf32>, tensor<3x8x16xf32>, tensor<i32>, tensor<8x16xf32>, tensor<3x16x16xf32>
    }
    %21 = stablehlo.constant dense<2.500000e+00> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [] : (tensor<f32>) -> tensor<3x16x16xf32>
    %23 = stablehlo.multiply %22, %20#6 : tensor<3x16x16xf32>
    %24 = stablehlo.subtract %arg0, %23 : tensor<3x16x16xf32>
    return %24 : tensor<3x16x16xf32>
  }
  func.func private @integer_pow(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
    return %arg0 : tensor<8x16xf32>
  }
}
