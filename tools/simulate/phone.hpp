// The simulated phone: a Snapdragon 8 Gen 3 as HeteroLLM measured it (Chen et al., arXiv:2501.14794), and what a linear
// takes on its GPU and NPU. Everything here is an input; nothing is fitted to a figure that the page compares with.
#pragma once

#include <vector>

#include <inlay/exec/split/solver.hpp>

namespace inlay::tools {

struct Phone {
  double gpu_flops_a_us = 1e6;                        // section 2.2, table 2: 1 TFLOPS of 2.8 is reached
  double alone_bytes_a_us = 43.3e3;                   // sections 3.3 and 5.4: one processor
  double shared_bytes_a_us = 59.1e3;                  // both
  double submit_us = 15;                              // 10 to 20: a GPU kernel
  double empty_queue_us = 75;                         // 50 to 100 more, where the queue had run empty
  double finish_us = 400;                             // section 3.1: clFinish
  double poll_us = 5;                                 // section 4.3: the flag is polled for "a few microseconds"
  std::vector<index> graphs = {128, 256, 512, 1024};  // section 5.3.2: standard sizes
  double graph_build_us = 152e3, graph_build_us_a_token = 1.9e3;  // section 5.3.2: 408.4 ms at 135, 2050 ms at 1000

  double build_us(index tokens) const { return graph_build_us + graph_build_us_a_token * static_cast<double>(tokens); }
  // What a change of processor costs: of clFinish, or of fast synchronisation.
  double to_npu_us(bool fast) const { return fast ? poll_us : finish_us; }
  double to_gpu_us(bool fast) const { return submit_us + (fast ? 0 : empty_queue_us); }
};

// How a linear is given to the NPU: as x [tokens, k] times w [k, n], or exchanged, the larger tensor first.
enum class Order { given, exchanged };

// What a whole linear of these outputs and inputs takes, and parts of it in proportion to their outputs.
exec::LinearTime gpu_time(const Phone& phone, index outputs, index inputs);
exec::LinearTime npu_time(index outputs, index inputs, Order order);

}  // namespace inlay::tools
