// RUN: gshard-opt print %s
//
// Bytes that are no UTF-8 are printed as escapes.
module @m {
  func.func public @main(%arg0: tensor<8xi32>) -> tensor<8xi32> {
    // CHECK: backend_config="x\234\245\000\na\"b\\é"
    %0 = stablehlo.custom_call @f(%arg0) {api_version = 2 : i32, backend_config = "x\9C\A5\00\0Aa\22b\5Cé"} : (tensor<8xi32>) -> tensor<8xi32>
    return %0 : tensor<8xi32>
  }
}
// -----
// RUN: gshard-opt print %s --format stablehlo | gshard-opt print - --format stablehlo
module @m {
  func.func public @main(%arg0: tensor<8xi32>) -> tensor<8xi32> {
    // CHECK: backend_config = "x\9C\A5\00\0Aa\"b\\"
    %0 = stablehlo.custom_call @f(%arg0) {api_version = 2 : i32, backend_config = "x\9C\A5\00\0Aa\22b\5C"} : (tensor<8xi32>) -> tensor<8xi32>
    return %0 : tensor<8xi32>
  }
}
