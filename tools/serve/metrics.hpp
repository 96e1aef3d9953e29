// What the server has done, in Prometheus' text format.
#pragma once

#include <map>
#include <string>

#include "tools/serve/worker.hpp"

namespace inlay::tools {

std::string metrics_of(const Worker::Counts& counts, const std::map<int, index>& requests);

}  // namespace inlay::tools
