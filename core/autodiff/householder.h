// LAPACK's Householder factorisations written as loops over the reflectors, for their derivatives.
//
// H = I - tau v v^H with v = (0, .., 0, 1, x / (alpha - beta)); beta = -sign(re alpha) |(alpha,
// x)|, tau = (beta - alpha) / beta, and tau = 0 where there is nothing to reflect (LAPACK's larfg).
// Matrices are [batch, rows, columns].
#ifndef GSHARD_CORE_AUTODIFF_HOUSEHOLDER_H_
#define GSHARD_CORE_AUTODIFF_HOUSEHOLDER_H_

#include <vector>

#include "ir/builder.h"
#include "ir/diagnostic.h"

namespace gshard {

using ValuesOrError = Expected<std::vector<Instruction*>>;

// geqrf: a -> (R above, reflectors below; tau).
ValuesOrError QrFactor(Builder& builder, Instruction* a);
// orgqr: (reflectors, tau) -> the first columns of H_1 H_2 ..
ValuesOrError FormQ(Builder& builder, Instruction* reflectors, Instruction* tau);
// ormqr: op(Q) c or c op(Q).
ValuesOrError MultiplyByQ(Builder& builder, Instruction* reflectors, Instruction* tau,
                          Instruction* c, bool left, bool transpose);
// gehrd: a -> (Hessenberg above, reflectors below; tau). Rows `low` to `high`, counted from 1.
ValuesOrError HessenbergFactor(Builder& builder, Instruction* a, int64_t low, int64_t high);
// sytrd of the lower triangle of a: (reflectors, d, e, tau); d and e real.
ValuesOrError TridiagonalFactor(Builder& builder, Instruction* a);

}  // namespace gshard

#endif  // GSHARD_CORE_AUTODIFF_HOUSEHOLDER_H_
