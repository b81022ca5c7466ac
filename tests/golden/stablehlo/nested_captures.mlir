// RUN: gshard-opt print %s --format stablehlo -o %s.once; gshard-opt print %s.once --format stablehlo -o %s.twice; cmp %s.once %s.twice && cat %s.once; rm %s.once %s.twice
//
// Values that an inner loop passes on are in one order in both loops, that in which the inner one uses them, and stay so: the text is
// the same when it is printed once more.
module @m {
  func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>, %arg2: tensor<4xf32>, %arg3: tensor<i32>) -> tensor<4xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%k = %c, %x = %arg0) : tensor<i32>, tensor<4xf32>
    cond {
      %1 = stablehlo.compare LT, %k, %arg3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1:4 = stablehlo.while(%j = %k, %y = %x, %a = %arg1, %b = %arg2) : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
      cond {
        %2 = stablehlo.compare LT, %j, %arg3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %2 : tensor<i1>
      } do {
        %one = stablehlo.constant dense<1> : tensor<i32>
        %2 = stablehlo.add %j, %one : tensor<i32>
        %3 = stablehlo.multiply %y, %b : tensor<4xf32>
        %4 = stablehlo.add %3, %a : tensor<4xf32>
        stablehlo.return %2, %4, %a, %b : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
      }
      stablehlo.return %1#0, %1#1 : tensor<i32>, tensor<4xf32>
    }
    return %0#1 : tensor<4xf32>
  }
}
// CHECK: stablehlo.while({{.*}} = %arg3, {{.*}} = %arg2, {{.*}} = %arg1)
