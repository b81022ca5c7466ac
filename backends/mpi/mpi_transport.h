// The transport over MPI, by its C interface; compiled where there is an MPI (GSHARD_MPI).
#ifndef GSHARD_BACKENDS_MPI_MPI_TRANSPORT_H_
#define GSHARD_BACKENDS_MPI_MPI_TRANSPORT_H_

#include <memory>
#include <string>

#include "backends/mpi/transport.h"

namespace gshard::mpi {

class MpiTransport;

// MPI from here to the end of this object, which must be the only one. Without mpirun: one rank.
class MpiSession {
 public:
  MpiSession(int* argc, char*** argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  Transport& transport();
  // Lets ranks of one host see this much memory of one another: all ranks call it, before messages
  // are sent. Those that cannot go on without.
  void ShareMemory(size_t bytes);
  // "Open MPI v4.1.4", for messages.
  const std::string& library() const { return library_; }

 private:
  std::unique_ptr<MpiTransport> transport_;
  std::string library_;
};

}  // namespace gshard::mpi

#endif  // GSHARD_BACKENDS_MPI_MPI_TRANSPORT_H_
