// The least value of a sum of costs, each of which depends on few variables, by eliminating one
// variable after another.
//
// Of a variable that is eliminated the tables that have it are added, and each cell keeps its least
// value over the variable: the answer is exact. It takes as much time and memory as its largest
// table, so variables whose table is small go first. (Nonserial dynamic programming: Bertele and
// Brioschi, 1972; bucket elimination: Dechter, Artificial Intelligence 113, 1999.)
//
// These functions keep nothing and may be called from any thread.
#ifndef GSHARD_CORE_AUTOSHARD_ELIMINATION_H_
#define GSHARD_CORE_AUTOSHARD_ELIMINATION_H_

#include <cstddef>
#include <optional>
#include <vector>

namespace gshard::autoshard {

// A cost for each choice of values of some variables.
struct CostTable {
  std::vector<int> variables;  // different ones
  std::vector<double> costs;   // by value of the first variable, then of the second ..
};

struct SumOfCosts {
  std::vector<int> sizes;  // number of values that each variable may have, at least 1
  std::vector<CostTable> tables;

  // Returns the sum for these values, one of each variable.
  double Of(const std::vector<int>& values) const;
};

struct LeastSum {
  std::vector<int> values;  // of each variable; where several are the least, small values
  double cost = 0;
};

// Nothing if that takes a table of more than `most_cells` cells.
std::optional<LeastSum> LeastByElimination(const SumOfCosts& sum, double most_cells);

}  // namespace gshard::autoshard

#endif  // GSHARD_CORE_AUTOSHARD_ELIMINATION_H_
