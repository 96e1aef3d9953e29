// Indices out of range that kernels meet (core/backend.hpp has the rule). A kernel that reads an index gets one or more
// places, which say what the index is and what it must be; the first offence is claimed in device memory
// (support/offence.clh), and finish() makes a Status of it.
#pragma once

#include <CL/cl.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <inlay/core/status.hpp>

namespace inlay::cl {

// From where it was met and what it was to what a person reads. `at` and `value` are the kernel's.
using Describe = std::function<Status(std::int64_t at, std::int64_t value)>;

class Offences {
 public:
  explicit Offences(cl_mem record) : record_(record) {}
  Offences(const Offences&) = delete;
  ~Offences() { clReleaseMemObject(record_); }

  // What support/offence.clh writes.
  struct Record {
    cl_int claimed = 0, place = 0;
    cl_long at = 0, value = 0;
  };

  cl_int place(Describe describe) {
    places_.push_back(std::move(describe));
    return static_cast<cl_int>(places_.size()) - 1;
  }
  cl_mem memory() const { return record_; }
  // Numbers of places begin anew with the next wait: before there are more of them, somebody must wait. Between two
  // launches of one operator nobody may, which has places of its own.
  bool full() const { return places_.size() >= most_places; }

  // Around a wait: the record is asked for before, and what it holds kept behind. Then there are no places.
  cl_int ask(cl_command_queue queue);
  Status keep(cl_command_queue queue);
  // What was met first since the last time.
  Status tell() { return std::exchange(kept_, {}); }
  // The queue could not be waited for, and may still write what was asked for: that memory stays.
  void leave() { static_cast<void>(met_.release()); }

 private:
  static constexpr std::size_t most_places = 4096;

  cl_mem record_;
  std::unique_ptr<Record> met_ = std::make_unique<Record>();
  std::vector<Describe> places_;  // of the kernels since the last wait
  Status kept_;
};

}  // namespace inlay::cl
