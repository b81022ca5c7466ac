// Runs a function on several ranks, each a thread of this process.
#ifndef GSHARD_TESTS_RANKS_IN_PROCESS_H_
#define GSHARD_TESTS_RANKS_IN_PROCESS_H_

#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "backends/mpi/in_process_transport.h"
#include "backends/mpi/ranks.h"

namespace gshard {

// `body` must not use what other ranks use. An exception of one rank ends all and is passed on (the
// lowest rank's; of ranks that were only ended by another, none).
inline void RunOnRanks(int count, const std::function<void(mpi::Ranks&)>& body,
                       const mpi::RanksOptions& options = {},
                       const mpi::InProcessHosts& hosts = {}) {
  mpi::InProcessRanks office(count, hosts);
  std::vector<std::exception_ptr> errors(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int r = 0; r < count; ++r) {
    threads.emplace_back([&, r] {
      const std::unique_ptr<mpi::Transport> transport = office.MakeTransport(r);
      try {
        mpi::Ranks ranks(*transport, options);
        try {
          body(ranks);
        } catch (const mpi::RanksAborted&) {
          throw;
        } catch (...) {
          errors[static_cast<size_t>(r)] = std::current_exception();
          ranks.Abort(1);
        }
      } catch (const mpi::RanksAborted&) {
        if (errors[static_cast<size_t>(r)] == nullptr && count == 1) {
          errors[0] = std::current_exception();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error != nullptr) std::rethrow_exception(error);
  }
}

}  // namespace gshard

#endif  // GSHARD_TESTS_RANKS_IN_PROCESS_H_
