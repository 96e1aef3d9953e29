// Who computes: an inlay_backend that is closed with its last user.
#pragma once

#include <memory>
#include <string>

#include <inlay.h>

namespace inlay::python {

struct Backend {
  std::string name;
  std::shared_ptr<inlay_backend> handle;
};

}  // namespace inlay::python
