// The two halves of `inlay plan`: sizes of captured plans, and steps of a prompt on several devices.
#pragma once

#include <string>

#include <inlay/core/view.hpp>

namespace inlay::tools {

struct PlanOptions {
  std::string model;
  // --buckets
  bool buckets = false, unfolded = false;
  std::string lengths;
  index domains = 0, largest = 512, count = 0;
  // --devices
  std::string devices, trace;
  index tokens = 1024, chunk = 256;
};

int plan_buckets(const PlanOptions& options);
int plan_devices(const PlanOptions& options);

}  // namespace inlay::tools
