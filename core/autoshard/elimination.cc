// See elimination.h.

#include "core/autoshard/elimination.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "ir/dims.h"

namespace gshard::autoshard {
namespace {

// The index of the cell for these values, one of each variable of the sum.
size_t CellOf(const std::vector<int>& variables, const std::vector<int>& sizes,
              const std::vector<int>& values) {
  size_t cell = 0;
  for (const int variable : variables) {
    cell =
        cell * static_cast<size_t>(sizes[At(variable)]) + static_cast<size_t>(values[At(variable)]);
  }
  return cell;
}

// Counts through all values of some variables, the last one fastest.
class Odometer {
 public:
  Odometer(const SumOfCosts& sum, const std::vector<int>& variables)
      : sum_(sum), variables_(variables), digits_(variables.size(), 0) {}

  // Steps that an index into `table` takes when each of the variables steps by one: 0 for those
  // that it does not have.
  std::vector<size_t> StridesIn(const CostTable& table) const {
    std::vector<size_t> strides(variables_.size(), 0);
    size_t stride = 1;
    for (size_t i = table.variables.size(); i-- > 0;) {
      const auto at = std::ranges::find(variables_, table.variables[i]);
      if (at != variables_.end()) strides[static_cast<size_t>(at - variables_.begin())] = stride;
      stride *= static_cast<size_t>(sum_.sizes[At(table.variables[i])]);
    }
    return strides;
  }

  // Goes on to the next values and moves indices into tables of these strides along.
  void Next(const std::vector<std::vector<size_t>>& strides, std::vector<size_t>& indices) {
    for (size_t i = variables_.size(); i-- > 0;) {
      const auto size = static_cast<size_t>(sum_.sizes[At(variables_[i])]);
      const bool wraps = ++digits_[i] == size;
      for (size_t t = 0; t < indices.size(); ++t) {
        if (wraps) {
          indices[t] -= (size - 1) * strides[t][i];
        } else {
          indices[t] += strides[t][i];
        }
      }
      if (!wraps) return;
      digits_[i] = 0;
    }
  }

 private:
  const SumOfCosts& sum_;
  const std::vector<int>& variables_;
  std::vector<size_t> digits_;
};

class Elimination {
 public:
  Elimination(const SumOfCosts& sum, double most_cells)
      : sum_(sum), most_cells_(most_cells), tables_(sum.tables) {}

  std::optional<LeastSum> Run() {
    std::set<int> left;
    for (int v = 0; v < static_cast<int>(sum_.sizes.size()); ++v) left.insert(v);
    while (!left.empty()) {
      const auto next = std::ranges::min_element(
          left, {}, [&](int variable) { return Cells(NeighboursOf(variable)); });
      if (Cells(NeighboursOf(*next)) * sum_.sizes[At(*next)] > most_cells_) return std::nullopt;
      Eliminate(*next);
      left.erase(next);
    }
    LeastSum least{std::vector<int>(sum_.sizes.size(), 0), 0};
    for (size_t i = eliminated_.size(); i-- > 0;) {
      const Eliminated& one = eliminated_[i];
      least.values[At(one.variable)] = one.best[CellOf(one.others, sum_.sizes, least.values)];
    }
    least.cost = sum_.Of(least.values);
    return least;
  }

 private:
  // A variable, and its best value for all values of those it had tables with.
  struct Eliminated {
    int variable = 0;
    std::vector<int> others;
    std::vector<int> best;
  };

  std::vector<int> NeighboursOf(int variable) const {
    std::set<int> others;
    for (const CostTable& table : tables_) {
      if (std::ranges::find(table.variables, variable) == table.variables.end()) continue;
      others.insert(table.variables.begin(), table.variables.end());
    }
    others.erase(variable);
    return {others.begin(), others.end()};
  }

  double Cells(const std::vector<int>& variables) const {
    double cells = 1;
    for (const int variable : variables) cells *= sum_.sizes[At(variable)];
    return cells;
  }

  void Eliminate(int variable) {
    Eliminated one{variable, NeighboursOf(variable), {}};
    const auto has_it = [&](const CostTable& table) {
      return std::ranges::find(table.variables, variable) != table.variables.end();
    };
    std::vector<CostTable> own;
    std::ranges::copy_if(tables_, std::back_inserter(own), has_it);
    std::erase_if(tables_, has_it);
    std::vector<int> order = one.others;
    order.push_back(variable);
    Odometer odometer(sum_, order);
    std::vector<std::vector<size_t>> strides;
    for (const CostTable& table : own) strides.push_back(odometer.StridesIn(table));
    std::vector<size_t> indices(own.size(), 0);
    const auto cells = static_cast<size_t>(Cells(one.others));
    CostTable least{one.others, std::vector<double>(cells)};
    one.best.resize(cells);
    for (size_t cell = 0; cell < cells; ++cell) {
      double best = std::numeric_limits<double>::infinity();
      for (int value = 0; value < sum_.sizes[At(variable)]; ++value) {
        double cost = 0;
        for (size_t t = 0; t < own.size(); ++t) cost += own[t].costs[indices[t]];
        if (cost < best) {
          best = cost;
          one.best[cell] = value;
        }
        odometer.Next(strides, indices);
      }
      least.costs[cell] = best;
    }
    tables_.push_back(std::move(least));
    eliminated_.push_back(std::move(one));
  }

  const SumOfCosts& sum_;
  const double most_cells_;
  std::vector<CostTable> tables_;
  std::vector<Eliminated> eliminated_;
};

}  // namespace

double SumOfCosts::Of(const std::vector<int>& values) const {
  double cost = 0;
  for (const CostTable& table : tables) cost += table.costs[CellOf(table.variables, sizes, values)];
  return cost;
}

std::optional<LeastSum> LeastByElimination(const SumOfCosts& sum, double most_cells) {
  return Elimination(sum, most_cells).Run();
}

}  // namespace gshard::autoshard
